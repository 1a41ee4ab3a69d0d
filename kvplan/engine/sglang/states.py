"""States and convolutions: one slot per request and one to spare, fp32 states and bf16 convolutions.

- A slot holds, per layer, K - 1 convolution columns and one state; a pool of N slots allocates N + 1.
- Speculation keeps the states after each drafted token, for every running request and one to spare; convolution
  columns of consecutive tokens overlap (D + K - 2 columns), dense (D windows) where a convolution is per head.
- Slots per request: 1 without a radix cache, else 3, and 2 more (1 lazily or without overlap) for the cache's own
  snapshots where the model supports them.

Worked: Qwen3.8-27B, 48 layers: 48 x (10,240 x 3 x 2 + 48 x 128 x 128 x 4) = 153,944,064 bytes per slot.

Source: SGLang 0.5.23 srt/mem_cache/memory_pool.py (MambaPool), srt/configs/mamba_utils.py, executed;
srt/mem_cache/kv_cache_configurator.py (_calculate_mamba_ratio).
"""

from __future__ import annotations

from kvplan.errors import InputError, NotCountableError
from kvplan.growth import Constant
from kvplan.record import Record
from kvplan.spec import ModelSpec
from kvplan.tensor import ITEM_BYTES, CacheTensor, Role

CONV_BYTES = 2
COPIED = ("conv_bc", "conv_qk")
"""Convolutions over groups, which are copied where there are fewer than ranks."""
BASE_SLOTS = 3


class State(Record):
    """One layer's slot on one rank.

    channels: numbers of a convolution column. dense: its windows are stored one by one. per_head: the state is a
    matrix per head, which the radix cache can snapshot.
    """

    channels: int
    columns: int
    dense: bool
    numbers: int
    item_bytes: int
    per_head: bool

    def conv_bytes(self) -> int:
        """Bytes of a slot's convolution columns."""
        return self.channels * self.columns * CONV_BYTES

    def ssm_bytes(self) -> int:
        """Bytes of a slot's state."""
        return self.numbers * self.item_bytes

    def drafted_conv_bytes(self, drafted: int, tree: bool) -> int:
        """Bytes of the convolution windows after each of `drafted` tokens, of a chain or a tree."""
        if not self.columns:
            return 0
        columns = drafted * self.columns if self.dense or tree else drafted + self.columns - 1
        return self.channels * columns * CONV_BYTES


def layer_states(spec: ModelSpec, tensors: tuple[CacheTensor, ...], ranks: int, dtype: str | None = None) -> State:
    """What the recurrent tensors of one layer take in a slot; dtype: of states, the model's own unless given.

    Raises: NotCountableError for a recurrence that SGLang has no pool for; InputError where heads do not divide.
    """
    convolutions = [t for t in tensors if t.role is Role.CONV]
    states = [t for t in tensors if t.role is Role.STATE]
    for tensor in tensors:
        if not isinstance(tensor.growth, Constant) or tensor.name == "token_shift" or len(states) > 1:
            raise _unknown(spec, tensor)
        if tensor.role is Role.STATE and len(tensor.row) == 1:
            raise _unknown(spec, tensor)
    columns = {t.growth.rows for t in convolutions if isinstance(t.growth, Constant)}
    dense = len(convolutions) == 1 and len(convolutions[0].row) == 2
    state = states[0] if states else None
    return State(
        sum(_on_rank(t, ranks) for t in convolutions),
        max(columns, default=0),
        dense,
        _on_rank(state, ranks) if state else 0,
        ITEM_BYTES[dtype or state.dtype or "fp32"] if state else 0,
        state is not None and len(state.row) > 2,
    )


def _on_rank(tensor: CacheTensor, ranks: int) -> int:
    """Numbers of one row on one rank; groups that are fewer than the ranks are copied."""
    if tensor.shards % ranks and not (tensor.name in COPIED and tensor.shards < ranks):
        raise InputError(
            f"--tp: {ranks} ranks do not divide the {tensor.shards} heads of {tensor.name}, and SGLang asserts that they do",
            f"--tp {max(n for n in range(1, ranks + 1) if not tensor.shards % n)}",
        )
    return tensor.shard(ranks).elements


def slots_per_request(radix: bool, strategy: str, overlap: bool) -> int:
    """State slots that SGLang counts per running request.

    >>> slots_per_request(True, "extra_buffer", True), slots_per_request(False, "extra_buffer", True)
    (5, 1)
    """
    if not radix:
        return 1
    extra = {"no_buffer": 0, "extra_buffer_lazy": 1, "extra_buffer": 2 if overlap else 1}[strategy]
    return BASE_SLOTS + extra


def _unknown(spec: ModelSpec, tensor: CacheTensor) -> NotCountableError:
    return NotCountableError(
        f"{spec.source}: {tensor.name}: SGLang has no pool for this recurrence",
        "--engine ideal counts what the architecture needs",
    )
