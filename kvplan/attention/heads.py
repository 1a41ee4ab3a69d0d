"""Keys and values per head: the two tensors that MHA, MQA and GQA all keep."""

from __future__ import annotations

from typing import Self

from pydantic import model_validator

from kvplan.attention.fields import Fields, Heads, Rows, Width
from kvplan.growth import Chunk, PerToken, RowLaw, Window
from kvplan.tensor import CacheTensor, Role


class HeadFields(Fields):
    """heads: query heads; kv_heads: key and value heads; head_dim: width of a key head.

    v_head_dim: width of a value head where it differs. window: the last tokens a layer looks at.
    chunk: tokens of a chunk, where a token looks at its own chunk only.
    """

    heads: Heads
    kv_heads: Heads
    head_dim: Width
    v_head_dim: Width | None = None
    window: Rows | None = None
    chunk: Rows | None = None

    @model_validator(mode="after")
    def _window_or_chunk(self) -> Self:
        if self.window is not None and self.chunk is not None:
            raise ValueError("window and chunk exclude each other")
        return self


def row_law(window: int | None, chunk: int | None = None) -> RowLaw:
    """The growth law a window or chunk imposes on rows that otherwise grow per token."""
    if window is not None:
        return Window(window)
    return Chunk(chunk) if chunk is not None else PerToken()


def key_value_tensors(fields: HeadFields) -> tuple[CacheTensor, ...]:
    """K rows [kv_heads, head_dim] and V rows [kv_heads, v_head_dim], one of each per token kept."""
    law = row_law(fields.window, fields.chunk)
    v_width = fields.v_head_dim or fields.head_dim
    return (
        CacheTensor("k", Role.K, (fields.kv_heads, fields.head_dim), law, fields.kv_heads),
        CacheTensor("v", Role.V, (fields.kv_heads, v_width), law, fields.kv_heads),
    )


def head_pair_flops(fields: HeadFields) -> int:
    """A dot product with one key and a weighted sum of one value per query head: 2 FLOPs per element."""
    return 2 * fields.heads * (fields.head_dim + (fields.v_head_dim or fields.head_dim))
