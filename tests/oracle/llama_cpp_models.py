"""Synthetic models for the real llama.cpp: random shapes of many architectures, each with the spec that describes it.

The metadata is what a converter writes; the spec says the same in kvplan's words. Weights are as small as an
architecture lets them be, since only the caches are weighed.
"""

from __future__ import annotations

from collections.abc import Callable

from llama_cpp_attention import (
    dense,
    gemma4,
    latent,
    llama4,
    mimo2,
    minimax_m3,
    odd_heads,
    sliding,
    windowed_throughout,
)
from llama_cpp_recurrent import falcon_h1, gated_deltanet, hybrid, kda, mamba, mamba2, minimax_01, nemotron_h, rwkv7
from llama_cpp_shapes import EXPERTS, INDEXER, Dice, Synthetic

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
