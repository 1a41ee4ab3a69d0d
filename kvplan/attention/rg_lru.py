"""RG-LRU (Griffin, RecurrentGemma): a convolution tail and one number per channel.

Bytes per sequence and layer: (conv_kernel - 1) x width in the model's dtype, and width in `state_dtype`
(fp32 unless the spec says otherwise).

Worked: RecurrentGemma-2B, width 2560, kernel 4: 3 x 2560 x 2 + 2560 x 4 = 25,600 bytes per layer.

Source: De et al. 2024 (arXiv:2402.19427).

>>> [t.elements * t.growth.rows for t in RgLru(type="rg_lru", width=2560, conv_kernel=4).cache_tensors()]
[7680, 2560]
"""

from __future__ import annotations

from typing import Literal

from kvplan.attention.fields import Fields, Kernel, StateDtype, Width
from kvplan.growth import Constant
from kvplan.tensor import CacheTensor, Role


class RgLru(Fields):
    """A real-gated linear recurrent unit."""

    type: Literal["rg_lru"]
    width: Width
    conv_kernel: Kernel
    state_dtype: StateDtype | None = None

    def cache_tensors(self) -> tuple[CacheTensor, ...]:
        """Convolution columns [width] and the state [width]; channels divide under TP."""
        return (
            CacheTensor("conv", Role.CONV, (self.width,), Constant(self.conv_kernel - 1), self.width),
            CacheTensor("state", Role.STATE, (self.width,), Constant(1), self.width, self.state_dtype),
        )

    def pair_flops(self) -> int:
        """A state is updated, not attended to: 0."""
        return 0


KIND = RgLru
