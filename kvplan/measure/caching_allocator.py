"""What CUDA's caching allocator reserves for tensors of given sizes: its rounding, replayed.

A block is a multiple of 512 bytes. Blocks up to 1 MiB are cut from segments of 2 MiB; larger ones
below 10 MiB from segments of 20 MiB; from 10 MiB on a segment is the block rounded up to 2 MiB.
The smallest free block that is large enough is used, and cut where a rest worth keeping remains
(512 bytes among small ones, more than 1 MiB among large ones). With expandable segments each of
the two pools grows in steps of 2 and 20 MiB.

Worked: 3 tensors of 700,000 bytes take 3 blocks of 700,416; two share the first segment of 2 MiB,
the third opens a second one: 2,101,248 allocated, 4,194,304 reserved.

Source: PyTorch 2.13, c10/cuda/CUDACachingAllocator (kMinBlockSize, kSmallSize, kSmallBuffer,
kLargeBuffer, kMinLargeAlloc, kRoundLarge; should_split), read, not yet compared with a GPU.

>>> reserved([700_000] * 3), allocated([700_000] * 3)
(4194304, 2101248)
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable

BLOCK = 512
SMALL = 2**20
SMALL_SEGMENT = 2 * 2**20
LARGE_SEGMENT = 20 * 2**20
OWN_SEGMENT_FROM = 10 * 2**20
SEGMENT_STEP = 2 * 2**20


def block_bytes(size: int) -> int:
    """The block behind a tensor of `size` bytes; an empty tensor has none."""
    return -(-size // BLOCK) * BLOCK


def allocated(sizes: Iterable[int]) -> int:
    """What `memory_allocated` counts: the blocks."""
    return sum(block_bytes(size) for size in sizes)


def reserved(sizes: Iterable[int], expandable: bool = False) -> int:
    """What `memory_reserved` counts: the segments, for tensors allocated in this order from nothing."""
    return _expandable(sizes) if expandable else _segments(sizes)


def _segments(sizes: Iterable[int]) -> int:
    total = 0
    free: dict[bool, list[int]] = {True: [], False: []}  # by pool: small, large
    for size in sizes:
        block = block_bytes(size)
        if not block:
            continue
        small = block <= SMALL
        pool = free[small]
        place = bisect_left(pool, block)
        if place < len(pool):
            found = pool.pop(place)
        else:
            found = _segment_bytes(block)
            total += found
        rest = found - block
        if rest >= BLOCK if small else rest > SMALL:
            insort(pool, rest)
    return total


def _segment_bytes(block: int) -> int:
    if block <= SMALL:
        return SMALL_SEGMENT
    if block < OWN_SEGMENT_FROM:
        return LARGE_SEGMENT
    return -(-block // SEGMENT_STEP) * SEGMENT_STEP


def _expandable(sizes: Iterable[int]) -> int:
    blocks = [block_bytes(size) for size in sizes]
    small = sum(block for block in blocks if block <= SMALL)
    large = sum(block for block in blocks if block > SMALL)
    return -(-small // SMALL_SEGMENT) * SMALL_SEGMENT + -(-large // LARGE_SEGMENT) * LARGE_SEGMENT
