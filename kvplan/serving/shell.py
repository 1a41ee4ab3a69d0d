"""A shell's words without a shell: quotes, escapes, variables and operators of a command line, bounded.

Nothing is executed and nothing is looked up: a variable has the value that the text itself or its
caller gives it; one that nobody set stays as it is written (`names_unknown` finds it).
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from kvplan.errors import InputError
from kvplan.record import Record

MOST_CHARACTERS = 65_536
MOST_WORDS = 4_096
MOST_WRITTEN = 8 * MOST_CHARACTERS
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_BRACED = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]*)(?:(:?[-=+?])((?:[^{}\\]|\\.)*))?\}")
_UNKNOWN = re.compile(r"\$\{[A-Za-z_][^}]*\}|\$[A-Za-z_][A-Za-z0-9_]*|\$\([^)]*\)|`[^`]*`|\{\{[^}]*\}\}")


def names_unknown(text: str) -> tuple[str, ...]:
    """The variables, substitutions and template places that still stand in a word.

    >>> names_unknown("${MODEL}-$(size)"), names_unknown("plain")
    (('${MODEL}', '$(size)'), ())
    """
    return tuple(_UNKNOWN.findall(text)) if "$" in text or "`" in text or "{{" in text else ()


class Line(Record):
    """One simple command: its words after expansion."""

    words: tuple[str, ...]


def commands(text: str, environment: Mapping[str, str], what: str = "--serve") -> list[Line]:
    """The simple commands of a script, in order; operators between them are dropped.

    Raises: InputError for text that is too long, or whose quotes do not close.
    """
    if len(text) > MOST_CHARACTERS:
        raise InputError(f"{what}: {len(text):,} characters, allowed {MOST_CHARACTERS:,}", "give the command alone")
    return _Reader(text, environment, what).lines()


class _Reader:
    """One pass over the text, character by character, as POSIX describes it."""

    def __init__(self, text: str, environment: Mapping[str, str], what: str) -> None:
        self.text, self.what = text.replace("\r\n", "\n"), what
        self.environment = dict(environment)
        self.at = 0
        self.done: list[Line] = []
        self.words: list[str] = []
        self.word: list[str] | None = None
        self.skip = False
        self.written = 0

    def lines(self) -> list[Line]:
        while self.at < len(self.text):
            c = self.text[self.at]
            self.at += 1
            if c == "\\":
                self._escape()
            elif c == "'":
                self._put(self._until("'"))
            elif c == '"':
                self._double()
            elif c in "$`":
                self._expand(c, split=True)
            elif c in " \t\n":
                self._end_word()
                if c == "\n":
                    self._end_line()
            elif c == "#" and self.word is None:
                self.at = max(self.text.find("\n", self.at), 0) or len(self.text)
            elif c in "<>":
                self._redirect()
            elif c in ";&|()":
                self._end_word()
                self._end_line()
            else:
                self._put(c)
        self._end_word()
        self._end_line()
        return self.done

    def _put(self, text: str) -> None:
        self.written += len(text)  # variables in variables double with every line
        if self.written > MOST_WRITTEN:
            raise InputError(f"{self.what}: grows past {MOST_WRITTEN:,} characters", "give the command alone")
        if self.word is None:
            self.word = []
        self.word.append(text)

    def _end_word(self) -> None:
        if self.word is None:
            return
        word, self.word = "".join(self.word), None
        if self.skip:
            self.skip = False
            return
        if len(self.words) >= MOST_WORDS:
            raise InputError(f"{self.what}: more than {MOST_WORDS:,} words", "give the command alone")
        self.words.append(word)

    def _end_line(self) -> None:
        self.skip = False
        words, self.words = self.words, []
        if not words:
            return
        start = 1 if words[0] in ("export", "readonly", "set") else 0
        assigned = [word.partition("=") for word in words[start:]]
        if all(equals and _NAME.fullmatch(name) for name, equals, _ in assigned):
            self.environment |= {name: value for name, _, value in assigned}
        if len(self.done) >= MOST_WORDS:
            raise InputError(f"{self.what}: more than {MOST_WORDS:,} commands", "give the serve command alone")
        self.done.append(Line(tuple(words)))

    def _escape(self) -> None:
        c = self.text[self.at : self.at + 1]
        self.at += 1
        if c == "\n":
            return
        self._put(c or "\\")

    def _until(self, quote: str) -> str:
        end = self.text.find(quote, self.at)
        if end < 0:
            raise self._unclosed(quote)
        found = self.text[self.at : end]
        self.at = end + 1
        return found

    def _unclosed(self, quote: str) -> InputError:
        return InputError(f"{self.what}: a {quote} that does not close", "quote the command whole, as a shell takes it")

    def _double(self) -> None:
        self._put("")
        while True:
            c = self.text[self.at : self.at + 1]
            self.at += 1
            if not c:
                raise self._unclosed('"')
            if c == '"':
                return
            if c == "\\":
                after = self.text[self.at : self.at + 1]
                self.at += 1
                if after != "\n":
                    self._put(after if after and after in '$`"\\' else "\\" + after)
            elif c in "$`":
                self._expand(c, split=False)
            else:
                self._put(c)

    def _redirect(self) -> None:
        """A redirection: its descriptor, its operator and its target are no words of the command."""
        if self.word is not None and "".join(self.word).isdigit():
            self.word = None
        self._end_word()
        while self.text[self.at : self.at + 1] in ("<", ">", "&", "|") and self.at < len(self.text):
            self.at += 1
        self.skip = True

    def _expand(self, c: str, *, split: bool) -> None:
        if c == "`":
            self._put(f"`{self._until('`')}`")
            return
        if self.text.startswith("(", self.at):
            self._put("$" + self._balanced())
            return
        braced = _BRACED.match(self.text, self.at)
        plain = None if braced else _NAME.match(self.text, self.at)
        if braced is None and plain is None:
            self._put("$")
            return
        match = braced or plain
        assert match is not None
        self.at = match.end()
        value = self._value(*braced.groups()) if braced else self.environment.get(match[0])
        if value is None:
            self._put("$" + match[0])
        elif split:
            self._split(value)
        else:
            self._put(value)

    def _value(self, name: str, operator: str | None, word: str | None) -> str | None:
        """The value of `${name}`, `${name:-word}` and their like; None where it is not known."""
        value = self.environment.get(name)
        if operator is None:
            return value
        given = bool(value) if ":" in operator else value is not None
        if operator.endswith("+"):
            return (word or "") if given else ""
        if operator.endswith(("-", "=")) and not given:
            inner = (word or "").strip("\"'")
            return inner if not names_unknown(inner) else None
        return value if given else None

    def _split(self, value: str) -> None:
        """An unquoted variable's value falls into words at its blanks."""
        if len(value) > MOST_CHARACTERS:
            raise InputError(f"{self.what}: a variable of {len(value):,} characters", "give the command alone")
        parts = value.split()
        if value[:1].isspace():
            self._end_word()
        for place, part in enumerate(parts):
            if place:
                self._end_word()
            self._put(part)
        if parts and value[-1:].isspace():
            self._end_word()

    def _balanced(self) -> str:
        """The text of `$(…)` to its closing parenthesis."""
        depth, start = 0, self.at
        while self.at < len(self.text):
            c = self.text[self.at]
            self.at += 1
            depth += (c == "(") - (c == ")")
            if depth == 0:
                return self.text[start : self.at]
        raise self._unclosed("$(")
