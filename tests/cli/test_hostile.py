"""Whatever a stranger hands over: two clean lines and the right code, in bounded time, never a traceback."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from .conftest import process, refused, row, run

GOOD = b"name: mine\nlayers: 2\nattention: {type: mqa, heads: 4, kv_heads: 1, head_dim: 64}\n"
BOMB = b"a: &a [x, x]\nb: &b [*a, *a]\nc: [*b, *b]\n"


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    """Where a test puts its spec."""
    return tmp_path / "spec.yaml"


FILES = {
    "alias bomb": BOMB,
    "merge key": b"a: &a {b: c}\nd: {<<: *a}\n",
    "python tag": b"name: !!python/object/apply:os.system ['true']\n",
    "local tag": b"name: !x y\n",
    "tag directives": b"%TAG ! tag:x,2000:\n" * 1000 + b"--- a\n",
    "deep flow": b"name: " + b"[" * 100_000,
    "deep mapping": b"{a: " * 10_000,
    "deep block": b"".join(b" " * i + b"a:\n" for i in range(1000)),
    "a million values": b"layers: [" + b"1," * 500_000 + b"1]\n",
    "too large": b"# " + b"x" * 2**21,
    "two documents": GOOD + b"---\n" + GOOD,
    "key twice": GOOD + b"layers: 3\n",
    "not a mapping": b"- 1\n- 2\n",
    "a word": b"hello\n",
    "empty": b"",
    "only a comment": b"# nothing\n",
    "null": b"null\n",
    "a number": b"5\n",
    "binary": bytes(range(256)),
    "NUL bytes": b"name: a\0b\n",
    "latin-1": "name: caf\u00e9\n".encode("latin-1"),
    "utf-16": GOOD.decode().encode("utf-16"),
    "elf": b"\x7fELF\x02\x01\x01" + b"\0" * 1000,
    "gzip": b"\x1f\x8b\x08\x00" + b"\x00" * 100,
    "unclosed": b"name: [a\n",
    "tabs": b"name:\n\t- a\n",
    "unknown key": GOOD + b"colour: red\n",
    "unknown key with markup": GOOD + b"'[red]\\x1b[31mx[/red]': 1\n",
    "escape in name": b'name: "a\\x1b[31mred"\n' + GOOD.partition(b"\n")[2],
    "markup in name": b'name: "[red]mine[/red]"\n' + GOOD.partition(b"\n")[2],
    "newline in name": b'name: "a\\nb"\n' + GOOD.partition(b"\n")[2],
    "direction in name": 'name: "a\u202eb"\n'.encode() + GOOD.partition(b"\n")[2],
    "long name": b"name: " + b"a" * 500_000 + b"\n" + GOOD.partition(b"\n")[2],
    "huge integer": GOOD.replace(b"layers: 2", b"layers: " + b"9" * 5000),
    "large integer": GOOD.replace(b"layers: 2", b"layers: 99999999999999999999999"),
    "negative layers": GOOD.replace(b"layers: 2", b"layers: -2"),
    "no layers": GOOD.replace(b"layers: 2", b"layers: 0"),
    "half a layer": GOOD.replace(b"layers: 2", b"layers: 2.5"),
    "boolean layers": GOOD.replace(b"layers: 2", b"layers: true"),
    "infinite width": GOOD.replace(b"head_dim: 64", b"head_dim: .inf"),
    "huge width": GOOD.replace(b"head_dim: 64", b"head_dim: 9999999999999999"),
    "contradiction": GOOD.replace(b"kv_heads: 1", b"kv_heads: 2"),
    "text for a mapping": b"name: mine\nlayers: 2\nattention: full\n",
    "pattern of strangers": b"name: m\nlayers: 2\npattern: [x]\nattention: {y: {type: none}}\n",
    "date": b"name: 2001-01-01\n",
}


@pytest.mark.parametrize("name", FILES)
def test_a_hostile_spec_is_refused_in_two_lines(spec: Path, name: str) -> None:
    """Bombs, tags, depth, wrong encodings, wrong types: exit 2, and the file is named."""
    spec.write_bytes(FILES[name])
    assert "spec.yaml" in refused(run("size", str(spec), "--ctx", "1k"), 2)


@pytest.mark.parametrize(
    "name", ["alias bomb", "python tag", "deep flow", "too large", "binary", "empty", "escape in name"]
)
def test_a_hostile_gpu_is_refused_in_two_lines(spec: Path, name: str) -> None:
    """A card's file is read with the same bounds."""
    spec.write_bytes(FILES[name])
    assert "spec.yaml" in refused(run("size", "gpt-2", "--gpu", str(spec)), 2)


