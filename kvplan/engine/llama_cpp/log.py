"""What a start-up log of llama.cpp says: the file's metadata, the context, and the size of every cache.

llama-server, llama-cpp-python and forks print the same lines. A log may build several contexts (a probe
for `--fit`, a draft); each begins anew, and the largest is the model's own.

Worked: `size =  128.00 MiB (  1024 cells,  32 layers,  1/1 seqs), K (f16):   64.00 MiB` is K of 64 MiB give or take 5,243 bytes.

Source: llama.cpp as vendored by llama-cpp-python 0.3.36: `src/llama-kv-cache.cpp`, `llama-kv-cache-iswa.cpp`,
`llama-memory-recurrent.cpp`, `llama-context.cpp`, `llama-model.cpp`, `llama-model-loader.cpp`; "KV self size" of older releases.
"""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Any

from kvplan.engine.llama_cpp.log_metadata import metadata
from kvplan.logs import Ask, Log, Printed, Reading, Remedy, printed_bytes, printed_count, with_option

MIB = r" {0,12}([0-9]{1,9}\.[0-9]{1,4}) (MiB|MB)"
SIZE = re.compile(
    rf"size {{1,3}}={MIB} \( {{0,10}}([0-9]{{1,12}}) cells, {{0,6}}([0-9]{{1,6}}) layers, {{0,6}}([0-9]{{1,6}})(?:/([0-9]{{1,6}}))? seqs"
    r"(?: {1,3}([0-9]{1,6}) rs_seq)?\)"
)
PARTS = re.compile(rf"([KVRS]) \((\w{{1,12}})\):{MIB}")
SELF_SIZE = re.compile(rf"(?:KV|kv) self size {{0,3}}={MIB}")
BUFFER = re.compile(rf"(\S{{1,40}}) (KV|RS) buffer size ={MIB}")
CONTEXT = re.compile(
    r"\b(n_ctx|n_ctx_seq|n_ctx_per_seq|n_seq_max|n_batch|n_ubatch|n_rs_seq|kv_unified|flash_attn) {0,20}= (\w{1,20})"
)
BUILD = re.compile(r"\b(?:build|version): {1,2}(?:b)?([0-9]{4,6})\b")
CREATING = re.compile(r"creating {1,6}(non-SWA|SWA|main|indexer|DSA|DSV4 [\w -]{1,40}?) ?KV cache")
WORDS = (
    "KV buffer size =",
    "RS buffer size =",
    "llama_memory_recurrent: ",
    " self size ",
    "llama_model_loader: ",
    "print_info: arch",
    "llm_load_print_meta: ",
    "llama_context: n_ctx",
    "llama_kv_cache",
)
UNSAID = (
    "swa_full=true",
    *(f"n_rs_seq={count}" for count in (1, 2, 3, 4, 6)),
    "kv_unified=true",
    "kv_unified=false",
    *(f"n_ubatch={n}" for n in (128, 256, 1024, 2048, 4096)),
)
"""Options that logs leave out and that change the figures."""


MOST_CONTEXTS = 64
MOST_CACHES = 200


class Context:
    """One context of a log: its settings and the caches that it printed."""

    def __init__(self) -> None:
        self.settings: dict[str, str] = {}
        self.caches: list[dict[str, Any]] = []
        self.buffers: list[tuple[int, str, str, Printed]] = []
        self.self_size: list[Printed] = []
        self.coming: str | None = None

    @property
    def keeps_values(self) -> bool:
        """True where V takes bytes, in the line of a cache or in that of all."""
        printed = [p for cache in self.caches for p in cache["printed"]] + self.self_size
        return any(" V (" in f" {p.name}" and p.value > 0 for p in printed)

    @property
    def weight(self) -> float:
        """Bytes of all its caches, as printed."""
        return float(sum(cache["size"].value for cache in self.caches) + sum(p.value for p in self.self_size[:1]))


