"""mlx-lm itself, on a CPU: every cache class over drawn runs, and tiny models through its own generators."""

from __future__ import annotations

import os
import random
from typing import Any

import pytest
from mlx_models import MODELS, batched, caches, generated, mx

from kvplan.engine import engine_named
from kvplan.engine.mlx.rows import Feed, chunked_rows, full_rows, rotating_rows
from kvplan.errors import InputError
from kvplan.spec import ModelSpec, parse_spec
from kvplan.workload import Workload

pytestmark = pytest.mark.oracle

SEED = int(os.environ.get("KVPLAN_ORACLE_SEED", "20261129"))
NO_BFLOAT = {"bailing_hybrid", "llama4"}
"""Models whose experts the CPU cannot multiply in 16 bit."""


def spec_of(name: str, dtype: str) -> ModelSpec:
    groups = [{"count": 1, "attention": attention} for attention in MODELS[name][2]]
    return parse_spec({"name": name.replace("_", "-"), "dtype": dtype, "layers": groups}, "tiny.yaml")


def pieces(feed: Feed) -> list[int]:
    whole, rest = divmod(feed.bulk, feed.step)
    return [feed.step] * whole + [rest] * (rest > 0) + [1] * feed.alone


def drawn_feeds(count: int) -> list[Feed]:
    draw = random.Random(SEED)
    feeds = []
    for _ in range(count):
        step = draw.choice([1, 7, 100, 255, 256, 257, 512, 700, 1024, 2048, draw.randint(1, 3000)])
        tokens = draw.choice([1, 2, 256, 257, 300, 512, 513, draw.randint(1, 1500), draw.randint(1, 6000)])
        alone = min(tokens, draw.choice([0, 1, 1, 2, 30, 300, 600]))
        if step > 2 or tokens < 600:
            feeds.append(Feed(tokens, step, alone))
    return feeds


def fed(cache: Any, feed: Feed, batch: int = 1) -> Any:
    for size in pieces(feed):
        if hasattr(cache, "maybe_trim_front"):
            cache.maybe_trim_front()
        new = mx.zeros((batch, 1, size, 32), mx.float16)
        cache.update_and_fetch(new, new)
    return cache


@pytest.mark.parametrize("number", range(10))
def test_rows_of_every_cache_class_over_drawn_runs(number: int) -> None:
    draw = random.Random(SEED + number)
    for feed in drawn_feeds(400)[number::10]:
        window, chunk = draw.choice([5, 31, 256, 300, 1024, 2048]), draw.choice([256, 300, 1024])
        row = 2 * 32 * 2
        assert fed(caches.KVCache(), feed).nbytes == full_rows(feed) * row, feed
        quantized = fed(caches.QuantizedKVCache(32, 4), feed)
        assert quantized.nbytes == full_rows(feed) * 2 * (16 + 4), feed
        assert fed(caches.ChunkedKVCache(chunk), feed).nbytes == chunked_rows(feed, chunk) * row, (feed, chunk)
        for keep in (0, 4):
            rotating = fed(caches.RotatingKVCache(window, keep), feed)
            assert rotating.nbytes == rotating_rows(feed, window) * row, (feed, window, keep)


def compared(name: str, dtype: str, context: int, options: dict[str, int]) -> None:
    """The engine's two figures against a run of the library with the same options."""
    pairs = tuple(f"{key}={value}" for key, value in options.items())
    found = engine_named("mlx", pairs).reserve(spec_of(name, dtype), Workload(context))
    run = {key: value for key, value in options.items() if key not in ("max_kv_size", "max_tokens")}
    end, peak = generated(name, dtype, context, options.get("max_tokens", 0), options.get("max_kv_size"), **run)
    where = name, dtype, context, options
    assert (found.figures["kv_bytes"], found.reserved_bytes) == (end, peak), where
    assert sum(one["bytes"] for one in found.figures["caches"]) == end, where


@pytest.mark.parametrize("name", MODELS)
def test_models_hold_what_the_engine_says(name: str) -> None:
    draw = random.Random(f"{SEED} {name}")
    for _ in range(4):
        dtype = "fp32" if name in NO_BFLOAT else draw.choice(["bf16", "fp16", "fp32"])
        options = {"prefill_step_size": draw.choice([64, 100, 256, 512])}
        context = draw.choice([2, 32, 33, 257, draw.randint(5, 450)])
        if draw.random() < 0.4:
            options["max_tokens"] = draw.randint(1, min(12, context - 1))
        compared(name, dtype, context, options)


@pytest.mark.parametrize("name", ["qwen3", "deepseek_v3"])
@pytest.mark.parametrize(("context", "bound"), [(30, 40), (41, 40), (150, 40), (400, 300)])
def test_a_bound_makes_every_layer_rotate(name: str, context: int, bound: int) -> None:
    compared(name, "fp16", context, {"max_kv_size": bound, "prefill_step_size": 128})


@pytest.mark.parametrize("name", ["llama", "qwen3", "qwen3_next", "falcon_h1", "deepseek_v32", "llama4"])
def test_quantized_caches(name: str) -> None:
    draw = random.Random(f"{SEED} {name} quantized")
    for bits in draw.sample([2, 3, 4, 5, 6, 8], 4):
        dtype = "fp32" if name in NO_BFLOAT else draw.choice(["bf16", "fp16"])
        options = {
            "kv_bits": bits,
            "kv_group_size": draw.choice([32, 64]),
            "quantized_kv_start": draw.choice([0, 1, 50, 130, 300, 5000]),
            "prefill_step_size": draw.choice([100, 256]),
        }
        context = draw.randint(120, 400)
        if draw.random() < 0.5:
            options["max_tokens"] = draw.randint(1, 12)
        compared(name, dtype, context, options)


@pytest.mark.parametrize(
    ("name", "options", "error"),
    [
        ("gemma3", {"kv_bits": 4, "quantized_kv_start": 0}, NotImplementedError),
        ("qwen3", {"kv_bits": 4, "quantized_kv_start": 0, "max_kv_size": 64}, NotImplementedError),
        ("deepseek_v3", {"kv_bits": 4, "quantized_kv_start": 0}, AttributeError),
        ("nemotron_h", {"kv_bits": 4, "quantized_kv_start": 0}, ValueError),
    ],
)
def test_what_the_library_fails_on_is_refused(name: str, options: dict[str, int], error: type[Exception]) -> None:
    run = {key: value for key, value in options.items() if key != "max_kv_size"}
    with pytest.raises(error):
        generated(name, "fp32", 90, 3, options.get("max_kv_size"), **run)
    with pytest.raises(InputError):
        compared(name, "fp32", 90, options)


@pytest.mark.parametrize("name", ["qwen3", "gemma3", "qwen3_next", "deepseek_v32", "mamba2", "lfm2"])
@pytest.mark.parametrize(("context", "batch", "step"), [(40, 2, 256), (300, 3, 256), (260, 8, 128)])
def test_sequences_that_start_together(name: str, context: int, batch: int, step: int) -> None:
    found = engine_named("mlx", (f"prefill_step_size={step}",)).reserve(spec_of(name, "fp16"), Workload(context, batch))
    assert found.figures["kv_bytes"] == batched(name, "fp16", context, batch, step, None)
