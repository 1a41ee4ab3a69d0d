"""Blocks of tokens, one pool for all layers or one per attention window, as TensorRT-LLM counts them.

- bytes of a token = heads x width x item, K and V; nvfp4 adds a byte of scale per 16 numbers; index keys beside.
- One pool: blocks = floor(floor(budget / bytes of a token) / tokens_per_block); the fewest of all ranks count.
- Several windows: each distinct window gets an equal share of the budget (nvfp4 scales are not priced there). If
  one sequence does not fit, the windows shrink until it does, and windows that become equal share a pool.
- A request holds ceil(n / tokens_per_block) blocks, or those of its window and one more.

Worked: gpt-oss-20b (24 layers, 8 x 64, bf16) is 49,152 bytes per token; 40 GiB are 27,306 blocks of 32.

Source: TensorRT-LLM 1.2, tensorrt_llm/_torch/pyexecutor/resource_manager.py, executed; the extra block of a window
is kSWAExtraBlock of cpp/include/tensorrt_llm/batch_manager/kvCacheManager.h, only read.
"""

from __future__ import annotations

from kvplan.engine.trtllm.layers import INDEX_BYTES, Held, Stage
from kvplan.record import Record
from kvplan.units import ceil_div

BITS = {"fp32": 32, "fp16": 16, "bf16": 16, "fp8": 8, "nvfp4": 4}


class Layout(Record):
    """dtype: a key of BITS. windows: the repeating list, clamped to the longest sequence; one entry without windows."""

    dtype: str
    tokens_per_block: int
    windows: tuple[int, ...]

    @property
    def varied(self) -> bool:
        """True where layers differ in window, so that each window has a pool."""
        return len(set(self.windows)) > 1


class Pool(Record):
    """One pool on one rank. token_bytes: as allocated; priced_bytes: as the budget is divided by."""

    window: int
    layers: tuple[int, ...]
    token_bytes: int
    priced_bytes: int
    blocks: int = 0


def token_bytes(held: Held, heads: int, layers: int, dtype: str, scales: bool = True) -> int:
    """Bytes of one token in layers that have `heads` KV heads together."""
    numbers = held.factor * heads * held.width
    size = numbers * BITS[dtype] // 8 + (numbers // 16 if dtype == "nvfp4" and scales else 0)
    return size + (layers * INDEX_BYTES if held.indexed else 0)


def pools_of(held: Held, stage: Stage, layout: Layout, windows: dict[int, list[int]]) -> tuple[Pool, ...]:
    """The pools of one rank, smallest window first; windows: the layers of each."""
    found = []
    for window, layers in sorted(windows.items()):
        heads = sum(stage.heads[i] for i in layers)
        priced = token_bytes(held, heads, len(layers), layout.dtype, scales=not layout.varied)
        found.append(Pool(window, tuple(layers), token_bytes(held, heads, len(layers), layout.dtype), priced))
    return tuple(found)


def layers_of_windows(stage: Stage, layout: Layout) -> dict[int, list[int]]:
    """The layers of each window: the list repeats over the layers of the rank."""
    found: dict[int, list[int]] = {}
    for layer in range(len(stage.heads)):
        found.setdefault(layout.windows[layer % len(layout.windows)], []).append(layer)
    return found


def counted(held: Held, stage: Stage, layout: Layout, budget_bytes: int, max_tokens: int | None) -> tuple[Pool, ...]:
    """The pools of one rank with the blocks that `budget_bytes` and `max_tokens` give them."""
    windows = layers_of_windows(stage, layout)
    if layout.varied:
        windows = _shrunk(held, stage, layout, windows, budget_bytes)
    pools = pools_of(held, stage, layout, windows)
    share = 1.0 / max(1, len(pools)) if layout.varied else 1.0
    found = []
    for pool in pools:
        tokens = budget_bytes * share / pool.priced_bytes
        tokens = min(tokens, max_tokens) if max_tokens is not None else tokens
        found.append(pool.replace(blocks=int(tokens // layout.tokens_per_block)))
    return tuple(found)


def _shrunk(
    held: Held, stage: Stage, layout: Layout, windows: dict[int, list[int]], budget_bytes: int
) -> dict[int, list[int]]:
    """The windows, cut down where one sequence of full windows does not fit."""

    def bytes_of(layers: set[int] | list[int]) -> int:
        return token_bytes(held, sum(stage.heads[i] for i in layers), len(layers), layout.dtype)

    if sum(window * bytes_of(layers) for window, layers in windows.items()) < budget_bytes:
        return windows
    found: dict[int, list[int]] = {}
    left, remaining, tokens, previous = budget_bytes, set(range(len(stage.heads))), 0, 0
    for window in sorted(windows):
        if left > 0:
            size = bytes_of(remaining)
            more = min(left // size, window - previous)
            left, tokens = left - more * size, tokens + more
            if tokens < window:
                left = 0
        found.setdefault(tokens, []).extend(windows[window])
        remaining -= set(windows[window])
        previous = window
    return found


def blocks_of_request(context: int, window: int, layout: Layout) -> int:
    """Blocks that a request of `context` tokens holds in a pool of that window."""
    whole = ceil_div(context, layout.tokens_per_block)
    return whole if window >= context else min(whole, ceil_div(window, layout.tokens_per_block) + 1)
