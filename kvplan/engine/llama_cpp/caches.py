"""The engine's caches of one model: cells, layers and bytes of each, as its log lists them.

    K or V of a cache:  layers x row(type, elements) x cells x streams
    r, s:               layers x elements x 4 bytes x sequences x (1 + n_rs_seq), always f32

Worked: Llama-3.1-8B in 1,024 cells of f16: 32 layers x 2,048 bytes x 1,024 = 67,108,864 bytes of K and as many of V.

Source: llama.cpp build 11549, src/llama-kv-cache*.cpp and src/llama-memory-recurrent.cpp, executed.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from kvplan.engine.llama_cpp.context import Context, padded
from kvplan.engine.llama_cpp.shape import CSA_RATIO, HCA_RATIO, POOLED_INDEX_PARTS, LayerShape, Shape
from kvplan.formats import format_named
from kvplan.growth import PerToken
from kvplan.record import Record
from kvplan.tensor import CacheTensor, Role
from kvplan.units import ceil_div

F32_BYTES = 4


class Held(Record):
    """Bytes that one layer holds in one cache, all streams: K or r first, V or s second."""

    first: int
    second: int = 0


class Cache(Record):
    """One cache of the engine.

    cells: of one stream, as logged; sequences for recurrent rows and compressor states. recurrent: its two
    parts are r and s, else K and V. layer: what one layer holds, None where it is not in this cache.
    """

    name: str
    cells: int
    layer: Callable[[LayerShape], Held | None]
    recurrent: bool = False

    def figures(self, shape: Shape) -> dict[str, int | str]:
        """Its name, cells, layers and bytes under the engine's own names."""
        found = [(count, held) for count, layer in shape.distinct if (held := self.layer(layer)) is not None]
        first, second = ("r_bytes", "s_bytes") if self.recurrent else ("k_bytes", "v_bytes")
        return {
            "name": self.name,
            "cells": self.cells,
            "layers": sum(count for count, _ in found),
            first: sum(count * held.first for count, held in found),
            second: sum(count * held.second for count, held in found),
        }


@lru_cache(maxsize=512)
def row_bytes(cache_type: str, elements: int) -> int:
    """Bytes of a row of `elements` numbers.

    >>> row_bytes("f16", 1024), row_bytes("q8_0", 1024), row_bytes("q4_0", 576)
    (2048, 1088, 324)

    Raises: InputError where blocks of the type do not fill the row.
    """
    if not elements:
        return 0
    tensor = CacheTensor("row", Role.K, (elements,), PerToken(), shards=1)
    return sum(part.row_bytes for part in format_named(cache_type).stored(tensor, None, PerToken(), "fp16"))


def caches_of(shape: Shape, context: Context) -> list[Cache]:
    """Every cache that the engine makes for the model, in the order of its log."""
    if shape.compressed:
        return _compressed_caches(shape, context)
    caches = []
    if any(layer.k and not layer.draft for _, layer in shape.distinct):
        caches.append(_attention("base", context.n_ctx_seq, shape, context, lambda layer: layer.window is None))
    if any(layer.window is not None for _, layer in shape.distinct):
        cells = context.window_cells(shape.window or 0)
        caches.append(_attention("swa", cells, shape, context, lambda layer: layer.window is not None))
    if any(layer.index for _, layer in shape.distinct):
        caches.append(_index(shape, context))
    if any(layer.r or layer.s for _, layer in shape.distinct):
        caches.append(_recurrent(context))
    if any(layer.draft for _, layer in shape.distinct):
        caches.append(_drafts(context))
    return caches


def _attention(name: str, cells: int, shape: Shape, context: Context, belongs: Callable[[LayerShape], bool]) -> Cache:
    """Keys and values; V as wide as the widest layer's where it stands transposed."""

    def held(layer: LayerShape) -> Held | None:
        if not layer.k or layer.draft or not belongs(layer):
            return None
        v = shape.widest_v if layer.v and context.flash_attn == "off" else layer.v
        rows = cells * context.streams
        return Held(row_bytes(context.type_k, layer.k) * rows, row_bytes(context.type_v, v) * rows)

    return Cache(name, cells, held)


def _index(shape: Shape, context: Context) -> Cache:
    """Index keys, one head per token in K's type; where the model keeps values, a V head that nothing reads too."""

    def held(layer: LayerShape) -> Held | None:
        if not layer.index:
            return None
        parts = POOLED_INDEX_PARTS if layer.index_ratio > 1 else 1
        rows = context.n_ctx_seq * context.streams
        return Held(
            row_bytes(context.type_k, layer.index * parts) * rows, row_bytes(context.type_v, layer.v_head) * rows
        )

    return Cache("indexer", context.n_ctx_seq, held)


def _drafts(context: Context) -> Cache:
    """Draft layers in a context as long as the model's, in types of their own, which are f16 unless told."""

    def held(layer: LayerShape) -> Held | None:
        rows = context.n_ctx_seq * context.streams
        return Held(row_bytes("f16", layer.k) * rows, row_bytes("f16", layer.v) * rows) if layer.draft else None

    return Cache("mtp", context.n_ctx_seq, held)


def _recurrent(context: Context) -> Cache:
    """Convolution and state rows in f32, one per sequence and one more for each snapshot of it."""

    def held(layer: LayerShape) -> Held | None:
        if not layer.r and not layer.s:
            return None
        return Held(layer.r * F32_BYTES * context.states, layer.s * F32_BYTES * context.states)

    return Cache("recurrent", context.n_parallel, held, recurrent=True)


def _compressed_caches(shape: Shape, context: Context) -> list[Cache]:
    """DeepSeek-V4: windows, entries and index keys without V, never unified, and f32 states of the compressors."""
    streams, type_k = context.n_parallel, context.type_k

    def keys(name: str, cells: int, elements: Callable[[LayerShape], int]) -> Cache:
        def held(layer: LayerShape) -> Held | None:
            width = elements(layer)
            return Held(row_bytes(type_k, width) * cells * streams) if width else None

        return Cache(name, cells, held)

    def state(name: str, rows: int, elements: Callable[[LayerShape], int]) -> Cache:
        def held(layer: LayerShape) -> Held | None:
            width = elements(layer)
            return Held(*(width * rows * F32_BYTES * context.states,) * 2) if width else None

        return Cache(name, streams, held, recurrent=True)

    def entry_of(ratio: int) -> Callable[[LayerShape], int]:
        return lambda layer: layer.entry if layer.ratio == ratio else 0

    csa, hca = (padded(max(1, ceil_div(context.n_ctx_seq, ratio))) for ratio in (CSA_RATIO, HCA_RATIO))
    return [
        keys("base", context.n_ctx_seq, lambda _: 0),
        keys("swa", context.window_cells(shape.window or 0, unified=False), lambda layer: layer.entry),
        keys("csa", csa, entry_of(CSA_RATIO)),
        keys("hca", hca, entry_of(HCA_RATIO)),
        keys("indexer", csa, lambda layer: layer.index),
        state("csa_state", 2 * CSA_RATIO, lambda layer: 2 * entry_of(CSA_RATIO)(layer)),
        state("hca_state", HCA_RATIO, entry_of(HCA_RATIO)),
        state("indexer_state", 2 * CSA_RATIO, lambda layer: 2 * layer.index),
    ]
