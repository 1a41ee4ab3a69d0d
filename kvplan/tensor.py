"""What one layer keeps for one sequence, as tensors: the joint between kinds, formats and engines.

An attention kind lists `CacheTensor`s (logical: so many elements per row). A format turns each
into `StoredTensor`s (physical: codes, scales, zeros, residuals of a known dtype). Bytes are a
product over the second list, and `measure` allocates that same list.
"""

from __future__ import annotations

from enum import Enum
from math import prod
from typing import TYPE_CHECKING, Any

from kvplan.growth import Growth, RowLaw, rows
from kvplan.record import Record
from kvplan.units import ceil_div

if TYPE_CHECKING:
    from kvplan.growth import Count


class Role(str, Enum):
    """What a tensor is for; engines pad latents and cut convolutions by rules of their own."""

    K = "k"
    V = "v"
    LATENT = "latent"
    ENTRY = "entry"
    INDEX = "index"
    CONV = "conv"
    STATE = "state"


class CacheTensor(Record):
    """One logical tensor of one layer of one sequence.

    name: as parts print it; unique within the layer's attention.
    row: shape of one row; the first dimension is the one that tensor parallelism divides.
    shards: distinct tensor-parallel shards; ranks beyond them hold copies (1 = replicated).
    dtype: its own storage format where the model fixes one (states), else the workload's.
    rope: trailing elements of the row that carry positions and stay wide in some formats.
    """

    name: str
    role: Role
    row: tuple[int, ...]
    growth: RowLaw
    shards: int
    dtype: str | None = None
    rope: int = 0

    @property
    def elements(self) -> int:
        """Elements in one row."""
        return prod(self.row)

    def shard(self, tp: int) -> CacheTensor:
        """The tensor as the fullest of `tp` ranks holds it.

        >>> from kvplan.growth import PerToken
        >>> k = CacheTensor("k", Role.K, (8, 128), PerToken(), shards=8)
        >>> k.shard(3).row, k.shard(16).row
        ((3, 128), (1, 128))
        """
        if tp == 1 or self.shards == 1:
            return self
        held = ceil_div(self.shards, tp)
        first = self.row[0] // self.shards * held
        return self.replace(row=(first, *self.row[1:]), shards=held)


ITEM_BYTES = {"fp32": 4, "fp16": 2, "bf16": 2, "fp8_e4m3": 1, "fp8_e5m2": 1, "int8": 1, "uint8": 1, "ue8m0": 1}


class StoredTensor(Record):
    """One physical tensor: `rows(growth)` rows of `row` elements of `dtype` (a key of ITEM_BYTES).

    content: `data`, `scale`, `zero`, `residual` or `pad`.
    """

    content: str
    row: tuple[int, ...]
    dtype: str
    growth: Growth

    @property
    def row_bytes(self) -> int:
        """Bytes of one row."""
        return prod(self.row) * ITEM_BYTES[self.dtype]

    def bytes(self, context: Count, encoder_tokens: int = 0) -> Any:
        """Bytes after `context` tokens of one sequence in one layer."""
        return rows(self.growth, context, encoder_tokens) * self.row_bytes
