"""Recurrent layers, told by the fields that describe their state."""

from __future__ import annotations

from typing import Any

from kvplan.importers.config.fields import Fields
from kvplan.importers.config.heads import HEADS, WIDTH, head_dim, query_heads

Kind = dict[str, Any]
DTYPES = {"float32": "fp32", "float16": "fp16", "bfloat16": "bf16"}


def state_kind(fields: Fields) -> Kind:
    """The recurrent kind of this model's linear, Mamba or convolution layers.

    Raises: NotCountableError when no known set of fields describes its state.
    """
    for name, read in READERS.items():
        if fields.find(name) is not None:
            return read(fields)
    raise fields.refuse("layer_types", "recurrent layers", "and no known fields describe their state")


def _dtype(fields: Fields, name: str) -> Kind:
    """`state_dtype` where the config states it."""
    value = fields.find(name)
    if value is None:
        return {}
    if value not in DTYPES:
        raise fields.refuse(name, value)
    return {"state_dtype": DTYPES[value]}


def gated_deltanet(fields: Fields) -> Kind:
    """Qwen3-Next, Qwen3.5."""
    return {
        "type": "gated_deltanet",
        "k_heads": fields.need("linear_num_key_heads"),
        "v_heads": fields.need("linear_num_value_heads"),
        "k_head_dim": fields.need("linear_key_head_dim"),
        "v_head_dim": fields.need("linear_value_head_dim"),
        "conv_kernel": fields.need("linear_conv_kernel_dim"),
        **_dtype(fields, "mamba_ssm_dtype"),
    }


def gated_deltanet_of_heads(fields: Fields) -> Kind:
    """OLMo hybrid: what is not given follows from the heads and the width of attention."""
    k_heads = fields.number("linear_num_key_heads") or query_heads(fields)
    k_width = fields.number("linear_key_head_dim") or 3 * fields.need(*WIDTH) // (4 * k_heads)
    return {
        "type": "gated_deltanet",
        "k_heads": k_heads,
        "v_heads": fields.number("linear_num_value_heads") or query_heads(fields),
        "k_head_dim": k_width,
        "v_head_dim": fields.number("linear_value_head_dim") or 2 * k_width,
        "conv_kernel": fields.need("linear_conv_kernel_dim"),
    }


def kda(fields: Fields) -> Kind:
    """Kimi Linear in the library's spelling."""
    return {
        "type": "kda",
        "heads": fields.need("linear_num_heads"),
        "head_dim": fields.need("linear_head_dim"),
        "conv_kernel": fields.need("linear_conv_kernel_dim", "short_conv_kernel_size"),
    }


def kda_of_heads(fields: Fields) -> Kind:
    """Bailing hybrid: linear layers have the heads of the others where they are not told their own."""
    return {
        "type": "kda",
        "heads": fields.need("linear_num_heads", *HEADS),
        "head_dim": fields.need("linear_head_dim", "head_dim"),
        "conv_kernel": fields.need("linear_conv_kernel_dim", "short_conv_kernel_size"),
    }


def kda_nested(fields: Fields) -> Kind:
    """Kimi Linear as published, under `linear_attn_config`."""
    nested = fields.inner("linear_attn_config")
    return {
        "type": "kda",
        "heads": nested.need("num_heads"),
        "head_dim": nested.need("head_dim"),
        "conv_kernel": nested.number("short_conv_kernel_size") or fields.need("linear_conv_kernel_dim"),
    }


def mamba2(fields: Fields) -> Kind:
    """Bamba, Falcon-H1, Granite 4 hybrid: `mamba_n_heads` and companions."""
    heads = fields.need("mamba_n_heads")
    width = fields.find("mamba_d_head")
    if not isinstance(width, int):
        width = fields.need("mamba_expand") * fields.need(*WIDTH) // heads
    return {
        "type": "mamba2",
        "heads": heads,
        "head_dim": width,
        "groups": fields.need("mamba_n_groups"),
        "d_state": fields.need("mamba_d_state"),
        "conv_kernel": fields.need("mamba_d_conv"),
    }


