"""Whoever begins alike finds the rows there; what nobody uses goes first, oldest first."""

from __future__ import annotations

from typing import Any

import pytest
from dense import SHAPE, dense, fresh, relative_error, stream, torch
from hypothesis import given, settings
from hypothesis import strategies as st

from kvplan.caches.block_pool import BlockPool
from kvplan.caches.interface import FullCacheError
from kvplan.caches.paged import Paged
from kvplan.caches.prefix_tree import PrefixTree

ROWS = stream(64, fresh(7))


def fed(tree: PrefixTree, tokens: list[int]) -> tuple[Paged, int]:
    """A sequence with the rows of all `tokens`, and how many of them were there already.

    A row depends on its token and its place, as that of a causal model depends on what came before.
    """
    cache = tree.begin(tokens)
    hits = cache.length
    missing = list(range(hits, len(tokens)))
    if missing:
        cache.append(*rows_of(tokens, missing))
    return cache, hits


def rows_of(tokens: list[int], places: list[int]) -> tuple[Any, Any]:
    """Keys and values of the tokens at `places`."""
    shift = [(sum(tokens[: place + 1]) * 5 + place) % 64 for place in places]
    return ROWS[1][:, shift], ROWS[2][:, shift]


@given(
    requests=st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=30), min_size=1, max_size=8),
    size=st.integers(1, 5),
)
@settings(max_examples=30)
def test_shared_prefixes_give_the_same_output(requests: list[list[int]], size: int) -> None:
    """To the bit as computed alone, and as dense attention; hits are the longest prefix of whole blocks seen before."""
    tree, alone = (PrefixTree(BlockPool(SHAPE, 300, size, torch.float32)) for _ in range(2))
    seen: set[tuple[int, ...]] = set()
    for tokens in requests:
        cache, hits = fed(tree, tokens)
        lengths = [
            n
            for n in range(0, len(tokens) + 1, size)
            if all(tuple(tokens[:m]) in seen for m in range(size, n + 1, size))
        ]
        assert max(lengths) == hits
        single = Paged(alone.pool)
        single.append(*rows_of(tokens, list(range(len(tokens)))))
        query = ROWS[0][:, len(tokens)]
        assert torch.equal(cache.attend(query), single.attend(query))
        expected = dense(query, *rows_of(tokens, list(range(len(tokens)))))
        assert relative_error(cache.attend(query), expected) <= 2e-6
        seen |= {tuple(tokens[:n]) for n in range(size, len(tokens) + 1, size)}
        tree.finish(cache, tokens)
        assert len(seen) == sum(1 for _ in tree.nodes()) == tree.pool.blocks - len(tree.pool.free)


def test_the_worked_example() -> None:
    """ "the cat sat", then "the cat ran": two rows are there."""
    tree = PrefixTree(BlockPool(SHAPE, 10, 1, torch.float32))
    tree.finish(fed(tree, [1, 2, 3])[0], [1, 2, 3])
    assert 2 == fed(tree, [1, 2, 4])[1]


def test_the_leaf_used_longest_ago_goes_first() -> None:
    """A branch from its tip to its root, and a path that was just used again stays."""
    tree = PrefixTree(BlockPool(SHAPE, 6, 1, torch.float32))
    for tokens in ([1, 2, 3], [4, 5, 6]):
        tree.finish(fed(tree, tokens)[0], tokens)
    tree.finish(fed(tree, [1, 2, 3])[0], [1, 2, 3])
    assert 0 == len(tree.pool.free)
    other = fed(tree, [7, 8])[0]
    assert {(1,), (2,), (3,), (4,)} == {node.tokens for node in tree.nodes()}
    tree.finish(other, [7, 8])


def test_what_a_running_sequence_uses_stays() -> None:
    """Even when that leaves no room."""
    tree = PrefixTree(BlockPool(SHAPE, 3, 1, torch.float32))
    tree.finish(fed(tree, [1, 2, 3])[0], [1, 2, 3])
    running = tree.begin([1, 2])
    other = fed(tree, [5])[0]
    assert {(1,), (2,)} == {node.tokens for node in tree.nodes()}
    with pytest.raises(FullCacheError):
        other.append(*rows_of([5, 6], [1]))
    running.release()
    other.append(*rows_of([5, 6], [1]))


def test_what_is_known_already_is_not_kept_twice() -> None:
    """Two that ran side by side leave one copy."""
    tree = PrefixTree(BlockPool(SHAPE, 20, 2, torch.float32))
    both = [fed(tree, [1, 2, 3, 4])[0] for _ in range(2)]
    assert 4 == tree.pool.blocks - len(tree.pool.free)
    for cache in both:
        tree.finish(cache, [1, 2, 3, 4])
    assert 2 == tree.pool.blocks - len(tree.pool.free)
