"""Does it fit: a size set against a card's budget, with what would fit and how sure that is."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from kvplan.account import Account, Device, Range, general_account
from kvplan.catalogue import gpu_named, model_named
from kvplan.errors import InputError
from kvplan.footprint import cache_plan
from kvplan.planner.budget import Budget, card_budget, given_budget
from kvplan.planner.fit import longest_context, most_sequences
from kvplan.question import Question, Subject, value_format
from kvplan.record import Record
from kvplan.results import DraftResult, GpuResult, OverheadResult
from kvplan.weights import weights_on_rank
from kvplan.workload import Workload

if TYPE_CHECKING:
    from kvplan.engine import Reservation


class Verdict(Record):
    """The card's part of an answer, with bounds and confidence by key, and notes in words.

    reservation: what the engine takes, with the figures that follow from the budget.
    """

    gpu: GpuResult
    reservation: Reservation | None
    draft: DraftResult | None
    bounds: dict[str, Any]
    confidence: dict[str, str]
    notes: tuple[str, ...]


def _draft(question: Question, asked: Subject) -> Subject | None:
    """The separate draft model on the same cards, under the same workload."""
    if question.draft is None:
        return None
    if question.gpu is None:
        raise InputError(
            "--draft: needs --gpu, since it shares the target's cards",
            "add --gpu, for example --gpu h100",
        )
    spec, found = model_named(question.draft, question.specs, question.online)
    workload = asked.workload.replace(mtp=0, ep=1, encoder_tokens=None, v_dtype=value_format(question, spec))
    return Subject(spec, found, workload, cache_plan(spec, workload), None, ())


def _draft_bytes(draft: Subject, workload: Workload) -> tuple[int, int]:
    lengths = (workload.context, workload.batch, workload.prefix)
    return int(draft.plan.total_bytes(*lengths)), int(draft.plan.rank_bytes(*lengths))


def stated_bytes(question: Question, asked: Subject) -> int | None:
    """The budget that is stated outright, by `--available-bytes` or by an option of the engine."""
    if asked.engine is None:
        return question.available_bytes
    given = asked.engine.given_budget(asked.spec, asked.workload)
    if given is not None and question.available_bytes is not None and given != question.available_bytes:
        raise InputError(
            f"--available-bytes: found {question.available_bytes:,}, but an option of {asked.engine.engine.NAME} makes it {given:,}",
            "give one of them",
        )
    return question.available_bytes if given is None else given


def budget(question: Question, asked: Subject, draft: Subject | None, stated: int | None) -> Budget:
    """The KV budget of one card, step by step."""
    if question.gpu is None:
        assert stated is not None
        return given_budget(stated)
    gpu = gpu_named(question.gpu) if isinstance(question.gpu, str) else question.gpu
    weights = weights_on_rank(asked.spec, asked.workload, question.weights)
    draft_weights = weights_on_rank(draft.spec, draft.workload, None) if draft else None
    if draft and draft_weights is None:
        raise InputError(f"--draft: the parameters of {draft.spec.name} are not known", "add `parameters:` to its spec")
    cards = asked.workload.ranks * (asked.workload.dp if asked.workload.ep > 1 else 1)

    def account(device: Device) -> Account:
        return asked.engine.account(asked.spec, asked.workload, device) if asked.engine else general_account(device)

    return card_budget(
        gpu,
        weights,
        draft_weights,
        cards,
        question.utilization,
        question.reserve_bytes,
        stated,
        account,
    )


def verdict(question: Question, asked: Subject) -> Verdict | None:
    """Whether the workload fits the card or budget that `question` names, and what would; None where it names none.

    Raises: InputError when the weights are not known and would decide; NotCountableError when the
    card's total is not known.
    """
    draft = _draft(question, asked)
    stated = stated_bytes(question, asked)
    if question.gpu is None and stated is None:
        return None
    card = budget(question, asked, draft, stated)
    w = asked.workload
    draft_kv = _draft_bytes(draft, w)[1] if draft else 0
    reservation = _reservation(asked, card.kv.best - draft_kv if card.kv else None)
    held = int(asked.plan.rank_bytes(w.context, w.batch, w.prefix))
    kv = reservation.reserved_bytes if reservation else held
    if card.kv is None:
        return _without_weights(asked, card, kv, reservation)
    least = reservation.least_budget_bytes if reservation else kv
    budgets = {edge: getattr(card.kv, edge) for edge in _edges(card.kv)}
    searched = {
        edge: (longest_held(asked, draft, room), most_held(asked, draft, room)) for edge, room in budgets.items()
    }
    longest, most = searched["best"]
    fits = least + draft_kv <= card.kv.best
    result = _gpu_result(asked, card, kv, draft_kv, fits, longest, most)
    bounds, confidence = _bounds(card, kv + draft_kv, searched)
    if reservation:
        _add_engine_bounds(asked, card.kv, draft_kv, reservation, bounds, confidence)
    notes = []
    if not fits and kv + draft_kv <= card.kv.best:
        notes.append(
            f"the cache would fit, but {reservation.engine if reservation else 'the engine'} needs {least - kv:,} bytes more to start"
        )
    low_fits, high_fits = least + draft_kv <= card.kv.low, least + draft_kv <= card.kv.high
    if low_fits != high_fits:
        verdict = "fits" if fits else "does not fit"
        notes.append(
            f"{verdict} by the best estimate; the bounds disagree, since the overheads are estimates (--available-bytes makes it exact)",
        )
        bounds["gpu.fits"] = (low_fits, high_fits)
    beside = DraftResult(draft.spec.name, *_draft_bytes(draft, w)) if draft else None
    return Verdict(result, reservation, beside, bounds, confidence, tuple(notes))


def _reservation(asked: Subject, budget_bytes: int | None) -> Reservation | None:
    if asked.engine is None:
        return None
    room = None if budget_bytes is None else max(0, budget_bytes)
    return asked.engine.reserve(asked.spec, asked.workload, room)


def _add_engine_bounds(
    asked: Subject,
    kv: Range,
    draft_kv: int,
    best: Reservation,
    bounds: dict[str, Any],
    confidence: dict[str, str],
) -> None:
    """Bounds of the engine's figures that follow from an estimated budget: the same at its two ends."""
    if kv.low == kv.high:
        return
    low, high = (_reservation(asked, edge - draft_kv) for edge in (kv.low, kv.high))
    assert low is not None
    assert high is not None
    for key in dict.fromkeys((*low.figures, *best.figures, *high.figures)):
        ends = low.figures.get(key), high.figures.get(key)
        if ends[0] != ends[1] and not isinstance(best.figures.get(key), list | str):
            bounds[f"engine.{key}"] = ends
            confidence[f"engine.{key}"] = kv.confidence


