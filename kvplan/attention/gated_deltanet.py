"""Gated DeltaNet: a convolution tail over q, k and v, and one v x k matrix per value head.

Bytes per sequence and layer: (conv_kernel - 1) x (2 x k_heads x k_head_dim + v_heads x v_head_dim) in the
model's dtype, and v_heads x v_head_dim x k_head_dim in `state_dtype` (fp32 unless the spec says otherwise).

Worked: Qwen3-Next, 16 key and 32 value heads of 128, kernel 4: 3 x 8,192 = 24,576 elements in 16 bit and
524,288 in fp32: 49,152 + 2,097,152 = 2,146,304 bytes, as vLLM 0.33 counts it with an fp32 state.

Source: Yang et al. 2024 (arXiv:2412.06464); vLLM 0.33.0 MambaStateShapeCalculator, executed.

>>> [t.elements * t.growth.rows for t in GatedDeltaNet(type="gated_deltanet", k_heads=16, v_heads=32, k_head_dim=128, v_head_dim=128, conv_kernel=4).cache_tensors()]
[12288, 12288, 524288]
"""

from __future__ import annotations

from typing import Literal

from kvplan.attention.fields import Fields, Heads, Kernel, StateDtype, Width
from kvplan.growth import Constant
from kvplan.tensor import CacheTensor, Role


class GatedDeltaNet(Fields):
    """A gated DeltaNet mixer."""

    type: Literal["gated_deltanet"]
    k_heads: Heads
    v_heads: Heads
    k_head_dim: Width
    v_head_dim: Width
    conv_kernel: Kernel
    state_dtype: StateDtype | None = None

    def cache_tensors(self) -> tuple[CacheTensor, ...]:
        """Convolution columns of q and k [k_heads, 2 x k_head_dim] and of v [v_heads, v_head_dim]; the state."""
        columns = Constant(self.conv_kernel - 1)
        state = (self.v_heads, self.v_head_dim, self.k_head_dim)
        return (
            CacheTensor("conv_qk", Role.CONV, (self.k_heads, 2 * self.k_head_dim), columns, self.k_heads),
            CacheTensor("conv_v", Role.CONV, (self.v_heads, self.v_head_dim), columns, self.v_heads),
            CacheTensor("state", Role.STATE, state, Constant(1), self.v_heads, self.state_dtype),
        )

    def pair_flops(self) -> int:
        """A state is updated, not attended to: 0."""
        return 0


KIND = GatedDeltaNet
