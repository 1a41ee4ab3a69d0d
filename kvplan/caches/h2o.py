"""h2o: the rows that were attended to most, and the newest, half and half, chosen per KV head.

Every attention adds its weights, summed over the query heads of a KV head, to the running score of
each row. When there are more rows than the policy keeps, the row of the smallest score goes that is
not among the newest half.

Bytes: as many rows as the policy's law says; scores and positions lie beside them.

Worked: a budget of 20 % keeps 200 of 1,000 rows, 100 heavy hitters and the newest 100.

Source: Zhang et al. 2023 (arXiv:2306.14048), Algorithm 1.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch

from kvplan.caches.attention import mixed, weights
from kvplan.caches.interface import Shape, tensor_bytes
from kvplan.growth import RowLaw, rows


class H2o:
    """Keys and values [kv_heads, rows, width], and each row's score and token.

    kept: the law of the rows that stay after n tokens. prompt: nothing goes before so many tokens.
    """

    def __init__(self, shape: Shape, kept: RowLaw, dtype: torch.dtype, prompt: int = 1) -> None:
        self.kept, self.prompt, self.seen = kept, prompt, 0
        self.keys = torch.empty(shape.kv_heads, 0, shape.head_dim, dtype=dtype)
        self.values = torch.empty(shape.kv_heads, 0, shape.v_head_dim, dtype=dtype)
        self.scores = torch.empty(shape.kv_heads, 0)
        self.tokens = torch.empty(shape.kv_heads, 0, dtype=torch.int32)

    def append(self, keys: torch.Tensor, values: torch.Tensor) -> None:
        """Take the next rows, unscored; what has to go goes once they have been attended to."""
        heads, new = keys.shape[:2]
        numbers = torch.arange(self.seen, self.seen + new, dtype=torch.int32).expand(heads, new)
        self.keys = torch.cat((self.keys, keys.to(self.keys.dtype)), dim=1)
        self.values = torch.cat((self.values, values.to(self.values.dtype)), dim=1)
        self.scores = torch.cat((self.scores, torch.zeros(heads, new)), dim=1)
        self.tokens = torch.cat((self.tokens, numbers), dim=1)
        self.seen += new

    def attend(self, query: torch.Tensor) -> torch.Tensor:
        """Over the rows held; then score them and let go of those past the budget."""
        shares = weights(query, self.keys)
        output = mixed(shares, self.values)
        self.scores += shares.sum(dim=1)
        if self.seen >= self.prompt:
            self._evict(int(rows(self.kept, self.seen)))
        return output

    def _evict(self, budget: int) -> None:
        """Keep the newest half of the budget, and of the rest the highest scores; the earlier of equals."""
        held = self.keys.shape[1]
        if held <= budget:
            return
        newest = budget - budget // 2
        older = self.scores[:, : held - newest]
        heavy = older.sort(dim=1, descending=True, stable=True).indices[:, : budget // 2].sort(dim=1).values
        recent = torch.arange(held - newest, held).expand(heavy.shape[0], newest)
        stay = torch.cat((heavy, recent), dim=1)
        self.keys = self.keys.gather(1, stay[:, :, None].expand(-1, -1, self.keys.shape[2]))
        self.values = self.values.gather(1, stay[:, :, None].expand(-1, -1, self.values.shape[2]))
        self.scores, self.tokens = self.scores.gather(1, stay), self.tokens.gather(1, stay)

    def tensors(self) -> Iterable[torch.Tensor]:
        """Keys and values."""
        return self.keys, self.values

    def bookkeeping(self) -> Iterable[torch.Tensor]:
        """Scores and positions."""
        return self.scores, self.tokens

    def used_bytes(self) -> int:
        """Everything that is held."""
        return tensor_bytes(self.tensors())
