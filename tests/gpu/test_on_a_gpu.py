"""The checks of a GPU, in one command: `pytest tests/gpu -m gpu`; without one the same code runs over a stand-in.

On one card of 140 GB: exact bytes of caches of tens of GB in bf16, fp8 and int4 with scales, the rounding of
torch's allocator and the driver's count, the largest 70B caches that really allocate, and every technique.
"""

from __future__ import annotations

from typing import Any

import pytest
from stand_ins import FakeCuda, asked, fake_gpu, torch
from strategies import model, shipped

from kvplan.measure.comparing import compared
from kvplan.measure.contestants import contestants_named
from kvplan.measure.device import device_named
from kvplan.measure.weighing import measure_answer
from kvplan.question import subject

GPU = pytest.param(
    "cuda:0",
    marks=[pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="torch sees no GPU here")],
)
MHA = {"type": "mha", "heads": 64, "kv_heads": 64, "head_dim": 128}
GQA = {"type": "gqa", "heads": 64, "kv_heads": 8, "head_dim": 128}
SHARE = {"cuda:0": 1, "stand-in": 200}
"""How many times smaller a cache is made where its memory is main memory."""


@pytest.fixture(params=["stand-in", GPU])
def place(request: pytest.FixtureRequest) -> str:
    """Where the checks run."""
    return str(request.param)


def device(place: str) -> Any:
    """The GPU, or a card of 640 MiB made of main memory."""
    return fake_gpu(FakeCuda(total=640 * 2**20, context=2**24)) if place == "stand-in" else device_named(place)


@pytest.mark.parametrize(
    ("format_", "tokens"),
    [("bf16", 131_072), ("fp8", 131_072), ("int4_g32", 131_072), ("kivi2", 8_192), ("bf16", 32_769)],
)
def test_bytes_are_exact_and_everything_is_given_back(place: str, format_: str, tokens: int) -> None:
    """The tensors to the byte; what torch counts as allocated is their blocks; nothing is left."""
    gpu = device(place)
    question = asked(shipped("llama-3.1-70b"), tokens // SHARE[place], k_dtype=format_, v_dtype=format_)
    answer = measure_answer(question, gpu)
    figures = answer.allocator
    assert answer.agrees
    assert (80, 0, 0) == (answer.measured_layers, answer.difference_bytes, figures["left_bytes"])
    assert 0 == figures["allocated_difference_bytes"]
    assert figures["peak_bytes"] >= figures["allocated_measured_bytes"]


@pytest.mark.parametrize("tokens", [4_096, 40_000, 131_072])
def test_segments_and_the_drivers_count_are_predicted(place: str, tokens: int) -> None:
    """What the allocator takes from the driver for small, middling and large tensors, and what the driver sees."""
    answer = measure_answer(asked(shipped("llama-3.1-70b"), tokens // SHARE[place]), device(place))
    figures = answer.allocator
    assert 0 == figures["reserved_difference_bytes"]
    assert abs(figures["driver_difference_bytes"]) <= 32 * 2**20


@pytest.mark.parametrize("attention", [MHA, GQA], ids=["mha", "gqa"])
def test_the_largest_70b_cache_is_the_predicted_one(place: str, attention: Any) -> None:
    """80 layers until the card is full: equal to one block."""
    gpu = device(place)
    gpu.begin()
    free = gpu.free_bytes()
    limit = free * 95 // 100
    answer = measure_answer(asked(model(attention, layers=80), 64), gpu, limit, "context")
    assert answer.until_oom.agrees, answer.until_oom
    assert answer.agrees


def test_every_technique_runs_there(place: str) -> None:
    """Paged, contiguous and the rest hold what the formula says and agree with full attention as on the CPU."""
    where = "cpu" if place == "stand-in" else place
    found = compared(subject(asked(model(GQA), 8_192 // SHARE[place])), contestants_named("all"), where, str)
    assert [one.name for one in found.techniques if not one.agrees] == []
    errors = {one.name: one.relative_error for one in found.techniques}
    assert all(errors[name] < 0.02 for name in ("none", "contiguous", "dynamic", "paged", "prefix-tree", "gqa"))
