"""StaticCache: every layer allocates its whole length at the first update, and one 8-byte counter per attention.

- Full attention and latents: M rows (`max_cache_len`, by default the context). A window or chunk: min(W, M) rows.
- Index keys: M rows in the model's dtype and a counter of their own.
- Cross-attention beside self-attention: the encoder's rows. A layer of cross-attention alone: M rows.
- States and convolutions: as in `recurrent`, without counters.

The library refuses models with a cache class of their own (linear attention without a convolution, xLSTM) and
compressed entries.

Worked: Llama-3.1-8B at M = 8,192: 8,192 x 131,072 + 32 x 8 = 1,073,742,080 bytes.

Source: transformers 5.24.0 cache_utils.py (StaticLayer, StaticSlidingWindowLayer, StaticIndexedLayer), executed.
"""

from __future__ import annotations

from kvplan.engine.transformers.held import (
    ATTENTION,
    LEADS,
    Held,
    Tensors,
    Updates,
    check_attention,
    check_index,
    crosses,
    held,
    together,
    window_of,
)
from kvplan.engine.transformers.recurrent import own_cache, recurrent_tensor
from kvplan.errors import InputError
from kvplan.tensor import CacheTensor, Role


def static_layer(layer: Tensors, updates: Updates) -> Held:
    """What one layer allocates.

    Raises: InputError for a layer the library's static cache refuses; NotCountableError as `dynamic_layer` does.
    """
    if own_cache(layer):
        raise _refused(updates, "states in a cache class of its own, which transformers cannot replace")
    if any(t.role is Role.ENTRY for t in layer):
        raise _refused(updates, "compressed entries, for which transformers has no static layer")
    return together((1, _tensor(tensor, layer, updates)) for tensor in layer)


def _tensor(tensor: CacheTensor, layer: Tensors, updates: Updates) -> Held:
    row = updates.row_bytes(tensor)
    if tensor.role is Role.INDEX:
        return held(row * updates.rows, counters=1, reasons=check_index(tensor, layer, updates))
    if tensor.role not in ATTENTION:
        return recurrent_tensor(tensor, layer, updates)
    check_attention(tensor, updates)
    counters, window = 1 if tensor.role in LEADS else 0, window_of(tensor)
    if crosses(tensor):
        return _cross(tensor, layer, updates, counters)
    rows = updates.rows if window is None else min(window, updates.rows)
    reasons = ("every layer holds max_cache_len rows",) if rows > updates.context else ()
    return held(row * rows, counters=counters, reasons=reasons)


def _cross(tensor: CacheTensor, layer: Tensors, updates: Updates, counters: int) -> Held:
    row = updates.row_bytes(tensor)
    if not all(crosses(t) for t in layer):
        return held(row * updates.encoder_tokens, counters=counters)
    encoder, rows = updates.encoder_tokens, updates.rows
    if encoder > rows:
        what = f"{encoder:,} encoder tokens do not fit the {rows:,} rows of a cross-attention layer"
        raise InputError(f"-E cache=static: {what}", f"-E max_cache_len={encoder}")
    return held(row * rows, counters=counters, reasons=("layers of cross-attention alone hold max_cache_len rows",))


def _refused(updates: Updates, what: str) -> InputError:
    return InputError(f"-E cache=static: {updates.place} keeps {what}", "-E cache=dynamic")
