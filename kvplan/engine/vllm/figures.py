"""vLLM's own figures: of a request, and of a pool of a given size, as its log prints them.

    concurrency = blocks / blocks per request, the null block included
    "GPU KV cache size" = concurrency x model length, rounded down (before 0.20: blocks / groups x tokens of a block)

Worked: 30,720 blocks at 501 per request of 8,001 tokens: 61.3x and 490,600 tokens, not 491,520.

Source: vLLM 0.33.0 vllm/v1/core/kv_cache_utils.py `get_kv_cache_capacity`, executed.
"""

from __future__ import annotations

from typing import Any

from kvplan.engine.vllm.caches import GROWING, STATE, WINDOWED, Group, Request
from kvplan.engine.vllm.plan import Plan
from kvplan.engine.vllm.settings import Settings
from kvplan.workload import Workload


def figures(planned: Plan, request: Request, blocks: int) -> dict[str, Any]:
    """The figures that need no budget."""
    return {
        "block_size": planned.block_size,
        "bytes_per_block": planned.bytes_per_block,
        "blocks_per_request": blocks,
        "bytes_per_request": blocks * planned.bytes_per_block,
        "groups": _group_figures(planned, request),
    }


def _group_figures(planned: Plan, request: Request) -> list[dict[str, Any]]:
    """The groups, those that are alike in one line; pages of all sizes in a group of mixed ones."""
    alike: dict[tuple[Any, ...], int] = {}
    for group in planned.groups:
        first = group.caches[0]
        block = planned.block_size if first.kind == STATE else first.block
        pages = sorted({cache.page_bytes for cache, _ in group.members}, reverse=True)
        kinds = " + ".join(dict.fromkeys(cache.kind for cache, _ in group.members))
        key = (
            kinds,
            len(group.layers),
            block,
            pages[0] if len(pages) == 1 else " + ".join(f"{page:,}" for page in pages),
            group.blocks(request),
        )
        alike[key] = alike.get(key, 0) + 1
    names = "kind", "layers", "block_size", "page_bytes", "blocks_per_request"
    return [{"count": count, **dict(zip(names, key, strict=True))} for key, count in alike.items()]


def capacity_figures(
    planned: Plan, request: Request, blocks: int, budget_bytes: int, chosen: Settings
) -> dict[str, Any]:
    """The figures of a pool of `budget_bytes`, and the longest model length that starts in it."""
    count = budget_bytes // planned.bytes_per_block if planned.bytes_per_block else 1
    concurrency = count / blocks if blocks else 0.0
    return {
        "num_gpu_blocks": count,
        "allocated_bytes": count * planned.bytes_per_block,
        "kv_cache_size_tokens": _tokens(planned, request, count, concurrency, chosen),
        "max_concurrency": concurrency,
        "max_model_len": longest(planned, request, count - 1 if chosen.profile.null_block else count),
    }


def _tokens(planned: Plan, request: Request, count: int, concurrency: float, chosen: Settings) -> int:
    if chosen.profile.tokens_by_concurrency:
        return int(concurrency * request.tokens)
    firsts = [group.caches[0] for group in planned.groups]
    shortest = min(planned.block_size if first.kind == STATE else first.block for first in firsts)
    return count // len(planned.groups) * shortest * chosen.dcp


def longest(planned: Plan, request: Request, usable_blocks: int) -> int:
    """The longest length up to the request's own of which one request fits, 0 where none does: `--max-model-len auto`."""
    low, high = 0, request.tokens
    while low < high:
        middle = (low + high + 1) // 2
        one = request.replace(tokens=middle)
        if sum(group.blocks(one) for group in planned.groups) <= usable_blocks:
            low = middle
        else:
            high = middle - 1
    return low


def shared_blocks(planned: Plan, workload: Workload) -> int:
    """Blocks that all sequences but one read from the first: whole blocks of the prefix, in groups that keep them."""
    if not planned.prefix_caching or not workload.prefix or workload.batch == 1:
        return 0
    prefix = min(workload.prefix, workload.context - 1)
    shared = 0
    for group in planned.groups:
        first = group.caches[0]
        if first.kind in GROWING:
            shared += prefix // (first.block * workload.dcp)
    return shared * (workload.batch - 1)


def reasons(planned: Plan, request: Request) -> tuple[str, ...]:
    """Why a request takes more than the architecture needs, the weightiest first."""
    weighed: dict[str, int] = {}
    held = [(group, group.blocks(request)) for group in planned.groups]
    widths = [group.width_bytes for group in planned.groups]
    if len(set(widths)) > 1:
        layers, most = sum(len(group.layers) for group, _ in held), max(len(group.layers) for group, _ in held)
        alike = len({cache.page_bytes for group, _ in held for cache, _ in group.members}) == 1
        padded = f"{layers} layers padded to {most * len(held)}" if alike else "blocks are as wide as the widest group"
        weighed[padded] = sum((max(widths) - width) * blocks for width, (_, blocks) in zip(widths, held, strict=True))
    for group, blocks in held:
        for why, weight in _group_reasons(group, blocks, request).items():
            weighed[why] = weighed.get(why, 0) + weight
    return tuple(sorted((why for why, weight in weighed.items() if weight > 0), key=lambda why: -weighed[why]))


def _group_reasons(group: Group, blocks: int, request: Request) -> dict[str, int]:
    first, count = group.caches[0], len(group.layers)
    padding = sum(blocks * (cache.page_bytes - cache.bare_bytes) * layers for cache, layers in group.members)
    if first.kind == STATE:
        return {
            "state pages padded to the attention page": padding,
            "states are held more than once": count * (blocks - 1) * first.bare_bytes,
        }
    if first.kind in WINDOWED:
        needed = min(first.limit, request.tokens) * first.bare_bytes // first.block
        reserved = count * (blocks * first.bare_bytes - needed)
        return {"windows are reserved for the tokens in flight": reserved, "pages padded to the largest": padding}
    if first.kind in GROWING:
        spare = blocks * first.block - request.tokens // request.dcp
        lost = sum(spare * cache.bare_bytes // cache.block * layers for cache, layers in group.members)
        return {f"blocks of {first.block:,} tokens round up": lost, "pages padded to the largest": padding}
    return {"pages padded to the largest": padding}
