"""What tiny models are made of: attentions as a spec writes them, and settings as the library's configurations do."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from kvplan.spec import ModelSpec, parse_spec

Attention = dict[str, Any] | list[dict[str, Any]]
WINDOW = 16
DYNAMIC, STATIC = ("dynamic",), ("dynamic", "static")


@dataclass(frozen=True)
class Tiny:
    """One architecture: the library's configuration class and settings, and what kvplan says each layer keeps.

    caches: the cache classes the library accepts for it. full: every layer is full attention.
    feed: how a forward is called. model: the class, None for the library's own choice of a causal model.
    """

    name: str
    config: str
    settings: dict[str, Any]
    layers: tuple[Attention, ...]
    caches: tuple[str, ...] = STATIC
    full: bool = False
    feed: str = "tokens"
    encoder_tokens: int | None = None
    model: str | None = None
    built: dict[str, Any] = field(default_factory=dict, compare=False, repr=False)

    def spec(self, dtype: str = "bf16") -> ModelSpec:
        """The kvplan spec."""
        groups = [{"count": 1, "attention": attention} for attention in self.layers]
        values: dict[str, Any] = {"name": f"tiny-{self.name}", "dtype": dtype, "layers": groups}
        if self.encoder_tokens:
            values["encoder_tokens"] = self.encoder_tokens
        return parse_spec(values, self.name)


def gqa(kv_heads: int = 2, head_dim: int = 8, heads: int = 4, **more: int) -> dict[str, Any]:
    kind = "mha" if kv_heads == heads else "mqa" if kv_heads == 1 else "gqa"
    return {"type": kind, "heads": heads, "kv_heads": kv_heads, "head_dim": head_dim, **more}


GLOBAL, MHA, MQA = gqa(), gqa(4), gqa(1)
LOCAL, CHUNKED = gqa(window=WINDOW), gqa(chunk=WINDOW)
LATENT = {"type": "mla", "heads": 4, "kv_lora_rank": 16, "qk_rope_head_dim": 8}
INDEX = {"type": "index", "head_dim": 16}
CROSS, CROSS_MHA = ({"type": "cross", "heads": 4, "kv_heads": n, "head_dim": 8} for n in (2, 4))
SHARED, NOTHING = {"type": "shared"}, {"type": "none"}
MAMBA1 = {"type": "mamba1", "d_inner": 64, "d_state": 4, "conv_kernel": 4}
MAMBA2 = {"type": "mamba2", "heads": 4, "head_dim": 16, "groups": 2, "d_state": 8, "conv_kernel": 4}
DELTA = {"type": "gated_deltanet", "k_heads": 2, "v_heads": 4, "k_head_dim": 8, "v_head_dim": 16, "conv_kernel": 4}
WIDE_DELTA = {**DELTA, "k_heads": 4}
KDA = {"type": "kda", "heads": 4, "head_dim": 8, "conv_kernel": 4}
LIGHTNING = {"type": "lightning", "heads": 4, "head_dim": 8}
MLSTM = {"type": "mlstm", "heads": 4, "qk_head_dim": 16, "v_head_dim": 32}
RG_LRU = {"type": "rg_lru", "width": 32, "conv_kernel": 4}
SHORT_CONV = {"type": "short_conv", "dim": 32, "conv_kernel": 3}
ENTRY = {"type": "compressed", "entry_dim": 16, "rope_dim": 8, "window": WINDOW}
HEAVY = {**ENTRY, "ratio": 8}
SPARSE: Attention = [{**ENTRY, "ratio": 4}, {"type": "index", "head_dim": 8, "ratio": 4}]

SLIDES, FULL, LINEAR = "sliding_attention", "full_attention", "linear_attention"
TOKENS = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}


def base(layers: int = 2, **more: Any) -> dict[str, Any]:
    """Settings that most configurations share."""
    sizes = {"hidden_size": 32, "intermediate_size": 32, "num_hidden_layers": layers, "num_attention_heads": 4}
    return {**sizes, "max_position_embeddings": 512, **more}


def grouped(layers: int = 2, **more: Any) -> dict[str, Any]:
    """The same with two KV heads."""
    return base(layers, num_key_value_heads=2, **more)


MOE = {"moe_intermediate_size": 8, "num_experts_per_tok": 1, "n_routed_experts": 2, "n_shared_experts": 1}
EXPERTS = {"num_local_experts": 2, "num_experts_per_tok": 1}
RANKS = {"kv_lora_rank": 16, "q_lora_rank": 16, "qk_rope_head_dim": 8, "qk_nope_head_dim": 8, "v_head_dim": 8}
ROUTED = {**RANKS, "n_group": 1, "topk_group": 1, "num_key_value_heads": 4}
INDEXER = {"index_n_heads": 2, "index_head_dim": 16, "index_topk": 8}
MAMBA2_SETTINGS = {
    "mamba_n_heads": 4, "mamba_d_head": 16, "mamba_n_groups": 2, "mamba_d_state": 8, "mamba_d_conv": 4,
    "mamba_chunk_size": 8,
}  # fmt: skip
DELTA_SETTINGS = {
    "linear_conv_kernel_dim": 4, "linear_key_head_dim": 8, "linear_value_head_dim": 16, "linear_num_key_heads": 2,
    "linear_num_value_heads": 4, "layer_types": [LINEAR, FULL],
}  # fmt: skip
GEMMA_SHARED = {
    "num_kv_shared_layers": 2, "vocab_size_per_layer_input": 64, "hidden_size_per_layer_input": 8,
    "layer_types": [SLIDES, FULL] * 3,
}  # fmt: skip
T5GEMMA_STACK = grouped(head_dim=8, sliding_window=WINDOW, vocab_size=64)
