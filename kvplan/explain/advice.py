"""Why so few tokens, and what would help: the engine asked again with one thing changed."""

from __future__ import annotations

from fractions import Fraction

from kvplan.errors import KvplanError
from kvplan.explain.ask import question_of
from kvplan.explain.figures import looked_up
from kvplan.explain.predict import Prediction
from kvplan.explained import AdviceResult
from kvplan.logs import Remedy
from kvplan.question import subject
from kvplan.units import iec


def answer(prediction: Prediction) -> tuple[str, ...]:
    """Where the bytes of one request go, and why they are more or less than the architecture needs."""
    asked, reservation = prediction.asked, prediction.reservation
    length = asked.workload.context
    rank = " on a rank" if asked.workload.ranks > 1 else ""
    request = looked_up(reservation.figures, "bytes_per_request")
    need = int(asked.plan.rank_bytes(length, 1, 0))
    if request is not None:
        more = f" ({int(request) / need - 1:+.1%})" if need and int(request) != need else ""
        what = f"one request of {length:,} tokens takes {iec(int(request))}{rank}"
        lines = [f"{what}; the architecture needs {iec(need)}{more}"]
    elif (held := looked_up(reservation.figures, "kv_bytes")) is not None and prediction.reading.less:
        lines = [f"the caches take {iec(int(held))}; one sequence of {length:,} tokens needs {iec(need)}"]
    else:
        cell = looked_up(reservation.figures, "cell_bytes")
        token = f", {int(cell):,} bytes for each token" if cell is not None else ""
        lines = [f"the pools take {iec(reservation.reserved_bytes)}{rank}{token}"]
    lines += [f"  {reason}" for reason in reservation.reasons]
    return (*lines, *_copies(prediction), *_tokens(prediction))


def _copies(prediction: Prediction) -> list[str]:
    """What ranks hold twice, because there are fewer heads than ranks."""
    asked = prediction.asked
    copied = int(asked.plan.copied_bytes(asked.workload.context, 1, 0))
    return [f"{iec(copied)} of each request are copies on other ranks: fewer heads than ranks"] if copied else []


def _tokens(prediction: Prediction) -> list[str]:
    """What the figure that is printed as tokens means."""
    figures, length = prediction.reservation.figures, prediction.asked.workload.context
    tokens, many = looked_up(figures, "kv_cache_size_tokens"), looked_up(figures, "max_concurrency")
    if tokens is None or many is None:
        return []
    if abs(tokens - many * length) <= 1:
        return [
            f"{int(tokens):,} tokens are {float(many):.2f} requests of {length:,}: not slots, but concurrency x length"
        ]
    return [f"{float(many * length):,.0f} tokens fit as requests of {length:,}; the log prints {int(tokens):,}"]


def advice(prediction: Prediction) -> tuple[AdviceResult, ...]:
    """Each change that helps, the most helpful first, by the engine's own answer."""
    reading = prediction.reading
    if not reading.measure:
        return ()
    room = prediction.budget if prediction.budget is not None else prediction.reservation.reserved_bytes
    before = looked_up(prediction.reservation.figures, reading.measure)
    if before is None:
        return ()
    found = []
    for remedy in reading.remedies:
        after = _after(prediction, remedy, None if reading.less else room)
        if after is not None and (after < before if reading.less else after > before):
            found.append(AdviceResult(remedy.option, reading.measure, int(before), int(after)))
    return tuple(sorted(found, key=lambda one: one.after, reverse=not reading.less))


def _after(prediction: Prediction, remedy: Remedy, room: int | None) -> Fraction | None:
    """The measured figure with the remedy applied; None where the engine refuses it."""
    reading = prediction.reading
    changed = reading.replace(ask=reading.ask.replace(**remedy.changes))
    try:
        question, _ = question_of(changed, prediction.asked.spec, prediction.profile)
        asked = subject(question)
        assert asked.engine is not None
        return looked_up(asked.engine.reserve(asked.spec, asked.workload, room).figures, reading.measure)
    except KvplanError:
        return None
