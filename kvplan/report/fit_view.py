"""How a fit reads: one answer in sentences, several as a table with a row each."""

from __future__ import annotations

from kvplan.report import Block, Grid, Heading, Lines, Report
from kvplan.report.size_view import past_maximum, unlimited
from kvplan.results import FitResult, document, plain
from kvplan.units import in_unit


def fit_report(results: list[FitResult], unit: str) -> Report:
    """The report of one or several fits."""
    blocks = _full(results[0], unit) if len(results) == 1 else [_compared(results, unit)]
    rows = tuple({k: v for k, v in plain(result).items() if not isinstance(v, list)} for result in results)
    return Report(document("fit", results), rows, tuple(blocks))


def _full(fit: FitResult, unit: str) -> list[Block]:
    where = f"{fit.count:,} x {fit.gpu}" if fit.gpu else "the given budget"
    sequences = f"{fit.batch:,} {'sequence' if fit.batch == 1 else 'sequences'}"
    verdict = "fit" if fit.batch > 1 else "fits"
    lines = [
        f"{sequences} of {fit.context:,} tokens {verdict if fit.fits else 'do not fit' if fit.batch > 1 else 'does not fit'}",
    ]
    answers = [
        f"longest context at {sequences}: {unlimited(fit.max_context, 'tokens')}{past_maximum(fit.max_context, fit.model_max_context)}",
        f"most sequences at {fit.context:,} tokens: {unlimited(fit.max_batch)}",
    ]
    if fit.gpu is not None:
        fewest = "more than 64 a replica" if fit.min_gpus is None else f"{fit.min_gpus:,}"
        answers.append(f"fewest GPUs for {sequences} of {fit.context:,} tokens: {fewest}")
    if fit.kv_budget_bytes is not None:
        answers.append(f"KV budget of a card: {in_unit(fit.kv_budget_bytes, unit)} {unit}")
    else:
        answers = ["what would fit is not known without the weights: add --weights BYTES"]
    blocks: list[Block] = [
        Heading(f"{fit.model} on {where}, {fit.kv_dtype}"),
        Lines(tuple(lines), strong=fit.fits),
        Lines(tuple(answers)),
    ]
    if fit.notes:
        blocks.append(Lines(tuple(f"note: {note}" for note in fit.notes)))
    return blocks


def _compared(results: list[FitResult], unit: str) -> Grid:
    columns = ("model", "gpu", "cards", "format", "tokens", "seqs", "fits", "max tokens", "max seqs", "min GPUs")
    rows = tuple(
        (
            fit.model,
            fit.gpu or "",
            f"{fit.count:,}",
            fit.kv_dtype,
            f"{fit.context:,}",
            f"{fit.batch:,}",
            "yes" if fit.fits else "no",
            "" if fit.kv_budget_bytes is None else unlimited(fit.max_context),
            "" if fit.kv_budget_bytes is None else unlimited(fit.max_batch),
            _fewest(fit),
        )
        for fit in results
    )
    return Grid(columns, frozenset({2, 4, 5, 7, 8, 9}), rows)


def _fewest(fit: FitResult) -> str:
    """The fewest GPUs for a table; empty where the question has none or the weights are not known."""
    if fit.gpu is None or fit.kv_budget_bytes is None:
        return ""
    return ">64" if fit.min_gpus is None else f"{fit.min_gpus:,}"
