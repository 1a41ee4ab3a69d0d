"""KDA (Kimi Delta Attention): a convolution tail over q, k and v, and one square matrix per head.

Bytes per sequence and layer: (conv_kernel - 1) x 3 x heads x head_dim in the model's dtype, and
heads x head_dim^2 in `state_dtype` (fp32 unless the spec says otherwise).

Worked: Kimi-Linear, 32 heads of 128, kernel 4: 3 x 12,288 = 36,864 elements in 16 bit and 524,288 in fp32:
73,728 + 2,097,152 = 2,170,880 bytes, as vLLM 0.33 counts it.

Source: Kimi Linear (arXiv:2510.26692); vLLM 0.33.0 MambaStateShapeCalculator, executed.

>>> [t.elements * t.growth.rows for t in Kda(type="kda", heads=32, head_dim=128, conv_kernel=4).cache_tensors()]
[36864, 524288]
"""

from __future__ import annotations

from typing import Literal

from kvplan.attention.fields import Fields, Heads, Kernel, StateDtype, Width
from kvplan.growth import Constant
from kvplan.tensor import CacheTensor, Role


class Kda(Fields):
    """A Kimi Delta Attention mixer."""

    type: Literal["kda"]
    heads: Heads
    head_dim: Width
    conv_kernel: Kernel
    state_dtype: StateDtype | None = None

    def cache_tensors(self) -> tuple[CacheTensor, ...]:
        """Convolution columns [heads, 3 x head_dim] and the state [heads, head_dim, head_dim]."""
        state = (self.heads, self.head_dim, self.head_dim)
        columns = Constant(self.conv_kernel - 1)
        return (
            CacheTensor("conv", Role.CONV, (self.heads, 3 * self.head_dim), columns, self.heads),
            CacheTensor("state", Role.STATE, state, Constant(1), self.heads, self.state_dtype),
        )

    def pair_flops(self) -> int:
        """A state is updated, not attended to: 0."""
        return 0


KIND = Kda
