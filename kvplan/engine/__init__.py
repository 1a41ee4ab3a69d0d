"""How an allocator reserves a cache: the roster of engines.

An engine sees the whole model at once (its layers in order, each with its tensors) and the
workload, and returns what it would reserve on one rank, with its own figures under its own names.
It knows tensors, roles and growth laws, never attention kinds. A new engine adds its file (or
folder) and one line to `ENGINES`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from fractions import Fraction
from importlib import import_module
from typing import Any, Protocol, cast

from kvplan.account import Account, Device
from kvplan.errors import InputError, did_you_mean, quoted
from kvplan.record import Record
from kvplan.spec import ModelSpec
from kvplan.units import byte_count
from kvplan.workload import Workload

ENGINES = {
    "ideal": "ideal",
    "vllm": "vllm",
    "sglang": "sglang",
    "trtllm": "trtllm",
    "transformers": "transformers",
    "llama.cpp": "llama_cpp",
    "ollama": "ollama",
    "mlx": "mlx",
    "exllamav3": "exllamav3",
}


Options = Mapping[str, int | bool | str | Fraction]
"""An engine's options, checked: whole numbers, switches, words, and shares as fractions."""

Figures = Mapping[str, Any]
"""An engine's own figures under its own names: whole numbers, fractions as float, words, lists of such mappings."""


class Reservation(Record):
    """What an engine takes for a workload, on the fullest rank.

    figures: the engine's own figures under the engine's own names.
    reasons: why it differs from the architecture's need, in short phrases, the weightiest first.
    needed_bytes: the smallest budget in which the engine starts and holds the workload; None where that
    is what it reserves.
    """

    engine: str
    version: str
    reserved_bytes: int
    figures: Figures
    reasons: tuple[str, ...] = ()
    needed_bytes: int | None = None

    @property
    def least_budget_bytes(self) -> int:
        """The smallest budget in which the engine starts and holds the workload."""
        return self.reserved_bytes if self.needed_bytes is None else self.needed_bytes


class EngineOption(Record):
    """One option of an engine, spelled as the engine spells it.

    kind: one of `KINDS`, or the tuple of words it takes. default: in words, for `kvplan show`.
    """

    kind: str | tuple[str, ...]
    default: str
    meaning: str


class Engine(Protocol):
    """What the core asks of an engine."""

    NAME: str
    VERSIONS: tuple[str, ...]
    SUMMARY: str
    SOURCE: str
    OPTIONS: Mapping[str, EngineOption]

    def reserve(
        self, spec: ModelSpec, workload: Workload, options: Options, version: str, budget_bytes: int | None = None
    ) -> Reservation:
        """What the engine reserves for `workload` on the fullest rank.

        budget_bytes: the room for its cache on one card, where it is known; the engine then adds the
        figures that follow from it. None of the other figures depends on it.

        Raises: InputError for a combination the engine refuses; NotCountableError for a model
        whose reservation is not known.
        """
        ...

    def given_budget(self, spec: ModelSpec, workload: Workload, options: Options, version: str) -> int | None:
        """The room for the cache in bytes where an option of the engine states it outright."""
        ...

    def account(self, spec: ModelSpec, workload: Workload, options: Options, version: str, device: Device) -> Account:
        """What the engine leaves for the cache on `device`, by its own definition."""
        ...

    def dip_tokens(self, spec: ModelSpec, workload: Workload, options: Options) -> int:
        """How far below a length that fits a shorter one may not; 0 where bytes never fall."""
        ...


class CardDefaults(Protocol):
    """What an engine adds whose defaults depend on the card."""

    def on_card(self, options: Options, name: str, total_bytes: int) -> Options:
        """`options` with the defaults that the engine takes on a card of that name and memory."""
        ...


class EngineChoice(Record):
    """An engine, the version profile chosen, and its options checked."""

    engine: Engine
    version: str
    options: Options

    def on_card(self, name: str, total_bytes: int | None) -> EngineChoice:
        """The choice with the engine's own defaults for a card, where they depend on it and its memory is known."""
        if total_bytes is None or not hasattr(self.engine, "on_card"):
            return self
        defaults = cast("CardDefaults", self.engine)
        return self.replace(options=defaults.on_card(self.options, name, total_bytes))

    def reserve(self, spec: ModelSpec, workload: Workload, budget_bytes: int | None = None) -> Reservation:
        """What this choice reserves for `workload` on the fullest rank."""
        return self.engine.reserve(spec, workload, self.options, self.version, budget_bytes)

    def given_budget(self, spec: ModelSpec, workload: Workload) -> int | None:
        """The room for the cache in bytes where an option states it outright."""
        return self.engine.given_budget(spec, workload, self.options, self.version)

    def account(self, spec: ModelSpec, workload: Workload, device: Device) -> Account:
        """What this choice leaves for the cache on `device`."""
        return self.engine.account(spec, workload, self.options, self.version, device)

    def dip_tokens(self, spec: ModelSpec, workload: Workload) -> int:
        """How far below a length that fits a shorter one may not; 0 where bytes never fall."""
        return self.engine.dip_tokens(spec, workload, self.options)


