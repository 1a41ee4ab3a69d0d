"""Synthetic attention models: full, windowed, chunked, latent, indexed and compressed layers of many architectures."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llama_cpp_shapes import (
    EXPERTS,
    INDEX,
    INDEXER,
    INDEXER_TENSORS,
    LATENT,
    MLA,
    Dice,
    Synthetic,
    fill_the_width,
    spec_of,
)


def dense(architecture: str, **more: Any) -> Callable[[Dice], Synthetic]:
    """Every layer full; `more` metadata that changes nothing of the cache."""

    def made(dice: Dice) -> Synthetic:
        sorts = ("full",) * dice.layers
        return Synthetic(architecture, dice.base(len(sorts), **more), sorts, spec_of(sorts, {"full": dice.attention()}))

    return made


def odd_heads(dice: Dice) -> Synthetic:
    """Heads that blocks of 32 numbers do not divide, though two of them together may."""
    dice.head_dim = dice.of.choice((16, 48, 80))
    return dense("llama")(dice)


def windowed_throughout(architecture: str, *optional: str) -> Callable[[Dice], Synthetic]:
    """Every layer has a window, in the metadata too; the engine does not apply it."""

    def made(dice: Dice) -> Synthetic:
        fill_the_width(dice)
        sorts = ("local",) * dice.layers
        metadata = dice.base(len(sorts), **{"attention.sliding_window": dice.window})
        spec = spec_of(sorts, {"local": dice.attention(window=dice.window)})
        return Synthetic(architecture, metadata, sorts, spec, tuple(f"blk.local.{name}" for name in optional))

    return made


def sliding(architecture: str, every: int = 0, first: bool = False, **more: Any) -> Callable[[Dice], Synthetic]:
    """Windows and full layers; `every` where the architecture's own period says which layers are full, else a list."""

    def made(dice: Dice) -> Synthetic:
        if architecture in ("olmo2", "cohere2"):
            fill_the_width(dice)
        if every:
            count = every + dice.layers
            sorts = tuple("full" if i % every == (0 if first else every - 1) else "local" for i in range(count))
            pattern: dict[str, Any] = {}
        else:
            sorts = dice.pattern("local", "full")
            pattern = {"attention.sliding_window_pattern": [sort == "local" for sort in sorts]}
        metadata = dice.base(len(sorts), **{"attention.sliding_window": dice.window}, **pattern, **more)
        kinds = {"full": dice.attention(), "local": dice.attention(window=dice.window)}
        return Synthetic(architecture, metadata, sorts, spec_of(sorts, kinds))

    return made


def llama4(dice: Dice) -> Synthetic:
    """Chunks of 8,192, the engine's own constant, in three layers of four."""
    found = sliding("llama4", 4, **EXPERTS, interleave_moe_layer_step=2)(dice)
    kinds = {"full": dice.attention(), "local": dice.attention(chunk=8192)}
    metadata = {key: value for key, value in found.metadata.items() if key != "attention.sliding_window"}
    sorts = tuple(f"{sort}{(i + 1) % 2}" for i, sort in enumerate(found.sorts))
    return found.replace(metadata=metadata, sorts=sorts, spec=spec_of(found.sorts, kinds))


def mimo2(dice: Dice) -> Synthetic:
    """Values narrower than keys, and another number of KV heads under windows."""
    sorts = dice.pattern("local", "full")
    many = dice.kv_heads * 2
    metadata = dice.base(
        len(sorts),
        **{
            "attention.value_length": 32,
            "attention.head_count": 2 * dice.heads,
            "attention.head_count_kv": [many if sort == "local" else dice.kv_heads for sort in sorts],
            "attention.sliding_window": dice.window,
            "attention.sliding_window_pattern": [sort == "local" for sort in sorts],
        },
        **EXPERTS,
    )
    kinds = {
        "full": dice.attention(heads=2 * dice.heads, v_head_dim=32),
        "local": dice.attention(heads=2 * dice.heads, kv_heads=many, v_head_dim=32, window=dice.window),
    }
    return Synthetic("mimo2", metadata, sorts, spec_of(sorts, kinds))


