"""A result in, a string out: the roster of output formats.

A command builds one `Report`: the JSON document, the flat rows of a CSV, and the blocks (headings,
tables, lines) that people read. A format is one file with `render(report, color) -> str`; a new one
adds its file and one line to `FORMATS`. Nothing here prints.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from kvplan.errors import InputError, did_you_mean, quoted
from kvplan.record import Record

FORMATS = {
    "table": "table",
    "json": "json_text",
    "csv": "csv_text",
    "markdown": "markdown",
    "html": "html",
}


class Heading(Record):
    """One line that names what follows."""

    text: str


class Lines(Record):
    """Lines of text; `strong` is the answer itself."""

    lines: tuple[str, ...]
    strong: bool = False


class Grid(Record):
    """A table: column names, which of them hold numbers, and rows of text; `total` sets the last row apart."""

    columns: tuple[str, ...]
    numbers: frozenset[int]
    rows: tuple[tuple[str, ...], ...]
    total: bool = False


Block = Heading | Lines | Grid


class Report(Record):
    """One answer in every shape a format may need."""

    document: dict[str, Any]
    rows: tuple[dict[str, Any], ...]
    blocks: tuple[Block, ...]


def render(report: Report, name: str, color: bool, width: int | None = None) -> str:
    """`report` as text in the format called `name`, ending in a newline.

    color: escape codes are wanted. width: columns of the terminal, None for 80 or $COLUMNS.

    Raises: InputError for an unknown format.
    """
    if name not in FORMATS:
        raise InputError(
            f"--format: found {quoted(name)}, allowed {', '.join(FORMATS)}",
            did_you_mean(name, FORMATS, "--format table"),
        )
    text: str = import_module(f"kvplan.report.{FORMATS[name]}").render(report, color, width)
    return text if text.endswith("\n") else text + "\n"
