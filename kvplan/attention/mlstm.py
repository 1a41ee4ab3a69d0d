"""mLSTM (xLSTM): a matrix memory, a normaliser and a running maximum per head.

Bytes per sequence and layer: heads x (qk_head_dim x v_head_dim + qk_head_dim + 1) in `state_dtype`
(fp32 unless the spec says otherwise).

Worked: xLSTM-7B, 8 heads of 256 x 512: 8 x (131,072 + 256 + 1) x 4 = 4,202,528 bytes per layer.

Source: Beck et al. 2024 (arXiv:2405.04517), the states C, n and m of equations 19 to 27.

>>> [t.elements for t in Mlstm(type="mlstm", heads=8, qk_head_dim=256, v_head_dim=512).cache_tensors()]
[1048576, 2048, 8]
"""

from __future__ import annotations

from typing import Literal

from kvplan.attention.fields import Fields, Heads, StateDtype, Width
from kvplan.growth import Constant
from kvplan.tensor import CacheTensor, Role


class Mlstm(Fields):
    """A matrix LSTM."""

    type: Literal["mlstm"]
    heads: Heads
    qk_head_dim: Width
    v_head_dim: Width
    state_dtype: StateDtype | None = None

    def cache_tensors(self) -> tuple[CacheTensor, ...]:
        """Memory [heads, qk_head_dim, v_head_dim], normaliser [heads, qk_head_dim], maximum [heads]."""
        once = Constant(1)
        memory = (self.heads, self.qk_head_dim, self.v_head_dim)
        return (
            CacheTensor("memory", Role.STATE, memory, once, self.heads, self.state_dtype),
            CacheTensor("normalizer", Role.STATE, (self.heads, self.qk_head_dim), once, self.heads, self.state_dtype),
            CacheTensor("maximum", Role.STATE, (self.heads,), once, self.heads, self.state_dtype),
        )

    def pair_flops(self) -> int:
        """A state is updated, not attended to: 0."""
        return 0


KIND = Mlstm
