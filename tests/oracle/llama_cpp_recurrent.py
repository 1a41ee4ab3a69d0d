"""Synthetic recurrent models, and hybrids of states and attention."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from llama_cpp_shapes import EXPERTS, INDEX, INNER, LATENT, MLA, WIDTH, Dice, Synthetic, fill_the_width, spec_of


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
