"""Why the engine takes more or less than the architecture needs: short phrases, the weightiest first.

Each phrase is weighed by the bytes that its cause adds or saves.

Worked: Gemma-3-27B at 1,000 tokens: 24 cells of padding in 10 full layers and in 52 windows; the windows weigh more.

Source: the rules of this engine's caches; no figure comes from here.
"""

from __future__ import annotations

from kvplan.engine.llama_cpp.caches import F32_BYTES, Cache, row_bytes
from kvplan.engine.llama_cpp.context import NAMES, Context
from kvplan.engine.llama_cpp.shape import CSA_RATIO, HCA_RATIO, LayerShape, Shape
from kvplan.formats import format_named
from kvplan.record import Record
from kvplan.spec import ModelSpec
from kvplan.tensor import ITEM_BYTES
from kvplan.workload import Workload


class Why(Record):
    """The question that the phrases answer."""

    spec: ModelSpec
    workload: Workload
    shape: Shape
    context: Context


def reasons(why: Why, caches: list[Cache], on_host: bool) -> tuple[str, ...]:
    """The phrases for this model and workload."""
    found: dict[str, int] = {}
    for count, layer in why.shape.distinct:
        weighed = [_cells(why, cache, layer) for cache in caches]
        if not layer.draft:
            weighed += [_types(why, layer), _values(why, layer), _index(why, layer), _states(why, layer)]
        for phrase, weight in weighed:
            if weight:
                found[phrase] = found.get(phrase, 0) + count * abs(weight)
    ordered = sorted(found, key=lambda phrase: -found[phrase])
    context, asked = why.context, why.workload
    if on_host:
        ordered.insert(0, "the cache stays in host memory")
    if not context.kv_unified and context.n_ctx_seq < asked.context:
        ordered.append(f"a sequence has {context.n_ctx_seq:,} cells, fewer than the context")
    if context.n_parallel < asked.batch:
        ordered.append(f"{context.n_parallel:,} sequences at once, fewer than the batch")
    return tuple(ordered)


def _cells(why: Why, cache: Cache, layer: LayerShape) -> tuple[str, int]:
    """Cells beyond the rows that are alive."""
    held = None if cache.recurrent else cache.layer(layer)
    if held is None:
        return "", 0
    context, asked, window = why.context, why.workload, layer.window
    streams = context.n_parallel if why.shape.compressed else context.streams
    if cache.name == "swa":
        rows = min(asked.context, window or 0)
        phrase = f"windows of {window or 0:,} hold {cache.cells:,} cells"
        if asked.context <= (window or 0) and cache.cells == context.n_ctx_seq:
            phrase = _padding(why)
    elif cache.name in ("csa", "hca") or (why.shape.compressed and cache.name == "indexer"):
        rows = asked.context // (HCA_RATIO if cache.name == "hca" else CSA_RATIO)
        phrase = "compressed entries padded to 256 cells"
    else:
        unbounded = why.shape.ignored_window
        rows = min(asked.context, unbounded) if unbounded else asked.context
        phrase = f"windows of {unbounded:,} are not applied" if unbounded else _padding(why)
    total = cache.cells * streams
    return phrase, (held.first + held.second) * (total - rows * asked.batch) // total


def _padding(why: Why) -> str:
    """Tokens beside the cells they have."""
    return f"{why.workload.context * why.workload.batch:,} tokens in {why.context.n_ctx:,} cells"


def _types(why: Why, layer: LayerShape) -> tuple[str, int]:
    """K and V in another type than the one they would have elsewhere."""
    fields, asked, context = why.spec.fields, why.workload, why.context
    usual = [format_named(name or fields.kv_dtype or fields.dtype).name for name in (asked.k_dtype, asked.v_dtype)]
    usual = [NAMES.get(name, name) for name in usual]
    if usual == [context.type_k, context.type_v]:
        return "", 0
    elements = (layer.k + layer.entry, layer.v)
    weight = 0
    for name, cache_type, width in zip(usual, (context.type_k, context.type_v), elements, strict=True):
        bits = format_named(name).bits
        weight += row_bytes(cache_type, width) - int(width * bits // 8)
    types = context.type_k if context.type_k == context.type_v else f"{context.type_k} and {context.type_v}"
    return f"K and V in {types}, not {usual[0]}", weight * asked.context * asked.batch


def _values(why: Why, layer: LayerShape) -> tuple[str, int]:
    """V as wide as the widest, where it stands transposed."""
    context = why.context
    if context.flash_attn != "off" or not layer.v or layer.v == why.shape.widest_v:
        return "", 0
    added = row_bytes(context.type_v, why.shape.widest_v) - row_bytes(context.type_v, layer.v)
    return "without flash attention V is as wide as in the widest layer", added * context.n_ctx


def _index(why: Why, layer: LayerShape) -> tuple[str, int]:
    """Index keys in K's type."""
    added = row_bytes(why.context.type_k, layer.index) + (
        row_bytes(why.context.type_v, layer.v_head) if layer.index else 0
    )
    phrase = f"index keys in {why.context.type_k}{', with a V beside them' if layer.v else ''}"
    return phrase, added * why.workload.context * why.workload.batch if layer.index else 0


def _states(why: Why, layer: LayerShape) -> tuple[str, int]:
    """Rows in f32 for every sequence that may come; the compressors' own of DeepSeek-V4."""
    context, batch = why.context, why.workload.batch
    if layer.ratio:
        rows = HCA_RATIO if layer.ratio == HCA_RATIO else 4 * CSA_RATIO
        return "compressors keep values and scores in f32", layer.entry * rows * 2 * F32_BYTES * context.states
    item = ITEM_BYTES[why.spec.fields.dtype]
    rows = context.states
    more = layer.r * (F32_BYTES * rows - item * batch) + layer.s * F32_BYTES * (rows - batch)
    many = f", {rows:,} of each" if rows > 1 else ""
    return f"convolutions and states in f32{many}", more
