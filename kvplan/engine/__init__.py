"""How an allocator reserves a cache: the roster of engines.

An engine sees the whole model at once (its layers in order, each with its tensors) and the
workload, and returns what it would reserve on one rank, with its own figures under its own names.
It knows tensors, roles and growth laws, never attention kinds. A new engine adds its file (or
folder) and one line to `ENGINES`.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any, Protocol, cast

from kvplan.errors import InputError, did_you_mean, quoted
from kvplan.record import Record
from kvplan.spec import ModelSpec
from kvplan.workload import Workload

ENGINES = {
    "ideal": "ideal",
    "transformers": "transformers",
}


class Reservation(Record):
    """What an engine takes for a workload, on the fullest rank.

    figures: the engine's own figures under the engine's own names.
    reasons: why it differs from the architecture's need, in short phrases.
    """

    engine: str
    version: str
    reserved_bytes: int
    figures: Mapping[str, int | float | str]
    reasons: tuple[str, ...] = ()


class EngineOption(Record):
    """One option of an engine, spelled as the engine spells it.

    kind: `int`, `bool` or the tuple of words it takes. default: in words, for `kvplan show`.
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
        self,
        spec: ModelSpec,
        workload: Workload,
        options: Mapping[str, int | bool | str],
        version: str,
    ) -> Reservation:
        """What the engine reserves for `workload` on the fullest rank.

        Raises: InputError for a combination the engine refuses; NotCountableError for a model
        whose reservation is not known.
        """
        ...

    def dip_tokens(self, spec: ModelSpec, workload: Workload, options: Mapping[str, int | bool | str]) -> int:
        """How far below a length that fits a shorter one may not; 0 where bytes never fall."""
        ...


class EngineChoice(Record):
    """An engine, the version profile chosen, and its options checked."""

    engine: Engine
    version: str
    options: Mapping[str, int | bool | str]

    def reserve(self, spec: ModelSpec, workload: Workload) -> Reservation:
        """What this choice reserves for `workload` on the fullest rank."""
        return self.engine.reserve(spec, workload, self.options, self.version)

    def dip_tokens(self, spec: ModelSpec, workload: Workload) -> int:
        """How far below a length that fits a shorter one may not; 0 where bytes never fall."""
        return self.engine.dip_tokens(spec, workload, self.options)


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
    options: dict[str, int | bool | str] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
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


def _value(name: str, key: str, text: str, option: EngineOption) -> int | bool | str:
    if option.kind == "int" and text.isascii() and text.isdigit() and len(text) <= 15 and int(text) >= 1:
        return int(text)
    if option.kind == "bool" and text.lower() in ("true", "false"):
        return text.lower() == "true"
    if isinstance(option.kind, tuple) and text in option.kind:
        return text
    allowed = (
        {"int": "a whole number above 0", "bool": "true or false"}.get(option.kind)
        if isinstance(option.kind, str)
        else ", ".join(option.kind)
    )
    raise InputError(f"-E {key}: found {quoted(text)}, {name} takes {allowed}", f"default: {option.default}")
