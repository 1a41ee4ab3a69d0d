"""From a budget to pool sizes, and back to the smallest budget that is enough: SGLang's own arithmetic.

- States first, where there are any: their share r / (1 + r) of the budget less one spare slot, in whole slots; the
  rest goes to tokens. Or the slots that the options state.
- Tokens: floor(rest / cell), cut to whole pages; the padding pages are not charged.
- Windows: cell = full bytes + ratio x window bytes, and the window pool gets int(tokens x ratio), cut to pages; or,
  where requests are capped and there is no radix cache, a fixed window pool for the worst case, and the rest is full.
- Every pipeline stage sizes itself and the fewest tokens count.

Worked: gpt-oss-20b: 24,576 + 0.8 x 24,576 = 44,236.8 bytes per token, so 40 GiB hold 970,903 full and 776,722 window
tokens.

Source: SGLang 0.5.23 srt/model_executor/pool_configurator.py and srt/mem_cache/kv_cache_configurator.py, executed.
"""

from __future__ import annotations

from kvplan.engine.sglang.layers import Held, Stage
from kvplan.engine.sglang.pools import Layout, Sizes
from kvplan.engine.sglang.row_formats import INDEX_BYTES
from kvplan.record import Record

GIB = 1 << 30
UNLIMITED = 1 << 200


class Limits(Record):
    """What the options fix. Figures are per attention rank.

    window_ratio: `swa_full_tokens_ratio`. window_cap: tokens of a fixed window pool, None for a share of the full one.
    state_ratio: `mamba_full_memory_ratio`. slots: stated outright, or None. slots_each: slots per running request.
    requests: the most that run, None for no limit. tokens: `max_total_tokens`, or None.
    """

    window_ratio: float
    window_cap: int | None
    state_ratio: float
    slots: int | None
    slots_each: int
    requests: int | None
    tokens: int | None


def cell_bytes(held: Held, stage: Stage, layout: Layout, limits: Limits) -> int | float:
    """Bytes of one token over all layers of a stage's rank, as SGLang divides a budget by it."""
    full = _full_cell(held, stage, layout)
    if held.window is None or not stage.window_layers:
        return _whole(full)
    window = sum(held.window.bytes(layout.dtype)) * (stage.window_layers + _draft_layers(held, windowed=True))
    if held.full is None:
        return full + window
    return _whole(full + limits.window_ratio * window) if limits.window_cap is None else full


def _whole(value: float) -> int | float:
    return int(value) if value == int(value) else value


def _draft_layers(held: Held, windowed: bool) -> int:
    return held.draft.layers if held.draft is not None and held.draft.windowed is windowed else 0


def _full_cell(held: Held, stage: Stage, layout: Layout) -> int:
    """The full pool's part of a cell, draft layers included: SGLang takes them to be like the target's."""
    if held.full is None:
        return sum(held.draft.rows.bytes(layout.dtype)) * _draft_layers(held, False) if held.draft is not None else 0
    one, drafts = sum(held.full.bytes(layout.dtype)), _draft_layers(held, windowed=False)
    rows = stage.full_layers * one
    if stage.full_layers:
        rows += 2 * held.full.workspace_bytes(layout.dtype, layout.dequantised)
    index = stage.index_layers * INDEX_BYTES * layout.dcp
    if held.window is not None:
        return rows + drafts * one
    if not drafts or not stage.full_layers:
        return rows + index
    if held.indexed:
        return rows + index + int(rows * drafts / stage.full_layers) + drafts * INDEX_BYTES
    return rows + int(rows * drafts / stage.full_layers)


