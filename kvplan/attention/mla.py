"""MLA: one compressed latent per token is both key and value; there is no factor 2.

Bytes per token and layer: (kv_lora_rank + qk_rope_head_dim) x element bytes, the same on every
tensor-parallel rank, since every head reads the whole latent.

Worked: DeepSeek-V3, 61 layers of 512 + 64, 16 bit: 61 x 576 x 2 = 70,272 bytes per token,
as much as GQA with 2.25 groups of head width 128.

Source: DeepSeek-V2 (arXiv:2405.04434), Table 1.

>>> [(t.row, t.shards) for t in Mla(type="mla", heads=128, kv_lora_rank=512, qk_rope_head_dim=64).cache_tensors()]
[((576,), 1)]
"""

from __future__ import annotations

from typing import Literal

from kvplan.attention.fields import Fields, Heads, Rows, Width, WidthOrNone
from kvplan.attention.heads import row_law
from kvplan.tensor import CacheTensor, Role


class Mla(Fields):
    """Multi-head latent attention; qk_rope_head_dim may be 0 where keys carry no positions."""

    type: Literal["mla"]
    heads: Heads
    kv_lora_rank: Width
    qk_rope_head_dim: WidthOrNone
    window: Rows | None = None

    def cache_tensors(self) -> tuple[CacheTensor, ...]:
        """One latent row [kv_lora_rank + qk_rope_head_dim] per token kept, replicated under TP."""
        width = self.kv_lora_rank + self.qk_rope_head_dim
        law = row_law(self.window)
        return (CacheTensor("latent", Role.LATENT, (width,), law, shards=1, rope=self.qk_rope_head_dim),)

    def pair_flops(self) -> int:
        """Absorbed form: each head scores the whole latent and sums its compressed part."""
        return 2 * self.heads * (2 * self.kv_lora_rank + self.qk_rope_head_dim)


KIND = Mla
