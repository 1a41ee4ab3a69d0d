"""The true metadata of published models, by the converter's own key names, beside the shipped spec they must equal."""

from __future__ import annotations

from gguf_writer import metadata


def attention(head_count, head_count_kv=None, key_length=None, value_length=None, **more):
    given = {"head_count": head_count, "head_count_kv": head_count_kv, "key_length": key_length}
    given["value_length"] = key_length if value_length is None else value_length
    return {f"attention__{k}": v for k, v in {**given, **more}.items() if v is not None}


def base(layers, width, context, **more):
    return {
        "block_count": layers,
        "embedding_length": width,
        "context_length": context,
        "feed_forward_length": 1024,
        **more,
    }


def every(layers, period, first=False):
    return [(i % period != (0 if first else period - 1)) for i in range(layers)]


def kv(layers, at, heads):
    return [heads if i in at else 0 for i in range(layers)]


NEMOTRON_H = "M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M*-M-M-M-M-M-"
KIMI_LINEAR_MLA = {3, 7, 11, 15, 19, 23, 26}
LFM2_FULL = {2, 5, 8, 10, 12, 14}
DELTA = {"ssm__conv_kernel": 4, "ssm__state_size": 128, "ssm__group_count": 16}
LATENT = {
    "key_length": 576,
    "value_length": 512,
    "key_length_mla": 192,
    "value_length_mla": 128,
    "kv_lora_rank": 512,
    "q_lora_rank": 1536,
}