@pytest.mark.parametrize("name", ["alias bomb", "deep flow", "binary", "unknown key with markup", "escape in name"])
def test_a_hostile_file_in_a_folder_of_ones_own_is_named_when_listed(spec: Path, name: str) -> None:
    """`kvplan models` says which file is at fault; other models still answer."""
    spec.write_bytes(FILES[name])
    assert "spec.yaml" in refused(run("models", "--specs", str(spec.parent)), 2)
    assert 0 == run("size", "gpt-2", "--specs", str(spec.parent)).code


@pytest.mark.parametrize(
    "text", [b"\xef\xbb\xbf" + GOOD, GOOD.replace(b"\n", b"\r\n"), GOOD + b"...\n", b"---\n" + GOOD]
)
def test_what_editors_do_to_a_file_is_harmless(spec: Path, text: bytes) -> None:
    """A byte-order mark, Windows line ends, document marks."""
    spec.write_bytes(text)
    assert 2 * 2 * 64 * 2 * 1000 == row("size", str(spec), "--ctx", "1k")["total_bytes"]


def test_markup_in_free_text_is_shown_as_it_is(spec: Path) -> None:
    """Notes of a stranger neither colour the page nor vanish from it."""
    spec.write_bytes(GOOD + b'notes: "[red]hot[/red] [link=http://x]y[/link] \\x1b[31m"\n')
    out = run("show", str(spec), tty=True, env={"NO_COLOR": "1"}).out
    assert "[red]hot[/red]" in out.replace("\n", " ")
    assert "\x1b" not in out


@pytest.mark.parametrize("kind", ["fifo", "folder", "missing", "loop", "socket folder"])
def test_a_special_file_never_hangs(spec: Path, kind: str) -> None:
    """A fifo without a writer, a folder, nothing, a loop of links."""
    if kind == "fifo":
        os.mkfifo(spec)
    elif kind in ("folder", "socket folder"):
        spec.mkdir()
    elif kind == "loop":
        spec.symlink_to(spec)
    refused(run("size", str(spec)), 2)
    refused(run("show", str(spec)), 2)
    refused(run("size", "gpt-2", "--gpu", str(spec)), 2)


@pytest.mark.parametrize("path", ["/dev/zero", "/dev/null", "/dev/stdin", "/", "/proc/self/mem", "~nobody/x.yaml", "."])
def test_a_device_is_no_spec(path: str) -> None:
    """Endless or empty, it is refused at once."""
    refused(run("size", path), 2)


def test_a_fifo_in_a_folder_of_ones_own_never_hangs(tmp_path: Path) -> None:
    """Looking for a name opens no pipe and waits for nobody."""
    os.mkfifo(tmp_path / "a.yaml")
    (tmp_path / "mine.yaml").write_bytes(GOOD)
    assert 2 == row("size", "mine", "--ctx", "1k", "--specs", str(tmp_path))["parts"][0]["layers"]


def test_unreadable_specs_are_refused(spec: Path) -> None:
    """A file without permission, where permission counts at all."""
    spec.write_bytes(GOOD)
    spec.chmod(0)
    answer = run("size", str(spec), "--ctx", "1k")
    if os.geteuid():
        refused(answer, 2)
    else:
        assert 0 == answer.code, "root reads everything"


NASTY = [
    "\x1b[31mred\x1b[0m",
    "[red]x[/red]",
    "x" * 2**20,
    "a\nb",
    "a\0b",
    "\u202e",
    "\ud800",
    "%s%n",
    "../../etc/passwd",
    "-",
    "'",
    '"',
    "\\",
    "é",
    "😀",
]
OPTIONS = ["--ctx", "--batch", "--kv-dtype", "--policy", "--tp", "--gpu", "--engine", "-E", "--weights", "--available-bytes",
           "--reserve", "--draft", "--specs", "--format", "--unit", "--count", "--utilization", "--prefix", "--index-dtype", "--mtp"]  # fmt: skip


@pytest.mark.parametrize("text", NASTY, ids=lambda text: ascii(text[:20]))
def test_a_nasty_name_is_quoted_safely(text: str) -> None:
    """Escapes, markup, megabytes, control and direction characters, lone surrogates: printed harmlessly."""
    for arguments in (("size", text), ("show", text), ("fit", "gpt-2", "--gpu", text), (text,)):
        refused(run(*arguments), 2)


