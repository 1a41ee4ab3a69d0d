"""Where a report goes: stdout, or a whole file or none; hints stay on stderr; JSON obeys its schema."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import stat
from pathlib import Path
from typing import Any
from unittest.mock import patch

import jsonschema
import pytest

from kvplan.cli import COMMANDS, output
from kvplan.json_schema import RESULTS

from .conftest import REPOSITORY, process, refused, run

SIZE = ("size", "llama-3.1-70b", "--ctx", "128k", "-q")
FORMATS = ("table", "json", "csv", "markdown", "html")
ANSWERS = [
    SIZE,
    ("size", "llama-70b", "gemma-3-27b", "--ctx", "8k,max", "--gpu", "h100,80GiB", "--weights", "fp8", "-q"),
    ("size", "llama-70b", "--ctx", "8k", "--gpu", "h100", "--tp", "8", "--draft", "llama-3.2-1b", "--formula", "-q"),
    ("size", "deepseek-v4-pro", "--ctx", "8k", "--available-bytes", "80GiB", "--mtp", "1", "-q"),
    ("size", "qwen3-next-80b-a3b", "--ctx", "8k", "--engine", "ideal,transformers", "-q"),
    ("size", "xlstm-7b", "--ctx", "8k", "--gpu", "h100", "-q"),
    ("size", "--layers", "80", "--kv-heads", "64", "--head-dim", "128", "--ctx", "128k", "--gpu", "h100", "-q"),
    ("fit", "llama-70b", "--gpu", "h100,h200", "--ctx", "8k", "-q"),
    ("fit", "xlstm-7b", "--available-bytes", "80GiB", "--ctx", "8k", "-q"),
    ("models", "qwen3", "-q"),
    ("gpus", "-q"),
    ("engines", "-q"),
    ("formats", "-q"),
]


@pytest.mark.parametrize("arguments", ANSWERS, ids=" ".join)
def test_json_obeys_the_published_schema(arguments: tuple[str, ...]) -> None:
    """Every JSON document validates against `--json-schema` of its own command."""
    document = run(*arguments, "--format", "json").document
    schema = run(arguments[0], "--json-schema").document
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.Draft202012Validator(schema).validate(document)
    assert f"kvplan.{arguments[0]}/1" == document["schema"]
    assert document["results"]


SMALLEST = {
    "size": ("gpt-2",),
    "fit": ("gpt-2", "--gpu", "t4"),
    "measure": ("gpt-2", "--ctx", "64", "--device", "cpu", "--limit-bytes", "10MiB"),
    "table": (str(REPOSITORY / "docs" / "capacity.yaml"),),
    "check": (str(REPOSITORY / "tests" / "data" / "served.sh"),),
}
"""What each command needs to answer at all."""
LISTS = {"table": "rows", "check": "verdicts"}
"""The key of a command's list of answers, where it is not `results`."""


@pytest.mark.parametrize("name", RESULTS)
def test_a_schema_refuses_what_the_command_never_writes(name: str) -> None:
    """A key too many, a key too few and another command's document are invalid."""
    schema = run(name, "--json-schema").document
    check = jsonschema.Draft202012Validator(schema)
    arguments = SMALLEST.get(name, ())
    listed = LISTS.get(name, "results")
    document = run(name, *arguments, "--format", "json", "-q").document
    first = document[listed][0]
    for wrong in (
        {**document, "schema": "kvplan.other/1"},
        {**document, listed: [{**first, "surprise": 1}]},
        {**document, listed: [{k: v for k, v in first.items() if k != next(iter(first))}]},
        {"schema": document["schema"]},
    ):
        assert not check.is_valid(wrong)


def whole_bytes(value: Any, key: str = "") -> list[str]:
    """Keys whose name promises bytes and whose value is not a whole number."""
    if isinstance(value, dict):
        return [bad for k, v in value.items() if k != "confidence" for bad in whole_bytes(v, k)]
    if isinstance(value, list):
        return [bad for v in value for bad in whole_bytes(v, key)]
    return [key] if key.endswith("bytes") and not (value is None or type(value) is int) else []


