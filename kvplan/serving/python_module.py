"""`python -m MODULE …`: which module an interpreter starts, and the arguments behind it."""

from __future__ import annotations

import re
from collections.abc import Container

_INTERPRETER = re.compile(r"(python|pypy)[0-9.]*")
TAKES_VALUE = frozenset({"-X", "-W", "--check-hash-based-pycs"})


def module_arguments(words: tuple[str, ...], modules: Container[str]) -> tuple[str, ...] | None:
    """What stands behind `python -m` one of `modules`; None where another program or module starts."""
    if not _INTERPRETER.fullmatch(words[0]):
        return None
    at = 1
    while at < len(words):
        word = words[at]
        at += 1
        if word.endswith("m") and re.fullmatch(r"-[bBdEiIOqsSuvx]*m", word):
            return words[at + 1 :] if at < len(words) and words[at] in modules else None
        if not word.startswith("-"):
            return None
        at += word in TAKES_VALUE
    return None
