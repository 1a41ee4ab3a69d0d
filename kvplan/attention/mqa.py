"""MQA: all query heads share a single key and a single value head.

Bytes per token and layer: 2 x head_dim x element bytes. Tensor parallelism cannot divide it.

Worked: Falcon-7B, 32 layers, one head of 64, 16 bit: 32 x 2 x 64 x 2 = 8,192 bytes per token.

Source: Shazeer 2019 (arXiv:1911.02150).

>>> sum(t.elements for t in Mqa(type="mqa", heads=71, kv_heads=1, head_dim=64).cache_tensors()) * 32 * 2
8192
"""

from __future__ import annotations

from typing import Literal, Self

from pydantic import model_validator

from kvplan.attention.heads import HeadFields, head_pair_flops, key_value_tensors
from kvplan.tensor import CacheTensor


class Mqa(HeadFields):
    """Multi-query attention; the claim is checked against the head count."""

    type: Literal["mqa"]

    @model_validator(mode="after")
    def _claim(self) -> Self:
        if self.kv_heads != 1:
            raise ValueError(f"type mqa means kv_heads = 1, but kv_heads is {self.kv_heads}")
        return self

    def cache_tensors(self) -> tuple[CacheTensor, ...]:
        """K [1, head_dim] and V [1, v_head_dim] per token kept."""
        return key_value_tensors(self)

    def pair_flops(self) -> int:
        """2 x heads x (head_dim + v_head_dim)."""
        return head_pair_flops(self)


KIND = Mqa
