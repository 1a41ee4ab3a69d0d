"""Growth laws: how many rows of a tensor are alive after n tokens, and which ones.

The set is closed. Attention kinds, policies and formats choose from it; footprints, engines
and measurements read it. A law answers four questions: rows alive, rows gained by one more
token while windows fill and after, rows that lie wholly within a shared prefix, and the period
after which its steps repeat. Every answer is plain arithmetic, so the same code counts one
context (int) or a million of them (integer arrays).
"""

from __future__ import annotations

from fractions import Fraction
from math import lcm
from typing import TYPE_CHECKING, Any, assert_never

from kvplan.record import Record

if TYPE_CHECKING:
    from numpy import int64
    from numpy.typing import NDArray

    Count = int | NDArray[int64]
    """A number of rows, tokens or bytes: one, or an array of them."""


class PerToken(Record):
    """One row per token."""


class PerTokens(Record):
    """One row per `ratio` whole tokens: floor(n / ratio)."""

    ratio: int


class Window(Record):
    """The last `tokens` rows: min(n, tokens)."""

    tokens: int


class Chunk(Record):
    """The rows of the current chunk, at its fullest: min(n, tokens)."""

    tokens: int


class Constant(Record):
    """`rows` rows whatever the length: recurrent state, convolution columns."""

    rows: int


class PerEncoderToken(Record):
    """One row per token of the encoder's output (cross-attention)."""


class SinksAndWindow(Record):
    """The first `sinks` rows and the last `window`: min(n, sinks + window)."""

    sinks: int
    window: int


class Share(Record):
    """A fixed share of the context, rounded down; which rows survive depends on their scores."""

    share: Fraction


class PromptCap(Record):
    """At most `cap` rows of the prompt and all `generated` rows after it."""

    cap: int
    generated: int


class Flushed(Record):
    """Rows already flushed in whole runs of `run`, of the rows `of` keeps: m - m mod run."""

    run: int
    of: Growth


class Unflushed(Record):
    """Rows waiting for their run of `run` to fill: m mod run."""

    run: int
    of: Growth


class Behind(Record):
    """Rows older than the newest `recent`: m - min(m, recent)."""

    recent: int
    of: Growth


class Newest(Record):
    """The newest `recent` rows: min(m, recent)."""

    recent: int
    of: Growth


class Grouped(Record):
    """One row (a scale, a zero) per `group` rows of `of`: m / group, rounded up."""

    group: int
    of: Growth


RowLaw = PerToken | PerTokens | Window | Chunk | Constant | PerEncoderToken | SinksAndWindow | Share | PromptCap
Growth = RowLaw | Flushed | Unflushed | Behind | Newest | Grouped


def minimum(a: Any, b: Any) -> Any:
    """The smaller of two counts, elementwise where either is an array."""
    if type(a) is int and type(b) is int:
        return min(b, a)
    import numpy

    return numpy.minimum(a, b)


