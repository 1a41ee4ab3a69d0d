"""Configs on which other calculators were seen to fail (2026-11-29), each against the architecture's own need.

The figures are the reference values of that survey: GiB at 131,072 tokens in bf16 unless said otherwise. The
configs have the published fields that decide the cache; Gemma-3's published form has neither layer list nor pattern.
"""

from __future__ import annotations

from typing import Any

import pytest

from kvplan.errors import NotCountableError
from kvplan.footprint import cache_plan
from kvplan.importers.config import read_config
from kvplan.workload import Workload

GEMMA3 = {
    "model_type": "gemma3_text",
    "hidden_size": 5376,
    "num_attention_heads": 32,
    "num_hidden_layers": 62,
    "num_key_value_heads": 16,
    "head_dim": 128,
    "sliding_window": 1024,
    "torch_dtype": "bfloat16",
}
DEEPSEEK = {
    "model_type": "deepseek_v3",
    "hidden_size": 7168,
    "num_attention_heads": 128,
    "num_key_value_heads": 128,
    "num_hidden_layers": 61,
    "kv_lora_rank": 512,
    "q_lora_rank": 1536,
    "qk_nope_head_dim": 128,
    "qk_rope_head_dim": 64,
    "v_head_dim": 128,
    "torch_dtype": "bfloat16",
}
QWEN25 = {
    "model_type": "qwen2",
    "hidden_size": 3584,
    "num_attention_heads": 28,
    "num_hidden_layers": 28,
    "num_key_value_heads": 4,
    "sliding_window": 131072,
    "max_window_layers": 28,
    "use_sliding_window": False,
    "torch_dtype": "bfloat16",
}
NEMOTRON_LETTERS = "M-M-M-M*-" + "M-" * 50
GPT_OSS = {
    "model_type": "gpt_oss",
    "hidden_size": 2880,
    "num_attention_heads": 64,
    "num_hidden_layers": 36,
    "num_key_value_heads": 8,
    "head_dim": 64,
    "sliding_window": 128,
    "quantization_config": {"quant_method": "mxfp4"},
}
LLAMA4 = {
    "model_type": "llama4",
    "text_config": {
        "model_type": "llama4_text",
        "hidden_size": 5120,
        "num_attention_heads": 40,
        "num_hidden_layers": 48,
        "num_key_value_heads": 8,
        "head_dim": 128,
        "attention_chunk_size": 8192,
        "torch_dtype": "bfloat16",
    },
}


def held(config: dict[str, Any], context: int = 131_072) -> int:
    spec = read_config(config, "config.json").spec
    plan = cache_plan(spec, Workload(context))
    return int(plan.total_bytes(context))


@pytest.mark.parametrize(
    "spelling",
    [{}, {"_sliding_window_pattern": 6}, {"sliding_window_pattern": 6}, {"layer_types": (["sliding_attention"] * 5 + ["full_attention"]) * 10 + ["sliding_attention"] * 2}],
    ids=["as published", "underscore pattern", "pattern", "layer types"],
)  # fmt: skip
def test_gemma_3_is_right_in_every_spelling(spelling: dict[str, Any]) -> None:
    assert 11_173_625_856 == held({**GEMMA3, **spelling})


def test_deepseek_v3_keeps_a_latent_whatever_its_kv_heads_say() -> None:
    assert 9_210_691_584 == held(DEEPSEEK)


def test_auto_map_does_not_turn_a_latent_into_heads() -> None:
    assert 9_210_691_584 == held({**DEEPSEEK, "num_attention_heads": 64, "auto_map": {"AutoConfig": "configuration_deepseek.DeepseekV3Config"}})  # fmt: skip


KIMI_K2 = {
    **DEEPSEEK,
    "model_type": "kimi_k2",
    "architectures": ["DeepseekV3ForCausalLM"],
    "auto_map": {"AutoConfig": "configuration_deepseek.DeepseekV3Config"},
    "num_attention_heads": 64,
    "num_key_value_heads": 64,
    "n_routed_experts": 384,
    "max_position_embeddings": 131072,
}


def test_an_unknown_type_is_read_as_the_class_it_names() -> None:
    """Kimi-K2 has a type of its own, code of its own, and DeepSeek's architecture."""
    assert 9_210_691_584 == held(KIMI_K2)
    assert "read as DeepseekV3ForCausalLM" in read_config(KIMI_K2, "config.json").notes[0]


