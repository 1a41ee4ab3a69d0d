"""What llama.cpp's architectures leave unsaid in their files: window patterns, mixers, which layers recur.

Source: llama.cpp as vendored by llama-cpp-python 0.3.36: `load_arch_hparams` of each file in
src/models, `llm_arch_is_recurrent` and `llm_arch_is_hybrid` in src/llama-arch.cpp, and
`create_memory` in src/llama-model.cpp.
"""

from __future__ import annotations

from kvplan.record import Record


class Windowed(Record):
    """How an architecture places its windows where the file does not list them layer by layer.

    every: of so many layers one is full and the rest slide; 0: all slide; None: the file must list them.
    full_first: the full layer comes first, not last. window: tokens where the file does not say.
    needed: the file must say; else a file without a window has none. chunk: windows are chunks.
    """

    every: int | None
    full_first: bool = False
    window: int | None = None
    needed: bool = False
    chunk: bool = False


WINDOWED = {
    **dict.fromkeys(("llama", "mistral3", "phi3", "phimoe", "lfm2"), Windowed(0)),
    "gemma2": Windowed(2, window=4096),
    "gpt-oss": Windowed(2, needed=True),
    "gemma3": Windowed(6),
    "gemma3n": Windowed(5, needed=True),
    "plamo3": Windowed(8),
    **dict.fromkeys(("afmoe", "mellum", "olmo2"), Windowed(4)),
    **dict.fromkeys(("cohere2", "exaone-moe", "muse-glimmer"), Windowed(4, needed=True)),
    "exaone4": Windowed(4),
    "llama4": Windowed(4, window=8192, chunk=True),
    **dict.fromkeys(("laguna", "smallthinker"), Windowed(4, full_first=True)),
    "cohere2moe": Windowed(4, full_first=True, needed=True),
    **dict.fromkeys(("gemma4", "granite_swa", "maple", "mimo2", "spark2_5", "step35"), Windowed(None, needed=True)),
}

UNWINDOWED = frozenset(("llama", "mistral3", "phi3", "phimoe"))
"""Windows that the model has, and llama.cpp's loader switches off or does not ask for."""

PLAIN = frozenset(
    (
        "apertus", "arcee", "arctic", "baichuan", "bailingmoe", "bailingmoe2", "bitnet", "bloom", "chameleon",
        "chatglm", "codeshell", "cogvlm", "command-r", "dbrx", "deci", "deepseek", "deepseek2-ocr", "dots1",
        "ernie4_5", "ernie4_5-moe", "exaone", "falcon", "gemma", "glm4", "glm4moe", "gpt2", "gptj", "gptneox",
        "granite", "granitemoe", "grok", "grovemoe", "hrm_text", "hunyuan-dense", "hunyuan-moe", "hunyuan_vl",
        "hy_v3", "internlm2", "jais", "jais2", "maincoder", "minicpm", "minimax-m2", "mpt", "nanbeige", "nemotron",
        "olmo", "olmoe", "openelm", "orion", "paddleocr", "pangu-embedded", "phi2", "plamo", "qwen", "qwen2",
        "qwen2moe", "qwen2vl", "qwen3", "qwen3moe", "qwen3vl", "qwen3vlmoe", "refact", "seed_oss", "smollm3",
        "stablelm", "starcoder", "starcoder2", "t5", "talkie", "xverse",
    )
)  # fmt: skip
"""Attention in every layer, and all of it in the keys."""

LATENT = frozenset(("deepseek2", "deepseek32", "glm-dsa", "minicpm3", "mistral4", "plm"))
"""One latent per token in every layer (MLA)."""

INDEXED = frozenset(("deepseek32", "glm-dsa", "glm5-next", "minimax-m3"))
"""Layers with an indexer beside their cache."""

