"""dynamic: keys and values joined to what is there, so that exactly the rows in use are held.

Bytes: n rows; while joining, the old and the new copy are both alive.

Worked: 100 rows of 2 heads of 64 in 16 bit, K and V: 51,200 bytes, and 101,888 while row 100 joins 99.

Source: the cache that transformers calls DynamicCache.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch

from kvplan.caches.attention import attention
from kvplan.caches.interface import Shape, tensor_bytes


class Dynamic:
    """Keys and values [kv_heads, n, width], a new pair of tensors at every append."""

    def __init__(self, shape: Shape, dtype: torch.dtype, device: str | None = None) -> None:
        self.keys = torch.empty(shape.kv_heads, 0, shape.head_dim, dtype=dtype, device=device)
        self.values = torch.empty(shape.kv_heads, 0, shape.v_head_dim, dtype=dtype, device=device)

    def append(self, keys: torch.Tensor, values: torch.Tensor) -> None:
        """Join the rows at the end."""
        self.keys = torch.cat((self.keys, keys.to(self.keys.dtype)), dim=1)
        self.values = torch.cat((self.values, values.to(self.values.dtype)), dim=1)

    def attend(self, query: torch.Tensor) -> torch.Tensor:
        """Over all rows."""
        return attention(query, self.keys, self.values)

    def tensors(self) -> Iterable[torch.Tensor]:
        """Keys and values."""
        return self.keys, self.values

    def bookkeeping(self) -> Iterable[torch.Tensor]:
        """Nothing."""
        return ()

    def used_bytes(self) -> int:
        """Everything that is held."""
        return tensor_bytes(self.tensors())