def read(log: Log) -> Reading | None:
    """What the log says, or None where it is not one of llama.cpp's."""
    if not any(word in log for word in WORDS):
        return None
    contexts = _contexts(log)
    main = max(contexts, key=lambda context: context.weight) if contexts else Context()
    values, models = metadata(log, main.keeps_values)
    if not (main.weight or values):
        return None
    build = next((match[1] for _, line in _lines(log, ("build: ", "version: ")) if (match := BUILD.search(line))), None)
    printed = [p for cache in main.caches for p in cache["printed"]] + _sums(main) + main.self_size
    notes = [
        f"another context holds {other.weight / 2**20:,.2f} MiB more (a draft, or a probe of --fit)"
        for other in contexts
        if other is not main and other.caches and other.weight < main.weight
    ]
    settings = {**main.settings, **_types(main)}
    ask = _ask(main)
    return Reading(
        "llama.cpp",
        f"b{build}" if build else None,
        models,
        settings,
        ask,
        tuple(printed),
        metadata=values,
        notes=tuple(dict.fromkeys(notes)),
        measure="kv_bytes",
        less=True,
        remedies=_remedies(ask),
        unsaid=UNSAID,
    )


def _remedies(ask: Ask) -> tuple[Remedy, ...]:
    """What users change to make the cache smaller."""
    found = [
        Remedy(f"-ctk {kind} -ctv {kind}", {"k_dtype": kind, "v_dtype": kind})
        for kind in ("q8_0", "q4_0")
        if kind not in {ask.k_dtype, ask.v_dtype}
    ]
    options = dict(option.split("=") for option in ask.options)
    seqs = int(options.get("n_parallel", "1"))
    if seqs > 1:
        found.append(Remedy("-np 1", {"options": with_option(ask.options, "n_parallel=1")}))
        if options.get("kv_unified") == "false":
            found.append(Remedy("--kv-unified", {"options": with_option(ask.options, "kv_unified=true")}))
    if int(options.get("n_ubatch", "512")) > 256:
        found.append(Remedy("-ub 256", {"options": with_option(ask.options, "n_ubatch=256")}))
    size = int(options.get("n_ctx", "0"))
    if size > 4096:
        half = {"context": (ask.context or size) // 2, "options": with_option(ask.options, f"n_ctx={size // 2}")}
        found.append(Remedy(f"-c {size // 2}", half))
    return tuple(found)


def _lines(log: Log, words: tuple[str, ...]) -> list[tuple[int, str]]:
    return [found for word in words for found in log.holding(word)]


def _contexts(log: Log) -> list[Context]:
    """Every context that printed something, in order."""
    contexts = [Context()]
    for number, line in enumerate(log.lines, 1):
        if len(contexts) > MOST_CONTEXTS:
            break
        if "constructing llama_context" in line and "_kv" not in line:
            contexts.append(Context())
        here = contexts[-1]
        if " = " in line and (
            "llama_context" in line or "llama_new_context" in line or "llama_init_from_model" in line
        ):
            found = CONTEXT.search(line[:300])
            if found:
                if found[1] == "n_ctx" and here.caches:
                    contexts.append(here := Context())
                here.settings.setdefault(found[1], found[2])
        if "creating " in line and (found := CREATING.search(line[:300])):
            here.coming = found[1]
        if len(here.caches) + len(here.buffers) > MOST_CACHES:
            continue
        if " cells, " in line and (found := SIZE.search(line[:600])):
            _add_cache(here, number, line, found)
        elif " self size " in line and (found := SELF_SIZE.search(line[:400])):
            _add_self_size(here, number, line, found)
        elif "buffer size =" in line and (found := BUFFER.search(line[:300])):
            shown = printed_bytes(f"{found[1]} {found[2]} buffer", found[3], "MiB", "", number, found[4])
            here.buffers.append((len(here.caches), found[1], found[2], shown))
    return [context for context in contexts if context.caches or context.self_size or context.buffers]


def _add_cache(here: Context, number: int, line: str, found: re.Match[str]) -> None:
    parts = PARTS.findall(line[found.end() : found.end() + 200])
    recurrent = "recurrent" in line[: found.start()] or any(letter == "R" for letter, *_ in parts)
    name = "recurrent" if recurrent else {"SWA": "swa", "indexer": "indexer"}.get(here.coming or "", "base")
    if not recurrent:
        here.coming = None
    size = printed_bytes(f"{name} cache", found[1], "MiB", f"caches.{name}.bytes", number, found[2])
    printed = [size]
    for letter, kind, number_text, unit in parts:
        key = f"caches.{name}.{letter.lower()}_bytes"
        printed.append(printed_bytes(f"{name} {letter} ({kind})", number_text, "MiB", key, number, unit))
    if not recurrent:
        printed.append(printed_count(f"{name} cells", found[3], "cells", f"caches.{name}.cells", number))
    types = {letter.lower(): kind for letter, kind, *_ in parts}
    seqs, streams, copies = found[5], found[6], found[7]
    here.caches.append(
        {
            "name": name,
            "size": size,
            "printed": printed,
            "types": types,
            "seqs": seqs,
            "streams": streams,
            "copies": copies,
        }
    )


def _add_self_size(here: Context, number: int, line: str, found: re.Match[str]) -> None:
    """The one line of older releases: all caches together."""
    here.self_size = [printed_bytes("KV self size", found[1], "MiB", "kv_bytes", number, found[2])]
    types = {}
    for letter, kind, text, unit in PARTS.findall(line[found.end() : found.end() + 200]):
        here.self_size.append(
            printed_bytes(f"{letter} ({kind})", text, "MiB", f"caches.all.{letter.lower()}_bytes", number, unit)
        )
        types[letter.lower()] = kind
    here.settings.setdefault("type_k", types.get("k", "f16"))
    here.settings.setdefault("type_v", types.get("v", "f16"))


def _sums(main: Context) -> list[Printed]:
    """What the devices hold together, where several hold a cache; one device repeats the cache's own line."""
    sums = []
    for index, cache in enumerate(main.caches):
        shown = [printed for place, _, _, printed in main.buffers if place == index]
        if len(shown) > 1:
            text = " + ".join(printed.text.partition(" ")[0] for printed in shown)
            low, high = sum((p.low for p in shown), Fraction()), sum((p.high for p in shown), Fraction())
            sums.append(
                Printed(
                    f"{cache['name']} buffers of {len(shown)} devices",
                    f"{text} MiB" if len(text) < 40 else f"{float(low + high) / 2**21:.2f} MiB",
                    "MiB",
                    2,
                    low,
                    high,
                    f"caches.{cache['name']}.bytes",
                    shown[0].line,
                )
            )
    return sums


def _types(main: Context) -> dict[str, str]:
    for cache in main.caches:
        if cache["name"] != "recurrent" and cache["types"]:
            return {f"type_{letter}": kind for letter, kind in cache["types"].items()}
    return {}


def _ask(main: Context) -> Ask:
    settings = {**main.settings, **_types(main)}
    seqs = next((cache["seqs"] for cache in main.caches), settings.get("n_seq_max", "1"))
    streams = next((cache["streams"] for cache in main.caches if cache["streams"]), None)
    options = [f"n_parallel={seqs}"]
    context = int(settings["n_ctx"]) if settings.get("n_ctx", "").isdigit() else None
    base = next((cache for cache in main.caches if cache["name"] == "base"), None)
    if context is None and base is not None:
        cells = next(int(p.low) for p in base["printed"] if p.unit == "cells")
        context = cells * int(streams or 1)
    if context:
        options.append(f"n_ctx={context}")
    unified = settings.get("kv_unified")
    if unified in ("true", "false"):
        options.append(f"kv_unified={unified}")
    elif streams and int(seqs) > 1:
        options.append(f"kv_unified={'true' if streams == '1' else 'false'}")
    options += [f"{key}={settings[key]}" for key in ("n_ubatch", "n_batch") if settings.get(key, "").isdigit()]
    copies = next((cache["copies"] for cache in main.caches if cache["copies"]), settings.get("n_rs_seq"))
    if copies and copies.isdigit() and int(copies):
        options.append(f"n_rs_seq={copies}")
    split = int(seqs) if unified == "false" or (streams and streams != "1") else 1
    return Ask(
        context=context and max(1, context // split),
        batch=1,
        k_dtype=TYPES.get(settings.get("type_k", ""), settings.get("type_k")),
        v_dtype=TYPES.get(settings.get("type_v", ""), settings.get("type_v")),
        options=tuple(options),
    )


TYPES = {"f16": "fp16", "f32": "fp32", "bf16": "bf16"}
