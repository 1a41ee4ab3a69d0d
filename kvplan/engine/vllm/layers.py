"""A model's layers as vLLM's caches: what each attention and mixer of each layer asks for on one rank.

A layer's K and V are one cache, a latent is one without a V, an index is a latent of its own, and all convolutions
and states of a mixer are one state. Layers that share or keep nothing have no cache.

Worked: DeepSeek-V3.2 in fp8_ds_mla: 61 latents of 656 bytes per token and 61 indexes of 132.

Source: vLLM 0.33.0 `get_kv_cache_spec` of vllm/model_executor/layers/attention and layers/mamba.
"""

from __future__ import annotations

from collections.abc import Iterator

from kvplan.engine.vllm.entries import Entries, entries
from kvplan.engine.vllm.settings import Settings
from kvplan.engine.vllm.states import State, state
from kvplan.errors import InputError, NotCountableError
from kvplan.growth import Chunk, PerEncoderToken, PerToken, Window
from kvplan.record import Record
from kvplan.spec import Layer
from kvplan.tensor import CacheTensor, Role

Tensors = tuple[CacheTensor, ...]


class Heads(Record):
    """Keys and values of one attention: `k` and `v` as one rank holds them; `skipped` in the model's dtype."""

    k: CacheTensor
    v: CacheTensor
    skipped: bool


class Latent(Record):
    """One latent, or an index (`keys` of sparse attention); `leads` where an index belongs to it."""

    row: CacheTensor
    leads: bool
    beside_heads: bool
    skipped: bool


Attention = Heads | Latent
Asked = Attention | State | Entries
"""What one attention or mixer of one layer keeps."""


def asked_by(layer: Layer, skipped: bool, dtype: str, chosen: Settings, place: str) -> tuple[Asked, ...]:
    """The caches of one layer, in the order of its tensors.

    Raises: NotCountableError for a tensor that no cache of vLLM's holds; InputError for ranks it refuses.
    """
    tensors = layer.tensors()
    if any(t.role is Role.ENTRY for t in tensors):
        if chosen.dcp > 1:
            raise InputError(f"--dcp: found {chosen.dcp}, but vLLM divides no tokens of windows", "leave out --dcp")
        return (entries(tensors, place),)
    mixers = _mixers([t for t in tensors if t.role in (Role.CONV, Role.STATE)])
    found: list[Asked] = [state(mixer, dtype, chosen, place) for mixer in mixers]
    waiting: CacheTensor | None = None
    for tensor in tensors:
        match tensor.role:
            case Role.K:
                waiting = tensor
            case Role.V:
                assert waiting is not None
                found.append(_heads(waiting, tensor, skipped, chosen, place))
            case Role.LATENT | Role.INDEX:
                found.append(_latent(tensor, tensors, skipped, chosen, place))
    return tuple(found)


def _mixers(tensors: list[CacheTensor]) -> Iterator[Tensors]:
    """The convolutions and states of each mixer: a name that comes again begins another."""
    names: set[str] = set()
    run: list[CacheTensor] = []
    for tensor in tensors:
        if tensor.name in names:
            yield tuple(run)
            names, run = set(), []
        names.add(tensor.name)
        run.append(tensor)
    if run:
        yield tuple(run)


def _heads(k: CacheTensor, v: CacheTensor, skipped: bool, chosen: Settings, place: str) -> Heads:
    heads, tp = k.row[0], chosen.tp
    if not isinstance(k.growth, PerToken | Window | Chunk | PerEncoderToken):
        raise _not_countable(place, k, f"vLLM has no cache with rows by {type(k.growth).__name__}")
    if heads % tp and tp % heads:
        raise InputError(
            f"--tp: found {tp}, but vLLM divides {heads} key and value heads evenly, or copies them",
            f"choose a divisor or a multiple of {heads}",
        )
    if chosen.dcp > 1:
        if isinstance(k.growth, Window):
            raise InputError(
                f"--dcp: found {chosen.dcp}, but vLLM divides no tokens of a sliding window", "leave out --dcp"
            )
        if chosen.dcp > tp // heads:
            raise InputError(
                f"--dcp: found {chosen.dcp}, but {heads} key and value heads on {tp} ranks leave {max(1, tp // heads)} copies",
                f"--dcp takes 1 to {max(1, tp // heads)}, or raise --tp",
            )
    held = max(1, heads // tp)
    on_rank = [t.replace(row=(held, *t.row[1:]), shards=held) for t in (k, v)]
    return Heads(on_rank[0], on_rank[1], skipped)


def _latent(row: CacheTensor, beside: Tensors, skipped: bool, chosen: Settings, place: str) -> Latent:
    if not isinstance(row.growth, PerToken) and not (row.role is Role.LATENT and isinstance(row.growth, Window)):
        raise _not_countable(place, row, f"a ring of rows by {type(row.growth).__name__} is not counted for vLLM")
    if chosen.dcp > 1 and isinstance(row.growth, Window):
        raise InputError(
            f"--dcp: found {chosen.dcp}, but vLLM divides no tokens of a sliding window", "leave out --dcp"
        )
    leads = row.role is Role.LATENT and any(t.role is Role.INDEX for t in beside)
    return Latent(row, leads, any(t.role is Role.K for t in beside), skipped)


def _not_countable(place: str, tensor: CacheTensor, why: str) -> NotCountableError:
    return NotCountableError(f"{place}: {tensor.name}: {why}", "--engine ideal counts what the architecture needs")
