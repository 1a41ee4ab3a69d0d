"""A start-up log as lines, the figures it prints, and what they say when they are read back.

A log is a stranger's text: bytes, lines and their length are bounded, escapes are taken out, and a
pattern is tried only where a fixed word stands, with every repetition in it bounded.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from fractions import Fraction
from itertools import accumulate
from typing import Any

from kvplan.record import Record

MOST_BYTES = 16 * 2**20
MOST_LINES = 1_000_000
LONGEST_LINE = 65_536
MOST_FOUND = 400
MOST_FIGURES = 64

UNITS = {"GiB": 2**30, "MiB": 2**20, "KiB": 2**10, "B": 1}
"""Bytes of a unit as engines mean it."""


class Printed(Record):
    """One figure as a log printed it, and the range of true values that print so.

    name: what it is, in the engine's words. text: as printed, with its unit. unit: of `value`.
    low, high: in whole units (bytes, tokens, blocks), both inside the range.
    figure: the engine's own figure that predicts it, as `key`, or `key.name.key` within a list; "" where none does.
    line: of the log, from 1.
    """

    name: str
    text: str
    unit: str
    places: int
    low: Fraction
    high: Fraction
    figure: str
    line: int

    @property
    def value(self) -> Fraction:
        """The figure as printed, in bytes or as a plain number."""
        return (self.low + self.high) / 2

    def holds(self, low: Fraction, high: Fraction) -> bool:
        """True when some true value between `low` and `high` prints so."""
        return self.low <= high and low <= self.high


class Ask(Record):
    """What a log says was asked of the engine, for a question of the same kind; None where it does not say.

    context: tokens of the longest sequence. options: the engine's own, as `key=value`.
    budget: the room for the cache on the poorest rank. spare_block: the engine may count one block more in it.
    """

    context: int | None = None
    batch: int = 1
    k_dtype: str | None = None
    v_dtype: str | None = None
    tp: int = 1
    pp: int = 1
    dp: int = 1
    dcp: int = 1
    mtp: int = 0
    options: tuple[str, ...] = ()
    budget: Printed | None = None
    spare_block: bool = False


class Remedy(Record):
    """A change that may help, as the user would type it, and what it changes in the `Ask`."""

    option: str
    changes: Mapping[str, Any]


class Reading(Record):
    """What one engine's reader found in a log.

    models: what may name the model, the surest first. metadata: facts of the model file itself, as a GGUF has them.
    settings: the flags that matter, as the log writes them. notes: what the reader must know beside the figures.
    measure: the engine's figure that the user wants more of; `less` where it is one to make smaller.
    remedies: changes to try. unsaid: options, as `key=value`, that change figures and that logs leave out.
    """

    engine: str
    version: str | None
    models: tuple[str, ...]
    settings: Mapping[str, str]
    ask: Ask
    printed: tuple[Printed, ...]
    metadata: Mapping[str, Any] = {}
    notes: tuple[str, ...] = ()
    measure: str = ""
    less: bool = False
    remedies: tuple[Remedy, ...] = ()
    unsaid: tuple[str, ...] = ()


def with_option(options: tuple[str, ...], pair: str) -> tuple[str, ...]:
    """`options` with that of `pair` set to its value.

    >>> with_option(("a=1", "b=2"), "a=3")
    ('b=2', 'a=3')
    """
    key = pair.partition("=")[0]
    return (*(option for option in options if option.partition("=")[0] != key), pair)


class Log:
    """A log's lines, cleaned and bounded, and where fixed words stand in them."""

    def __init__(self, text: str) -> None:
        self.lines = tuple(_cleaned(text))
        self.text = "\n".join(self.lines)
        self.starts = (0, *accumulate(len(line) + 1 for line in self.lines))

    def __contains__(self, word: str) -> bool:
        return word in self.text

    def found(self, word: str, pattern: str) -> Iterator[tuple[int, re.Match[str]]]:
        """(line number, match) of each line in which `pattern` follows `word` at once; at most `MOST_FOUND`."""
        compiled = re.compile(pattern)
        place, count = self.text.find(word), 0
        while place >= 0 and count < MOST_FOUND:
            number = bisect_right(self.starts, place)
            end = self.starts[number] - 1
            match = compiled.match(self.text, place + len(word), end)
            if match:
                yield number, match
                count += 1
            place = self.text.find(word, end if match else place + 1)

    def first(self, word: str, pattern: str) -> re.Match[str] | None:
        """The first match of `pattern` right after `word`."""
        return next((match for _, match in self.found(word, pattern)), None)

    def holding(self, word: str) -> Iterator[tuple[int, str]]:
        """(line number, the line from `word` on) of each line that holds it; at most `MOST_FOUND`."""
        place, count = self.text.find(word), 0
        while place >= 0 and count < MOST_FOUND:
            number = bisect_right(self.starts, place)
            end = self.starts[number] - 1
            yield number, self.text[place:end]
            place, count = self.text.find(word, end), count + 1


