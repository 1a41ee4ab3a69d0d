"""RWKV-7: one square matrix per head and the previous token's vector for each of two mixers.

Bytes per sequence and layer: heads x head_dim^2 in `state_dtype` (fp32 unless the spec says otherwise), and
2 x heads x head_dim in the model's dtype for the two token shifts.

Worked: RWKV-7-1.5B, 32 heads of 64: 131,072 elements in fp32 and 4,096 in 16 bit: 532,480 bytes per layer.

Source: Peng et al. 2025 (arXiv:2503.14456); the released shapes [32, 64, 64] and [2, 2048].

>>> [t.elements * t.growth.rows for t in Rwkv7(type="rwkv7", heads=32, head_dim=64).cache_tensors()]
[4096, 131072]
"""

from __future__ import annotations

from typing import Literal

from kvplan.attention.fields import Fields, Heads, StateDtype, Width
from kvplan.growth import Constant
from kvplan.tensor import CacheTensor, Role


class Rwkv7(Fields):
    """An RWKV-7 layer: time mixing and channel mixing."""

    type: Literal["rwkv7"]
    heads: Heads
    head_dim: Width
    state_dtype: StateDtype | None = None

    def cache_tensors(self) -> tuple[CacheTensor, ...]:
        """Two token-shift rows [heads, head_dim] and the state [heads, head_dim, head_dim]."""
        state = (self.heads, self.head_dim, self.head_dim)
        return (
            CacheTensor("token_shift", Role.CONV, (self.heads, self.head_dim), Constant(2), self.heads),
            CacheTensor("state", Role.STATE, state, Constant(1), self.heads, self.state_dtype),
        )

    def pair_flops(self) -> int:
        """A state is updated, not attended to: 0."""
        return 0


KIND = Rwkv7
