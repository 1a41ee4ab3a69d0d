"""What a start-up log of vLLM says: model, flags, the room for the cache and the figures made of it.

Worked: `Available KV cache memory: 60.00 GiB` is 60 GiB give or take 5,368,709 bytes.

Source: vLLM 0.33.0, `v1/core/kv_cache_utils.py`, `v1/core/kv_cache_planning.py`, `v1/worker/gpu_worker.py`,
`v1/engine/core.py`, `platforms/interface.py`; earlier wordings from releases 0.5 to 0.29.
"""

from __future__ import annotations

from collections.abc import Iterator

from kvplan.engine.vllm.log_flags import RANKS, cache_dtype, draft_of, flags_of, models_of, options_of, said, whole
from kvplan.logs import (
    Ask,
    Log,
    Printed,
    Reading,
    Remedy,
    printed_bytes,
    printed_count,
    printed_share,
    with_option,
)

NUMBER = r"([0-9]{1,3}(?:,[0-9]{3}){1,5}|[0-9]{1,18})"
GIB = r"(-?[0-9]{1,9}(?:\.[0-9]{1,6})?) ?(GiB|GB)"

WORDS = (
    "KV cache size: ",
    "Maximum concurrency for ",
    "Available KV cache memory: ",
    "# GPU blocks: ",
    "# cuda blocks: ",
    "non-default args: ",
    "LLM engine (v",
    "rest of the memory reserved for KV Cache",
    "kv_cache_size=",
    "To serve at least one request",
    "maximum number of tokens that can be stored in KV cache",
    "vLLM API server version",
)


UNSAID = (
    "disable_hybrid_kv_cache_manager=true",
    *(f"max_num_batched_tokens={count}" for count in (2048, 4096, 8192, 16384, 32768)),
    "enable_prefix_caching=false",
    *(f"block_size={count}" for count in (16, 32, 64, 128, 256)),
    "attention_backend=FLASH_ATTN_MLA",
    "attention_backend=FLASHINFER_MLA",
    "gdn_prefill_backend=flashinfer",
)
"""Options that logs leave out and that change the figures."""


def read(log: Log) -> Reading | None:
    """What the log says, or None where it is not one of vLLM's."""
    if not any(word in log for word in WORDS):
        return None
    texts = tuple(said(log))
    settings = flags_of(texts)
    budget, notes = _budget(log)
    printed = tuple(_printed(log))
    length = _length(log, settings)
    draft, spec_notes = draft_of(texts)
    options = options_of(settings)
    options += [f"num_speculative_tokens={draft[1]}"] if draft[1] else []
    if "block_size" not in settings and any(word in log for word in ("device_config=xpu", "[XPU]")):
        options.append("block_size=64")
    if "attention_backend" not in settings and "device_config=cpu" in log:
        options.append("attention_backend=CPU_ATTN")
    dtype = "fp8_ds_mla" if "fp8_ds_mla KV cache format" in log else cache_dtype(settings)
    ask = Ask(
        context=length,
        k_dtype=dtype,
        v_dtype=dtype,
        **{rank: whole(settings.get(rank)) or 1 for rank in RANKS},
        mtp=draft[0],
        options=tuple(options),
        budget=budget,
        spare_block="larger than the available KV cache memory" in log,
    )
    return Reading(
        "vllm",
        _version(log),
        models_of(texts),
        settings,
        ask,
        printed,
        notes=(*notes, *spec_notes),
        measure="kv_cache_size_tokens",
        remedies=_remedies(ask),
        unsaid=(*UNSAID, *(f"num_speculative_tokens={count}" for count in range(1, 7) if ask.mtp)),
    )


