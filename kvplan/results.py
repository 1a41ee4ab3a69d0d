"""What the commands answer, as plain records: the one shape behind table, JSON, CSV and Python.

Field order is output order. The JSON Schemas are generated from these classes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kvplan.footprint import Part
from kvplan.record import Record


class WorkloadResult(Record):
    """The workload as resolved: tokens in full, formats by name."""

    context: int
    batch: int
    k_dtype: str
    v_dtype: str
    index_dtype: str
    policy: str
    tp: int
    pp: int
    ep: int
    dp: int
    dcp: int
    mtp: int
    prefix: int
    encoder_tokens: int


class OverheadResult(Record):
    """One named thing between usable memory and the cache, on one card."""

    name: str
    bytes: int
    low_bytes: int
    high_bytes: int
    confidence: str
    note: str
    sources: tuple[str, ...]


class GpuResult(Record):
    """One card of `count`: every figure but `count` is per card, of the fullest rank.

    max_context: tokens, at this batch; max_batch: sequences, at this context; null where nothing
    bounds them, or where kv_budget_bytes is null. A null byte figure is not known.
    """

    name: str | None
    count: int
    total_bytes: int | None
    free_bytes: int | None
    usable_bytes: int | None
    weights_bytes: int | None
    overhead_bytes: int
    overheads: tuple[OverheadResult, ...]
    reserve_bytes: int
    draft_weights_bytes: int
    draft_kv_bytes: int
    kv_budget_bytes: int | None
    kv_bytes: int
    headroom_bytes: int | None
    fits: bool
    max_context: int | None
    max_batch: int | None
    basis: str
    sources: tuple[str, ...]


class ComputeResult(Record):
    """Generating `tokens` tokens of one sequence, with the cache and by naive recomputation."""

    tokens: int
    naive_pairs: int
    cached_pairs: int
    naive_attention_flops: int
    cached_attention_flops: int
    naive_linear_flops: int | None
    cached_linear_flops: int | None
    cache_bytes_per_decoded_token: int
    weight_bytes_per_step: int | None
    prefill_flops_per_byte: float | None
    decode_flops_per_byte: float | None
    uncounted: tuple[str, ...]


class ChangeResult(Record):
    """A change to a serve command after which it fits, checked by counting it."""

    change: str
    max_context: int | None
    max_batch: int | None


class ServeResult(Record):
    """A serve command as read, and whether it starts: null where no card was named.

    when_short: what the engine does where one sequence of the length finds no room: `refuses` to start, `shortens`
    what it takes, or `spills` into host memory.

    counted_as: the model of the catalogue that stands for the command's own name, or null. parallel: sequences
    that the command lets run at once. needed_bytes: the smallest cache budget of one card with which it starts. shaping: flags that the answer follows from; idle: flags that change no
    memory that is counted; unknown: flags that the program does not have; uncounted: flags that change memory
    in a way that is not counted. refusals: why the engine refuses it whatever the memory. changes: what makes it
    fit, where it does not.
    """

    command: str
    place: str
    engine: str
    version: str | None
    model: str
    counted_as: str | None
    cards: int | None
    starts: bool | None
    when_short: str
    needed_bytes: int
    parallel: int | None
    shaping: tuple[str, ...]
    idle: tuple[str, ...]
    unknown: tuple[str, ...]
    uncounted: tuple[str, ...]
    refusals: tuple[str, ...]
    notes: tuple[str, ...]
    changes: tuple[ChangeResult, ...]


class SpanResult(Record):
    """A predicted quantity: 80 % of measured values are expected between low and high."""

    low: float
    best: float
    high: float


class TimeResult(Record):
    """Predicted times: seconds, and output tokens per second over all cards asked for.

    prompt_tokens and output_tokens: of each request; the workload's context is both.
    decode_step_seconds: one step of `batch` sequences, each with the prompt and half the output in its cache.
    prefill_seconds: the prompts of all, one after the other. ttft, tpot, request: as a client sees them.
    bound: what a decode step waits for longest; bound_changes_at: the batch from which it is something else.
    memory, compute, latency, link: what each alone would take of a decode step.
    """

    decode_step_seconds: SpanResult
    prefill_seconds: SpanResult
    ttft_seconds: SpanResult
    tpot_seconds: SpanResult
    request_seconds: SpanResult
    tokens_per_second: SpanResult
    prompt_tokens: int
    output_tokens: int
    load: str
    batch: int
    bound: str
    bound_changes_at: int | None
    memory_seconds: float
    compute_seconds: float
    latency_seconds: float
    link_seconds: float
    confidence: str
    not_modelled: tuple[str, ...]


class CheckVerdict(Record):
    """Whether one command of a deployment file fits its cards, or one limit of a capacity file holds.

    budget: what must hold: the command must fit, with its model, engine, cards, tokens and sequences; or the
    capacity file's own budget with one of its limits. ok: null where no card is named, or the command cannot be
    answered (refused says why). value: bytes of the cache budget that a command needs on one card, or what the
    limit is set against (sequences, tokens, bytes, dollars, seconds; 1 or 0 for `must: fit`); limit: bytes that the
    card leaves it, or the limit itself. cell: of a capacity file, the cell that decides.
    """

    budget: Mapping[str, Any]
    ok: bool | None
    value: int | float | None
    limit: int | float | None
    place: str
    refused: str | None
    bytes_per_sequence: int | None
    max_context: int | None
    max_batch: int | None
    serve: ServeResult | None
    cell: Mapping[str, Any] | None
    hints: tuple[str, ...]


class SizeResult(Record):
    """How many bytes, and whether they fit: one combination of model, workload, engine and GPU."""

    model: str
    found_through: str | None
    model_max_context: int | None
    workload: WorkloadResult
    total_bytes: int
    bytes_per_token: int | float
    bytes_per_token_full: int | float
    fixed_bytes_per_sequence: int
    per_rank_bytes: int
    copied_bytes: int
    parts: tuple[Part, ...]
    engine: Mapping[str, Any] | None
    gpu: GpuResult | None
    draft: DraftResult | None
    formula: str | None
    compute: ComputeResult | None
    time: TimeResult | None
    notes: tuple[str, ...]
    hints: tuple[str, ...]
    bounds: Mapping[str, tuple[int | float | bool | None, int | float | bool | None]]
    confidence: Mapping[str, str]
    serve: ServeResult | None = None

    @property
    def fits(self) -> bool:
        """True unless a GPU was named that does not hold the workload, or a serve command does not start."""
        if self.serve is not None and self.serve.starts is False:
            return False
        return self.gpu is None or self.gpu.fits


class DraftResult(Record):
    """A separate draft model on the same cards."""

    model: str
    total_bytes: int
    per_rank_bytes: int


class FitResult(Record):
    """The inverse of a size: what fits one GPU, or how many GPUs hold the workload.

    max_context and max_batch on `count` cards; min_gpus the fewest that hold context and batch both.
    """

    model: str
    gpu: str | None
    count: int
    context: int
    batch: int
    engine: str | None
    kv_dtype: str
    kv_budget_bytes: int | None
    max_context: int | None
    model_max_context: int | None
    max_batch: int | None
    min_gpus: int | None
    fits: bool
    notes: tuple[str, ...]
    hints: tuple[str, ...]


class TableRow(Record):
    """One cell of a capacity matrix: what `size` answers, without the parts.

    reserved_bytes: on the fullest rank, by the engine or the need itself. fits, max_batch and max_context
    are null without a card or budget; max_batch is at this context, max_context at this batch.
    """

    model: str
    gpu: str | None
    count: int
    tp: int
    pp: int
    context: int
    batch: int
    kv_dtype: str
    policy: str
    engine: str | None
    total_bytes: int
    reserved_bytes: int
    kv_budget_bytes: int | None
    fits: bool | None
    max_batch: int | None
    max_context: int | None


class UntilFullResult(Record):
    """The largest context or batch that really allocated within `limit_bytes`, beside what `fit` says.

    measured, predicted: tokens or sequences, null where nothing bounds them.
    block: how far apart the two may be. tries: allocations made.
    """

    varied: str
    limit_bytes: int
    measured: int | None
    predicted: int | None
    block: int
    tries: int
    agrees: bool


class SecondOpinionResult(Record):
    """The same model in another library's own cache classes, whose rules differ from the architecture's need.

    predicted_bytes: of the engine of that name, for the first `measured_layers` layers.
    """

    library: str
    version: str
    measured_layers: int
    predicted_bytes: int
    measured_bytes: int
    difference_bytes: int
    agrees: bool


class MeasureResult(Record):
    """A cache allocated for real on one device, on the fullest rank: predicted, measured, difference.

    predicted_bytes, measured_bytes: of the first `measured_layers` of `of_layers`; whole_bytes: of all.
    freed: nothing of it was left afterwards. allocator: the allocator's own figures.
    """

    model: str
    workload: WorkloadResult
    predicted_bytes: int
    measured_bytes: int
    difference_bytes: int
    measured_layers: int
    of_layers: int
    agrees: bool
    whole_bytes: int
    limit_bytes: int
    freed: bool
    allocator: Mapping[str, int | str | None]
    until_oom: UntilFullResult | None
    second_opinion: SecondOpinionResult | None
    notes: tuple[str, ...]
    hints: tuple[str, ...]


class TechniquePoint(Record):
    """A technique at one length: what its cache held, and the time of one more token."""

    tokens: int
    bytes: int
    seconds_per_token: float


class TechniqueResult(Record):
    """One technique on one layer and one sequence of `tokens` tokens.

    waste_bytes: held and not in use. bookkeeping_bytes: tables, scores and positions beside the cache.
    relative_error: of the last output, against all rows in double precision. time_exponent: the whole
    text takes about tokens to this power.
    """

    name: str
    what: str
    tokens: int
    predicted_bytes: int
    measured_bytes: int
    difference_bytes: int
    waste_bytes: int
    bookkeeping_bytes: int
    relative_error: float
    seconds_per_token: float
    time_exponent: float | None
    agrees: bool
    points: tuple[TechniquePoint, ...]


class Comparison(Record):
    """Techniques side by side, and what has to be said beside them."""

    techniques: tuple[TechniqueResult, ...]
    notes: tuple[str, ...]


class ModelRow(Record):
    """One line of `kvplan models`."""

    name: str
    aliases: tuple[str, ...]
    hub: str | None
    parameters: int | None
    layers: int
    attention: str
    max_context: int | None
    bytes_per_token: int | float
    fixed_bytes_per_sequence: int
    confidence: str | None


class GpuRow(Record):
    """One line of `kvplan gpus`."""

    name: str
    aliases: tuple[str, ...]
    title: str | None
    total_bytes: int | None
    bandwidth_gb_per_second: float | None
    bf16_tflops: float | None
    memory_confidence: str | None


class FormatRow(Record):
    """One line of `kvplan formats`: bits per element of the codes alone and with metadata."""

    name: str
    holds: str
    bits: float
    bits_with_metadata: float
    summary: str
    source: str


class EngineRow(Record):
    """One line of `kvplan engines`."""

    name: str
    versions: tuple[str, ...]
    summary: str
    options: tuple[str, ...]
    source: str


def plain(value: Any) -> Any:
    """`value` as what JSON can hold: mappings, lists, text, whole numbers."""
    if isinstance(value, Record):
        return {name: plain(getattr(value, name)) for name in value.__match_args__}
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return value


def document(command: str, results: list[Any] | tuple[Any, ...], **more: Any) -> dict[str, Any]:
    """The JSON document of `command`: its schema name, then the results."""
    return {"schema": f"kvplan.{command}/1", **plain(more), "results": [plain(result) for result in results]}
