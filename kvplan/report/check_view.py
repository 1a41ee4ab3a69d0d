"""How a check reads: a verdict for each command with what would make it start, a line for each budget."""

from __future__ import annotations

from typing import Any

from kvplan.report import Block, Grid, Heading, Lines, Report
from kvplan.report.serve_view import change_line, flag_lines, serve_row, start_words
from kvplan.report.size_view import unlimited
from kvplan.report.time_view import seconds_text
from kvplan.results import CheckVerdict, plain
from kvplan.units import in_unit

UNLIMITED = 10**18
"""The value of a verdict that nothing bounds."""


def check_report(verdicts: list[CheckVerdict], unit: str) -> Report:
    """The report of deployment and capacity files."""
    document = {"schema": "kvplan.check/1", "verdicts": [plain(verdict) for verdict in verdicts]}
    commands = [verdict for verdict in verdicts if verdict.cell is None]
    budgets = [verdict for verdict in verdicts if verdict.cell is not None]
    blocks: list[Block] = [_grid(commands, unit)] if len(commands) > 1 else []
    for verdict in commands:
        blocks += _blocks(verdict, unit)
    if budgets:
        blocks += _budget_blocks(budgets, unit)
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
            "" if verdict.value is None else in_unit(int(verdict.value), unit),
            "" if verdict.limit is None else in_unit(int(verdict.limit), unit),
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
    word = (
        "not judged"
        if verdict.ok is None
        else start_words(serve, verdict.ok, where, budget["batch"], verdict.max_batch)
    )
    lines = [serve.command, word, *(f"  {reason}" for reason in serve.refusals)]
    sequences = f"{budget['batch']:,} {'sequence' if budget['batch'] == 1 else 'sequences'}"
    needed = in_unit(int(verdict.value or 0), unit)
    lines.append(f"{sequences} of {budget['ctx']:,} tokens: {needed} {unit} on a card")
    if verdict.limit is not None:
        lines[-1] += f", which has {in_unit(int(verdict.limit), unit)} {unit} for its cache"
    if verdict.limit is not None and not serve.refusals:
        held = unlimited(verdict.max_batch)
        lines.append(f"holds {held} {'sequence' if verdict.max_batch == 1 else 'sequences'} of that length at once")
    blocks.append(Lines(tuple(lines), strong=verdict.ok is True))
    if serve.changes:
        blocks.append(Lines(("what makes it fit:", *(f"  {change_line(change)}" for change in serve.changes))))
    rest = (*flag_lines(serve), *(f"note: {note}" for note in serve.notes))
    return [*blocks, Lines(rest)] if rest else blocks


def _budget_blocks(verdicts: list[CheckVerdict], unit: str) -> list[Block]:
    """The budgets of capacity files, a row a limit."""
    rows = tuple(
        (
            verdict.place.rpartition("/")[2],
            "ok" if verdict.ok else "BROKEN",
            limit_name(verdict),
            "fit" if limit_name(verdict) == "must" else _measured(limit_name(verdict), verdict.limit, unit),
            value_text(verdict, unit),
            cell_text(verdict),
        )
        for verdict in verdicts
    )
    broken = sum(not verdict.ok for verdict in verdicts)
    held = "every budget holds" if not broken else f"{broken:,} of {len(verdicts):,} broken"
    return [Grid(("budget", "", "key", "limit", "found", "in"), frozenset(), rows), Lines((held,), strong=not broken)]


def limit_name(verdict: CheckVerdict) -> str:
    """Which limit a verdict of a capacity file is about."""
    return list(verdict.budget)[-1]


def limit_text(verdict: CheckVerdict, unit: str) -> str:
    """The limit in words, such as `min_batch 16`."""
    name = limit_name(verdict)
    return "must fit" if name == "must" else f"{name} {_measured(name, verdict.limit, unit)}"


def value_text(verdict: CheckVerdict, unit: str) -> str:
    """What was found, in the unit of the limit."""
    name = limit_name(verdict)
    if name == "must":
        return "fits" if verdict.ok else "does not fit"
    return _measured(name, verdict.value, unit)


def _measured(name: str, value: float | None, unit: str) -> str:
    if value is None or value >= UNLIMITED:
        return "no limit"
    match name:
        case "max_bytes":
            return f"{in_unit(int(value), unit)} {unit}"
        case "max_cost_per_month":
            return f"${value:,.2f}"
        case "max_tpot":
            return seconds_text(value)
        case _:
            return f"{value:,}"


def cell_text(verdict: CheckVerdict) -> str:
    """The cell that decides, in one line."""
    cell = dict(verdict.cell or {})
    usual = {"tp": 1, "pp": 1, "policy": "full", "count": 1}
    cards = f"{cell['count']:,} x {cell['gpu']}" if cell.get("gpu") else ""
    rest = [
        f"{key} {value}" for key, value in cell.items() if key in ("tp", "pp", "policy") and value != usual.get(key)
    ]
    words = [
        cell["model"],
        cards,
        *rest,
        f"{cell['ctx']:,} tokens",
        f"batch {cell['batch']:,}",
        cell["kv_dtype"],
        cell.get("engine", ""),
    ]
    return ", ".join(word for word in words if word)


def github_lines(verdicts: list[CheckVerdict]) -> list[str]:
    """A workflow command of GitHub Actions for each verdict that fails."""
    found = []
    for verdict in verdicts:
        if verdict.ok is not False:
            continue
        file = verdict.place.split(":")[0]
        if verdict.cell is not None:
            said = f"{limit_text(verdict, 'GiB')}: found {value_text(verdict, 'GiB')} in {cell_text(verdict)}"
        else:
            said = f"{_word(verdict)}: {verdict.serve.command if verdict.serve else verdict.refused}"
        message = said.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
        place = file.replace("%", "%25").replace(",", "%2C").replace(":", "%3A")
        found.append(f"::error file={place},title=kvplan check::{message}")
    return found


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
