"""A model as TensorRT-LLM's cache manager sees it: KV heads of each layer on a rank, one head width, states apart.

- Heads of a rank: H / tp rounded up; all H with attention data parallelism. A latent is one head.
- Every layer has one width for K and V. Layers without attention have no heads.
- A pipeline rank holds consecutive layers; a remainder goes to the first ranks, draft layers to the last.
- Index keys are 132 bytes per token in every latent layer, whatever the cache's dtype.

Worked: 8 KV heads at TP 16 are 1 head per rank, in bf16 at width 128: 512 bytes per token and layer.

Source: TensorRT-LLM 1.2, tensorrt_llm/_torch/pyexecutor/resource_manager.py (KVCacheManager, executed) and
_torch/attention_backend/sparse/dsa.py; mapping.py (pp_layers).
"""

from __future__ import annotations

from math import prod

from kvplan.errors import InputError, NotCountableError
from kvplan.growth import Chunk, Constant, PerToken, Window
from kvplan.record import Record
from kvplan.spec import Layer, ModelSpec
from kvplan.tensor import ITEM_BYTES, CacheTensor, Role
from kvplan.units import ceil_div

RECURRENT = frozenset({Role.CONV, Role.STATE})
INDEX_KEY, INDEX_BYTES = 128, 132


class Stage(Record):
    """One pipeline rank: KV heads of each attention layer in order, and bytes of one request's states."""

    heads: tuple[int, ...]
    state_bytes: int


class Held(Record):
    """A model on its ranks. width: of a head, or of a latent; factor: 2 for K and V, 1 for a latent."""

    stages: tuple[Stage, ...]
    width: int
    factor: int
    indexed: bool


class _Kept(Record):
    heads: int | None
    width: int
    latent: bool
    indexed: bool
    state_bytes: int


def held(spec: ModelSpec, ranks: int, pp: int, mtp: int, ssm_dtype: str | None) -> Held:
    """The model on its ranks; ranks: those that divide heads.

    Raises: NotCountableError naming the tensor that the cache manager is not known to hold; InputError where states
    or stages do not divide.
    """
    kept = {id(layer): _kept(spec, layer, ranks, ssm_dtype) for _, layer in spec.layers()}
    order = [kept[id(layer)] for count, layer in spec.runs for _ in range(count)]
    if pp > len(order):
        raise InputError(
            f"--pp: found {pp}, allowed at most the {len(order)} layers of {spec.name}", f"--pp {len(order)}"
        )
    drafts = [_kept(spec, spec.draft_layer(), ranks, ssm_dtype)] * mtp if mtp else []
    attention = [item for item in (*order, *drafts) if item.heads is not None]
    shapes = {(item.width, item.latent) for item in attention}
    if len(shapes) > 1:
        raise _unknown(spec, "k", "the layers differ in head width, and the cache manager has one")
    width, latent = next(iter(shapes), (0, False))
    least, extra = divmod(len(order), pp)
    stages, start = [], 0
    for rank in range(pp):
        size = least + (rank < extra)
        items = order[start : start + size] + (drafts if rank == pp - 1 else [])
        start += size
        heads = tuple(item.heads for item in items if item.heads is not None)
        stages.append(Stage(heads, sum(item.state_bytes for item in items)))
    return Held(tuple(stages), width, 1 if latent else 2, any(item.indexed for item in attention))


def _kept(spec: ModelSpec, layer: Layer, ranks: int, ssm_dtype: str | None) -> _Kept:
    tensors = layer.tensors()
    for tensor in tensors:
        _check(spec, tensor)
    leads = [t for t in tensors if t.role in (Role.K, Role.LATENT)]
    values = [t for t in tensors if t.role is Role.V]
    index = any(t.role is Role.INDEX for t in tensors)
    if len(leads) > 1:
        raise _unknown(spec, leads[1].name, "a layer with two attentions")
    if index and (not leads or leads[0].role is not Role.LATENT):
        raise _unknown(spec, "index", "index keys beside keys and values")
    state = _state_bytes(spec, tuple(t for t in tensors if t.role in RECURRENT), ranks, ssm_dtype)
    if not leads:
        return _Kept(None, 0, False, False, state)
    lead = leads[0]
    if lead.role is Role.LATENT:
        return _Kept(1, lead.elements, True, index, state)
    if len(values) != 1 or values[0].row != lead.row:
        raise _unknown(spec, "v", "V of another shape than K")
    return _Kept(ceil_div(lead.shards, ranks), prod(lead.row[1:]), False, False, state)


def _state_bytes(spec: ModelSpec, tensors: tuple[CacheTensor, ...], ranks: int, ssm_dtype: str | None) -> int:
    """Bytes of one request's state in one layer: convolutions in the model's dtype, K - 1 columns."""
    columns = numbers = channels = item = 0
    for tensor in tensors:
        law = tensor.growth
        if (
            not isinstance(law, Constant)
            or tensor.name == "token_shift"
            or (tensor.role is Role.STATE and len(tensor.row) < 3)
        ):
            raise _unknown(spec, tensor.name, "this recurrence")
        if tensor.role is Role.CONV:
            columns, channels = law.rows, channels + tensor.elements
        elif tensor.shards % ranks:
            raise InputError(
                f"--tp: {ranks} ranks do not divide the {tensor.shards} heads of {tensor.name}",
                f"--tp {_divisor(tensor, ranks)}",
            )
        else:
            numbers, item = (
                numbers + tensor.elements // ranks,
                ITEM_BYTES[ssm_dtype or tensor.dtype or spec.fields.dtype],
            )
    return channels // ranks * columns * ITEM_BYTES[spec.fields.dtype] + numbers * item


def _divisor(tensor: CacheTensor, ranks: int) -> int:
    return max(n for n in range(1, ranks + 1) if not tensor.shards % n)


def _check(spec: ModelSpec, tensor: CacheTensor) -> None:
    if tensor.role in RECURRENT:
        return
    if tensor.role is Role.ENTRY:
        raise _unknown(spec, tensor.name, "compressed entries")
    if not isinstance(tensor.growth, PerToken | Window | Chunk):
        raise _unknown(spec, tensor.name, f"rows that grow by {type(tensor.growth).__name__}")
    if tensor.role is Role.INDEX and tensor.elements != INDEX_KEY:
        raise _unknown(spec, tensor.name, f"index keys of {tensor.elements} numbers")


def _unknown(spec: ModelSpec, name: str, what: str) -> NotCountableError:
    return NotCountableError(
        f"{spec.source}: {name}: TensorRT-LLM: not known: {what}", "--engine ideal counts what the architecture needs"
    )
