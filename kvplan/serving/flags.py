"""A command's flags, read as its own parser would: spellings, values, lists, switches, JSON, prefixes.

A table knows every flag of a program and how many words it takes; what it does not know is named,
never dropped.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from kvplan.errors import InputError, quoted
from kvplan.record import Record
from kvplan.serving.shell import names_unknown

Value = str | bool | tuple[str, ...]


class Table(Record):
    """The flags of one program: spelling -> the flag's first spelling, and how each takes its words.

    kinds: value, switch, optional, list or two. prefixes: a unique beginning stands for a flag, as in
    argparse. dashes: underscores in long flags are dashes. equals: `--flag=value` is one word.
    attached: short flags whose value may follow without a blank, `-O3`.
    """

    names: Mapping[str, str]
    kinds: Mapping[str, str]
    prefixes: bool = True
    dashes: bool = False
    equals: bool = True
    attached: tuple[str, ...] = ()

    def named(self, word: str) -> str | None:
        """The first spelling of the flag that `word` is, or None."""
        if self.dashes and word.startswith("--"):
            head, dot, rest = word.partition(".")
            word = head.replace("_", "-") + dot + rest
        if word in self.names:
            return self.names[word]
        if self.prefixes and word.startswith("--") and len(word) > 2:
            found = {name for spelling, name in self.names.items() if spelling.startswith(word)}
            if len(found) == 1:
                return found.pop()
        return None


def table(
    blocks: Mapping[str, Iterable[str]],
    *,
    prefixes: bool = True,
    dashes: bool = False,
    equals: bool = True,
    attached: tuple[str, ...] = (),
) -> Table:
    """A table from texts of flags by kind; a flag that stands twice keeps its first kind.

    >>> table({"value": ["--model|-m --port"], "switch": ["--quiet"]}).named("-m")
    '--model'
    """
    names: dict[str, str] = {}
    kinds: dict[str, str] = {}
    for kind, texts in blocks.items():
        for word in " ".join(texts).split():
            spellings = word.split("|")
            for spelling in spellings:
                names.setdefault(spelling, spellings[0])
            kinds.setdefault(spellings[0], kind)
    return Table(names, kinds, prefixes, dashes, equals, attached)


class Arguments(Record):
    """What stands behind a program: flags by first spelling with the value typed last, and the rest.

    typed: each flag as it was typed, by first spelling. nested: dotted flags, `--a.b.c 1`, by flag.
    """

    values: Mapping[str, Value]
    typed: Mapping[str, str]
    nested: Mapping[str, Mapping[str, Any]]
    positional: tuple[str, ...]
    unknown: tuple[str, ...]

    def text(self, flag: str) -> str | None:
        """The flag's value as text; None where it is not given.

        Raises: InputError where the value is a variable that nobody has set.
        """
        value = self.values.get(flag)
        if not isinstance(value, str):
            return None
        if names_unknown(value):
            raise InputError(
                f"{flag}: {quoted(value)} is not known here, and the answer depends on it",
                "write the value there, or give it to `kvplan check` with --env NAME=VALUE",
            )
        return value

    def switch(self, flag: str) -> bool | None:
        """Whether a switch is on; None where it is not given."""
        value = self.values.get(flag)
        return value if isinstance(value, bool) else None

    def document(self, flag: str) -> dict[str, Any]:
        """The JSON object of a flag, its dotted parts included; empty where it is not given.

        Raises: InputError for text that is no JSON object.
        """
        text = self.text(flag)
        found: Any = {}
        if text is not None:
            found = json_object(text, flag)
        return {**found, **self.nested.get(flag, {})}


def json_object(text: str, flag: str) -> dict[str, Any]:
    """The JSON object in `text`, bounded in size and depth.

    Raises: InputError for anything else.
    """
    depth = most = 0
    for c in text:
        depth += (c in "{[") - (c in "}]")
        most = max(most, depth)
    try:
        found = json.loads(text) if len(text) <= MOST_JSON and most <= DEEPEST_JSON else None
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise InputError(f"{flag}: found {quoted(text)}, allowed a JSON object", 'for example {"method": "mtp"}')
    return found


MOST_JSON = 20_000
DEEPEST_JSON = 12
_NUMBER = re.compile(r"-[0-9.]")


def read_flags(words: Iterable[str], known: Table) -> Arguments:
    """The flags and the rest in `words`."""
    reader = _Reader(list(words), known)
    while reader.at < len(reader.words):
        reader.take()
    return Arguments(
        reader.values,
        reader.typed,
        reader.nested,
        tuple(reader.positional),
        tuple(dict.fromkeys(reader.unknown)),
    )


class _Reader:
    """One pass over the words, as argparse and its like make it."""

    def __init__(self, words: list[str], known: Table) -> None:
        self.words, self.known, self.at = words, known, 0
        self.values: dict[str, Value] = {}
        self.typed: dict[str, str] = {}
        self.nested: dict[str, dict[str, Any]] = {}
        self.positional: list[str] = []
        self.unknown: list[str] = []

    def take(self) -> None:
        """Read the next word, and what belongs to it."""
        word, known = self.words[self.at], self.known
        self.at += 1
        if word == "--":
            self.positional += self.words[self.at :]
            self.at = len(self.words)
            return
        if not _is_flag(word):
            self.positional.append(word)
            return
        spelling, equals, given = word.partition("=") if known.equals else (word, "", "")
        name = known.named(spelling)
        if name is not None:
            self.typed[name] = spelling
            self.values[name] = self._given(given, name) if equals else self._following(spelling, name)
        elif not self._attached(word) and not self._dotted(spelling, given if equals else None):
            self.unknown.append(spelling)
            if not equals and self.at < len(self.words) and not _is_flag(self.words[self.at]):
                self.at += 1  # what follows an unknown flag is most likely its value

    def _given(self, text: str, name: str) -> Value:
        """The value behind an equals sign."""
        return text.lower() not in ("false", "0", "no") if self.known.kinds[name] == "switch" else text

    def _following(self, spelling: str, name: str) -> Value:
        """The value in the words behind a flag."""
        kind, rest = self.known.kinds[name], self.words
        if kind == "switch":
            return _is_on(spelling, name, self.known)
        if kind == "list":
            start = self.at
            while self.at < len(rest) and not _is_flag(rest[self.at]):
                self.at += 1
            return tuple(rest[start : self.at])
        if kind == "optional" and (self.at == len(rest) or _is_flag(rest[self.at])):
            return True
        if self.at + (kind == "two") >= len(rest):
            raise InputError(f"{spelling}: its value is missing", f"for example {spelling} VALUE, or leave it out")
        self.at += 2 if kind == "two" else 1
        return rest[self.at - 1]

    def _attached(self, word: str) -> bool:
        """`-O3`: a short flag with its value in one word."""
        short = next((flag for flag in self.known.attached if word.startswith(flag)), None)
        if short is None:
            return False
        name = self.known.names[short]
        self.values[name], self.typed[name] = word[len(short) :].lstrip("="), short
        return True

    def _dotted(self, spelling: str, given: str | None) -> bool:
        """`--config.key value`: a part of a flag that takes JSON."""
        head, dot, path = spelling.partition(".")
        outer = self.known.named(head) if dot else None
        if outer is None:
            return False
        if given is None:
            given = self.words[self.at] if self.at < len(self.words) else ""
            self.at += 1
        _nest(self.nested.setdefault(outer, {}), path.rstrip("+"), given)
        self.typed[outer] = head
        return True


def _is_flag(word: str) -> bool:
    return word.startswith("-") and len(word) > 1 and not _NUMBER.match(word)


def _is_on(spelling: str, name: str, known: Table) -> bool:
    """Whether this spelling of a switch turns it on: the first one does, and those that do not negate it."""
    full = spelling.replace("_", "-") if known.dashes else spelling
    if full == name or full not in known.names:
        return True
    if full in SHORT_OPPOSITES:
        return False
    plain = full.removeprefix("--no-").removeprefix("-no-")
    off = plain != full
    stem = f"--{plain.lstrip('-')}"
    for one, other in (("--enable-", "--disable-"), ("--disable-", "--enable-")):
        if name.startswith(one) and stem == other + name.removeprefix(one):
            off = not off
    return not off


SHORT_OPPOSITES = frozenset({"-nkvo", "-nocb", "-nr", "-ndio"})


def _nest(into: dict[str, Any], path: str, text: str) -> None:
    """Put a dotted flag's value, read as JSON where it is, at its place."""
    keys = path.split(".")[:DEEPEST_JSON]
    for key in keys[:-1]:
        deeper = into.setdefault(key, {})
        if not isinstance(deeper, dict):
            return
        into = deeper
    try:
        into[keys[-1]] = json.loads(text) if len(text) <= MOST_JSON and text.count("[") < DEEPEST_JSON else text
    except (ValueError, RecursionError):
        into[keys[-1]] = text
