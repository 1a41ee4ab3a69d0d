"""Caches that keep every row they promise equal dense attention over those rows, to the rounding of single precision."""

from __future__ import annotations

from typing import Any

import pytest
from dense import SHAPE, dense, fresh, relative_error, stream, torch
from hypothesis import given, settings
from hypothesis import strategies as st

from kvplan.caches.block_pool import BlockPool
from kvplan.caches.chunk import Chunk
from kvplan.caches.contiguous import Contiguous
from kvplan.caches.dynamic import Dynamic
from kvplan.caches.grouped import Grouped
from kvplan.caches.interface import FullCacheError, Shape, storage_bytes
from kvplan.caches.paged import Paged
from kvplan.caches.recompute import Recompute
from kvplan.caches.window import Window
from kvplan.footprint import cache_plan
from kvplan.growth import Chunk as ChunkLaw
from kvplan.growth import Window as WindowLaw
from kvplan.growth import rows
from kvplan.spec import parse_spec
from kvplan.workload import Workload

EXACT = 2e-6
"""Relative error of a cache in single precision; in double precision it is below DOUBLE."""
DOUBLE = 1e-14
seeds = st.integers(0, 2**31)
lengths = st.integers(1, 70)
quick = settings(max_examples=12)


def predicted(tokens: int, shape: Shape = SHAPE, dtype: str = "fp32", **attention: Any) -> int:
    """What kvplan counts for one such layer."""
    heads = {"heads": shape.heads, "kv_heads": shape.kv_heads, "head_dim": shape.head_dim}
    kind = {"type": "gqa", **heads, "v_head_dim": shape.v_head_dim, **attention}
    spec = parse_spec({"name": "layer", "dtype": dtype, "layers": 1, "attention": kind}, "layer.yaml")
    return int(cache_plan(spec, Workload(tokens)).total_bytes(tokens))


def steps(cache: Any, queries: Any, keys: Any, values: Any, first: int = 1) -> list[Any]:
    """The output after a prompt of `first` tokens and after each token that follows."""
    outputs = []
    for end in range(first, keys.shape[1] + 1):
        begin = 0 if end == first else end - 1
        cache.append(keys[:, begin:end], values[:, begin:end])
        outputs.append(cache.attend(queries[:, end - 1]))
    return outputs


MAKERS = {
    "contiguous": lambda dtype, n, *_: Contiguous(SHAPE, n, dtype),
    "dynamic": lambda dtype, *_: Dynamic(SHAPE, dtype),
    "gqa": lambda dtype, n, *_: Grouped(SHAPE, n, dtype),
    "paged": lambda dtype, *_: Paged(BlockPool(SHAPE, 30, 4, dtype)),
    "none": lambda dtype, _, q, k, v: Recompute(lambda m: (q[:, :m].to(dtype), k[:, :m].to(dtype), v[:, :m].to(dtype))),
}


@pytest.mark.parametrize("name", MAKERS)
@pytest.mark.parametrize(("dtype", "bound"), [(torch.float32, EXACT), (torch.float64, DOUBLE)], ids=["fp32", "fp64"])
@given(seed=seeds, tokens=lengths, first=lengths)
@quick
def test_full_caches_equal_dense_attention(
    name: str, dtype: Any, bound: float, seed: int, tokens: int, first: int
) -> None:
    """At every step, whatever the prompt."""
    queries, keys, values = stream(tokens, fresh(seed))
    first = min(first, tokens)
    cache = MAKERS[name](dtype, tokens, queries, keys, values)
    outputs = steps(cache, queries.to(dtype), keys.to(dtype), values.to(dtype), first)
    for end, output in enumerate(outputs, first):
        assert relative_error(output, dense(queries[:, end - 1], keys[:, :end], values[:, :end])) <= bound


@given(seed=seeds, tokens=lengths, bound=st.integers(1, 80))
@quick
def test_a_window_attends_to_its_last_rows(seed: int, tokens: int, bound: int) -> None:
    """Exactly those, and in use are as many as the growth law says."""
    queries, keys, values = stream(tokens, fresh(seed))
    cache = Window(SHAPE, bound, torch.float32)
    for end, output in enumerate(steps(cache, queries, keys, values), 1):
        kept = list(range(max(0, end - bound), end))
        assert relative_error(output, dense(queries[:, end - 1], keys, values, kept)) <= EXACT
    assert kept == sorted(cache.positions())
    assert rows(WindowLaw(bound), tokens) == cache.rows
    assert predicted(tokens, window=bound) == cache.used_bytes()


