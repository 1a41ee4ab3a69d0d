"""window: a ring of the last W rows; the newest overwrites the oldest.

Bytes: min(n, W) rows in use of the W that are held. Softmax does not ask in which order rows lie,
so the ring is attended to as it is.

Worked: Gemma 3's window of 1,024 holds 1,024 rows at 131,072 tokens, 0.8 % of them.

Source: Beltagy et al. 2020 (arXiv:2004.05150); Mistral 7B (arXiv:2310.06825), its rolling buffer.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch

from kvplan.caches.attention import attention
from kvplan.caches.interface import Shape


class Window:
    """Keys and values [kv_heads, window, width]; row t lies at t mod window."""

    def __init__(self, shape: Shape, window: int, dtype: torch.dtype, device: str | None = None) -> None:
        self.keys = torch.empty(shape.kv_heads, window, shape.head_dim, dtype=dtype, device=device)
        self.values = torch.empty(shape.kv_heads, window, shape.v_head_dim, dtype=dtype, device=device)
        self.window, self.seen = window, 0

    def append(self, keys: torch.Tensor, values: torch.Tensor) -> None:
        """Write the next rows over the oldest."""
        new = keys.shape[1]
        last = min(new, self.window)  # of many rows at once only the last can stay
        places = torch.arange(self.seen + new - last, self.seen + new) % self.window
        self.keys[:, places] = keys[:, new - last :].to(self.keys.dtype)
        self.values[:, places] = values[:, new - last :].to(self.values.dtype)
        self.seen += new

    def attend(self, query: torch.Tensor) -> torch.Tensor:
        """Over the rows that are left."""
        return attention(query, self.keys[:, : self.rows], self.values[:, : self.rows])

    @property
    def rows(self) -> int:
        """Rows in use."""
        return min(self.seen, self.window)

    def positions(self) -> list[int]:
        """Which tokens the rows in use belong to, in the order they lie."""
        oldest = self.seen - self.rows
        return sorted(range(oldest, self.seen), key=lambda token: token % self.window)

    def tensors(self) -> Iterable[torch.Tensor]:
        """The ring."""
        return self.keys, self.values

    def bookkeeping(self) -> Iterable[torch.Tensor]:
        """Nothing."""
        return ()

    def used_bytes(self) -> int:
        """The rows in use."""
        return sum(t[:, : self.rows].numel() * t.element_size() for t in self.tensors())
