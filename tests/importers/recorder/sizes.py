"""How small each field of a config becomes, so that a tiny model keeps what shapes its cache.

Sizes shrink; what sets them apart stays: key heads fewer than query heads, values narrower than keys, a head
width that is not the model's width over its heads.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

VOCABULARY = 320
WINDOW = 16
ROWS = 512
Size = int | Callable[[int, "Around"], int | None]


class Around:
    """What a field's new size depends on: the other fields of its config, and how many layers a decoder gets."""

    def __init__(self, fields: dict[str, Any], layers: int | None) -> None:
        self.fields = fields
        self.layers = layers  # None for an encoder, a tower, a codec
        self.heads = self.first("num_attention_heads", "n_head", "n_heads", "num_heads", "decoder_attention_heads", "encoder_attention_heads", "attention_heads")  # fmt: skip
        self.width = self.first("hidden_size", "d_model", "n_embd", "embed_dim", "emb_dim", "embedding_dim")
        self.head_dim = self.first("head_dim")

    def first(self, *names: str) -> int | None:
        """The first of `names` that is a number."""
        return next((self.fields[name] for name in names if isinstance(self.fields.get(name), int)), None)


def words(text: str) -> str:
    """A pattern for any of the words of `text`."""
    return "|".join(text.split())


def at_most(most: int) -> Callable[[int, Around], int]:
    """The field itself, or `most` where it is more."""
    return lambda value, _: min(value, most)


def unless_off(size: int) -> Callable[[int, Around], int]:
    """`size`, or 0 where the field is 0."""
    return lambda value, _: size if value else 0


def _vocabulary(value: int, around: Around) -> int:
    return min(value, VOCABULARY)


def _key_heads(of: str | None) -> Callable[[int, Around], int]:
    """As many as the query heads (4), one, or between."""

    def size(value: int, around: Around) -> int:
        query = around.fields.get(of) if of else None
        return 4 if value == (query or around.heads) else 1 if value == 1 else 2

    return size


def _layers(value: int, around: Around) -> int | None:
    if not value:
        return None
    return around.layers if around.layers is not None else min(value, 2)


def _head_dim(value: int, around: Around) -> int:
    if around.fields.get("qk_rope_head_dim") == value:
        return 8
    return 16 if around.heads and around.width and value * around.heads == around.width else 24


def _value_dim(value: int, around: Around) -> int:
    return 16 if value == (around.fields.get("qk_nope_head_dim") or around.head_dim) else 12


def _patch(value: int, around: Around) -> int | None:
    return None if around.layers is not None else min(value, 14) if value > 16 else value


