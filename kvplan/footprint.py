"""Model x workload -> bytes, part by part: the one formula.

A `CachePlan` is the model's layers with their tensors stored in the workload's formats, ready to
be weighed at any context and batch. Bytes are a sum over growth laws of

    bytes per row  x  (batch x rows(context)  -  (batch - 1) x rows held once for the shared prefix)

in whole integers, or elementwise over integer arrays by the same lines of code.
"""

from __future__ import annotations

from fractions import Fraction
from math import ceil
from typing import TYPE_CHECKING

from kvplan.errors import InputError
from kvplan.formats import INDEX_FORMATS, Format, format_named
from kvplan.growth import Growth, PerEncoderToken, Unflushed, divisible, filled_after, rows, shared_rows, slope
from kvplan.policy import law_kept
from kvplan.record import Record
from kvplan.spec import Layer, ModelSpec, Runs, distinct_layers
from kvplan.tensor import CacheTensor, Role, StoredTensor
from kvplan.workload import Workload

if TYPE_CHECKING:
    from kvplan.growth import Count


class StoredPart(Record):
    """A physical tensor of a part: `rows` rows of `row` elements of `dtype` per sequence and layer."""

    content: str
    dtype: str
    row: tuple[int, ...]
    rows: int
    bytes: int


class Part(Record):
    """One tensor over all the layers that keep it: what the total is made of.

    row: logical shape of one row; rows: per sequence; bytes: over all layers and sequences.
    stored: the physical tensors behind it, whose bytes add up to `bytes`.
    """

    layers: int
    tensor: str
    role: str
    row: tuple[int, ...]
    rows: int
    bytes: int
    shards: int
    format: str
    stored: tuple[StoredPart, ...]


class Planned(Record):
    """A logical tensor, the rows a policy keeps of it, the format it got and what that stores."""

    layers: int
    tensor: CacheTensor
    format: str
    stored: tuple[StoredTensor, ...]


Terms = dict[Growth, int]


