"""What a start-up log of SGLang says: its arguments, its pools and how many tokens they hold.

Its "GB" are 2^30 bytes. Every rank prints the same lines; a second pool of the same kind is the draft's.

Worked: `#tokens: 1000, K size: 0.06 GB` is a pool of 1,000 tokens and its padding page, whose K takes 0.055 to 0.065 GiB.

Source: SGLang 0.5.23, `srt/mem_cache/memory_pool.py`, `swa_memory_pool.py`, `srt/model_executor/pool_configurator.py`,
`srt/managers/scheduler.py`, `srt/entrypoints/engine.py`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from kvplan.logs import Ask, Log, Printed, Reading, Remedy, printed_bytes, printed_count, setting, with_option

GB = r"([0-9]{1,9}\.[0-9]{1,4}) ?GB"
POOL = re.compile(
    rf"KV Cache (?:is allocated|VA upper bound)\.(?: dtype: (?:torch\.)?(\w{{1,30}}),)? #tokens: ([0-9]{{1,15}}),"
    rf" (?:KV size: {GB}|K size: {GB}, V size: {GB})"
)
WORDS = (
    "server_args=",
    "KV Cache is allocated",
    "KV Cache VA upper bound",
    "Mamba Cache is allocated",
    "max_total_num_tokens=",
    "full_layer_tokens=",
)
FLAGS = (
    "page_size",
    "swa_full_tokens_ratio",
    "mamba_full_memory_ratio",
    "max_mamba_cache_size",
    "mamba_ssm_dtype",
    "disable_hybrid_swa_memory",
    "max_running_requests",
    "speculative_num_draft_tokens",
)
RANKS = {"tp": "tp_size", "pp": "pp_size", "dp": "dp_size", "dcp": "dcp_size"}
DTYPES = {
    "bfloat16": "bf16",
    "bf16": "bf16",
    "float16": "fp16",
    "half": "fp16",
    "float32": "fp32",
    "fp8_e4m3": "fp8",
    "float8_e4m3fn": "fp8",
    "fp8_e5m2": "fp8_e5m2",
    "float8_e5m2": "fp8_e5m2",
}


UNSAID = tuple(f"page_size={count}" for count in (1, 16, 32, 64, 128, 256))
"""Options that logs leave out and that change the figures."""


class Pool(NamedTuple):
    """One `KV Cache is allocated` line."""

    line: int
    label: str
    dtype: str | None
    tokens: int
    kv: str | None
    k: str | None
    v: str | None


def read(log: Log) -> Reading | None:
    """What the log says, or None where it is not one of SGLang's."""
    if not any(word in log for word in WORDS):
        return None
    arguments = " ".join(line for _, line in list(log.holding("server_args="))[:2]) or " ".join(
        line for word in ("sglang.launch_server", "sglang serve") for _, line in list(log.holding(word))[:1]
    )
    settings = _settings(arguments)
    target, drafts = _pools(log)
    full, swa = _layer_tokens(log)
    settings |= {"full_layer_tokens": full, "swa_layer_tokens": swa} if full and swa else {}
    options = _options(log, settings, full, target)
    ask = _ask(log, settings, target, options)
    notes = [
        f"the draft model has a pool of its own: {pool.tokens:,} tokens, {_size(pool)} GiB on each rank"
        for pool in drafts
    ]
    if settings.get("enable_dp_attention", "False") == "True":
        notes.append("with data-parallel attention every rank holds whole heads")
    printed = (*_printed(log, target, swa), *_states(log))
    models = tuple(name for key in ("model_path", "served_model_name") if (name := settings.get(key)))
    return Reading(
        "sglang",
        _version(log),
        models,
        settings,
        ask,
        printed,
        notes=tuple(notes),
        measure="max_total_num_tokens",
        remedies=_remedies(ask, settings),
        unsaid=UNSAID,
    )


def _options(log: Log, settings: dict[str, str], full: str | None, target: list[Pool]) -> list[str]:
    """The flags that are the engine's own options, and the tokens and slots that it ended with."""
    total = log.first("max_total_num_tokens=", r"([0-9]{1,15})")
    tokens = full or (total[1] if total else str(target[0].tokens) if target else None)
    options = [f"{key}={settings[key].lower()}" for key in FLAGS if key in settings]
    if tokens:
        options.append(f"max_total_tokens={tokens}")
    mamba = log.first("max_mamba_cache_size: ", r"([0-9]{1,12})")
    if mamba and "max_mamba_cache_size" not in settings:
        options.append(f"max_mamba_cache_size={mamba[1]}")
    return options


def _ask(log: Log, settings: dict[str, str], target: list[Pool], options: list[str]) -> Ask:
    length, given = log.first("context_len=", r"([0-9]{1,15})"), settings.get("context_length", "")
    ranks = {rank: int(settings.get(key, "")) for rank, key in RANKS.items() if settings.get(key, "").isdigit()}
    dtype = _dtype(settings, target)
    context = int(length[1]) if length else int(given) if given.isdigit() else None
    return Ask(context=context, k_dtype=dtype, v_dtype=dtype, options=tuple(options)).replace(
        **{rank: count for rank, count in ranks.items() if count}
    )


def _version(log: Log) -> str | None:
    number = r"v?([0-9]{1,3}\.[0-9]{1,3}[0-9A-Za-z.+]{0,30})"
    found = log.first("sglang ", number) or log.first("sglang==", number)
    return found[1] if found else None


