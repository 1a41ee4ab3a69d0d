"""Synthetic models for the real llama.cpp: random shapes of many architectures, each with the spec that describes it.

The metadata is what a converter writes; the spec says the same in kvplan's words. Weights are as small as an
architecture lets them be, since only the caches are weighed.
"""

from __future__ import annotations

import random
from collections.abc import Callable
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


def mamba(dice: Dice) -> Synthetic:
    """Mamba-1 in every layer."""
    state, kernel = dice.of.choice((8, 16, 64)), dice.of.choice((2, 4))
    sorts = ("mamba",) * dice.layers
    kind = {"type": "mamba1", "d_inner": 2 * WIDTH, "d_state": state, "conv_kernel": kernel}
    metadata = dice.base(len(sorts), **ssm(kernel, 2 * WIDTH, state, 4))
    return Synthetic("mamba", metadata, sorts, spec_of(sorts, {"mamba": kind}))


def ssm(kernel: int, inner: int, state: int, rank: int, groups: int | None = None) -> dict[str, int]:
    """Metadata of a state-space layer."""
    found = {"ssm.conv_kernel": kernel, "ssm.inner_size": inner, "ssm.state_size": state, "ssm.time_step_rank": rank}
    return found if groups is None else {**found, "ssm.group_count": groups}


def mamba2_of(dice: Dice) -> tuple[dict[str, Any], dict[str, int]]:
    """A Mamba-2 layer and its metadata: heads of the rank's number over twice the width."""
    heads, groups, state, kernel = 4, dice.of.choice((1, 2)), dice.of.choice((16, 32)), dice.of.choice((2, 4))
    kind = {
        "type": "mamba2", "heads": heads, "head_dim": 2 * WIDTH // heads, "groups": groups, "d_state": state,
        "conv_kernel": kernel,
    }  # fmt: skip
    return kind, ssm(kernel, 2 * WIDTH, state, heads, groups)


def mamba2(dice: Dice) -> Synthetic:
    """Mamba-2 in every layer."""
    kind, metadata = mamba2_of(dice)
    sorts = ("mamba",) * dice.layers
    return Synthetic("mamba2", dice.base(len(sorts), **metadata), sorts, spec_of(sorts, {"mamba": kind}))


