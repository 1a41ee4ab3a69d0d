"""On a terminal and in a pipe: width, colour, broken pipes."""

from __future__ import annotations

import os
import pty
import re
import select
import subprocess

import pytest

from .conftest import PLAIN, REPOSITORY, command, process, run

ESCAPE = re.compile(r"\x1b\[[0-9;]*m")
TABLES = [
    ("size", "llama-3.1-70b", "--ctx", "128k", "--gpu", "h100", "-q"),
    ("size", "gemma-3-27b", "llama-3.1-70b", "deepseek-v3", "--ctx", "8k,128k", "-q"),
    ("fit", "llama-3.1-8b", "qwen3-32b", "--gpu", "h100,rtx-pro-6000-workstation", "--ctx", "8k", "-q"),
    ("models", "llama", "-q"),
    ("gpus", "-q"),
    ("formats", "-q"),
]


@pytest.mark.parametrize("arguments", TABLES, ids=" ".join)
@pytest.mark.parametrize("width", [80, 200])
def test_a_table_loses_no_name_and_no_digit(arguments: tuple[str, ...], width: int) -> None:
    """Text wraps between words to fit the terminal; where even that is too wide, the line is, and nothing is cut."""
    out = run(*arguments, env={"COLUMNS": str(width)}).out
    whole = run(*arguments, env={"COLUMNS": "1000"}).out
    assert sorted(out.split()) == sorted(whole.split())


@pytest.mark.parametrize("arguments", TABLES, ids=" ".join)
@pytest.mark.parametrize("width", [80, 200])
def test_a_piped_table_has_no_trailing_spaces_and_no_escapes(arguments: tuple[str, ...], width: int) -> None:
    """It survives a pipe, a diff and a commit."""
    out = run(*arguments, env={"COLUMNS": str(width)}).out
    assert [] == [line for line in out.splitlines() if line != line.rstrip()]
    assert "\x1b" not in out


def test_the_numbers_of_a_column_end_under_each_other() -> None:
    """Right-aligned numbers share their last column with the header."""
    out = run("size", "llama-3.1-70b", "--ctx", "128k", "-q").out.splitlines()
    start = next(i for i, line in enumerate(out) if line.startswith("tensor"))
    table = out[start : start + 4]
    assert {len(table[0])} == {len(line) for line in table}
    rows_end = table[0].index("rows") + len("rows")
    assert ["128,000", "128,000"] == [line[:rows_end].split()[-1] for line in table[1:3]]


def test_a_narrow_terminal_folds_and_keeps_every_digit() -> None:
    """Twenty columns are too few for any table; the answer still stands there in full."""
    out = run("size", "llama-3.1-70b", "--ctx", "128k", "-q", env={"COLUMNS": "20"}).out
    assert "41943040000" in re.sub(r"[\s,]", "", out)


def test_colour_comes_only_with_a_terminal() -> None:
    """A terminal gets escape codes around the same words that a pipe gets plain."""
    shown = run("size", "llama-3.1-70b", "--ctx", "128k", "-q", tty=True)
    piped = run("size", "llama-3.1-70b", "--ctx", "128k", "-q")
    assert ESCAPE.search(shown.out)
    assert piped.out == ESCAPE.sub("", "\n".join(line.rstrip() for line in shown.out.split("\n"))).replace(" \n", "\n")


@pytest.mark.parametrize(
    ("arguments", "env"),
    [
        (("--no-color",), {}),
        ((), {"NO_COLOR": "1"}),
        ((), {"TERM": "dumb"}),
        (("--format", "json"), {}),
        (("--format", "csv"), {}),
    ],
    ids=["--no-color", "$NO_COLOR", "TERM=dumb", "json", "csv"],
)
def test_colour_can_be_declined_on_a_terminal(arguments: tuple[str, ...], env: dict[str, str]) -> None:
    """By option, by variable, by a terminal that has none; data formats never carry any."""
    assert "\x1b" not in run("size", "llama-3.1-70b", "--ctx", "128k", *arguments, env=env, tty=True).out


def test_a_real_terminal_shows_colour_and_a_pipe_does_not() -> None:
    """The same command through a pseudo-terminal and through a pipe."""
    leader, follower = pty.openpty()
    env = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "FORCE_COLOR")} | PLAIN
    child = subprocess.Popen(  # kvplan itself
        command("size", "llama-3.1-70b", "--ctx", "128k"),
        stdout=follower,
        stderr=follower,
        stdin=follower,
        env=env,
        cwd=REPOSITORY,
    )
    os.close(follower)
    seen = b""
    while select.select([leader], [], [], 60)[0]:
        try:
            chunk = os.read(leader, 65536)
        except OSError:  # Linux says so when the last writer has left
            break
        if not chunk:
            break
        seen += chunk
    os.close(leader)
    assert 0 == child.wait(timeout=60)
    assert b"\x1b[" in seen
    assert b"41,943,040,000" in seen
    assert b"\x1b" not in process("size", "llama-3.1-70b", "--ctx", "128k").stdout


def test_a_reader_that_leaves_early_is_no_error() -> None:
    """`kvplan gpus | head -1`: one line, no complaint."""
    line = f"{' '.join(command('gpus', '-q'))} | head -1; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", line], capture_output=True, cwd=REPOSITORY, timeout=60, check=False)
    assert (0, b"", 1) == (done.returncode, done.stderr, len(done.stdout.splitlines()))


def test_a_reader_that_is_gone_before_the_answer_is_no_error() -> None:
    """A pipe whose other end is closed already."""
    read, write = os.pipe()
    os.close(read)
    child = subprocess.run(  # kvplan itself
        command("models", "-q"), stdout=write, stderr=subprocess.PIPE, cwd=REPOSITORY, timeout=60, check=False
    )
    os.close(write)
    assert (0, b"") == (child.returncode, child.stderr)


def test_a_full_disk_behind_stdout_is_an_error_and_no_traceback() -> None:
    """/dev/full takes nothing: two lines and exit 2."""
    with open("/dev/full", "wb") as full:  # noqa: PTH123  # a device
        child = subprocess.run(  # kvplan itself
            command("gpus", "-q"), stdout=full, stderr=subprocess.PIPE, cwd=REPOSITORY, timeout=60, check=False
        )
    assert 2 == child.returncode
    assert b"Traceback" not in child.stderr
    assert 2 == len(child.stderr.splitlines())


def test_a_terminal_that_knows_only_ascii_still_gets_its_answer() -> None:
    """A letter it cannot show is replaced, not fatal."""
    done = process("gpus", "--format", "json", env={"PYTHONIOENCODING": "ascii"})
    assert 0 == done.returncode, done.stderr
    assert done.stdout.isascii()
