"""`kvplan table`: tables for people, rows for scripts, and a committed table that says when and why it is stale."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from .conftest import refused, run

FILE = """
title: Capacity
models: [llama-3.1-70b, qwen3-32b]
ctx: [8k, 32k]
batch: [1, 16]
gpu: h100-sxm-80gb
tp: 4
"""


@pytest.fixture
def capacity(tmp_path: Path) -> Path:
    path = tmp_path / "capacity.yaml"
    path.write_text(FILE)
    return path


def test_rows_have_the_contracts_keys(capacity: Path) -> None:
    document = run("table", str(capacity), "--format", "json").document
    assert document["schema"] == "kvplan.table/1"
    assert len(document["rows"]) == 8
    keys = {"model", "gpu", "tp", "context", "batch", "kv_dtype", "total_bytes", "reserved_bytes", "fits", "max_batch", "max_context"}  # fmt: skip
    assert keys <= set(document["rows"][0])


def test_json_answers_its_own_schema(capacity: Path) -> None:
    import jsonschema

    schema = json.loads(run("table", "--json-schema").out)
    jsonschema.validate(run("table", str(capacity), "--format", "json").document, schema)


def test_contexts_stand_across_and_models_down(capacity: Path) -> None:
    text = run("table", str(capacity)).out
    assert "KV cache, GiB  8,000 tokens  32,000 tokens" in text
    assert "most sequences" in text
    assert "! does not fit" in text
    assert all(len(line) <= 100 for line in text.splitlines())


def test_axes_can_be_turned(capacity: Path) -> None:
    text = run("table", str(capacity), "--across", "batch", "--down", "models", "--show", "max_context").out
    assert "longest context" in text
    assert "llama-3.1-70b, batch 16" in text
    both = refused(run("table", str(capacity), "--across", "gpu", "--down", "gpu"), 2)
    assert "both across and down" in both


def test_rows_can_be_sorted_by_bytes(capacity: Path) -> None:
    lines = run("table", str(capacity), "--sort", "bytes", "--show", "bytes").out.splitlines()
    first = next(i for i, line in enumerate(lines) if line.startswith("KV cache"))
    assert lines[first + 1].startswith("qwen3-32b")


@pytest.mark.parametrize("name", ["table.md", "table.json", "table.csv", "table.html", "table.txt"])
def test_what_update_wrote_is_up_to_date(capacity: Path, tmp_path: Path, name: str) -> None:
    kept = tmp_path / name
    assert run("table", str(capacity), "--check", str(kept), "--update").code == 0
    assert kept.stat().st_size > 100
    answer = run("table", str(capacity), "--check", str(kept))
    assert (answer.code, answer.out) == (0, "")
    assert "up to date" in answer.err


@pytest.mark.parametrize(
    ("name", "figure", "changed", "said"),
    [
        ("table.md", "9.77", "9.00", "9.00 -> 9.77 (+0.77, +8.6%)"),
        ("table.json", "10485760000", "10485760001", "10485760001 -> 10485760000 (-1, -0.0%)"),
        ("table.csv", "10485760000", "10485760001", "10485760001 -> 10485760000 (-1, -0.0%)"),
    ],
)
def test_a_stale_table_names_the_cells_that_moved_and_by_how_much(
    capacity: Path, tmp_path: Path, name: str, figure: str, changed: str, said: str
) -> None:
    kept = tmp_path / name
    run("table", str(capacity), "--check", str(kept), "--update")
    text = kept.read_text()
    assert figure in text
    kept.write_text(text.replace(figure, changed))
    answer = run("table", str(capacity), "--check", str(kept))
    assert answer.code == 1
    assert "is stale" in answer.out
    assert "llama-3.1-70b" in answer.out
    assert said in answer.out
    assert "--- " in answer.out
    assert "+++ " in answer.out
    assert kept.read_text() == text.replace(figure, changed), "checking writes nothing"


def test_a_stale_table_says_because_of_which_input(capacity: Path, tmp_path: Path) -> None:
    specs = tmp_path / "specs"
    specs.mkdir()
    own = "name: ours\nparameters: 1000000000\nlayers: {}\nattention: {{type: gqa, heads: 8, kv_heads: 4, head_dim: 64}}\n"
    (specs / "ours.yaml").write_text(own.format(10))
    capacity.write_text(FILE.replace("qwen3-32b", "ours"))
    kept = tmp_path / "table.md"
    run("table", str(capacity), "--check", str(kept), "--update", "--specs", str(specs))
    (specs / "ours.yaml").write_text(own.format(11))
    answer = run("table", str(capacity), "--check", str(kept), "--specs", str(specs))
    assert answer.code == 1
    assert "because: models: ours changed" in answer.out
    assert "llama" not in answer.out.split("---")[0]


def test_a_new_version_alone_is_told(capacity: Path, tmp_path: Path) -> None:
    kept = tmp_path / "table.md"
    run("table", str(capacity), "--check", str(kept), "--update")
    kept.write_text(kept.read_text().replace('"kvplan": "0.', '"kvplan": "9.'))
    answer = run("table", str(capacity), "--check", str(kept))
    assert answer.code == 1
    assert "because: kvplan 9." in answer.out


def test_a_committed_file_is_a_strangers_text(capacity: Path, tmp_path: Path) -> None:
    kept = tmp_path / "table.md"
    kept.write_text('### \x1b[31mred\n| a | b |\n| - | - |\n| \x1b[2J | 1 |\n<!-- kvplan inputs: {"models": [1]} -->\n')
    answer = run("table", str(capacity), "--check", str(kept))
    assert answer.code == 1
    assert "\x1b" not in answer.out
    kept.write_bytes(b"\xff\xfe\x00")
    assert "not UTF-8" in refused(run("table", str(capacity), "--check", str(kept)), 2)
    deep: Any = "[" * 200_000
    json_kept = tmp_path / "table.json"
    json_kept.write_text(deep)
    assert run("table", str(capacity), "--check", str(json_kept)).code == 1


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        ((), "no capacity file named"),
        (("{file}", "--update"), "--update"),
        (("{file}", "--check", "missing.md"), "does not exist"),
        (("{file}", "--check", "table.docx"), "allowed files that end in"),
        (("{file}", "--check", "x.md", "-o", "y.md"), "does not go with --check"),
        (("missing.yaml",), "does not exist"),
        (("{file}", "--across", "weather"), "across"),
        (("{file}", "--show", "bytes,,"), "show"),
        (("{file}", "--format", "pdf"), "--format"),
    ],
)
def test_what_cannot_be_done_is_two_lines(capacity: Path, arguments: tuple[str, ...], what: str) -> None:
    answer = run("table", *(word.format(file=capacity) for word in arguments))
    if arguments:
        assert what in refused(answer, 2)
    else:
        assert answer.code == 2


@pytest.mark.parametrize("key", ["prefix", "encoder_tokens"])
def test_a_length_that_has_no_maximum_is_refused(key: str, tmp_path: Path) -> None:
    """`max` is the model's own length, which only `ctx` asks for."""
    path = tmp_path / "capacity.yaml"
    path.write_text(f"models: [llama-3.1-8b]\nctx: [8k]\n{key}: max\n")
    assert f"{key}: found 'max'" in refused(run("table", str(path)), 2)


@pytest.mark.parametrize("form", ["table", "markdown", "html", "csv"])
def test_a_title_passes_no_escapes_on(form: str, tmp_path: Path) -> None:
    """What a terminal would obey becomes spaces, and the title stays one line."""
    path = tmp_path / "capacity.yaml"
    path.write_text('title: "Red \\e[31m\\0\\u202e\\nline"\nmodels: [llama-3.1-8b]\nctx: [8k]\n')
    answer = run("table", str(path), "--format", form)
    assert answer.code == 0
    assert not {"\x1b", "\x00", "\u202e"} & set(answer.out)
    assert form == "csv" or "[31m   line" in answer.out
