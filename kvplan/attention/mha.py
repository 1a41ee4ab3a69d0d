"""MHA: every query head has a key and a value head of its own.

Bytes per token and layer: 2 x heads x head_dim x element bytes.

Worked: the textbook 70B, 80 layers, 64 heads of 128, 16 bit:
80 x 2 x 64 x 128 x 2 = 2,621,440 bytes per token; OPT-13B's 819,200 is the vLLM paper's "800 KB".

Source: Vaswani et al. 2017; Kwon et al. 2023 (arXiv:2309.06180), section 3.

>>> sum(t.elements for t in Mha(type="mha", heads=40, kv_heads=40, head_dim=128).cache_tensors()) * 40 * 2
819200
"""

from __future__ import annotations

from typing import Literal, Self

from pydantic import model_validator

from kvplan.attention.heads import HeadFields, head_pair_flops, key_value_tensors
from kvplan.tensor import CacheTensor


class Mha(HeadFields):
    """Multi-head attention; the claim is checked against the head counts."""

    type: Literal["mha"]

    @model_validator(mode="after")
    def _claim(self) -> Self:
        if self.kv_heads != self.heads:
            raise ValueError(
                f"type mha means kv_heads = heads, but kv_heads is {self.kv_heads} and heads is {self.heads}",
            )
        return self

    def cache_tensors(self) -> tuple[CacheTensor, ...]:
        """K [heads, head_dim] and V [heads, v_head_dim] per token kept."""
        return key_value_tensors(self)

    def pair_flops(self) -> int:
        """2 x heads x (head_dim + v_head_dim)."""
        return head_pair_flops(self)


KIND = Mha
