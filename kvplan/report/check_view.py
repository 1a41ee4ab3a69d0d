"""How a checked deployment file reads: a verdict for each command, what it holds, what would make it start."""

from __future__ import annotations

from typing import Any

from kvplan.report import Block, Grid, Heading, Lines, Report
from kvplan.report.serve_view import change_line, flag_lines, serve_row, start_words
from kvplan.report.size_view import unlimited
from kvplan.results import CheckVerdict, plain
from kvplan.units import in_unit


def check_report(verdicts: list[CheckVerdict], unit: str) -> Report:
    """The report of a deployment file."""
    document = {"schema": "kvplan.check/1", "verdicts": [plain(verdict) for verdict in verdicts]}
    blocks: list[Block] = [_grid(verdicts, unit)] if len(verdicts) > 1 else []
    for verdict in verdicts:
        blocks += _blocks(verdict, unit)
    return Report(document, tuple(_row(verdict) for verdict in verdicts), tuple(blocks))


def _word(verdict: CheckVerdict) -> str:
    """The verdict in two words."""
    if verdict.serve is None:
        return "not answered"
    if verdict.ok is None:
        return "not judged"
    if verdict.ok:
        return "starts"
    return "does not fit" if verdict.serve.starts else "does not start"


def _grid(verdicts: list[CheckVerdict], unit: str) -> Grid:
    """All commands at a glance."""
    rows = tuple(
        (
            verdict.place.rpartition("/")[2],
            str(verdict.budget.get("model", "?")),
            _word(verdict),
            "" if verdict.value is None else in_unit(verdict.value, unit),
            "" if verdict.limit is None else in_unit(verdict.limit, unit),
            unlimited(verdict.max_batch) if verdict.limit is not None else "",
        )
        for verdict in verdicts
    )
    return Grid(("command", "model", "verdict", f"needs {unit}", f"has {unit}", "seqs"), frozenset({3, 4, 5}), rows)


def _blocks(verdict: CheckVerdict, unit: str) -> list[Block]:
    blocks: list[Block] = [Heading(verdict.place)]
    serve, budget = verdict.serve, verdict.budget
    if serve is None:
        return [*blocks, Lines((str(budget["command"]), f"not answered: {verdict.refused}"))]
    where = f" on {budget['count']:,} x {budget['gpu']}" if budget["gpu"] else ""
    word = "not judged" if verdict.ok is None else start_words(serve, verdict.ok, where)
    lines = [serve.command, word, *(f"  {reason}" for reason in serve.refusals)]
    sequences = f"{budget['batch']:,} {'sequence' if budget['batch'] == 1 else 'sequences'}"
    needed = in_unit(verdict.value or 0, unit)
    lines.append(f"{sequences} of {budget['ctx']:,} tokens: {needed} {unit} on a card")
    if verdict.limit is not None:
        lines[-1] += f", which has {in_unit(verdict.limit, unit)} {unit} for its cache"
    if verdict.limit is not None and not serve.refusals:
        held = unlimited(verdict.max_batch)
        lines.append(f"holds {held} {'sequence' if verdict.max_batch == 1 else 'sequences'} of that length at once")
    blocks.append(Lines(tuple(lines), strong=verdict.ok is True))
    if serve.changes:
        blocks.append(Lines(("what makes it fit:", *(f"  {change_line(change)}" for change in serve.changes))))
    rest = (*flag_lines(serve), *(f"note: {note}" for note in serve.notes))
    return [*blocks, Lines(rest)] if rest else blocks


def _row(verdict: CheckVerdict) -> dict[str, Any]:
    """One flat CSV row, whole bytes."""
    row: dict[str, Any] = {
        name: getattr(verdict, name)
        for name in ("place", "ok", "value", "limit", "max_context", "max_batch", "refused")
    }
    row |= {f"budget_{key}": value for key, value in verdict.budget.items()}
    if verdict.serve is not None:
        row |= serve_row(verdict.serve)
    return row
