"""Sparse-attention index: one small key per token (or per `ratio` tokens), beside the cache it selects from.

Selecting reads less and stores more: no row is evicted, and the index adds its own bytes,
head_dim values per entry in `--index-dtype` (default fp8 with a scale: 132 bytes for 128 values).

Worked: DeepSeek-V3.2, 61 layers: 61 x 132 = 8,052 bytes per token beside the latent.

Source: DeepSeek-V3.2 inference code; FlashMLA README; vLLM 0.33.0.

>>> [(t.row, t.shards) for t in Index(type="index", head_dim=128).cache_tensors()]
[((128,), 1)]
"""

from __future__ import annotations

from typing import Literal

from kvplan.attention.fields import Fields, Rows, Width
from kvplan.growth import PerToken, PerTokens
from kvplan.tensor import CacheTensor, Role


class Index(Fields):
    """Indexer keys of a sparse-attention layer."""

    type: Literal["index"]
    head_dim: Width
    ratio: Rows = 1

    def cache_tensors(self) -> tuple[CacheTensor, ...]:
        """One key [head_dim] per `ratio` whole tokens, replicated under TP."""
        law = PerToken() if self.ratio == 1 else PerTokens(self.ratio)
        return (CacheTensor("index", Role.INDEX, (self.head_dim,), law, shards=1),)

    def pair_flops(self) -> int:
        """Scoring the index is the indexer's work, not the attention's: 0."""
        return 0


KIND = Index
