"""YAML from strangers, read with bounds: no tags, no anchors, no aliases, no deep nesting.

The parser's events are folded into plain values one by one, so a hostile file is refused at the
event that oversteps, before anything is built from it. Scalars follow YAML 1.2's core rules:
`yes`, `12:30` and `0o17` stay text.
"""

from __future__ import annotations

import re
from math import isfinite
from typing import Any

import yaml
from yaml.events import (
    AliasEvent,
    DocumentStartEvent,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
)

from kvplan.errors import InputError, quoted

MOST_BYTES = 2**20
MOST_NODES = 50_000
DEEPEST = 24
LONGEST_INTEGER = 40

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_INTEGER = re.compile(r"[-+]?[0-9][0-9_]*")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_NUMERIC_START = frozenset("+-.0123456789")
_WORDS: dict[str, Any] = {
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
    **dict.fromkeys(("null", "Null", "NULL", "~", ""), None),
}


def load_yaml(text: str, source: str) -> Any:
    """The single document in `text` as dicts, lists, strings, numbers, booleans and None.

    source: what errors call the text, usually its path.

    Raises: InputError when the text is not one plain YAML document within the bounds.
    """
    if len(text) > MOST_BYTES:
        raise InputError(f"{source}: larger than {MOST_BYTES:,} characters", "split the file")
    if "%TAG" in text:  # each is compared with all before it: a megabyte of them takes seconds
        raise InputError(f"{source}: holds the YAML directive %TAG", "write plain values")
    try:
        return _fold(text, source)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f" line {mark.line + 1}, column {mark.column + 1}:" if mark else ""
        problem = getattr(error, "problem", None) or "unreadable"
        raise InputError(f"{source}:{where} not YAML: {quoted(problem)}", "mend the syntax at that place") from None
    except UnicodeEncodeError:
        raise InputError(f"{source}: not Unicode text", "save the file as UTF-8") from None
    except (RecursionError, MemoryError):
        raise InputError(f"{source}: nested too deeply", f"at most {DEEPEST} levels are read") from None


def _fold(text: str, source: str) -> Any:
    """The document's value, built event by event."""
    loader = _LOADER(text)
    stack: list[_Place] = []
    root: list[Any] = []
    nodes = 0
    try:
        while loader.check_event():
            event = loader.get_event()
            kind = type(event)
            if kind is ScalarEvent or kind is MappingStartEvent or kind is SequenceStartEvent or kind is AliasEvent:
                nodes += 1
                if (
                    event.anchor is not None
                    or nodes > MOST_NODES
                    or len(stack) >= DEEPEST
                    or getattr(event, "tag", None) is not None
                ):
                    raise _refusal(event, nodes, source)
                value = _scalar(event, source) if kind is ScalarEvent else {} if kind is MappingStartEvent else []
                if stack:
                    _put(value, stack[-1], event, source)
                else:
                    root.append(value)
                if kind is not ScalarEvent:
                    stack.append(_Place(value))
            elif kind is SequenceEndEvent or kind is MappingEndEvent:
                stack.pop()
            elif kind is DocumentStartEvent and root:
                raise InputError(f"{source}: holds more than one document", "keep one document per file")
    finally:
        loader.dispose()
    return root[0] if root else None


class _Place:
    """A container being filled, and the key that waits for its value."""

    __slots__ = ("container", "is_list", "key", "waiting")

    def __init__(self, container: Any) -> None:
        self.container = container
        self.is_list = type(container) is list
        self.key: Any = None
        self.waiting = False


def _put(value: Any, place: _Place, event: Any, source: str) -> None:
    """Put `value` where the document has it: as an item, a key or a key's value."""
    if place.is_list:
        place.container.append(value)
    elif place.waiting:
        place.container[place.key] = value
        place.waiting = False
    else:
        line = f"{source}: line {event.start_mark.line + 1}:"
        if not isinstance(value, str | int | float | bool):
            raise InputError(f"{line} found a key that is not plain text", "keys are words")
        if value in place.container:
            raise InputError(f"{line} the key {quoted(value)} stands twice", "keep one of them")
        place.key, place.waiting = value, True


def _refusal(event: Any, nodes: int, source: str) -> InputError:
    """Why the document stops here: whatever a plain spec never holds."""
    line = f"{source}: line {event.start_mark.line + 1}:"
    if event.anchor is not None:
        return InputError(f"{line} holds a YAML anchor or alias", "write the values out")
    if getattr(event, "tag", None) is not None:
        return InputError(f"{line} holds the YAML tag {quoted(event.tag)}", "write plain values")
    if nodes > MOST_NODES:
        return InputError(f"{line} more than {MOST_NODES:,} values", "split the file")
    return InputError(f"{line} nested deeper than {DEEPEST} levels", "flatten the file")


def _scalar(event: Any, source: str) -> Any:
    text: str = event.value
    if not event.implicit[0]:
        return text
    if text in _WORDS:
        return _WORDS[text]
    if text[0] not in _NUMERIC_START:
        return text
    if _INTEGER.fullmatch(text):
        if len(text) > LONGEST_INTEGER:
            line = f"{source}: line {event.start_mark.line + 1}:"
            raise InputError(f"{line} found an integer of {len(text):,} digits", "no field takes such a number")
        return int(text.replace("_", ""))
    if _FLOAT.fullmatch(text) and len(text) <= LONGEST_INTEGER and isfinite(float(text)):
        return float(text)
    return text
