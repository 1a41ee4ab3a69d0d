"""What one card has left for the cache: total, usable, minus weights, overheads and reserve.

The steps between the total and the budget are an engine's own (`account`), or the general ones; see `kvplan.account`.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import cache

from kvplan.account import Account, Device, Overhead, Range, general_account
from kvplan.catalogue import overheads_text, unknown_total
from kvplan.gpu import Gpu
from kvplan.record import Record
from kvplan.weights import Weights


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
    """The KV budget that `--available-bytes` or an option of the engine states outright."""
    exact = Range.exact(available_bytes)
    return Budget(None, None, None, None, None, (), Range.exact(0), 0, exact, "given on the command line", ())


def card_budget(
    gpu: Gpu,
    weights: Weights | None,
    draft: Weights | None,
    cards: int,
    utilization: Fraction | None,
    reserve_bytes: int,
    available_bytes: int | None,
    account: Callable[[Device], Account] = general_account,
) -> Budget:
    """What `gpu` leaves for the cache when `cards` of them form one replica.

    `kv` is None where the weights are unknown. `available_bytes` stands for what is left after weights,
    overheads and reserve, none of which is then taken off or told. account: the engine's own rule.

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
    found = account(
        Device(
            gpu.name,
            total,
            _ceilings(gpu),
            cards,
            held or Range.exact(0),
            draft_held,
            reserve_bytes,
            utilization,
            _runtime(cards),
        )
    )
    return Budget(
        gpu.name,
        total,
        gpu.memory.free_bytes,
        found.usable,
        held,
        found.overheads,
        draft_held,
        reserve_bytes,
        found.kv if held is not None else None,
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


def _ceilings(gpu: Gpu) -> tuple[int, ...]:
    """What a unified memory or its other tenants leave, where that is known."""
    unified = gpu.memory.unified.usable_bytes if gpu.memory.unified else None
    return tuple(limit for limit in (unified, gpu.memory.free_bytes) if limit is not None)


@cache
def _runtime(cards: int) -> tuple[Overhead, ...]:
    """The shipped overheads that apply to a replica of `cards` cards."""
    return tuple(
        Overhead(
            entry["name"],
            Range(entry["best_bytes"], entry["low_bytes"], entry["high_bytes"], entry["confidence"]),
            entry["note"],
            tuple(entry["sources"]),
        )
        for entry in overheads_text()
        if cards > 1 or entry["applies"] != "multi_gpu"
    )