@pytest.mark.parametrize(
    ("change", "refused"),
    [
        ({"kv_lora_rank": None}, "kv_lora_rank: missing"),
        ({"num_hidden_layers": None}, "num_hidden_layers: missing"),
        ({"kv_share_layers": 3}, "kv_share_layers: found '3'"),
        ({"architectures": ["OtherForCausalLM"]}, "unknown architecture 'kimi_k2'"),
        ({"architectures": ["DeepseekV3ForCausalLM", "LlamaForCausalLM"]}, "unknown architecture 'kimi_k2'"),
    ],
    ids=["no rank", "no depth", "a field of its own", "another class", "two classes"],
)
def test_an_unknown_type_is_held_to_what_it_writes(change: dict[str, Any], refused: str) -> None:
    config = {key: value for key, value in {**KIMI_K2, **change}.items() if value is not None}
    with pytest.raises(NotCountableError, match=refused):
        read_config(config, "config.json")


def test_deepseek_v32_adds_its_index() -> None:
    config = {**DEEPSEEK, "model_type": "deepseek_v32", "index_head_dim": 128, "index_n_heads": 64, "index_topk": 2048}
    assert 9_210_691_584 + 131_072 * 61 * 132 == held(config)


LLAMA_70B = {
    "model_type": "llama",
    "hidden_size": 8192,
    "num_attention_heads": 64,
    "num_hidden_layers": 80,
    "num_key_value_heads": 8,
    "torch_dtype": "bfloat16",
}


def test_a_70b_of_eight_key_heads_and_one_of_sixty_four() -> None:
    assert 40 * 2**30 == held(LLAMA_70B)
    assert 320 * 2**30 == held({**LLAMA_70B, "num_key_value_heads": 64})
    assert 320 * 2**30 == held({key: value for key, value in LLAMA_70B.items() if key != "num_key_value_heads"})


def test_qwen35_attends_in_one_layer_of_four_and_keeps_states_in_the_rest() -> None:
    text = {
        "model_type": "qwen3_5_text",
        "hidden_size": 5120,
        "num_attention_heads": 24,
        "num_hidden_layers": 64,
        "num_key_value_heads": 4,
        "head_dim": 256,
        "full_attention_interval": 4,
        "linear_num_key_heads": 16,
        "linear_num_value_heads": 48,
        "linear_key_head_dim": 128,
        "linear_value_head_dim": 128,
        "linear_conv_kernel_dim": 4,
        "dtype": "bfloat16",
    }
    states = held({"model_type": "qwen3_5", "text_config": text}) - 8 * 2**30
    assert 0.143 == round(states / 2**30, 3), "48 layers x (48 x 128 x 128 x 4 + 10,240 x 3 x 2) bytes"


def test_gpt_oss_is_counted_in_the_models_dtype_not_the_weights_width() -> None:
    assert 4_836_556_800 == held(GPT_OSS)


def test_an_unused_window_changes_nothing() -> None:
    assert 7 * 2**30 == held(QWEN25)


def test_mistral_slides_in_every_layer() -> None:
    config = {"model_type": "mistral", "hidden_size": 4096, "num_attention_heads": 32, "num_hidden_layers": 32, "num_key_value_heads": 8, "sliding_window": 4096}  # fmt: skip
    assert 2**29 == held(config, 32_768)


def test_windows_that_a_release_interleaves_are_refused() -> None:
    config = {"model_type": "mistral", "sliding_window": None, "interleaved_sliding_window": [None, 32768]}
    with pytest.raises(NotCountableError, match="interleaved_sliding_window"):
        read_config(config, "config.json")


def test_gemma_2_slides_in_every_other_layer() -> None:
    config = {"model_type": "gemma2", "hidden_size": 4608, "num_attention_heads": 32, "num_hidden_layers": 46, "num_key_value_heads": 16, "head_dim": 128, "sliding_window": 4096}  # fmt: skip
    assert 2.156 == round(held(config, 8192) / 2**30, 3)


def test_gemma_3n_shares_the_cache_of_its_last_layers() -> None:
    config = {"model_type": "gemma3n_text", "hidden_size": 2048, "num_attention_heads": 8, "num_hidden_layers": 35, "num_key_value_heads": 2, "head_dim": 256, "sliding_window": 512, "num_kv_shared_layers": 15}  # fmt: skip
    assert 0.266 == round(held(config, 32_768) / 2**30, 3)


def test_llama_4_keeps_chunks_in_three_layers_of_four() -> None:
    assert 7.125 == held(LLAMA4) / 2**30