def _remedies(ask: Ask) -> tuple[Remedy, ...]:
    """What users change to hold more tokens."""
    found = []
    if ask.k_dtype in (None, "bf16", "fp16", "fp32"):
        found.append(Remedy("--kv-cache-dtype fp8", {"k_dtype": "fp8", "v_dtype": "fp8"}))
    if ask.context and ask.context > 8192:
        found.append(Remedy(f"--max-model-len {ask.context // 2}", {"context": ask.context // 2}))
    if any(option == "disable_hybrid_kv_cache_manager=true" for option in ask.options):
        off = with_option(ask.options, "disable_hybrid_kv_cache_manager=false")
        found.append(Remedy("without --disable-hybrid-kv-cache-manager", {"options": off}))
    found += [
        Remedy(f"--{key.replace('_', '-')} {value}", {"options": with_option(ask.options, f"{key}={value}")})
        for key, value in (("max_num_batched_tokens", "2048"), ("async_scheduling", "false"))
    ]
    if ask.mtp:
        rest = tuple(option for option in ask.options if not option.startswith("num_speculative_tokens="))
        found.append(Remedy("without --speculative-config", {"mtp": 0, "options": rest}))
    if ask.tp > 1 and ask.dcp == 1:
        found.append(Remedy(f"--decode-context-parallel-size {ask.tp}", {"dcp": ask.tp}))
    found.append(Remedy(f"--tensor-parallel-size {ask.tp * 2}, the same room on each", {"tp": ask.tp * 2}))
    return tuple(found)


def _length(log: Log, settings: dict[str, str]) -> int | None:
    """The longest request: of the concurrency line, else of the refusal, else of the flags."""
    found = (
        log.first("Maximum concurrency for ", NUMBER)
        or log.first("model's max seq len (", NUMBER)
        or log.first("model's max seq len ", rf"\({NUMBER}")
    )
    if found:
        return int(found[1].replace(",", ""))
    for key in ("max_seq_len", "max_model_len"):
        length = whole(settings.get(key))
        if length:
            return length
    return None


def _version(log: Log) -> str | None:
    for word in ("LLM engine (v", "vLLM API server version ", "vLLM version ", "vllm/vllm-openai:v"):
        found = log.first(word, r"v?([0-9]{1,3}\.[0-9]{1,3}[0-9A-Za-z.+_-]{0,40})")
        if found:
            return found[1]
    return None


def _budget(log: Log) -> tuple[Printed | None, list[str]]:
    """The room for the cache on the poorest rank that the log shows."""
    ranks = []
    for word, name in (
        ("Available KV cache memory: ", "Available KV cache memory"),
        ("rest of the memory reserved for KV Cache is ", "reserved for KV cache"),
        ("kv_cache_size=", "kv_cache_size"),
    ):
        ranks += [
            printed_bytes(name, match[1], "GiB", "", line, least_places=2)
            for line, match in log.found(word, GIB)
            if not match[1].startswith("-")
        ]
        if ranks:
            break
    if not ranks:
        refused = log.first("larger than the available KV cache memory (", GIB)
        if refused:
            return printed_bytes("available KV cache memory", refused[1], "GiB", "", 0, least_places=2), []
        return None, []
    least = min(ranks, key=lambda printed: printed.low)
    notes = []
    if len({printed.text for printed in ranks}) > 1:
        most = max(ranks, key=lambda printed: printed.low)
        notes.append(f"ranks have {least.text} to {most.text}: the poorest decides for all")
    return least, notes


COUNTS = (
    ("# GPU blocks: ", NUMBER, "GPU blocks", "num_gpu_blocks", "blocks"),
    ("# cuda blocks: ", NUMBER, "GPU blocks", "num_gpu_blocks", "blocks"),
    ("KV cache size: ", NUMBER + " tokens", "KV cache size", "kv_cache_size_tokens", "tokens"),
    ("can be stored in KV cache (", NUMBER, "tokens in KV cache", "kv_cache_size_tokens", "tokens"),
    ("estimated maximum model length is ", NUMBER, "estimated maximum model length", "max_model_len", "tokens"),
    ("Setting attention block size to ", NUMBER, "attention block size", "block_size", "tokens"),
    ("max_model_len: reduced from ", r"[0-9]{1,15} to " + NUMBER, "auto-fit max_model_len", "max_model_len", "tokens"),
)
"""Whole numbers: the word before them, their pattern, what they are, the figure that predicts them, their unit."""


def _printed(log: Log) -> Iterator[Printed]:
    """Each figure once; of several the last, which is the one the engine runs with."""
    for word, pattern, name, figure, unit in COUNTS:
        found = list(log.found(word, pattern))[-1:]
        yield from (printed_count(name, match[1], unit, figure, line) for line, match in found)
    many = NUMBER + r" tokens per request: ([0-9]{1,9}\.[0-9]{1,4})x"
    for line, match in list(log.found("Maximum concurrency for ", many))[-1:]:
        yield printed_share(f"maximum concurrency for {match[1]} tokens", match[2], "x", "max_concurrency", line)
    for line, match in list(log.found("max seq len (", NUMBER + r"\),? {0,2}\(?" + GIB + " KV"))[:1]:
        yield printed_bytes("KV cache needed", match[2], "GiB", "bytes_per_request", line, least_places=2)
    for line, match in list(log.found("Padding mamba page size by ", r"([0-9]{1,9}\.[0-9]{1,4})%"))[:1]:
        yield printed_share("mamba page padding", match[1], "%", "", line)
