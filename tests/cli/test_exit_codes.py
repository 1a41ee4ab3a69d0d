"""The exit code says yes, no, wrong input, not countable or something missing; errors are two lines."""

from __future__ import annotations

import sys
from unittest.mock import patch

import pytest

from kvplan.cli import COMMANDS

from .conftest import process, refused, run


@pytest.mark.parametrize(
    "arguments",
    [
        ("size", "llama-3.1-70b", "--ctx", "128k"),
        ("size", "llama-3.1-8b", "--ctx", "8k", "--gpu", "h100"),
        ("fit", "llama-3.1-8b", "--ctx", "8k", "--gpu", "h100"),
        ("models", "llama"),
        ("gpus", "h100"),
        ("engines",),
        ("formats",),
        ("show", "llama-3.1-70b"),
        ("--version",),
        ("--help",),
    ],
    ids=" ".join,
)
def test_an_answer_exits_0(arguments: tuple[str, ...]) -> None:
    """Answered, and what was asked to fit, fits."""
    answer = run(*arguments)
    assert 0 == answer.code, answer.err
    assert answer.out


@pytest.mark.parametrize(
    "arguments",
    [
        ("size", "llama-3.1-70b", "--ctx", "128k", "--gpu", "h100"),
        ("size", "llama-3.1-8b", "--ctx", "8k", "--available-bytes", "1000"),
        ("size", "llama-3.1-8b", "llama-3.1-70b", "--ctx", "8k", "--gpu", "h100"),
        ("fit", "llama-3.1-70b", "--ctx", "128k", "--gpu", "h100"),
        ("models", "no-such-thing-at-all"),
        ("gpus", "no-such-thing-at-all"),
    ],
    ids=" ".join,
)
def test_a_no_exits_1_and_still_answers(arguments: tuple[str, ...]) -> None:
    """The verdict is no: the report is on stdout all the same, and no error is on stderr."""
    answer = run(*arguments, "--quiet")
    assert (1, "") == (answer.code, answer.err)
    assert answer.out


WRONG = [
    ("size", "lama-70b"),
    ("size", "meta-llama/No-Such-Model"),
    ("size", "no/such/folder/spec.yaml"),
    ("size", "llama-70b", "--ctx", "8kk"),
    ("size", "llama-70b", "--ctx", "0"),
    ("size", "llama-70b", "--ctx", "8k,,32k"),
    ("size", "llama-70b", "--ctx", ""),
    ("size", "llama-70b", "--ctx", "0.5"),
    ("size", "llama-70b", "--batch", "1.5"),
    ("size", "llama-70b", "--batch", "0"),
    ("size", "llama-70b", "--kv-dtype", "fp9"),
    ("size", "llama-70b", "--kv-dtype", "fp8", "--k-dtype", "fp8"),
    ("size", "deepseek-v3", "--k-dtype", "fp8", "--v-dtype", "bf16"),
    ("size", "llama-70b", "--policy", "keep-it-all"),
    ("size", "llama-70b", "--policy", "h2o"),
    ("size", "llama-70b", "--policy", "h2o:budget=2"),
    ("size", "llama-70b", "--tp", "8", "--dcp", "3"),
    ("size", "llama-70b", "--pp", "81"),
    ("size", "llama-70b", "--ctx", "1k", "--prefix", "2k"),
    ("size", "llama-70b", "--encoder-tokens", "100"),
    ("size", "llama-70b", "--engine", "vlm"),
    ("size", "llama-70b", "--engine", "ideal@99"),
    ("size", "llama-70b", "--engine", "ideal", "-E", "block_size=x"),
    ("size", "llama-70b", "--engine", "ideal", "-E", "blocks=16"),
    ("size", "llama-70b", "--gpu", "h1000"),
    ("size", "llama-70b", "--gpu", "80G"),
    ("size", "llama-70b", "--gpu", "h100", "--tp", "4", "--count", "6"),
    ("size", "llama-70b", "--gpu", "h100", "--pp", "2", "--count", "3"),
    ("size", "llama-70b", "--gpu", "h100", "--utilization", "1.5"),
    ("size", "llama-70b", "--gpu", "h100", "--utilization", "0"),
    ("size", "llama-70b", "--gpu", "h100", "--utilization", "1/2"),
    ("size", "llama-70b", "--gpu", "h100", "--weights", "bf61"),
    ("size", "llama-70b", "--gpu", "h100", "--ep", "8"),
    ("size", "llama-70b", "--available-bytes", "lots"),
    ("size", "llama-70b", "--reserve", "1G"),
    ("size", "llama-70b", "--draft", "llama-3.2-1b"),
    ("size", "llama-70b", "--unit", "TB"),
    ("size", "llama-70b", "--format", "yaml"),
    ("size", "llama-70b", "--specs", "no/such/folder"),
    ("size", "llama-70b", "--layers", "2", "--kv-heads", "8", "--head-dim", "128"),
    ("size", "--layers", "2"),
    ("size", "--layers", "2", "--kv-heads", "8", "--head-dim", "128", "--heads", "12", "--ctx", "1k"),
    ("size", "--layers", "2", "--kv-heads", "8", "--head-dim", "128", "--dtype", "fp4", "--ctx", "1k"),
    ("size", "--layers", "2", "--kv-heads", "8", "--head-dim", "128"),
    ("size",),
    ("size", "llama-70b", "--nonsense"),
    ("size", "llama-70b", "--ctx"),
    ("fit", "llama-70b"),
    ("fit", "lama-70b", "--gpu", "h100"),
    ("show", "no-such-thing"),
    ("models", "--format", "xml"),
    ("gpu",),
    ("frobnicate",),
    ("--nonsense",),
]


