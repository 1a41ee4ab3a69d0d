"""transformers: the bytes that Hugging Face's own cache classes hold, as one process runs the model.

Two figures: `logical_bytes` is what the cache's tensors show, `storage_bytes` what their storages keep
allocated. They differ where a tensor is a view of something larger; storage is what the process has to pay,
so it is what the engine reserves. Both count distinct tensors and include the int64 counters of some layers.

The cache is `dynamic` (what a model and `generate` make themselves), `static` or `quantized`. The first update
brings `prefill` tokens (all of them by default), the rest come one by one.

Worked: Llama-3.1-8B at 8,192 tokens: 1,073,741,824 bytes dynamic, 256 more static (32 counters).

Source: transformers 5.24.0 cache_utils.py; every rule was executed with real forwards and compared byte for byte.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from kvplan.account import Account, Device, general_account
from kvplan.engine import EngineOption, Options, Reservation
from kvplan.engine.transformers.dips import dynamic_steps, passed_after, quantized_steps
from kvplan.engine.transformers.dynamic import dynamic_layer
from kvplan.engine.transformers.held import (
    COUNTER_BYTES,
    Held,
    Tensors,
    Updates,
    crosses,
    distinct,
    held,
    together,
    window_of,
)
from kvplan.engine.transformers.quantized import quantization, quantized_layer, split
from kvplan.engine.transformers.recurrent import counts_once
from kvplan.engine.transformers.static import static_layer
from kvplan.errors import InputError
from kvplan.formats import INDEX_FORMATS, format_named
from kvplan.policy.full import Full
from kvplan.spec import ModelSpec
from kvplan.tensor import ITEM_BYTES, Role
from kvplan.workload import Workload

CACHES = ("dynamic", "static", "quantized")
ONLY_OF = {
    "max_cache_len": "static",
    "backend": "quantized",
    "nbits": "quantized",
    "q_group_size": "quantized",
    "residual_length": "quantized",
}


class Transformers:
    """Hugging Face transformers in one process."""

    NAME: ClassVar[str] = "transformers"
    VERSIONS: ClassVar[tuple[str, ...]] = ("5.24",)
    SUMMARY: ClassVar[str] = "what the cache classes of Hugging Face transformers hold, in one process"
    SOURCE: ClassVar[str] = "transformers 5.24.0 cache_utils.py, executed and weighed"
    OPTIONS: ClassVar[Mapping[str, EngineOption]] = {
        "cache": EngineOption(CACHES, "dynamic", "which cache class holds the rows"),
        "prefill": EngineOption("int", "the context", "tokens of the first update; the rest come one by one"),
        "max_cache_len": EngineOption("int", "the context", "rows that a static cache allocates"),
        "backend": EngineOption(("quanto", "hqq"), "quanto", "library that quantizes"),
        "nbits": EngineOption("int", "4", "bits per code: 2 or 4 (quanto), 1, 2, 3, 4 or 8 (hqq)"),
        "q_group_size": EngineOption("int", "64", "numbers that share a scale and a shift"),
        "residual_length": EngineOption(
            "int", "128", "tokens that wait in the model's dtype before they are quantized"
        ),
    }

    def reserve(
        self, spec: ModelSpec, workload: Workload, options: Options, version: str, budget_bytes: int | None = None
    ) -> Reservation:
        """The bytes that one process holds; storage is what it reserves."""
        cache = _cache(options)
        _check(spec, workload, cache)
        layers = distinct(spec.runs)
        updates = _updates(spec, workload, options, layers)
        total = _total(layers, updates, cache, options)
        figures: dict[str, int | float | str] = {
            "cache": cache,
            "logical_bytes": total.logical_bytes,
            "storage_bytes": total.storage_bytes,
            "counter_bytes": total.counters * COUNTER_BYTES,
            "prefill": updates.first,
        }
        if cache == "static":
            figures["max_cache_len"] = updates.rows
        if cache == "quantized":
            figures["quantized_tokens"], figures["residual_tokens"] = split(
                updates, quantization(options).residual_length
            )
        return Reservation(self.NAME, version, total.storage_bytes, figures, total.reasons)

    def given_budget(self, spec: ModelSpec, workload: Workload, options: Options, version: str) -> int | None:
        """None: the library takes what it needs, when it needs it."""
        return None

    def account(self, spec: ModelSpec, workload: Workload, options: Options, version: str, device: Device) -> Account:
        """The general account: the library has no rule of its own."""
        return general_account(device)

    def dip_tokens(self, spec: ModelSpec, workload: Workload, options: Options) -> int:
        """How far below a length that fits a shorter one may not: where views let go, or a residual is flushed."""
        cache, layers = _cache(options), distinct(spec.runs)
        updates = _updates(spec, workload, options, layers)
        prefilled = "prefill" in options
        filled = max([updates.first, *(window_of(t) or 1 for _, layer in layers for t in layer)])
        if cache == "quantized":
            return passed_after(quantized_steps(layers, updates, quantization(options), prefilled), filled)
        return passed_after(dynamic_steps(layers, updates, prefilled and cache == "dynamic"), filled)


def _cache(options: Options) -> str:
    cache = str(options.get("cache", "dynamic"))
    for option, owner in ONLY_OF.items():
        if option in options and cache != owner:
            raise InputError(f"-E {option}: belongs to cache={owner}, found cache={cache}", f"-E cache={owner}")
    return cache


def _check(spec: ModelSpec, workload: Workload, cache: str) -> None:
    """Refuse what the library's caches do not do."""
    for option, ranks in (("--tp", workload.tp), ("--pp", workload.pp), ("--dcp", workload.dcp)):
        if ranks > 1:
            raise InputError(
                f"{option}: found {ranks}, but transformers is counted for one process", f"leave out {option}"
            )
    if not isinstance(workload.policy, Full):
        raise InputError(
            f"--policy: found {workload.policy_text}, but transformers keeps every row",
            "--policy full, or --engine ideal",
        )
    if workload.prefix:
        raise InputError(
            f"--prefix: found {workload.prefix:,}, but transformers shares no rows between sequences",
            "leave out --prefix",
        )
    if workload.mtp:
        raise InputError(
            f"--mtp: found {workload.mtp}, but transformers keeps draft layers out of this cache", "leave out --mtp"
        )
    dtype = spec.fields.dtype
    fix = (
        "-E nbits= says how many bits; leave out --kv-dtype"
        if cache == "quantized"
        else "leave out --kv-dtype, or -E cache=quantized"
    )
    for option, name in (("--k-dtype", workload.k_dtype), ("--v-dtype", workload.v_dtype)):
        if name is not None and format_named(name, option).name != dtype:
            raise InputError(f"{option}: found {name}, but transformers caches in the model's dtype, {dtype}", fix)
    indexed = any(t.role is Role.INDEX for _, layer in spec.runs for t in layer.tensors())
    index = format_named(workload.index_dtype, "--index-dtype", INDEX_FORMATS).name
    if indexed and index not in ("fp8", dtype):  # fp8 is what the option says when nobody sets it
        raise InputError(
            f"--index-dtype: found {index}, but transformers caches index keys in the model's dtype, {dtype}",
            f"--index-dtype {dtype}",
        )


