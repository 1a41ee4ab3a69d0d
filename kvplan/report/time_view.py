"""How predicted times read: each with its interval, and what a decode step waits for."""

from __future__ import annotations

from typing import Any

from kvplan.report import Block, Grid, Lines
from kvplan.results import SpanResult, TimeResult

QUANTITIES = {
    "decode_step_seconds": "one decode step",
    "prefill_seconds": "all prompts, one by one",
    "ttft_seconds": "time to first token",
    "tpot_seconds": "time per output token",
    "request_seconds": "one request",
}


def time_blocks(time: TimeResult) -> list[Block]:
    """A table of the times, and what binds them."""
    rows = [
        (name, *(seconds_text(getattr(getattr(time, key), edge)) for edge in ("low", "best", "high")))
        for key, name in QUANTITIES.items()
    ]
    rate = time.tokens_per_second
    rows.append(("output tokens per second", *(f"{value:,.0f}" for value in (rate.low, rate.best, rate.high))))
    sequences = f"{time.batch:,} {'sequence' if time.batch == 1 else 'sequences'}"
    parts = ", ".join(
        f"{name} {seconds_text(getattr(time, f'{name}_seconds'))}"
        for name in ("memory", "compute", "latency", "link")
        if getattr(time, f"{name}_seconds")
    )
    flips = (
        f"something else binds from {time.bound_changes_at:,} sequences"
        if time.bound_changes_at
        else "no larger batch changes that"
    )
    lines = (
        f"bound by {time.bound} at {sequences}; {flips}",
        f"a step alone in each: {parts}",
        f"{'this card' if time.confidence == 'measured' else 'other cards'}'s kernels calibrate it; not modelled: {', '.join(time.not_modelled)}",
    )
    return [Grid((sequences, "low", "best", "high"), frozenset({1, 2, 3}), tuple(rows)), Lines(lines)]


def seconds_text(value: float) -> str:
    """A time to three digits in its own unit.

    >>> seconds_text(0.00456), seconds_text(12.5), seconds_text(0.0000071), seconds_text(5400)
    ('4.56 ms', '12.5 s', '7.1 us', '90 min')
    """
    for limit, scale, unit in ((1e-3, 1e6, "us"), (1.0, 1e3, "ms"), (600.0, 1.0, "s")):
        if value < limit:
            return f"{value * scale:.3g} {unit}"
    return f"{value / 60:,.3g} min"


def time_cells(time: TimeResult) -> dict[str, str]:
    """The cells of a row among others."""
    return {
        "TTFT": seconds_text(time.ttft_seconds.best),
        "TPOT": seconds_text(time.tpot_seconds.best),
        "tokens/s": f"{time.tokens_per_second.best:,.0f}",
        "bound": time.bound,
    }


def time_row(time: TimeResult) -> dict[str, Any]:
    """Flat columns for CSV."""
    row: dict[str, Any] = {}
    for name in time.__match_args__:
        value = getattr(time, name)
        if isinstance(value, SpanResult):
            row |= {f"time_{name}_{edge}": getattr(value, edge) for edge in ("low", "best", "high")}
        elif not isinstance(value, tuple):
            row[f"time_{name}"] = value
    return row