@pytest.mark.parametrize("arguments", WRONG, ids=" ".join)
def test_wrong_input_exits_2_with_two_lines(arguments: tuple[str, ...]) -> None:
    """What is wrong, then the likeliest fix; nothing on stdout."""
    refused(run(*arguments), 2)


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        (("size", "gemma-3-27b", "--ctx", "8k", "--mtp", "1"), "draft"),
        (("size", "llama-70b", "--ctx", "8k", "--gpu", "mi455x"), "memory.total_bytes"),
        (("fit", "llama-70b", "--ctx", "8k", "--gpu", "mi455x"), "memory.total_bytes"),
    ],
    ids=["mtp on mixed layers", "size on an unknown total", "fit on an unknown total"],
)
def test_what_cannot_be_counted_exits_3_and_names_the_field(arguments: tuple[str, ...], field: str) -> None:
    """kvplan never guesses: it says which field it lacks."""
    assert field in refused(run(*arguments), 3)


def test_an_unknown_attention_type_exits_3(tmp_path: object) -> None:
    """A mechanism kvplan has no formula for is not countable, and the error names the type."""
    spec = f"{tmp_path}/new.yaml"
    with open(spec, "w", encoding="utf-8") as file:  # noqa: PTH123  # one line
        file.write("name: new\nlayers: 2\nattention: {type: telepathy, heads: 4}\n")
    error = refused(run("size", spec, "--ctx", "1k"), 3)
    assert "telepathy" in error
    assert "attention" in error


def test_a_missing_nvml_client_exits_4_with_the_command_that_installs_it() -> None:
    """`--gpu local` needs an optional package."""
    with patch.dict(sys.modules, {"pynvml": None}):
        assert "pip install 'kvplan[measure]'" in refused(run("size", "llama-70b", "--ctx", "8k", "--gpu", "local"), 4)