@given(seed=seeds, tokens=lengths, chunk=st.integers(1, 30), first=lengths)
@quick
def test_a_chunk_attends_to_its_own_rows(seed: int, tokens: int, chunk: int, first: int) -> None:
    """Those from the last boundary on; room is held for a full one."""
    queries, keys, values = stream(tokens, fresh(seed))
    first = min(first, tokens)
    cache = Chunk(SHAPE, chunk, torch.float32)
    for end, output in enumerate(steps(cache, queries, keys, values, first), first):
        kept = [token for token in range(end) if token // chunk == (end - 1) // chunk]
        assert relative_error(output, dense(queries[:, end - 1], keys, values, kept)) <= EXACT
    assert len(kept) == cache.rows <= rows(ChunkLaw(chunk), tokens)
    assert predicted(max(tokens, chunk), chunk=chunk) == storage_bytes(cache.tensors())


@given(seed=seeds, tokens=lengths, bound=st.integers(1, 30), first=lengths)
@quick
def test_a_window_may_be_filled_at_once(seed: int, tokens: int, bound: int, first: int) -> None:
    """A prompt longer than the ring leaves what one token after the other would have left."""
    queries, keys, values = stream(tokens, fresh(seed))
    one, many = Window(SHAPE, bound, torch.float32), Window(SHAPE, bound, torch.float32)
    steps(one, queries, keys, values)
    steps(many, queries, keys, values, min(first, tokens))
    assert one.positions() == many.positions()
    for a, b in zip(one.tensors(), many.tensors(), strict=True):
        assert torch.equal(a[:, : one.rows], b[:, : many.rows])


@pytest.mark.parametrize("tokens", [1, 15, 16, 17, 33])
@pytest.mark.parametrize(
    ("dtype", "name"), [(torch.float32, "fp32"), (torch.bfloat16, "bf16"), (torch.float16, "fp16")]
)
def test_bytes_are_those_of_the_formula(tokens: int, dtype: Any, name: str) -> None:
    """Held by the dynamic one; in use in the others; a block at most is waste in the paged one; no cache holds none."""
    queries, keys, values = stream(tokens, fresh(tokens))
    one = predicted(1, dtype=name)
    for maker in MAKERS.values():
        cache = maker(dtype, 64, queries, keys, values)
        cache.append(keys, values)
        assert cache.used_bytes() in {0, predicted(tokens, dtype=name)}
        held = storage_bytes(cache.tensors())
        if isinstance(cache, Paged):
            assert -(-tokens // 4) * 4 * one == cache.held_bytes()
            assert (30 * 4 * one, -(-tokens // 4) * 4) == (held, sum(t.numel() * 4 for t in cache.bookkeeping()))
        else:
            expected = {Dynamic: tokens, Recompute: 0}.get(type(cache), 64)
            assert (expected * one, []) == (held, list(cache.bookkeeping()))


@pytest.mark.parametrize("make", [MAKERS["contiguous"], MAKERS["gqa"]])
def test_a_full_cache_says_so(make: Any) -> None:
    """And keeps what it has."""
    queries, keys, values = stream(9, fresh(1))
    cache = make(torch.float32, 8, queries, keys, values)
    cache.append(keys[:, :7], values[:, :7])
    with pytest.raises(FullCacheError):
        cache.append(keys[:, 7:], values[:, 7:])
    assert 7 == cache.length


def test_no_key_is_copied_per_query_head() -> None:
    """No operation in grouped attention makes a tensor as large as the keys of all query heads."""
    shape = Shape(heads=32, kv_heads=2, head_dim=16, v_head_dim=16)
    queries, keys, values = (t.float() for t in stream(200, fresh(1), shape))
    cache = Grouped(shape, 200, torch.float32)
    cache.append(keys, values)

    class Watched(torch.Tensor):
        largest = 0

        @classmethod
        def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            made = super().__torch_function__(func, types, args, kwargs or {})
            if (
                isinstance(made, torch.Tensor)
                and made.untyped_storage().data_ptr() != cache.keys.untyped_storage().data_ptr()
            ):
                Watched.largest = max(Watched.largest, made.untyped_storage().nbytes() // made.element_size())
            return made

    output = cache.attend(queries[:, -1].clone().as_subclass(Watched))
    assert isinstance(output, Watched)
    assert 0 < Watched.largest <= shape.heads * 200 < shape.heads * 200 * shape.head_dim // 8


def test_recomputing_scores_the_pairs_that_the_formula_counts() -> None:
    """t x t at step t, heads included: cubic in all."""
    queries, keys, values = stream(20, fresh(1))
    scored = []

    def project(tokens: int) -> tuple[Any, Any, Any]:
        scored.append(tokens * tokens)
        return queries[:, :tokens], keys[:, :tokens], values[:, :tokens]

    steps(Recompute(project), queries, keys, values)
    assert 20 * 21 * 41 // 6 == sum(scored)
