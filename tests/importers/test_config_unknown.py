"""Releases with code of their own: types that the library does not have, told by families of fields alone.

The configs carry the published fields; what they must come to are the shipped specs, which have sources of their own.
"""

from __future__ import annotations

from typing import Any

import pytest

from kvplan.catalogue import model_named
from kvplan.errors import NotCountableError
from kvplan.importers.config import read_config
from kvplan.spec import ModelSpec

Config = dict[str, Any]
CHATGLM = {
    "model_type": "chatglm",
    "architectures": ["ChatGLMModel"],
    "auto_map": {"AutoConfig": "configuration_chatglm.ChatGLMConfig"},
    "add_bias_linear": False,
    "add_qkv_bias": True,
    "apply_query_key_layer_scaling": True,
    "apply_residual_connection_post_layernorm": False,
    "attention_dropout": 0.0,
    "attention_softmax_in_fp32": True,
    "bias_dropout_fusion": True,
    "ffn_hidden_size": 13696,
    "fp32_residual_connection": False,
    "hidden_dropout": 0.0,
    "hidden_size": 4096,
    "kv_channels": 128,
    "layernorm_epsilon": 1e-5,
    "multi_query_attention": True,
    "multi_query_group_num": 2,
    "num_attention_heads": 32,
    "num_layers": 40,
    "original_rope": True,
    "padded_vocab_size": 151552,
    "post_layer_norm": True,
    "rmsnorm": True,
    "rope_ratio": 500,
    "seq_length": 131072,
    "torch_dtype": "bfloat16",
    "use_cache": True,
}
HUNYUAN = {
    "model_type": "hunyuan",
    "architectures": ["HunYuanForCausalLM"],
    "auto_map": {"AutoConfig": "configuration_hunyuan.HunYuanConfig"},
    "cla_share_factor": 2,
    "hidden_size": 6400,
    "intermediate_size": 18304,
    "max_position_embeddings": 131072,
    "moe_topk": 1,
    "num_attention_heads": 80,
    "num_experts": 16,
    "num_hidden_layers": 64,
    "num_key_value_heads": 8,
    "num_shared_expert": 1,
    "torch_dtype": "bfloat16",
    "use_cla": True,
    "use_mixed_mlp_moe": True,
    "use_qk_norm": True,
}
MINIMAX = {
    "model_type": "minimax_text_01",
    "architectures": ["MiniMaxText01ForCausalLM"],
    "auto_map": {"AutoConfig": "configuration_minimax_text_01.MiniMaxText01Config"},
    "attn_type_list": ([0] * 7 + [1]) * 10,
    "head_dim": 128,
    "hidden_size": 6144,
    "intermediate_size": 9216,
    "layernorm_full_attention_alpha": 3.5565588200778455,
    "layernorm_linear_attention_alpha": 3.5565588200778455,
    "max_position_embeddings": 10240000,
    "num_attention_heads": 64,
    "num_experts_per_tok": 2,
    "num_hidden_layers": 80,
    "num_key_value_heads": 8,
    "num_local_experts": 32,
    "postnorm": True,
    "rotary_dim": 64,
    "shared_intermediate_size": 0,
    "shared_moe_mode": "sigmoid",
    "torch_dtype": "bfloat16",
}
QWEN = {
    "model_type": "qwen",
    "architectures": ["QWenLMHeadModel"],
    "auto_map": {"AutoConfig": "configuration_qwen.QWenConfig"},
    "bf16": True,
    "hidden_size": 4096,
    "intermediate_size": 22016,
    "kv_channels": 128,
    "max_position_embeddings": 32768,
    "no_bias": True,
    "num_attention_heads": 32,
    "num_hidden_layers": 32,
    "rotary_pct": 1.0,
    "seq_length": 8192,
    "use_dynamic_ntk": True,
    "use_logn_attn": True,
}
INTERNLM2 = {
    "model_type": "internlm2",
    "architectures": ["InternLM2ForCausalLM"],
    "auto_map": {"AutoConfig": "configuration_internlm2.InternLM2Config"},
    "attn_implementation": "eager",
    "bias": False,
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "max_position_embeddings": 32768,
    "num_attention_heads": 32,
    "num_hidden_layers": 32,
    "num_key_value_heads": 8,
    "rope_theta": 1000000,
    "torch_dtype": "bfloat16",
}


def block(group: int | None, **more: Any) -> Config:
    attention = {"n_heads_in_group": group, "no_op": group is None, "replace_with_linear": False, "window_length": None}
    return {"attention": {**attention, **more}, "ffn": {"ffn_mult": 2.625, "no_op": False}}


def nemotron(blocks: list[Config]) -> Config:
    return {
        "model_type": "nemotron-nas",
        "architectures": ["DeciLMForCausalLM"],
        "auto_map": {"AutoConfig": "configuration_decilm.DeciLMConfig"},
        "block_configs": blocks,
        "hidden_size": 8192,
        "intermediate_size": None,
        "max_position_embeddings": 131072,
        "num_attention_heads": 64,
        "num_hidden_layers": len(blocks),
        "num_key_value_heads": None,
        "torch_dtype": "bfloat16",
    }


