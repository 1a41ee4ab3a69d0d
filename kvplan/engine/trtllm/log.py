"""What a start-up log of TensorRT-LLM says: memory left, blocks, and what the pool was allocated.

Worked: `Allocated 0.56 GiB for max tokens in paged KV cache (8224)` is 257 blocks of 32 tokens in 0.555 to 0.565 GiB.

Source: TensorRT-LLM, `cpp/tensorrt_llm/batch_manager/kvCacheManager.cpp` of releases 0.12 to 1.2, `tensorrt_llm/_torch/pyexecutor/resource_manager.py`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from fractions import Fraction

from kvplan.logs import Ask, Log, Printed, Reading, Remedy, printed_bytes, printed_count, setting

GIB = r"([0-9]{1,9}(?:\.[0-9]{1,4})?) ?GiB"
WHOLE = r"([0-9]{1,15})"
WORDS = (
    "[TensorRT-LLM]",
    "[TRT-LLM]",
    "max tokens in paged KV cache",
    "blocks in KV cache primary pool",
    "TensorRT-LLM version: ",
)
FLAGS = {
    "tp": ("tensor_parallel_size", "--tp_size", "tp_size"),
    "pp": ("pipeline_parallel_size", "--pp_size", "pp_size"),
}
FRACTIONS = (
    "free_gpu_memory_fraction",
    "kv_cache_free_gpu_memory_fraction",
    "--kv_cache_free_gpu_memory_fraction",
    "kv_cache_free_gpu_mem_fraction",
)
SHARE = re.compile(r"[01](?:\.[0-9]{1,6})?|[0-9]{1,6}/[0-9]{1,6}")
DTYPES = {"fp8": "fp8", "int8": "int8", "nvfp4": "nvfp4", "bfloat16": "bf16", "float16": "fp16"}


def read(log: Log) -> Reading | None:
    """What the log says, or None where it is not one of TensorRT-LLM's."""
    if not any(word in log for word in WORDS):
        return None
    settings = _settings(log, _said(log))
    block = settings.get("tokens_per_block")
    options = [f"tokens_per_block={block}"] if block else []
    left = next(
        (printed_bytes("memory left", match[1], "GiB", "", n) for n, match in log.found("available: ", GIB)), None
    )
    budget = _budget(left, settings)
    tokens = log.first("for max tokens in paged KV cache (", WHOLE)
    if budget is None and tokens:
        options.append(f"max_tokens={tokens[1]}")
    if "max_attention_window" in settings:
        options.append(f"max_attention_window={settings['max_attention_window']}")
    ranks = {rank: int(value) for rank in FLAGS if (value := settings.get(rank, "")).isdigit() and int(value)}
    length = log.first("max_seq_len=", WHOLE) or log.first("maxSequenceLen: ", WHOLE)
    dtype = settings.get("kv_cache_dtype", "auto").lower()
    ask = Ask(
        context=int(length[1]) if length else None,
        k_dtype=DTYPES.get(dtype),
        v_dtype=DTYPES.get(dtype),
        options=tuple(options),
        budget=budget,
        spare_block=True,
    ).replace(**ranks)
    models = tuple(dict.fromkeys(name for name in (settings.get("model"),) if name))
    notes = [f"{left.text} were left when the pool was sized"] if left else []
    return Reading(
        "trtllm",
        _version(log),
        models,
        settings,
        ask,
        tuple(_printed(log)),
        notes=tuple(notes),
        measure="max_tokens",
        remedies=_remedies(ask),
        unsaid=tuple(f"tokens_per_block={count}" for count in (32, 64, 128)),
    )


def _said(log: Log) -> list[str]:
    """The lines that hold settings."""
    return [
        line
        for word in ("trtllm-serve", "trtllm-bench", "LlmArgs", "LLM Args", "KvCacheConfig", "kv_cache_config")
        for _, line in list(log.holding(word))[:3]
    ]


def _version(log: Log) -> str | None:
    version = (
        log.first("TensorRT-LLM version: ", r"([0-9][0-9A-Za-z.+]{1,40})")
        or log.first("TensorRT-LLM Version:", r" {0,20}([0-9][0-9A-Za-z.+]{1,40})")
        or log.first("Engine version ", r"([0-9][0-9A-Za-z.+]{1,40})")
    )
    return version[1] if version else None


def _remedies(ask: Ask) -> tuple[Remedy, ...]:
    """What users change to hold more tokens."""
    free = tuple(option for option in ask.options if not option.startswith("max_tokens="))
    found = []
    if ask.k_dtype in {None, "bf16", "fp16"}:
        found.append(Remedy("--kv_cache_dtype fp8", {"k_dtype": "fp8", "v_dtype": "fp8", "options": free}))
    found.append(Remedy(f"--tp_size {ask.tp * 2}, the same room on each", {"tp": ask.tp * 2, "options": free}))
    return tuple(found)


def _budget(left: Printed | None, settings: dict[str, str]) -> Printed | None:
    """The room for the cache: a share of what was left, where the log says both."""
    share = settings.get("free_gpu_memory_fraction")
    if share is None and "kv_memory_percentage" in settings:
        share = f"{Fraction(settings['kv_memory_percentage']) / 100}"
    if left is None or share is None or not SHARE.fullmatch(share):
        return None
    part = Fraction(share)
    return left.replace(text=f"{left.text} x {float(part):g}", low=left.low * part, high=left.high * part)


def _settings(log: Log, text: list[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for line in text:
        for name, keys in FLAGS.items():
            for key in keys:
                if name not in found and (value := setting(line, key)):
                    found[name] = value
        for key in FRACTIONS:
            if (value := setting(line, key)) and "free_gpu_memory_fraction" not in found:
                found["free_gpu_memory_fraction"] = value
        for key in ("dtype", "kv_cache_dtype"):
            place = line.find("kv_cache_config")
            if place >= 0 and (value := setting(line[place:], key)):
                found.setdefault("kv_cache_dtype", value)
        for key in ("model", "--model"):
            if value := setting(line, key):
                found.setdefault("model", value)
    for word, pattern, name in (
        ("Number of tokens per block: ", WHOLE, "tokens_per_block"),
        ("tokens_per_block=", WHOLE, "tokens_per_block"),
        ("KV Cache Dtype:", r" {0,20}(\w{1,20})", "kv_cache_dtype"),
        ("TP Size:", r" {0,20}([0-9]{1,4})", "tp"),
        ("PP Size:", r" {0,20}([0-9]{1,4})", "pp"),
        ("Model:", r" {0,30}([\w./-]{1,200})", "model"),
        ("KV Memory Percentage:", r" {0,20}([0-9]{1,3}\.[0-9]{1,2})%", "kv_memory_percentage"),
    ):
        match = log.first(word, pattern)
        if match:
            found.setdefault(name, match[1])
    return found


def _printed(log: Log) -> Iterator[Printed]:
    for number, match in log.found("blocks in KV cache primary pool: ", WHOLE):
        yield printed_count("blocks in primary pool", match[1], "blocks", "num_blocks", number)
        break
    for number, match in log.found("Allocated ", GIB + r" for max tokens in paged KV cache \(" + WHOLE):
        yield printed_count("max tokens in paged KV cache", match[2], "tokens", "max_tokens", number)
        yield printed_bytes("allocated", match[1], "GiB", "max_tokens*bytes_per_token", number)
        break