class CachePlan(Record):
    """The cache of one model under one workload's formats, policy and ranks; lengths still open.

    planned: every distinct tensor of the whole model, draft layers included.
    whole: bytes per row by growth law, one replica. stages: the same for the fullest
    tensor-parallel rank of each pipeline stage.
    """

    planned: tuple[Planned, ...]
    whole: Terms
    stages: tuple[Terms, ...]
    encoder_tokens: int
    dcp: int
    copies: tuple[tuple[Planned, int, int], ...]

    def total_bytes(self, context: Count, batch: Count = 1, prefix: Count = 0) -> Count:
        """Bytes of all sequences in one replica."""
        total: Count = 0
        for law, row_bytes in self.whole.items():
            unshared, shared = self._rows(law, context, prefix)
            total = total + row_bytes * (batch * unshared + shared)
        return total

    def rank_bytes(self, context: Count, batch: Count = 1, prefix: Count = 0) -> Count:
        """Bytes on the fullest rank: the fullest stage, the fullest shard, the longest share of tokens."""
        if len(self.stages) == 1 and self.stages[0] is self.whole:
            return self.total_bytes(context, batch, prefix)
        fullest: Count = 0
        for stage in self.stages:
            held: Count = 0
            for law, row_bytes in stage.items():
                unshared, shared = self.rank_rows(law, context, prefix)
                held = held + row_bytes * (batch * unshared + shared)
            fullest = _maximum(fullest, held)
        return fullest

    def rank_rows(self, law: Growth, context: Count, prefix: Count = 0) -> tuple[Count, Count]:
        """(rows of each sequence's own, rows held once) under `law` on the rank with the longest share of tokens."""
        unshared, shared = self._rows(law, context, prefix)
        if self.dcp > 1 and divisible(law):
            return -(-unshared // self.dcp), -(-shared // self.dcp)
        return unshared, shared

    def _rows(self, law: Growth, context: Count, prefix: Count) -> tuple[Count, Count]:
        """(rows of each sequence's own, rows held once) under `law`."""
        alive = rows(law, context, self.encoder_tokens)
        if type(prefix) is int and prefix == 0:
            return alive, 0
        shared = shared_rows(law, context, prefix)
        return alive - shared, shared

    def marginal_bytes(self, full: bool) -> Fraction:
        """Bytes of one more token of one sequence, while windows fill or once they are `full`."""
        return sum((row_bytes * slope(law, full) for law, row_bytes in self.whole.items()), Fraction(0))

    def fixed_bytes(self) -> int:
        """Bytes each sequence takes whatever its length: states, convolutions, cross-attention."""
        fixed = 0
        for item in self.planned:
            if item.tensor.role in (Role.CONV, Role.STATE) or isinstance(item.tensor.growth, PerEncoderToken):
                fixed += item.layers * sum(int(s.bytes(0, self.encoder_tokens)) for s in item.stored)
        return fixed

    def dip_tokens(self) -> int:
        """How far below a length that fits a shorter one may not: 0 where bytes never fall.

        Unflushed rows add at most their run's bytes to a line that rises by at least the marginal bytes
        per token once windows are full, so a peak is passed again after that many tokens, and two runs.
        """
        waiting = {law: row_bytes for law, row_bytes in self.whole.items() if isinstance(law, Unflushed)}
        rise = self.marginal_bytes(full=True)
        if not waiting:
            return 0
        if not rise:
            return self.filled_after()  # a bounded cache may end below the peak it passed
        highest = sum(row_bytes * law.run for law, row_bytes in waiting.items() if isinstance(law, Unflushed))
        return int(highest / rise) + 2 * max(_tokens_of_a_run(law) for law in waiting) + 1

    def filled_after(self) -> int:
        """The length past which a bounded cache no longer changes."""
        return max((filled_after(law) for law in self.whole), default=1)

    def bounded(self) -> bool:
        """True when the cache stops growing at some length."""
        return all(slope(law, full=True) == 0 for law in self.whole)

    def parts(self, context: int, batch: int = 1, prefix: int = 0) -> list[Part]:
        """The total, tensor by tensor; the bytes of the parts add up to `total_bytes`."""
        found = []
        for item in self.planned:
            stored = []
            for tensor in item.stored:
                unshared, shared = self._rows(tensor.growth, context, prefix)
                held = item.layers * tensor.row_bytes * (batch * int(unshared) + int(shared))
                stored.append(StoredPart(tensor.content, tensor.dtype, tensor.row, int(unshared + shared), held))
            kept = int(rows(item.tensor.growth, context, self.encoder_tokens))
            tensor_bytes = sum(part.bytes for part in stored)
            tensor_ = item.tensor
            found.append(
                Part(
                    item.layers,
                    tensor_.name,
                    tensor_.role.value,
                    tensor_.row,
                    kept,
                    tensor_bytes,
                    tensor_.shards,
                    item.format,
                    tuple(stored),
                ),
            )
        return found

    def copied_bytes(self, context: int, batch: int = 1, prefix: int = 0) -> int:
        """Bytes that only repeat what another rank of the replica already holds."""
        copied = 0
        for item, extra, shards in self.copies:
            for tensor in item.stored:
                unshared, shared = self._rows(tensor.growth, context, prefix)
                copied += item.layers * tensor.row_bytes * (batch * int(unshared) + int(shared)) * extra // shards
        return copied


def _tokens_of_a_run(law: Growth) -> int:
    """Tokens in which a run of rows fills, the row begun included."""
    assert isinstance(law, Unflushed)
    gained = slope(law.of, full=True)
    return ceil((law.run + 1) / gained) if gained else law.run


def _maximum(a: Count, b: Count) -> Count:
    if type(a) is int and type(b) is int:
        return max(b, a)
    import numpy

    return numpy.maximum(a, b)


def cache_plan(spec: ModelSpec, workload: Workload) -> CachePlan:
    """The cache of `spec` under `workload`, ready to be weighed.

    Raises: InputError when a format cannot hold a tensor, or an encoder length is missing;
    NotCountableError when draft layers are asked for and the spec does not describe them.
    """
    runs = spec.runs + (((workload.mtp, spec.draft_layer()),) if workload.mtp else ())
    encoder_tokens = _encoder_tokens(spec, workload, runs)
    formats = _Formats(spec, workload)
    planned = _planned(runs, formats, shards=1, token_shards=1)
    whole = _terms(planned)
    if workload.ranks == 1:
        return CachePlan(planned, whole, (whole,), encoder_tokens, 1, ())
    token_shards = workload.tp // workload.dcp
    stages = _stage_runs(spec, workload)
    ranks = tuple(_terms(_planned(stage, formats, workload.tp, token_shards)) for stage in stages)
    copies = []
    for item in planned:
        share = token_shards if divisible(item.tensor.growth) else workload.tp
        if share > item.tensor.shards:
            copies.append((item, share - item.tensor.shards, item.tensor.shards))
    return CachePlan(planned, whole, ranks, encoder_tokens, workload.dcp, tuple(copies))


StageLayers = tuple[tuple[int, tuple[StoredTensor, ...]], ...]
"""Layers of one pipeline stage in order: so many alike, and the stored tensors that each of them keeps."""


def stage_layers(spec: ModelSpec, workload: Workload) -> tuple[StageLayers, ...]:
    """What the fullest tensor-parallel rank of each pipeline stage holds, layer by layer: what can be allocated.

    Raises: as `cache_plan`.
    """
    formats, token_shards = _Formats(spec, workload), workload.tp // workload.dcp
    stages = []
    for stage in _stage_runs(spec, workload):
        layers = []
        for count, layer in stage:
            planned = _planned(((1, layer),), formats, workload.tp, token_shards)
            layers.append((count, tuple(tensor for item in planned for tensor in item.stored * item.layers)))
        stages.append(tuple(layers))
    return tuple(stages)


def _stage_runs(spec: ModelSpec, workload: Workload) -> list[Runs]:
    """The layers of each pipeline stage; draft layers live on the last."""
    stages = pipeline_stages(spec.runs, workload.pp, spec.source)
    if workload.mtp:
        stages[-1] = (*stages[-1], (workload.mtp, spec.draft_layer()))
    return stages


class _Formats:
    """Which format each tensor of the model gets, decided once."""

    def __init__(self, spec: ModelSpec, workload: Workload) -> None:
        self.model_dtype = spec.fields.dtype
        typed = "--kv-dtype" if workload.k_dtype == workload.v_dtype else "--k-dtype"
        self.k = format_named(workload.k_dtype or spec.fields.kv_dtype or self.model_dtype, typed)
        self.v = format_named(workload.v_dtype or spec.fields.kv_dtype or self.model_dtype, "--v-dtype")
        self.index = format_named(workload.index_dtype, "--index-dtype", INDEX_FORMATS)
        self.policy = workload.policy
        if self.k.paired != self.v.paired or (self.k.paired and self.k is not self.v):
            raise InputError(
                f"--v-dtype: found {self.v.name} beside --k-dtype {self.k.name}, allowed the same format for both",
                f"--kv-dtype {(self.k if self.k.paired else self.v).name}",
            )

    def of(self, tensor: CacheTensor) -> Format:
        match tensor.role:
            case Role.K:
                return self.k
            case Role.V:
                return self.v
            case Role.LATENT | Role.ENTRY:
                if self.v is not self.k:
                    raise InputError(
                        f"--v-dtype: found {self.v.name} beside --k-dtype {self.k.name}, but this model keeps one {tensor.role.value} for both",
                        f"--kv-dtype {self.k.name}",
                    )
                return self.k
            case Role.INDEX:
                return self.index
            case Role.CONV:
                return format_named(tensor.dtype or self.model_dtype)
            case Role.STATE:  # pragma: no branch
                return format_named(tensor.dtype or "fp32")


def _planned(runs: Runs, formats: _Formats, shards: int, token_shards: int) -> tuple[Planned, ...]:
    """Every distinct tensor of `runs` with the number of layers that keep it, stored per rank.

    shards: ranks that divide the heads; token_shards: the same for tensors whose tokens DCP divides.
    """
    merged: dict[tuple[CacheTensor, CacheTensor | None], int] = {}
    for count, layer in distinct_layers(runs):
        partner: CacheTensor | None = None
        for tensor in layer.tensors():
            over = token_shards if divisible(tensor.growth) else shards
            tensor = tensor.shard(over).replace(growth=law_kept(formats.policy, tensor.growth))
            key = (tensor, partner if tensor.role is Role.V else None)
            merged[key] = merged.get(key, 0) + count
            partner = tensor if tensor.role is Role.K else partner
    found = []
    for (tensor, partner), count in merged.items():
        chosen = formats.of(tensor)
        stored = chosen.stored(tensor, partner, tensor.growth, formats.model_dtype)
        found.append(Planned(count, tensor, chosen.name, stored))
    return tuple(found)


def _terms(planned: tuple[Planned, ...]) -> Terms:
    terms: Terms = {}
    for item in planned:
        for tensor in item.stored:
            terms[tensor.growth] = terms.get(tensor.growth, 0) + item.layers * tensor.row_bytes
    return terms


def _encoder_tokens(spec: ModelSpec, workload: Workload, runs: Runs) -> int:
    needs = any(isinstance(t.growth, PerEncoderToken) for _, layer in distinct_layers(runs) for t in layer.tensors())
    if not needs:
        if workload.encoder_tokens is not None:
            raise InputError(
                f"--encoder-tokens: {spec.name} has no cross-attention",
                "leave the option out; images in the text count as context",
            )
        return 0
    tokens = workload.encoder_tokens or spec.fields.encoder_tokens
    if tokens is None:
        raise InputError(
            f"{spec.source}: encoder_tokens: missing, and {spec.name} attends to an encoder of any length",
            "add --encoder-tokens N",
        )
    return tokens


def pipeline_stages(runs: Runs, stages: int, source: str = "--pp") -> list[Runs]:
    """Consecutive slices of the layers, as even as they come.

    A remainder goes to the stages before the last, which also holds the output head: the split
    that vLLM 0.33 (`get_pp_indices`) makes by default.

    Raises: InputError when there are more stages than layers.
    """
    total = sum(count for count, _ in runs)
    if stages > total:
        raise InputError(f"--pp: found {stages}, allowed at most the {total} layers of {source}", f"--pp {total}")
    sizes = [total // stages] * stages
    for extra in range(2, total % stages + 2):
        sizes[-extra] += 1
    slices: list[Runs] = []
    remaining = list(runs)
    for size in sizes:
        taken: list[tuple[int, Layer]] = []
        while size:
            count, layer = remaining[0]
            use = min(count, size)
            taken.append((use, layer))
            size -= use
            remaining[:1] = [(count - use, layer)] if count > use else []
        slices.append(tuple(taken))
    return slices
