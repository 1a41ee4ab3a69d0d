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
    given = asked.engine.given_budget(asked.spec, asked.workload)
    points = budget_points(reading, plain) if given is None else [given]
    tried = [(budget, asked.engine.reserve(asked.spec, asked.workload, budget)) for budget in points]
    budget, best = max(tried, key=lambda point: _agreeing(reading, point[1]), default=(None, plain))
    figures = tuple(_figure(printed, reading, asked, best, plain, points) for printed in reading.printed)
    notes = [f"not counted: {', '.join(dropped)}"] if dropped else []
    return Prediction(reading, question, profile, asked, best, budget, figures, tuple(notes), asked.hints)


def budget_points(reading: Reading, plain: Reservation) -> list[int]:
    """The budgets to ask the engine at, the likeliest first: one for each number of blocks that fits the log.

    Where the log prints no budget, it is what its tokens or blocks take.
    """
    block = looked_up(plain.figures, "bytes_per_block") or looked_up(plain.figures, "tokens_per_block*bytes_per_token")
    size = int(block) if block and block.denominator == 1 else 0
    budget = reading.ask.budget
    if budget is None:
        return [count * size for count in _block_counts(reading, plain)] if size else []
    low, high = _whole_range(budget)
    if reading.ask.spare_block:
        high += size
    middle = (low + high) // 2
    if not size or high // size - low // size > MOST_POINTS:
        return [middle, low, high]
    counts = sorted(range(low // size, high // size + 1), key=lambda count: abs(count - middle // size))
    return [min(high, max(low, count * size)) for count in counts]


def _block_counts(reading: Reading, plain: Reservation) -> list[int]:
    """Numbers of blocks that the printed tokens or blocks may stand for."""
    for printed in reading.printed:
        if printed.figure == "num_gpu_blocks":
            return [int(printed.value)]
        if printed.figure == "kv_cache_size_tokens" and reading.ask.context:
            likely = [_over(looked_up(plain.figures, "blocks_per_request"), printed.value / reading.ask.context)]
            size = looked_up(plain.figures, "block_size")
            groups = plain.figures.get("groups")
            count = sum(int(group.get("count", 1)) for group in groups) if isinstance(groups, list) else 1
            likely += [printed.value * count / size + step for step in range(count)] if size else []
            return sorted({max(1, round(one) + step) for one in likely if one for step in (-1, 0, 1)})
    return []


def _over(each: Fraction | None, many: Fraction) -> Fraction:
    return Fraction(0) if each is None else each * many


def _whole_range(printed: Printed) -> tuple[int, int]:
    return max(0, ceil(printed.low)), max(0, floor(printed.high))


def _agreeing(reading: Reading, reservation: Reservation) -> int:
    """How many printed figures a reservation explains."""
    found = ((printed, looked_up(reservation.figures, printed.figure)) for printed in reading.printed)
    return sum(1 for printed, value in found if value is not None and printed.holds(value, value))


def _figure(
    printed: Printed,
    reading: Reading,
    asked: Subject,
    best: Reservation,
    plain: Reservation,
    points: list[int],
) -> FigureResult:
    assert asked.engine is not None
    value = looked_up(best.figures, printed.figure)
    if value is None:
        return compared(printed, None, "nothing predicts it", None)
    if looked_up(plain.figures, printed.figure) is not None or len(points) < 2:
        return compared(printed, value, "", None)
    ends = [min(points), max(points)]
    reserved = [asked.engine.reserve(asked.spec, asked.workload, end) for end in ends]
    values = [value, *(found for one in reserved if (found := looked_up(one.figures, printed.figure)) is not None)]
    blocks = looked_up(best.figures, "num_gpu_blocks")
    counted = f"{int(blocks):,} blocks; " if blocks is not None and printed.figure != "num_gpu_blocks" else ""
    told = reading.ask.budget
    rounded = f"a budget printed as {told.text} is {ends[0]:,} to {ends[1]:,} bytes" if told else "no budget is printed"
    return compared(printed, value, counted + rounded, (min(values), max(values)))