def gemma4(dice: Dice) -> Synthetic:
    """Heads of two widths, and last layers that share the cache of earlier ones."""
    owned = (*dice.pattern("local", "full"), "local", "full")
    sorts = (*owned, *(("local", "full") * dice.of.randint(0, 2)))
    metadata = dice.base(
        len(sorts),
        **{
            "attention.key_length_swa": 64,
            "attention.value_length_swa": 64,
            "attention.sliding_window": dice.window,
            "attention.sliding_window_pattern": [sort == "local" for sort in sorts],
            "attention.shared_kv_layers": len(sorts) - len(owned),
            "embedding_length_per_layer_input": 0,
            "rope.dimension_count_swa": 64,
        },
    )
    kinds = {
        "full": dice.attention(),
        "local": dice.attention(head_dim=64, window=dice.window),
        "shared": {"type": "shared"},
    }
    held = (*owned, *("shared" for _ in range(len(sorts) - len(owned))))
    return Synthetic("gemma4", metadata, sorts, spec_of(held, kinds))


def latent(architecture: str, dense_layers: bool = True, **more: Any) -> Callable[[Dice], Synthetic]:
    """One latent in every layer."""

    def made(dice: Dice) -> Synthetic:
        sorts = ("mla",) * dice.layers
        lead = {"leading_dense_block_count": dice.layers} if dense_layers else {}
        metadata = dice.base(len(sorts), **LATENT, **{**EXPERTS, **lead}, **more)
        metadata |= {"attention.head_count": 2, "attention.head_count_kv": 1}
        kind: Any = [MLA, INDEX] if INDEXER.items() <= more.items() else MLA
        optional = tuple(f"blk.mla.indexer.{name}" for name in INDEXER_TENSORS) if architecture == "glm-dsa" else ()
        return Synthetic(architecture, metadata, sorts, spec_of(sorts, {"mla": kind}), optional)

    return made


def minimax_m3(dice: Dice) -> Synthetic:
    """Keys and values everywhere, an index after the leading dense layers."""
    lead = dice.of.randint(1, 2)
    sorts = ("full",) * lead + ("indexed",) * dice.layers
    metadata = dice.base(len(sorts), **INDEXER, **{**EXPERTS, "leading_dense_block_count": lead})
    metadata |= {"attention.indexer.block_size": 64, "attention.indexer.local_blocks": 1}
    metadata |= {"attention.indexer.head_count": dice.kv_heads, "rope.dimension_count": 32}
    kinds = {"full": dice.attention(), "indexed": [dice.attention(), INDEX]}
    return Synthetic("minimax-m3", metadata, sorts, spec_of(sorts, kinds))


def deepseek4(dice: Dice) -> Synthetic:
    """Windows of entries, and compressed entries per 4 and 128 tokens."""
    sorts = ("window", *dice.pattern("csa", "hca"))
    entry, ratios = 64, {"window": 0, "csa": 4, "hca": 128}
    metadata = dice.base(
        len(sorts),
        **{
            **EXPERTS,
            **INDEXER,
            "expert_gating_func": 4,
            "expert_weights_norm": True,
            "attention.head_count": 2,
            "attention.head_count_kv": 1,
            "attention.key_length": entry,
            "attention.value_length": entry,
            "attention.q_lora_rank": 32,
            "attention.sliding_window": dice.window,
            "attention.output_group_count": 1,
            "attention.output_lora_rank": 32,
            "attention.compress_rope_freq_base": 10000.0,
            "attention.compress_ratios": [ratios[sort] for sort in sorts],
            "hyper_connection.count": 4,
            "hyper_connection.sinkhorn_iterations": 2,
            "hyper_connection.epsilon": 1e-6,
            "hash_layer_count": 0,
            "swiglu_clamp_exp": [1.0] * len(sorts),
            "rope.dimension_count": 32,
        },
    )
    kind = {"type": "compressed", "entry_dim": entry, "rope_dim": 32, "window": dice.window}
    kinds = {
        "window": kind,
        "csa": [{**kind, "ratio": 4}, {**INDEX, "ratio": 4}],
        "hca": {**kind, "ratio": 128},
    }
    return Synthetic("deepseek4", metadata, sorts, spec_of(sorts, kinds))
