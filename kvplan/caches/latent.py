"""mla: one compressed latent per token, from which every head's key and value could be made, but never are.

Scores need q . (W_uk c), which is (W_uk^T q) . c: the up-projection is absorbed into the query, and
that of the values into the output, so attention runs on the latents themselves.

Bytes: (kv_lora_rank + qk_rope_head_dim) elements per token and layer, however many heads.

Worked: DeepSeek-V3 keeps 576 elements where its unabsorbed keys and values are 40,960.

Source: DeepSeek-V2 (arXiv:2405.04434), section 2.1.2.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch

from kvplan.caches.interface import FullCacheError


class Latent:
    """Latents [max_tokens, kv_lora_rank + qk_rope_head_dim].

    key_up: [heads, qk_nope_head_dim, kv_lora_rank]; value_up: [heads, v_head_dim, kv_lora_rank].
    """

    def __init__(
        self, key_up: torch.Tensor, value_up: torch.Tensor, rope: int, max_tokens: int, dtype: torch.dtype
    ) -> None:
        self.key_up, self.value_up, self.rope = key_up, value_up, rope
        self.rank, self.length = key_up.shape[-1], 0
        self.latents = torch.empty(max_tokens, self.rank + rope, dtype=dtype, device=key_up.device)

    def append(self, latents: torch.Tensor) -> None:
        """Write the next latents [tokens, kv_lora_rank + qk_rope_head_dim], their RoPE part already turned.

        Raises: FullCacheError past max_tokens.
        """
        end = self.length + latents.shape[0]
        if end > self.latents.shape[0]:
            raise FullCacheError(f"{end:,} rows, room for {self.latents.shape[0]:,}")
        self.latents[self.length : end] = latents
        self.length = end

    def attend(self, query: torch.Tensor) -> torch.Tensor:
        """The output [heads, v_head_dim] of a query [heads, qk_nope_head_dim + qk_rope_head_dim]."""
        precise = torch.promote_types(self.latents.dtype, torch.float32)
        plain, turned = query.to(precise).split((query.shape[-1] - self.rope, self.rope), dim=-1)
        absorbed = (plain[:, None] @ self.key_up.to(precise)).squeeze(1)
        held = self.latents[: self.length].to(precise)
        scores = torch.cat((absorbed, turned), dim=-1) @ held.T * query.shape[-1] ** -0.5
        mixed = torch.softmax(scores, dim=-1) @ held[:, : self.rank]
        return (self.value_up.to(precise) @ mixed[:, :, None]).squeeze(-1)

    def tensors(self) -> Iterable[torch.Tensor]:
        """The latents."""
        return (self.latents,)

    def bookkeeping(self) -> Iterable[torch.Tensor]:
        """Nothing."""
        return ()

    def used_bytes(self) -> int:
        """The filled rows."""
        return self.length * self.latents[0].numel() * self.latents.element_size()
