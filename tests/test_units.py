"""Tokens and bytes are read as the contract spells them, and printed so that they read back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvplan.errors import InputError
from kvplan.units import byte_count, ceil_div, iec, in_unit, places_for, tokens, whole_number


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("8192", 8192),
        ("8k", 8000),
        ("128k", 128_000),
        ("1.5k", 1500),
        ("1m", 1_000_000),
        ("1g", 10**9),
        (" 8k ", 8000),
        ("8K", 8192),
        ("128K", 131_072),
        ("8Ki", 8192),
        ("8ki", 8192),
        ("1M", 2**20),
        ("1Mi", 2**20),
        ("0.5K", 512),
        ("1G", 2**30),
    ],
)
def test_tokens_are_read_as_spelled(text: str, count: int) -> None:
    """Lower-case suffixes count in thousands, upper-case and i suffixes in powers of 1024."""
    assert count == tokens(text)


@pytest.mark.parametrize(
    "text", ["", "k", "8 k", "8kb", "8KiB", "-1", "1e3", "8,192", "0x10", "max", "9" * 31, "1.", "nan", "8k8"]
)
def test_anything_else_is_no_number_of_tokens(text: str) -> None:
    """The error shows what was found and how tokens are written."""
    with pytest.raises(InputError, match="^--ctx: found '.*', allowed a whole number such as 8192, 8k") as caught:
        tokens(text, "--ctx")
    assert "lower-case k and m count in thousands, upper-case K and M in powers of 1024" == caught.value.fix


@pytest.mark.parametrize("text", ["0", "0k", "1.0005k", "0.5", "1000000000001", "2000g"])
def test_tokens_are_whole_and_in_reach(text: str) -> None:
    """No part of a token, none at all, or more than 10^12 is refused."""
    with pytest.raises(InputError, match="allowed whole numbers from 1 to 1,000,000,000,000") as caught:
        tokens(text)
    assert "for example tokens 8192, 8k or 128K" == caught.value.fix


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("40GiB", 42_949_672_960),
        ("42.9GB", 42_900_000_000),
        ("42949672960", 42_949_672_960),
        ("80 GiB", 80 * 2**30),
        ("0", 0),
        ("1kb", 1000),
        ("1KB", 1000),
        ("1kib", 1024),
        ("1MiB", 2**20),
        ("1mb", 10**6),
        ("1TiB", 2**40),
        ("1TB", 10**12),
        ("7b", 7),
        ("1.5b", 1),
    ],
)
def test_bytes_are_read_as_spelled(text: str, count: int) -> None:
    """IEC and SI units both read, in any case; a bare number is bytes; fractions of a byte are dropped."""
    assert count == byte_count(text)


@pytest.mark.parametrize("text", ["", "40G", "40Gi", "forty", "-1GiB", "1e9", "40GiB/s", "1 000"])
def test_an_ambiguous_size_is_refused(text: str) -> None:
    """Nobody can tell which G `40G` is, so the fix names both."""
    with pytest.raises(
        InputError, match="^--reserve: found '.*', allowed bytes such as 40GiB, 42.9GB or 42949672960$"
    ) as caught:
        byte_count(text, "--reserve")
    assert "write GiB for 2^30 bytes or GB for 10^9 bytes" == caught.value.fix


def test_bytes_beyond_reach_are_refused() -> None:
    """More than 10^18 bytes is a slip of the keyboard."""
    with pytest.raises(InputError, match="allowed at most 1,000,000,000,000,000,000 bytes"):
        byte_count("1000001TB")


def test_a_whole_number_is_a_plain_count() -> None:
    """A batch is digits and nothing else."""
    assert (1, 16, 5) == (
        whole_number("1", "--batch"),
        whole_number(" 16 ", "--batch"),
        whole_number("5", "--mtp", least=0, most=5),
    )


@pytest.mark.parametrize("text", ["0", "-1", "1.5", "16k", "", "1000000001", "9" * 4000])
def test_a_count_out_of_bounds_is_refused(text: str) -> None:
    """The error names the option, what it found and the bounds."""
    with pytest.raises(
        InputError, match="^--batch: found '.*', allowed whole numbers from 1 to 1,000,000,000$"
    ) as caught:
        whole_number(text, "--batch")
    assert "for example --batch 16" == caught.value.fix


@pytest.mark.parametrize(
    ("count", "shown"),
    [
        (0, "0 B"),
        (1023, "1,023 B"),
        (1024, "1.00 KiB"),
        (1_048_575, "1.00 MiB"),
        (2**30, "1.00 GiB"),
        (-(2**20), "-1.00 MiB"),
        (42_949_672_960, "40.00 GiB"),
        (343_597_383_680, "320.00 GiB"),
        (2**40 - 1, "1.00 TiB"),
        (5000 * 2**40, "5,000.00 TiB"),
    ],
)
def test_bytes_print_in_the_unit_that_fits(count: int, shown: str) -> None:
    """The unit is chosen after rounding, so no 1,024.00 of anything is printed below TiB."""
    assert shown == iec(count)


@pytest.mark.parametrize(
    ("unit", "shown"),
    [
        ("GiB", "40.00"),
        ("GB", "42.95"),
        ("MiB", "40,960.00"),
        ("MB", "42,949.67"),
        ("KiB", "41,943,040.00"),
        ("bytes", "42,949,672,960"),
    ],
)
def test_a_column_prints_in_its_headers_unit(unit: str, shown: str) -> None:
    """A column's unit stands in its header, bytes stay whole."""
    assert shown == in_unit(42_949_672_960, unit)


@pytest.mark.parametrize(
    ("largest", "unit", "places"),
    [
        (42_949_672_960, "GiB", 2),
        (2**30, "GiB", 2),
        (24_903_680, "GiB", 4),
        (1, "GiB", 9),
        (0, "GiB", 2),
        (5, "bytes", 2),
    ],
)
def test_a_small_column_gets_more_decimals(largest: int, unit: str, places: int) -> None:
    """Three digits of its largest figure, at most nine decimals."""
    assert places == places_for(largest, unit)


@given(st.integers(1, 10**12))
def test_tokens_read_back_what_is_printed(count: int) -> None:
    """Parsing a printed count is the identity."""
    assert count == tokens(str(count))


@given(st.integers(0, 10**18))
def test_bytes_read_back_what_is_printed(count: int) -> None:
    """Parsing printed bytes is the identity."""
    assert count == byte_count(in_unit(count, "bytes").replace(",", ""))


@given(st.integers(0, 10**6), st.integers(1, 1000))
def test_rounding_up_covers_and_no_more(amount: int, by: int) -> None:
    """The rounded quotient covers the amount, one less does not."""
    assert (ceil_div(amount, by) - 1) * by < amount <= ceil_div(amount, by) * by
