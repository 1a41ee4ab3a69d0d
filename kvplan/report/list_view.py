"""How the lists read: one table each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kvplan.report import Grid, Lines, Report
from kvplan.report.size_view import number
from kvplan.results import EngineRow, FormatRow, GpuRow, ModelRow, document, plain
from kvplan.units import in_unit

Row = ModelRow | GpuRow | FormatRow | EngineRow
COLUMNS: dict[str, tuple[str, ...]] = {
    "models": ("model", "params", "layers", "attention", "max tokens", "B/token", "B/sequence"),
    "gpus": ("gpu", "{unit}", "bytes", "memory", "GB/s", "bf16 TFLOPS"),
    "formats": ("format", "holds", "bits", "with metadata", "what it stores"),
    "engines": ("engine", "versions", "what it is", "-E options"),
}
NUMBERS = {"models": {1, 2, 4, 5, 6}, "gpus": {1, 2, 4, 5}, "formats": {2, 3}, "engines": set[int]()}


def list_report(command: str, rows: Sequence[Row], unit: str) -> Report:
    """The report of one list command."""
    cells = tuple(_cells(row, unit) for row in rows)
    columns = tuple(name.format(unit=unit) for name in COLUMNS[command])
    block = (
        Grid(columns, frozenset(NUMBERS[command]), cells)
        if rows
        else Lines(("nothing answers to that; fewer words find more",))
    )
    return Report(document(command, list(rows)), tuple(_flat(row) for row in rows), (block,))


def _flat(row: Row) -> dict[str, Any]:
    return {key: ";".join(value) if isinstance(value, list) else value for key, value in plain(row).items()}


def _cells(row: Row, unit: str) -> tuple[str, ...]:
    match row:
        case ModelRow():
            return (
                row.name,
                _short(row.parameters),
                f"{row.layers:,}",
                row.attention,
                f"{row.max_context:,}" if row.max_context else "",
                number(row.bytes_per_token),
                f"{row.fixed_bytes_per_sequence:,}" if row.fixed_bytes_per_sequence else "",
            )
        case GpuRow():
            total = row.total_bytes
            return (
                row.name,
                in_unit(total, unit) if total else "",
                f"{total:,}" if total else "",
                row.memory_confidence or "" if total else "not known",
                f"{row.bandwidth_gb_per_second:,}" if row.bandwidth_gb_per_second else "",
                f"{row.bf16_tflops:,}" if row.bf16_tflops else "",
            )
        case FormatRow():
            return (row.name, row.holds, f"{row.bits:g}", f"{row.bits_with_metadata:.4g}", row.summary)
        case EngineRow():
            return (row.name, ", ".join(row.versions), row.summary, ", ".join(row.options))


def _short(count: int | None) -> str:
    """A parameter count in three digits: 70.6B.

    >>> _short(70553706496), _short(None)
    ('70.6B', '')
    """
    if count is None:
        return ""
    for unit, scale in (("T", 10**12), ("B", 10**9), ("M", 10**6)):
        if count >= scale:
            return f"{count / scale:.3g}{unit}" if count < 100 * scale else f"{count / scale:,.0f}{unit}"
    return f"{count:,}"