@pytest.mark.parametrize(
    ("arguments", "code", "begins"),
    [
        (("size", "llama-70b", "--ctx", "128k"), 0, ""),
        (("size", "llama-70b", "--ctx", "8k", "--gpu", "h100", "-q"), 1, ""),
        (("size", "lama-70b"), 2, "error: "),
        (("size", "gemma-3-27b", "--mtp", "1"), 3, "error: "),
    ],
    ids=["yes", "no", "wrong", "not countable"],
)
def test_the_process_exits_with_the_same_codes(arguments: tuple[str, ...], code: int, begins: str) -> None:
    """What a shell sees is what the command says."""
    done = process(*arguments)
    assert code == done.returncode, done.stderr
    assert done.stderr.decode().startswith(begins)
    assert (code in (0, 1)) == bool(done.stdout)


@pytest.mark.parametrize("arguments", [(), ("show",)], ids=["kvplan", "kvplan show"])
def test_a_command_without_arguments_shows_its_help_and_exits_2(arguments: tuple[str, ...]) -> None:
    """As ruff and uv do: the help page, on stderr, since nothing was answered."""
    answer = run(*arguments)
    assert (2, "") == (answer.code, answer.out)
    assert answer.err.lower().startswith("usage: kvplan")
    assert "\\n" not in answer.err


def test_ctrl_c_exits_130_quietly() -> None:
    """An interrupted run leaves no traceback."""
    with patch("kvplan.sizing.subject", side_effect=KeyboardInterrupt):
        answer = run("size", "llama-70b", "--ctx", "8k")
    assert (130, "", "") == answer


@pytest.mark.parametrize(
    ("typed", "names"),
    [
        (("size", "lama-3.1-70b"), "llama-3.1-70b"),
        (("size", "qwen3-23b"), "qwen3-32b"),
        (("size", "llama-70b", "--gpu", "h100-sxm-80"), None),
        (("size", "llama-70b", "--gpu", "h100-sxm-90gb"), "h100-sxm-80gb"),
        (("size", "llama-70b", "--kv-dtype", "fp88"), "fp8"),
        (("size", "llama-70b", "--engine", "transformer"), "transformers"),
        (("size", "llama-70b", "--weights", "q4_k"), "q4_k_m"),
        (("size", "llama-70b", "--format", "jsn"), "json"),
        (("size", "llama-70b", "--batches", "2"), "--batch"),
        (("model", "qwen"), "models"),
        (("show", "llama-3.1-71b"), "llama-3.1-70b"),
        (("show", "h100-sxm-90gb"), "h100-sxm-80gb"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else str(value),
)
def test_an_unknown_word_gets_its_neighbours(typed: tuple[str, ...], names: str | None) -> None:
    """The fix line names at most three known words, the nearest among them."""
    answer = run(*typed)
    if names is None:
        assert 2 != answer.code, "an alias, not a typing error"
        return
    fix = refused(answer, 2).splitlines()[1]
    assert names in fix
    assert fix.count(",") <= 2


@pytest.mark.parametrize("name", COMMANDS)
def test_help_mentions_every_option(name: str) -> None:
    """`kvplan COMMAND --help` names each option that the command takes."""
    from typer.main import get_command

    from kvplan.cli import app

    group = get_command(app)
    command = group.get_command(None, name)  # type: ignore[attr-defined]
    answer = run(name, "--help", env={"COLUMNS": "200"})
    assert 0 == answer.code
    words = answer.out.replace(",", " ").replace("|", " ").split()
    missing = [option for p in command.params for option in p.opts if option.startswith("-") and option not in words]
    assert [] == missing


def test_the_help_page_lists_every_command() -> None:
    """Each command has its line of help."""
    answer = run("--help")
    listed = [line.split()[0] for line in answer.out.splitlines() if line.startswith("  ") and line.split()]
    assert set(COMMANDS) <= set(listed)


def test_the_version_is_one_line() -> None:
    """`kvplan --version` prints the name and a version, installed or from a checkout."""
    answer = run("--version")
    assert (0, "") == (answer.code, answer.err)
    name, version = answer.out.split()
    assert "kvplan" == name
    assert version[0].isdigit()
