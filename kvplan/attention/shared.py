"""Shared cache: the layer reads another layer's rows and owns none.

Bytes: 0. Gemma 3n and Gemma 4's last layers, cross-layer attention, YOCO's second half.

Worked: Gemma-3n-E4B has 35 layers; the last 15 reuse earlier ones, so 20 own a cache.

Source: Gemma 3n configuration `num_kv_shared_layers`; Brandon et al. 2024 (arXiv:2405.12981).

>>> Shared(type="shared").cache_tensors()
()
"""

from __future__ import annotations

from typing import Literal

from kvplan.attention.fields import Fields
from kvplan.tensor import CacheTensor


class Shared(Fields):
    """A layer without a cache of its own that attends to another layer's."""

    type: Literal["shared"]

    def cache_tensors(self) -> tuple[CacheTensor, ...]:
        """Nothing."""
        return ()

    def pair_flops(self) -> int:
        """Unknown here, since the rows belong to another layer: 0."""
        return 0


KIND = Shared