RULES: tuple[tuple[str, Size], ...] = (
    (
        words(
            """hidden_size d_model n_embd embed_dim emb_dim embedding_dim word_embed_proj_dim out_hidden_size projection_dim
            text_hidden_size vision_feature_size output_dim mm_hidden_size dim_model encoder_hidden_size
            cross_attention_hidden_size cross_hidden_size projector_hidden_size decoder_hidden_size feature_size
            embedding_size input_embedding_size output_embedding_size lru_width vision_embed_dim backbone_hidden_size
            post_projection_dim hidden_dim vision_hidden_size audio_hidden_size output_hidden_size projection_size proj_dim
            output_proj_dims encoder_dim qformer_hidden_size"""
        ),
        64,
    ),
    (
        words(
            """.*intermediate_size.* .*ffn_dim d_ff .*ffn_hidden_size dff dim_ff share_expert_dim feed_forward_size mlp_dim
            emb_dim_ff .*_mlp_size moe_hidden_size .*intermediate_dim .*ffn_inner_dim"""
        ),
        unless_off(64),
    ),
    ("swa_num_key_value_heads", _key_heads("swa_num_attention_heads")),
    ("cross_num_key_value_heads", _key_heads("cross_num_attention_heads")),
    ("decoder_num_key_value_heads", _key_heads("decoder_num_attention_heads")),
    ("encoder_num_key_value_heads", _key_heads("encoder_num_attention_heads")),
    (
        words(
            """num_key_value_heads num_kv_heads n_kv_heads indexer_kv_heads num_query_groups swa_num_kv_heads
            num_global_key_value_heads global_num_key_value_heads num_attention_groups"""
        ),
        _key_heads(None),
    ),
    (words("n_head n_heads num_heads .*attention_heads"), 4),
    (
        words(
            """num_hidden_layers n_layer n_layers num_layers decoder_layers layers num_decoder_layers
            decoder_num_hidden_layers num_blocks num_text_layers hidden_layers"""
        ),
        _layers,
    ),
    (
        words(
            """encoder_layers num_encoder_layers encoder_num_hidden_layers speech_encoder_layers t2u_encoder_layers
            t2u_decoder_layers speech_decoder_prenet_layers depth num_adapter_layers"""
        ),
        at_most(2),
    ),
    (
        words(
            """sliding_window sliding_window_size attention_chunk_size local_attention attention_window_size
            keep_window_size local_attention_window_len attention_window"""
        ),
        WINDOW,
    ),
    (words("vocab_size .*_vocab_size vocab_size_.* n_vocab"), _vocabulary),
    (words("num_experts n_routed_experts num_local_experts moe_num_experts expert_num"), 4),
    (words("num_experts_per_tok num_experts_per_token moe_topk moe_k top_k_experts topk"), at_most(2)),
    (words("n_group num_expert_group"), at_most(2)),
    ("topk_group", 1),
    ("kv_lora_rank", 32),
    ("q_lora_rank", 24),
    ("o_lora_rank", 16),
    ("qk_rope_head_dim", unless_off(8)),
    ("qk_nope_head_dim", 16),
    ("v_head_dim", _value_dim),
    ("head_dim", _head_dim),
    ("swa_head_dim", lambda value, around: 16 if value == around.head_dim else 12),
    ("global_head_dim", lambda value, around: 24 if value == around.head_dim else 32),
    (words("cross_head_dim dim_head d_head attention_head_size d_kv kv_channels"), 16),
    (
        words(
            """max_position_embeddings n_positions max_seq_len max_target_positions max_source_positions context_length
            max_decoder_position_embeddings max_encoder_position_embeddings n_ctx model_max_length
            max_2d_position_embeddings max_text_positions"""
        ),
        at_most(ROWS),
    ),
    (words("mamba_d_state ssm_state_size state_size"), 8),
    (words("mamba_n_heads mamba_num_heads n_mamba_heads"), lambda value, _: 8 if value > 2 else value),
    (words("mamba_d_head mamba_head_dim mamba_headdim"), 16),
    ("mamba_d_ssm", 128),
    (words("n_groups mamba_n_groups mamba_ngroups"), at_most(2)),
    (words("mamba_dt_rank time_step_rank"), 4),
    (words("chunk_size mamba_chunk_size block_size chunk_length"), 8),
    (words("linear_key_head_dim linear_head_dim"), 8),
    (
        "linear_value_head_dim",
        lambda value, around: 8 if value == around.fields.get("linear_key_head_dim") else 12,
    ),
    (
        "linear_num_key_heads",
        lambda value, around: 4 if value == around.fields.get("linear_num_value_heads") else 2,
    ),
    (words("linear_num_value_heads linear_num_heads"), 4),
    (words("index_head_dim indexer_head_dim"), 16),
    (words("index_n_heads indexer_n_heads"), 2),
    ("index_topk", 8),
    ("index_topk_blocks", 2),
    ("index_block_size", 4),
    ("hidden_size_per_layer_input", unless_off(8)),
    (words("adapter_rank laurel_rank loop_gate_rank hc_lowrank gated_norm_rank"), 8),
    ("image_size", at_most(56)),
    ("patch_size", _patch),
    ("d_rel", 4),
    ("rel_extent", 64),
    ("max_window_layers", 2),
    (words("first_k_dense_replace num_dense_layers moe_layer_start_index"), at_most(1)),
    ("moe_layer_end_index", lambda _, around: (around.layers or 2) - 1),
    (
        "num_kv_shared_layers",
        lambda value, around: max(1, round(around.layers * 0.4)) if value and around.layers else None,
    ),
    (words("n_shared_experts num_shared_experts"), at_most(1)),
    ("router_hidden_size", 16),
)
PATTERNS = tuple((re.compile(f"(?:{pattern})"), size) for pattern, size in RULES)


def smaller(name: str, value: int, around: Around) -> int | None:
    """The tiny size of one field, or None to leave it as it is."""
    for pattern, size in PATTERNS:
        if pattern.fullmatch(name):
            return size(value, around) if callable(size) else size
    return None


def depth(fields: dict[str, Any]) -> int:
    """Layers of a tiny decoder: more than a whole period of its layer list, with a tail."""
    period = 1
    for name in ("layer_types", "layers_block_type", "block_types", "attention_layers"):
        listed = fields.get(name)
        if isinstance(listed, list) and len(listed) > 1:
            period = max(period, _period(listed) or _period(listed[:-1]) or 12)
    for name in ("attn_layer_period", "sliding_window_pattern", "_sliding_window_pattern", "layer_group_size", "global_attn_every_n_layers", "no_rope_layer_interval", "full_attention_interval"):  # fmt: skip
        if isinstance(fields.get(name), int):
            period = max(period, fields[name])
    tails = {1: 4, 2: 5, 3: 6, 4: 6}
    return tails.get(period) or (period + 3 if period <= 8 else 13)


def _period(listed: list[Any]) -> int | None:
    return next(
        (
            length
            for length in range(1, len(listed) // 2 + 1)
            if all(word == listed[i % length] for i, word in enumerate(listed))
        ),
        None,
    )
