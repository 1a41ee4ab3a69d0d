"""The largest cache that really allocates is the one that `kvplan fit` names."""

from __future__ import annotations

import pytest
from stand_ins import FakeCuda, Small, asked, fake_gpu
from strategies import model

from kvplan.errors import InputError
from kvplan.measure.until_full import checked_axis
from kvplan.measure.weighing import measure_answer
from kvplan.planner.inverse import fit_answer

GQA = {"type": "gqa", "heads": 4, "kv_heads": 2, "head_dim": 128}
MLA = {"type": "mla", "heads": 4, "kv_lora_rank": 512, "qk_rope_head_dim": 64}
LIMIT = 3_000_007


@pytest.mark.parametrize(
    ("attention", "options"),
    [
        (GQA, {}),
        (GQA, {"batch": 3}),
        (GQA, {"batch": 4, "prefix": 64}),
        (GQA, {"kv_dtype": "int4_g32"}),
        (GQA, {"kv_dtype": "kivi2"}),
        (GQA, {"kv_dtype": "kivi4", "batch": 2}),
        (GQA, {"policy": "h2o:budget=0.2"}),
        (GQA, {"policy": "snapkv:cap=64,generated=30"}),
        ({**GQA, "window": 100}, {}),
        (MLA, {"kv_dtype": "fp8_ds_mla"}),
        (GQA, {"tp": 2, "pp": 3}),
        (GQA, {"tp": 4, "dcp": 4}),
    ],
    ids=str,
)
@pytest.mark.parametrize("vary", ["context", "batch"])
def test_what_allocates_is_what_fit_says(attention: dict[str, object], options: dict[str, object], vary: str) -> None:
    """Equal to the token and to the sequence, in main memory."""
    question = asked(model(attention, layers=3), 400, **options)
    answer = measure_answer(question, Small(), LIMIT, vary)
    found = answer.until_oom
    assert found is not None
    fit = fit_answer(question.replace(available_bytes=LIMIT))
    assert (fit.max_context if vary == "context" else fit.max_batch) == found.measured == found.predicted
    assert (True, True, 1) == (found.agrees, answer.agrees, found.block)
    assert answer.measured_bytes <= LIMIT


def test_the_largest_is_then_weighed() -> None:
    """The measurement beside the search is of what was found, not of what was asked."""
    answer = measure_answer(asked(model(GQA), 10), Small(), 100 * 1024 + 1023, "context")
    assert (100, 100 * 1024) == (answer.workload.context, answer.measured_bytes)


def test_nothing_bounds_a_cache_that_does_not_grow() -> None:
    """Then the one that was asked for is weighed."""
    answer = measure_answer(asked(model({**GQA, "window": 10}), 100), Small(), LIMIT, "context")
    assert answer.until_oom is not None
    assert (None, None, True) == (answer.until_oom.measured, answer.until_oom.predicted, answer.agrees)


def test_a_device_that_holds_less_than_predicted_disagrees() -> None:
    """Exit code 1: something else takes room that the formula does not know of."""
    device = Small()
    plain = Small.allocate
    device.allocate = lambda shape, dtype: plain(device, (*shape, 2), dtype)  # type: ignore[method-assign]
    answer = measure_answer(asked(model(GQA), 100), device, LIMIT, "context")
    assert answer.until_oom is not None
    assert (False, False) == (answer.until_oom.agrees, answer.agrees)
    assert answer.until_oom.measured < answer.until_oom.predicted


def test_a_gpu_that_is_full_is_predicted_with_its_allocators_rounding() -> None:
    """Within one segment of one tensor; without the rounding the formula alone would name more."""
    gpu = fake_gpu(FakeCuda(total=600 * 2**20, context=100 * 2**20))
    question = asked(model(GQA, layers=3), 100)
    answer = measure_answer(question, gpu, 400 * 2**20, "context")
    found = answer.until_oom
    assert found is not None
    assert found.agrees
    assert found.block == 2 * 2**20 // 512


def test_an_axis_is_context_or_batch() -> None:
    """Nothing else grows."""
    assert "batch" == checked_axis("batch")
    with pytest.raises(InputError, match="--vary: found 'tokens', allowed context or batch"):
        checked_axis("tokens")