_ESCAPES = re.compile(r"\x1b(?:\[[0-9;:?]{0,40}[ -/]{0,4}[@-~]|\][^\x07\x1b]{0,400}(?:\x07|\x1b\\)?|[@-Z\\-_])")
_PLAIN = bytes(code if 32 <= code < 127 else 32 for code in range(256))
"""What stands for each byte of a line that no terminal should see as it is."""

_BREAKS = re.compile(r"\r\n|[\r\n\x0b\x0c\x1c-\x1e\x85\u2028\u2029]")


def decoded(data: bytes) -> str:
    """A log's bytes as text: UTF-8, or what its byte order mark says; at most `MOST_BYTES` of them."""
    data = data[:MOST_BYTES]
    if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return data.decode("utf-16", "replace")
    return data.decode("utf-8-sig", "replace")


def _cleaned(text: str) -> Iterator[str]:
    """Lines without escapes and control characters, each cut at `LONGEST_LINE`; wrapped JSON lines unwrapped."""
    start = 0
    for _ in range(MOST_LINES):
        if start >= len(text):
            return
        match = _BREAKS.search(text, start)
        end, following = match.span() if match else (len(text), len(text))
        line = text[start : min(end, start + LONGEST_LINE)]
        if line[:1] == "{" and '"log"' in line[:200]:
            line = _unwrapped(line)
        if "\x1b" in line:
            line = _ESCAPES.sub("", line)
        if not line.isprintable():
            line = line.encode("ascii", "replace").translate(_PLAIN).decode()
        yield line
        start = following


def _unwrapped(line: str) -> str:
    """The text within `{"log": "…"}`, as container runtimes write it."""
    import json

    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return line
    text = found.get("log") if isinstance(found, dict) else None
    return text[:LONGEST_LINE] if isinstance(text, str) else line


_VALUE = r"\s{0,4}(?:'([^']{0,400})'|\"([^\"]{0,400})\"|([^\s,;(){}\[\]'\"]{1,400}))"


def setting(text: str, key: str) -> str | None:
    """The value that `key` has in a printed mapping, call or command line; None where it has none.

    >>> setting("ServerArgs(model_path='org/m', tp_size=4)", "tp_size")
    '4'
    >>> setting("{'model': 'org/m', 'max_model_len': 32768}", "max_model_len")
    '32768'
    >>> setting("vllm serve org/m --max-model-len 32k", "--max-model-len")
    '32k'
    """
    mark = "[= ]" if key.startswith("-") else "\\s{0,4}[=:]"
    found = re.search(rf"(?<![\w.-]){re.escape(key)}['\"]?{mark}{_VALUE}", text[:LONGEST_LINE])
    return next(value for value in found.groups() if value is not None) if found else None


def printed_bytes(
    name: str, number: str, unit: str, figure: str, line: int, shown: str = "", least_places: int = 0
) -> Printed:
    """Bytes that a log printed rounded to some decimals of `unit`.

    shown: the unit as the log writes it, where that differs. least_places: decimals it was rounded to
    even where the last ones are zeros and left out.

    >>> printed_bytes("available", "5.5", "GiB", "", 1, least_places=2).text, printed_count("n", "1,024", "tokens", "", 1).value
    ('5.5 GiB', Fraction(1024, 1))
    """
    places = max(least_places, len(number.partition(".")[2]))
    half = Fraction(UNITS[unit], 2 * 10**places)
    value = Fraction(number) * UNITS[unit]
    return Printed(name, f"{number} {shown or unit}", unit, places, value - half, value + half, figure, line)


def printed_count(name: str, number: str, unit: str, figure: str, line: int) -> Printed:
    """A whole number that a log printed, with or without commas."""
    value = Fraction(number.replace(",", ""))
    return Printed(name, f"{number} {unit}".strip(), unit, 0, value, value, figure, line)


def printed_share(name: str, number: str, unit: str, figure: str, line: int) -> Printed:
    """A number that a log printed rounded to some decimals, such as `3.75x`."""
    places = len(number.partition(".")[2])
    half, value = Fraction(1, 2 * 10**places), Fraction(number)
    return Printed(name, f"{number}{unit}", unit, places, value - half, value + half, figure, line)


def written(value: Fraction, like: Printed) -> str:
    """`value` as the log would print it: the unit and decimals of `like`."""
    if like.unit in UNITS:
        shown = like.text.rpartition(" ")[2]
        return f"{float(value / UNITS[like.unit]):,.{like.places}f} {shown}"
    if like.places:
        return f"{float(value):,.{like.places}f}{like.unit}"
    whole = f"{int(value):,}" if value.denominator == 1 else f"{float(value):,.2f}"
    return f"{whole} {like.unit}".strip()
