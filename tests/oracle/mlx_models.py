"""Tiny random models of mlx-lm, each beside the kvplan spec of the same shape, and the bytes their caches hold.

mlx-lm builds and runs them on a CPU; nothing of it is copied: settings go in, cache objects come out.
`KVPLAN_ORACLES` names the folder that `.ci/oracles` filled.
"""

from __future__ import annotations

import importlib
import os
import sys
from pathlib import Path
from typing import Any

import pytest

HOME = os.environ.get("KVPLAN_ORACLES")
if HOME is None:
    pytest.skip("KVPLAN_ORACLES is not set: `.ci/oracles DIR` lays mlx-lm", allow_module_level=True)
sys.path.append(str(Path(HOME) / "mlx-mlx-lm==0.32.2"))

import mlx.core as mx  # type: ignore[import-not-found]
from mlx.utils import tree_map_with_path  # type: ignore[import-not-found]

importlib.import_module("mlx_lm.generate")
generate = sys.modules["mlx_lm.generate"]
caches = importlib.import_module("mlx_lm.models.cache")

COMMON = {
    "hidden_size": 64,
    "num_hidden_layers": 4,
    "intermediate_size": 96,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "rms_norm_eps": 1e-5,
    "vocab_size": 64,
    "rope_theta": 10000.0,
    "max_position_embeddings": 8192,
    "tie_word_embeddings": False,
}
GQA = {"type": "gqa", "heads": 4, "kv_heads": 2, "head_dim": 64}
SMALL = {**GQA, "head_dim": 16}
LATENT = {"type": "mla", "heads": 4, "kv_lora_rank": 128, "qk_rope_head_dim": 64}
MAMBA2 = {"type": "mamba2", "heads": 8, "head_dim": 16, "groups": 2, "d_state": 16, "conv_kernel": 4}
MAMBA1 = {"type": "mamba1", "d_inner": 128, "d_state": 16, "conv_kernel": 4}
NONE = {"type": "none"}
MLA = {
    "kv_lora_rank": 128,
    "q_lora_rank": None,
    "qk_rope_head_dim": 64,
    "v_head_dim": 16,
    "qk_nope_head_dim": 16,
    "first_k_dense_replace": 10,
}
SSM = {"layer_norm_epsilon": 1e-5, "conv_kernel": 4, "n_groups": 2, "use_bias": False, "use_conv_bias": True}
DENSE, MIXED = [GQA] * 4, [{**GQA, "window": 32}, GQA] * 2