def options_known(name: str, pairs: Iterable[str]) -> tuple[str, ...]:
    """Those of the `key=value` pairs whose key the engine written `name` takes."""
    known = engine_class(name.partition("@")[0].strip()).OPTIONS
    return tuple(pair for pair in pairs if _key(pair.partition("=")[0]) in known)


def _key(text: str) -> str:
    """An option's key as the rosters spell it: engines take dashes on the command line for underscores."""
    return text.strip().lstrip("-").replace("-", "_")


def engine_named(text: str, pairs: tuple[str, ...] = ()) -> EngineChoice:
    """The engine written `NAME` or `NAME@VERSION`, with its options as `key=value` pairs.

    >>> engine_named("ideal", ("block_size=16",)).options
    {'block_size': 16}

    Raises: InputError for an unknown engine, version, option or value.
    """
    name, _, version = text.strip().partition("@")
    if name not in ENGINES:
        raise InputError(
            f"--engine: found {quoted(name)}, allowed {', '.join(ENGINES)}",
            did_you_mean(name, ENGINES, "`kvplan engines` lists them"),
        )
    engine = engine_class(name)
    if version and version not in engine.VERSIONS:
        raise InputError(
            f"--engine {name}: found version {quoted(version)}, allowed {', '.join(engine.VERSIONS)}",
            f"--engine {name}",
        )
    options: dict[str, int | bool | str | Fraction] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        key = _key(key)
        option = engine.OPTIONS.get(key)
        if option is None or not equals:
            allowed = ", ".join(f"{key}=" for key in engine.OPTIONS) or "no options"
            raise InputError(
                f"-E: found {quoted(pair)}, {name} takes {allowed}",
                did_you_mean(key, engine.OPTIONS, f"`kvplan show {name}` explains them"),
            )
        options[key] = _value(name, key, value, option)
    return EngineChoice(engine, version or engine.VERSIONS[-1], options)


def engine_class(name: str) -> Engine:
    """The engine called `name`, a key of `ENGINES`."""
    return cast("Engine", cast("Any", import_module(f"kvplan.engine.{ENGINES[name]}")).ENGINE)


KINDS = {
    "int": "a whole number above 0",
    "count": "a whole number, 0 and more",
    "bool": "true or false",
    "share": "a share above 0 and at most 1",
    "ratio": "a number, 0 and more",
    "bytes": "bytes, such as 40GiB",
    "text": "a word",
}
"""Kinds of option values, and what errors say they take."""


def _value(name: str, key: str, text: str, option: EngineOption) -> int | bool | str | Fraction:
    kind = option.kind
    value: int | Fraction | None = None
    if kind in ("int", "count") and text.isascii() and text.isdigit() and len(text) <= 15:
        value = int(text) if int(text) or kind == "count" else None
    elif kind == "bool" and text.lower() in ("true", "false", "1", "0"):
        return text.lower() in ("true", "1")
    elif kind in ("share", "ratio") and _NUMBER.fullmatch(text):
        number = Fraction(text)
        value = number if kind == "ratio" or 0 < number <= 1 else None
    elif kind == "bytes":
        return byte_count(text, f"-E {key}")
    elif kind == "text" and _WORD.fullmatch(text):
        return text
    if value is not None:
        return value
    if isinstance(kind, tuple) and text in kind:
        return text
    allowed = KINDS[kind] if isinstance(kind, str) else ", ".join(kind)
    raise InputError(f"-E {key}: found {quoted(text)}, {name} takes {allowed}", f"default: {option.default}")


_NUMBER = re.compile(r"[0-9]{1,9}(\.[0-9]{0,9})?|\.[0-9]{1,9}")
_WORD = re.compile(r"[A-Za-z0-9_.,:/+-]{1,200}")
