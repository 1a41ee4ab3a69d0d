"""Markdown fit to commit: headings, pipe tables with aligned columns, plain lines."""

from __future__ import annotations

from kvplan.report import Grid, Heading, Report


def render(report: Report, color: bool, width: int | None) -> str:
    """The report's blocks, one blank line between them."""
    parts = []
    for block in report.blocks:
        if isinstance(block, Heading):
            parts.append(f"### {_escaped(block.text)}")
        elif isinstance(block, Grid):
            parts.append(_table(block))
        else:
            mark = "**" if block.strong else ""
            parts.append("\n\n".join(f"{mark}{_escaped(line)}{mark}" for line in block.lines))
    return "\n\n".join(parts) + "\n"


def _table(grid: Grid) -> str:
    rows = [[_escaped(cell) for cell in row] for row in (grid.columns, *grid.rows)]
    widths = [max(3, *(len(row[i]) for row in rows)) for i in range(len(grid.columns))]

    def line(cells: list[str]) -> str:
        padded = [
            c.rjust(w) if i in grid.numbers else c.ljust(w) for i, (c, w) in enumerate(zip(cells, widths, strict=True))
        ]
        return f"| {' | '.join(padded)} |"

    rule = [("-" * (w - 1) + ":") if i in grid.numbers else "-" * w for i, w in enumerate(widths)]
    return "\n".join([line(rows[0]), line(rule), *(line(row) for row in rows[1:])])


def _escaped(text: str) -> str:
    """Text that Markdown shows as it is, in one cell."""
    for character in ("\\", "|", "`", "*", "_", "<", "[", "]"):
        text = text.replace(character, "\\" + character)
    return text.replace("\n", " ")
