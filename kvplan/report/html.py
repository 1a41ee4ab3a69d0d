"""One self-contained HTML page: the same headings and tables, printable, without a network."""

from __future__ import annotations

from html import escape

from kvplan.report import Block, Grid, Heading, Report

STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 60rem; padding: 0 1rem; color: #1b1b1b; background: #fff }
h2 { font-size: 1.1rem; margin: 2rem 0 .5rem } .strong { font-weight: 600; color: #0b5d1e }
.scroll { overflow-x: auto } table { border-collapse: collapse; margin: .5rem 0 }
th, td { padding: .25rem .75rem; text-align: left; border-bottom: 1px solid #ddd; white-space: nowrap }
th { font-weight: 600 } .n { text-align: right; font-variant-numeric: tabular-nums } tr.total td { font-weight: 600 }
@media print { body { margin: 0; max-width: none } }
"""


def render(report: Report, color: bool, width: int | None) -> str:
    """The report's blocks as a page."""
    body = "\n".join(_block(block) for block in report.blocks)
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1"><title>kvplan</title>'
        f"<style>{STYLE}</style></head><body>\n{body}\n</body></html>"
    )


def _block(block: Block) -> str:
    if isinstance(block, Heading):
        return f"<h2>{escape(block.text)}</h2>"
    if isinstance(block, Grid):
        return _table(block)
    mark = ' class="strong"' if block.strong else ""
    return "\n".join(f"<p{mark}>{escape(line)}</p>" for line in block.lines)


def _table(grid: Grid) -> str:
    def cells(row: tuple[str, ...], tag: str) -> str:
        return "".join(
            f"<{tag}{' class=n' if i in grid.numbers else ''}>{escape(cell)}</{tag}>" for i, cell in enumerate(row)
        )

    last = len(grid.rows) - 1
    lines = [f"<tr>{cells(grid.columns, 'th')}</tr>"]
    for index, row in enumerate(grid.rows):
        mark = " class=total" if grid.total and index == last else ""
        lines.append(f"<tr{mark}>{cells(row, 'td')}</tr>")
    return f'<div class="scroll"><table>{"".join(lines)}</table></div>'