def layers(spec: ModelSpec) -> list[tuple[object, ...]]:
    """What each layer keeps, in layer order."""
    return [
        tuple((t.role, t.row, t.growth, t.shards, t.dtype) for t in layer.tensors())
        for count, layer in spec.runs
        for _ in range(count)
    ]


@pytest.mark.parametrize(
    ("config", "name"),
    [
        (CHATGLM, "glm-4-9b"),
        (HUNYUAN, "hunyuan-large-389b-a52b"),
        (MINIMAX, "minimax-text-01"),
        (QWEN, "qwen-7b"),
        (INTERNLM2, "internlm2.5-7b"),
    ],
    ids=["chatglm", "hunyuan", "minimax", "qwen", "internlm2"],
)
def test_a_release_with_code_of_its_own_is_its_shipped_spec(config: Config, name: str) -> None:
    read = read_config(config, "config.json")
    assert layers(model_named(name)[0]) == layers(read.spec)
    assert "read by its field names alone" in read.notes[0]


def test_searched_blocks_are_the_shipped_spec() -> None:
    shipped = layers(model_named("llama-3.3-nemotron-super-49b")[0])
    blocks = [block(8 if kept else None) for kept in shipped]
    assert shipped == layers(read_config(nemotron(blocks), "config.json").spec)
    assert 31 == sum(not kept for kept in shipped)


def test_searched_blocks_may_have_head_counts_of_their_own() -> None:
    spec = read_config(nemotron([block(8), block(None), block(16), block(32)]), "config.json").spec
    assert [8, 0, 4, 2] == [kept[0][1][0] if kept else 0 for kept in layers(spec)]


DECI = {
    "model_type": "deci",
    "architectures": ["DeciLMForCausalLM"],
    "auto_map": {"AutoConfig": "configuration_decilm.DeciLMConfig"},
    "hidden_size": 4096,
    "num_attention_heads": 32,
    "num_hidden_layers": 4,
    "num_key_value_heads_per_layer": [4, 4, 2, 1],
}
OPENELM = {
    "model_type": "openelm",
    "architectures": ["OpenELMForCausalLM"],
    "auto_map": {"AutoConfig": "configuration_openelm.OpenELMConfig"},
    "activation_fn_name": "swish",
    "ffn_multipliers": [0.5, 1.0, 1.5],
    "head_dim": 64,
    "max_context_length": 2048,
    "model_dim": 1280,
    "num_gqa_groups": 4,
    "num_kv_heads": [3, 3, 5],
    "num_query_heads": [12, 12, 20],
    "num_transformer_layers": 3,
    "share_input_output_layers": True,
}


@pytest.mark.parametrize(
    ("config", "rows"),
    [(DECI, [(4, 128), (4, 128), (2, 128), (1, 128)]), (OPENELM, [(3, 64), (3, 64), (5, 64)])],
    ids=["deci", "openelm"],
)
def test_head_counts_may_be_listed_layer_by_layer(config: Config, rows: list[tuple[int, int]]) -> None:
    assert [(row, row) for row in rows] == [
        tuple(tensor[1] for tensor in kept) for kept in layers(read_config(config, "config.json").spec)
    ]


@pytest.mark.parametrize("heads", [[4, 4], [4, 4, 0, 1], [4, 4, 2, 2**40], []])
def test_head_counts_that_are_not_one_for_each_layer_are_refused(heads: list[int]) -> None:
    with pytest.raises(NotCountableError, match="num_key_value_heads_per_layer"):
        read_config({**DECI, "num_key_value_heads_per_layer": heads}, "config.json")


@pytest.mark.parametrize("field", ["window_length", "num_sink_tokens", "sparsify"])
def test_a_block_with_a_field_that_is_not_understood_is_refused_by_it(field: str) -> None:
    with pytest.raises(NotCountableError, match=rf"block_configs.1.attention.{field}: found '8'"):
        read_config(nemotron([block(8), block(8, **{field: 8})]), "config.json")


@pytest.mark.parametrize(
    ("config", "field"),
    [
        ({**CHATGLM, "pre_seq_len": 128}, "pre_seq_len"),
        ({**QWEN, "use_cache_quantization": True}, "use_cache_quantization"),
        ({**HUNYUAN, "use_mla": True}, "use_mla"),
        ({**INTERNLM2, "sliding_window": 4096}, "sliding_window"),
        ({**MINIMAX, "attn_type_list": [0, 1]}, "layer_types"),
    ],
    ids=["prefix", "quantized cache", "latent", "window", "short list"],
)
def test_a_field_beside_them_that_may_change_the_cache_is_refused(config: Config, field: str) -> None:
    with pytest.raises(NotCountableError, match=field):
        read_config(config, "config.json")
