"""Every printed figure predicted: the engine asked at each budget that the log's own rounding allows."""

from __future__ import annotations

from fractions import Fraction
from math import ceil, floor

from kvplan.engine import Reservation
from kvplan.errors import KvplanError
from kvplan.explain.ask import profiles, question_of
from kvplan.explain.figures import compared, looked_up
from kvplan.explained import FigureResult
from kvplan.logs import Printed, Reading
from kvplan.question import Question, Subject, subject
from kvplan.record import Record
from kvplan.spec import ModelSpec

MOST_POINTS = 200
LONGEST = "estimated_max_model_len"


class Prediction(Record):
    """What the engine answers to a log's question, and how its figures compare.

    reservation: at the budget that fits best; None where the engine refuses. budget: that budget in bytes.
    """

    reading: Reading
    question: Question
    profile: str
    asked: Subject
    reservation: Reservation
    budget: int | None
    figures: tuple[FigureResult, ...]
    notes: tuple[str, ...]
    hints: tuple[str, ...]

    def budget_range(self) -> tuple[int, int]:
        """The least and the most bytes that print as the log's budget."""
        assert self.reading.ask.budget is not None
        return _whole_range(self.reading.ask.budget)

    @property
    def agreeing(self) -> int:
        """How many figures agree, less those that do not."""
        return sum(1 if figure.agrees else -1 for figure in self.figures if figure.agrees is not None)


def predicted(reading: Reading, spec: ModelSpec) -> Prediction:
    """The prediction for a log, by the version profile that agrees where the log does not say its version.

    Raises: InputError, NotCountableError as the engine does.
    """
    found: list[Prediction] = []
    names = profiles(reading)
    for profile in names:
        try:
            found.append(attempt(reading, spec, profile))
        except KvplanError:
            if profile == names[-1] and not found:
                raise
            continue
        if all(figure.agrees is not False for figure in found[-1].figures):
            break
    best = max(found, key=lambda prediction: prediction.agreeing)
    if reading.version is None and len(names) > 1:
        best = best.replace(
            notes=(*best.notes, f"the log does not say its version: counted as {reading.engine} {best.profile} does")
        )
    if all(figure.agrees is not False for figure in best.figures):
        return best
    from kvplan.explain.causes import with_causes

    return with_causes(best, spec)


def attempt(reading: Reading, spec: ModelSpec, profile: str) -> Prediction:
    """The prediction of one version profile.

    Raises: as the engine does.
    """
    question, dropped = question_of(reading, spec, profile)
    asked = subject(question)
    assert asked.engine is not None
    plain = asked.engine.reserve(asked.spec, asked.workload)
    points = budget_points(reading, plain, asked)
    best = max(
        ((budget, asked.engine.reserve(asked.spec, asked.workload, budget)) for budget in points),
        key=lambda point: _agreeing(reading, asked, *point),
        default=(None, plain),
    )
    figures = tuple(_figure(printed, reading, asked, best, plain, points) for printed in reading.printed)
    notes = [f"not counted: {', '.join(dropped)}"] if dropped else []
    return Prediction(reading, question, profile, asked, best[1], best[0], figures, tuple(notes), asked.hints)


def budget_points(reading: Reading, plain: Reservation, asked: Subject) -> list[int]:
    """The budgets to ask the engine at, the likeliest first: one for each number of blocks that fits the log.

    Where the log prints no budget, it is what its tokens or blocks take.
    """
    block = looked_up(plain.figures, "bytes_per_block")
    budget = reading.ask.budget
    if budget is not None:
        low, high = _whole_range(budget)
        middle = (low + high) // 2
        if not block or block.denominator != 1:
            return [middle, low, high]
        least, most = low // int(block), high // int(block)
        if most - least > MOST_POINTS:
            return [middle, low, high]
        counts = sorted(range(least, most + 1), key=lambda count: abs(count - middle // int(block)))
        return [min(high, max(low, count * int(block))) for count in counts]
    if not block:
        return []
    return [count * int(block) for count in _block_counts(reading, plain)]


def _block_counts(reading: Reading, plain: Reservation) -> list[int]:
    """Numbers of blocks that the printed tokens or blocks may stand for."""
    per_request = looked_up(plain.figures, "blocks_per_request")
    for printed in reading.printed:
        if printed.figure == "num_gpu_blocks":
            return [int(printed.value)]
        if printed.figure == "kv_cache_size_tokens" and reading.ask.context:
            tokens, found = printed.value, set()
            for each in (
                per_request,
                looked_up(plain.figures, "tokens_per_block"),
                looked_up(plain.figures, "block_size"),
            ):
                if each:
                    count = tokens * each / reading.ask.context if each is per_request else tokens / each
                    found |= {max(1, round(count) + step) for step in (-1, 0, 1)}
            return sorted(found)
    return []


def _whole_range(printed: Printed) -> tuple[int, int]:
    return max(0, ceil(printed.low)), max(0, floor(printed.high))


def _agreeing(reading: Reading, asked: Subject, budget: int, reservation: Reservation) -> int:
    """How many printed figures a budget explains."""
    found = (
        (printed, _value(printed, asked, budget, reservation))
        for printed in reading.printed
        if printed.figure != LONGEST
    )
    return sum(1 for printed, value in found if value is not None and printed.holds(value, value))


def _value(printed: Printed, asked: Subject, budget: int | None, reservation: Reservation) -> Fraction | None:
    if printed.figure == LONGEST:
        return None if budget is None else Fraction(_longest(asked, budget))
    return looked_up(reservation.figures, printed.figure) if printed.figure else None


def _longest(asked: Subject, budget: int) -> int:
    """The longest request that the budget holds, as the engine searches for it: by halving."""
    low, high = 0, asked.workload.context
    while low < high:
        middle = (low + high + 1) // 2
        if asked.weigh(middle, 1) <= budget:
            low = middle
        else:
            high = middle - 1
    return low


def _figure(
    printed: Printed,
    reading: Reading,
    asked: Subject,
    best: tuple[int | None, Reservation],
    plain: Reservation,
    points: list[int],
) -> FigureResult:
    assert asked.engine is not None
    value = _value(printed, asked, *best)
    if value is None:
        return compared(printed, None, "nothing predicts it", None)
    fixed = looked_up(plain.figures, printed.figure)
    if fixed is not None or len(points) < 2:
        return compared(printed, value, _exact_reason(printed, value, reading), None)
    ends = [min(points), max(points)]
    at_ends = [_value(printed, asked, end, asked.engine.reserve(asked.spec, asked.workload, end)) for end in ends]
    low, high = min(v for v in (value, *at_ends) if v is not None), max(v for v in (value, *at_ends) if v is not None)
    told = reading.ask.budget
    why = (
        f"a budget printed as {told.text} is anything from {ends[0]:,} to {ends[1]:,} bytes"
        if told
        else "no budget is printed"
    )
    return compared(printed, value, why, (low, high))


def _exact_reason(printed: Printed, value: Fraction, reading: Reading) -> str:
    if printed.holds(value, value):
        return "" if printed.value == value else "within its rounding"
    return ""