MODELS = {
    "llama-3.1-70b": metadata("llama", **base(80, 8192, 131072), **attention(64, 8), rope__dimension_count=128, vocab_size=128256),
    "qwen2.5-7b": metadata("qwen2", **base(28, 3584, 131072), **attention(28, 4)),
    "qwen3-32b": metadata("qwen3", **base(64, 5120, 40960), **attention(64, 8, 128)),
    "qwen3-30b-a3b": metadata("qwen3moe", **base(48, 2048, 40960), **attention(32, 4, 128), expert_count=128, expert_used_count=8, expert_feed_forward_length=768),
    "gemma-2-27b": metadata("gemma2", **base(46, 4608, 8192), **attention(32, 16, 128, sliding_window=4096)),
    "gemma-3-27b": metadata("gemma3", **base(62, 5376, 131072), **attention(32, 16, 128, sliding_window=1024)),
    "gemma-3n-e4b": metadata(
        "gemma3n", **base(35, 2048, 32768), **attention(8, 2, 256, sliding_window=512, sliding_window_pattern=every(35, 5), shared_kv_layers=15),
        embedding_length_per_layer_input=256, altup__num_inputs=4, activation_sparsity_scale=[1] * 35,
    ),
    "gemma-4-e4b": metadata(
        "gemma4", **base(42, 2560, 131072), **attention(8, 2, 512, sliding_window=512, sliding_window_pattern=every(42, 6), shared_kv_layers=18, key_length_swa=256, value_length_swa=256),
    ),
    "gemma-4-31b": metadata(
        "gemma4", **base(60, 5376, 262144), **attention(32, [16 if s else 4 for s in every(60, 6)], 512, sliding_window=1024, sliding_window_pattern=every(60, 6), shared_kv_layers=0, key_length_swa=256, value_length_swa=256),
    ),
    "gpt-oss-20b": metadata("gpt-oss", **base(24, 2880, 131072), **attention(64, 8, 64, sliding_window=128), expert_count=32),
    "deepseek-v3": metadata("deepseek2", **base(61, 7168, 163840), **attention(128, 1, **LATENT), rope__dimension_count=64, leading_dense_block_count=3),
    "deepseek-v2-lite": metadata("deepseek2", **base(27, 2048, 163840), **attention(16, 16, 192, 128, kv_lora_rank=512), rope__dimension_count=64),
    "deepseek-v3.2": metadata(
        "deepseek32", **base(62, 7168, 163840), **attention(128, 1, **LATENT, indexer__head_count=64, indexer__key_length=128, indexer__top_k=2048), rope__dimension_count=64, nextn_predict_layers=1,
    ),
    "minicpm3-4b": metadata("minicpm3", **base(62, 2560, 32768), **attention(40, 40, 96, 64, kv_lora_rank=256, q_lora_rank=768), rope__dimension_count=32),
    "llama-4-scout": metadata("llama4", **base(48, 5120, 10485760), **attention(40, 8, 128), interleave_moe_layer_step=1, expert_count=16),
    "mistral-7b-v0.1": metadata("llama", **base(32, 4096, 32768), **attention(32, 8, sliding_window=4096)),
    "phi-3-mini-4k": metadata("phi3", **base(32, 3072, 4096), **attention(32, 32, sliding_window=2047)),
    "phi-4-14b": metadata("phi3", **base(40, 5120, 16384), **attention(40, 10, sliding_window=0)),
    "olmo-3-7b": metadata("olmo2", **base(32, 4096, 65536), **attention(32, 32, sliding_window=4096, sliding_window_pattern=every(32, 4))),
    "exaone-4.0-32b": metadata("exaone4", **base(64, 5120, 131072), **attention(40, 8, sliding_window=4096)),
    "command-r7b": metadata("cohere2", **base(32, 4096, 8192), **attention(32, 8, 128, sliding_window=4096)),
    "mamba-2.8b": metadata("mamba", **base(64, 2560, 2**20), **attention(0), ssm__conv_kernel=4, ssm__inner_size=5120, ssm__state_size=16, ssm__time_step_rank=160, ssm__dt_b_c_rms=False),
    "mamba2-2.7b": metadata("mamba2", **base(64, 2560, 2**20), **attention(0), ssm__conv_kernel=4, ssm__inner_size=5120, ssm__state_size=128, ssm__time_step_rank=80, ssm__group_count=1),
    "jamba-1.5-mini-52b": metadata(
        "jamba", **base(32, 4096, 262144), **attention(32, kv(32, {4, 12, 20, 28}, 8)), ssm__conv_kernel=4, ssm__inner_size=8192, ssm__state_size=16, ssm__time_step_rank=256,
    ),
    "nemotron-h-8b": metadata(
        "nemotron_h", **{**base(52, 4096, 8192), "feed_forward_length": [21504 if c == "-" else 0 for c in NEMOTRON_H]},
        **attention(32, [8 if c == "*" else 0 for c in NEMOTRON_H], 128), ssm__conv_kernel=4, ssm__inner_size=8192, ssm__state_size=128, ssm__time_step_rank=128, ssm__group_count=8,
    ),
    "falcon-h1-0.5b": metadata("falcon-h1", **base(36, 1024, 16384), **attention(8, 2, 64), ssm__conv_kernel=4, ssm__inner_size=1536, ssm__state_size=128, ssm__time_step_rank=24, ssm__group_count=1),
    "granite-4.0-h-tiny-7b-a1b": metadata(
        "granitehybrid", **base(40, 1536, 131072), **attention(12, kv(40, {5, 15, 25, 35}, 4)), ssm__conv_kernel=4, ssm__inner_size=3072, ssm__state_size=128, ssm__time_step_rank=48, ssm__group_count=1, rope__scaling__finetuned=False,
    ),
    "qwen3-next-80b-a3b": metadata("qwen3next", **base(48, 2048, 262144), **attention(16, 2, 256), **DELTA, ssm__inner_size=4096, ssm__time_step_rank=32, full_attention_interval=4, expert_count=512),
    "qwen3.5-27b": metadata(
        "qwen35", **base(65, 5120, 262144), **attention(24, 4, 256), **DELTA, ssm__inner_size=6144, ssm__time_step_rank=48, full_attention_interval=4, nextn_predict_layers=1, rope__dimension_sections=[11, 11, 10, 0],
    ),
    "minimax-text-01": metadata("minimax-01", **base(80, 6144, 10240000), **attention(64, 8, 128)),
    "lfm2-1.2b": metadata("lfm2", **base(16, 2048, 128000), **attention(32, kv(16, LFM2_FULL, 8)), shortconv__l_cache=3),
    "kimi-linear-48b-a3b": metadata(
        "kimi-linear", **base(27, 2304, 1048576), **attention(32, kv(27, KIMI_LINEAR_MLA, 1), 576, 512, key_length_mla=192, value_length_mla=128, kv_lora_rank=512), rope__dimension_count=64, ssm__conv_kernel=4, kda__head_dim=128,
    ),
    "glm-4.5-air": metadata("glm4moe", **base(47, 4096, 131072), **attention(96, 8, 128), nextn_predict_layers=1, leading_dense_block_count=1),
    "glm-5.2": metadata(
        "glm-dsa", **base(79, 6144, 1048576), **attention(64, 1, **LATENT, indexer__head_count=32, indexer__key_length=128, indexer__top_k=2048), rope__dimension_count=64, nextn_predict_layers=1,
    ),
    "glm-5.3-flash": metadata(
        "glm5-next", **base(46, 4096, 1048576), **attention(64, [*kv(45, set(range(3, 45, 4)), 1), 1], 512, 512, key_length_mla=192, value_length_mla=128, kv_lora_rank=512, q_lora_rank=1536, indexer__head_count=32, indexer__key_length=128, indexer__top_k=2048, indexer__kpool=16),
        rope__dimension_count=0, ssm__conv_kernel=4, kda__head_dim=128, nextn_predict_layers=1, hyper_connection__count=4,
    ),
    "minimax-m2": metadata("minimax-m2", **base(62, 3072, 196608), **attention(48, 8, 128), rope__dimension_count=64),
    "minimax-m3": metadata(
        "minimax-m3", **base(60, 6144, 1048576), **attention(64, 4, 128, indexer__head_count=4, indexer__key_length=128, indexer__top_k=16, indexer__block_size=128, indexer__local_blocks=1), leading_dense_block_count=3,
    ),
    "deepseek-v4-flash": metadata(
        "deepseek4", **base(43, 4096, 1048576), **attention(64, 1, 512, sliding_window=128, q_lora_rank=1024, indexer__head_count=64, indexer__key_length=128, indexer__top_k=512, compress_ratios=[0, 0, *([4, 128] * 21)][:43], output_group_count=8),
        rope__dimension_count=64, hyper_connection__count=4, hash_layer_count=3,
    ),
    "mimo-v2-flash-309b-a15b": metadata(
        "mimo2", **base(51, 4096, 262144),
        **attention(64, [4 if i in {0, 5, 11, 17, 23, 29, 35, 41, 47} else 8 for i in range(51)], 192, 128, sliding_window=128, sliding_window_pattern=[i not in {0, 5, 11, 17, 23, 29, 35, 41, 47} for i in range(51)]),
        nextn_predict_layers=3,
    ),
    "step-3.5-flash": metadata(
        "step35", **base(48, 4096, 262144), **attention([64 if i % 4 == 0 and i < 45 else 96 for i in range(48)], [8] * 48, 128, sliding_window=512, sliding_window_pattern=[i % 4 != 0 or i >= 45 for i in range(48)]), nextn_predict_layers=3,
    ),
    "granite-swash-2b": metadata("granite_swa", **base(24, 2560, 8192), **attention(20, 4, 128, sliding_window=128, sliding_window_pattern=every(24, 4, first=True))),
    "rwkv-7-1.5b": metadata("rwkv7", **base(24, 2048, 2**20), **attention(0), wkv__head_size=64, attention__decay_lora_rank=96, attention__iclr_lora_rank=96, attention__value_residual_mix_lora_rank=64),
    "t5-small": metadata("t5", **base(6, 512, 512), **attention(8, None, 64, relative_buckets_count=32), decoder_start_token_id=0),
    "gpt-2": metadata("gpt2", **base(12, 768, 1024), **attention(12)),
    "falcon-7b": metadata("falcon", **base(32, 4544, 2048), **attention(71, 1), tensor_data_layout="jploski"),
}  # fmt: skip
"""Shipped spec -> metadata of its GGUF."""
