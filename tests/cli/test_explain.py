"""`kvplan explain` as people run it: files, stdin, formats, exit codes, and what a log cannot do to a terminal."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

from .conftest import REPOSITORY, process, refused, run

LOGS = REPOSITORY / "tests" / "data" / "logs"
LLAMA = str(LOGS / "vllm-llama-3.1-8b.log")


def test_every_figure_of_a_log_is_compared() -> None:
    found = run("explain", LLAMA, "--format", "json")
    assert found.code == 0
    document = found.document
    assert (document["schema"], document["engine"], document["model"]) == ("kvplan.explain/1", "vllm", "llama-3.1-8b")
    assert [(f["printed"], f["predicted"], f["agrees"]) for f in document["figures"]] == [
        (444080, 444080, True),
        (3.39, 3.39, True),
    ]
    assert {one["option"]: one["after"] for one in document["advice"]}["--kv-cache-dtype fp8"] == 888160


def test_the_document_follows_its_schema() -> None:
    schema = json.loads(run("explain", "--json-schema").out)
    for log in sorted(LOGS.glob("*.log")):
        jsonschema.validate(run("explain", str(log), "--format", "json").document, schema)


def test_a_log_from_stdin_answers_the_same() -> None:
    piped = process("explain", "-", "--format", "json", input=Path(LLAMA).read_bytes())
    assert piped.returncode == 0
    assert json.loads(piped.stdout) == run("explain", LLAMA, "--format", "json").document


def test_a_figure_that_disagrees_is_a_no_with_its_cause(tmp_path: Path) -> None:
    log = tmp_path / "x.log"
    log.write_text(Path(LLAMA).read_text("utf-8").replace("444,080", "222,032"), encoding="utf-8")
    found = run("explain", str(log), "--format", "json")
    assert found.code == 1
    assert [figure["agrees"] for figure in found.document["figures"]] == [False, True]
    assert "50.0% less" in found.document["figures"][0]["reason"]


@pytest.mark.parametrize("form", ["table", "csv", "markdown", "html"])
def test_every_format_holds_every_figure(form: str) -> None:
    out = run("explain", LLAMA, "--format", form).out
    assert "444,080" in out or "444080" in out
    assert "KV cache size" in out


@pytest.mark.parametrize("form", ["table", "json", "csv", "markdown", "html"])
def test_nothing_of_a_log_reaches_the_terminal_as_it_is(form: str, tmp_path: Path) -> None:
    log = tmp_path / "evil.log"
    log.write_bytes(
        b"\x1b[2J\x1b]0;owned\x07non-default args: {'model': '<script>alert(1)</script>\x1b[31m', 'block_size': 16}\n"
        b"Initializing a V1 LLM engine (v0.33.0\x1b[5m) with config: model='=cmd|x'\n"
        b"Available KV cache memory: 54.21 GiB\nGPU KV cache size: 444,080 tokens\n"
    )
    found = run("explain", str(log), "--model", "llama-3.1-8b", "--format", form)
    assert found.code == 0
    for bad in ("\x1b", "\x07", "<script>"):
        assert bad not in found.out + found.err if (form, bad) != ("json", "<script>") else True


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        ((), ""),
        (("/no/such/file.log",), "cannot be read"),
        ((".",), "is a folder"),
        ((LLAMA, "--model", "no-such-model"), "no model called"),
        ((LLAMA, "--format", "pdf"), "--format"),
        (("pyproject.toml",), "no line of an engine"),
    ],
)
def test_bad_input_is_two_lines_and_code_2(
    arguments: tuple[str, ...], word: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(REPOSITORY)
    found = run("explain", *arguments)
    assert (found.code, found.out) == (2, "")
    assert word in found.err
    assert "Traceback" not in found.err


@pytest.mark.parametrize("name", ["/", "///", " / "])
def test_a_name_of_slashes_alone_is_refused(name: str, tmp_path: Path) -> None:
    """Nothing is left to look for once the slashes are taken off."""
    log = tmp_path / "slash.log"
    log.write_text(f"Initializing a V1 LLM engine (v0.33.0) with config: model='{name}'\nGPU KV cache size: 8 tokens\n")
    assert "is not known" in refused(run("explain", str(log)), 2)


def test_another_model_is_compared_on_request() -> None:
    found = run("explain", LLAMA, "--model", "llama-3.1-70b", "--format", "json")
    assert found.code == 1
    assert found.document["model"] == "llama-3.1-70b"
