"""A systemd unit or a Podman quadlet: its environment, its image, and what it executes.

Source: systemd.exec(5) and systemd.service(5); podman-systemd.unit(5).
"""

from __future__ import annotations

from collections.abc import Mapping

from kvplan.serving.launch import Launch, launches, started_by_image
from kvplan.serving.shell import commands

STARTS = ("execstart", "execstartpre", "execstartpost")


def read(text: str, name: str, environment: Mapping[str, str]) -> list[Launch]:
    """The serve commands of `ExecStart`, or of a quadlet's image and `Exec`."""
    own = dict(environment)
    image: str | None = None
    starts: list[tuple[int, str]] = []
    arguments = ""
    joined = text.replace("\\\r\n", " ").replace("\\\n", " ")
    for number, line in enumerate(joined.splitlines(), 1):
        key, equals, value = line.strip().partition("=")
        key = key.strip().lower()
        if not equals or key.startswith(("#", ";")):
            continue
        if key == "environment":
            pairs = (word.partition("=") for found in commands(value, {}, name) for word in found.words)
            own |= {variable: text for variable, given, text in pairs if given}
        elif key in STARTS:
            starts.append((number, value.strip().lstrip("-@:+!")))
        elif key == "image":
            image = value.strip()
        elif key == "exec":
            arguments = value
    around = Launch((), environment=own, place=name)
    if image is not None:
        words = [word for found in commands(arguments, {}, name) for word in found.words]
        return started_by_image(image, None, words, around.replace(image=image))
    return [
        found for number, start in starts for found in launches(start, around.replace(place=f"{name}: line {number}"))
    ]
