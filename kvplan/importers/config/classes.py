"""Class defaults and layer rules by model type, drawn from the library itself by `tests/importers/draw_classes.py`.

The file holds one model type a line, and a config needs one or two of them: only those are parsed.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

Class = dict[str, Any]
TABLE = Path(__file__).parent / "classes.json"


class Classes(Mapping[str, Class]):
    """Model type -> what its class assumes, heeds and lays out.

    >>> known_classes()["gemma3_text"]["layers"]["period"].count("sliding_attention")
    5
    """

    def __init__(self, text: str) -> None:
        lines = (line.rstrip(",").partition(": ") for line in text.splitlines()[1:-1])
        self._lines = {name[1:-1]: entry for name, _, entry in lines}
        self._parsed: dict[str, Class] = {}

    def __getitem__(self, name: str) -> Class:
        if name not in self._parsed:
            self._parsed[name] = json.loads(self._lines[name])
        return self._parsed[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._lines)

    def __len__(self) -> int:
        return len(self._lines)


@cache
def known_classes() -> Classes:
    """The whole table."""
    return Classes(TABLE.read_text(encoding="utf-8"))