def rwkv7(dice: Dice) -> Synthetic:
    """RWKV-7 in every layer."""
    head = dice.of.choice((16, 32, 64))
    ranks = {f"attention.{name}_lora_rank": 8 for name in ("decay", "iclr", "value_residual_mix", "gate")}
    sorts = ("first", *("time",) * dice.layers)
    metadata = dice.base(
        len(sorts), **ranks, **{"wkv.head_size": head, "attention.head_count": 0, "attention.head_count_kv": 0}
    )
    kind = {"type": "rwkv7", "heads": WIDTH // head, "head_dim": head}
    return Synthetic("rwkv7", metadata, sorts, spec_of(sorts, {"first": kind, "time": kind}))


def hybrid(architecture: str, of: str, **more: Any) -> Callable[[Dice], Synthetic]:
    """Attention in some layers and states in others, told apart by their KV heads."""

    def made(dice: Dice) -> Synthetic:
        fill_the_width(dice)
        sorts = dice.pattern("full", "state")
        if of == "mamba1":
            state, kernel = dice.of.choice((8, 16)), dice.of.choice((2, 4))
            kind: dict[str, Any] = {"type": "mamba1", "d_inner": 2 * WIDTH, "d_state": state, "conv_kernel": kernel}
            extra: dict[str, Any] = ssm(kernel, 2 * WIDTH, state, 4)
        elif of == "mamba2":
            kind, extra = mamba2_of(dice)
        else:
            kernel = dice.of.choice((2, 3, 4))
            kind, extra = {"type": "short_conv", "dim": WIDTH, "conv_kernel": kernel}, {"shortconv.l_cache": kernel}
        heads = [dice.kv_heads if sort == "full" else 0 for sort in sorts]
        metadata = dice.base(len(sorts), **extra, **{"attention.head_count_kv": heads}, **more)
        spec = spec_of(sorts, {"full": dice.attention(), "state": kind})
        return Synthetic(architecture, metadata, sorts, spec, CONV_BIAS if of == "mamba2" else ())

    return made


CONV_BIAS = ("blk.state.ssm_conv1d.bias",)


def nemotron_h(dice: Dice) -> Synthetic:
    """Mamba-2, attention and plain MLP layers."""
    sorts = dice.pattern("full", "state", "mlp")
    kind, extra = mamba2_of(dice)
    metadata = dice.base(
        len(sorts),
        **extra,
        **{
            "attention.head_count_kv": [dice.kv_heads if sort == "full" else 0 for sort in sorts],
            "feed_forward_length": [INNER if sort == "mlp" else 0 for sort in sorts],
        },
    )
    kinds = {"full": dice.attention(), "state": kind, "mlp": {"type": "none"}}
    return Synthetic("nemotron_h", metadata, sorts, spec_of(sorts, kinds), CONV_BIAS)


def falcon_h1(dice: Dice) -> Synthetic:
    """Attention and Mamba-2 side by side in every layer."""
    kind, extra = mamba2_of(dice)
    sorts = ("both",) * dice.layers
    spec = spec_of(sorts, {"both": [dice.attention(), kind]})
    return Synthetic("falcon-h1", dice.base(len(sorts), **extra), sorts, spec, ("blk.both.ssm_conv1d.bias",))


def gated_deltanet(architecture: str, **more: Any) -> Callable[[Dice], Synthetic]:
    """Gated DeltaNet and attention."""

    def made(dice: Dice) -> Synthetic:
        sorts = dice.pattern("full", "state")
        k_heads, kernel = dice.of.choice((1, 2)), dice.of.choice((2, 4))
        v_heads, width = k_heads * 2, dice.of.choice((16, 32))
        kind = {
            "type": "gated_deltanet", "k_heads": k_heads, "v_heads": v_heads, "k_head_dim": width, "v_head_dim": width,
            "conv_kernel": kernel,
        }  # fmt: skip
        metadata = dice.base(
            len(sorts),
            **ssm(kernel, v_heads * width, width, v_heads, k_heads),
            **{"attention.recurrent_layers": [sort == "state" for sort in sorts]},
            **more,
        )
        spec = spec_of(sorts, {"full": dice.attention(), "state": kind})
        return Synthetic(
            architecture, metadata, sorts, spec, ("blk.state.attn_qkv.weight", "blk.state.attn_gate.weight")
        )

    return made


def kda(architecture: str, indexed: bool = False, **more: Any) -> Callable[[Dice], Synthetic]:
    """KDA and latents, in some with an index whose keys are pooled."""

    def made(dice: Dice) -> Synthetic:
        sorts = dice.pattern("mla", "state")
        width, kernel = dice.of.choice((16, 32)), dice.of.choice((2, 4))
        metadata = dice.base(len(sorts), **LATENT, **{**EXPERTS, "leading_dense_block_count": len(sorts)}, **more)
        metadata |= {"ssm.conv_kernel": kernel, "kda.head_dim": width, "attention.head_count": 2}
        metadata |= {"attention.head_count_kv": [1 if sort == "mla" else 0 for sort in sorts]}
        if indexed:  # this latent carries no positions
            metadata |= {"rope.dimension_count": 0, "attention.key_length": 96}
        kinds = {
            "mla": [{**MLA, "qk_rope_head_dim": 0}, {**INDEX, "ratio": 4}] if indexed else MLA,
            "state": {"type": "kda", "heads": 2, "head_dim": width, "conv_kernel": kernel},
        }
        return Synthetic(architecture, metadata, sorts, spec_of(sorts, kinds))

    return made


def minimax_01(dice: Dice) -> Synthetic:
    """Lightning attention and softmax attention."""
    sorts = dice.pattern("full", "state")
    dice.kv_heads = dice.heads
    metadata = dice.base(
        len(sorts),
        **{"attention.recurrent_layers": [sort == "state" for sort in sorts], "residual_scale": 1.0},
        **EXPERTS,
    )
    kinds = {"full": dice.attention(), "state": {"type": "lightning", "heads": dice.heads, "head_dim": dice.head_dim}}
    return Synthetic("minimax-01", metadata, sorts, spec_of(sorts, kinds), alone=True)


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


MODELS: dict[str, Callable[[Dice], Synthetic]] = {
    "llama": dense("llama"),
    "qwen3": dense("qwen3"),
    "odd-heads": odd_heads,
    "mistral": windowed_throughout("llama"),
    "phi3": windowed_throughout("phi3", "attn_q.weight", "attn_k.weight", "attn_v.weight"),
    "starcoder2": windowed_throughout("starcoder2"),
    "gemma2": sliding("gemma2", 2),
    "gemma3": sliding("gemma3"),
    "gemma3-period": sliding("gemma3", 6),
    "gpt-oss": sliding("gpt-oss", **EXPERTS),
    "cohere2": sliding("cohere2", 4, logit_scale=1.0),
    "olmo3": sliding("olmo2"),
    "granite-swa": sliding("granite_swa", logit_scale=1.0),
    "afmoe": sliding("afmoe", 4, **EXPERTS),
    "plamo3": sliding("plamo3", 8),
    "step35": sliding("step35", **EXPERTS),
    "llama4": llama4,
    "mimo2": mimo2,
    "gemma4": gemma4,
    "deepseek2": latent("deepseek2"),
    "deepseek32": latent("deepseek32", **INDEXER),
    "glm-dsa": latent("glm-dsa", **INDEXER),
    "minimax-m3": minimax_m3,
    "mamba": mamba,
    "mamba2": mamba2,
    "rwkv7": rwkv7,
    "jamba": hybrid("jamba", "mamba1"),
    "granitehybrid": hybrid("granitehybrid", "mamba2"),
    "lfm2": hybrid("lfm2", "short_conv"),
    "nemotron-h": nemotron_h,
    "falcon-h1": falcon_h1,
    "qwen3next": gated_deltanet("qwen3next", **EXPERTS),
    "qwen35": gated_deltanet("qwen35", **{"rope.dimension_sections": [8, 4, 4, 0]}),
    "kimi-linear": kda("kimi-linear"),
    "bailingmoe3": kda("bailingmoe3", **{"kda.safe_gate": True, "kda.gate_lower_bound": -1.0}),
    "minimax-01": minimax_01,
    "kimi-k3": kda(
        "kimi-k3", **{"attn_res.block_size": 1, "activation.situ_beta": 1.0, "activation.situ_linear_beta": 1.0}
    ),
    "glm5-next": kda(
        "glm5-next",
        indexed=True,
        **INDEXER,
        **{
            "attention.indexer.kpool": 4,
            "hyper_connection.count": 4,
            "hyper_connection.sinkhorn_iterations": 2,
            "hyper_connection.epsilon": 1e-6,
        },
    ),
}
"""Architectures that this build starts. It divides by zero on `deepseek4`, whose figures come from another build."""
