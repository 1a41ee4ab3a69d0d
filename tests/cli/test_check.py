"""`kvplan check` on deployment files: verdicts, exit codes, documents."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

from kvplan import catalogue

from .conftest import refused, run

COMPOSE = """
services:
  chat:
    image: vllm/vllm-openai:v0.33.0
    command: --model Qwen/Qwen3-8B --max-model-len ${LEN:-8192}
"""
BIG = """
  big:
    image: vllm/vllm-openai:v0.33.0
    command: --model meta-llama/Llama-3.1-70B --max-model-len 8192
"""
OPEN = """
  open:
    image: vllm/vllm-openai:v0.33.0
    command: --model ${MODEL} --max-model-len 8192
"""
POD = """
kind: Pod
metadata: {name: p}
spec:
  nodeSelector: {nvidia.com/gpu.product: NVIDIA-L4}
  containers:
  - {image: vllm/vllm-openai, args: [--model, Qwen/Qwen3-8B, --max-model-len, "8192"], resources: {limits: {nvidia.com/gpu: 1}}}
"""


def written(folder: Path, text: str, name: str = "compose.yaml") -> str:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return str(path)


def test_all_start_exits_0(tmp_path: Path) -> None:
    """A verdict with its budget, value and limit."""
    answer = run("check", written(tmp_path, COMPOSE), "--gpu", "h100", "--format", "json")
    (verdict,) = answer.document["verdicts"]
    assert (0, True) == (answer.code, verdict["ok"])
    assert verdict["value"] <= verdict["limit"]
    assert {"must": "fit", "model": "qwen3-8b", "ctx": 8192, "gpu": "h100-sxm-80gb"}.items() <= verdict[
        "budget"
    ].items()


def test_one_that_does_not_start_exits_1(tmp_path: Path) -> None:
    """The other is answered all the same, and a change is named."""
    answer = run("check", written(tmp_path, COMPOSE + BIG), "--gpu", "h100", "--format", "json")
    first, second = answer.document["verdicts"]
    assert (1, True, False) == (answer.code, first["ok"], second["ok"])
    assert second["value"] > second["limit"]
    assert second["serve"]["changes"]


def test_the_verdict_is_that_of_size_serve(tmp_path: Path) -> None:
    """The same command, read from a file and typed."""
    command = "docker run --gpus all vllm/vllm-openai:v0.33.0 --model Qwen/Qwen3-8B --max-model-len 8192"
    typed = run("size", "--serve", command, "--gpu", "h100", "--format", "json").result
    (checked,) = run("check", written(tmp_path, COMPOSE), "--gpu", "h100", "--format", "json").document["verdicts"]
    assert typed["gpu"]["kv_budget_bytes"] == checked["limit"]
    assert typed["serve"]["needed_bytes"] == checked["value"]
    assert typed["gpu"]["max_batch"] == checked["max_batch"]


def test_the_card_of_the_manifest_is_taken(tmp_path: Path) -> None:
    """Its label names a GPU of the catalogue; `--gpu` stands above it."""
    path = written(tmp_path, POD, "pod.yaml")
    assert "l4" == run("check", path, "--format", "json").document["verdicts"][0]["budget"]["gpu"]
    over = run("check", path, "--gpu", "h100", "--format", "json").document["verdicts"][0]
    assert "h100-sxm-80gb" == over["budget"]["gpu"]


def test_without_a_card_nothing_is_judged(tmp_path: Path) -> None:
    """Bytes and a hint."""
    answer = run("check", written(tmp_path, COMPOSE), "--format", "json")
    assert (0, None, None) == (answer.code, *(answer.document["verdicts"][0][key] for key in ("ok", "limit")))
    assert "--gpu" in answer.err


def test_a_variable_of_the_outside_is_asked_for_where_it_matters(tmp_path: Path) -> None:
    """The rest is answered; `--env` fills it in."""
    path = written(tmp_path, COMPOSE + OPEN)
    answer = run("check", path, "--gpu", "h100")
    assert 2 == answer.code
    assert "services.chat" in answer.out
    assert "${MODEL}" in answer.err
    assert 0 == run("check", path, "--gpu", "h100", "--env", "MODEL=Qwen/Qwen3-8B").code
    assert 2 == run("check", path, "--gpu", "h100", "--env", "MODEL").code
    assert "allowed 4,096" in refused(run("check", path, "--gpu", "h100", "--env", "MODEL=" + "x" * 9_000), 2)


def test_a_model_beside_stands_in_for_a_path_only(tmp_path: Path) -> None:
    """`--model` does not change a command that names its own."""
    path = written(tmp_path, COMPOSE + OPEN.replace("${MODEL}", "/models/mine"))
    assert 2 == run("check", path, "--gpu", "h100").code
    document = run("check", path, "--gpu", "h100", "--model", "qwen3-4b", "--format", "json").document
    assert ["qwen3-8b", "qwen3-4b"] == [verdict["budget"]["model"] for verdict in document["verdicts"]]


def test_more_ranks_than_cards_does_not_start(tmp_path: Path) -> None:
    """The manifest gives one card and the command wants two."""
    path = written(tmp_path, POD.replace('"8192"]', '"8192", -tp, "2"]'), "pod.yaml")
    answer = run("check", path)
    assert 1 == answer.code
    assert "it wants 2 cards and is given 1" in answer.out


def test_several_files_are_one_report(tmp_path: Path) -> None:
    """A row for each command, a block for each."""
    answer = run("check", written(tmp_path, COMPOSE), written(tmp_path, POD, "pod.yaml"), "--gpu", "h100")
    assert 0 == answer.code
    assert "compose.yaml" in answer.out
    assert "pod.yaml" in answer.out


@pytest.mark.parametrize("name", ["table", "csv", "markdown", "html"])
def test_every_format_has_the_verdict(tmp_path: Path, name: str) -> None:
    """Each names the place and the model."""
    answer = run("check", written(tmp_path, COMPOSE + BIG), "--gpu", "h100", "--format", name)
    assert 1 == answer.code
    assert "services.chat" in answer.out
    assert "llama-3.1-70b" in answer.out


def test_the_document_keeps_its_schema(tmp_path: Path) -> None:
    """Answered, unanswered and not judged alike."""
    schema = json.loads(run("check", "--json-schema").out)
    path = written(tmp_path, COMPOSE + BIG + OPEN)
    for more in ((), ("--gpu", "h100")):
        jsonschema.validate(run("check", path, "--format", "json", *more).document, schema)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("", "empty.yaml"),
        ("services: {a: {image: postgres}}", "compose.yaml"),
        ("models: [llama-70b]\nctx: [8k]\n", "capacity.yaml"),
        ("models: [llama-70b]\nctx: [8k]\nbudgets: [{model: [], max_bytes: 1GiB}]\n", "empty list.yaml"),
        (COMPOSE.replace("Qwen/Qwen3-8B", "no-such/Model"), "compose.yaml"),
        (COMPOSE.replace("${LEN:-8192}", "${LEN}"), "compose.yaml"),
        ("\x00\x01\x02", "Dockerfile"),
    ],
    ids=["empty", "no engine", "capacity", "no values", "no model", "unknown length", "binary"],
)
def test_nothing_answered_exits_2_with_two_lines(tmp_path: Path, text: str, name: str) -> None:
    """What is wrong, with the file's name, then the fix."""
    assert name in refused(run("check", written(tmp_path, text, name), "--gpu", "h100"), 2)


