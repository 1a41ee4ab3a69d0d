"""Flags in a log of vLLM: of the resolved configuration, the arguments that differ from the defaults, a command line.

Worked: `{'model': 'org/m', 'tensor_parallel_size': 2}` is `tp` 2.

Source: vLLM 0.33.0, `config/vllm.py` (how a configuration prints), `entrypoints/common/startup.py`, `engine/arg_utils.py`.
"""

from __future__ import annotations

from collections.abc import Iterator

from kvplan.logs import Log, setting

FLAGS = {
    "block_size": "--block-size",
    "max_num_batched_tokens": "--max-num-batched-tokens",
    "max_num_seqs": "--max-num-seqs",
    "num_gpu_blocks_override": "--num-gpu-blocks-override",
    "kv_cache_memory_bytes": "--kv-cache-memory-bytes",
    "gpu_memory_utilization": "--gpu-memory-utilization",
    "mamba_cache_mode": "--mamba-cache-mode",
    "mamba_cache_dtype": "--mamba-cache-dtype",
    "mamba_ssm_cache_dtype": "--mamba-ssm-cache-dtype",
    "mamba_block_size": "--mamba-block-size",
    "enable_prefix_caching": "--enable-prefix-caching",
    "disable_hybrid_kv_cache_manager": "--disable-hybrid-kv-cache-manager",
    "async_scheduling": "--async-scheduling",
    "attention_backend": "--attention-backend",
}
"""Flags that are the engine's own options, under their names in a printed mapping."""

RANKS = {
    "tp": ("tensor_parallel_size", "--tensor-parallel-size"),
    "pp": ("pipeline_parallel_size", "--pipeline-parallel-size"),
    "dp": ("data_parallel_size", "--data-parallel-size"),
    "dcp": ("decode_context_parallel_size", "--decode-context-parallel-size"),
}
DTYPES = {"bfloat16": "bf16", "float16": "fp16", "half": "fp16", "float32": "fp32", "float": "fp32", "fp8_e4m3": "fp8"}


def options_of(flags: dict[str, str]) -> list[str]:
    """The flags that are the engine's own options, as `key=value`; backends are written in capitals."""
    kept = [key for key in FLAGS if key in flags and key != "gpu_memory_utilization"]
    return [f"{key}={flags[key] if key == 'attention_backend' else flags[key].lower()}" for key in kept]


def said(log: Log) -> Iterator[str]:
    """The texts that hold settings, the engine's own resolved configuration first."""
    for word in ("LLM engine (v", "non-default args: ", "vllm serve ", "vllm.entrypoints"):
        for _, line in log.holding(word):
            yield line


def flags_of(said: tuple[str, ...]) -> dict[str, str]:
    """The flags that matter, each as the first text that has it says."""
    found: dict[str, str] = {}
    names = {**FLAGS, **{rank: flags[1] for rank, flags in RANKS.items()}}
    keys = {**{key: key for key in FLAGS}, **{rank: flags[0] for rank, flags in RANKS.items()}}
    for text in said:
        for name, flag in names.items():
            value = setting(text, keys[name]) or setting(text, flag)
            if value is not None and value not in ("None", "") and name not in found:
                found[name] = value
        for name in ("kv_cache_dtype", "dtype", "max_seq_len", "max_model_len"):
            value = setting(text, name) or setting(text, f"--{name.replace('_', '-')}")
            if value is not None and value not in ("None", "") and name not in found:
                found[name] = value
    return found


def cache_dtype(settings: dict[str, str]) -> str | None:
    """The cache's format; None where it is the model's own."""
    cache = settings.get("kv_cache_dtype", "auto").rpartition(".")[2]
    if cache not in ("auto", ""):
        return DTYPES.get(cache, cache)
    model = settings.get("dtype", "auto").rpartition(".")[2]
    return DTYPES[model] if model in ("float16", "half", "float32", "float") else None


def whole(text: str | None) -> int | None:
    """A whole number above 0, None for anything else."""
    return int(text) if text and text.isascii() and text.isdigit() and len(text) < 13 and int(text) else None


def draft_of(said: tuple[str, ...]) -> tuple[tuple[int, str | None], list[str]]:
    """((draft layers held, tokens drafted a step), notes)."""
    for text in said:
        place = text.find("speculative_config")
        if place < 0:
            place = text.find("speculative-config")
        if place < 0:
            continue
        part = text[place : place + 2000]
        if part[:40].partition("=")[2].startswith("None") or part[:40].partition(":")[2].strip().startswith("None"):
            continue
        method, model = setting(part, "method") or "", setting(part, "model") or ""
        count = setting(part, "num_speculative_tokens") or setting(part, "num_spec_tokens")
        if not whole(count):
            continue
        if "mtp" in method or "nextn" in method or (not method and "mtp" in model.lower()):
            return (1, count), []
        if method.startswith("eagle"):
            return (1, count), ["the EAGLE draft is counted as one layer like the model's own"]
        if "assistant" in model.lower():
            return (0, count), ["the draft model reads the cache of the model's own last layers and adds none"]
        if method in ("ngram", "suffix", "") and not model:
            return (0, count), []
        return (0, count), [
            f"the cache of the draft model ({method or 'draft'}) is not counted: its layers are not in the log"
        ]
    return (0, None), []


def models_of(said: tuple[str, ...]) -> tuple[str, ...]:
    """Every name that the texts give the model, the engine's own first."""
    keys = ("model", "model_tag", "served_model_name")
    return tuple(dict.fromkeys(name for text in said for key in keys if (name := setting(text, key))))
