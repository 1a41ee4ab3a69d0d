"""The budgets of a capacity file held against its cells: what must fit, how many, how long, how large, how dear.

A budget names values of axes; the axes it leaves out stand for all of theirs. Each of its limits is one
verdict, decided by the cell that comes nearest to breaking it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from kvplan.capacity import AXES, LIMITS, Budget, Capacity, length
from kvplan.catalogue import gpu_named
from kvplan.errors import InputError, quoted
from kvplan.planner.matrix import matrix_rows
from kvplan.record import Record
from kvplan.results import CheckVerdict, TableRow
from kvplan.units import byte_count

HOURS_PER_MONTH = 730
"""365 x 24 / 12."""
_SECONDS = {"ms": 1e-3, "us": 1e-6, "s": 1.0}


def check_budgets(capacity: Capacity, specs: str | None = None) -> list[CheckVerdict]:
    """A verdict for every limit of every budget of `capacity`.

    Raises: InputError for a file without budgets, or a limit that its cells cannot answer; NotCountableError
    for what cannot be counted.
    """
    if not capacity.fields.budgets:
        raise InputError(
            f"{capacity.source}: budgets: missing", "add `budgets: [{must: fit}]`; docs/capacity.md has more"
        )
    verdicts: list[CheckVerdict] = []
    for number, budget in enumerate(capacity.fields.budgets):
        place = f"{capacity.source}: budgets.{number}"
        narrowed = _narrowed(capacity, budget, place)
        cells = matrix_rows(narrowed, specs)
        for name in LIMITS:
            wanted = getattr(budget, name)
            if wanted is not None:
                verdicts.append(_verdict(_Asked(narrowed, place, specs), budget, name, wanted, cells))
    return verdicts


def _narrowed(capacity: Capacity, budget: Budget, place: str) -> Capacity:
    """The capacity file with the axes that `budget` names at their values."""
    named = {axis: getattr(budget, axis) for axis in AXES if getattr(budget, axis) is not None}
    fields = capacity.fields.model_copy(update={**named, "budgets": []})
    return Capacity.model_construct(fields=fields, source=place)


class _Asked(Record):
    """The capacity file narrowed to a budget, what errors call it, and the user's own specs."""

    capacity: Capacity
    place: str
    specs: str | None


def _verdict(asked: _Asked, budget: Budget, name: str, wanted: Any, cells: list[Cell]) -> CheckVerdict:
    measure, limit, most = _MEASURES[name](asked, wanted)
    found = [(measure(cell), cell[1]) for cell in cells]
    value, row = (max if most else min)(found, key=lambda item: item[0])
    ok = value <= limit if most else value >= limit
    said = {key: item for key, item in budget.model_dump(by_alias=True, exclude_none=True).items() if key not in LIMITS}
    return CheckVerdict(
        budget={**said, name: wanted},
        ok=ok,
        value=value,
        limit=limit,
        place=asked.place,
        refused=None,
        bytes_per_sequence=None,
        max_context=row.max_context,
        max_batch=row.max_batch,
        serve=None,
        cell=_cell(row),
        hints=_price_hints(asked, name, row),
    )


def _price_hints(asked: _Asked, name: str, row: TableRow) -> tuple[str, ...]:
    """Which price a cost was counted with."""
    if name != "max_cost_per_month" or row.gpu is None:
        return ()
    return (f"price: {hourly_price(row.gpu, asked.capacity.fields.price, asked.place).said}",)


def _cell(row: TableRow) -> dict[str, Any]:
    """The cell that decided, in the words of a capacity file."""
    cell = {
        "model": row.model,
        "gpu": row.gpu,
        "count": row.count,
        "tp": row.tp,
        "pp": row.pp,
        "ctx": row.context,
        "batch": row.batch,
        "kv_dtype": row.kv_dtype,
        "policy": row.policy,
        "engine": row.engine,
    }
    return {key: value for key, value in cell.items() if value is not None}


Cell = tuple[dict[str, Any], TableRow]
Measure = Callable[[Cell], Any]
Rule = tuple[Measure, Any, bool]
"""(what is measured of a cell, the limit, whether it is the most that is allowed)."""
UNLIMITED = 10**18


