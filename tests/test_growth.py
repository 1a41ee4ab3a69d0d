"""Each growth law answers for its rows, its slope, what a prefix shares, and where it stops."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st

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
    bounded,
    divisible,
    filled_after,
    minimum,
    period,
    rows,
    shared_rows,
    slope,
)

ONE = PerToken()
FIFTH = Share(Fraction(1, 5))
#             law                      rows at 0, 1, 300, 1000   slope now, full       period  filled   DCP divides
LAWS: list[tuple[Growth, tuple[int, ...], tuple[object, object], int, int, bool]] = [
    (ONE, (0, 1, 300, 1000), (1, 1), 1, 1, True),
    (PerTokens(4), (0, 0, 75, 250), (Fraction(1, 4), Fraction(1, 4)), 1, 1, True),
    (Window(128), (0, 1, 128, 128), (1, 0), 1, 128, True),
    (Chunk(512), (0, 1, 300, 512), (1, 0), 1, 512, True),
    (Constant(3), (3, 3, 3, 3), (0, 0), 1, 1, False),
    (PerEncoderToken(), (7, 7, 7, 7), (0, 0), 1, 1, False),
    (SinksAndWindow(4, 252), (0, 1, 256, 256), (1, 0), 1, 256, True),
    (FIFTH, (0, 0, 60, 200), (Fraction(1, 5), Fraction(1, 5)), 1, 1, True),
    (PromptCap(64, 30), (0, 1, 94, 94), (1, 0), 1, 94, True),
    (Flushed(128, ONE), (0, 0, 256, 896), (1, 1), 128, 1, True),
    (Unflushed(128, ONE), (0, 1, 44, 104), (0, 0), 128, 1, True),
    (Behind(128, ONE), (0, 0, 172, 872), (1, 1), 1, 1, True),
    (Newest(128, ONE), (0, 1, 128, 128), (0, 0), 1, 128, True),
    (Grouped(32, Flushed(128, ONE)), (0, 0, 8, 28), (Fraction(1, 32), Fraction(1, 32)), 128, 1, True),
    (Grouped(64, ONE), (0, 1, 5, 16), (Fraction(1, 64), Fraction(1, 64)), 64, 1, True),
    (Flushed(128, Window(512)), (0, 0, 256, 512), (1, 0), 128, 512, True),
    (Unflushed(128, FIFTH), (0, 0, 60, 72), (0, 0), 640, 1, True),
    (Unflushed(128, PerTokens(4)), (0, 0, 75, 122), (0, 0), 512, 1, True),
    (Newest(128, Window(512)), (0, 1, 128, 128), (0, 0), 1, 512, True),
    (Flushed(4, PerEncoderToken()), (4, 4, 4, 4), (0, 0), 4, 1, False),
    (Unflushed(4, PerEncoderToken()), (3, 3, 3, 3), (0, 0), 4, 1, False),
    (Behind(4, PerEncoderToken()), (3, 3, 3, 3), (0, 0), 1, 1, False),
    (Newest(4, PerEncoderToken()), (4, 4, 4, 4), (0, 0), 1, 4, False),
    (Grouped(2, Flushed(4, PerEncoderToken())), (2, 2, 2, 2), (0, 0), 4, 1, False),
]
each_law = pytest.mark.parametrize(
    ("law", "alive", "slopes", "repeats", "filled", "divided"), LAWS, ids=[str(law[0]) for law in LAWS]
)


@each_law
def test_a_law_answers_for_itself(
    law: Growth, alive: tuple[int, ...], slopes: tuple[object, object], repeats: int, filled: int, divided: bool
) -> None:
    """Rows at four lengths, slope before and after filling, period, where it fills and whether DCP divides it."""
    assert alive == tuple(rows(law, n, encoder_tokens=7) for n in (0, 1, 300, 1000))
    assert slopes == (slope(law, full=False), slope(law, full=True))
    assert (repeats, filled, divided) == (period(law), filled_after(law), divisible(law))
    assert bounded(law) is (slopes[1] == 0)


@each_law
def test_a_law_counts_arrays_as_it_counts_one(
    law: Growth, alive: tuple[int, ...], slopes: object, repeats: int, filled: int, divided: bool
) -> None:
    """An array of lengths gives the rows of each."""
    found = rows(law, numpy.array([0, 1, 300, 1000]), encoder_tokens=7)
    assert list(alive) == numpy.broadcast_to(found, 4).tolist()


@pytest.mark.parametrize(
    ("law", "context", "prefix", "shared"),
    [
        (ONE, 5000, 1000, 1000),
        (ONE, 500, 1000, 500),
        (PerTokens(128), 5000, 1000, 7),
        (Window(4500), 5000, 1000, 500),
        (Window(1000), 5000, 1000, 0),
        (Window(6000), 5000, 1000, 1000),
        (Chunk(4500), 5000, 1000, 500),
        (SinksAndWindow(4, 252), 200, 150, 150),
        (SinksAndWindow(4, 252), 1000, 100, 4),
        (SinksAndWindow(4, 252), 1000, 2, 2),
        (SinksAndWindow(4, 252), 1000, 800, 4 + 52),
        (Constant(3), 1000, 500, 0),
        (PerEncoderToken(), 1000, 500, 0),
        (FIFTH, 1000, 500, 0),
        (PromptCap(64, 30), 1000, 500, 0),
        (Flushed(128, ONE), 1000, 500, 0),
        (Unflushed(128, ONE), 1000, 500, 0),
        (Behind(128, ONE), 1000, 500, 0),
        (Newest(128, ONE), 1000, 500, 0),
        (Grouped(32, ONE), 1000, 500, 0),
    ],
)
def test_a_prefix_shares_the_rows_still_alive(law: Growth, context: int, prefix: int, shared: int) -> None:
    """A window keeps of the prefix what it still sees; rows chosen by score and runs share nothing."""
    assert shared == shared_rows(law, context, prefix)


plain_laws = st.sampled_from(
    [law for law, *_ in LAWS if isinstance(law, PerToken | PerTokens | Window | Chunk | SinksAndWindow)]
)


@given(law=plain_laws, context=st.integers(0, 2000), prefix=st.integers(0, 2000))
def test_shared_rows_are_among_the_living(law: Growth, context: int, prefix: int) -> None:
    """A prefix shares no more rows than are alive, and none that are not its own."""
    prefix = min(prefix, context)
    assert 0 <= shared_rows(law, context, prefix) <= min(rows(law, context), prefix)


@given(law=plain_laws, context=st.integers(1, 2000))
def test_a_prefix_of_everything_shares_all_whole_rows(law: Growth, context: int) -> None:
    """When the prefix is the context, every row is shared."""
    assert rows(law, context) == shared_rows(law, context, context)


@given(n=st.integers(0, 5000), run=st.integers(1, 300), recent=st.integers(0, 300))
def test_splits_of_a_residual_lose_no_row(n: int, run: int, recent: int) -> None:
    """Flushed and waiting rows are all rows, and so are old and recent ones."""
    assert n == rows(Flushed(run, ONE), n) + rows(Unflushed(run, ONE), n)
    assert n == rows(Behind(recent, ONE), n) + rows(Newest(recent, ONE), n)


def test_the_smaller_count_is_found_for_numbers_and_arrays() -> None:
    """Plain integers stay plain, arrays compare elementwise."""
    assert (3, 3) == (minimum(3, 5), minimum(5, 3))
    assert type(minimum(3, 5)) is int
    assert [1, 2] == minimum(numpy.array([1, 5]), 2).tolist()


def test_the_set_of_laws_is_closed() -> None:
    """What is no law is a bug, found at once."""
    stranger: Any = "per token"
    for answer in (lambda: rows(stranger, 1), lambda: slope(stranger, full=True), lambda: shared_rows(stranger, 2, 1)):
        with pytest.raises(AssertionError):
            answer()
