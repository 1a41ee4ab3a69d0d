"""chunk: attention within the chunk that a token falls in; a new chunk begins with nothing.

Bytes: the rows of the current chunk, at its fullest min(n, C), which is what has to be held.

Worked: Llama 4's chunks of 8,192: token 8,192 attends to itself alone, token 8,193 to two.

Source: Llama 4's local layers, as transformers 5.24 runs them (attention_chunk_size).
"""

from __future__ import annotations

from collections.abc import Iterable

import torch

from kvplan.caches.attention import attention
from kvplan.caches.interface import Shape


class Chunk:
    """Keys and values [kv_heads, chunk, width], filled from the front for each chunk."""

    def __init__(self, shape: Shape, chunk: int, dtype: torch.dtype, device: str | None = None) -> None:
        self.keys = torch.empty(shape.kv_heads, chunk, shape.head_dim, dtype=dtype, device=device)
        self.values = torch.empty(shape.kv_heads, chunk, shape.v_head_dim, dtype=dtype, device=device)
        self.chunk, self.seen = chunk, 0

    def append(self, keys: torch.Tensor, values: torch.Tensor) -> None:
        """Write the next rows; those of a chunk that is over are dropped."""
        new = keys.shape[1]
        end = self.seen + new
        start = max(self.seen, (end - 1) // self.chunk * self.chunk) if new else end
        at, kept = start % self.chunk, end - start
        self.keys[:, at : at + kept] = keys[:, new - kept :].to(self.keys.dtype)
        self.values[:, at : at + kept] = values[:, new - kept :].to(self.values.dtype)
        self.seen = end

    @property
    def rows(self) -> int:
        """Rows of the current chunk."""
        return (self.seen - 1) % self.chunk + 1 if self.seen else 0

    def attend(self, query: torch.Tensor) -> torch.Tensor:
        """Over the current chunk."""
        return attention(query, self.keys[:, : self.rows], self.values[:, : self.rows])

    def tensors(self) -> Iterable[torch.Tensor]:
        """The chunk, whole."""
        return self.keys, self.values

    def bookkeeping(self) -> Iterable[torch.Tensor]:
        """Nothing."""
        return ()

    def used_bytes(self) -> int:
        """The rows of the current chunk."""
        return sum(t[:, : self.rows].numel() * t.element_size() for t in self.tensors())