@pytest.mark.parametrize("option", OPTIONS)
@pytest.mark.parametrize(
    "text", [*NASTY[:3], NASTY[4], "", ",", "nan", "1e999", "٣", "9" * 5000], ids=lambda text: ascii(text[:12])
)
def test_a_nasty_option_is_refused_in_two_lines(option: str, text: str) -> None:
    """Every option that reads a value checks it."""
    answer = run("size", "llama-3.1-8b", option, text, *(() if option == "--ctx" else ("--ctx", "1k")))
    if option == "-E" and answer.code == 0:
        pytest.fail("an engine option of no name was taken")
    if option == "--specs" and text in ("", ","):
        return
    refused(answer, 2)


ABSURD = [
    ("--ctx", "999999999999999999999"),
    ("--ctx", "-1"),
    ("--ctx", "1e5"),
    ("--ctx", "1" + "0" * 400),
    ("--batch", "-1"),
    ("--batch", "99999999999999999999"),
    ("--tp", "0"),
    ("--tp", "-8"),
    ("--tp", "999999999999"),
    ("--pp", "999999"),
    ("--dcp", "0"),
    ("--ep", "0"),
    ("--dp", "-1"),
    ("--mtp", "-1"),
    ("--mtp", "99999999"),
    ("--count", "0"),
    ("--prefix", "-5"),
    ("--encoder-tokens", "0"),
    ("--available-bytes", "1" + "0" * 30),
    ("--available-bytes", "-1"),
    ("--reserve", "-1GiB"),
    ("--weights", "1" + "0" * 40),
    ("--utilization", "1e-5"),
    ("--utilization", "-0.5"),
    ("--utilization", "0." + "9" * 100),
]


@pytest.mark.parametrize(("option", "text"), ABSURD)
def test_an_absurd_number_is_refused(option: str, text: str) -> None:
    """Negative, zero where nothing makes sense, or larger than any machine."""
    refused(run("size", "llama-3.1-8b", option, text, *(() if option == "--ctx" else ("--ctx", "1k"))), 2)


@pytest.mark.parametrize("axis", ["--ctx", "--batch", "--kv-dtype", "--gpu", "--tp"])
def test_a_list_of_a_million_values_is_refused(axis: str) -> None:
    """Too many rows are told before any is counted."""
    value = {"--kv-dtype": "bf16", "--gpu": "h100"}.get(axis, "1")
    refused(run("size", "gpt-2", axis, ",".join([value] * 1_000_000)), 2)


def test_lists_that_multiply_past_bounds_are_refused() -> None:
    """200 x 200 rows are more than anybody reads."""
    many = ",".join(map(str, range(1, 201)))
    assert "40,000 combinations" in refused(run("size", "gpt-2", "--ctx", many, "--batch", many), 2)


@given(st.lists(st.text(max_size=40), min_size=1, max_size=5))
def test_no_command_line_ends_in_a_traceback(words: list[str]) -> None:
    """Any words at all: an answer or two lines."""
    answer = run("size", *words)
    assert answer.code in (0, 1, 2, 3, 4)
    assert answer.code in (0, 1) or answer.err


def test_a_nul_byte_in_a_path_is_refused(tmp_path: Path) -> None:
    """No shell passes one, but Python and YAML can."""
    for place in (
        ("size", f"{tmp_path}/a\0b.yaml"),
        ("size", "gpt-2", "--gpu", "a\0.yaml"),
        ("size", "gpt-2", "--specs", "\0"),
    ):
        refused(run(*place), 2)


def test_a_megabyte_argument_is_refused_by_the_process_too() -> None:
    """One hundred thousand bytes of name, as long as the system passes."""
    done = process("size", "x" * 100_000)
    assert 2 == done.returncode
    assert b"Traceback" not in done.stderr
    assert len(done.stderr) < 2000


def test_bytes_that_are_not_text_in_an_argument_are_refused() -> None:
    """A file name in another encoding reaches Python as lone surrogates."""
    done = process(*[os.fsdecode(b) for b in (b"size", b"caf\xe9.yaml")])
    assert 2 == done.returncode
    assert b"Traceback" not in done.stderr
    assert 2 == len(done.stderr.splitlines())
