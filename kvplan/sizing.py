"""One question in, one answer out: what `size` and `fit` compute, for the command line and for Python."""

from __future__ import annotations

from kvplan.record import Record
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from kvplan.catalogue import Found, gpu_named, model_named
from kvplan.errors import InputError
from kvplan.footprint import CachePlan, cache_plan
from kvplan.policy import policy_named
from kvplan.results import ComputeResult, DraftResult, FitResult, GpuResult, OverheadResult, SizeResult, WorkloadResult
from kvplan.spec import ModelSpec
from kvplan.units import iec, tokens
from kvplan.workload import Workload

if TYPE_CHECKING:
    from kvplan.engine import EngineChoice, Reservation
    from kvplan.gpu import Gpu
    from kvplan.planner.budget import Budget, Range


class Question(Record):
    """One model under one combination of options, as the user wrote them.

    model: a spec, or what names one. ctx: tokens, text such as `128k`, `max`, or None for the maximum.
    gpu, engine, draft: what names them, or None. count: cards, None for tp x pp x dp.
    """

    model: str | ModelSpec
    ctx: int | str | None = None
    batch: int = 1
    k_dtype: str | None = None
    v_dtype: str | None = None
    index_dtype: str = "fp8"
    policy: str = "full"
    tp: int | None = None
    pp: int | None = None
    ep: int = 1
    dp: int | None = None
    dcp: int = 1
    mtp: int = 0
    prefix: int = 0
    encoder_tokens: int | None = None
    engine: str | None = None
    engine_options: tuple[str, ...] = ()
    gpu: str | Gpu | None = None
    count: int | None = None
    utilization: Fraction = Fraction("0.92")
    weights: str | None = None
    available_bytes: int | None = None
    reserve_bytes: int = 0
    draft: str | None = None
    specs: str | None = None
    formula: bool = False


class Subject(Record):
    """The question with its names resolved: the spec, the workload, the plan, the engine."""

    spec: ModelSpec
    found: Found | None
    workload: Workload
    plan: CachePlan
    engine: EngineChoice | None
    hints: tuple[str, ...]

    def weigh(self, context: int, batch: int) -> int:
        """Bytes on the fullest rank at another length and batch: the engine's, or the footprint's."""
        prefix = min(self.workload.prefix, context)
        if self.engine is not None:
            changed = self.workload.replace(context=context, batch=batch, prefix=prefix)
            return self.engine.reserve(self.spec, changed).reserved_bytes
        return int(self.plan.rank_bytes(context, batch, prefix))


def subject(question: Question) -> Subject:
    """Resolve every name in `question`.

    Raises: InputError, NotCountableError as the parts do.
    """
    if isinstance(question.model, ModelSpec):
        spec, found = question.model, None
    else:
        spec, found = model_named(question.model, question.specs)
    hints: list[str] = []
    context = _context(question, spec, hints)
    tp, pp, dp = layout(question, hints)
    engine = None
    if question.engine is not None or question.engine_options:
        from kvplan.engine import engine_named

        engine = engine_named(question.engine or "ideal", question.engine_options)
    block = int(engine.options.get("block_size", 1)) if engine else 1
    if question.prefix > context:
        Workload(context, prefix=question.prefix)  # refuses, naming both
    workload = Workload(
        context=context,
        batch=question.batch,
        k_dtype=question.k_dtype,
        v_dtype=question.v_dtype,
        index_dtype=question.index_dtype,
        policy=policy_named(question.policy),
        policy_text=question.policy,
        tp=tp,
        pp=pp,
        ep=question.ep,
        dp=dp,
        dcp=question.dcp,
        mtp=question.mtp,
        prefix=question.prefix // block * block,
        prefix_block=block,
        encoder_tokens=question.encoder_tokens,
    )
    return Subject(spec, found, workload, cache_plan(spec, workload), engine, tuple(hints))


