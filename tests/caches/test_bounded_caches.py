"""Caches that let rows go keep exactly the rows their policy promises, and attend to those as dense attention does."""

from __future__ import annotations

from typing import Any

import pytest
from dense import SHAPE, dense, fresh, relative_error, stream, torch
from hypothesis import given, settings
from hypothesis import strategies as st

from kvplan.caches.h2o import H2o
from kvplan.caches.interface import storage_bytes
from kvplan.caches.rotary import rotated
from kvplan.caches.streaming import Streaming
from kvplan.footprint import cache_plan
from kvplan.growth import Window, rows
from kvplan.policy import policy_named
from kvplan.spec import parse_spec
from kvplan.workload import Workload

EXACT = 3e-6
seeds = st.integers(0, 2**31)


def predicted(tokens: int, policy: str) -> int:
    """What kvplan counts for one layer of this shape in single precision under `policy`."""
    heads = {
        "heads": SHAPE.heads,
        "kv_heads": SHAPE.kv_heads,
        "head_dim": SHAPE.head_dim,
        "v_head_dim": SHAPE.v_head_dim,
    }
    values = {"name": "layer", "dtype": "fp32", "layers": 1, "attention": {"type": "gqa", **heads}}
    plan = cache_plan(
        parse_spec(values, "layer.yaml"), Workload(tokens, policy=policy_named(policy), policy_text=policy)
    )
    return int(plan.total_bytes(tokens))


def turned(row: Any, position: int) -> Any:
    """One row [width] turned to its position: each pair of elements as a complex number, apart from `rotated`."""
    half = row.shape[-1] // 2
    pairs = torch.complex(row[:half].double(), row[half:].double())
    angle = torch.tensor([position * 10_000.0 ** (-i / half) for i in range(half)], dtype=torch.float64)
    spun = pairs * torch.polar(torch.ones_like(angle), angle)
    return torch.cat((spun.real, spun.imag))


@given(seed=seeds, position=st.integers(0, 200_000))
@settings(max_examples=20)
def test_rotation_is_a_turn_of_complex_numbers(seed: int, position: int) -> None:
    """And a score depends on how far two rows are apart, not on where they are."""
    queries, keys, _ = stream(2, fresh(seed))
    places = torch.tensor([position, position + 3])
    found = rotated(keys, places)
    assert relative_error(found[0, 0], turned(keys[0, 0], position)) < 1e-11
    far = (rotated(queries[:2, :1], places[1:]) * rotated(keys[:, :1], places[:1])).sum()
    near = (rotated(queries[:2, :1], torch.tensor([3])) * rotated(keys[:, :1], torch.tensor([0]))).sum()
    assert abs(far - near) < 1e-7


@given(seed=seeds, tokens=st.integers(1, 50), sinks=st.integers(0, 6), window=st.integers(1, 20))
@settings(max_examples=12)
def test_streaming_keeps_the_sinks_and_the_newest(seed: int, tokens: int, sinks: int, window: int) -> None:
    """At every step exactly those, turned to their places in the cache."""
    queries, keys, values = stream(tokens, fresh(seed))
    cache = Streaming(SHAPE, sinks, window, torch.float32)
    for end in range(1, tokens + 1):
        cache.append(keys[:, end - 1 : end], values[:, end - 1 : end])
        output = cache.attend(queries[:, end - 1].float())
        kept = [token for token in range(end) if token < sinks or token >= end - window]
        assert kept == cache.positions()
        spun = torch.stack(
            [torch.stack([turned(head[token], place) for place, token in enumerate(kept)]) for head in keys]
        )
        query = torch.stack([turned(head[end - 1], len(kept) - 1) for head in queries])
        assert relative_error(output, dense(query, spun, values[:, kept])) <= EXACT
    law = policy_named(f"streaming:sinks={sinks},window={window}").kept()
    assert rows(law, tokens) == len(kept) == cache.rows
    assert predicted(tokens, f"streaming:sinks={sinks},window={window}") == cache.used_bytes()