def test_jamba_attends_in_one_layer_of_eight() -> None:
    config = {"model_type": "jamba", "hidden_size": 4096, "num_attention_heads": 32, "num_hidden_layers": 32, "num_key_value_heads": 8, "attn_layer_period": 8, "attn_layer_offset": 4, "mamba_d_conv": 4, "mamba_d_state": 16, "mamba_expand": 2}  # fmt: skip
    state = 28 * (3 * 8192 * 2 + 8192 * 16 * 4)
    assert 2**31 + state == held(config)


def test_qwen3_next_attends_in_one_layer_of_four() -> None:
    config = {"model_type": "qwen3_next", "hidden_size": 2048, "num_attention_heads": 16, "num_hidden_layers": 48, "num_key_value_heads": 2, "head_dim": 256, "full_attention_interval": 4, "linear_num_key_heads": 16, "linear_num_value_heads": 32, "linear_key_head_dim": 128, "linear_value_head_dim": 128, "linear_conv_kernel_dim": 4}  # fmt: skip
    assert 3 * 2**30 + 36 * 2_146_304 == held(config)


def test_minimax_m2_may_list_that_every_layer_attends() -> None:
    config = {"model_type": "minimax_m2", "hidden_size": 3072, "num_attention_heads": 48, "num_hidden_layers": 62, "num_key_value_heads": 8, "head_dim": 128}  # fmt: skip
    assert held(config) == held({**config, "attn_type_list": [1] * 62})
    with pytest.raises(NotCountableError, match="attn_type_list"):
        read_config({**config, "attn_type_list": [0] + [1] * 61}, "config.json")


def test_letters_say_which_layers_attend() -> None:
    config = {"model_type": "nemotron_h", "hidden_size": 8192, "num_attention_heads": 64, "num_key_value_heads": 8, "head_dim": 128, "hybrid_override_pattern": NEMOTRON_LETTERS, "mamba_num_heads": 256, "mamba_head_dim": 64, "n_groups": 8, "ssm_state_size": 256, "conv_kernel": 4}  # fmt: skip
    spec = read_config(config, "config.json").spec
    assert len(NEMOTRON_LETTERS) == spec.layer_count
    assert 4096 == cache_plan(spec, Workload(1)).marginal_bytes(full=True)


def test_an_unknown_architecture_with_plain_fields_is_read_and_says_so() -> None:
    config = {"model_type": "brand_new", "hidden_size": 8192, "num_attention_heads": 64, "num_hidden_layers": 80, "num_key_value_heads": 8, "torch_dtype": "bfloat16"}  # fmt: skip
    read = read_config(config, "config.json")
    assert 42_949_672_960 == held(config)
    assert "brand_new is not known: read by its field names alone" in read.notes[0]


@pytest.mark.parametrize("field", ["kv_compression", "sliding_window", "num_memory_slots", "is_encoder_decoder"])
def test_an_unknown_architecture_with_any_other_field_is_refused_by_that_field(field: str) -> None:
    config = {"model_type": "brand_new", "hidden_size": 64, "num_attention_heads": 4, "num_hidden_layers": 2, field: 4}
    with pytest.raises(NotCountableError, match=field):
        read_config(config, "config.json")


def test_a_stated_cache_scheme_is_the_default_format() -> None:
    scheme = {"quant_method": "fp8", "kv_cache_scheme": {"num_bits": 8, "type": "float", "strategy": "tensor"}}
    assert held({**QWEN25, "quantization_config": scheme}) * 2 == held(QWEN25)


def test_another_cache_scheme_is_refused() -> None:
    scheme = {"kv_cache_scheme": {"num_bits": 4, "type": "int"}}
    with pytest.raises(NotCountableError, match="kv_cache_scheme"):
        read_config({**QWEN25, "quantization_config": scheme}, "config.json")


@pytest.mark.parametrize(
    ("config", "width"),
    [
        ({"multi_query": True, "num_attention_heads": 71}, 64),
        ({"new_decoder_architecture": True, "num_kv_heads": 8, "num_attention_heads": 64}, 8 * 64),
        ({"multi_query": False, "num_attention_heads": 32}, 32 * 64),
    ],
    ids=["7b", "40b", "rw"],
)
def test_falcon_in_its_three_spellings(config: dict[str, Any], width: int) -> None:
    full = {"model_type": "falcon", "hidden_size": 64 * config["num_attention_heads"], "num_hidden_layers": 1, **config}
    assert 2 * 2 * width == held(full, 1)
