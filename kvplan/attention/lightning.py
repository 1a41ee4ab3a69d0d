"""Lightning attention: one square matrix per head, no convolution.

Bytes per sequence and layer: heads x head_dim^2 in `state_dtype` (fp32 unless the spec says otherwise).

Worked: MiniMax-Text-01, 64 heads of 128: 1,048,576 elements, 4,194,304 bytes in fp32 per lightning layer.

Source: Qin et al. 2024 (arXiv:2401.04658); MiniMax-01 (arXiv:2501.08313); vLLM 0.33.0 MambaStateShapeCalculator.

>>> [t.elements for t in Lightning(type="lightning", heads=64, head_dim=128).cache_tensors()]
[1048576]
"""

from __future__ import annotations

from typing import Literal

from kvplan.attention.fields import Fields, Heads, StateDtype, Width
from kvplan.growth import Constant
from kvplan.tensor import CacheTensor, Role


class Lightning(Fields):
    """A lightning (linear) attention mixer."""

    type: Literal["lightning"]
    heads: Heads
    head_dim: Width
    state_dtype: StateDtype | None = None

    def cache_tensors(self) -> tuple[CacheTensor, ...]:
        """The state [heads, head_dim, head_dim]."""
        state = (self.heads, self.head_dim, self.head_dim)
        return (CacheTensor("state", Role.STATE, state, Constant(1), self.heads, self.state_dtype),)

    def pair_flops(self) -> int:
        """A state is updated, not attended to: 0."""
        return 0


KIND = Lightning