def _context(question: Question, spec: ModelSpec, hints: list[str]) -> int:
    most = spec.fields.max_context
    if question.ctx is None or question.ctx == "max":
        if most is None:
            raise InputError(f"{spec.source}: max_context: missing, and no --ctx was given", "add --ctx, for example --ctx 32k")
        if question.ctx is None:
            hints.append(f"no --ctx given: counting the maximum of {spec.name}, {most:,} tokens")
        return most
    context = question.ctx if isinstance(question.ctx, int) else tokens(question.ctx, "--ctx")
    if context < 1:
        raise InputError(f"--ctx: found {context}, allowed whole numbers of tokens from 1", "for example --ctx 32k")
    if most is not None and context > most:
        hints.append(f"{context:,} tokens are past the maximum of {spec.name}, {most:,}")
    elif most is not None and most & (most - 1) == 0 and context * 1024 == most * 1000:
        hints.append(f"{spec.name} goes to {most:,} tokens: --ctx max")
    elif most is not None and most & (most - 1) == 0 and context * 1024**2 == most * 1000**2:
        hints.append(f"{spec.name} goes to {most:,} tokens: --ctx max")
    return context


def layout(question: Question, hints: list[str]) -> tuple[int, int, int]:
    """(tp, pp, dp), `--count` alone meaning tensor parallelism over all cards.

    Raises: InputError when the count and the ranks contradict each other.
    """
    tp, pp, dp, count = question.tp, question.pp, question.dp, question.count
    if count is None:
        return tp or 1, pp or 1, dp or 1
    if tp is None:
        rest = (pp or 1) * (dp or 1)
        if count % rest:
            raise InputError(f"--count: found {count}, allowed multiples of pp x dp = {rest}", f"--count {rest}")
        if count // rest > 1:
            hints.append(f"--count {count} without --tp: counting tensor parallelism over {count // rest} cards")
        return count // rest, pp or 1, dp or 1
    ranks = tp * (pp or 1) * (dp or 1)
    if dp is None and count % ranks == 0:
        if count // ranks > 1:
            hints.append(f"--count {count} holds {count // ranks} replicas of {ranks} cards")
        return tp, pp or 1, count // ranks
    if count != ranks:
        raise InputError(f"--count: found {count}, but tp x pp x dp is {ranks}", f"--count {ranks}, or change --tp, --pp or --dp")
    return tp, pp or 1, dp or 1


def size_answer(question: Question) -> SizeResult:
    """How many bytes, and does it fit.

    Raises: InputError for bad input, NotCountableError for what cannot be counted.
    """
    asked = subject(question)
    spec, workload, plan = asked.spec, asked.workload, asked.plan
    prefix = workload.prefix
    total = int(plan.total_bytes(workload.context, workload.batch, prefix))
    reservation = asked.engine.reserve(spec, workload) if asked.engine else None
    draft = _draft(question, asked)
    gpu, bounds, confidence, notes = _on_gpu(question, asked, reservation, draft)
    return SizeResult(
        model=spec.name,
        found_through=_found_through(question, asked.found),
        workload=_workload_result(asked),
        total_bytes=total,
        bytes_per_token=_number(plan.marginal_bytes(full=False)),
        bytes_per_token_full=_number(plan.marginal_bytes(full=True)),
        fixed_bytes_per_sequence=plan.fixed_bytes(),
        per_rank_bytes=int(plan.rank_bytes(workload.context, workload.batch, prefix)),
        copied_bytes=plan.copied_bytes(workload.context, workload.batch, prefix),
        parts=tuple(plan.parts(workload.context, workload.batch, prefix)),
        engine=_engine_result(reservation),
        gpu=gpu,
        draft=DraftResult(draft.spec.name, *_draft_bytes(draft, workload)) if draft else None,
        formula=_formula(question, asked),
        compute=_compute(question, asked) if question.formula else None,
        notes=(*_notes(asked), *notes),
        hints=asked.hints,
        bounds=bounds,
        confidence=confidence,
    )


def _number(value: Fraction) -> int | float:
    return int(value) if value.denominator == 1 else float(value)


def _found_through(question: Question, found: Found | None) -> str | None:
    if found is None or found.through == "name":
        return None
    return f"{found.through} {question.model}"


def _workload_result(asked: Subject) -> WorkloadResult:
    w, dtype = asked.workload, asked.spec.fields.dtype
    from kvplan.formats import format_named

    return WorkloadResult(
        context=w.context,
        batch=w.batch,
        k_dtype=format_named(w.k_dtype or dtype).name,
        v_dtype=format_named(w.v_dtype or dtype).name,
        index_dtype=w.index_dtype,
        policy=w.policy_text,
        tp=w.tp,
        pp=w.pp,
        ep=w.ep,
        dp=w.dp,
        dcp=w.dcp,
        mtp=w.mtp,
        prefix=w.prefix,
        encoder_tokens=asked.plan.encoder_tokens,
    )