@pytest.mark.parametrize("arguments", ANSWERS[:9], ids=" ".join)
def test_bytes_in_json_are_whole(arguments: tuple[str, ...]) -> None:
    """Whole bytes are integers, never floats or text."""
    assert [] == whole_bytes(run(*arguments, "--format", "json").document)


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("arguments", ANSWERS, ids=" ".join)
def test_every_answer_has_every_format(arguments: tuple[str, ...], name: str) -> None:
    """Text that ends in one newline, without escape codes, on stdout alone."""
    answer = run(*arguments, "--format", name)
    assert answer.code in (0, 1)
    assert "" == answer.err
    assert answer.out.endswith("\n")
    assert not answer.out.endswith("\n\n")
    assert "\x1b" not in answer.out


def test_csv_is_one_row_a_result_with_whole_bytes() -> None:
    """A spreadsheet reads the same numbers as JSON."""
    arguments = ("size", "llama-3.1-70b", "--ctx", "8k,128k", "--gpu", "h100", "-q")
    rows = list(csv.DictReader(io.StringIO(run(*arguments, "--format", "csv").out)))
    results = run(*arguments, "--format", "json").document["results"]
    assert [str(r["total_bytes"]) for r in results] == [r["total_bytes"] for r in rows]
    assert [str(r["gpu"]["kv_budget_bytes"]) for r in results] == [r["gpu_kv_budget_bytes"] for r in rows]
    assert ["false", "false"] == [r["gpu_fits"] for r in rows]


def test_csv_rows_with_and_without_an_engine_share_one_header() -> None:
    """A column that only some rows have is empty in the others."""
    arguments = ("size", "llama-3.1-8b", "--ctx", "8k", "--engine", "ideal,transformers", "-q", "--format", "csv")
    lines = list(csv.reader(io.StringIO(run(*arguments).out)))
    assert {len(lines[0])} == {len(line) for line in lines}


def test_markdown_tables_have_a_rule_under_the_header() -> None:
    """Pipes, a rule, and the same number of cells in each line."""
    lines = [line for line in run(*SIZE, "--format", "markdown").out.splitlines() if line.startswith("|")]
    assert re.fullmatch(r"\|( -+:? \|)+", lines[1])
    assert 1 == len({line.count("|") for line in lines})


def test_html_is_one_page_that_needs_nothing_else() -> None:
    """No script, no link, no picture from elsewhere."""
    page = run(*SIZE, "--format", "html").out
    assert page.startswith("<!doctype html>")
    assert page.rstrip().endswith("</html>")
    assert not re.search(r"https?://|<script|<link|<img", page)


@pytest.mark.parametrize("unit", ["GiB", "GB", "MiB", "MB", "KiB", "KB", "bytes", "gib", "BYTES"])
def test_tables_take_a_unit_and_name_it(unit: str) -> None:
    """The unit stands in the header; GB stands beside GiB for the total."""
    out = run(*SIZE, "--unit", unit).out
    header = next(line for line in out.splitlines() if line.startswith("tensor"))
    assert unit.lower() == header.split()[-1].lower()
    assert "39.06 GiB (41.94 GB, 41,943,040,000 bytes)" in out


@pytest.mark.parametrize("name", FORMATS)
def test_a_file_holds_what_stdout_would(tmp_path: Path, name: str) -> None:
    """`-o` writes the same bytes and leaves stdout empty."""
    file = tmp_path / "report"
    answer = run(*SIZE, "--format", name, "-o", str(file))
    assert (0, "", "") == answer
    assert run(*SIZE, "--format", name).out == file.read_text(encoding="utf-8")


def test_hints_stay_out_of_the_file(tmp_path: Path) -> None:
    """They go to stderr whatever the report does."""
    file = tmp_path / "report"
    assert run("size", "llama-70b", "-o", str(file)).err.startswith("hint: ")
    assert "hint" not in file.read_text(encoding="utf-8")


