"""transformers' own cache classes, filled for the same model, hold what `--engine transformers` predicts."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

import pytest

pytest.importorskip("transformers", reason="transformers is not installed")

from stand_ins import Small, asked
from strategies import model, shipped

from kvplan.engine import engine_named
from kvplan.errors import InputError, MissingError, NotCountableError
from kvplan.measure.second_opinion import checked_library
from kvplan.measure.weighing import measure_answer
from kvplan.question import subject

GQA = {"type": "gqa", "heads": 4, "kv_heads": 2, "head_dim": 32, "v_head_dim": 16}
LOCAL = {**GQA, "window": 40}

pytestmark = pytest.mark.oracle


def opinion(spec: Any, context: int, limit: int = 10**9, **options: Any) -> Any:
    """The answer and its second opinion, after checking that both agree with their predictions."""
    answer = measure_answer(asked(spec, context, **options), Small(), limit, library="transformers")
    assert answer.agrees
    assert 0 == answer.second_opinion.difference_bytes == answer.difference_bytes
    return answer


@pytest.mark.parametrize("dtype", ["fp32", "fp16", "bf16"])
@pytest.mark.parametrize("context", [1, 38, 39, 40, 41, 100])
def test_its_classes_hold_what_its_engine_predicts(dtype: str, context: int) -> None:
    """Full layers and windows, around the window's edge, for two sequences."""
    for attention in (GQA, LOCAL):
        spec = model(attention, layers=3, dtype=dtype)
        answer = opinion(spec, context, batch=2)
        figures = engine_named("transformers").reserve(spec, subject(asked(spec, context, batch=2)).workload).figures
        assert figures["storage_bytes"] == answer.second_opinion.measured_bytes
    assert answer.second_opinion.version.startswith("5.24")


def test_full_layers_need_what_the_architecture_needs() -> None:
    """And a window's layers more: the views keep the whole text's storage, and a counter."""
    full = opinion(shipped("smollm2-135m"), 200)
    assert full.measured_bytes == full.second_opinion.measured_bytes
    local = opinion(model(LOCAL), 100)
    assert local.second_opinion.measured_bytes > local.measured_bytes


def test_a_shipped_hybrid_of_windows_agrees_in_part() -> None:
    """Gemma 3 on as many layers as the limit allows by either rule."""
    answer = opinion(shipped("gemma-3-27b"), 1100, limit=200 * 2**20)
    assert 0 < answer.second_opinion.measured_layers < 62


@pytest.mark.parametrize(
    ("attention", "options"),
    [
        (GQA, {"kv_dtype": "fp8"}),
        (GQA, {"k_dtype": "fp16", "v_dtype": "bf16"}),
        (GQA, {"policy": "streaming:window=10"}),
        (GQA, {"tp": 2}),
        (GQA, {"prefix": 5}),
        ({**GQA, "chunk": 10}, {}),
        ({"type": "mla", "heads": 4, "kv_lora_rank": 32, "qk_rope_head_dim": 8}, {}),
        ({"type": "lightning", "heads": 4, "head_dim": 8}, {}),
    ],
    ids=str,
)
def test_what_those_classes_do_not_hold_is_refused(attention: Any, options: Any) -> None:
    """Exit code 3, and nothing is guessed."""
    with pytest.raises(NotCountableError, match="--weigh-with"):
        measure_answer(asked(model(attention), 20, **options), Small(), 10**9, library="transformers")


def test_no_room_is_no_agreement() -> None:
    """Not one layer fits."""
    answer = measure_answer(asked(model(GQA), 1000), Small(), 100, library="transformers")
    assert (0, False) == (answer.second_opinion.measured_layers, answer.agrees)


def test_the_library_is_named_and_there() -> None:
    """Another name is refused, a missing one has its install line."""
    assert "transformers" == checked_library("transformers")
    with pytest.raises(InputError, match="--weigh-with: found 'vllm'"):
        checked_library("vllm")
    with patch.dict("sys.modules", {"transformers": None}), pytest.raises(MissingError) as missing:
        checked_library("transformers")
    assert "pip install transformers" == missing.value.fix
