"""Everything that can go wrong, as one small tree; each leaf knows its exit code.

    KvplanError
    ├── InputError         2  the input is wrong: a name, a number, a file
    ├── NotCountableError  3  the model uses something kvplan does not know how to count
    └── MissingError       4  something optional is missing; the fix installs it

An error is two lines: what is wrong and where, then the likeliest fix.
"""

from __future__ import annotations

from collections.abc import Iterable

LONGEST_QUOTE = 120


class KvplanError(Exception):
    """Base of every error kvplan raises on purpose: `what` is wrong, and the likeliest `fix`."""

    exit_code = 2

    def __init__(self, what: str, fix: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.fix = fix


class InputError(KvplanError):
    """The input is wrong: an unknown name, a bad number, an invalid or unreadable file (exit 2)."""

    exit_code = 2


class NotCountableError(KvplanError):
    """The model uses something kvplan does not know how to count; it names the field (exit 3)."""

    exit_code = 3


class MissingError(KvplanError):
    """Something optional is missing; the fix holds the command that installs it (exit 4)."""

    exit_code = 4


def quoted(value: object) -> str:
    r"""A stranger's value, fit for one line of a terminal: printable, bounded, in quotes.

    >>> quoted("a\x1b[31mb")
    "'a\\x1b[31mb'"
    >>> len(quoted("x" * 10_000_000)) < 140
    True
    """
    return f"'{printable(value)}'"


def printable(value: object) -> str:
    """`value` as one bounded line without control, escape or direction-changing characters."""
    if isinstance(value, str):
        text = value
    elif isinstance(value, int) and not isinstance(value, bool) and abs(value) >= 10**40:
        text = f"an integer of about {value.bit_length()} bits"  # printing it would take for ever
    else:
        text = repr(value) if not isinstance(value, (list, dict)) else f"a {type(value).__name__} of {len(value)} items"
    cut = text[:LONGEST_QUOTE]
    cut = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in cut)
    return cut + ("…" if len(text) > LONGEST_QUOTE else "")


def nearest(word: str, known: Iterable[str], count: int = 3, least: float = 0.5) -> list[str]:
    """The `count` known words most like `word`, best first.

    >>> nearest("lama-70b", ["llama-70b", "qwen3-32b", "llama-7b", "gpt-2"])
    ['llama-70b', 'llama-7b']
    """
    from difflib import get_close_matches

    return get_close_matches(word[:LONGEST_QUOTE].lower(), list(known), n=count, cutoff=least)


def did_you_mean(word: str, known: Iterable[str], otherwise: str) -> str:
    """The fix line for an unknown word: its nearest neighbours, or `otherwise`."""
    found = nearest(word, known)
    return f"did you mean {', '.join(found)}?" if found else otherwise
