"""What one card has left for the cache: total, usable, minus weights, overheads and reserve.

Every step keeps a best estimate with its low and high bound; where nothing is estimated the
three are equal and the figure is exact.
"""

from __future__ import annotations

from fractions import Fraction

from kvplan.catalogue import overheads_text, unknown_total
from kvplan.gpu import Gpu
from kvplan.record import Record
from kvplan.weights import Weights

DEFAULT_UTILIZATION = Fraction("0.92")


class Range(Record):
    """A figure in bytes with its bounds, and how sure it is: exact, measured or assumed."""

    best: int
    low: int
    high: int
    confidence: str

    @classmethod
    def exact(cls, value: int) -> Range:
        """A figure without an error bar."""
        return cls(value, value, value, "exact")


class Overhead(Record):
    """One named thing between usable memory and the cache, on one card."""

    name: str
    bytes: Range
    note: str
    sources: tuple[str, ...]


class Budget(Record):
    """One card's memory, step by step. Without a device only `kv` is known."""

    gpu: str | None
    total: Range | None
    free_bytes: int | None
    usable: Range | None
    weights: Range | None
    overheads: tuple[Overhead, ...]
    draft_weights: Range
    reserve_bytes: int
    kv: Range | None
    basis: str
    sources: tuple[str, ...]


def given_budget(available_bytes: int) -> Budget:
    """The KV budget that `--available-bytes` states outright."""
    exact = Range.exact(available_bytes)
    return Budget(None, None, None, None, None, (), Range.exact(0), 0, exact, "given on the command line", ())


def card_budget(
    gpu: Gpu,
    weights: Weights | None,
    draft: Weights | None,
    cards: int,
    utilization: Fraction,
    reserve_bytes: int,
    available_bytes: int | None,
) -> Budget:
    """What `gpu` leaves for the cache when `cards` of them form one replica.

    `kv` is None where the weights are unknown. `available_bytes` stands for what is left after weights,
    overheads and reserve, none of which is then taken off or told.

    Raises: NotCountableError when the device's total is unknown and no budget is given.
    """
    total = _total(gpu)
    basis, sources = gpu.memory.basis or "", tuple(gpu.memory.sources)
    held = _range(weights) if weights else None
    draft_held = _range(draft) if draft else Range.exact(0)
    if available_bytes is not None:
        given, none = Range.exact(available_bytes), Range.exact(0)
        return Budget(gpu.name, total, gpu.memory.free_bytes, None, None, (), none, 0, given, basis, sources)
    if total is None:
        raise unknown_total(gpu)
    usable = _usable(gpu, total, utilization)
    overheads = _overheads(cards, total.best - usable.best)
    kv = None
    if held is not None:
        taken = [held, draft_held, *(o.bytes for o in overheads), Range.exact(reserve_bytes)]
        kv = Range(
            usable.best - sum(t.best for t in taken),
            usable.low - sum(t.high for t in taken),
            usable.high - sum(t.low for t in taken),
            "assumed",
        )
    return Budget(
        gpu.name,
        total,
        gpu.memory.free_bytes,
        usable,
        held,
        overheads,
        draft_held,
        reserve_bytes,
        kv,
        basis,
        sources,
    )


def _range(weights: Weights) -> Range:
    return Range(weights.rank_bytes, weights.low_bytes, weights.high_bytes, weights.confidence)


def _total(gpu: Gpu) -> Range | None:
    memory = gpu.memory
    if memory.total_bytes is None:
        return None
    if memory.confidence is None:
        return Range.exact(memory.total_bytes)
    sure = "assumed" if memory.confidence == "low" else "measured"
    return Range(
        memory.total_bytes,
        memory.low_bytes or memory.total_bytes,
        memory.high_bytes or memory.total_bytes,
        sure,
    )


def _usable(gpu: Gpu, total: Range, utilization: Fraction) -> Range:
    """The utilisation's share of the total, less what a unified memory or its other tenants keep."""
    ceilings = [gpu.memory.unified.usable_bytes] if gpu.memory.unified and gpu.memory.unified.usable_bytes else []
    if gpu.memory.free_bytes is not None:
        ceilings.append(gpu.memory.free_bytes)

    def share(value: int) -> int:
        return min([value * utilization.numerator // utilization.denominator, *ceilings])

    return Range(share(total.best), share(total.low), share(total.high), total.confidence)


def _overheads(cards: int, left_free: int) -> tuple[Overhead, ...]:
    found = []
    for entry in overheads_text():
        if entry["applies"] == "multi_gpu" and cards == 1:
            continue
        taken = Range(entry["best_bytes"], entry["low_bytes"], entry["high_bytes"], entry["confidence"])
        if entry["name"] == "runtime_context":  # it lives in the share that utilisation leaves free
            best, low, high = (max(0, value - left_free) for value in (taken.best, taken.low, taken.high))
            taken = Range(best, low, high, taken.confidence)
            if not taken.high:
                continue
        found.append(Overhead(entry["name"], taken, entry["note"], tuple(entry["sources"])))
    return tuple(found)
