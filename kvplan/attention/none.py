"""No attention: an MLP or expert layer, which caches nothing.

Bytes: 0.

Worked: Nemotron-3-Nano lists 52 layers, of which 23 are expert layers and keep nothing.

Source: Nemotron-H configuration, `hybrid_override_pattern`.

>>> NoAttention(type="none").cache_tensors()
()
"""

from __future__ import annotations

from typing import Literal

from kvplan.attention.fields import Fields
from kvplan.tensor import CacheTensor


class NoAttention(Fields):
    """A layer that keeps no cache."""

    type: Literal["none"]

    def cache_tensors(self) -> tuple[CacheTensor, ...]:
        """Nothing."""
        return ()

    def pair_flops(self) -> int:
        """0."""
        return 0


KIND = NoAttention