def _joint_weigh(asked: Subject, draft: Subject | None) -> Any:
    """Bytes on the fullest rank by (context, batch): the model's, and its draft's on the same cards."""
    if draft is None:
        return asked.weigh
    return lambda context, batch: asked.weigh(context, batch) + draft.weigh(context, batch)


def longest_held(asked: Subject, draft: Subject | None, budget_bytes: int) -> int | None:
    """The longest context of the workload's sequences in `budget_bytes`; None where nothing bounds it."""
    w, least = asked.workload, asked.workload.policy.least_context()
    plans = [asked.plan] if draft is None else [asked.plan, draft.plan]
    dips = _dip_tokens(asked) + (draft.plan.dip_tokens() if draft else 0)
    filled = max(dips + 1, *(plan.filled_after() for plan in plans))

    def weigh_all(lengths: range) -> Iterable[int]:
        import numpy

        contexts = numpy.arange(lengths.start, lengths.stop)
        prefix: Any = numpy.minimum(w.prefix, contexts) if w.prefix else 0
        held: Any = sum(plan.rank_bytes(contexts, w.batch, prefix) for plan in plans)
        return (int(count) for count in numpy.broadcast_to(held, contexts.shape))

    together = weigh_all if asked.engine is None else None
    return longest_context(_joint_weigh(asked, draft), budget_bytes, w.batch, least, dips, filled, together)


def most_held(asked: Subject, draft: Subject | None, budget_bytes: int) -> int | None:
    """The most sequences of the workload's context in `budget_bytes`; None where nothing bounds them."""
    return most_sequences(_joint_weigh(asked, draft), budget_bytes, asked.workload.context)


def _dip_tokens(asked: Subject) -> int:
    """How far below a fitting length a shorter one may fail, for the footprint or the engine."""
    if asked.engine is not None:
        return asked.engine.dip_tokens(asked.spec, asked.workload)
    return asked.plan.dip_tokens()


def _edges(kv: Range) -> tuple[str, ...]:
    return ("best",) if kv.low == kv.high else ("best", "low", "high")


def _without_weights(asked: Subject, card: Budget, kv: int, reservation: Reservation | None) -> Verdict:
    """The verdict where nobody knows the weights: no, when the cache alone is too large."""
    assert card.usable is not None
    if kv <= card.usable.high:
        raise InputError(
            f"{asked.spec.name}: its weights are not known, so whether it fits {card.gpu} is not either",
            "add --weights BYTES, for example --weights 38GiB",
        )
    note = f"the cache alone is larger than the usable memory of {card.gpu}; the weights are not known"
    result = _gpu_result(asked, card, kv, 0, False, None, None)
    return Verdict(result, reservation, None, *_bounds(card, kv, {}), (note,))


def _gpu_result(
    asked: Subject,
    card: Budget,
    kv: int,
    draft_kv: int,
    fits: bool,
    longest: int | None,
    most: int | None,
) -> GpuResult:
    w = asked.workload
    return GpuResult(
        name=card.gpu,
        count=w.ranks * w.dp,
        total_bytes=card.total.best if card.total else None,
        free_bytes=card.free_bytes,
        usable_bytes=card.usable.best if card.usable else None,
        weights_bytes=card.weights.best if card.weights else None,
        overhead_bytes=sum(o.bytes.best for o in card.overheads),
        overheads=tuple(
            OverheadResult(o.name, o.bytes.best, o.bytes.low, o.bytes.high, o.bytes.confidence, o.note, o.sources)
            for o in card.overheads
        ),
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


def _bounds(
    card: Budget,
    kv: int,
    searched: dict[str, tuple[int | None, int | None]],
) -> tuple[dict[str, Any], dict[str, str]]:
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
        bounds["gpu.overhead_bytes"] = (
            sum(o.bytes.low for o in card.overheads),
            sum(o.bytes.high for o in card.overheads),
        )
    add("kv_budget_bytes", card.kv)
    if card.kv is not None:
        confidence["gpu.headroom_bytes"] = card.kv.confidence
        if card.kv.confidence != "exact":
            bounds["gpu.headroom_bytes"] = (card.kv.low - kv, card.kv.high - kv)
        if "low" in searched:
            bounds["gpu.max_context"] = (searched["low"][0], searched["high"][0])
            bounds["gpu.max_batch"] = (searched["low"][1], searched["high"][1])
    return bounds, confidence
