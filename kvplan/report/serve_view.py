"""How a serve command reads: whether it starts, what it holds, what was understood of it, what would help."""

from __future__ import annotations

from typing import Any

from kvplan.report import Block, Heading, Lines
from kvplan.report.size_view import unlimited
from kvplan.results import ChangeResult, ServeResult, SizeResult

MOST_LISTED = 40


def serve_blocks(result: SizeResult, serve: ServeResult) -> list[Block]:
    """The verdict on the command, and what would help."""
    blocks: list[Block] = [Heading(serve.command), Lines(verdict_lines(result, serve), strong=serve.starts is True)]
    if serve.changes:
        blocks.append(Lines(("what makes it fit:", *(f"  {change_line(change)}" for change in serve.changes))))
    return blocks


def reading_blocks(serve: ServeResult) -> list[Block]:
    """What was done with each flag, and what the reader must know of the command."""
    blocks: list[Block] = []
    flags = flag_lines(serve)
    if flags:
        blocks.append(Lines(flags))
    if serve.notes:
        blocks.append(Lines(tuple(f"note: {note}" for note in serve.notes)))
    return blocks


def verdict_lines(result: SizeResult, serve: ServeResult) -> tuple[str, ...]:
    """Whether it starts, and how many sequences of its length it holds at once."""
    w, gpu = result.workload, result.gpu
    where = "" if gpu is None or gpu.name is None else f" on {gpu.count:,} x {gpu.name}"
    if serve.starts is None:
        reserved = (result.engine or {}).get("reserved_bytes") or result.per_rank_bytes
        return (f"{_sequences(w.batch)} of {w.context:,} tokens takes {reserved:,} bytes on one rank",)
    if serve.refusals:
        return (f"does not start{where}", *(f"  {reason}" for reason in serve.refusals))
    close = ", by the best estimate; the bounds disagree" if "gpu.fits" in result.bounds else ""
    fits = gpu is not None and gpu.fits
    lines = [f"{start_words(serve, fits, where, w.batch, gpu.max_batch if gpu else None)}{close}"]
    if gpu is not None and gpu.kv_budget_bytes is not None:
        lines.append(f"holds {_held(gpu.max_batch)} of {w.context:,} tokens at once")
        if not fits and not gpu.max_batch:
            lines.append(f"longest that fits: {unlimited(gpu.max_context, 'tokens')}")
    if serve.parallel is not None and gpu is not None and gpu.max_batch is not None and serve.parallel > gpu.max_batch:
        lines.append(f"the command lets {serve.parallel:,} run at once: a limit, not what is resident")
    return tuple(lines)


SHORT = {
    "shortens": "starts{}, and takes no sequence of that length",
    "spills": "starts{} with a part in host memory, since it does not fit",
}


def start_words(serve: ServeResult, fits: bool, where: str, batch: int, most: int | None) -> str:
    """Whether it starts, where and how. batch: sequences asked for; most: those that fit."""
    if fits:
        return f"starts{where}"
    if serve.starts and serve.when_short != "spills" and most:
        return f"starts{where}, and does not hold {_sequences(batch)} of that length"
    return SHORT[serve.when_short].format(where) if serve.starts else f"does not start{where}"


def _held(count: int | None) -> str:
    return "sequences without limit" if count is None else _sequences(count)


def _sequences(count: int) -> str:
    return f"{count:,} {'sequence' if count == 1 else 'sequences'}"


def change_line(change: ChangeResult) -> str:
    """One change with what it gives."""
    held = "" if change.max_batch is None else f": {_sequences(change.max_batch)}"
    longest = "" if change.max_context is None else f", up to {change.max_context:,} tokens in one"
    return f"{change.change}{held}{longest}"


def flag_lines(serve: ServeResult) -> tuple[str, ...]:
    """What was done with each flag."""
    kinds = (
        ("unknown to it", serve.unknown),
        ("changes memory, not counted", serve.uncounted),
        ("without effect on memory", serve.idle),
    )
    return tuple(f"{name}: {_listed(flags)}" for name, flags in kinds if flags)


def _listed(flags: tuple[str, ...]) -> str:
    more = f" and {len(flags) - MOST_LISTED:,} more" if len(flags) > MOST_LISTED else ""
    return ", ".join(flags[:MOST_LISTED]) + more


def serve_row(serve: ServeResult) -> dict[str, Any]:
    """The flat values of a CSV row."""
    row: dict[str, Any] = {name: getattr(serve, name) for name in serve.__match_args__ if name != "changes"}
    row = {key: ";".join(value) if isinstance(value, tuple) else value for key, value in row.items()}
    return row | {"changes": ";".join(change.change for change in serve.changes)}
