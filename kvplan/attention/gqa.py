"""GQA: groups of query heads share one key and one value head.

Bytes per token and layer: kv_heads x (head_dim + v_head_dim) x element bytes.

Worked: Llama-3.1-70B keeps 8 heads of 128 in 80 layers, 16 bit:
80 x 2 x 8 x 128 x 2 = 327,680 bytes per token, Mooncake's "320 KB".

Source: Ainslie et al. 2023 (arXiv:2305.13245); Mooncake, FAST'25, section 5.3.

>>> [t.elements for t in Gqa(type="gqa", heads=64, kv_heads=8, head_dim=128).cache_tensors()]
[1024, 1024]
"""

from __future__ import annotations

from typing import Literal, Self

from pydantic import model_validator

from kvplan.attention.heads import HeadFields, head_pair_flops, key_value_tensors
from kvplan.tensor import CacheTensor


class Gqa(HeadFields):
    """Grouped-query attention."""

    type: Literal["gqa"]

    @model_validator(mode="after")
    def _groups(self) -> Self:
        if self.heads % self.kv_heads:
            raise ValueError(f"heads must be a multiple of kv_heads: {self.heads} is not a multiple of {self.kv_heads}")
        return self

    def cache_tensors(self) -> tuple[CacheTensor, ...]:
        """K [kv_heads, head_dim] and V [kv_heads, v_head_dim] per token kept."""
        return key_value_tensors(self)

    def pair_flops(self) -> int:
        """2 x heads x (head_dim + v_head_dim)."""
        return head_pair_flops(self)


KIND = Gqa