@pytest.mark.parametrize("place", ["missing/report", "report/under-a-file", ".", "x" * 300, "nul\0byte"])
def test_an_unwritable_place_is_refused_and_nothing_is_left(tmp_path: Path, place: str) -> None:
    """A folder that is not there, a file as a folder, a folder itself, a name too long, a NUL byte."""
    (tmp_path / "report").write_text("old")
    error = refused(run(*SIZE, "-o", f"{tmp_path}/{place}"), 2)
    assert "-o" in error
    assert ["report"] == [entry.name for entry in tmp_path.iterdir()]
    assert "old" == (tmp_path / "report").read_text()


def test_an_old_file_is_kept_when_the_new_one_cannot_be_finished(tmp_path: Path) -> None:
    """A disk that fills up half way leaves what was there, and no scraps beside it."""
    file = tmp_path / "report"
    file.write_text("old")
    with patch("kvplan.cli.output.os.replace", side_effect=OSError(28, "No space left on device")):
        assert "No space left on device" in refused(run(*SIZE, "-o", str(file)), 2)
    assert ("old", ["report"]) == (file.read_text(), os.listdir(tmp_path))


def test_a_wrong_question_leaves_the_file_alone(tmp_path: Path) -> None:
    """Nothing is opened before there is an answer."""
    file = tmp_path / "report"
    file.write_text("old")
    refused(run("size", "lama-70b", "-o", str(file)), 2)
    assert "old" == file.read_text()


def test_a_replaced_file_keeps_its_mode_and_a_new_one_obeys_the_umask(tmp_path: Path) -> None:
    """Reports are as readable as any file a program writes."""
    old, new = tmp_path / "old", tmp_path / "new"
    old.write_text("old")
    old.chmod(0o604)
    mask = os.umask(0o027)
    try:
        for file in (old, new):
            run(*SIZE, "-o", str(file))
    finally:
        os.umask(mask)
    assert [0o604, 0o640] == [stat.S_IMODE(file.stat().st_mode) for file in (old, new)]


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    """The file that it names is replaced, not the link."""
    target, link = tmp_path / "target", tmp_path / "link"
    link.symlink_to(target)
    for _ in range(2):  # first the target is missing, then it is there
        assert 0 == run(*SIZE, "-o", str(link)).code
        assert link.is_symlink()
        assert "41,943,040,000" in target.read_text()


def test_a_loop_of_links_is_refused(tmp_path: Path) -> None:
    """Two links that name each other lead nowhere."""
    one, two = tmp_path / "one", tmp_path / "two"
    one.symlink_to(two)
    two.symlink_to(one)
    refused(run(*SIZE, "-o", str(one)), 2)


@pytest.mark.parametrize("place", ["/dev/stdout", "/dev/null", "/dev/full"])
def test_a_device_takes_the_report_as_it_comes(place: str) -> None:
    """Nothing is created beside it; a full one is an error and not a traceback."""
    done = process(*SIZE, "-o", place)
    assert (2 if place == "/dev/full" else 0) == done.returncode, done.stderr
    assert (place == "/dev/stdout") == (b"41,943,040,000" in done.stdout)
    assert (place == "/dev/full") == bool(done.stderr)


@pytest.mark.parametrize("name", ["size", "fit", "measure", "models", "gpus", "engines", "formats"])
def test_the_schema_is_json_on_stdout(name: str) -> None:
    """`--json-schema` prints the schema and stops."""
    answer = run(name, "--json-schema")
    assert (0, "") == (answer.code, answer.err)
    assert "https://json-schema.org/draft/2020-12/schema" == json.loads(answer.out)["$schema"]


def test_every_schema_belongs_to_a_command() -> None:
    """What `show` prints is as the shown thing is, so it has none."""
    assert set(RESULTS) <= set(COMMANDS)


def test_hints_are_said_once() -> None:
    """Two rows with the same hint give one line."""
    err = run("size", "llama-70b", "--batch", "1,2,3").err
    assert 1 == err.count("hint: ")


def test_a_hint_is_one_printable_line(capsys: pytest.CaptureFixture[str]) -> None:
    """Whatever a stranger's spec holds."""
    output.say(["a\x1b[31m\nb"], quiet=False)
    assert capsys.readouterr().err == "hint: a\\x1b[31m\\nb\n"
