"""streaming: the first tokens stay as sinks, and a window of the newest; positions count inside the cache.

Keys are stored before their rotation and turned by their place in the cache when they are attended
to, so that however long the text, no position is past sinks + window.

Bytes: min(n, sinks + window) rows.

Worked: 4 sinks and a window of 2,044 hold 2,048 rows of any longer text; its newest row is at position 2,047.

Source: Xiao et al. 2023 (arXiv:2309.17453), section 3.2 and its reference code.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch

from kvplan.caches.attention import attention
from kvplan.caches.interface import Shape
from kvplan.caches.rotary import rotated


class Streaming:
    """Keys, not yet turned, and values [kv_heads, sinks + window, width]: the sinks, then a ring."""

    def __init__(self, shape: Shape, sinks: int, window: int, dtype: torch.dtype, theta: float = 10_000.0) -> None:
        self.keys = torch.empty(shape.kv_heads, sinks + window, shape.head_dim, dtype=dtype)
        self.values = torch.empty(shape.kv_heads, sinks + window, shape.v_head_dim, dtype=dtype)
        self.sinks, self.window, self.theta, self.seen = sinks, window, theta, 0

    def append(self, keys: torch.Tensor, values: torch.Tensor) -> None:
        """Write the next rows, keys before their rotation; the oldest of the window go."""
        for at in range(keys.shape[1]):
            place = self._place(self.seen)
            self.keys[:, place], self.values[:, place] = keys[:, at], values[:, at]
            self.seen += 1

    def _place(self, token: int) -> int:
        return token if token < self.sinks else self.sinks + (token - self.sinks) % self.window

    @property
    def rows(self) -> int:
        """Rows in use."""
        return min(self.seen, self.sinks + self.window)

    def positions(self) -> list[int]:
        """Which tokens stay, oldest first: the sinks and the newest."""
        newest = range(max(self.sinks, self.seen - self.window), self.seen)
        return [*range(min(self.sinks, self.seen)), *newest]

    def attend(self, query: torch.Tensor) -> torch.Tensor:
        """Over the sinks and the window, the query, not yet turned, at the last place in the cache."""
        order = torch.tensor([self._place(token) for token in self.positions()])
        places = torch.arange(self.rows)
        keys = rotated(self.keys[:, order], places, self.theta)
        turned = rotated(query[:, None], places[-1:], self.theta)[:, 0]
        return attention(turned, keys, self.values[:, order])

    def tensors(self) -> Iterable[torch.Tensor]:
        """Sinks and ring."""
        return self.keys, self.values

    def bookkeeping(self) -> Iterable[torch.Tensor]:
        """Nothing."""
        return ()

    def used_bytes(self) -> int:
        """The rows in use."""
        return sum(t[:, : self.rows].numel() * t.element_size() for t in self.tensors())
