"""Recurrent layers: convolution columns and states, allocated at the first forward, the same in every cache.

A convolution keeps all K columns, one more than it needs. The dtype of a state is set by the model's code,
whatever its configuration says:

- beside a convolution, fp32;
- without one (linear attention with a cache class of its own), the model's dtype;
- one number per channel: fp32, held by the module itself, whose convolution keeps K - 1 columns; a step of
  one token leaves K beneath them.

Worked: Qwen3-Next, kernel 4 over 8,192 channels in 16 bit and a state of 524,288 numbers in fp32:
4 x 8,192 x 2 + 524,288 x 4 = 2,162,688 bytes per layer and sequence.

Source: transformers 5.24.0 cache_utils.py (LinearAttentionLayer) and the models' own code, executed on a CPU.
"""

from __future__ import annotations

from kvplan.engine.transformers.held import Held, Tensors, Updates, held, not_countable
from kvplan.growth import Constant
from kvplan.tensor import ITEM_BYTES, CacheTensor, Role

FP32_BYTES = ITEM_BYTES["fp32"]


def own_cache(layer: Tensors) -> bool:
    """True for a layer whose states have no convolution: such models bring a cache class of their own."""
    roles = {t.role for t in layer}
    return Role.STATE in roles and Role.CONV not in roles


def counts_once(layer: Tensors) -> bool:
    """True where that class holds one counter for all its layers: several states per layer, as in xLSTM."""
    return own_cache(layer) and sum(t.role is Role.STATE for t in layer) > 1


def recurrent_tensor(tensor: CacheTensor, layer: Tensors, updates: Updates) -> Held:
    """One convolution or state of a layer.

    Raises: NotCountableError for a recurrence that the library does not implement.
    """
    growth = tensor.growth
    if not isinstance(growth, Constant):
        raise not_countable(updates, tensor, "a state that grows is unknown to transformers 5.24")
    if tensor.role is Role.STATE:
        return _state(tensor, layer, updates)
    if tensor.name == "token_shift":
        raise not_countable(updates, tensor, "transformers 5.24 has no RWKV-7")
    column, needed = updates.row_bytes(tensor), growth.rows
    states = [t for t in layer if t.role is Role.STATE]
    if not states or any(len(t.row) > 1 for t in states):
        return held(column * (needed + 1), reasons=("convolutions keep K columns",))
    if updates.at_once and updates.context > 1:
        return held(column * needed)
    return held(column * needed, column * (needed + 1), reasons=("a view of K - 1 columns keeps K allocated",))


def _state(tensor: CacheTensor, layer: Tensors, updates: Updates) -> Held:
    numbers = updates.batch * tensor.elements
    asked = tensor.dtype or "fp32"
    if own_cache(layer):
        return held(
            numbers * updates.item_bytes, reasons=() if asked == updates.dtype else ("states are in the model's dtype",)
        )
    return held(
        numbers * FP32_BYTES, reasons=() if asked == "fp32" else ("states are fp32 whatever the configuration says",)
    )
