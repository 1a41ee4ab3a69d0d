"""From a card's memory to the room for a cache: figures with bounds, and the account that ends in a budget.

Every step keeps a best estimate with its low and high bound; where nothing is estimated the
three are equal and the figure is exact.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from fractions import Fraction

from kvplan.errors import InputError
from kvplan.record import Record

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

    def each(self, change: Callable[[int], int]) -> Range:
        """The same figure with each of its three values changed by a rising function."""
        return Range(change(self.best), change(self.low), change(self.high), self.confidence)


class Overhead(Record):
    """One named thing between usable memory and the cache, on one card."""

    name: str
    bytes: Range
    note: str
    sources: tuple[str, ...]


class Device(Record):
    """One card of a replica, as an engine's own rules for its budget see it.

    total: driver-reported bytes. ceilings: other limits, such as free memory or a unified memory's share.
    cards: ranks of one replica. weights: bytes on this rank. utilization: what the user said, or None.
    runtime: the shipped overheads that apply to this many cards, by name.
    """

    name: str
    total: Range
    ceilings: tuple[int, ...]
    cards: int
    weights: Range
    draft_weights: Range
    reserve_bytes: int
    utilization: Fraction | None
    runtime: tuple[Overhead, ...]

    def share(self, utilization: Fraction) -> Range:
        """That share of the total, below every ceiling; whole bytes, rounded down."""
        return self.total.each(
            lambda value: min([value * utilization.numerator // utilization.denominator, *self.ceilings])
        )

    def taken(self) -> tuple[Range, ...]:
        """What the weights, the draft's weights and other tenants hold."""
        return self.weights, self.draft_weights, Range.exact(self.reserve_bytes)


class Account(Record):
    """One card's memory under an engine's rule: what it may use, what it loses, what the cache gets."""

    usable: Range
    overheads: tuple[Overhead, ...]
    kv: Range


def left_of(usable: Range, taken: Iterable[Range]) -> Range:
    """`usable` less everything in `taken`: its low end less their high ends, and the other way round.

    >>> left_of(Range.exact(100), [Range(10, 5, 20, "assumed")])
    Range(best=90, low=80, high=95, confidence='assumed')
    """
    parts = tuple(taken)
    sure = {part.confidence for part in (usable, *parts)}
    confidence = next(word for word in ("assumed", "measured", "exact") if word in sure)
    return Range(
        usable.best - sum(part.best for part in parts),
        usable.low - sum(part.high for part in parts),
        usable.high - sum(part.low for part in parts),
        confidence,
    )


def asked_share(option: str, own: object, asked: Fraction | None) -> Fraction | None:
    """The share that an engine's own option or --utilization asks for; None where neither does.

    Raises: InputError where both do and differ.
    """
    if own is None or asked is None:
        return asked if own is None else Fraction(str(own))
    if Fraction(str(own)) != asked:
        raise InputError(
            f"-E {option}: found {float(Fraction(str(own))):g} beside --utilization {float(asked):g}",
            "give one of them",
        )
    return asked


def general_account(device: Device) -> Account:
    """The account where no engine says otherwise: a share of the total, less weights and known overheads.

    The runtime's context lives in the share that stays free, as far as it finds room there.
    """
    usable = device.share(device.utilization or DEFAULT_UTILIZATION)
    overheads = beyond_free_share(device.runtime, device.total.best - usable.best)
    kv = left_of(usable, [*device.taken(), *(overhead.bytes for overhead in overheads)])
    return Account(usable, overheads, kv.replace(confidence="assumed"))


def beyond_free_share(overheads: Iterable[Overhead], left_free: int) -> tuple[Overhead, ...]:
    """`overheads` with the runtime's context cut to what `left_free` bytes do not hold."""
    found = []
    for overhead in overheads:
        if overhead.name == "runtime_context":
            beyond = overhead.bytes.each(lambda value: max(0, value - left_free))
            if not beyond.high:
                continue
            overhead = overhead.replace(bytes=beyond)
        found.append(overhead)
    return tuple(found)