def _engine_result(reservation: Reservation | None) -> dict[str, Any] | None:
    if reservation is None:
        return None
    return {
        "name": reservation.engine,
        "version": reservation.version,
        "reserved_bytes": reservation.reserved_bytes,
        **reservation.figures,
        "reasons": list(reservation.reasons),
    }


def _formula(question: Question, asked: Subject) -> str | None:
    if not question.formula:
        return None
    from kvplan.formula import formula_text

    w = asked.workload
    return formula_text(asked.plan, w.context, w.batch, w.prefix)


def _notes(asked: Subject) -> list[str]:
    """What the reader must know beside the number: copies on ranks, and formats that leave things out."""
    notes = []
    w, plan = asked.workload, asked.plan
    copied = plan.copied_bytes(w.context, w.batch, w.prefix)
    if copied:
        held = {f"{item.tensor.name} has {shards:,} {'shard' if shards == 1 else 'shards'}" for item, _, shards in plan.copies}
        notes.append(f"ranks hold copies: {', '.join(sorted(held))} for tp {w.tp:,}; the copies take {iec(copied)} over the replica")
    if "int4" in (w.k_dtype, w.v_dtype):
        notes.append("int4 is the textbook's half byte per element, without scales: real formats take more (int4_g64, q4_0, nvfp4)")
    if w.dp > 1:
        notes.append(f"batch and bytes are per replica; {w.dp} replicas hold {w.dp} times as much")
    return notes


def _draft(question: Question, asked: Subject) -> Subject | None:
    """The separate draft model on the same cards, under the same workload."""
    if question.draft is None:
        return None
    if question.gpu is None:
        raise InputError("--draft: needs --gpu, since it shares the target's cards", "add --gpu, for example --gpu h100")
    spec, found = model_named(question.draft, question.specs)
    workload = asked.workload.replace(mtp=0, ep=1, encoder_tokens=None)
    return Subject(spec, found, workload, cache_plan(spec, workload), None, ())


def _draft_bytes(draft: Subject, workload: Workload) -> tuple[int, int]:
    lengths = (workload.context, workload.batch, workload.prefix)
    return int(draft.plan.total_bytes(*lengths)), int(draft.plan.rank_bytes(*lengths))


def budget(question: Question, asked: Subject, draft: Subject | None) -> Budget | None:
    """The KV budget of one card, or None when no GPU and no budget is named."""
    if question.gpu is None and question.available_bytes is None:
        return None
    from kvplan.planner.budget import card_budget, given_budget
    from kvplan.weights import weights_on_rank

    if question.gpu is None:
        assert question.available_bytes is not None
        return given_budget(question.available_bytes)
    gpu = gpu_named(question.gpu) if isinstance(question.gpu, str) else question.gpu
    weights = weights_on_rank(asked.spec, asked.workload, question.weights)
    draft_weights = weights_on_rank(draft.spec, draft.workload, None) if draft else None
    if draft and draft_weights is None:
        raise InputError(f"--draft: the parameters of {draft.spec.name} are not known", "add `parameters:` to its spec")
    cards = asked.workload.ranks * (asked.workload.dp if asked.workload.ep > 1 else 1)
    return card_budget(gpu, weights, draft_weights, cards, question.utilization, question.reserve_bytes, question.available_bytes)


