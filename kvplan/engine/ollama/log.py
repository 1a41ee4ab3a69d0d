"""What Ollama's server log says: its own estimate, the runner it starts, and the runner's lines of llama.cpp.

Worked: `--ctx-size 8192 --parallel 4` is 4 requests of 2,048 tokens; `memory.required.kv="1.0 GiB"` is its estimate of the cache.

Source: Ollama releases 0.3 to 0.34, `llm/memory.go`, `llm/server.go`, `server/sched.go`.
"""

from __future__ import annotations

from kvplan.engine.llama_cpp.log import TYPES
from kvplan.engine.llama_cpp.log import read as read_llama_cpp
from kvplan.logs import Ask, Log, Printed, Reading, Remedy, printed_bytes, setting, with_option

WORDS = ("memory.required.kv=", 'msg="starting llama server"', 'msg="starting runner"', "OLLAMA_", "ollama runner")
SIZE = r'"?([0-9]{1,9}(?:\.[0-9]{1,3})?) (GiB|MiB|KiB|B)'


def read(log: Log) -> Reading | None:
    """What the log says, or None where it is not one of Ollama's."""
    if not any(word in log for word in WORDS):
        return None
    beneath = read_llama_cpp(log)
    command = next((line for word in ("--ctx-size", "--num-ctx") for _, line in log.holding(word)), "")
    settings = {
        key.lstrip("-"): value
        for key in ("--ctx-size", "--parallel", "--batch-size", "--kv-cache-type", "--n-gpu-layers")
        if (value := setting(command, key))
    }
    for key in ("OLLAMA_CONTEXT_LENGTH", "OLLAMA_NUM_PARALLEL", "OLLAMA_KV_CACHE_TYPE", "OLLAMA_FLASH_ATTENTION"):
        found = log.first(f"{key}:", r"([\w.]{1,30})")
        if found:
            settings[key] = found[1]
    printed = tuple(_printed(log))
    ask = _ask(settings, beneath)
    version = log.first("Listening on ", r"\S{1,100} \(version ([0-9][0-9A-Za-z.-]{1,40})\)")
    return Reading(
        "ollama",
        version[1] if version else None,
        beneath.models if beneath else (),
        {**settings, **(beneath.settings if beneath else {})},
        ask,
        (*printed, *(beneath.printed if beneath else ())),
        metadata=beneath.metadata if beneath else {},
        notes=beneath.notes if beneath else (),
        measure="kv_bytes",
        less=True,
        remedies=_remedies(ask),
    )


def _remedies(ask: Ask) -> tuple[Remedy, ...]:
    """What users change to make the cache smaller."""
    found = [
        Remedy(f"OLLAMA_KV_CACHE_TYPE={kind}", {"k_dtype": kind, "v_dtype": kind})
        for kind in ("q8_0", "q4_0")
        if kind != ask.k_dtype
    ]
    options = dict(option.split("=") for option in ask.options)
    if options.get("num_parallel", "1") != "1":
        found.append(Remedy("OLLAMA_NUM_PARALLEL=1", {"options": with_option(ask.options, "num_parallel=1")}))
    if ask.context and ask.context > 4096:
        half = ask.context // 2
        found.append(
            Remedy(
                f"OLLAMA_CONTEXT_LENGTH={half}",
                {"context": half, "options": with_option(ask.options, f"num_ctx={half}")},
            )
        )
    return tuple(found)


def _ask(settings: dict[str, str], beneath: Reading | None) -> Ask:
    """What Ollama asks of the runner: its own flags where the log has them, else the runner's context."""
    below = beneath.ask if beneath else Ask()
    inner = dict(option.split("=", 1) for option in below.options)
    size, parallel = (
        settings.get("ctx-size") or inner.get("n_ctx", ""),
        settings.get("parallel") or inner.get("n_parallel", "1"),
    )
    seqs = int(parallel) if parallel.isdigit() and int(parallel) else 1
    kind = settings.get("kv-cache-type") or settings.get("OLLAMA_KV_CACHE_TYPE") or None
    dtype = below.k_dtype or (TYPES.get(kind, kind) if kind else None)
    if not size.isdigit() or not int(size):
        return Ask(k_dtype=dtype, v_dtype=dtype)
    length = max(1, int(size) // seqs)
    options = [f"num_ctx={length}", f"num_parallel={seqs}"]
    batch = inner.get("n_ubatch") or settings.get("batch-size", "")
    if batch.isdigit() and int(batch):
        options.append(f"num_batch={batch}")
    return Ask(context=length, k_dtype=dtype, v_dtype=dtype, options=tuple(options))


def _printed(log: Log) -> list[Printed]:
    found: list[Printed] = []
    for number, match in log.found("memory.required.kv=", SIZE):
        found = [printed_bytes("memory.required.kv", match[1], match[2], "kv_bytes", number)]
    return found
