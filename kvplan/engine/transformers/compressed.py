"""Compressed attention (DeepSeek-V4) in the library's own layers: a window, entries, and a buffer per compressor.

Entries of d numbers (h for an index), b sequences, ratio r, e bytes per number:

- the window as in `windows`; a layer that compresses has one tensor for K and V, one that does not holds it twice;
- floor(n / r) entries of d;
- the tokens that wait for their entry: two buffers (values and gates) of n mod r rows of d, or 2 d where windows
  overlap. They are views, so their storage is what the last update brought: n rows at once, else (n - 1) mod r + 1;
- layers with an index compress with overlap, and so does the index: from n >= r on they also hold r rows of d
  in the model's dtype and r in fp32.

Worked: d = 16, r = 8, n = 20 at once in 16 bit, no index: 2 entries of 32 B = 64, and buffers that show
2 x 4 x 32 = 256 and hold 2 x 20 x 32 = 1,280 bytes.

Source: transformers 5.24.0 models/deepseek_v4/modeling_deepseek_v4.py (DeepseekV4HCACache, CSACache), executed.
"""

from __future__ import annotations

from kvplan.engine.transformers.held import Held, Tensors, Updates, held, not_countable, together
from kvplan.engine.transformers.windows import sliding_reasons, sliding_rows
from kvplan.growth import PerTokens, Window
from kvplan.tensor import CacheTensor, Role

GATE_BYTES = 4


def compressed_layer(layer: Tensors, updates: Updates) -> Held:
    """What a layer of entries holds.

    Raises: NotCountableError for a layer that holds anything beside entries and their index.
    """
    pooled = [t for t in layer if isinstance(t.growth, PerTokens) and t.role in (Role.ENTRY, Role.INDEX)]
    windows = [t for t in layer if isinstance(t.growth, Window) and t.role is Role.ENTRY]
    for tensor in layer:
        if tensor not in pooled and tensor not in windows:
            raise not_countable(updates, tensor, "beside compressed entries it was never weighed in transformers 5.24")
    overlap = any(t.role is Role.INDEX for t in pooled)
    parts = [_window(t, 1 if pooled else 2, updates) for t in windows]
    parts += [_compressor(t, overlap, updates) for t in pooled]
    return together((1, part) for part in parts)


def _window(tensor: CacheTensor, copies: int, updates: Updates) -> Held:
    assert isinstance(tensor.growth, Window)
    window, row = tensor.growth.tokens, copies * updates.row_bytes(tensor)
    shown, stored = sliding_rows(updates.context, window, updates.at_once)
    reasons = sliding_reasons(updates.context, window, updates.at_once)
    twice = ("layers that do not compress hold K and V apart",) if copies == 2 else ()
    return held(row * shown, row * stored, counters=1, reasons=(*reasons, *twice))


def _compressor(tensor: CacheTensor, overlap: bool, updates: Updates) -> Held:
    assert isinstance(tensor.growth, PerTokens)
    ratio, context, row = tensor.growth.ratio, updates.context, updates.row_bytes(tensor)
    waiting, stored = context % ratio, context if updates.at_once else (context - 1) % ratio + 1
    buffer_row = 2 * row * (2 if overlap else 1)
    kept = context // ratio * row
    reasons = ["compressors buffer values and gates of tokens that wait for their entry"]
    if overlap and context >= ratio:
        kept += ratio * (row + updates.batch * tensor.elements * GATE_BYTES)
        reasons.append("overlapping compressors keep the last r tokens")
    if tensor.role is Role.INDEX:
        reasons.append("index keys are in the model's dtype, without scales")
    return held(kept + waiting * buffer_row, kept + stored * buffer_row, reasons=tuple(reasons))