def _on_gpu(
    question: Question, asked: Subject, reservation: Reservation | None, draft: Subject | None
) -> tuple[GpuResult | None, dict[str, Any], dict[str, str], list[str]]:
    card = budget(question, asked, draft)
    if card is None:
        return None, {}, {}, []
    w = asked.workload
    kv = reservation.reserved_bytes if reservation else int(asked.plan.rank_bytes(w.context, w.batch, w.prefix))
    draft_kv = _draft_bytes(draft, w)[1] if draft else 0
    if card.kv is None:
        return _without_weights(asked, card, kv)
    weigh = joint_weigh(asked, draft)
    searched = {edge: _search(asked, weigh, getattr(card.kv, edge)) for edge in _edges(card.kv)}
    longest, most = searched["best"]
    fits = kv + draft_kv <= card.kv.best
    result = _gpu_result(asked, card, kv, draft_kv, fits, longest, most)
    bounds, confidence = _bounds(card, kv + draft_kv, searched)
    notes = []
    low_fits, high_fits = kv + draft_kv <= card.kv.low, kv + draft_kv <= card.kv.high
    if low_fits != high_fits:
        verdict = "fits" if fits else "does not fit"
        notes.append(f"{verdict} by the best estimate; the bounds disagree, since the overheads are estimates (--available-bytes makes it exact)")
        bounds["gpu.fits"] = (low_fits, high_fits)
    return result, bounds, confidence, notes


def joint_weigh(asked: Subject, draft: Subject | None) -> Any:
    """Bytes on the fullest rank by (context, batch): the model's, and its draft's on the same cards."""
    if draft is None:
        return asked.weigh
    return lambda context, batch: asked.weigh(context, batch) + draft.weigh(context, batch)


def _search(asked: Subject, weigh: Any, budget_bytes: int) -> tuple[int | None, int | None]:
    from kvplan.planner.fit import longest_context, most_sequences

    w, plan = asked.workload, asked.plan
    least = w.policy.least_context()
    longest = longest_context(weigh, budget_bytes, w.batch, least, dip_tokens(asked), plan.filled_after())
    return longest, most_sequences(weigh, budget_bytes, w.context)


def dip_tokens(asked: Subject) -> int:
    """How far below a fitting length a shorter one may fail, for the footprint or the engine."""
    if asked.engine is not None:
        return asked.engine.dip_tokens(asked.spec, asked.workload)
    return asked.plan.dip_tokens()


def _edges(kv: Range) -> tuple[str, ...]:
    return ("best",) if kv.low == kv.high else ("best", "low", "high")


def _without_weights(asked: Subject, card: Budget, kv: int) -> tuple[GpuResult, dict[str, Any], dict[str, str], list[str]]:
    """The verdict where nobody knows the weights: no, when the cache alone is too large."""
    assert card.usable is not None
    if kv <= card.usable.high:
        raise InputError(f"{asked.spec.name}: its weights are not known, so whether it fits {card.gpu} is not either", "add --weights BYTES, for example --weights 38GiB")
    note = f"the cache alone is larger than the usable memory of {card.gpu}; the weights are not known"
    return _gpu_result(asked, card, kv, 0, False, None, None), {}, {}, [note]


def _gpu_result(asked: Subject, card: Budget, kv: int, draft_kv: int, fits: bool, longest: int | None, most: int | None) -> GpuResult:
    w = asked.workload
    return GpuResult(
        name=card.gpu,
        count=w.ranks * w.dp,
        total_bytes=card.total.best if card.total else None,
        free_bytes=card.free_bytes,
        usable_bytes=card.usable.best if card.usable else None,
        weights_bytes=card.weights.best if card.weights else None,
        overhead_bytes=sum(o.bytes.best for o in card.overheads),
        overheads=tuple(OverheadResult(o.name, o.bytes.best, o.bytes.low, o.bytes.high, o.bytes.confidence, o.note, o.sources) for o in card.overheads),
        reserve_bytes=card.reserve_bytes,
        draft_weights_bytes=card.draft_weights.best,
        draft_kv_bytes=draft_kv,
        kv_budget_bytes=card.kv.best if card.kv else None,
        kv_bytes=kv,
        headroom_bytes=card.kv.best - kv - draft_kv if card.kv else None,
        fits=fits,
        max_context=longest,
        max_batch=most,
        basis=card.basis,
        sources=card.sources,
    )


