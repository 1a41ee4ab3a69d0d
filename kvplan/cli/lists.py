"""What the four list commands do alike: search, print, complain when nothing is found."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kvplan.cli.output import checked_format, checked_unit, emit, say
from kvplan.cli.size import print_schema


def print_list(
    name: str,
    words: list[str] | None,
    specs: str | None,
    format: str,
    output: str | None,
    unit: str,
    quiet: bool,
    no_color: bool,
    json_schema: bool,
) -> int:
    """Print the list called `name`, narrowed by `words`; exit 1 when nothing answers to it."""
    if json_schema:
        return print_schema(name)
    chosen, shown = checked_format(format), checked_unit(unit)
    from kvplan import lists
    from kvplan.report.list_view import list_report

    query = " ".join(words or ())
    rows: Sequence[Any]
    match name:
        case "models":
            rows = lists.model_rows(query, specs)
        case "gpus":
            rows = lists.gpu_rows(query)
        case "formats":
            rows = lists.format_rows(query)
        case _:
            rows = lists.engine_rows(query)
    emit(list_report(name, rows, shown), chosen, output, no_color)
    if rows:
        say([f"{len(rows):,} {name}; `kvplan show NAME` tells more"], quiet or bool(query))
    return 0 if rows else 1
