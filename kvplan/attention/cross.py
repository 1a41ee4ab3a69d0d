"""Cross-attention: keys and values over the encoder's output, written once per sequence.

Bytes per sequence and layer: encoder tokens x kv_heads x (head_dim + v_head_dim) x element bytes,
whatever the context. The length comes from `encoder_tokens` in the spec or `--encoder-tokens`.

Worked: Whisper-large-v3, 32 layers, 20 heads of 64 over 1,500 frames, 16 bit:
32 x 1500 x 2 x 20 x 64 x 2 = 245,760,000 bytes per sequence.

Source: Radford et al. 2022 (arXiv:2212.04356): 1,500 frames for 30 s of audio.

>>> sum(t.elements for t in Cross(type="cross", heads=20, kv_heads=20, head_dim=64).cache_tensors()) * 32 * 1500 * 2
245760000
"""

from __future__ import annotations

from typing import Literal

from kvplan.attention.fields import Fields, Heads, Width
from kvplan.growth import PerEncoderToken
from kvplan.tensor import CacheTensor, Role


class Cross(Fields):
    """Attention of a decoder layer over encoder tokens (audio frames, image patches, source text)."""

    type: Literal["cross"]
    heads: Heads
    kv_heads: Heads
    head_dim: Width
    v_head_dim: Width | None = None

    def cache_tensors(self) -> tuple[CacheTensor, ...]:
        """K [kv_heads, head_dim] and V [kv_heads, v_head_dim] per encoder token."""
        v_width = self.v_head_dim or self.head_dim
        return (
            CacheTensor("cross_k", Role.K, (self.kv_heads, self.head_dim), PerEncoderToken(), self.kv_heads),
            CacheTensor("cross_v", Role.V, (self.kv_heads, v_width), PerEncoderToken(), self.kv_heads),
        )

    def pair_flops(self) -> int:
        """Counted per context pair; a decoder token meets each encoder token, not each context token: 0."""
        return 0


KIND = Cross