MODELS: dict[str, tuple[str, dict[str, Any], list[Any]]] = {
    "llama": ("llama", {**COMMON, "head_dim": 64}, DENSE),
    "qwen3": ("qwen3", {**COMMON, "head_dim": 64}, DENSE),
    "mistral": ("llama", {**COMMON, "head_dim": 64, "sliding_window": 32}, [{**GQA, "window": 32}] * 4),
    "gemma-2-tiny": ("gemma2", {**COMMON, "head_dim": 64}, MIXED),
    "gemma3": (
        "gemma3_text",
        {**COMMON, "head_dim": 64, "sliding_window": 32, "sliding_window_pattern": 2, "query_pre_attn_scalar": 64},
        MIXED,
    ),
    "cohere2": (
        "cohere2",
        {**COMMON, "head_dim": 16, "sliding_window": 300, "sliding_window_pattern": 2},
        [{**SMALL, "window": 300}, SMALL] * 2,
    ),
    "deepseek_v3": ("deepseek_v3", {**COMMON, **MLA}, [LATENT] * 4),
    "deepseek_v32": (
        "deepseek_v32",
        {**COMMON, **MLA, "q_lora_rank": 32, "index_head_dim": 128, "index_n_heads": 2, "index_topk": 64},
        [[LATENT, {"type": "index", "head_dim": 128}]] * 4,
    ),
    "qwen3_next": (
        "qwen3_next",
        {
            **COMMON,
            "head_dim": 64,
            "linear_num_value_heads": 4,
            "linear_num_key_heads": 2,
            "linear_key_head_dim": 32,
            "linear_value_head_dim": 32,
            "linear_conv_kernel_dim": 4,
            "num_experts": 0,
            "num_experts_per_tok": 1,
            "decoder_sparse_step": 1,
            "shared_expert_intermediate_size": 32,
            "mlp_only_layers": [],
            "moe_intermediate_size": 32,
            "partial_rotary_factor": 0.5,
        },
        [
            {
                "type": "gated_deltanet",
                "k_heads": 2,
                "v_heads": 4,
                "k_head_dim": 32,
                "v_head_dim": 32,
                "conv_kernel": 4,
                "state_dtype": "bf16",
            }
        ]
        * 3
        + [GQA],
    ),
    "mamba2": (
        "mamba2",
        {
            **COMMON,
            **SSM,
            "num_heads": 8,
            "head_dim": 16,
            "intermediate_size": 128,
            "state_size": 16,
            "time_step_limit": (0.0, 100.0),
            "time_step_rank": 4,
        },
        [MAMBA2] * 4,
    ),
    "nemotron_h": (
        "nemotron_h",
        {
            **COMMON,
            **SSM,
            "attention_bias": False,
            "mamba_num_heads": 8,
            "mamba_head_dim": 16,
            "mamba_proj_bias": False,
            "ssm_state_size": 16,
            "mlp_bias": False,
            "hybrid_override_pattern": list("M*-M"),
            "head_dim": 16,
        },
        [MAMBA2, SMALL, NONE, MAMBA2],
    ),
    "falcon_h1": (
        "falcon_h1",
        {
            **COMMON,
            "head_dim": 16,
            "mamba_d_conv": 4,
            "mamba_d_head": 16,
            "mamba_d_ssm": 128,
            "mamba_d_state": 16,
            "mamba_n_groups": 1,
            "mamba_n_heads": 8,
        },
        [[{**MAMBA2, "groups": 1}, SMALL]] * 4,
    ),
    "jamba": (
        "jamba",
        {
            **COMMON,
            "attn_layer_offset": 1,
            "attn_layer_period": 2,
            "expert_layer_offset": 1,
            "expert_layer_period": 100,
            "mamba_d_conv": 4,
            "mamba_d_state": 16,
            "mamba_expand": 2,
            "num_experts": 1,
            "num_experts_per_tok": 1,
        },
        [MAMBA1, SMALL] * 2,
    ),
    "lfm2": (
        "lfm2",
        {
            **COMMON,
            "norm_eps": 1e-5,
            "conv_bias": False,
            "conv_L_cache": 3,
            "block_dim": 64,
            "block_multiple_of": 32,
            "block_ffn_dim_multiplier": 1.0,
            "block_auto_adjust_ff_dim": False,
            "block_ff_dim": 96,
            "layer_types": ["conv", "full_attention"] * 2,
        },
        [{"type": "short_conv", "dim": 64, "conv_kernel": 3}, SMALL] * 2,
    ),
    "kimi_linear": (
        "kimi_linear",
        {
            **COMMON,
            **MLA,
            "head_dim": 16,
            "linear_attn_config": {
                "kda_layers": [1, 2, 3],
                "full_attn_layers": [4],
                "num_heads": 4,
                "head_dim": 32,
                "short_conv_kernel_size": 4,
            },
            "model_max_length": 4096,
            "num_experts": 0,
            "moe_intermediate_size": 32,
        },
        [{"type": "kda", "heads": 4, "head_dim": 32, "conv_kernel": 4}] * 3 + [LATENT],
    ),
    "bailing_hybrid": (
        "bailing_hybrid",
        {
            **COMMON,
            **MLA,
            "moe_intermediate_size": 32,
            "num_experts": 2,
            "num_experts_per_tok": 1,
            "num_shared_experts": 1,
            "n_group": 1,
            "topk_group": 1,
            "layer_group_size": 2,
            "group_norm_size": 1,
            "routed_scaling_factor": 1.0,
            "head_dim": 16,
        },
        [{"type": "lightning", "heads": 4, "head_dim": 16}, LATENT] * 2,
    ),
    "rwkv7": (
        "rwkv7",
        {
            **COMMON,
            "norm_eps": 1e-5,
            "head_dim": 16,
            "a_low_rank_dim": 8,
            "v_low_rank_dim": 8,
            "gate_low_rank_dim": 8,
            "decay_low_rank_dim": 8,
        },
        [{"type": "rwkv7", "heads": 4, "head_dim": 16}] * 4,
    ),
    "recurrent_gemma": (
        "recurrent_gemma",
        {
            **COMMON,
            "num_key_value_heads": 1,
            "attention_bias": False,
            "logits_soft_cap": 30.0,
            "attention_window_size": 32,
            "conv1d_width": 4,
            "block_types": ["recurrent", "recurrent", "attention"],
        },
        [{"type": "rg_lru", "width": 64, "conv_kernel": 4}] * 2
        + [{"type": "mqa", "heads": 4, "kv_heads": 1, "head_dim": 16, "window": 32}]
        + [{"type": "rg_lru", "width": 64, "conv_kernel": 4}],
    ),
    "llama4": (
        "llama4",
        {
            "text_config": {
                **COMMON,
                "attention_bias": False,
                "attention_chunk_size": 300,
                "head_dim": 64,
                "interleave_moe_layer_step": 100,
                "intermediate_size_mlp": 96,
                "model_type": "llama4_text",
                "num_experts_per_tok": 1,
                "num_local_experts": 2,
                "rope_scaling": None,
                "use_qk_norm": False,
            }
        },
        [{**GQA, "chunk": 300}] * 3 + [GQA],
    ),
}
BUILT: dict[tuple[str, str], Any] = {}


