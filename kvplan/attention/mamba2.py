"""Mamba-2: a convolution tail over x, B and C, and one head_dim x d_state matrix per head.

Bytes per sequence and layer: (conv_kernel - 1) x (heads x head_dim + 2 x groups x d_state) in the
model's dtype, and heads x head_dim x d_state in `state_dtype` (fp32 unless the spec says otherwise).

Worked: Nemotron-H-8B, 128 heads of 64, 8 groups, d_state 128, kernel 4: 3 x 10,240 = 30,720 elements in
16 bit and 1,048,576 in fp32: 61,440 + 4,194,304 = 4,255,744 bytes, as vLLM 0.33 counts it.

Source: Dao and Gu 2024 (arXiv:2405.21060); vLLM 0.33.0 MambaStateShapeCalculator, executed.

>>> [t.elements * t.growth.rows for t in Mamba2(type="mamba2", heads=128, head_dim=64, groups=8, d_state=128, conv_kernel=4).cache_tensors()]
[24576, 6144, 1048576]
"""

from __future__ import annotations

from typing import Literal

from kvplan.attention.fields import Fields, Heads, Kernel, StateDtype, Width
from kvplan.growth import Constant
from kvplan.tensor import CacheTensor, Role


class Mamba2(Fields):
    """A Mamba-2 mixer. B and C belong to groups, which are copied where there are fewer than ranks."""

    type: Literal["mamba2"]
    heads: Heads
    head_dim: Width
    groups: Heads
    d_state: Width
    conv_kernel: Kernel
    state_dtype: StateDtype | None = None

    def cache_tensors(self) -> tuple[CacheTensor, ...]:
        """Convolution columns of x [heads, head_dim] and of B and C [groups, 2 x d_state]; the state."""
        columns = Constant(self.conv_kernel - 1)
        state = (self.heads, self.head_dim, self.d_state)
        return (
            CacheTensor("conv_x", Role.CONV, (self.heads, self.head_dim), columns, self.heads),
            CacheTensor("conv_bc", Role.CONV, (self.groups, 2 * self.d_state), columns, self.groups),
            CacheTensor("state", Role.STATE, state, Constant(1), self.heads, self.state_dtype),
        )

    def pair_flops(self) -> int:
        """A state is updated, not attended to: 0."""
        return 0


KIND = Mamba2
