"""Which cache class of mlx-lm a layer gets, and the bytes it holds after a run.

A layer's tensors tell its class: K and V that grow are a `KVCache` (a latent and its rotary part are one, too),
under a window a `RotatingKVCache`, under a chunk a `ChunkedKVCache`, an index a second `KVCache` that keeps its
keys twice, states and convolutions an `ArraysCache`. Dtypes are set by the models' code: states are fp32, but
those of one number per channel, of token shifts and of Mamba-1 beside attention have the model's dtype.

Worked: 8 heads of 128 in 16 bit: 4,096 bytes per row; in 4 bit with groups of 64: 1,152.

Source: mlx-lm 0.32.2 mlx_lm/models/, tiny models of each kind executed on a CPU.

>>> quantized_width(128, 2, Quantized(4, 64, 5000)), quantized_width(128, 2, Quantized(8, 64, 5000))
(72, 136)
"""

from __future__ import annotations

from collections.abc import Iterator

from kvplan.engine.mlx.rows import Feed, chunked_rows, full_rows, rotating_rows
from kvplan.errors import InputError, NotCountableError
from kvplan.growth import Chunk, Constant, PerToken, Window
from kvplan.record import Record
from kvplan.spec import ModelSpec, distinct_layers
from kvplan.tensor import ITEM_BYTES, CacheTensor, Role

Tensors = tuple[CacheTensor, ...]
RECURRENT = frozenset({Role.STATE, Role.CONV})
KEEPS_WINDOWS = ("gemma-2-",)
"""Models with windowed layers whose file in mlx-lm gives every layer a plain `KVCache`."""
EXPANDS_LATENTS = ("deepseek-v2", "deepseek-coder-v2", "minicpm3")
"""Models whose file in mlx-lm caches keys and values expanded from the latent."""


class Quantized(Record):
    """The options of a quantized cache: bits per number, numbers per scale, and the length from which it is one."""

    bits: int
    group_size: int
    start: int


class Cache(Record):
    """One cache object: its class, bytes per row of one sequence, rows of its window or chunk, fixed bytes.

    quantized_row_bytes: the same row once quantized, None where the class never is.
    """

    name: str
    row_bytes: int
    bound: int = 0
    fixed_bytes: int = 0
    quantized_row_bytes: int | None = None

    def rows(self, feed: Feed) -> int:
        """Rows held after `feed`."""
        match self.name:
            case "RotatingKVCache":
                return rotating_rows(feed, self.bound)
            case "ChunkedKVCache":
                return chunked_rows(feed, self.bound)
            case "ArraysCache":
                return 0
            case _:
                return full_rows(feed)

    def bytes(self, feed: Feed, quantized: bool) -> int:
        """Bytes one sequence holds after `feed`."""
        row = self.quantized_row_bytes if quantized and self.quantized_row_bytes is not None else self.row_bytes
        return self.fixed_bytes + row * self.rows(feed)


def quantized_width(width: int, item_bytes: int, chosen: Quantized) -> int:
    """Bytes of a row of `width` numbers: codes, and a scale and a bias per group."""
    return width * chosen.bits // 8 + 2 * item_bytes * (width // chosen.group_size)


def caches_of(spec: ModelSpec, max_kv_size: int | None, quantized: Quantized | None) -> list[tuple[int, Cache]]:
    """Every distinct cache object and how many there are, in order of first appearance.

    Raises: NotCountableError for a layer whose class in mlx-lm is not known.
    """
    if spec.name.startswith(EXPANDS_LATENTS):
        raise _unknown(spec, "latent", "mlx-lm's file for this model caches expanded keys and values instead")
    layers = [(count, layer.tensors()) for count, layer in distinct_layers(spec.runs)]
    plain = all(_only_attention(tensors) for _, tensors in layers)
    windows = [isinstance(t.growth, Window) for _, tensors in layers for t in tensors]
    ignores = spec.name.startswith(KEEPS_WINDOWS) or (plain and bool(windows) and all(windows))
    bound = max_kv_size if plain and (ignores or not any(windows)) else None
    found: dict[Cache, int] = {}
    for count, tensors in layers:
        for cache in _layer(spec, tensors, ignores, bound, quantized):
            found[cache] = found.get(cache, 0) + count
    return [(count, cache) for cache, count in found.items()]


