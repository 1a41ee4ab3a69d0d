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

from kvplan.errors import InputError, quoted

MOST_BYTES = 2**20
MOST_NODES = 50_000
DEEPEST = 24
LONGEST_INTEGER = 40

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_INTEGER = re.compile(r"[-+]?[0-9][0-9_]*")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_WORDS: dict[str, Any] = {"true": True, "false": False, "null": None, "~": None, "": None}


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
    loader = _LOADER(text)
    stack: list[tuple[Any, list[Any]]] = []  # (container, [pending key])
    root: list[Any] = []
    nodes = 0
    try:
        while loader.check_event():
            event = loader.get_event()
            kind = type(event).__name__
            if kind in _STRUCTURE:
                if kind == "DocumentStartEvent" and root:
                    raise InputError(f"{source}: holds more than one document", "keep one document per file")
                continue
            if kind in ("SequenceEndEvent", "MappingEndEvent"):
                stack.pop()
                continue
            nodes += 1
            _refuse(event, kind, nodes, len(stack), source)
            value: Any = (
                {} if kind == "MappingStartEvent" else [] if kind == "SequenceStartEvent" else _scalar(event, source)
            )
            _place(value, stack, root, event, source)
            if kind != "ScalarEvent":
                stack.append((value, []))
    finally:
        loader.dispose()
    return root[0] if root else None


_STRUCTURE = ("StreamStartEvent", "StreamEndEvent", "DocumentStartEvent", "DocumentEndEvent")


def _refuse(event: Any, kind: str, nodes: int, depth: int, source: str) -> None:
    """Stop at whatever a plain spec never holds."""
    line = f"{source}: line {event.start_mark.line + 1}:"
    if kind == "AliasEvent" or event.anchor is not None:
        raise InputError(f"{line} holds a YAML anchor or alias", "write the values out")
    if event.tag is not None:
        raise InputError(f"{line} holds the YAML tag {quoted(event.tag)}", "write plain values")
    if nodes > MOST_NODES:
        raise InputError(f"{line} more than {MOST_NODES:,} values", "split the file")
    if depth >= DEEPEST:
        raise InputError(f"{line} nested deeper than {DEEPEST} levels", "flatten the file")


def _place(value: Any, stack: list[tuple[Any, list[Any]]], root: list[Any], event: Any, source: str) -> None:
    """Put `value` where the document has it: as the root, an item, a key or a key's value."""
    if not stack:
        root.append(value)
        return
    container, pending = stack[-1]
    if isinstance(container, list):
        container.append(value)
    elif pending:
        container[pending.pop()] = value
    else:
        line = f"{source}: line {event.start_mark.line + 1}:"
        if not isinstance(value, str | int | float | bool):
            raise InputError(f"{line} found a key that is not plain text", "keys are words")
        if value in container:
            raise InputError(f"{line} the key {quoted(value)} stands twice", "keep one of them")
        pending.append(value)


def _scalar(event: Any, source: str) -> Any:
    text: str = event.value
    if not event.implicit[0]:
        return text
    lowered = text.lower()
    if lowered in _WORDS and (text.islower() or text.istitle() or text.isupper() or text in ("~", "")):
        return _WORDS[lowered]
    if _INTEGER.fullmatch(text):
        if len(text) > LONGEST_INTEGER:
            line = f"{source}: line {event.start_mark.line + 1}:"
            raise InputError(f"{line} found an integer of {len(text):,} digits", "no field takes such a number")
        return int(text.replace("_", ""))
    if _FLOAT.fullmatch(text) and len(text) <= LONGEST_INTEGER and isfinite(float(text)):
        return float(text)
    return text