def rows(growth: Growth, context: Count, encoder_tokens: int = 0) -> Any:
    """Rows alive after `context` tokens.

    >>> rows(Window(1024), 100), rows(Window(1024), 5000), rows(PerTokens(4), 11)
    (100, 1024, 2)
    >>> rows(Flushed(128, PerToken()), 300), rows(Unflushed(128, PerToken()), 300)
    (256, 44)
    """
    match growth:
        case PerToken():
            return context
        case PerTokens(ratio):
            return context // ratio
        case Window(limit) | Chunk(limit):
            return minimum(context, limit)
        case Constant(count):
            return count
        case PerEncoderToken():
            return encoder_tokens
        case SinksAndWindow(sinks, window):
            return minimum(context, sinks + window)
        case Share(share):
            return context * share.numerator // share.denominator
        case PromptCap(cap, generated):
            return minimum(context, generated + cap)
        case Flushed(run, of):
            kept = rows(of, context, encoder_tokens)
            return kept - kept % run
        case Unflushed(run, of):
            return rows(of, context, encoder_tokens) % run
        case Behind(recent, of):
            kept = rows(of, context, encoder_tokens)
            return kept - minimum(kept, recent)
        case Newest(recent, of):
            return minimum(rows(of, context, encoder_tokens), recent)
        case Grouped(group, of):
            return -(-rows(of, context, encoder_tokens) // group)
        case _:
            assert_never(growth)


def slope(growth: Growth, full: bool) -> Fraction:
    """Rows gained per token: while windows fill, or once each is `full`; the mean over a period.

    >>> slope(Window(128), full=False), slope(Window(128), full=True), slope(PerTokens(4), full=True)
    (Fraction(1, 1), Fraction(0, 1), Fraction(1, 4))
    """
    match growth:
        case PerToken():
            return Fraction(1)
        case PerTokens(ratio):
            return Fraction(1, ratio)
        case Window() | Chunk() | SinksAndWindow() | PromptCap():
            return Fraction(0 if full else 1)
        case Constant() | PerEncoderToken() | Unflushed() | Newest():
            return Fraction(0)
        case Share(share):
            return share
        case Flushed(_, of) | Behind(_, of):
            return slope(of, full)
        case Grouped(group, of):
            return slope(of, full) / group
        case _:
            assert_never(growth)


def shared_rows(growth: Growth, context: Count, prefix: Count) -> Any:
    """Rows alive after `context` tokens that hold tokens of the shared `prefix` and nothing else.

    Sequences that share a prefix hold these rows once. Rows chosen by score differ between
    sequences and runs of a quantised cache straddle the boundary, so those laws share nothing.

    >>> shared_rows(PerToken(), 5000, 1000), shared_rows(Window(4500), 5000, 1000), shared_rows(PerTokens(128), 5000, 1000)
    (1000, 500, 7)
    """
    match growth:
        case PerToken():
            return minimum(prefix, context)
        case PerTokens(ratio):
            return minimum(prefix, context) // ratio
        case Window(limit) | Chunk(limit):
            oldest = context - minimum(context, limit)
            return prefix - minimum(prefix, oldest)
        case SinksAndWindow(sinks, window):
            oldest = context - minimum(context, sinks + window) + sinks
            return minimum(prefix, sinks) + prefix - minimum(prefix, oldest)
        case Constant() | PerEncoderToken() | Share() | PromptCap():
            return 0
        case Flushed() | Unflushed() | Behind() | Newest() | Grouped():
            return 0
        case _:
            assert_never(growth)


def period(growth: Growth) -> int:
    """Tokens after which the law's steps repeat: within a period rows may fall as well as rise.

    >>> period(PerToken()), period(Unflushed(128, PerToken())), period(Unflushed(128, Share(Fraction(1, 5))))
    (1, 128, 640)
    """
    match growth:
        case Flushed(run, of) | Unflushed(run, of):
            return run * _tokens_per_step(of)
        case Grouped(group, of):
            return lcm(group * _tokens_per_step(of), period(of))
        case _:
            return 1


def _tokens_per_step(law: Growth) -> int:
    """Tokens in which `law` gains a whole number of rows."""
    match law:
        case Share(share):
            return share.denominator
        case PerTokens(ratio):
            return ratio
        case _:
            return 1


def filled_after(growth: Growth) -> int:
    """The length past which a bounded law no longer changes; 1 for laws that always grow.

    >>> filled_after(Window(1024)), filled_after(Newest(128, Window(1024))), filled_after(PerToken())
    (1024, 1024, 1)
    """
    match growth:
        case Window(limit) | Chunk(limit):
            return limit
        case SinksAndWindow(sinks, window):
            return sinks + window
        case PromptCap(cap, generated):
            return cap + generated
        case Flushed(_, of) | Unflushed(_, of) | Behind(_, of) | Grouped(_, of):
            return filled_after(of)
        case Newest(recent, of):
            return max(recent, filled_after(of))
        case _:
            return 1


def bounded(growth: Growth) -> bool:
    """True when rows stop growing at some length."""
    return slope(growth, full=True) == 0


def divisible(growth: Growth) -> bool:
    """True when decode-context parallelism spreads the rows: they belong to tokens of the context."""
    match growth:
        case Flushed(_, of) | Unflushed(_, of) | Behind(_, of) | Newest(_, of) | Grouped(_, of):
            return divisible(of)
        case _:
            return not isinstance(growth, Constant | PerEncoderToken)
