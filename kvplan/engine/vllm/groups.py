"""Layers into groups that share block tables, and the one page size that hybrid models need.

In vLLM's order: layers of one specification are one group; layers that need the same number of blocks are one group
of mixed pages; else pages are made equal (blocks of small pages get more tokens where they divide the largest page,
else the page is padded) and every kind is cut into groups of as many layers as the rarest kind has, or as the most
common where that has less than 1.5 times as many. A block belongs to one group at a time, so short groups waste the
rest of it.

Worked: Gemma-3-27B, 52 windowed and 10 full layers: seven groups of 10, 62 layers padded to 70.

Source: vLLM 0.33.0 vllm/v1/core/kv_cache_planning.py `get_kv_cache_groups`, executed.
"""

from __future__ import annotations

from fractions import Fraction

from kvplan.engine.vllm.caches import (
    CHUNK,
    FULL,
    GROWING,
    LATENT_WINDOW,
    MLA,
    STATE,
    WINDOW,
    WINDOWED,
    Cache,
    Caches,
    Group,
    mergeable,
    uniform,
)
from kvplan.engine.vllm.packed import packed
from kvplan.engine.vllm.versions import Profile
from kvplan.units import ceil_div


class CannotGroupError(Exception):
    """VLLM itself refuses these layers, or does so with some backends only; the text says why."""

    def __init__(self, why: str, always: bool = True) -> None:
        super().__init__(why)
        self.always = always


def grouped(caches: Caches, profile: Profile, hybrid: bool, beside: bool = False) -> list[Group]:
    """The groups of a model whose layers keep `caches`, in order; hybrid False allocates windows in full.

    beside: pages of different sizes lie side by side in a block.

    Raises: CannotGroupError where vLLM does not start.
    """
    if not hybrid:
        caches = promoted(caches)
    if any(cache.padded is not None and cache.padded < cache.bare_bytes for cache in caches):
        raise CannotGroupError("pages of a layer in the model's dtype are larger than those of the quantised ones")
    everything = tuple(range(len(caches)))
    if not caches:
        return []
    if mergeable(caches) or uniform(caches):
        return [Group(everything, caches)]
    if beside and len({cache.page_bytes for cache in caches}) > 1:
        return packed(caches)
    try:
        caches = unified(caches, profile)
    except CannotGroupError:
        if not profile.full_fallback:
            raise
        return [Group(everything, fully_allocated(caches))]
    return _cut(caches, profile.group_ratio)


def promoted(caches: Caches) -> Caches:
    """The caches with windows and chunks as full attention, where both are there.

    Raises: CannotGroupError where they still differ in kind.
    """
    if mergeable(caches) or uniform(caches):
        return caches
    blocks = {cache.block for cache in caches if cache.kind in GROWING}
    block = blocks.pop() if len(blocks) == 1 else None
    if any(cache.kind in GROWING for cache in caches):
        caches = tuple(_promoted(cache, block or cache.block) for cache in caches)
    bounds = {cache.limit for cache in caches if cache.kind == FULL}
    conflict = sum(bound > 0 for bound in bounds) > 1 or sum(bound < 0 for bound in bounds) > 1
    if not uniform(caches) or (conflict and all(cache.kind == FULL for cache in caches)):
        raise CannotGroupError("its layers cannot all be allocated as full attention")
    return caches


def _promoted(cache: Cache, block: int) -> Cache:
    """As full attention, which remembers a window as a positive limit and a chunk as a negative one."""
    if cache.kind not in (*WINDOWED, CHUNK):
        return cache
    if cache.kind == LATENT_WINDOW:
        raise CannotGroupError("windows of latents cannot be allocated in full")
    limit = -cache.limit if cache.kind == CHUNK else cache.limit
    grown = cache.replace(kind=FULL, block=block, limit=limit)
    return grown if cache.padded is None else grown.replace(padded=max(cache.padded, grown.bare_bytes))


def fully_allocated(caches: Caches) -> Caches:
    """The way out where pages cannot be made equal: MLA beside windows of heads, all allocated in full.

    Raises: CannotGroupError for any other mix.
    """
    kinds = {cache.kind for cache in caches}
    if LATENT_WINDOW in kinds or CHUNK in kinds or not (MLA in kinds and WINDOW in kinds):
        raise CannotGroupError("page sizes of its layers cannot be made equal")
    caches = promoted(caches)
    if not uniform(caches):
        raise CannotGroupError("page sizes of its layers cannot be made equal")
    return caches


def unified(caches: Caches, profile: Profile) -> Caches:
    """The caches with pages of one size: the largest.

    Raises: CannotGroupError for a page that neither divides it nor may be padded, such as a latent's.
    """
    largest = max(cache.page_bytes for cache in caches)
    changed = {cache: _unified(cache, largest, profile) for cache in dict.fromkeys(caches)}
    return tuple(changed[cache] for cache in caches)


def _unified(cache: Cache, largest: int, profile: Profile) -> Cache:
    page = cache.page_bytes
    if page == largest:
        return cache
    if cache.kind == STATE:
        if profile.pads_states:
            return cache.replace(padded=largest)
    elif largest % page == 0:
        if cache.padded is None:
            return cache.replace(block=cache.block * (largest // page))
    elif cache.kind != MLA and profile.pads:
        return cache.replace(padded=largest)
    always = profile.pads is not None or cache.kind == STATE
    raise CannotGroupError(f"pages of {page:,} and {largest:,} bytes cannot be made equal", always)


def _cut(caches: Caches, ratio: Fraction) -> list[Group]:
    """Groups of equal size, dealt round-robin so that pipeline stages get even shares."""
    buckets: list[list[Cache]] = []
    for cache in dict.fromkeys(caches):
        for bucket in buckets:
            if cache.kind == FULL and mergeable((*bucket, cache)):
                bucket.append(cache)
                break
        else:
            buckets.append([cache])
    members = [_members(caches, bucket) for bucket in buckets]
    fewest, most = min(map(len, members)), max(map(len, members))
    size = most if most < fewest * ratio else fewest
    groups = []
    for layers in members:
        count = ceil_div(len(layers), size)
        for first in range(count):
            dealt = tuple(layers[first::count])
            groups.append(Group(dealt, tuple(caches[layer] for layer in dealt)))
    return groups


def _members(caches: Caches, bucket: list[Cache]) -> list[int]:
    """The layers of a bucket: all of its first cache, then all of the next."""
    return [layer for wanted in bucket for layer, cache in enumerate(caches) if cache == wanted]
