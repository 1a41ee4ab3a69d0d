"""The fields of one config: what was published, over the defaults of its class; every read is remembered."""

from __future__ import annotations

from typing import Any

from kvplan.errors import InputError, NotCountableError, quoted

MOST = 10**12


class Fields:
    """Typed reads of a config's fields under any of their spellings.

    values: the published config. defaults: what the library's class assumes where a field is absent.
    source: what errors call the file. read: (field, value) pairs in the order they were first read.
    heeded: the fields its class takes any notice of, None where the class is not known; others are decoys.
    """

    def __init__(
        self, values: dict[str, Any], defaults: dict[str, Any], source: str, heeded: frozenset[str] | None = None
    ) -> None:
        self.values = values if heeded is None else {k: v for k, v in values.items() if k in heeded}
        self.defaults = defaults
        self.heeded = heeded
        self.source = source
        self.read: dict[str, Any] = {}

    def find(self, *names: str) -> Any:
        """The first of `names` that the config gives, else the first its class has a default for; or None.

        A null that the config spells out stands against the class's default.
        """
        for name in names:
            if self.values.get(name) is not None:
                self.read.setdefault(name, self.values[name])
                return self.values[name]
        for name in names:
            if self.defaults.get(name) is not None and name not in self.values:
                self.read.setdefault(name, self.defaults[name])
                return self.defaults[name]
        return None

    def number(self, *names: str) -> int | None:
        """A whole number, or None where no spelling of it is given.

        Raises: InputError for anything else.
        """
        value = self.find(*names)
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if value is not None and (type(value) is not int or not 0 <= value <= MOST):
            raise InputError(
                f"{self.source}: {names[0]}: found {quoted(value)}, allowed a whole number", "mend the config"
            )
        return value

    def need(self, *names: str) -> int:
        """A whole number that the cache cannot be told without.

        Raises: NotCountableError naming the first spelling when none is given.
        """
        value = self.number(*names)
        if value == 0:
            raise InputError(f"{self.source}: {names[0]}: found 0, allowed whole numbers from 1", "mend the config")
        if value is None:
            raise NotCountableError(
                f"{self.source}: {names[0]}: missing, and the cache cannot be told without it",
                "write a spec by hand: docs/spec.md",
            )
        return value

    def flag(self, name: str, otherwise: bool = False) -> bool:
        """A truth value, `otherwise` where it is absent."""
        value = self.find(name)
        return otherwise if value is None else bool(value)

    def words(self, *names: str) -> list[str] | None:
        """A list of words, or None.

        Raises: InputError for a list of anything else.
        """
        value = self.find(*names)
        if value is None:
            return None
        if not isinstance(value, list) or len(value) > 10_000 or not all(isinstance(word, str) for word in value):
            raise InputError(
                f"{self.source}: {names[0]}: found {quoted(value)}, allowed a list of words", "mend the config"
            )
        return value

    def numbers(self, *names: str) -> list[int] | None:
        """A list of whole numbers (truth values count as 0 and 1), or None.

        Raises: InputError for a list of anything else.
        """
        value = self.find(*names)
        if value is None:
            return None
        if not isinstance(value, list) or len(value) > 10_000 or not all(isinstance(n, int) for n in value):
            raise InputError(
                f"{self.source}: {names[0]}: found {quoted(value)}, allowed a list of numbers", "mend the config"
            )
        return [int(n) for n in value]

    def inner(self, name: str) -> Fields:
        """The fields of a nested mapping; its reads are remembered under dotted names."""
        value = self.find(name)
        return Fields(value if isinstance(value, dict) else {}, {}, f"{self.source}: {name}")

    def refuse(self, name: str, found: Any, why: str = "which kvplan does not know how to count") -> NotCountableError:
        """The refusal of a field that changes the cache and is not understood."""
        return NotCountableError(
            f"{self.source}: {name}: found {quoted(found)}, {why}", "write a spec by hand: docs/spec.md"
        )