def _only_attention(tensors: Tensors) -> bool:
    return bool(tensors) and all(
        t.role in {Role.K, Role.V, Role.LATENT} and isinstance(t.growth, PerToken | Window) for t in tensors
    )


def _layer(
    spec: ModelSpec, tensors: Tensors, ignores: bool, bound: int | None, quantized: Quantized | None
) -> Iterator[Cache]:
    """The cache objects of one layer."""
    item_bytes = ITEM_BYTES[spec.fields.dtype]
    attention = [t for t in tensors if t.role in {Role.K, Role.V, Role.LATENT}]
    index = [t for t in tensors if t.role is Role.INDEX]
    recurrent = [t for t in tensors if t.role in RECURRENT]
    if len(attention) + len(index) + len(recurrent) < len(tensors):
        raise _unknown(spec, "entry", "mlx-lm's own class for compressed entries was never weighed")
    if attention:
        alone = not index and not recurrent
        yield _attention(spec, attention, ignores, bound, quantized if alone else None, item_bytes)
    for tensor in index:
        if not isinstance(tensor.growth, PerToken):
            raise _unknown(spec, tensor.name, "an index of fewer keys than tokens was never weighed in mlx-lm")
        yield Cache("KVCache", 2 * tensor.elements * item_bytes)
    if recurrent:
        yield Cache("ArraysCache", 0, 0, sum(_fixed(spec, t, recurrent, item_bytes) for t in recurrent))


def _attention(
    spec: ModelSpec, pair: list[CacheTensor], ignores: bool, bound: int | None, chosen: Quantized | None, item: int
) -> Cache:
    law, row = pair[0].growth, sum(t.elements for t in pair) * item
    if any(t.growth != law for t in pair) or len(pair) > 2 or not isinstance(law, PerToken | Window | Chunk):
        raise _unknown(spec, pair[-1].name, f"no cache of mlx-lm holds rows by {type(pair[-1].growth).__name__} here")
    if isinstance(law, Chunk):
        return Cache("ChunkedKVCache", row, law.tokens)
    if isinstance(law, Window) and not ignores:
        return Cache("RotatingKVCache", row, law.tokens)
    if bound is not None:
        return Cache("RotatingKVCache", row, bound)
    if chosen is None:
        return Cache("KVCache", row)
    if any(t.role is Role.LATENT for t in pair):
        raise InputError(
            f"-E kv_bits: {spec.name} keeps latents, and mlx-lm 0.32 fails on a quantized latent",
            "leave out -E kv_bits",
        )
    for tensor in pair:
        if tensor.row[-1] % chosen.group_size:
            fits = [size for size in (128, 64, 32) if all(t.row[-1] % size == 0 for t in pair)]
            raise InputError(
                f"-E kv_group_size: found {chosen.group_size}, but heads of {tensor.row[-1]} are no multiple of it",
                f"-E kv_group_size={fits[0]}" if fits else "leave out -E kv_bits",
            )
    packed = sum(t.elements // t.row[-1] * quantized_width(t.row[-1], item, chosen) for t in pair)
    return Cache("KVCache", row, quantized_row_bytes=packed)


def _fixed(spec: ModelSpec, tensor: CacheTensor, beside: list[CacheTensor], item_bytes: int) -> int:
    """Bytes of a convolution or state of one sequence."""
    if not isinstance(tensor.growth, Constant):
        raise _unknown(spec, tensor.name, "a state that grows is unknown to mlx-lm")
    numbers = tensor.growth.rows * tensor.elements
    if tensor.role is Role.CONV:
        return numbers * item_bytes
    if sum(t.role is Role.STATE for t in beside) > 1:
        raise _unknown(spec, tensor.name, "mlx-lm has no model with several states in a layer")
    shifts = any(t.name == "token_shift" for t in beside)
    if shifts or len(tensor.row) == 1:
        return numbers * item_bytes
    if len(tensor.row) == 2 and spec.fields.dtype != "fp32":
        if all(t.role in RECURRENT for _, layer in spec.layers() for t in layer.tensors()):
            raise _unknown(spec, tensor.name, "its dtype in mlx-lm follows that of A_log in the checkpoint")
        return numbers * item_bytes
    return numbers * ITEM_BYTES["fp32"]


def _unknown(spec: ModelSpec, tensor: str, why: str) -> NotCountableError:
    return NotCountableError(f"{spec.source}: {tensor}: {why}", "--engine ideal counts what the architecture needs")
