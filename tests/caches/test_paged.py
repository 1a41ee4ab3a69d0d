"""Paging changes where rows lie and nothing else: outputs are the same to the bit, and no block is ever lost."""

from __future__ import annotations

from typing import Any

import pytest
from dense import SHAPE, dense, fresh, relative_error, stream, torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from kvplan.caches.block_pool import BlockPool
from kvplan.caches.interface import FullCacheError, Shape
from kvplan.caches.paged import Paged
from kvplan.caches.prefix_tree import PrefixTree

seeds = st.integers(0, 2**31)
TINY = Shape(heads=1, kv_heads=1, head_dim=1, v_head_dim=1)


def sound(pool: BlockPool, *referring: list[int]) -> None:
    """Every reference is somebody's, free blocks are nobody's, and no block is twice free."""
    counts = [0] * pool.blocks
    for blocks in referring:
        for block in blocks:
            counts[block] += 1
    assert counts == pool.references
    assert sorted(pool.free) == [block for block, count in enumerate(counts) if not count]


@given(
    seed=seeds, prompt=st.integers(1, 40), samples=st.integers(2, 5), size=st.integers(1, 9), tail=st.integers(1, 20)
)
@settings(max_examples=25)
def test_copy_on_write_is_identical_to_unshared(seed: int, prompt: int, samples: int, size: int, tail: int) -> None:
    """Parallel samples of one prompt: the same outputs to the bit, and equal to dense attention."""
    generator = fresh(seed)
    _, keys, values = stream(prompt, generator)
    shared, alone = (BlockPool(SHAPE, 2000 // size + 60, size, torch.float32) for _ in range(2))
    first = Paged(shared)
    first.append(keys, values)
    forks = [first, *(first.fork() for _ in range(samples - 1))]
    assert -(-prompt // size) == shared.blocks - len(shared.free)
    singles = [Paged(alone) for _ in forks]
    for single in singles:
        single.append(keys, values)
    for fork, single in zip(forks, singles, strict=True):
        q, k, v = stream(tail, generator)
        for at in range(tail):
            for cache in (fork, single):
                cache.append(k[:, at : at + 1], v[:, at : at + 1])
            output = fork.attend(q[:, at])
            assert torch.equal(output, single.attend(q[:, at]))
        whole = torch.cat((keys, k), dim=1), torch.cat((values, v), dim=1)
        assert relative_error(output, dense(q[:, -1], *whole)) <= 2e-6
    held = shared.blocks - len(shared.free)
    own = -(-(prompt + tail) // size) - prompt // size
    assert prompt // size + samples * own == held
    sound(shared, *(fork.table for fork in forks))


def test_the_worked_example_of_parallel_sampling() -> None:
    """3 samples of 100 tokens in blocks of 16: 7 blocks, then 9."""
    _, keys, values = stream(101, fresh(3))
    pool = BlockPool(SHAPE, 21, 16, torch.float32)
    first = Paged(pool)
    first.append(keys[:, :100], values[:, :100])
    samples = [first, first.fork(), first.fork()]
    assert 7 == pool.blocks - len(pool.free)
    for sample in samples:
        sample.append(keys[:, 100:], values[:, 100:])
    assert 9 == pool.blocks - len(pool.free)


@given(seed=seeds, size=st.integers(1, 5), width=st.integers(2, 4))
@settings(max_examples=10)
def test_beam_search_keeps_what_its_beams_need(seed: int, size: int, width: int) -> None:
    """Beams fork from survivors and losers give back; every beam equals the same beam held alone."""
    generator = fresh(seed)
    pool, alone = (BlockPool(SHAPE, 400, size, torch.float32) for _ in range(2))
    beams = [(Paged(pool), list[Any]())]
    for _ in range(12):
        parents = torch.randint(len(beams), (width,), generator=generator).tolist()
        grown = []
        for parent in parents:
            q, k, v = stream(1, generator)
            child = beams[parent][0].fork()
            child.append(k, v)
            grown.append((child, [*beams[parent][1], (q, k, v)]))
        for beam, _ in beams:
            beam.release()
        beams = grown
        sound(pool, *(beam.table for beam, _ in beams))
    for beam, history in beams:
        single = Paged(alone)
        for _, k, v in history:
            single.append(k, v)
        q = history[-1][0][:, 0]
        assert torch.equal(beam.attend(q), single.attend(q))


@given(seed=seeds, tokens=st.integers(1, 40), size=st.integers(1, 9))
@settings(max_examples=15)
def test_swapping_and_recomputing_give_the_same_output(seed: int, tokens: int, size: int) -> None:
    """A preempted sequence gives all its blocks up, and is the same afterwards to the bit."""
    queries, keys, values = stream(tokens, fresh(seed))
    pool = BlockPool(SHAPE, 40, size, torch.float32)
    cache = Paged(pool)
    cache.append(keys, values)
    twin = cache.fork()
    before = cache.attend(queries[:, -1])
    cache.swap_out()
    twin.release()
    assert pool.blocks == len(pool.free)
    cache.swap_in()
    assert torch.equal(before, cache.attend(queries[:, -1]))
    cache.release()
    cache.append(keys, values)
    assert torch.equal(before, cache.attend(queries[:, -1]))


def test_a_pool_without_room_changes_nothing() -> None:
    """Neither an append that needs too many blocks nor a copy on write that finds none."""
    _, keys, values = stream(12, fresh(5))
    pool = BlockPool(SHAPE, 3, 4, torch.float32)
    first = Paged(pool)
    first.append(keys[:, :10], values[:, :10])
    second = first.fork()
    with pytest.raises(FullCacheError, match="all 3 blocks are in use"):
        second.append(keys[:, 10:], values[:, 10:])
    assert (10, first.table) == (second.length, second.table)
    second.release()
    first.append(keys[:, 10:], values[:, 10:])
    with pytest.raises(FullCacheError):
        first.append(keys[:, :1], values[:, :1])
    sound(pool, first.table)


def test_a_block_that_is_free_is_nobodys() -> None:
    """Giving back twice, or sharing what nobody has, is a bug that is seen at once."""
    pool = BlockPool(TINY, 2, 1, torch.float32)
    block = pool.take()
    pool.give_back(block)
    with pytest.raises(AssertionError, match="free already"):
        pool.give_back(block)
    with pytest.raises(AssertionError, match="is free"):
        pool.share(block)


class Sequences(RuleBasedStateMachine):
    """Sequences that grow, fork, end, move out and in; beside them, a plain list of numbers each."""

    @initialize(blocks=st.integers(1, 12), size=st.integers(1, 4))
    def begin(self, blocks: int, size: int) -> None:
        self.pool = BlockPool(TINY, blocks, size, torch.float32)
        self.tree = PrefixTree(self.pool)
        self.running: list[tuple[Paged, list[int]]] = []
        self.outside: list[tuple[Paged, list[int]]] = []
        self.next = 0

    @rule(prompt=st.lists(st.integers(0, 1), max_size=9))
    def start(self, prompt: list[int]) -> None:
        self.running.append(
            (self.tree.begin(prompt), prompt[: len(prompt) // self.pool.block_size * self.pool.block_size])
        )
        cache, known = self.running[-1]
        del known[cache.length :]

    @precondition(lambda self: self.running)
    @rule(which=st.integers(0, 99), tokens=st.lists(st.integers(0, 1), min_size=1, max_size=5))
    def grow(self, which: int, tokens: list[int]) -> None:
        cache, known = self.running[which % len(self.running)]
        rows = torch.tensor(tokens, dtype=torch.float32)[None, :, None]
        try:
            cache.append(rows, rows)
        except FullCacheError:
            return
        known += tokens

    @precondition(lambda self: self.running)
    @rule(which=st.integers(0, 99))
    def fork(self, which: int) -> None:
        cache, known = self.running[which % len(self.running)]
        self.running.append((cache.fork(), list(known)))

    @precondition(lambda self: self.running)
    @rule(which=st.integers(0, 99), keep=st.booleans())
    def end(self, which: int, keep: bool) -> None:
        cache, known = self.running.pop(which % len(self.running))
        if keep:
            self.tree.finish(cache, known)
        else:
            cache.release()

    @precondition(lambda self: self.running)
    @rule(which=st.integers(0, 99))
    def swap_out(self, which: int) -> None:
        self.outside.append(self.running.pop(which % len(self.running)))
        self.outside[-1][0].swap_out()

    @precondition(lambda self: self.outside)
    @rule()
    def swap_in(self) -> None:
        try:
            self.outside[-1][0].swap_in()
        except FullCacheError:
            return
        self.running.append(self.outside.pop())

    @rule()
    def evict(self) -> None:
        self.tree.evict()

    @invariant()
    def nothing_is_lost(self) -> None:
        if not hasattr(self, "pool"):
            return
        held = [node.block for node in self.tree.nodes()]
        sound(self.pool, held, *(cache.table for cache, _ in self.running))
        for cache, known in self.running:
            assert known == cache.rows()[0].flatten().int().tolist()
            assert -(-len(known) // self.pool.block_size) == len(cache.table)

    def teardown(self) -> None:
        if not hasattr(self, "pool"):
            return
        for cache, _ in self.running:
            cache.release()
        while self.tree.evict():
            pass
        assert [0] * self.pool.blocks == self.pool.references


TestSequences = Sequences.TestCase
TestSequences.settings = settings(max_examples=100, stateful_step_count=100)  # ten thousand operations
