"""Head counts and widths under all their spellings: MHA, MQA, GQA and MLA, K and V of different width."""

from __future__ import annotations

from typing import Any

from kvplan.importers.config.fields import Fields

LAYERS = (
    "num_hidden_layers",
    "n_layer",
    "n_layers",
    "num_layers",
    "layers",
    "decoder_layers",
    "num_decoder_layers",
)
HEADS = (
    "num_attention_heads",
    "n_head",
    "n_heads",
    "num_heads",
    "attention_heads",
    "decoder_attention_heads",
    "num_decoder_attention_heads",
)
KV_HEADS = ("num_attention_groups", "num_key_value_heads", "num_kv_heads", "n_head_kv", "multi_query_group_num")
WIDTH = ("hidden_size", "n_embd", "n_embed", "d_model", "embed_dim", "embedding_dim", "dim_model")
HEAD_DIM = ("head_dim", "attention_head_dim", "kv_channels", "d_kv", "d_head", "dim_head")
Kind = dict[str, Any]


def query_heads(fields: Fields) -> int:
    """Query heads."""
    return fields.need(*HEADS)


def kv_heads(fields: Fields, heads: int) -> int:
    """Key and value heads; the old multi-query switches of Falcon, StarCoder and ChatGLM included."""
    given = fields.inner("attn_config")
    kind = given.find("attn_type")
    if kind not in (None, "multihead_attention", "grouped_query_attention"):
        raise fields.refuse("attn_config.attn_type", kind, "which the library does not build")
    nested = given.number("kv_n_heads")
    if nested is not None:
        return nested
    if fields.find("new_decoder_architecture") is True:
        return fields.need("num_kv_heads", "n_head_kv")
    if fields.find("multi_query") is True:
        return 1
    if fields.find("multi_query") is False or fields.find("multi_query_attention") is False:
        return heads
    return heads if fields.number(*KV_HEADS) is None else fields.need(*KV_HEADS)


def head_dim(fields: Fields, heads: int) -> int:
    """Width of a key head: given, or the model's width over its query heads; Zamba's attention is twice as wide."""
    given = fields.number(*HEAD_DIM)
    if given:
        return given
    width = fields.need(*WIDTH) * int(fields.defaults.get("_attention_widens", 1))
    if width % heads:
        raise fields.refuse(WIDTH[0], width, f"which {heads} heads do not divide, and no head_dim is given")
    return width // heads


def head_kind(fields: Fields, **bound: int) -> Kind:
    """The attention of one layer with keys and values per head."""
    heads = query_heads(fields)
    width = head_dim(fields, heads)
    kind = sized_kind(heads, kv_heads(fields, heads), width)
    v_width = fields.number("v_head_dim")
    if v_width and v_width != width:
        kind["v_head_dim"] = v_width
    return {**kind, **bound}


def sized_kind(heads: int, kv: int, width: int) -> Kind:
    """MHA, MQA or GQA by its head counts; query heads that `kv` does not divide do not matter to the cache."""
    heads = kv if heads % kv else heads
    return {
        "type": "mha" if kv == heads else "mqa" if kv == 1 else "gqa",
        "heads": heads,
        "kv_heads": kv,
        "head_dim": width,
    }


def is_latent(fields: Fields) -> bool:
    """True when the model keeps one latent per token."""
    return bool(fields.number("kv_lora_rank"))


def latent_kind(fields: Fields, **bound: int) -> Kind:
    """The attention of one layer that keeps a latent; `num_key_value_heads` means nothing there."""
    if "chunk" in bound:
        raise fields.refuse("attention_chunk_size", bound["chunk"], "on layers that keep a latent")
    rope = fields.number("qk_rope_head_dim")
    if rope is None:
        raise fields.refuse("qk_rope_head_dim", None, "and a latent has a RoPE part of known width, or of 0")
    rank = fields.need("kv_lora_rank")
    return {"type": "mla", "heads": query_heads(fields), "kv_lora_rank": rank, "qk_rope_head_dim": rope, **bound}


def index_kind(fields: Fields) -> Kind:
    """The indexer keys of a sparse-attention layer."""
    return {"type": "index", "head_dim": fields.need("index_head_dim")}
