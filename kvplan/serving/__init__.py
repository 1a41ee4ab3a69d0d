"""The commands that people serve models with: the roster of programs, and a command read into a `Served`.

A command is read as its own parser would read it, and never executed. One file per engine knows the
engine's programs and flags; a new one adds its file and one line to `SERVERS`.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any, Protocol, cast

from kvplan.errors import InputError, quoted
from kvplan.record import Record
from kvplan.serving.flags import Arguments, Table, read_flags
from kvplan.serving.images import version_in
from kvplan.serving.launch import Launch, launches

SERVERS = {
    "vllm": "vllm",
    "sglang": "sglang",
    "llama.cpp": "llama_cpp",
    "ollama": "ollama",
    "trtllm": "trtllm",
    "mlx": "mlx",
}


class Served(Record):
    """A serve command as read: what it asks of the planner, and what was done with each of its flags.

    fields: by the names of `Question`. options: `key=value` in the engine's own words; those that the engine
    of kvplan does not count change nothing. shaping: flags that the answer follows from, as typed. unknown:
    flags that the program does not have. uncounted: flags that change memory in a way that is not counted.
    parallel: sequences that the command lets run at once, where it says so. nodes: machines with as many cards each;
    None where the command leaves that to others.
    """

    engine: str
    version: str | None
    model: str | None
    fields: Mapping[str, Any]
    options: tuple[str, ...]
    shaping: tuple[str, ...]
    idle: tuple[str, ...]
    unknown: tuple[str, ...]
    uncounted: tuple[str, ...]
    notes: tuple[str, ...]
    parallel: int | None = None
    nodes: int | None = 1


class Asked(Record):
    """What one engine's reader makes of the arguments; `Served` without the bookkeeping.

    read: the flags, by first spelling, that it looked at.
    """

    model: str | None
    fields: Mapping[str, Any]
    options: Mapping[str, str]
    read: frozenset[str]
    notes: tuple[str, ...] = ()
    uncounted: tuple[str, ...] = ()
    parallel: int | None = None
    nodes: int | None = 1


class Server(Protocol):
    """What the roster asks of an engine's reader.

    WHEN_SHORT: what the engine does where a sequence of the length finds no room: `refuses` to start, `shortens`
    what it takes, or `spills` into host memory. CHANGES: how the engine spells what may be changed, by field of
    `Question`, `{}` for the value.
    """

    NAME: str
    FLAGS: Table
    WHEN_SHORT: str
    CHANGES: Mapping[str, str]

    def arguments_of(self, words: tuple[str, ...]) -> tuple[str, ...] | None:
        """What stands behind the program; None where `words` do not start this engine."""
        ...

    def asked(self, arguments: Arguments, launch: Launch) -> Asked:
        """What the arguments ask for.

        Raises: InputError for a value that the engine would refuse.
        """
        ...


def server(name: str) -> Server:
    """The reader of the engine called `name`, a key of `SERVERS`."""
    return cast("Server", cast("Any", import_module(f"kvplan.serving.{SERVERS[name]}")).SERVER)


def served(launch: Launch) -> Served:
    """The serve command of `launch`, read.

    Raises: InputError for a program that is not known, or a value that its engine would refuse.
    """
    for name in SERVERS:
        found = server(name)
        words = found.arguments_of(launch.words)
        if words is None:
            continue
        arguments = read_flags(words, found.FLAGS)
        asked = found.asked(arguments, launch)
        used = {flag for flag in asked.read if flag in arguments.typed}
        rest = [flag for flag in arguments.typed if flag not in used]
        options = {_key(flag): value for flag in rest if (value := _option(arguments, flag)) is not None}
        return Served(
            engine=name,
            version=version_in(launch.image, name),
            model=asked.model,
            fields=asked.fields,
            options=tuple(f"{key}={value}" for key, value in {**options, **asked.options}.items()),
            shaping=tuple(arguments.typed[flag] for flag in arguments.typed if flag in used),
            idle=tuple(arguments.typed[flag] for flag in rest),
            unknown=arguments.unknown,
            uncounted=asked.uncounted,
            notes=asked.notes,
            parallel=asked.parallel,
            nodes=asked.nodes,
        )
    raise InputError(
        f"{launch.place}: {quoted(' '.join(launch.words[:3]))} is no command that kvplan reads",
        f"commands of {', '.join(SERVERS)} are read",
    )


def one_launch(text: str, place: str = "--serve") -> Launch:
    """The one serve command in `text`.

    Raises: InputError for none or several.
    """
    found = launches(text, Launch((), place=place))
    if not found:
        raise InputError(
            f"{place}: found {quoted(text.strip() or text)}, which starts no engine that kvplan reads",
            "for example --serve 'vllm serve meta-llama/Llama-3.1-8B --max-model-len 32768'",
        )
    if len(found) > 1:
        raise InputError(f"{place}: {len(found)} serve commands in one text", "give them one by one")
    return found[0]


def _key(flag: str) -> str:
    return flag.lstrip("-").replace("-", "_")


def _option(arguments: Arguments, flag: str) -> str | None:
    """The value of a flag as an engine option takes it; None for what is no single word."""
    value = arguments.values.get(flag)
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, str) and "\n" not in value and len(value) < 200 else None
