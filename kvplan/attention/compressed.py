"""Compressed attention (DeepSeek-V4): a window of whole entries plus one entry per `ratio` tokens.

Rows per layer: min(n, window) window entries and, where the layer compresses, floor(n / ratio)
compressed ones. K and V are the same entry, stored once and replicated under TP.

Worked: in `fp8_ds_mla` an entry of 448 + 64 takes 448 + 128 + 7 + 1 = 584 bytes, so a layer with
ratio 4 grows by 146 bytes per token.

`rope_dim` is the part of an entry that packed formats keep in 16 bits; it is 0 where they do not
(DeepSeek-V4.1, 512 fp8 values and 16 scales: 528 bytes).

Source: DeepSeek-V4 report, section 2.3; vLLM 0.33.0 source for the entry's layout.

>>> [(t.name, t.row) for t in Compressed(type="compressed", entry_dim=512, rope_dim=64, window=128, ratio=4).cache_tensors()]
[('window_entry', (512,)), ('entry', (512,))]
"""

from __future__ import annotations

from typing import Literal

from kvplan.attention.fields import Fields, Rows, Width, WidthOrNone
from kvplan.growth import PerTokens, Window
from kvplan.tensor import CacheTensor, Role


class Compressed(Fields):
    """A layer with a window of entries and, if `ratio` is given, compressed entries."""

    type: Literal["compressed"]
    entry_dim: Width
    rope_dim: WidthOrNone
    window: Rows
    ratio: Rows | None = None
    heads: int | None = None

    def cache_tensors(self) -> tuple[CacheTensor, ...]:
        """Window entries [entry_dim] and compressed entries [entry_dim]."""
        row = (self.entry_dim,)
        tensors = [CacheTensor("window_entry", Role.ENTRY, row, Window(self.window), shards=1, rope=self.rope_dim)]
        if self.ratio is not None:
            tensors.append(CacheTensor("entry", Role.ENTRY, row, PerTokens(self.ratio), shards=1, rope=self.rope_dim))
        return tuple(tensors)

    def pair_flops(self) -> int:
        """2 x heads x 2 x entry_dim per entry met; 0 where the spec does not give the query heads."""
        return 4 * (self.heads or 0) * self.entry_dim


KIND = Compressed