def _bounds(card: Budget, kv: int, searched: dict[str, tuple[int | None, int | None]]) -> tuple[dict[str, Any], dict[str, str]]:
    """(bounds, confidence) of every figure of the GPU part; bounds only where a figure is not exact."""
    bounds: dict[str, Any] = {}
    confidence: dict[str, str] = {}

    def add(name: str, figure: Range | None) -> None:
        if figure is None:
            return
        confidence[f"gpu.{name}"] = figure.confidence
        if figure.confidence != "exact":
            bounds[f"gpu.{name}"] = (figure.low, figure.high)

    add("total_bytes", card.total)
    add("usable_bytes", card.usable)
    add("weights_bytes", card.weights)
    if card.overheads:
        confidence["gpu.overhead_bytes"] = "assumed"
        bounds["gpu.overhead_bytes"] = (sum(o.bytes.low for o in card.overheads), sum(o.bytes.high for o in card.overheads))
    add("kv_budget_bytes", card.kv)
    if card.kv is not None:
        confidence["gpu.headroom_bytes"] = card.kv.confidence
        if card.kv.confidence != "exact":
            bounds["gpu.headroom_bytes"] = (card.kv.low - kv, card.kv.high - kv)
        if "low" in searched:
            bounds["gpu.max_context"] = (searched["low"][0], searched["high"][0])
            bounds["gpu.max_batch"] = (searched["low"][1], searched["high"][1])
    return bounds, confidence


def _compute(question: Question, asked: Subject) -> ComputeResult:
    """The work of generating the whole context, with the cache and without; and what decoding reads."""
    from kvplan.compute import attention_work, decode_pair_flops
    from kvplan.weights import weights_on_rank

    spec, w = asked.spec, asked.workload
    work = attention_work(spec, w.context)
    one = w.replace(tp=1, pp=1, ep=1, dp=1, dcp=1)
    weights = weights_on_rank(spec, one, question.weights)
    read = int(asked.plan.total_bytes(w.context, 1))
    parameters = spec.fields.active_parameters or spec.fields.parameters
    prefill = decode = None
    if weights is not None and parameters is not None:
        active = Fraction(weights.rank_bytes * parameters, spec.fields.parameters or parameters)
        prefill = (2 * parameters * w.context + work.cached_attention_flops) / float(weights.rank_bytes + read)
        step_flops = w.batch * (2 * parameters + decode_pair_flops(spec, w.context))
        decode = step_flops / float(active + w.batch * read)
    return ComputeResult(
        tokens=work.tokens,
        naive_pairs=work.naive_pairs,
        cached_pairs=work.cached_pairs,
        naive_attention_flops=work.naive_attention_flops,
        cached_attention_flops=work.cached_attention_flops,
        naive_linear_flops=work.naive_linear_flops,
        cached_linear_flops=work.cached_linear_flops,
        cache_bytes_per_decoded_token=read,
        weight_bytes_per_step=weights.rank_bytes if weights else None,
        prefill_flops_per_byte=prefill,
        decode_flops_per_byte=decode,
        uncounted=work.uncounted,
    )


def fit_answer(question: Question) -> FitResult:
    """The longest context, the most sequences and the fewest GPUs.

    Raises: InputError without a GPU or budget, and as `size_answer` does.
    """
    from kvplan.planner.fit import fewest_gpus

    if question.gpu is None and question.available_bytes is None:
        raise InputError("fit: needs --gpu or --available-bytes", "add --gpu, for example --gpu h100-sxm-80gb")
    asked = subject(question)
    answer = size_answer(question)
    gpu = answer.gpu
    assert gpu is not None
    per_step = (question.pp or 1) * (question.dp or 1)

    def fits_on(tp: int) -> bool:
        result = size_answer(question.replace(tp=tp, count=None, pp=question.pp, dp=question.dp))
        return result.fits

    fewest = None if question.gpu is None else fewest_gpus(fits_on, per_step)
    return FitResult(
        model=asked.spec.name,
        gpu=gpu.name,
        count=gpu.count,
        context=asked.workload.context,
        batch=asked.workload.batch,
        engine=asked.engine.engine.NAME if asked.engine else None,
        kv_dtype=cache_format(answer.workload.k_dtype, answer.workload.v_dtype),
        kv_budget_bytes=gpu.kv_budget_bytes,
        max_context=gpu.max_context,
        max_batch=gpu.max_batch,
        min_gpus=fewest,
        fits=gpu.fits,
        notes=answer.notes,
        hints=answer.hints,
    )


def cache_format(k_dtype: str, v_dtype: str) -> str:
    """One name for the cache's format: K's, or both where they differ."""
    return k_dtype if k_dtype == v_dtype else f"{k_dtype}/{v_dtype}"
