"""Comma-separated values, one row per result, whole bytes."""

from __future__ import annotations

import csv
import io

from kvplan.errors import printable
from kvplan.report import Report


def render(report: Report, color: bool, width: int | None) -> str:
    """A header and the rows; a column that only some rows have is empty in the others."""
    columns = list(dict.fromkeys(key for row in report.rows for key in row))
    out = io.StringIO()
    writer = csv.DictWriter(out, columns, lineterminator="\n")
    writer.writeheader()
    for row in report.rows:
        writer.writerow({key: _cell(value) for key, value in row.items()})
    return out.getvalue()


def _cell(value: object) -> object:
    """A spreadsheet's own words for truth, and no cell that it or a terminal would run."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        value = "".join(c if c.isprintable() or c in "\n\t" else printable(c) for c in value)
        return f"'{value}" if value[:1] in ("=", "+", "-", "@") else value
    return value