def heavy_rows(queries: Any, keys: Any, tokens: int, law: Any, prompt: int) -> list[list[int]]:
    """The rows that H2O keeps per KV head, worked out with lists and double precision, one row at a time."""
    kept: list[list[int]] = []
    group = SHAPE.heads // SHAPE.kv_heads
    for head in range(SHAPE.kv_heads):
        held: list[int] = []
        score: dict[int, float] = {}
        for end in range(1, tokens + 1):
            held.append(end - 1)
            score[end - 1] = 0.0
            for query in queries[head * group : (head + 1) * group, end - 1]:
                raw = (keys[head][held] @ query) / SHAPE.head_dim**0.5
                share = torch.exp(raw - raw.max())
                for row, weight in zip(held, (share / share.sum()).tolist(), strict=True):
                    score[row] += weight
            budget = rows(law, end)
            newest = budget - budget // 2
            while end >= prompt and len(held) > budget:
                candidates = held[: len(held) - newest]
                held.remove(min(reversed(candidates), key=lambda row: score[row]))
        kept.append(held)
    return kept


@given(
    seed=seeds,
    tokens=st.integers(1, 40),
    budget=st.sampled_from(["0.2", "0.333", "0.5", "0.75", "1"]),
    prompt=st.integers(1, 20),
)
@settings(max_examples=25)
def test_h2o_keeps_the_heavy_hitters_and_the_newest(seed: int, tokens: int, budget: str, prompt: int) -> None:
    """Per KV head, as many rows as the policy's law says, and its bytes."""
    law = policy_named(f"h2o:budget={budget}").kept()
    prompt = max(prompt, 5)  # a fifth of fewer tokens is no row at all
    queries, keys, values = stream(tokens, fresh(seed))
    cache = H2o(SHAPE, law, torch.float32, prompt)
    for end in range(1, tokens + 1):
        cache.append(keys[:, end - 1 : end], values[:, end - 1 : end])
        before = cache.tokens.tolist()
        output = cache.attend(queries[:, end - 1].float())
        group = SHAPE.heads // SHAPE.kv_heads
        for head, held in enumerate(before):
            mine = slice(head * group, (head + 1) * group)
            expected = dense(queries[mine, end - 1], keys[head : head + 1], values[head : head + 1], held)
            assert relative_error(output[mine], expected) <= EXACT
    assert heavy_rows(queries, keys, tokens, law, prompt) == cache.tokens.tolist()
    if tokens >= prompt:
        assert rows(law, tokens) == cache.keys.shape[1]
        assert predicted(tokens, f"h2o:budget={budget}") == storage_bytes(cache.tensors()) == cache.used_bytes()


def test_h2o_takes_a_fixed_budget_too() -> None:
    """8 heavy and 8 recent of any longer text; the newest 8 are always among them."""
    queries, keys, values = stream(60, fresh(11))
    cache = H2o(SHAPE, Window(16), torch.float32)
    for at in range(60):
        cache.append(keys[:, at : at + 1], values[:, at : at + 1])
        cache.attend(queries[:, at].float())
    assert (2, 16) == cache.tokens.shape
    assert all(list(range(52, 60)) == held[8:] for held in cache.tokens.tolist())
    assert 2 * 16 * (4 + 4) == sum(t.numel() * t.element_size() for t in cache.bookkeeping())


@pytest.mark.parametrize("sinks", [0, 4])
def test_a_long_text_stays_within_its_positions(sinks: int) -> None:
    """After many times the window the outputs are still those of a short text's positions."""
    queries, keys, values = stream(300, fresh(2))
    cache = Streaming(SHAPE, sinks, 12, torch.float32)
    cache.append(keys, values)
    assert [*range(sinks), *range(288, 300)] == cache.positions()
    assert torch.isfinite(cache.attend(queries[:, -1].float())).all()
    assert (sinks + 12) * 2 * (64 + 32) * 4 == storage_bytes(cache.tensors())