def mamba2_nemotron(fields: Fields) -> Kind:
    """Nemotron-H."""
    return {
        "type": "mamba2",
        "heads": fields.need("mamba_num_heads"),
        "head_dim": fields.need("mamba_head_dim"),
        "groups": fields.need("mamba_n_groups", "n_groups"),
        "d_state": fields.need("ssm_state_size"),
        "conv_kernel": fields.need("mamba_d_conv", "conv_kernel"),
        **_dtype(fields, "mamba_ssm_cache_dtype"),
    }


def mamba2_zamba(fields: Fields) -> Kind:
    """Zamba2, which divides the inner width by the heads where it is not told theirs."""
    heads = fields.need("n_mamba_heads")
    width = fields.number("mamba_headdim") or fields.need("mamba_expand") * fields.need(*WIDTH) // heads
    return {
        "type": "mamba2",
        "heads": heads,
        "head_dim": width,
        "groups": fields.need("mamba_ngroups"),
        "d_state": fields.need("mamba_d_state"),
        "conv_kernel": fields.need("mamba_d_conv"),
    }


def mamba1_hybrid(fields: Fields) -> Kind:
    """Jamba, Zamba."""
    return {
        "type": "mamba1",
        "d_inner": fields.need("mamba_expand") * fields.need(*WIDTH),
        "d_state": fields.need("mamba_d_state"),
        "conv_kernel": fields.need("mamba_d_conv"),
    }


def short_conv(fields: Fields) -> Kind:
    """LFM2."""
    return {"type": "short_conv", "dim": fields.need(*WIDTH), "conv_kernel": fields.need("conv_L_cache")}


def rg_lru(fields: Fields) -> Kind:
    """RecurrentGemma; `lru_width` null is the model's width."""
    return {"type": "rg_lru", "width": fields.need("lru_width", *WIDTH), "conv_kernel": fields.need("conv1d_width")}


def pure_mamba(fields: Fields) -> Kind:
    """Mamba, Falcon-Mamba and Mamba-2, whose whole model is recurrent."""
    state, kernel = fields.need("state_size"), fields.need("conv_kernel")
    heads = fields.number("num_heads")
    if heads is not None:
        return {
            "type": "mamba2",
            "heads": heads,
            "head_dim": fields.need("head_dim"),
            "groups": fields.need("n_groups"),
            "d_state": state,
            "conv_kernel": kernel,
        }
    inner = fields.number("intermediate_size", "d_inner")
    if inner is None:
        inner = fields.need("expand") * fields.need(*WIDTH)
    return {"type": "mamba1", "d_inner": inner, "d_state": state, "conv_kernel": kernel}


def lightning(fields: Fields) -> Kind:
    """MiniMax: linear layers share the heads of the others."""
    heads = query_heads(fields)
    return {"type": "lightning", "heads": heads, "head_dim": head_dim(fields, heads)}


def mlstm(fields: Fields) -> Kind:
    """xLSTM: query-key and value widths as factors of the model's."""
    heads, width = fields.need("num_heads"), fields.need(*WIDTH)
    qk, v = fields.find("qk_dim_factor"), fields.find("v_dim_factor")
    if not all(isinstance(factor, int | float) and 0 < factor <= 64 for factor in (qk, v)):
        raise fields.refuse("qk_dim_factor", qk if qk != 1 else v)
    return {
        "type": "mlstm",
        "heads": heads,
        "qk_head_dim": int(width * qk) // heads,
        "v_head_dim": int(width * v) // heads,
    }


READERS = {
    "linear_allow_neg_eigval": gated_deltanet_of_heads,
    "linear_num_value_heads": gated_deltanet,
    "linear_attn_config": kda_nested,
    "linear_num_heads": kda,
    "short_conv_kernel_size": kda_of_heads,
    "mamba_n_heads": mamba2,
    "mamba_num_heads": mamba2_nemotron,
    "mamba_ngroups": mamba2_zamba,
    "mamba_d_state": mamba1_hybrid,
    "conv_L_cache": short_conv,
    "conv1d_width": rg_lru,
    "qk_dim_factor": mlstm,
    "state_size": pure_mamba,
    "linear_attn_alpha_factor": lightning,
    "linear_attn_beta_factor": lightning,
    "layernorm_linear_attention_alpha": lightning,
}
