"""What synthetic models for the real llama.cpp are made of: random shapes, metadata that every architecture reads."""

from __future__ import annotations

import random
from typing import Any

from kvplan.record import Record

WIDTH, INNER = 64, 32
EXPERTS = {
    "expert_count": 2,
    "expert_used_count": 1,
    "expert_feed_forward_length": 32,
    "expert_shared_count": 1,
    "expert_shared_feed_forward_length": 32,
    "expert_gating_func": 1,
    "expert_weights_scale": 1.0,
    "leading_dense_block_count": 0,
}


class Synthetic(Record):
    """A model to write: `sorts` names the sort of each layer, `optional` tensors that only loading can do without.

    alone: this build crashes with more than one sequence, after its caches are made.
    """

    architecture: str
    metadata: dict[str, Any]
    sorts: tuple[str, ...]
    spec: dict[str, Any]
    optional: tuple[str, ...] = ()
    alone: bool = False


class Dice:
    """Random shapes of one model."""

    def __init__(self, seed: object) -> None:
        self.of = random.Random(f"{seed}")
        self.kv_heads = self.of.choice((1, 2, 3, 4))
        self.heads = self.kv_heads * self.of.choice((1, 2))
        self.head_dim = self.of.choice((32, 64, 96, 128))
        self.layers = self.of.randint(2, 7)
        self.window = self.of.choice((1, 16, 100, 255, 256, 300, 512, 1000, 1024, 2047))

    def pattern(self, *words: str) -> tuple[str, ...]:
        """A random sort for each layer, every one of `words` at least once."""
        layers = [*words, *(self.of.choice(words) for _ in range(self.layers))]
        self.of.shuffle(layers)
        return tuple(layers)

    def base(self, layers: int, **more: Any) -> dict[str, Any]:
        """Metadata that every architecture reads."""
        return {
            "block_count": layers,
            "context_length": 4096,
            "embedding_length": WIDTH,
            "feed_forward_length": INNER,
            "attention.head_count": self.heads,
            "attention.head_count_kv": self.kv_heads,
            "attention.key_length": self.head_dim,
            "attention.value_length": self.head_dim,
            "attention.layer_norm_rms_epsilon": 1e-5,
            "attention.layer_norm_epsilon": 1e-5,
            "rope.dimension_count": self.head_dim,
            **more,
        }

    def attention(self, **more: Any) -> dict[str, Any]:
        """The spec of a layer with keys and values."""
        heads = {"heads": self.heads, "kv_heads": self.kv_heads, "head_dim": self.head_dim}
        return {"type": "gqa", **heads, **more}


def spec_of(sorts: tuple[str, ...], kinds: dict[str, Any]) -> dict[str, Any]:
    """The layers of a spec, each of its sort."""
    return {"layers": [{"count": 1, "attention": kinds[sort]} for sort in sorts]}


def fill_the_width(dice: Dice) -> None:
    """Heads that together are as wide as the model, which some architectures take for granted."""
    dice.heads, dice.head_dim, dice.kv_heads = 2, WIDTH // 2, dice.of.choice((1, 2))


LORA = {
    "attention.q_lora_rank": 32,
    "attention.kv_lora_rank": 96,
    "attention.key_length_mla": 64,
    "attention.value_length_mla": 32,
}
LATENT = {"attention.key_length": 128, "attention.value_length": 96, "rope.dimension_count": 32, **LORA}
MLA = {"type": "mla", "heads": 2, "kv_lora_rank": 96, "qk_rope_head_dim": 32}
INDEXER = {"attention.indexer.head_count": 2, "attention.indexer.key_length": 64, "attention.indexer.top_k": 64}
INDEXER_TENSORS = ("k_norm.weight", "k_norm.bias", "proj.weight", "attn_k.weight", "attn_q_b.weight")
INDEX = {"type": "index", "head_dim": 64}
