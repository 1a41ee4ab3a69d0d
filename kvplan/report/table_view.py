"""How a capacity matrix reads: one table per combination of the axes that stand neither across nor down."""

from __future__ import annotations

from typing import Any

from kvplan.capacity import AXES, Layout
from kvplan.report import Block, Grid, Heading, Lines, Report
from kvplan.report.size_view import unlimited
from kvplan.results import TableRow, plain
from kvplan.units import in_unit, places_for

Cells = list[tuple[dict[str, Any], TableRow]]
NO = "!"
NAMES = {
    "bytes": "KV cache, {unit}",
    "reserved": "reserved on a rank, {unit}",
    "fits": "fits",
    "max_batch": "most sequences",
    "max_context": "longest context",
}


def table_report(cells: Cells, layout: Layout, unit: str, inputs: dict[str, Any], title: str | None) -> Report:
    """The report of a matrix: its rows for JSON and CSV, its tables for people."""
    rows = tuple(plain(row) for _, row in cells)
    document = {"schema": "kvplan.table/1", "inputs": inputs, "rows": list(rows)}
    blocks: list[Block] = [Heading("".join(c if c.isprintable() else " " for c in title))] if title else []
    shown = tuple(layout.show or (("bytes", "max_batch") if cells[0][1].fits is not None else ("bytes",)))
    apart = [axis for axis in AXES if axis not in (layout.across, layout.down)]
    tables: dict[tuple[Any, ...], Cells] = {}
    for place, row in cells:
        tables.setdefault(tuple(place[axis] for axis in apart), []).append((place, row))
    several = {axis for axis in apart if len({place[axis] for place, _ in cells}) > 1}
    for of_table in tables.values():
        blocks.append(Heading(_heading(of_table[0], apart, several)))
        blocks += [_grid(of_table, layout, what, unit) for what in shown if what != "max_context"]
        if "max_context" in shown:
            blocks.append(_longest(of_table, layout))
    if any(row.fits is False for _, row in cells) and {"bytes", "reserved"} & set(shown):
        blocks.append(Lines((f"{NO} does not fit",)))
    return Report(document, rows, tuple(blocks))


def _heading(cell: tuple[dict[str, Any], TableRow], apart: list[str], several: set[str]) -> str:
    place, row = cell
    words = []
    for axis in apart:
        value = place[axis]
        usual = value in (None, 1, "full")
        if axis not in several and usual and axis != "kv_dtype":
            continue
        match axis:
            case "models":
                words.append(row.model)
            case "ctx":
                words.append(f"{row.context:,} tokens")
            case "batch":
                words.append(f"{row.batch:,} {'sequence' if row.batch == 1 else 'sequences'}")
            case "kv_dtype":
                words.append(row.kv_dtype if value is not None else "each model's own format")
            case "gpu":
                words.append(f"{row.count:,} x {row.gpu}" if row.gpu else "no card")
            case "engine":
                words.append(row.engine or "the architecture's need")
            case _:
                words.append(f"{axis} {value}")
    return ", ".join(words)


def _label(axis: str, place: dict[str, Any], row: TableRow) -> str:
    match axis:
        case "models":
            return row.model
        case "ctx":
            return f"{row.context:,}" if place["ctx"] != "max" else "max"
        case "batch":
            return f"{row.batch:,}"
        case "kv_dtype":
            return row.kv_dtype
        case "gpu":
            return row.gpu or "no card"
        case "engine":
            return row.engine or "need"
        case _:
            return str(place[axis])


def _grid(cells: Cells, layout: Layout, what: str, unit: str) -> Grid:
    rows: dict[Any, list[tuple[dict[str, Any], TableRow]]] = {}
    for place, row in cells:
        rows.setdefault(place[layout.down], []).append((place, row))
    ordered = list(rows.values())
    if layout.sort == "name":
        ordered.sort(key=lambda line: _label(layout.down, *line[0]))
    elif layout.sort == "bytes":
        ordered.sort(key=lambda line: line[-1][1].total_bytes)
    least = min(row.total_bytes for _, row in cells)
    places = places_for(least, unit)
    header = [_label(layout.across, *cell) for cell in ordered[0]]
    columns = (
        NAMES[what].format(unit=unit),
        *(f"{name} tokens" if layout.across == "ctx" else name for name in header),
    )
    body = tuple(
        (_label(layout.down, *line[0]), *(_text(what, row, unit, places) for _, row in line)) for line in ordered
    )
    return Grid(columns, frozenset(range(1, len(columns))), body)


def _text(what: str, row: TableRow, unit: str, places: int) -> str:
    match what:
        case "bytes":
            return _marked(in_unit(row.total_bytes, unit, places), row)
        case "reserved":
            return _marked(in_unit(row.reserved_bytes, unit, places), row)
        case "fits":
            return "" if row.fits is None else "yes" if row.fits else "no"
        case _:
            return "" if row.fits is None else unlimited(row.max_batch)


def _marked(text: str, row: TableRow) -> str:
    """A figure with the mark of what does not fit; room for the mark everywhere, so that digits line up."""
    return f"{text} {NO}" if row.fits is False else f"{text}  " if row.fits else text


def _longest(cells: Cells, layout: Layout) -> Block:
    """The longest context of each row, at each batch: it does not depend on the context asked for."""
    found: dict[str, str] = {}
    for place, row in cells:
        key = _label(layout.down, place, row)
        if layout.across != "ctx":
            key = f"{key}, {layout.across} {_label(layout.across, place, row)}"
        found[key] = "" if row.fits is None else unlimited(row.max_context)
    if not found:
        return Lines(())
    return Grid((NAMES["max_context"], "tokens"), frozenset({1}), tuple(found.items()))