MIXERS = {
    **dict.fromkeys(("mamba", "jamba", "plamo2"), "mamba1"),
    **dict.fromkeys(("mamba2", "falcon-h1", "granitehybrid", "nemotron_h", "nemotron_h_moe"), "mamba2"),
    **dict.fromkeys(("qwen3next", "qwen35", "qwen35moe"), "gated_deltanet"),
    **dict.fromkeys(("kimi-linear", "kimi-k3", "bailingmoe3", "glm5-next"), "kda"),
    **dict.fromkeys(("lfm2", "lfm2moe"), "short_conv"),
    **dict.fromkeys(("rwkv6", "rwkv6qwen2", "rwkv7", "arwkv7"), "rwkv7"),
    "minimax-01": "lightning",
}
"""The recurrent mixer of an architecture that has one."""

PURE = frozenset(("mamba", "mamba2", "rwkv6", "rwkv6qwen2", "rwkv7", "arwkv7"))
"""Every layer recurs and none attends."""

INTERVALS = {"qwen3next": 4, "qwen35": 4, "qwen35moe": 4, "minimax-01": 8}
"""Every so-manieth layer attends; elsewhere a layer recurs where it has no key-value heads."""

COMPRESSED = frozenset(("deepseek4",))

COUNTED = PLAIN | LATENT | INDEXED | COMPRESSED | set(WINDOWED) | set(MIXERS)

KEEPS_NOTHING = frozenset(
    (
        "bert", "clip", "dream", "eurobert", "gemma-embedding", "jina-bert-v2", "jina-bert-v3", "llada", "llada-moe",
        "modern-bert", "neo-bert", "nomic-bert", "nomic-bert-moe", "rnd1", "t5encoder", "wavtokenizer-dec",
    )
)  # fmt: skip
"""Encoders and diffusion models: llama.cpp gives them no memory."""

HARMLESS = frozenset(
    (
        "vocab_size", "context_length", "embedding_length", "embedding_length_out", "embedding_length_per_layer_input",
        "features_length", "leading_dense_block_count", "attn_res.block_size", "feed_forward_length",
        "use_parallel_residual", "tensor_data_layout", "n_deepstack_layers", "deepstack_mapping", "hidden_activation",
        "activation_sparsity_scale", "pooling_type", "logit_scale", "decoder_start_token_id", "attn_logit_softcapping",
        "router_logit_softcapping", "final_logit_softcapping", "swin_norm", "rescale_every_n_layers",
        "time_mix_extra_dim", "time_decay_extra_dim", "residual_scale", "embedding_scale", "interleave_moe_layer_step",
        "skip_loop_final_norm", "hash_layer_count", "ssm.dt_b_c_rms", "ssm.time_step_rank", "kda.safe_gate",
        "kda.gate_lower_bound",
        *(
            f"attention.{name}"
            for name in (
                "max_alibi_bias", "clamp_kqv", "layer_norm_epsilon", "layer_norm_rms_epsilon", "group_norm_epsilon",
                "group_norm_groups", "causal", "q_lora_rank", "decay_lora_rank", "iclr_lora_rank",
                "value_residual_mix_lora_rank", "gate_lora_rank", "relative_buckets_count", "rope_pattern", "scale",
                "output_scale", "value_scale", "temperature_length", "temperature_scale", "output_group_count",
                "output_lora_rank", "compress_rope_freq_base", "key_length_mla", "value_length_mla",
                "indexer.head_count", "indexer.top_k", "indexer.block_size", "indexer.local_blocks",
                "indexer.kpool_select_tail",
            )
        ),
    )
)  # fmt: skip
"""Keys that change what is computed and not what is kept."""

HARMLESS_BEGINNINGS = (
    "rope.", "expert", "moe_", "swiglu_clamp", "activation.", "classifier.", "altup.", "dense_", "hyper_connection.",
    "vision.", "audio.", "mm.", "hrm.",
)  # fmt: skip
SHAPES_A_CACHE = (
    "attention.", "ssm.", "kda.", "wkv.", "shortconv.", "ple.", "adapters.", "loop", "cache", "window", "chunk",
    "recurrent", "token_shift", "full_attention", "block_count", "nextn", "kv", "state", "compress", "share",
)  # fmt: skip
"""Words in a key that say it may change the cache: unread and unknown, it is refused."""
