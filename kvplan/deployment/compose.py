"""A compose file: each service's image, entrypoint, command, environment and devices.

`${NAME:-default}` is filled in as compose does, from `--env` and the defaults; `.env` files are not read.

Source: the compose specification, compose-spec.io: services, interpolation, deploy.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from kvplan.errors import InputError, printable
from kvplan.serving.launch import Launch, launch_of, started_by_image
from kvplan.serving.shell import commands

_PLACE = re.compile(
    r"\$(\$|\{([A-Za-z_][A-Za-z0-9_]*)(?:(:?[-?+])((?:[^{}]|\{[^{}]*\})*))?\}|([A-Za-z_][A-Za-z0-9_]*))"
)
MOST_SERVICES = 500
LONGEST = 65_536


def services(document: dict[str, Any], name: str, environment: Mapping[str, str]) -> list[Launch]:
    """The serve commands of every service that starts one.

    Raises: InputError for a service that is none, or a command that cannot be read.
    """
    found: list[Launch] = []
    listed = list(document["services"].items())
    if len(listed) > MOST_SERVICES:
        raise InputError(f"{name}: {len(listed):,} services, allowed {MOST_SERVICES}", "split the file")
    for key, value in listed:
        place = f"{name}: services.{printable(key)}"
        if not isinstance(value, dict):
            raise InputError(f"{place}: found {printable(value)}, allowed a mapping", "image, command, environment")
        found += _service(merged(value), place, environment)
    return found


def merged(value: dict[str, Any]) -> dict[str, Any]:
    """A mapping with what `<<` brings in below its own keys."""
    below = value.get("<<")
    parts = below if isinstance(below, list) else [below]
    result: dict[str, Any] = {}
    for part in reversed(parts):
        if isinstance(part, dict):
            result |= merged(part)
    return {**result, **{key: item for key, item in value.items() if key != "<<"}}


def _service(service: dict[str, Any], place: str, environment: Mapping[str, str]) -> list[Launch]:
    image = service.get("image")
    own = _environment(service.get("environment"), environment)
    around = Launch((), own, cards=_cards(service), place=place)
    entry = _words(service.get("entrypoint"), environment, place)
    command = _words(service.get("command"), environment, place) or []
    if isinstance(image, str):
        image = interpolated(image, environment)
        return started_by_image(image, entry, command, around.replace(image=image))
    return launch_of([*(entry or ()), *command], around)


def interpolated(text: str, environment: Mapping[str, str]) -> str:
    """`text` with its places filled in; one that nothing fills stays as it is, `$$` becomes a dollar sign.

    >>> interpolated("--tp ${TP:-2} $MODEL $$HOME", {"MODEL": "m"})
    '--tp 2 m $HOME'
    """

    def filled(match: re.Match[str]) -> str:
        if match[1] == "$":
            return "$"
        name = match[2] or match[5]
        value, operator, word = environment.get(name), match[3] or "", match[4] or ""
        given = bool(value) if ":" in operator else value is not None
        if operator.endswith("+"):
            return interpolated(word, environment) if given else ""
        if given:
            return str(value)
        return interpolated(word, environment) if operator.endswith("-") else match[0]

    return _PLACE.sub(filled, text[:LONGEST])


def _words(value: Any, environment: Mapping[str, str], place: str) -> list[str] | None:
    """The words of a command: a list, or text split as a shell splits it, without its operators."""
    if value is None:
        return None
    if isinstance(value, list):
        return [interpolated(str(item), environment) for item in value if isinstance(item, str | int | float)]
    if not isinstance(value, str):
        raise InputError(f"{place}: a command is text or a list, found {printable(value)}", "quote it")
    text = interpolated(value, environment).replace("\\\n", " ").replace("\n", " ")
    return [word for line in commands(text, {}, place) for word in line.words]


def _environment(value: Any, outside: Mapping[str, str]) -> dict[str, str]:
    """The variables of a service: a list of `A=1` or a mapping; one without a value comes from outside."""
    pairs: list[tuple[str, Any]] = []
    if isinstance(value, dict):
        pairs = [(str(key), item) for key, item in merged(value).items()]
    elif isinstance(value, list):
        for item in value:
            name, equals, text = str(item).partition("=")
            pairs.append((name, text if equals else None))
    found: dict[str, str] = {}
    for name, item in pairs:
        if item is None:
            if name in outside:
                found[name] = outside[name]
        elif isinstance(item, bool):
            found[name] = str(item).lower()
        else:
            found[name] = interpolated(str(item), outside)
    return found


def _cards(service: dict[str, Any]) -> int | None:
    """GPUs that a service reserves, where it says how many."""
    gpus = service.get("gpus")
    devices: Any = gpus if isinstance(gpus, list) else None
    for key in ("deploy", "resources", "reservations", "devices"):
        if devices is not None and key == "deploy":
            break
        node = service.get(key) if key == "deploy" else devices.get(key) if isinstance(devices, dict) else None
        devices = node
    count = 0
    for device in devices if isinstance(devices, list) else ():
        if not isinstance(device, dict):
            continue
        ids, number = device.get("device_ids"), device.get("count")
        if isinstance(ids, list):
            count += len(ids)
        elif isinstance(number, int) and not isinstance(number, bool):
            count += number
        elif isinstance(number, str) and number.isdigit() and len(number) < 6:
            count += int(number)
    return count or None
