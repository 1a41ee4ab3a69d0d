"""A printed figure beside the predicted one: found in the engine's answer, compared within the printed rounding."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction
from operator import add, mul, sub
from typing import Any

from kvplan.explained import FigureResult
from kvplan.logs import UNITS, Printed, written

SIGNS: Mapping[str, Callable[[Fraction, Fraction], Fraction]] = {"+": add, "-": sub, "*": mul}


def looked_up(figures: Mapping[str, Any], path: str) -> Fraction | None:
    """The engine's figure at `path`: `key`, or `list.name.key` where a list holds mappings with a name.

    `all` for the name adds up the whole list; `bytes` is what all figures of that entry ending in `_bytes` add up to.

    >>> looked_up({"caches": [{"name": "base", "k_bytes": 3, "v_bytes": 4}]}, "caches.base.bytes")
    Fraction(7, 1)

    Figures may be added, taken off and multiplied: `k_bytes-swa_k_bytes`.

    >>> looked_up({"blocks": 5}, "tokens") is None, looked_up({"all": 5, "some": 2}, "all-some")
    (True, Fraction(3, 1))
    """
    for sign, change in SIGNS.items():
        ahead, split, last = path.rpartition(sign)
        if split:
            left, right = looked_up(figures, ahead), looked_up(figures, last)
            return None if left is None or right is None else change(left, right)
    first, *rest = path.split(".")
    value = figures.get(first)
    if not rest:
        return Fraction(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
    if not isinstance(value, list):
        return None
    name, key = rest
    found = [part for entry in value if name in ("all", entry.get("name")) for part in _parts(entry, key)]
    return Fraction(sum(found)) if found else None


def _parts(entry: Mapping[str, Any], key: str) -> list[Fraction]:
    if key in entry:
        return [Fraction(entry[key])]
    if key == "bytes":
        return [Fraction(value) for name, value in entry.items() if name.endswith("_bytes")]
    return []


def compared(
    printed: Printed, predicted: Fraction | None, why: str, span: tuple[Fraction, Fraction] | None
) -> FigureResult:
    """One figure of the answer. span: what the figure may be, where the log's own rounding leaves that open."""
    agrees = None if predicted is None else printed.holds(predicted, predicted)
    return FigureResult(
        name=printed.name,
        printed=_number(printed.value, printed),
        predicted=None if predicted is None else _number(predicted, printed),
        agrees=agrees,
        reason=why,
        printed_text=printed.text,
        predicted_text=None if predicted is None else written(predicted, printed),
        predicted_range=None if span is None else (_number(span[0], printed), _number(span[1], printed)),
        line=printed.line,
    )


def _number(value: Fraction, like: Printed) -> int | float:
    """A number in the unit that the log prints, rounded no further than it rounds."""
    scaled = value / UNITS.get(like.unit, 1)
    if not like.places and scaled.denominator == 1:
        return int(scaled)
    return round(float(scaled), max(like.places, 2))
