"""The transformers engine against the library itself: real forwards on a CPU, caches weighed, equal to the byte.

Fixed points stand at the edges of windows and compression ratios; two more per model are drawn anew in each run.
A failure names the seed: KVPLAN_SEED repeats it.
"""

from __future__ import annotations

import os
import random
import secrets
from typing import Any

import pytest

pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from tiny_blocks import WINDOW, Tiny
from tiny_models import MODELS, NAMED
from weighing import filled, weighed

from kvplan.engine import engine_named
from kvplan.engine.transformers import ENGINE
from kvplan.footprint import cache_plan
from kvplan.workload import Workload

pytestmark = pytest.mark.oracle

SEED = int(os.environ.get("KVPLAN_SEED") or secrets.randbelow(2**32))
Point = tuple[int, int, int]
W = WINDOW
EDGES: tuple[Point, ...] = (
    (1, 1, 1), (2, 2, 1), (2, W - 1, W - 1), (1, W, W), (1, W, W - 1),
    (2, W + 1, W + 1), (1, W + 1, 5), (2, 2 * W, 2 * W), (1, 40, 31),
)  # fmt: skip
RUNS = [pytest.param(tiny, cache, id=f"{tiny.name}-{cache}") for tiny in MODELS for cache in tiny.caches]


def drawn(tiny: Tiny, cache: str) -> list[tuple[str, Point]]:
    """Two fresh points, each in a dtype of its own."""
    dice = random.Random(f"{SEED} {tiny.name} {cache}")
    points = []
    for dtype in ("bf16", "fp32"):
        context = dice.randint(1, 60)
        points.append((dtype, (dice.randint(1, 3), context, max(1, context - dice.randint(0, 12)))))
    return points


def reserved(tiny: Tiny, dtype: str, point: Point, **options: Any) -> tuple[int, int]:
    """The engine's two figures."""
    batch, context, first = point
    pairs = tuple(f"{key}={value}" for key, value in {"prefill": first, **options}.items())
    figures = engine_named("transformers", pairs).reserve(tiny.spec(dtype), Workload(context, batch)).figures
    return int(figures["logical_bytes"]), int(figures["storage_bytes"])


def test_the_library_is_the_version_the_engine_describes() -> None:
    assert transformers.__version__.startswith(f"{ENGINE.VERSIONS[-1]}.")


@pytest.mark.parametrize(("tiny", "cache"), RUNS)
def test_logical_and_storage_bytes_are_the_librarys(tiny: Tiny, cache: str) -> None:
    points = [("bf16", point) for point in EDGES] + drawn(tiny, cache)
    for dtype, (batch, context, first) in points:
        if tiny.feed == "image" and cache == "static" and context < (tiny.encoder_tokens or 0):
            continue  # the library raises: see below
        found = weighed(filled(tiny, dtype, batch, context, first, cache))
        counted = reserved(tiny, dtype, (batch, context, first), cache=cache)
        assert counted == found, f"{dtype}, batch {batch}, context {context}, first update {first}; KVPLAN_SEED={SEED}"


@pytest.mark.parametrize("tiny", [pytest.param(tiny, id=tiny.name) for tiny in MODELS if tiny.full])
def test_the_ideal_total_is_what_the_library_shows_for_full_attention(tiny: Tiny) -> None:
    for dtype, (batch, context, first) in [("bf16", point) for point in EDGES[:4]] + drawn(tiny, "ideal"):
        workload = Workload(context, batch, index_dtype=dtype)
        total = cache_plan(tiny.spec(dtype), workload).total_bytes(context, batch)
        found, _ = weighed(filled(tiny, dtype, batch, context, first, "dynamic"))
        assert total == found, f"{dtype}, batch {batch}, context {context}; KVPLAN_SEED={SEED}"


@pytest.mark.parametrize("name", ["llama", "mistral", "deepseek-v3.2", "falcon-h1", "whisper", "mllama"])
def test_a_static_cache_longer_than_the_context_is_counted_at_its_own_length(name: str) -> None:
    tiny = NAMED[name]
    found = weighed(filled(tiny, "bf16", 2, 9, 5, "static", max_cache_len=30))
    assert reserved(tiny, "bf16", (2, 9, 5), cache="static", max_cache_len=30) == found


def test_one_generated_token_frees_what_a_prefill_left_beneath_the_window() -> None:
    tiny = NAMED["mistral"]
    _, before = weighed(filled(tiny, "bf16", 1, 200, 200, "dynamic"))
    _, after = weighed(filled(tiny, "bf16", 1, 201, 200, "dynamic"))
    assert (before, after) == (200 * 2 * 64 + 16, W * 2 * 64 + 16)


@pytest.mark.parametrize("name", ["minimax", "xlstm", "deepseek-v4"])
def test_the_library_refuses_the_static_caches_that_the_engine_refuses(name: str) -> None:
    with pytest.raises((ValueError, KeyError, AttributeError)):
        filled(NAMED[name], "bf16", 1, 4, 4, "static")


def test_the_library_refuses_an_encoder_longer_than_a_static_cross_layer() -> None:
    with pytest.raises(IndexError):
        filled(NAMED["mllama"], "bf16", 1, 4, 4, "static")
