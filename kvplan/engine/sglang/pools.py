"""What SGLang allocates for given token and slot counts: pools with a padding page, state pools with a spare slot.

- A pool of N tokens holds N + page_size rows per layer.
- Index keys are 132 bytes per token and layer, and stay whole when ranks divide tokens (DCP).
- A draft pool has as many tokens as the pool it shadows.
- Dequantised rows of an nvfp4 cache are one workspace for all layers.

Worked: Llama-3.1-8B with 1,000 tokens at page 1 holds 1,001 rows of 65,536 bytes of K: 65,601,536 bytes.

Source: SGLang 0.5.23 srt/mem_cache/memory_pool.py, swa_memory_pool.py, index_key_cache.py, executed.
"""

from __future__ import annotations

from kvplan.engine.sglang.layers import Held, Stage
from kvplan.engine.sglang.row_formats import INDEX_BYTES
from kvplan.record import Record


class Layout(Record):
    """What the bytes of a pool depend on besides its size.

    dequantised: prefills read an nvfp4 cache through an fp8 workspace. drafted: tokens drafted per step, 0 without
    speculation. tree: several tokens are drafted side by side.
    """

    dtype: str
    page_size: int
    dcp: int
    dequantised: bool
    drafted: int
    tree: bool


class Sizes(Record):
    """Tokens of the full and window pools, state slots, and requests that run at once, on one rank."""

    full: int
    window: int
    slots: int
    requests: int


class Bytes(Record):
    """Bytes of one rank's pools; `k` holds latents and their index keys where there are no values.

    window_k, window_v: what of `k` and `v` is the window pool.
    """

    k: int = 0
    v: int = 0
    window_k: int = 0
    window_v: int = 0
    draft: int = 0
    conv: int = 0
    ssm: int = 0
    drafted_conv: int = 0
    drafted_ssm: int = 0

    @property
    def total(self) -> int:
        """All of them."""
        return self.k + self.v + self.draft + self.conv + self.ssm + self.drafted_conv + self.drafted_ssm


def pool_bytes(held: Held, stage: Stage, layout: Layout, sizes: Sizes) -> Bytes:
    """Bytes of every pool of one stage's rank."""
    page = layout.page_size
    full_rows, window_rows = sizes.full + page, sizes.window + page
    k = v = window_k = window_v = draft = 0
    full = held.stored
    if full is not None:
        one_k, one_v = full.bytes(layout.dtype)
        shared = full.workspace_bytes(layout.dtype, layout.dequantised) if stage.full_layers else 0
        k += full_rows * (stage.full_layers * one_k + shared)
        v += full_rows * (stage.full_layers * one_v + shared)
        k += full_rows * layout.dcp * stage.index_layers * INDEX_BYTES
    if held.window is not None and stage.window_layers:
        one_k, one_v = held.window.bytes(layout.dtype)
        window_k = window_rows * stage.window_layers * one_k
        window_v = window_rows * stage.window_layers * one_v
    if held.draft is not None:
        rows = window_rows if held.draft.windowed else full_rows
        shared = held.draft.rows.workspace_bytes(layout.dtype, layout.dequantised)
        one = sum(held.draft.rows.bytes(layout.dtype)) + (INDEX_BYTES if held.draft.indexed else 0)
        draft = rows * (held.draft.layers * one + 2 * shared)
    return Bytes(k + window_k, v + window_v, window_k, window_v, draft, *_state_bytes(stage, layout, sizes))


def _state_bytes(stage: Stage, layout: Layout, sizes: Sizes) -> tuple[int, int, int, int]:
    conv = sum(count * state.conv_bytes() for count, state in stage.states) * (sizes.slots + 1)
    ssm = sum(count * state.ssm_bytes() for count, state in stage.states) * (sizes.slots + 1)
    if not layout.drafted:
        return conv, ssm, 0, 0
    running, drafted = sizes.requests + 1, layout.drafted
    after_each = sum(count * state.drafted_conv_bytes(drafted, layout.tree) for count, state in stage.states)
    return conv, ssm, after_each * running, ssm // (sizes.slots + 1) * drafted * running