def _updates(spec: ModelSpec, workload: Workload, options: Options, layers: list[tuple[int, Tensors]]) -> Updates:
    context = workload.context
    rows = int(options.get("max_cache_len", context))
    if rows < context:
        raise InputError(
            f"-E max_cache_len: found {rows:,}, allowed the context of {context:,} and more",
            f"-E max_cache_len={context}",
        )
    encoder_tokens = workload.encoder_tokens or spec.fields.encoder_tokens
    if encoder_tokens is None and any(crosses(t) for _, layer in layers for t in layer):
        raise InputError(
            f"{spec.source}: encoder_tokens: missing, and {spec.name} attends to an encoder of any length",
            "add --encoder-tokens N",
        )
    dtype = spec.fields.dtype
    first = min(int(options.get("prefill", context)), context)
    return Updates(workload.batch, context, first, rows, ITEM_BYTES[dtype], dtype, encoder_tokens or 0, spec.source)


def _total(layers: list[tuple[int, Tensors]], updates: Updates, cache: str, options: Options) -> Held:
    """All layers, and the one counter of a cache class that counts once for all of them."""
    if cache == "dynamic":
        parts = [(count, dynamic_layer(layer, updates)) for count, layer in layers]
    elif cache == "static":
        parts = [(count, static_layer(layer, updates)) for count, layer in layers]
    else:
        chosen = quantization(options)
        parts = [(count, quantized_layer(layer, updates, chosen)) for count, layer in layers]
    if any(counts_once(layer) for _, layer in layers):
        parts.append((1, held(0, counters=1)))
    return together(parts)


ENGINE = Transformers()
