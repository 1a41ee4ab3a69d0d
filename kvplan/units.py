"""Tokens and bytes as people type and read them; inside, both are whole integers.

A lower-case suffix counts in thousands, an upper-case or `i` suffix in powers of 1024,
as in `vllm serve`. Bytes know IEC and SI units and nothing ambiguous.
"""

from __future__ import annotations

import re
from fractions import Fraction

from kvplan.errors import InputError, quoted

MOST_TOKENS = 10**12
MOST_BYTES = 10**18
_DIGITS = r"(\d{1,30}(?:\.\d{1,12})?)"
_TOKENS = re.compile(_DIGITS + r"(k|m|g|K|M|G|ki|mi|gi|Ki|Mi|Gi)?", re.ASCII)
_BYTES = re.compile(_DIGITS + r" ?(b|kb|mb|gb|tb|kib|mib|gib|tib)?", re.IGNORECASE | re.ASCII)
_POWER = {"k": 1, "m": 2, "g": 3, "t": 4}
BYTE_UNITS = {"bytes": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "KB": 10**3, "MB": 10**6, "GB": 10**9}


def tokens(text: str, what: str = "tokens") -> int:
    """A whole number of tokens.

    >>> tokens("128k"), tokens("128K"), tokens("8Ki"), tokens("1.5k"), tokens("8192")
    (128000, 131072, 8192, 1500, 8192)

    Raises: InputError for anything else, naming `what`.
    """
    match = _TOKENS.fullmatch(text.strip())
    if match is None:
        raise InputError(
            f"{what}: found {quoted(text)}, allowed a whole number such as 8192, 8k (8,000) or 8K (8,192)",
            "lower-case k and m count in thousands, upper-case K and M in powers of 1024",
        )
    digits, suffix = match.groups()
    scale = 1
    if suffix:
        base = 1000 if suffix in "kmg" else 1024
        scale = base ** _POWER[suffix[0].lower()]
    value = Fraction(digits) * scale
    if value.denominator != 1 or not 1 <= value <= MOST_TOKENS:
        raise InputError(
            f"{what}: found {quoted(text)}, allowed whole numbers from 1 to {MOST_TOKENS:,}",
            f"for example {what} 8192, 8k or 128K",
        )
    return int(value)


def byte_count(text: str, what: str = "bytes") -> int:
    """A whole number of bytes; a fraction of a byte is dropped.

    >>> byte_count("40GiB"), byte_count("42.9GB"), byte_count("42949672960")
    (42949672960, 42900000000, 42949672960)

    Raises: InputError for anything else, `40G` included, since nobody can tell which G it is.
    """
    match = _BYTES.fullmatch(text.strip())
    if match is None:
        raise InputError(
            f"{what}: found {quoted(text)}, allowed bytes such as 40GiB, 42.9GB or 42949672960",
            "write GiB for 2^30 bytes or GB for 10^9 bytes",
        )
    digits, unit = match.groups()
    unit = (unit or "b").lower()
    base = 1024 if "i" in unit else 1000
    value = Fraction(digits) * (base ** _POWER[unit[0]] if unit != "b" else 1)
    if not value <= MOST_BYTES:
        raise InputError(f"{what}: found {quoted(text)}, allowed at most {MOST_BYTES:,} bytes", "write fewer bytes")
    return int(value)


def whole_number(text: str, what: str, least: int = 1, most: int = 10**9) -> int:
    """A plain count such as a batch or a number of GPUs.

    >>> whole_number("16", "--batch")
    16

    Raises: InputError outside `least` to `most`.
    """
    if not re.fullmatch(r"[0-9]{1,18}", text.strip()) or not least <= int(text) <= most:
        raise InputError(
            f"{what}: found {quoted(text)}, allowed whole numbers from {least:,} to {most:,}",
            f"for example {what} 16",
        )
    return int(text)


def iec(count: int) -> str:
    """Bytes for reading, in the IEC unit that fits, chosen after rounding.

    >>> iec(42949672960), iec(1023), iec(1048575)
    ('40.00 GiB', '1,023 B', '1.00 MiB')
    """
    if abs(count) < 1024:
        return f"{count:,} B"
    value = float(count)
    for unit in ("KiB", "MiB", "GiB"):
        value /= 1024
        if abs(round(value, 2)) < 1024:
            return f"{value:,.2f} {unit}"
    return f"{value / 1024:,.2f} TiB"


def in_unit(count: int, unit: str, places: int = 2) -> str:
    """`count` bytes as a bare number of `unit`, for a column whose header names the unit.

    >>> in_unit(42949672960, "GiB"), in_unit(42949672960, "bytes"), in_unit(24903680, "GiB", places=4)
    ('40.00', '42,949,672,960', '0.0232')
    """
    if unit == "bytes":
        return f"{count:,}"
    return f"{count / BYTE_UNITS[unit]:,.{places}f}"


def places_for(largest: int, unit: str) -> int:
    """Decimals that leave the largest figure of a column three digits: 2, or more below one unit.

    >>> places_for(42949672960, "GiB"), places_for(24903680, "GiB"), places_for(0, "GiB")
    (2, 4, 2)
    """
    share, places = largest / BYTE_UNITS[unit], 2
    while 0 < share < 1 and places < 9:
        share, places = share * 10, places + 1
    return places


def ceil_div(amount: int, by: int) -> int:
    """`amount / by` rounded up.

    >>> ceil_div(7, 2), ceil_div(8, 2)
    (4, 4)
    """
    return -(-amount // by)