def sizes_of_budget(held: Held, layout: Layout, limits: Limits, budget_bytes: int) -> Sizes:
    """The sizes that SGLang derives from `budget_bytes`; tokens are 0 or less where it would not start."""
    rest, slots = budget_bytes / GIB, limits.slots
    if held.has_states:
        rest, slots = _after_states(held, layout, limits, rest)
    available = int(rest * GIB)
    tokens = UNLIMITED
    for stage in held.stages:
        cell = cell_bytes(held, stage, layout, limits)
        fixed = _fixed_window_bytes(held, stage, layout, limits)
        if cell:
            tokens = min(tokens, int((available - fixed) // cell) // layout.page_size * layout.page_size)
    if tokens == UNLIMITED:
        tokens = 0 if available < 0 else UNLIMITED
    return sizes_of_tokens(held, layout, limits, min(tokens, limits.tokens or tokens), slots or 0)


def sizes_of_tokens(held: Held, layout: Layout, limits: Limits, tokens: int, slots: int) -> Sizes:
    """The sizes that follow from tokens of the full pool (of the window pool where there is no full one)."""
    page = layout.page_size
    tokens = tokens // page * page
    requests = limits.requests if limits.requests is not None else tokens // 2
    requests = min(requests, slots // limits.slots_each) if held.has_states else requests
    if held.window is None:
        return Sizes(tokens, 0, slots, requests)
    if held.full is None:
        return Sizes(0, tokens, slots, requests)
    if limits.window_cap is not None:
        return Sizes(tokens, limits.window_cap, slots, requests)
    return Sizes(tokens, int(tokens * limits.window_ratio) // page * page, slots, requests)


def _fixed_window_bytes(held: Held, stage: Stage, layout: Layout, limits: Limits) -> int:
    if limits.window_cap is None or held.window is None or held.full is None:
        return 0
    layers = stage.window_layers + _draft_layers(held, windowed=True)
    return limits.window_cap * sum(held.window.bytes(layout.dtype)) * layers


def slot_bytes(held: Held) -> int:
    """Bytes of one state slot, as sizing charges it: the stage with the most state layers, on every rank."""
    layers = [sum(count for count, _ in stage.states) for stage in held.stages]
    whole = sum(
        count * (state.conv_bytes() + state.ssm_bytes()) for stage in held.stages for count, state in stage.states
    )
    return int(whole * (max(layers) / sum(layers)))


def _after_states(held: Held, layout: Layout, limits: Limits, rest: float) -> tuple[float, int]:
    """(GiB left for tokens, slots)."""
    slot, drafted, each = slot_bytes(held), layout.drafted, limits.slots_each
    slots = limits.slots
    if slots is None:
        share = rest * limits.state_ratio / (1 + limits.state_ratio) * GIB
        slots = int((share - slot * (1 + drafted)) // (slot * (1 + drafted / each)))
    if drafted:
        running = min(limits.requests or slots, slots // each)
        rest -= slot * (running + 1) * drafted / GIB
    return rest - (slots + 1) * slot / GIB, slots


def enough(held: Held, layout: Layout, limits: Limits, budget_bytes: int, wanted: Sizes) -> bool:
    """True where `budget_bytes` gives at least the wanted sizes."""
    sizes = sizes_of_budget(held, layout, limits, budget_bytes)
    return sizes.full >= wanted.full and sizes.window >= wanted.window and sizes.slots >= wanted.slots


def least_budget(held: Held, layout: Layout, limits: Limits, wanted: Sizes, start: int) -> int:
    """The smallest budget from which on SGLang's sizing yields the wanted sizes; start: a first guess.

    Where states and tokens share a budget, a larger one may buy a slot more and tokens fewer. So a budget counts
    when it is enough and the one that buys the next slot is, too.
    """

    def holds(budget: int) -> bool:
        return enough(held, layout, limits, budget, wanted) and (
            not shares or enough(held, layout, limits, _next_slot(held, layout, limits, budget), wanted)
        )

    shares = held.has_states and limits.slots is None
    low, high = 0, max(start, 1)
    while not holds(high):
        low, high = high, high * 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


def _next_slot(held: Held, layout: Layout, limits: Limits, budget_bytes: int) -> int:
    """The smallest budget that buys one state slot more than `budget_bytes` does."""
    slots = _after_states(held, layout, limits, budget_bytes / GIB)[1]
    slot, drafted = slot_bytes(held), layout.drafted
    share = (slots + 1) * slot * (1 + drafted / limits.slots_each) + slot * (1 + drafted)
    found = max(budget_bytes, int(share * (1 + limits.state_ratio) / limits.state_ratio) - 2)
    while _after_states(held, layout, limits, found / GIB)[1] <= slots:
        found += 1 + (found >> 50)
    return found
