"""What the library really cached, for every architecture it could build, against what importing that config says.

`tests/data/config_oracle.jsonl` holds tiny configs and the bytes that caches of transformers 5.24.0 held after real
forwards on a CPU, at several lengths and batches. Each config is there in two forms: `saved`, as the library saves
it with every field, and `written`, the fields it was made from (vision and audio parts and token ids left out).
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from kvplan.engine import engine_named
from kvplan.errors import NotCountableError
from kvplan.importers.config import read_config
from kvplan.spec import ModelSpec, parse_spec
from kvplan.spec_text import spec_yaml
from kvplan.workload import Workload
from kvplan.yaml_text import load_yaml

ROOT = Path(__file__).parents[2]
FORMS = ("saved", "written")
IMAGE_LAYERS_STAYED_EMPTY = {"mllama"}  # the forward had text alone, so the cross-attention layers cached nothing
LIBRARY_KEEPS_MORE = {"falcon"}  # its new architecture repeats each KV head for its query heads before caching
ODD_ROTARY = ("stablelm", "kv_absent_default_heads")  # a RoPE part of one number, which the library makes two


@cache
def cases() -> dict[str, list[dict[str, Any]]]:
    """Every case by model type."""
    found: dict[str, list[dict[str, Any]]] = {}
    for line in (ROOT / "tests" / "data" / "config_oracle.jsonl").read_text().splitlines():
        case = json.loads(line)
        found.setdefault(case["saved"]["model_type"], []).append(case)
    return found


@cache
def imports(model_type: str) -> list[tuple[str, dict[str, Any], ModelSpec | NotCountableError]]:
    """Each config of a model type by form and variant, and its spec or refusal."""
    found: list[tuple[str, dict[str, Any], ModelSpec | NotCountableError]] = []
    for case in cases()[model_type]:
        for form in FORMS:
            try:
                answer: ModelSpec | NotCountableError = read_config(case[form], "config.json").spec
            except NotCountableError as error:
                answer = error
            found.append((f"{form} {case['architecture']} {case['variant']}", case, answer))
    return found


def held(spec: ModelSpec, run: dict[str, Any]) -> int:
    workload = Workload(run["length"], batch=run["batch"], encoder_tokens=run["encoder"])
    figures = engine_named("transformers", (f"prefill={run['prefill']}",)).reserve(spec, workload).figures
    return int(figures["logical_bytes"]) - int(figures["counter_bytes"])


@pytest.mark.parametrize("model_type", sorted(cases().keys() - IMAGE_LAYERS_STAYED_EMPTY))
def test_the_import_counts_what_the_library_cached(model_type: str) -> None:
    cached, counted = {}, {}
    for name, case, spec in imports(model_type):
        if isinstance(spec, ModelSpec) and (model_type, case["variant"]) != ODD_ROTARY:
            cached[name] = [run["bytes"] for run in case["runs"]]
            counted[name] = [held(spec, run) for run in case["runs"]]
    if model_type in LIBRARY_KEEPS_MORE:
        more = {name for name in cached if cached[name] != counted[name]}
        assert more
        assert all(min(map(int.__gt__, cached[name], counted[name])) for name in more)
        assert all(case["saved"]["new_decoder_architecture"] for name, case, _ in imports(model_type) if name in more)
    else:
        assert cached == counted


@pytest.mark.parametrize("model_type", sorted(cases()))
def test_what_cannot_be_told_is_refused_by_its_field(model_type: str) -> None:
    for _, _, error in imports(model_type):
        if isinstance(error, NotCountableError):
            assert error.what.startswith("config.json: ")
            assert error.fix


def test_the_first_config_of_a_type_is_refused_only_where_the_page_says_so() -> None:
    page = (ROOT / "docs" / "importing" / "architectures.md").read_text()
    refused = [
        kind
        for kind in cases()
        for name, _, answer in imports(kind)
        if name.startswith("saved") and name.endswith(" base") and isinstance(answer, NotCountableError)
    ]
    assert [kind for kind in refused if f"| {kind} | refused | 0 |" not in page] == []


@pytest.mark.parametrize("model_type", sorted(cases()))
def test_an_import_written_as_yaml_reads_back_the_same(model_type: str) -> None:
    for name, _, spec in imports(model_type):
        if isinstance(spec, ModelSpec) and name.endswith(" base"):
            again = parse_spec(load_yaml(spec_yaml(spec), "yaml"), "yaml")
            assert (spec.fields, [(n, layer.kinds) for n, layer in spec.runs]) == (
                again.fields,
                [(n, layer.kinds) for n, layer in again.runs],
            )


def test_most_architectures_of_the_library_are_right() -> None:
    """Equal to the byte, in every variant that is not refused."""
    right = {kind for kind in cases() if any(isinstance(answer, ModelSpec) for _, _, answer in imports(kind))}
    assert len(right) > 280
    assert len(right) > 8 * len(cases().keys() - right)


def test_the_page_of_architectures_is_drawn_from_these_cases() -> None:
    """`python tests/importers/draw_architectures.py` writes it again."""
    from draw_architectures import PAGE, page

    assert PAGE.read_text() == page()
