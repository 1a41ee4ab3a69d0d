"""YAML from strangers, read with bounds: no tags, no deep nesting, and no anchors except where others write them.

`load_yaml` reads what people write for kvplan. `load_documents` reads what they wrote for other programs: several
documents, and anchors and aliases, each alias counted with everything it stands for. The parser's events are
folded into plain values one by one, so a hostile file is refused at the event that oversteps, before anything is
built from it. Scalars follow YAML 1.2's core rules: `yes`, `12:30` and `0o17` stay text.
"""

from __future__ import annotations

import re
from collections.abc import Callable
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
    return _guarded(text, source, _fold)


def load_documents(text: str, source: str) -> list[Any]:
    """Every document in `text`, anchors and aliases resolved; an alias counts as all that it stands for.

    Values that an alias repeats are one object; nobody may change them.

    Raises: InputError when the text is not plain YAML within the bounds.
    """
    documents: list[Any] = _guarded(text, source, _fold_all)
    return documents


def _guarded(text: str, source: str, fold: Callable[[str, str], Any]) -> Any:
    """What `fold` makes of the text, or what is wrong with it in two lines."""
    if len(text) > MOST_BYTES:
        raise InputError(f"{source}: larger than {MOST_BYTES:,} characters", "split the file")
    if "%TAG" in text:  # each is compared with all before it: a megabyte of them takes seconds
        raise InputError(f"{source}: holds the YAML directive %TAG", "write plain values")
    try:
        return fold(text, source)
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


def _fold_all(text: str, source: str) -> list[Any]:
    """The documents' values, built event by event; anchors are forgotten at the end of each document."""
    loader = _LOADER(text)
    stack: list[_Place] = []
    documents: list[Any] = []
    anchors: dict[str, tuple[Any, int]] = {}
    nodes = 0
    try:
        while loader.check_event():
            event = loader.get_event()
            kind = type(event)
            if kind is AliasEvent:
                if event.anchor not in anchors:
                    line = f"{source}: line {event.start_mark.line + 1}:"
                    raise InputError(f"{line} the alias {quoted(event.anchor)} stands for nothing", "define it before")
                value, held = anchors[event.anchor]
                nodes += held
                if nodes > MOST_NODES:
                    raise _refusal(event, nodes, source, anchored=True)
                _place_value(value, stack, documents, event, source)
            elif kind is ScalarEvent or kind is MappingStartEvent or kind is SequenceStartEvent:
                nodes += 1
                if nodes > MOST_NODES or len(stack) >= DEEPEST or event.tag not in (None, STRING_TAG):
                    raise _refusal(event, nodes, source, anchored=True)
                value = _scalar(event, source) if kind is ScalarEvent else {} if kind is MappingStartEvent else []
                _place_value(value, stack, documents, event, source)
                if kind is not ScalarEvent:
                    stack.append(_Place(value, event.anchor, nodes))
                elif event.anchor is not None:
                    anchors[event.anchor] = value, 1
            elif kind is SequenceEndEvent or kind is MappingEndEvent:
                place = stack.pop()
                if place.anchor is not None:
                    anchors[place.anchor] = place.container, nodes - place.before + 1
            elif kind is DocumentStartEvent:
                anchors.clear()
    finally:
        loader.dispose()
    return documents


def _place_value(value: Any, stack: list[_Place], documents: list[Any], event: Any, source: str) -> None:
    if stack:
        _put(value, stack[-1], event, source)
    else:
        documents.append(value)


STRING_TAG = "tag:yaml.org,2002:str"


class _Place:
    """A container being filled, and the key that waits for its value.

    anchor: what an alias calls it. before: values read when it began, itself included.
    """

    __slots__ = ("anchor", "before", "container", "is_list", "key", "waiting")

    def __init__(self, container: Any, anchor: str | None = None, before: int = 0) -> None:
        self.container, self.anchor, self.before = container, anchor, before
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


def _refusal(event: Any, nodes: int, source: str, *, anchored: bool = False) -> InputError:
    """Why the document stops here: whatever a plain spec never holds."""
    line = f"{source}: line {event.start_mark.line + 1}:"
    if event.anchor is not None and not anchored:
        return InputError(f"{line} holds a YAML anchor or alias", "write the values out")
    if getattr(event, "tag", None) is not None:
        return InputError(f"{line} holds the YAML tag {quoted(event.tag)}", "write plain values")
    if nodes > MOST_NODES:
        return InputError(f"{line} more than {MOST_NODES:,} values", "split the file")
    return InputError(f"{line} nested deeper than {DEEPEST} levels", "flatten the file")


def _scalar(event: Any, source: str) -> Any:
    text: str = event.value
    if not event.implicit[0] or event.tag == STRING_TAG:
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