POD_ITEMS = {
    "variables of variables": "env: [{name: A0, value: xxxxxxxx}, "
    + ", ".join(f"{{name: A{i + 1}, value: {f'$(A{i})' * 4}}}" for i in range(30))
    + "]",
    "one word": "env: [{name: A, value: " + "x" * 60_000 + "}], command: [" + "$(A)" * 9_000 + "]",
    "many words": "env: [{name: A, value: " + "x" * 60_000 + "}], command: [" + "$(A), " * 9_000 + "]",
    "config maps": "envFrom: [" + "{configMapRef: {name: m}, prefix: a}, " * 900 + "]",
}


@pytest.mark.parametrize("items", POD_ITEMS.values(), ids=POD_ITEMS)
def test_a_manifest_that_grows_without_end_is_refused(tmp_path: Path, items: str) -> None:
    """A small file that would stand for gigabytes."""
    held = ", ".join(f"k{i}: v" for i in range(9_000))
    text = (
        f"kind: ConfigMap\nmetadata: {{name: m}}\ndata: {{{held}}}\n---\n"
        f"kind: Pod\nmetadata: {{name: p}}\nspec: {{containers: [{{image: vllm/vllm-openai, {items}}}]}}\n"
    )
    assert "grow past" in refused(run("check", written(tmp_path, text, "pod.yaml"), "--gpu", "h100"), 2)


