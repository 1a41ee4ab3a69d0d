"""A question in, a size out: bytes, parts, the engine's reservation, the card's verdict."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

from kvplan.catalogue import Found
from kvplan.errors import InputError, NotCountableError
from kvplan.question import MOST, Question, Subject, subject
from kvplan.results import ComputeResult, SizeResult, TimeResult, WorkloadResult
from kvplan.units import iec

if TYPE_CHECKING:
    from kvplan.engine import Reservation
    from kvplan.planner.verdict import Verdict


def size_answer(question: Question) -> SizeResult:
    """How many bytes, and does it fit; with `output_tokens`, how long it takes.

    Raises: InputError for bad input, NotCountableError for what cannot be counted.
    """
    asked = subject(question)
    if question.batch == MOST:
        question = question.replace(batch=_most_sequences(question, asked))
        asked = asked.replace(workload=asked.workload.replace(batch=question.batch))
    refused = _refusal(asked) if question.lenient else None
    if refused is not None:
        question, asked = question.replace(engine=None, engine_options=()), asked.replace(engine=None)
    spec, workload, plan = asked.spec, asked.workload, asked.plan
    prefix = workload.prefix
    total = int(plan.total_bytes(workload.context, workload.batch, prefix))
    verdict = _verdict(question, asked) if refused is None else None
    reservation = verdict.reservation if verdict else asked.engine.reserve(spec, workload) if asked.engine else None
    return SizeResult(
        model=spec.name,
        found_through=_found_through(question, asked.found),
        model_max_context=spec.fields.max_context,
        workload=workload_result(asked),
        total_bytes=total,
        bytes_per_token=_number(plan.marginal_bytes(full=False)),
        bytes_per_token_full=_number(plan.marginal_bytes(full=True)),
        fixed_bytes_per_sequence=plan.fixed_bytes(),
        per_rank_bytes=int(plan.rank_bytes(workload.context, workload.batch, prefix)),
        copied_bytes=plan.copied_bytes(workload.context, workload.batch, prefix),
        parts=tuple(plan.parts(workload.context, workload.batch, prefix)),
        engine=refused or _engine_result(reservation),
        gpu=verdict.gpu if verdict else None,
        draft=verdict.draft if verdict else None,
        formula=_formula(question, asked),
        compute=_compute(question, asked) if question.formula else None,
        time=_time(question, asked),
        notes=(*_notes(asked), *(verdict.notes if verdict else ())),
        hints=asked.hints,
        bounds=verdict.bounds if verdict else {},
        confidence=verdict.confidence if verdict else {},
    )


def _most_sequences(question: Question, asked: Subject) -> int:
    """As many sequences as fit the card, prompt and output counted; 1 where not even one does.

    Raises: InputError where no card or budget is named, or nothing bounds them.
    """
    verdict = _verdict(question, asked)
    if verdict is None:
        raise InputError("--batch max: needs --gpu or --available-bytes", "add --gpu, for example --gpu h100")
    if verdict.gpu.max_batch is None:
        raise InputError("--batch max: nothing bounds the sequences, or the weights are not known", "give a number")
    return verdict.gpu.max_batch or 1


def _number(value: Fraction) -> int | float:
    return int(value) if value.denominator == 1 else float(value)


def _found_through(question: Question, found: Found | None) -> str | None:
    if found is None or found.through == "name":
        return None
    return f"read from {question.model}" if found.through == "source" else f"{found.through} {question.model}"


def workload_result(asked: Subject) -> WorkloadResult:
    """The workload as resolved."""
    w, fields = asked.workload, asked.spec.fields
    stored = fields.kv_dtype or fields.dtype
    from kvplan.formats import format_named

    return WorkloadResult(
        context=w.context,
        batch=w.batch,
        k_dtype=format_named(w.k_dtype or stored).name,
        v_dtype=format_named(w.v_dtype or stored).name,
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


def _refusal(asked: Subject) -> dict[str, Any] | None:
    """The engine's part of an answer where the engine does not take this workload; None where it does."""
    if asked.engine is None:
        return None
    try:
        asked.engine.reserve(asked.spec, asked.workload)
    except (InputError, NotCountableError) as error:
        name, version = asked.engine.engine.NAME, asked.engine.version
        return {"name": name, "version": version, "reserved_bytes": None, "refused": error.what, "reasons": []}
    return None


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
    notes = list(asked.found.notes) if asked.found else []
    w, plan = asked.workload, asked.plan
    copied = plan.copied_bytes(w.context, w.batch, w.prefix)
    if copied:
        held = {
            f"{item.tensor.name} has {shards:,} {'shard' if shards == 1 else 'shards'}"
            for item, _, shards in plan.copies
        }
        notes.append(
            f"ranks hold copies: {', '.join(sorted(held))} for tp {w.tp:,}; the copies take {iec(copied)} over the replica",
        )
    if "int4" in (w.k_dtype, w.v_dtype):
        notes.append(
            "int4 is the textbook's half byte per element, without scales: real formats take more (int4_g64, q4_0, nvfp4)",
        )
    if w.dp > 1:
        notes.append(f"batch and bytes are per replica; {w.dp} replicas hold {w.dp} times as much")
    return notes


def _verdict(question: Question, asked: Subject) -> Verdict | None:
    """Does it fit: asked only where a GPU, a budget, a draft model or an engine that may state one is named."""
    if question.gpu is None and question.available_bytes is None and question.draft is None and asked.engine is None:
        return None
    from kvplan.planner.verdict import verdict

    return verdict(question, asked)


def _time(question: Question, asked: Subject) -> TimeResult | None:
    if question.output_tokens is None:
        return None
    from kvplan.planner.timing import Load, time_answer

    w, output = asked.workload, question.output_tokens
    return time_answer(question, asked, Load(w.context - output, output, w.batch, question.load == "closed"))


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
