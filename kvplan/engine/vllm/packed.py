"""Groups whose pages lie side by side in one block: compressed attention (DeepSeek-V4), whose pages differ.

Layers that need equally many blocks are one bucket. A bucket with equally many layers of each of its page sizes is a
pattern that repeats; the largest pattern of mixed pages says how many repeats a group has, and other such buckets are
cut to as near that as wastes least. Buckets of small states may be cut further, to what a block holds anyway.
A block is as wide as the widest group.

Worked: DeepSeek-V4-Flash's 21 + 20 compressed layers with 21 indexes are one group, the widest: 1,002,240 bytes per block.

Source: vLLM 0.33.0 vllm/v1/core/kv_cache_planning.py `_get_packed_kv_cache_groups`, executed.
"""

from __future__ import annotations

from kvplan.engine.vllm.caches import STATE, WINDOWED, Caches, Group, uniform
from kvplan.units import ceil_div

Pages = dict[int, list[int]]
"""Layers by the bytes of their page, in layer order."""


def packed(caches: Caches) -> list[Group]:
    """The groups of a model whose pages lie side by side."""
    buckets = [_pages(caches, bucket) for bucket in _buckets(caches)]
    balanced = [len(set(map(len, pages.values()))) == 1 for pages in buckets]
    patterns = [_repeats(pages) for pages, even in zip(buckets, balanced, strict=True) if even]
    mixed = [_repeats(pages) for pages, even in zip(buckets, balanced, strict=True) if even and len(pages) > 1]
    repeats = _least_padded(patterns, max(mixed)) if mixed else None
    counts = [
        ceil_div(_repeats(pages), repeats) if even and repeats else 1
        for pages, even in zip(buckets, balanced, strict=True)
    ]
    states = [_may_shrink(caches, pages, repeats) for pages in buckets]
    anchor = max(
        _widest(pages, sum(map(len, pages.values())) if state else count)
        for pages, count, state in zip(buckets, counts, states, strict=True)
    )
    groups: list[Group] = []
    for pages, count, state in zip(buckets, counts, states, strict=True):
        layers = sorted(layer for named in pages.values() for layer in named)
        if state:
            fitting = max(anchor // caches[layers[0]].page_bytes, 1)
            count = max(count, ceil_div(len(layers), fitting))
        groups.extend(_dealt(caches, layers, pages, count))
    return groups


def _buckets(caches: Caches) -> list[list[int]]:
    buckets: list[list[int]] = []
    for layer, cache in enumerate(caches):
        for bucket in buckets:
            if uniform((caches[bucket[0]], cache)):
                bucket.append(layer)
                break
        else:
            buckets.append([layer])
    return buckets


def _pages(caches: Caches, bucket: list[int]) -> Pages:
    pages: Pages = {}
    for layer in bucket:
        pages.setdefault(caches[layer].page_bytes, []).append(layer)
    return pages


def _repeats(pages: Pages) -> int:
    """Most layers that share a page size."""
    return max(map(len, pages.values()))


def _least_padded(counts: list[int], least: int) -> int:
    """The size from `least` to the largest count in whose multiples the counts waste least; the largest such."""
    sizes = range(least, max(counts) + 1)
    return min(sizes, key=lambda size: (sum(-count % size for count in counts), -size))


def _may_shrink(caches: Caches, pages: Pages, repeats: int | None) -> bool:
    """Whether a bucket may be cut to fit a block: states, and windows where no pattern repeats."""
    first = caches[min(layer for named in pages.values() for layer in named)]
    return first.kind == STATE or (repeats is None and first.kind in WINDOWED)


def _widest(pages: Pages, count: int) -> int:
    """Bytes of the largest of `count` groups that a bucket is cut into."""
    return sum(ceil_div(len(layers), count) * page for page, layers in pages.items())


def _dealt(caches: Caches, layers: list[int], pages: Pages, count: int) -> list[Group]:
    """A bucket in `count` groups: repeats of its pattern, dealt round-robin."""
    if count == 1:
        return [Group(tuple(layers), tuple(caches[layer] for layer in layers))]
    patterns = list(zip(*pages.values(), strict=False))
    groups = []
    for first in range(count):
        dealt = tuple(layer for pattern in patterns[first::count] for layer in pattern)
        groups.append(Group(dealt, tuple(caches[layer] for layer in dealt)))
    return groups
