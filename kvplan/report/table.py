"""Tables and lines for a terminal, drawn by rich; plain text in a pipe."""

from __future__ import annotations

import io

from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from kvplan.report import Grid, Heading, Report


def render(report: Report, color: bool, width: int | None) -> str:
    """The report's blocks, one blank line between them."""
    out = io.StringIO()
    console = Console(
        file=out,
        force_terminal=color,
        no_color=not color,
        width=width,
        highlight=False,
        legacy_windows=False,
    )
    for number, block in enumerate(report.blocks):
        if number:
            console.print()
        if isinstance(block, Grid):
            narrow = console.width
            console.width = max(narrow, _least_width(block))
            console.print(_table(block))
            console.width = narrow
        elif isinstance(block, Heading):
            console.print(Text(block.text, style="bold"))
        else:
            for line in block.lines:
                console.print(Text(line, style="bold green" if block.strong else ""), soft_wrap=not block.strong)
    return "\n".join(line.rstrip() for line in out.getvalue().split("\n"))


def _least_width(grid: Grid) -> int:
    """The width below which a number or a name would be cut: text wraps between words, they never do."""
    widths = []
    for index, column in enumerate(zip(grid.columns, *grid.rows, strict=True)):
        whole = index in grid.numbers or index == 0
        widths.append(max(cell_len(word) for cell in column for word in ([cell] if whole else cell.split() or [""])))
    return sum(widths) + 2 * (len(widths) - 1)


def _table(grid: Grid) -> Table:
    """Columns two spaces apart, numbers to the right, nothing drawn."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim", show_header=any(grid.columns))
    for index, name in enumerate(grid.columns):
        number = index in grid.numbers
        table.add_column(
            Text(name),
            justify="right" if number else "left",
            no_wrap=number or index == 0,
            overflow="fold",
        )
    last = len(grid.rows) - 1
    for index, row in enumerate(grid.rows):
        style = "bold" if grid.total and index == last else ""
        table.add_row(*(Text(cell, style=style) for cell in row))
    return table
