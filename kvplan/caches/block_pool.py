"""A pool of blocks of a few rows each: a free list, and a count of who refers to each block.

A block is handed out with one reference, shared by adding references, and free again when the last
one is given back. Nothing here knows what a sequence is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch

from kvplan.caches.interface import FullCacheError, Shape


class BlockPool:
    """Keys and values [blocks, block_size, kv_heads, width].

    make_room: asked once for a free block when there is none; returns whether it freed any.
    """

    def __init__(
        self, shape: Shape, blocks: int, block_size: int, dtype: torch.dtype, device: str | None = None
    ) -> None:
        self.shape, self.block_size, self.blocks = shape, block_size, blocks
        self.keys = torch.empty(blocks, block_size, shape.kv_heads, shape.head_dim, dtype=dtype, device=device)
        self.values = torch.empty(blocks, block_size, shape.kv_heads, shape.v_head_dim, dtype=dtype, device=device)
        self.references = [0] * blocks
        self.free = list(range(blocks - 1, -1, -1))
        self.make_room: Callable[[], bool] = lambda: False

    def take(self) -> int:
        """A free block, with one reference.

        Raises: FullCacheError when all are in use and none can be made free.
        """
        if not self.free and not self.make_room():
            raise FullCacheError(f"all {self.blocks:,} blocks are in use")
        block = self.free.pop()
        self.references[block] = 1
        return block

    def share(self, block: int) -> int:
        """The same block, with one more reference."""
        assert self.references[block] > 0, f"block {block} is free"
        self.references[block] += 1
        return block

    def give_back(self, block: int) -> None:
        """One reference less; the block is free when it was the last."""
        assert self.references[block] > 0, f"block {block} is free already"
        self.references[block] -= 1
        if not self.references[block]:
            self.free.append(block)

    def copied(self, block: int) -> int:
        """A block of one's own with the same rows; the reference to the old one is given back."""
        own = self.take()
        self.keys[own], self.values[own] = self.keys[block], self.values[block]
        self.give_back(block)
        return own

    def tensors(self) -> Iterable[torch.Tensor]:
        """The whole pool."""
        return self.keys, self.values

    @property
    def block_bytes(self) -> int:
        """Bytes of one block, keys and values."""
        return sum(t[0].numel() * t.element_size() for t in self.tensors())
