"""A matrix is `size`, cell by cell: the same bytes, verdicts and bounds, whatever the cells share."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kvplan
from kvplan.capacity import parse_capacity
from kvplan.errors import InputError, NotCountableError
from kvplan.planner.matrix import matrix_inputs, matrix_rows

MODELS = ["llama-3.1-8b", "gemma-3-27b", "deepseek-v3", "qwen3-next-80b-a3b", "mamba-2.8b"]


def some(values: list[Any], most: int = 2) -> Any:
    return st.lists(st.sampled_from(values), min_size=1, max_size=most, unique=True)


@settings(max_examples=25, deadline=None)
@given(
    models=some(MODELS),
    ctx=some(["1k", 4096, "32k", 100_001]),
    batch=some([1, 3, 64]),
    kv_dtype=some(["bf16", "fp8", "kivi2"], 1),
    gpu=some(["h100", "80GiB", "rtx-4090"]),
    tp=some([1, 2, 8]),
    prefix=st.sampled_from([None, 500]),
)
def test_every_cell_is_what_size_answers(**axes: Any) -> None:
    if axes["kv_dtype"] == ["kivi2"] and set(axes["models"]) & {"deepseek-v3"}:
        axes["models"] = ["llama-3.1-8b"]
    values = {key: value for key, value in axes.items() if value is not None}
    cells = matrix_rows(parse_capacity(values, "capacity.yaml"))
    assert len(cells) == len({str(sorted(place.items(), key=str)) for place, _ in cells})
    for place, row in cells:
        said = kvplan.size(
            place["models"],
            ctx=place["ctx"],
            batch=place["batch"],
            kv_dtype=place["kv_dtype"],
            gpu=place["gpu"],
            tp=place["tp"],
            prefix=axes["prefix"] or 0,
        )
        card: Any = said.gpu
        assert (row.total_bytes, row.reserved_bytes) == (said.total_bytes, said.per_rank_bytes)
        assert (row.kv_budget_bytes, row.fits) == (card.kv_budget_bytes, card.fits)
        assert (row.max_context, row.max_batch) == (card.max_context, card.max_batch)


def test_engines_reserve_in_a_matrix_as_they_do_alone() -> None:
    values = {"models": ["gemma-3-27b"], "ctx": ["8K", "32K"], "batch": [1, 2], "engine": ["ideal", "transformers"], "available_bytes": "40GiB"}  # fmt: skip
    for place, row in matrix_rows(parse_capacity(values, "capacity.yaml")):
        said = kvplan.size("gemma-3-27b", ctx=place["ctx"], batch=place["batch"], engine=place["engine"], available_bytes="40GiB")  # fmt: skip
        card: Any = said.gpu
        engine: Any = said.engine
        assert (row.reserved_bytes, row.fits) == (engine["reserved_bytes"], card.fits)
        assert (row.max_context, row.max_batch) == (card.max_context, card.max_batch)
        assert row.engine == f"{engine['name']} {engine['version']}"


def test_max_is_each_models_own_maximum() -> None:
    cells = matrix_rows(parse_capacity({"models": ["llama-3.1-8b", "mistral-7b-v0.1"], "ctx": "max"}, "c"))
    assert [row.context for _, row in cells] == [131072, 32768]


def test_an_error_names_the_cell() -> None:
    values = {"models": ["llama-3.1-8b"], "ctx": "8k", "tp": [1, 2], "engine": "transformers"}
    with pytest.raises(InputError, match=r"c\.yaml: llama-3\.1-8b, tp 2, engine transformers: --tp: found 2"):
        matrix_rows(parse_capacity(values, "c.yaml"))


def test_what_cannot_be_counted_keeps_its_exit_code() -> None:
    values = {"models": ["llama-3.1-8b"], "ctx": "8k", "gpu": "m4-max"}
    with pytest.raises((NotCountableError, InputError)) as caught:
        matrix_rows(parse_capacity({**values, "gpu": unknown_gpu()}, "c.yaml"))
    assert caught.value.exit_code == 3


def unknown_gpu() -> str:
    from kvplan.catalogue import all_gpus

    return next(gpu.name for gpu in all_gpus() if gpu.memory.total_bytes is None)


def test_inputs_name_every_model_card_and_engine_once() -> None:
    capacity = parse_capacity({"models": ["llama-70b", "qwen3-32b"], "ctx": ["1k", "2k"], "gpu": "h100", "engine": "ideal"}, "c")  # fmt: skip
    inputs = matrix_inputs(capacity, matrix_rows(capacity), None)
    assert list(inputs["models"]) == ["llama-3.1-70b", "qwen3-32b"]
    assert list(inputs["gpus"]) == ["h100-sxm-80gb"]
    assert inputs["engines"] == {"ideal": "1"}


def test_progress_is_told_up_to_the_last_cell() -> None:
    told: list[tuple[int, int]] = []
    values = {"models": ["llama-3.1-8b", "qwen3-32b"], "ctx": ["1k", "2k"]}
    matrix_rows(parse_capacity(values, "c"), None, lambda done, of: told.append((done, of)))
    assert told == [(2, 4), (4, 4)]
