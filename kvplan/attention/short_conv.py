"""Short convolution (LFM2): the last columns of one convolution and nothing else.

Bytes per sequence and layer: (conv_kernel - 1) x dim in the model's dtype.

Worked: LFM2-350M, width 1024, kernel 3: 2 x 1024 x 2 = 4,096 bytes per layer.

Source: LFM2 configuration (conv_L_cache 3); vLLM 0.33.0 short-convolution state shape.

>>> [t.elements * t.growth.rows for t in ShortConv(type="short_conv", dim=1024, conv_kernel=3).cache_tensors()]
[2048]
"""

from __future__ import annotations

from typing import Literal

from kvplan.attention.fields import Fields, Kernel, Width
from kvplan.growth import Constant
from kvplan.tensor import CacheTensor, Role


class ShortConv(Fields):
    """A gated short convolution."""

    type: Literal["short_conv"]
    dim: Width
    conv_kernel: Kernel

    def cache_tensors(self) -> tuple[CacheTensor, ...]:
        """Convolution columns [dim]; channels divide under TP."""
        return (CacheTensor("conv", Role.CONV, (self.dim,), Constant(self.conv_kernel - 1), self.dim),)

    def pair_flops(self) -> int:
        """A state is updated, not attended to: 0."""
        return 0


KIND = ShortConv
