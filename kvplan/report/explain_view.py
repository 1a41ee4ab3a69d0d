"""How an explained log reads: what it is, each figure beside its prediction, why, and what would help."""

from __future__ import annotations

from typing import Any

from kvplan.errors import printable
from kvplan.explained import AdviceResult, ExplainResult, FigureResult
from kvplan.report import Block, Grid, Heading, Lines, Report
from kvplan.results import plain
from kvplan.units import iec


def explain_report(answer: ExplainResult) -> Report:
    """The report of one log."""
    document: dict[str, Any] = {"schema": "kvplan.explain/1", **plain(answer)}
    rows = tuple({"engine": answer.engine, "model": answer.model, **_row(figure)} for figure in answer.figures)
    return Report(document, rows, tuple(_blocks(answer)))


def _row(figure: FigureResult) -> dict[str, Any]:
    row = {key: value for key, value in plain(figure).items() if key != "predicted_range"}
    low, high = figure.predicted_range or (None, None)
    return {**row, "predicted_low": low, "predicted_high": high}


def _blocks(answer: ExplainResult) -> list[Block]:
    blocks: list[Block] = [Heading(_title(answer)), Lines(_verdict(answer), strong=answer.agrees)]
    if answer.figures:
        blocks.append(_grid(answer.figures))
    reasons = _reasons(answer.figures)
    if reasons:
        blocks.append(Lines(reasons))
    if answer.answer:
        blocks.append(Lines(answer.answer))
    if answer.advice:
        blocks += [Heading("what would help, everything else as it is"), _advice(answer.advice)]
    if answer.notes:
        blocks.append(Lines(tuple(f"note: {printable(note)}" for note in answer.notes)))
    return blocks


def _reasons(figures: tuple[FigureResult, ...]) -> tuple[str, ...]:
    """Each reason once, after the figures it holds for."""
    found: dict[str, list[str]] = {}
    for figure in figures:
        if figure.reason:
            found.setdefault(figure.reason, []).append(figure.name)
    return tuple(f"{', '.join(names)}: {reason}" for reason, names in found.items())


def _title(answer: ExplainResult) -> str:
    version = f" {printable(answer.version)}" if answer.version else ""
    length = f", {answer.context:,} tokens" if answer.context else ""
    return f"{answer.engine}{version}, {answer.model}{length} ({printable(answer.model_through)})"


def _verdict(answer: ExplainResult) -> tuple[str, ...]:
    asked = [figure for figure in answer.figures if figure.agrees is not None]
    wrong = sum(figure.agrees is False for figure in asked)
    if not asked:
        lines = ["no figure of the log can be predicted"]
    elif wrong:
        lines = [f"{wrong} of {len(asked)} figures {'disagrees' if wrong == 1 else 'disagree'}"]
    else:
        lines = ["the figure agrees" if len(asked) == 1 else f"all {len(asked)} figures agree"]
    if answer.budget:
        low = answer.budget.low_bytes
        lines.append(
            f"room for the cache, as printed: {answer.budget.printed} ({low:,} to {answer.budget.high_bytes:,} bytes)"
        )
    return tuple(lines)


def _grid(figures: tuple[FigureResult, ...]) -> Grid:
    rows = tuple(
        (
            figure.name,
            figure.printed_text,
            figure.predicted_text or "",
            "" if figure.agrees is None else "agrees" if figure.agrees else "no",
        )
        for figure in figures
    )
    return Grid(("figure", "printed", "predicted", ""), frozenset({1, 2}), rows)


def _advice(advice: tuple[AdviceResult, ...]) -> Grid:
    rows = tuple(
        (one.option, _shown(one.figure, one.before), _shown(one.figure, one.after), _change(one)) for one in advice
    )
    return Grid(("change", "now", "then", ""), frozenset({1, 2, 3}), rows)


def _shown(figure: str, value: float) -> str:
    return iec(int(value)) if figure.endswith("_bytes") else f"{int(value):,} tokens"


def _change(one: AdviceResult) -> str:
    return f"{one.after / one.before - 1:+.1%}" if one.before else ""
