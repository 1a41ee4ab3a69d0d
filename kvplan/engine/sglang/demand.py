"""What a workload needs of the pools, and why that differs from the architecture's own need.

- Each request takes whole pages (of page_size x dcp tokens); shared whole pages once.
- A window pool admits a request that finds min(tokens, window) + page_size rows, so the full pool must be large
  enough that its share covers that for every request, and for one request alone with a token to spare.
- Each request takes the state slots that SGLang counts per running request.

Worked: gpt-oss-20b, 64 requests of 100 tokens at page 1: windows need 64 x 101 = 6,464 rows, so the full pool gets
6,464 / 0.8 = 8,080 tokens, not 6,400.

Source: SGLang 0.5.23 srt/model_executor/pool_configurator.py (validate_swa_pool_size) and the allocators of
srt/mem_cache.
"""

from __future__ import annotations

from kvplan.engine.sglang.families import window_pool
from kvplan.engine.sglang.layers import Held
from kvplan.engine.sglang.pools import Layout, Sizes
from kvplan.engine.sglang.row_formats import pages
from kvplan.engine.sglang.sizing import Limits, sizes_of_tokens
from kvplan.errors import InputError
from kvplan.growth import Chunk, Window
from kvplan.record import Record
from kvplan.spec import ModelSpec
from kvplan.units import ceil_div
from kvplan.workload import Workload


class Demand(Record):
    """The sizes that a workload needs. batch: requests of one group of attention ranks; tokens: before rounding."""

    sizes: Sizes
    batch: int
    tokens: int


def demand(spec: ModelSpec, workload: Workload, held: Held, layout: Layout, limits: Limits, groups: int) -> Demand:
    """The pool sizes that hold `workload`.

    Raises: InputError where the options let fewer requests run than the batch has.
    """
    batch = ceil_div(workload.batch, groups)
    if limits.requests is not None and limits.requests < batch:
        option = "max_running_requests"
        raise InputError(
            f"-E {option}: {limits.requests:,} requests run at once on one group of ranks, and the batch has {batch:,}",
            f"-E {option}={workload.batch}",
        )
    if held.has_states and limits.slots is not None and limits.slots < batch * limits.slots_each:
        option, each = "max_mamba_cache_size", limits.slots_each
        raise InputError(
            f"-E {option}: {limits.slots:,} slots run {limits.slots // each:,} requests of {each} slots, and the batch has {batch:,}",
            f"-E {option}={batch * each * groups}",
        )
    span = layout.page_size * layout.dcp
    shared = workload.prefix // span
    own = pages(workload.context, span) - shared
    tokens = (batch * own + shared) * layout.page_size
    slots = (limits.slots or batch * limits.slots_each) if held.has_states else 0
    exact = ceil_div(batch * (workload.context - workload.prefix) + workload.prefix, layout.dcp)
    return Demand(_covering(held, layout, limits, workload.context, batch, tokens, slots), batch, exact)


def _covering(held: Held, layout: Layout, limits: Limits, context: int, batch: int, tokens: int, slots: int) -> Sizes:
    """The smallest sizes that hold `tokens` in the full pool and every request's window in the other."""
    if held.window is None or held.window_tokens is None:
        return sizes_of_tokens(held, layout, limits, tokens, slots)
    page, window = layout.page_size, held.window_tokens
    least = max(batch * (min(context, window) + page), window + page + 1)
    if held.full is None:
        return sizes_of_tokens(held, layout, limits, max(tokens, pages(least, page) * page), slots)
    if limits.window_cap is None:
        covering = int(pages(least, page) * page / limits.window_ratio) // page * page
        while sizes_of_tokens(held, layout, limits, covering, slots).window < least:
            covering += page * (1 + (covering >> 50))
        tokens = max(tokens, covering)
    return sizes_of_tokens(held, layout, limits, tokens, slots)


def reasons(spec: ModelSpec, held: Held, layout: Layout, needs: Demand, sizes: Sizes) -> tuple[str, ...]:
    """Why the pools differ from the architecture's need, the weightiest first."""
    page = layout.page_size
    full = sum(held.full.bytes(layout.dtype)) * max(stage.full_layers for stage in held.stages) if held.full else 0
    window = sum(held.window.bytes(layout.dtype)) * max(s.window_layers for s in held.stages) if held.window else 0
    slot = max(sum(n * (s.conv_bytes() + s.ssm_bytes()) for n, s in stage.states) for stage in held.stages)
    found: list[tuple[int, str]] = []
    bounded = [
        tensor.growth.tokens
        for _, layer in spec.layers()
        for tensor in layer.tensors()
        if isinstance(tensor.growth, Window | Chunk)
    ]
    if held.window is not None:
        rows = sizes.window + page - needs.batch * min(needs.tokens // max(1, needs.batch), held.window_tokens or 0)
        found.append((window * max(0, rows), _pool_reason(spec)))
    elif any(tokens * needs.batch < needs.tokens for tokens in bounded):
        found.append((full * needs.tokens, "windowed layers hold every token"))
    if held.filled_up:
        share = held.filled_up * full // max(1, *(stage.full_layers for stage in held.stages))
        found.append((share * needs.tokens, f"{held.filled_up} layers without a cache of their own get one"))
    if held.has_states:
        each = sizes.slots // max(1, needs.batch)
        found.append((slot * (sizes.slots + 1 - needs.batch), f"{each} state slots per request and one to spare"))
    if sizes.full > needs.tokens:
        found.append(((full or window) * (sizes.full - needs.tokens), "the pool has more tokens than the requests"))
    if full or window:
        found.append(((full + window) * page, f"a padding page of {page} per pool"))
    return tuple(phrase for _, phrase in sorted(found, key=lambda pair: -pair[0]))


def _pool_reason(spec: ModelSpec) -> str:
    if window_pool(spec.name) is None:
        return "a window pool is assumed (-E disable_hybrid_swa_memory=true without one)"
    return "window layers hold a share of the tokens, not their windows"
