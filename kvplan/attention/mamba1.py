"""Mamba-1: a convolution tail and one state of d_state numbers per channel, whatever the length.

Bytes per sequence and layer: (conv_kernel - 1) x d_inner in the model's dtype, and
d_inner x d_state in `state_dtype` (fp32 unless the spec says otherwise).

Worked: Jamba-1.5-Mini, d_inner 8192, d_state 16, kernel 4: 3 x 8192 = 24,576 and 131,072 elements,
49,152 + 262,144 = 311,296 bytes with everything in 16 bit, as vLLM 0.33 counts it.

Source: Gu and Dao 2023 (arXiv:2312.00752); vLLM 0.33.0 MambaStateShapeCalculator, executed.

>>> [t.elements * t.growth.rows for t in Mamba1(type="mamba1", d_inner=8192, d_state=16, conv_kernel=4).cache_tensors()]
[24576, 131072]
"""

from __future__ import annotations

from typing import Literal

from kvplan.attention.fields import Fields, Kernel, StateDtype, Width
from kvplan.growth import Constant
from kvplan.tensor import CacheTensor, Role


class Mamba1(Fields):
    """A Mamba-1 mixer."""

    type: Literal["mamba1"]
    d_inner: Width
    d_state: Width
    conv_kernel: Kernel
    state_dtype: StateDtype | None = None

    def cache_tensors(self) -> tuple[CacheTensor, ...]:
        """Convolution columns [d_inner] and the state [d_inner, d_state]; channels divide under TP."""
        return (
            CacheTensor("conv", Role.CONV, (self.d_inner,), Constant(self.conv_kernel - 1), self.d_inner),
            CacheTensor("state", Role.STATE, (self.d_inner, self.d_state), Constant(1), self.d_inner, self.state_dtype),
        )

    def pair_flops(self) -> int:
        """A state is updated, not attended to: 0."""
        return 0


KIND = Mamba1
