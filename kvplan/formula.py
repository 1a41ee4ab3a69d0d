"""The footprint written out as arithmetic, with the model's own numbers in it."""

from __future__ import annotations

from math import prod
from typing import assert_never

from kvplan.footprint import CachePlan
from kvplan.growth import (
    Behind,
    Chunk,
    Constant,
    Flushed,
    Grouped,
    Growth,
    Newest,
    PerEncoderToken,
    PerToken,
    PerTokens,
    PromptCap,
    Share,
    SinksAndWindow,
    Unflushed,
    Window,
    rows,
    shared_rows,
)
from kvplan.tensor import ITEM_BYTES


def law_text(growth: Growth) -> str:
    """The growth law in symbols, n for the context.

    >>> from kvplan.growth import PerToken, Window, Flushed
    >>> law_text(PerToken()), law_text(Window(1024)), law_text(Flushed(128, PerToken()))
    ('n', 'min(n, 1,024)', 'n - n mod 128')
    """
    match growth:
        case PerToken():
            return "n"
        case PerTokens(ratio):
            return f"floor(n / {ratio:,})"
        case Window(limit) | Chunk(limit):
            return f"min(n, {limit:,})"
        case Constant(count):
            return f"{count:,}"
        case PerEncoderToken():
            return "encoder tokens"
        case SinksAndWindow(sinks, window):
            return f"min(n, {sinks:,} + {window:,})"
        case Share(share):
            return f"floor({float(share):g} n)"
        case PromptCap(cap, generated):
            return f"min(n - {generated:,}, {cap:,}) + {generated:,}"
        case Flushed(run, of):
            return f"{_inner(of)} - {_inner(of)} mod {run:,}"
        case Unflushed(run, of):
            return f"{_inner(of)} mod {run:,}"
        case Behind(recent, of):
            return f"{_inner(of)} - min({law_text(of)}, {recent:,})"
        case Newest(recent, of):
            return f"min({law_text(of)}, {recent:,})"
        case Grouped(group, of):
            return f"({law_text(of)}) / {group:,}"
        case _:
            assert_never(growth)


def _inner(growth: Growth) -> str:
    text = law_text(growth)
    return text if text.isalnum() else f"({text})"


def formula_text(plan: CachePlan, context: int, batch: int, prefix: int) -> str:
    """One line per stored tensor and the sum; every number is a spec field or a workload option."""
    lines = [f"n = {context:,} tokens, {batch:,} {'sequence' if batch == 1 else 'sequences'}"]
    if prefix:
        lines[0] += f", the first {prefix:,} tokens shared"
    total = 0
    for item in plan.planned:
        for tensor in item.stored:
            alive = int(rows(tensor.growth, context, plan.encoder_tokens))
            shared = int(shared_rows(tensor.growth, context, prefix)) if prefix else 0
            held = batch * (alive - shared) + shared
            count = item.layers * prod(tensor.row) * ITEM_BYTES[tensor.dtype] * held
            total += count
            name = item.tensor.name if tensor.content == "data" else f"{item.tensor.name} {tensor.content}"
            shape = " x ".join(f"{size:,}" for size in tensor.row)
            law = law_text(tensor.growth)
            row_text = f"{law} = {alive:,} rows" if law != f"{alive:,}" else f"{alive:,} rows"
            many = f" x {batch:,} sequences" if batch > 1 and not shared else ""
            if shared:
                many = f" ({shared:,} of them shared: {batch:,} x {alive - shared:,} + {shared:,})"
            lines.append(
                f"{name}: {item.layers:,} layers x [{shape}] x {ITEM_BYTES[tensor.dtype]} B x {row_text}{many} = {count:,} B",
            )
    lines.append(f"total = {total:,} B")
    return "\n".join(lines)