def _remedies(ask: Ask, settings: dict[str, str]) -> tuple[Remedy, ...]:
    """What users change to hold more tokens; the pool is then as large as the bytes that it has now allow."""
    free = tuple(option for option in ask.options if not option.startswith("max_total_tokens="))
    found = []
    if ask.k_dtype in (None, "bf16", "fp16"):
        found.append(Remedy("--kv-cache-dtype fp8_e4m3", {"k_dtype": "fp8", "v_dtype": "fp8", "options": free}))
    if "swa_layer_tokens" in settings:
        found.append(
            Remedy("--swa-full-tokens-ratio 0.2", {"options": with_option(free, "swa_full_tokens_ratio=0.2")}),
        )
    found.append(Remedy(f"--tp {ask.tp * 2}, the same room on each", {"tp": ask.tp * 2, "options": free}))
    return tuple(found)


def _settings(arguments: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for key in (
        *FLAGS,
        *RANKS.values(),
        "model_path",
        "served_model_name",
        "kv_cache_dtype",
        "dtype",
        "context_length",
        "mem_fraction_static",
        "max_total_tokens",
        "enable_dp_attention",
        "speculative_algorithm",
    ):
        value = setting(arguments, key) or setting(arguments, f"--{key.replace('_', '-')}")
        if value is not None and value not in ("None", ""):
            found[key] = value
    return found


def _pools(log: Log) -> tuple[list[Pool], list[Pool]]:
    """(the target's pools, the draft's): each once, though every rank prints it."""
    found: dict[tuple[object, ...], Pool] = {}
    for number, line in log.holding("KV Cache "):
        match = POOL.match(line)
        if match:
            before = log.lines[number - 1].partition("KV Cache ")[0].rstrip()
            label = "swa" if before.endswith("SWA") else "full" if before.endswith("Full") else ""
            pool = Pool(number, label, match[1], int(match[2]), match[3], match[4], match[5])
            found.setdefault(pool[1:], pool)
    pools = list(found.values())
    full, swa = _layer_tokens(log)
    if full and swa:
        labelled = [
            pool._replace(label="swa" if pool.tokens == int(swa) else "full")
            for pool in pools
            if pool.tokens in (int(full), int(swa))
        ]
        target = [next((pool for pool in labelled if pool.label == label), None) for label in ("full", "swa")]
        kept = [pool for pool in target if pool is not None]
        lines = {pool.line for pool in kept}
        return kept, [pool for pool in pools if pool.line not in lines]
    if any(pool.label for pool in pools):
        target = [next((pool for pool in pools if pool.label == label), None) for label in ("full", "swa")]
        kept = [pool for pool in target if pool is not None]
        return kept, [pool for pool in pools if pool not in kept]
    return pools[:1], pools[1:]


def _size(pool: Pool) -> str:
    return pool.kv or f"{float(pool.k or 0) + float(pool.v or 0):.2f}"


def _layer_tokens(log: Log) -> tuple[str | None, str | None]:
    found = log.first("full_layer_tokens=", r"([0-9]{1,15}), swa_layer_tokens=([0-9]{1,15})")
    return (found[1], found[2]) if found else (None, None)


def _dtype(settings: dict[str, str], target: list[Pool]) -> str | None:
    """The cache's format: as the pool says, else as the flag does; None where it is the model's own."""
    told = settings.get("kv_cache_dtype", "auto")
    if told not in ("auto", ""):
        return DTYPES.get(told, told)
    if target and target[0].dtype:
        return DTYPES.get(target[0].dtype, target[0].dtype)
    return None


def _printed(log: Log, target: list[Pool], swa: str | None) -> Iterator[Printed]:
    for pool in target:
        name = f"{pool.label} pool" if pool.label else "pool"
        if pool.kv:
            yield printed_bytes(f"{name} KV size", pool.kv, "GiB", _figure(pool, "kv"), pool.line, "GB")
        if pool.k and pool.v:
            yield printed_bytes(f"{name} K size", pool.k, "GiB", _figure(pool, "k"), pool.line, "GB")
            yield printed_bytes(f"{name} V size", pool.v, "GiB", _figure(pool, "v"), pool.line, "GB")
    for number, match in log.found("swa_layer_tokens=", r"([0-9]{1,15})"):
        if match[1] == swa:
            yield printed_count("swa_layer_tokens", match[1], "tokens", "swa_layer_tokens", number)
            break
    for number, match in log.found("SWAKVPool mem usage: ", GB):
        yield printed_bytes("SWAKVPool mem usage", match[1], "GiB", "k_bytes+v_bytes", number, "GB")
        break


def _figure(pool: Pool, part: str) -> str:
    """The engine's figure of one pool: it gives the window pool, and both together."""
    if pool.label == "swa":
        return f"swa_{part}_bytes"
    return f"{part}_bytes-swa_{part}_bytes" if pool.label == "full" else f"{part}_bytes"


def _states(log: Log) -> Iterator[Printed]:
    """The pools of recurrent states."""
    for word, name, figure in (
        ("conv_state size: ", "conv_state size", "conv_state_bytes"),
        ("ssm_state size: ", "ssm_state size", "ssm_state_bytes"),
        ("intermediate_ssm_state_cache size: ", "intermediate_ssm_state_cache size", "intermediate_ssm_bytes"),
    ):
        for number, match in log.found(word, GB):
            yield printed_bytes(name, match[1], "GiB", figure, number, "GB")
            break
