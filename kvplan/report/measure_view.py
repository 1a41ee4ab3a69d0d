"""How a measurement reads: the verdict, predicted beside measured, then the allocator's own figures."""

from __future__ import annotations

from typing import Any

from kvplan.report import Block, Grid, Heading, Lines, Report
from kvplan.report.size_view import cache_format, title, unlimited
from kvplan.results import Comparison, MeasureResult, SecondOpinionResult, UntilFullResult, document, plain
from kvplan.units import in_unit, places_for


def measure_report(
    results: list[MeasureResult], device: str, unit: str, comparison: Comparison | None = None
) -> Report:
    """The report of one or several measurements on `device`, and of techniques where they were compared."""
    blocks = _full(results[0], device, unit) if len(results) == 1 else _several(results, device)
    made = document("measure", results, device=device)
    if comparison is None:
        return Report(made, tuple(_row(result, device) for result in results), tuple(blocks))
    flat = tuple({key: value for key, value in plain(one).items() if key != "points"} for one in comparison.techniques)
    techniques = {"techniques": plain(comparison.techniques), "notes": list(comparison.notes)}
    return Report({**made, **techniques}, flat, (*_techniques(comparison, unit), *blocks[1:]))


def _full(result: MeasureResult, device: str, unit: str) -> list[Block]:
    blocks: list[Block] = [
        Heading(f"{title(result)}, on {device}"),
        Lines((_verdict(result),), strong=True),
        _weights(result, unit),
    ]
    if result.until_oom:
        blocks.append(Lines(_search(result.until_oom, unit)))
    if result.second_opinion:
        blocks.append(Lines((_opinion(result.second_opinion),)))
    if result.notes:
        blocks.append(Lines(tuple(f"note: {note}" for note in result.notes)))
    allocator = _allocator(result)
    return [*blocks, *([allocator] if allocator else [])]


def _verdict(result: MeasureResult) -> str:
    part = "" if result.measured_layers == result.of_layers else f" on {result.measured_layers:,} layers"
    if not result.freed:
        return f"measured {result.measured_bytes:,} bytes{part}, and not all of it was given back"
    if not result.measured_layers and result.whole_bytes:
        return f"nothing measured: no room for one layer of {result.of_layers:,}"
    if result.difference_bytes:
        return f"measured {result.measured_bytes:,} bytes{part}, {result.difference_bytes:+,} against the prediction"
    return f"measured {result.measured_bytes:,} bytes{part}, exactly as predicted, and all given back"


def _weights(result: MeasureResult, unit: str) -> Grid:
    places = places_for(result.predicted_bytes, unit)
    shown = {"bytes": "", unit: unit}
    rows = [
        (name, f"{count:,}", *([in_unit(count, unit, places)] if len(shown) > 1 else []))
        for name, count in (
            ("predicted", result.predicted_bytes),
            ("measured", result.measured_bytes),
            ("difference", result.difference_bytes),
        )
    ]
    layers = f"{result.measured_layers:,} of {result.of_layers:,} layers"
    return Grid((layers, *shown), frozenset(range(1, len(shown) + 1)), tuple(rows))


def _opinion(other: SecondOpinionResult) -> str:
    agrees = "exactly as" if other.agrees else f"{other.difference_bytes:+,} against what"
    return (
        f"{other.library} {other.version} holds {other.measured_bytes:,} bytes for {other.measured_layers:,} layers in its own "
        f"classes, {agrees} its engine predicts"
    )


def _search(found: UntilFullResult, unit: str) -> tuple[str, ...]:
    noun = "tokens" if found.varied == "context" else "sequences"
    limit = f"{in_unit(found.limit_bytes, unit)} {unit}"
    first = f"the largest that allocates in {limit}: {unlimited(found.measured, noun)}, in {found.tries:,} tries"
    same = "the same" if found.measured == found.predicted else unlimited(found.predicted, noun)
    apart = f", within a block of {found.block:,}" if found.agrees and found.measured != found.predicted else ""
    return first, f"predicted as `kvplan fit` does: {same}{apart}"


def _allocator(result: MeasureResult) -> Grid | None:
    """The allocator's figures: what is predicted beside what is measured, then those that stand alone."""
    figures = dict(result.allocator)
    name = figures.pop("name")
    rows = []
    for key in [key.removesuffix("_predicted_bytes") for key in figures if key.endswith("_predicted_bytes")]:
        cells = (figures.pop(f"{key}_{part}_bytes", None) for part in ("predicted", "measured", "difference"))
        rows.append((key, *(_figure(cell) for cell in cells)))
    rows += [
        (key.removesuffix("_bytes"), "", _figure(value), "") for key, value in figures.items() if value is not None
    ]
    return (
        Grid((str(name), "predicted bytes", "measured", "difference"), frozenset({1, 2, 3}), tuple(rows))
        if rows
        else None
    )


def _figure(value: Any) -> str:
    return f"{value:,}" if isinstance(value, int) else ""


def _several(results: list[MeasureResult], device: str) -> list[Block]:
    columns = ("model", "tokens", "seqs", "format", "policy", "layers", "predicted bytes", "measured", "difference")
    rows = tuple(
        (
            result.model,
            f"{result.workload.context:,}",
            f"{result.workload.batch:,}",
            cache_format(result),
            result.workload.policy,
            f"{result.measured_layers:,} of {result.of_layers:,}",
            f"{result.predicted_bytes:,}",
            f"{result.measured_bytes:,}",
            f"{result.difference_bytes:,}",
        )
        for result in results
    )
    notes = dict.fromkeys(f"note: {result.model}: {note}" for result in results for note in result.notes)
    grid = Grid(columns, frozenset({1, 2, 5, 6, 7, 8}), rows)
    return [Heading(f"on {device}"), grid, *([Lines(tuple(notes))] if notes else [])]


def _techniques(comparison: Comparison, unit: str) -> list[Block]:
    columns = ("technique", "tokens", "predicted", "measured", "waste", "error", "ms/token", "time")
    rows = tuple(
        (
            one.name,
            f"{one.tokens:,}",
            f"{one.predicted_bytes:,}",
            f"{one.measured_bytes:,}",
            f"{one.waste_bytes / one.measured_bytes:.1%}" if one.measured_bytes else "",
            f"{one.relative_error:.2g}",
            f"{one.seconds_per_token * 1000:.3g}",
            "" if one.time_exponent is None else f"n^{one.time_exponent:.1f}",
        )
        for one in comparison.techniques
    )
    return [
        Heading("the techniques, in bytes of one layer and one sequence"),
        Grid(columns, frozenset(range(1, len(columns))), rows),
        Lines(tuple(f"{one.name}: {one.what}" for one in comparison.techniques)),
        Lines(tuple(f"note: {note}" for note in comparison.notes)),
    ]


def _row(result: MeasureResult, device: str) -> dict[str, Any]:
    """One flat CSV row."""
    nested = ("workload", "allocator", "until_oom", "second_opinion", "notes", "hints")
    row = {"model": result.model, "device": device, **plain(result.workload)}
    row |= {name: getattr(result, name) for name in result.__match_args__ if name not in nested and name != "model"}
    row |= {f"allocator_{key}": value for key, value in result.allocator.items()}
    if result.until_oom:
        row |= {f"until_oom_{key}": value for key, value in plain(result.until_oom).items()}
    if result.second_opinion:
        row |= {f"second_opinion_{key}": value for key, value in plain(result.second_opinion).items()}
    return row
