"""How the rarer parts of a size answer read: one card's memory step by step, and the work a cache saves."""

from __future__ import annotations

from kvplan.report import Block, Grid, Lines
from kvplan.report.size_view import past_maximum, unlimited
from kvplan.results import ComputeResult, GpuResult, SizeResult
from kvplan.units import in_unit


def card_blocks(result: SizeResult, gpu: GpuResult, unit: str) -> list[Block]:
    """The card's memory from its total down to the headroom, and what would fit."""
    rows = _budget_rows(result, gpu, unit)
    verdict = "fits" if gpu.fits else "does not fit"
    where = f"{gpu.count:,} x {gpu.name}" if gpu.name else "the given budget"
    lines = [f"{verdict} on {where}"]
    if gpu.kv_budget_bytes is not None:
        past = past_maximum(gpu.max_context, result.model_max_context)
        lines.append(
            f"longest context at {_sequences(result.workload.batch)}: {unlimited(gpu.max_context, 'tokens')}{past}"
        )
        lines.append(f"most sequences at {result.workload.context:,} tokens: {unlimited(gpu.max_batch)}")
    return [
        Grid(("per card", unit, "low", "high", "known"), frozenset({1, 2, 3}), rows, total=True),
        Lines(tuple(lines), strong=gpu.fits),
    ]


def _sequences(batch: int) -> str:
    return f"{batch:,} {'sequence' if batch == 1 else 'sequences'}"


def _budget_rows(result: SizeResult, gpu: GpuResult, unit: str) -> tuple[tuple[str, ...], ...]:
    rows: list[tuple[str, ...]] = []

    def add(name: str, value: int | None, key: str, sign: str = "") -> None:
        if value is None:
            return
        bounds = result.bounds.get(f"gpu.{key}")
        low, high = (in_unit(int(bounds[0] or 0), unit), in_unit(int(bounds[1] or 0), unit)) if bounds else ("", "")
        rows.append((name, f"{sign}{in_unit(value, unit)}", low, high, result.confidence.get(f"gpu.{key}", "exact")))

    add(
        "total, as the driver reports it" if gpu.basis != "given on the command line" else "total",
        gpu.total_bytes,
        "total_bytes",
    )
    add("free now", gpu.free_bytes, "free_bytes")
    add("usable", gpu.usable_bytes, "usable_bytes")
    add("weights", gpu.weights_bytes, "weights_bytes", "-")
    for overhead in gpu.overheads:
        name = overhead.name.replace("_", " ")
        rows.append(
            (
                name,
                f"-{in_unit(overhead.bytes, unit)}",
                in_unit(overhead.low_bytes, unit),
                in_unit(overhead.high_bytes, unit),
                overhead.confidence,
            ),
        )
    if gpu.draft_weights_bytes:
        add("draft weights", gpu.draft_weights_bytes, "draft_weights_bytes", "-")
    if gpu.reserve_bytes:
        add("reserve", gpu.reserve_bytes, "reserve_bytes", "-")
    add("KV budget", gpu.kv_budget_bytes, "kv_budget_bytes")
    add("KV cache", gpu.kv_bytes, "kv_bytes", "-")
    if gpu.draft_kv_bytes:
        add("draft KV cache", gpu.draft_kv_bytes, "draft_kv_bytes", "-")
    add("headroom", gpu.headroom_bytes, "headroom_bytes")
    return tuple(rows)


def compute_blocks(work: ComputeResult) -> list[Block]:
    """The work of generating the context with a cache and without, and what decoding reads."""
    rows = [
        ("query-row pairs in a layer", f"{work.naive_pairs:,}", f"{work.cached_pairs:,}"),
        ("attention FLOPs", f"{work.naive_attention_flops:.4g}", f"{work.cached_attention_flops:.4g}"),
    ]
    if work.naive_linear_flops is not None and work.cached_linear_flops is not None:
        rows.append(("other FLOPs", f"{work.naive_linear_flops:.4g}", f"{work.cached_linear_flops:.4g}"))
    lines = [f"decoding one token reads {work.cache_bytes_per_decoded_token:,} bytes of cache per sequence"]
    if work.prefill_flops_per_byte is not None and work.decode_flops_per_byte is not None:
        lines.append(
            f"arithmetic intensity: prefill {work.prefill_flops_per_byte:,.1f} FLOPs per byte, decode {work.decode_flops_per_byte:,.1f}",
        )
    if work.uncounted:
        lines.append(f"attention FLOPs not counted: {', '.join(work.uncounted)}")
    ratio = work.naive_pairs / work.cached_pairs
    lines.append(f"without a cache {ratio:,.0f} times the pairs")
    return [
        Grid((f"generating {work.tokens:,} tokens", "naive", "with cache"), frozenset({1, 2}), tuple(rows)),
        Lines(tuple(lines)),
    ]
