"""paged: rows in blocks of a pool, found through a block table; allocated on demand, shared, copied on write.

Bytes: ceil(n / block_size) blocks of one sequence; at most block_size - 1 rows are waste. Sequences
that fork share every block; the first to write into a shared one copies it. A sequence that has to
make way is swapped out to other memory, or dropped and computed again.

Worked: 3 samples of a prompt of 100 tokens in blocks of 16 hold 7 blocks until they write; each then
copies the seventh, but for the last, who has it alone: 9 blocks, where 21 would be held unshared.

Source: Kwon et al. 2023 (arXiv:2309.06180), sections 4.1 to 4.5.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch

from kvplan.caches.attention import attention
from kvplan.caches.block_pool import BlockPool


class Paged:
    """One sequence in a pool: its block table, and how many rows it has."""

    def __init__(self, pool: BlockPool) -> None:
        self.pool, self.table, self.length = pool, list[int](), 0
        self.swapped: tuple[torch.Tensor, torch.Tensor] | None = None

    def append(self, keys: torch.Tensor, values: torch.Tensor) -> None:
        """Write the next rows, block by block; nothing is changed where the pool has no room for all of them.

        Raises: FullCacheError.
        """
        end, size = self.length + keys.shape[1], self.pool.block_size
        kept = list(self.table)
        try:
            if self.length % size and self.length < end:
                self._own_last()
            while len(self.table) * size < end:
                self.table.append(self.pool.take())
        except Exception:
            for block in self.table[len(kept) :]:
                self.pool.give_back(block)
            del self.table[len(kept) :]
            raise
        places = torch.arange(self.length, end)
        blocks = torch.tensor(self.table, dtype=torch.long)[places // size]
        self.pool.keys[blocks, places % size] = keys.transpose(0, 1).to(self.pool.keys.dtype)
        self.pool.values[blocks, places % size] = values.transpose(0, 1).to(self.pool.values.dtype)
        self.length = end

    def _own_last(self) -> None:
        """Copy on write: the block that is half full must be this sequence's alone."""
        if self.pool.references[self.table[-1]] > 1:
            self.table[-1] = self.pool.copied(self.table[-1])

    def attend(self, query: torch.Tensor) -> torch.Tensor:
        """Over the rows gathered through the block table."""
        return attention(query, *self.rows())

    def rows(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Keys and values [kv_heads, n, width], gathered."""
        table = torch.tensor(self.table, dtype=torch.long)
        keys, values = (t[table].flatten(0, 1)[: self.length].transpose(0, 1) for t in self.pool.tensors())
        return keys, values

    def fork(self) -> Paged:
        """A sequence that continues this one: the same rows in the same blocks."""
        child = Paged(self.pool)
        child.table, child.length = [self.pool.share(block) for block in self.table], self.length
        return child

    def release(self) -> None:
        """Give every block back; the sequence is empty again."""
        for block in self.table:
            self.pool.give_back(block)
        self.table, self.length = [], 0

    def swap_out(self) -> None:
        """Preempted: the rows move to memory outside the pool, all or nothing."""
        keys, values = self.rows()
        self.swapped = keys.clone(), values.clone()
        self.release()

    def swap_in(self) -> None:
        """Resumed: the rows come back, into blocks of the sequence's own.

        Raises: FullCacheError; the rows then stay outside.
        """
        assert self.swapped is not None
        self.append(*self.swapped)
        self.swapped = None

    def tensors(self) -> Iterable[torch.Tensor]:
        """The pool."""
        return self.pool.tensors()

    def bookkeeping(self) -> Iterable[torch.Tensor]:
        """The block table, 4 bytes a block, as engines hand it to their kernels."""
        return (torch.tensor(self.table, dtype=torch.int32),)

    def held_bytes(self) -> int:
        """Bytes of the blocks in the table."""
        return len(self.table) * self.pool.block_bytes

    def used_bytes(self) -> int:
        """The rows in use, of this sequence alone."""
        return self.length * self.pool.block_bytes // self.pool.block_size