def test_a_model_that_many_commands_name_is_looked_for_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The catalogue is searched as often for 40 commands as for 10, so a long file stays quick."""
    searched: list[str] = []
    search = catalogue._find_in
    monkeypatch.setattr(catalogue, "_find_in", lambda folder, wanted: searched.append(wanted) or search(folder, wanted))
    service = COMPOSE.partition("chat:")[2]
    counts = []
    for most in (10, 40):
        searched.clear()
        catalogue._find_shipped.cache_clear()
        text = "services:\n" + "".join(f"  s{i}:{service}" for i in range(most))
        assert run("check", written(tmp_path, text), "--gpu", "h100").code == 0
        counts.append(len(searched))
    assert counts[0] == counts[1] > 0


def test_what_cannot_be_counted_exits_3(tmp_path: Path) -> None:
    """Draft layers of a model whose draft nobody described."""
    text = (
        COMPOSE.replace("Qwen/Qwen3-8B", "google/gemma-3-27b-it")
        + """      --speculative-config '{"method": "mtp"}'\n"""
    )
    text = text.replace("command: --model", "command: >\n      --model")
    answer = run("check", written(tmp_path, text), "--gpu", "h100")
    assert "draft" in refused(answer, 3)


CAPACITY = """
models: llama-3.1-8b
ctx: 8k
gpu: h100-sxm-80gb
budgets:
  - {must: fit}
  - {min_batch: LEAST}
"""


def test_budgets_that_hold_are_exit_0_and_a_broken_one_exit_1(tmp_path: Path) -> None:
    good = run("check", written(tmp_path, CAPACITY.replace("LEAST", "2"), "capacity.yaml"), "--format", "json")
    assert good.code == 0
    assert [v["ok"] for v in good.document["verdicts"]] == [True, True]
    bad = run("check", written(tmp_path, CAPACITY.replace("LEAST", "5000"), "capacity.yaml"))
    assert bad.code == 1
    assert "BROKEN" in bad.out
    assert "1 of 2 broken" in bad.out


def test_junit_has_a_case_a_verdict_and_a_failure_for_each_that_breaks(tmp_path: Path) -> None:
    from xml.etree import ElementTree as ET

    xml = tmp_path / "verdicts.xml"
    file = written(tmp_path, CAPACITY.replace("LEAST", "5000"), "capacity.yaml")
    assert run("check", file, "--junit", str(xml)).code == 1
    suite = ET.fromstring(xml.read_text()).find("testsuite")
    assert suite is not None
    assert (suite.get("tests"), suite.get("failures")) == ("2", "1")
    assert [case.find("failure") is not None for case in suite] == [False, True]


def test_in_github_actions_a_broken_budget_is_annotated_and_summarised(tmp_path: Path) -> None:
    summary = tmp_path / "summary.md"
    file = written(tmp_path, CAPACITY.replace("LEAST", "5000"), "capacity.yaml")
    answer = run("check", file, env={"GITHUB_ACTIONS": "true", "GITHUB_STEP_SUMMARY": str(summary)})
    assert "::error file=" in answer.err
    assert "min_batch 5,000: found" in answer.err
    assert "| min" in summary.read_text() or "BROKEN" in summary.read_text()
    assert "::error" not in run("check", file).err


def test_a_summary_that_cannot_be_written_leaves_the_verdict(tmp_path: Path) -> None:
    """The step's own answer is worth more than its summary."""
    path = written(tmp_path, "models: [llama-3.1-8b]\nctx: [8k]\nbudgets: [{max_bytes: 1}]\n", "budgets.yaml")
    github = {"GITHUB_ACTIONS": "true", "GITHUB_STEP_SUMMARY": str(tmp_path)}
    answer = run("check", path, env=github)
    assert (answer.code, "BROKEN" in answer.out) == (1, True)
    assert "hint: $GITHUB_STEP_SUMMARY: not written" in answer.err


def test_a_capacity_file_says_itself_what_options_would(tmp_path: Path) -> None:
    file = written(tmp_path, CAPACITY.replace("LEAST", "2"), "capacity.yaml")
    assert "--gpu" in refused(run("check", file, "--gpu", "h200"), 2)