def _with_room(asked: _Asked, measure: Callable[[TableRow], Any]) -> Measure:
    """`measure`, for cells that have a card or a budget to be held against."""

    def measured(cell: Cell) -> Any:
        if cell[1].kv_budget_bytes is None:
            fix = "add `gpu:` to the file or the budget, or `available_bytes:`"
            raise InputError(f"{asked.place}: needs a card", fix)
        return measure(cell[1])

    return measured


def _must(asked: _Asked, wanted: str) -> Rule:
    return _with_room(asked, lambda row: 1 if row.fits else 0), 1, False


def _min_batch(asked: _Asked, wanted: int) -> Rule:
    return _with_room(asked, lambda row: UNLIMITED if row.max_batch is None else row.max_batch), wanted, False


def _min_ctx(asked: _Asked, wanted: str | int) -> Rule:
    least = length(wanted, f"{asked.place}.min_ctx")
    if least == "max":
        raise InputError(f"{asked.place}.min_ctx: found 'max', allowed a number of tokens", "for example min_ctx: 32k")
    return _with_room(asked, lambda row: UNLIMITED if row.max_context is None else row.max_context), least, False


def _max_bytes(asked: _Asked, wanted: str | int) -> Rule:
    return lambda cell: cell[1].total_bytes, byte_count(str(wanted), f"{asked.place}.max_bytes"), True


def _max_cost(asked: _Asked, wanted: float) -> Rule:
    prices = asked.capacity.fields.price

    def cost(row: TableRow) -> float:
        return round(row.count * hourly_price(row.gpu or "", prices, asked.place).hourly * HOURS_PER_MONTH, 2)

    return _with_room(asked, cost), wanted, True


class Price(Record):
    """US dollars an hour for one card, and where the figure is from, in words."""

    hourly: float
    said: str


def hourly_price(name: str, prices: Mapping[str, float], place: str) -> Price:
    """The file's own price of a card, else the middle of the catalogue's newest range, which is dated.

    Raises: InputError where neither has one.
    """
    gpu = gpu_named(name)
    for known in (name, gpu.name, *gpu.aliases):
        if known in prices:
            return Price(prices[known], f"{gpu.name} at ${prices[known]:,.2f} an hour, as the file says")
    rented = [p for p in gpu.prices if p.get("kind") == "cloud_per_gpu_hour" and "low_usd" in p and "high_usd" in p]
    if not rented:
        raise InputError(
            f"{place}: no price of {gpu.name} is known", f"add `price: {{{gpu.name}: 2.95}}`, in dollars an hour"
        )
    newest = max(rented, key=lambda p: str(p.get("date", "")))
    low, high = float(newest["low_usd"]), float(newest["high_usd"])
    said = f"{gpu.name} at ${(low + high) / 2:,.2f} an hour, the middle of ${low:,.2f} to ${high:,.2f} ({newest.get('date')}, {newest.get('trust')} trust)"
    return Price((low + high) / 2, said)


def _max_tpot(asked: _Asked, wanted: str) -> Rule:
    from kvplan.sizing import size_answer

    def step(cell: Cell) -> float:
        question = asked.capacity.question(cell[0])
        found = size_answer(question.replace(specs=asked.specs, output_tokens=1, load="static")).time
        assert found is not None
        return found.decode_step_seconds.best

    return step, seconds(wanted, f"{asked.place}.max_tpot"), True


def seconds(text: str, what: str) -> float:
    """A time such as `50ms` or `2s`, in seconds.

    Raises: InputError for anything else.
    """
    for unit, scale in _SECONDS.items():
        digits = text.removesuffix(unit)
        if digits != text and digits.replace(".", "", 1).isdigit() and digits.isascii() and len(digits) < 12:
            return float(digits) * scale
    raise InputError(f"{what}: found {quoted(text)}, allowed a time such as 50ms or 2s", "write the unit: ms or s")


_MEASURES: dict[str, Callable[[_Asked, Any], Rule]] = {
    "must": _must,
    "min_batch": _min_batch,
    "min_ctx": _min_ctx,
    "max_bytes": _max_bytes,
    "max_cost_per_month": _max_cost,
    "max_tpot": _max_tpot,
}
