"""gqa: query heads share KV heads, which are stored once and read once; MQA is the case of one KV head.

Bytes: kv_heads / heads of what full multi-head attention keeps. Attention views the query as
[kv_heads, group, head_dim] and multiplies each group by its head's keys, so no key is copied.

Worked: Llama-3.1-70B's 64 query heads over 8 KV heads keep an eighth, 4,096 bytes per token and layer.

Source: Shazeer 2019 (arXiv:1911.02150); Ainslie et al. 2023 (arXiv:2305.13245).
"""

from __future__ import annotations

from collections.abc import Iterable

import torch

from kvplan.caches.attention import attention
from kvplan.caches.interface import FullCacheError, Shape


class Grouped:
    """Keys and values token by token, [max_tokens, kv_heads, width]: the heads of one token side by side."""

    def __init__(self, shape: Shape, max_tokens: int, dtype: torch.dtype, device: str | None = None) -> None:
        self.shape, self.length = shape, 0
        self.keys = torch.empty(max_tokens, shape.kv_heads, shape.head_dim, dtype=dtype, device=device)
        self.values = torch.empty(max_tokens, shape.kv_heads, shape.v_head_dim, dtype=dtype, device=device)

    def append(self, keys: torch.Tensor, values: torch.Tensor) -> None:
        """Write the next tokens.

        Raises: FullCacheError past max_tokens.
        """
        end = self.length + keys.shape[1]
        if end > self.keys.shape[0]:
            raise FullCacheError(f"{end:,} rows, room for {self.keys.shape[0]:,}")
        self.keys[self.length : end] = keys.transpose(0, 1)
        self.values[self.length : end] = values.transpose(0, 1)
        self.length = end

    def attend(self, query: torch.Tensor) -> torch.Tensor:
        """Each group of query heads over its one KV head."""
        used = (t[: self.length].transpose(0, 1) for t in (self.keys, self.values))
        return attention(query, *used)

    def tensors(self) -> Iterable[torch.Tensor]:
        """Keys and values."""
        return self.keys, self.values

    def bookkeeping(self) -> Iterable[torch.Tensor]:
        """Nothing."""
        return ()

    def used_bytes(self) -> int:
        """The filled rows."""
        return sum(t[: self.length].numel() * t.element_size() for t in (self.keys, self.values))