def model_of(name: str, dtype: str) -> Any:
    """The library's model with random weights of one dtype, built once."""
    if (name, dtype) not in BUILT:
        file, settings, _ = MODELS[name]
        module = importlib.import_module(f"mlx_lm.models.{file}")
        model = module.Model(module.ModelArgs.from_dict({"model_type": file, **settings}))
        kind = {"bf16": mx.bfloat16, "fp16": mx.float16, "fp32": mx.float32}[dtype]
        model.update(
            tree_map_with_path(
                lambda _, array: array.astype(kind) if mx.issubdtype(array.dtype, mx.floating) else array,
                model.parameters(),
            )
        )
        BUILT[name, dtype] = model
    return BUILT[name, dtype]


def held(cache: list[Any]) -> int:
    """Bytes of all cache objects, by the library's own count."""
    return sum(one.nbytes for one in cache)


def generated(
    name: str, dtype: str, context: int, max_tokens: int, bound: int | None, **options: Any
) -> tuple[int, int]:
    """(bytes at the end, most bytes after any step) of a run of `generate_step` that caches `context` tokens."""
    model = model_of(name, dtype)
    cache = caches.make_prompt_cache(model, bound)
    prompt = mx.array([7 * i % 60 + 2 for i in range(context - max_tokens)])
    seen = [0]

    def look(*_: Any) -> None:
        seen.append(held(cache) if cache_filled(cache) else 0)

    for _ in generate.generate_step(
        prompt, model, max_tokens=max_tokens, prompt_cache=cache, prompt_progress_callback=look, **options
    ):
        look()
    return held(cache), max(*seen, held(cache))


def cache_filled(cache: list[Any]) -> bool:
    """False before the first step, when some classes cannot count themselves."""
    return not all(one.empty() for one in cache)


def batched(name: str, dtype: str, context: int, batch: int, step: int, bound: int | None) -> int:
    """Bytes once `batch` sequences of `context` tokens, started together, have been read by the batch generator."""
    model = model_of(name, dtype)
    generator = generate.BatchGenerator(model, max_tokens=1, prefill_step_size=step, max_kv_size=bound)
    generator.insert([[(7 * i + b) % 60 + 2 for i in range(context)] for b in range(batch)])
    while True:
        generator.next()
        if len(generator._generation_batch) == batch:
            return held(generator._generation_batch.prompt_cache)
