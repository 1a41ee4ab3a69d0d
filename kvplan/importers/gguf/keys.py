"""A file's own keys, asked for by name: checked, bounded, and remembered as read."""

from __future__ import annotations

from kvplan.errors import InputError, printable, quoted
from kvplan.importers.gguf.container import Skipped, Value

MOST_WIDTH = 2**20


class Keys:
    """The keys of one architecture.

    read: (key, value) of each key that was asked for and found, in order.
    """

    def __init__(self, values: dict[str, Value], architecture: str, shown: str) -> None:
        self.values, self.architecture, self.shown = values, architecture, shown
        self.read: dict[str, str] = {}

    def full(self, name: str) -> str:
        """The whole key: `block_count` of a llama is `llama.block_count`."""
        return f"{self.architecture}.{name}"

    def value(self, name: str) -> Value | None:
        """The value of a key, None where it is absent."""
        key = self.full(name)
        found = self.values.get(key)
        if found is not None and key not in self.read:
            self.read[key] = _text(found)
        return found

    def whole(self, name: str, otherwise: int | None = None, least: int = 0, most: int = MOST_WIDTH) -> int:
        """A whole number; `otherwise` where the key is absent.

        Raises: InputError where it is absent and needed, or out of bounds.
        """
        found = self.value(name)
        if found is None:
            if otherwise is None:
                raise self.wrong(name, "nothing", f"whole numbers from {least:,} to {most:,}")
            return otherwise
        if not isinstance(found, int) or isinstance(found, bool) or not least <= found <= most:
            raise self.wrong(name, found, f"whole numbers from {least:,} to {most:,}")
        return found

    def layered(self, name: str, layers: int, otherwise: int | None = None, most: int = MOST_WIDTH) -> list[int]:
        """A number for each layer, from one for all or a list of them."""
        found = self.value(name)
        if isinstance(found, (tuple, Skipped)):
            listed = self.listed(name, layers, most)
            return [] if listed is None else listed
        return [self.whole(name, otherwise, most=most)] * layers

    def listed(self, name: str, layers: int, most: int = MOST_WIDTH) -> list[int] | None:
        """The list of a key, at least `layers` long; None where it is absent or one number."""
        found = self.value(name)
        if not isinstance(found, (tuple, Skipped)):
            return None
        if isinstance(found, Skipped) or len(found) < layers:
            count = found.items if isinstance(found, Skipped) else len(found)
            raise self.wrong(name, f"a list of {count:,}", f"one value for each of {layers:,} layers")
        if not all(isinstance(item, int) and 0 <= item <= most for item in found):
            raise self.wrong(name, "a list", f"whole numbers from 0 to {most:,}")
        return [int(item) for item in found]

    def wrong(self, name: str, found: object, allowed: str) -> InputError:
        """The refusal of a value."""
        if isinstance(found, Skipped):
            found = f"{found.items:,} items"
        text = found if found == "nothing" else quoted(found if isinstance(found, str) else printable(found))
        return InputError(
            f"{self.shown}: {printable(self.full(name))}: found {text}, allowed {allowed}", "convert the model again"
        )


def _text(value: Value) -> str:
    """A value as one short line: a list in runs, `3 x 0, 1`."""
    if isinstance(value, Skipped):
        return f"{value.items:,} items"
    if not isinstance(value, tuple):
        return printable(value)
    runs: list[list[int | float]] = []
    for item in value:
        if runs and runs[-1][1] == item:
            runs[-1][0] += 1
        else:
            runs.append([1, item])
    return printable(", ".join(f"{count} x {item}" if count > 1 else f"{item}" for count, item in runs[:40]))
