"""What the library really cached, for every architecture it could build, against what importing that config says.

`tests/data/config_oracle.jsonl` holds tiny configs as transformers 5.24.0 saves them (vision and audio parts and
token ids left out) and the bytes its caches held after real forwards on a CPU, at several lengths and batches.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kvplan.engine import engine_named
from kvplan.errors import NotCountableError
from kvplan.importers.config import read_config
from kvplan.spec import parse_spec
from kvplan.spec_text import spec_yaml
from kvplan.workload import Workload
from kvplan.yaml_text import load_yaml

CASES = [
    case
    for line in (Path(__file__).parent.parent / "data" / "config_oracle.jsonl").read_text().splitlines()
    if (case := json.loads(line))["runs"]
]
IMAGE_LAYERS_STAYED_EMPTY = {"mllama"}  # the forward had text alone, so the cross-attention layers cached nothing
LIBRARY_KEEPS_MORE = {
    "falcon-FalconForCausalLM-newarch_kv2": "the library repeats each KV head for its query heads before caching",
    "falcon-FalconForCausalLM-kvheads_newarch_mq_false": "the same",
}
REFUSED_VARIANTS = {"bidir", "bidir_all", "chunk_extra_16", "layer_types_chunked", "per_layer_skip", "per_layer_skip2", "types_extra"}  # fmt: skip


def name(case: dict[str, Any]) -> str:
    return f"{case['config']['model_type']}-{case['architecture']}-{case['variant']}"


def held(case: dict[str, Any], run: dict[str, Any]) -> int:
    spec = read_config(case["config"], "config.json").spec
    workload = Workload(run["length"], batch=run["batch"], encoder_tokens=run["encoder"])
    engine = engine_named("transformers", (f"prefill={run['prefill']}",))
    figures = engine.reserve(spec, workload).figures
    return int(figures["logical_bytes"]) - int(figures["counter_bytes"])


def imported(case: dict[str, Any]) -> Any:
    """The spec, or the refusal."""
    try:
        return read_config(case["config"], "config.json").spec
    except NotCountableError as error:
        return error


READ = [case for case in CASES if not isinstance(imported(case), NotCountableError)]
REFUSED = [case for case in CASES if isinstance(imported(case), NotCountableError)]


@pytest.mark.parametrize(
    "case",
    [
        c
        for c in READ
        if name(c) not in LIBRARY_KEEPS_MORE and c["config"]["model_type"] not in IMAGE_LAYERS_STAYED_EMPTY
    ],
    ids=name,
)
def test_the_import_counts_what_the_library_cached(case: dict[str, Any]) -> None:
    assert [run["bytes"] for run in case["runs"]] == [held(case, run) for run in case["runs"]]


@pytest.mark.parametrize("case", [c for c in READ if name(c) in LIBRARY_KEEPS_MORE], ids=name)
def test_where_the_library_keeps_more_than_the_architecture_it_still_does(case: dict[str, Any]) -> None:
    assert all(run["bytes"] > held(case, run) for run in case["runs"])


@pytest.mark.parametrize("case", REFUSED, ids=name)
def test_what_cannot_be_told_is_refused_by_its_field(case: dict[str, Any]) -> None:
    error = imported(case)
    assert error.what.startswith("config.json: ")
    assert error.fix


def test_nothing_is_refused_but_what_the_page_says() -> None:
    page = (Path(__file__).parents[2] / "docs" / "importing" / "architectures.md").read_text()
    for case in REFUSED:
        assert f"| {case['config']['model_type']} | refused" in page or case["variant"] in REFUSED_VARIANTS, name(case)


@pytest.mark.parametrize("case", [c for c in READ if c["variant"] == "base"], ids=name)
def test_an_import_written_as_yaml_reads_back_the_same(case: dict[str, Any]) -> None:
    spec = read_config(case["config"], "config.json").spec
    again = parse_spec(load_yaml(spec_yaml(spec), "yaml"), "yaml")
    assert (spec.fields, [(n, layer.kinds) for n, layer in spec.runs]) == (
        again.fields,
        [(n, layer.kinds) for n, layer in again.runs],
    )


def test_most_architectures_of_the_library_are_right() -> None:
    """Equal to the byte, in every variant that was built."""
    right = {case["config"]["model_type"] for case in READ}
    assert len(right) > 250
    assert len(right) > 8 * len({case["config"]["model_type"] for case in REFUSED} - right)


def test_the_page_of_architectures_is_drawn_from_these_cases() -> None:
    """`python tests/importers/draw_architectures.py` writes it again."""
    from draw_architectures import PAGE, page

    assert PAGE.read_text() == page()
