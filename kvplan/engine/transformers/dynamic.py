"""DynamicCache: rows are concatenated as they come, and windows are cut to views of them.

- Full attention: n rows. Cross-attention: the encoder's rows.
- A window or chunk of W: see `windows`; one 8-byte counter per layer.
- Index keys: n rows in the model's dtype, without scales.
- States and convolutions: see `recurrent`. Compressed entries: see `compressed`.

Worked: Llama-3.1-8B, 32 layers of 8 heads of 128 in 16 bit: 131,072 bytes per token, nothing beside it.

Source: transformers 5.24.0 cache_utils.py (DynamicLayer, DynamicSlidingWindowLayer, DynamicIndexedLayer), executed.
"""

from __future__ import annotations

from kvplan.engine.transformers.compressed import compressed_layer
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
from kvplan.engine.transformers.recurrent import recurrent_tensor
from kvplan.engine.transformers.windows import sliding_reasons, sliding_rows
from kvplan.tensor import CacheTensor, Role


def dynamic_layer(tensors: Tensors, updates: Updates) -> Held:
    """What one layer holds after `updates`.

    Raises: NotCountableError for tensors the library was never seen to keep.
    """
    if any(t.role is Role.ENTRY for t in tensors):
        return compressed_layer(tensors, updates)
    return together((1, _tensor(tensor, tensors, updates)) for tensor in tensors)


def _tensor(tensor: CacheTensor, layer: Tensors, updates: Updates) -> Held:
    if tensor.role in ATTENTION:
        return _attention(tensor, updates)
    if tensor.role is Role.INDEX:
        reasons = check_index(tensor, layer, updates)
        return held(updates.row_bytes(tensor) * updates.context, reasons=reasons)
    return recurrent_tensor(tensor, layer, updates)


def _attention(tensor: CacheTensor, updates: Updates) -> Held:
    check_attention(tensor, updates)
    row, window = updates.row_bytes(tensor), window_of(tensor)
    if crosses(tensor):
        return held(row * updates.encoder_tokens)
    if window is None:
        return held(row * updates.context)
    shown, stored = sliding_rows(updates.context, window, updates.at_once)
    reasons = sliding_reasons(updates.context, window, updates.at_once)
    return held(row * shown, row * stored, counters=1 if tensor.role in LEADS else 0, reasons=reasons)
