"""A Dockerfile: what the last stage starts, from its ENTRYPOINT, CMD, ENV and ARG, and the image below it.

Source: the Dockerfile reference of docs.docker.com, sections on ENTRYPOINT and CMD.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping

from kvplan.errors import InputError, quoted
from kvplan.record import Record
from kvplan.serving.launch import Launch, launch_of, started_by_image
from kvplan.serving.shell import commands

MOST_LINES = 20_000
_HEREDOC = re.compile(r"<<-?\s*[\"']?([A-Za-z_][A-Za-z0-9_]*)[\"']?")
_INSTRUCTION = re.compile(r"([A-Za-z]+)\s+(.*)", re.DOTALL)
_ESCAPE = re.compile(r"#\s*escape\s*=\s*(\S)", re.IGNORECASE)


class Stage(Record):
    """One stage of a build: the image it begins with, what it sets, and what it starts."""

    image: str
    environment: Mapping[str, str] = {}
    entry: tuple[str, ...] | None = None
    command: tuple[str, ...] = ()
    shell_entry: bool = False


def begins(text: str) -> bool:
    """Whether a text without a telling name begins like a Dockerfile."""
    for line in text.splitlines()[:200]:
        stripped = line.strip()
        if stripped and not stripped.startswith("#"):
            return stripped.split()[0].upper() in ("FROM", "ARG")
    return False


def read(text: str, name: str, environment: Mapping[str, str]) -> list[Launch]:
    """The serve command of the last stage.

    Raises: InputError for a file without FROM, or with an instruction that is not one.
    """
    build = _Build(name, environment)
    for line, word, rest in _instructions(text, name):
        build.take(word, rest, f"{name}: line {line}: {word}")
    stage = build.stage
    if stage is None:
        raise InputError(f"{name}: no FROM", "a Dockerfile begins with FROM")
    around = Launch((), environment=stage.environment, image=stage.image, place=name)
    if stage.shell_entry:
        return launch_of(stage.entry or (), around)
    return started_by_image(
        stage.image, None if stage.entry is None else list(stage.entry), list(stage.command), around
    )


class _Build:
    """The stages so far: the one being described, those with a name, and the arguments declared."""

    def __init__(self, name: str, outside: Mapping[str, str]) -> None:
        self.name, self.outside = name, outside
        self.named: dict[str, Stage] = {}
        self.arguments: dict[str, str] = {}
        self.current = ""
        self.stage: Stage | None = None

    def take(self, word: str, rest: str, place: str) -> None:
        """One instruction."""
        if word == "ARG":
            known = {**self.arguments, **(self.stage.environment if self.stage else {})}
            self.arguments |= _arguments(rest, known, self.outside, place)
        elif word == "FROM":
            words = [item for item in _words(rest, self.arguments, place) if not item.startswith("--")]
            if not words:
                raise InputError(f"{place}: names no image", "FROM vllm/vllm-openai:v0.19.1")
            self.current = words[2].lower() if len(words) > 2 and words[1].lower() == "as" else ""
            self.stage = self.named.get(words[0].lower(), Stage(words[0]))
        elif self.stage is None:
            raise InputError(f"{place}: stands before FROM", "a Dockerfile begins with FROM")
        else:
            self.stage = _changed(self.stage, word, rest, self.arguments, place)
        if self.stage is not None and self.current:
            self.named[self.current] = self.stage


def _instructions(text: str, name: str) -> Iterator[tuple[int, str, str]]:
    """(line, instruction, the rest) with continued lines joined, comments and here-documents left out."""
    match = _ESCAPE.match(text)
    escape = match[1] if match and match[1] in "\\`" else "\\"
    lines = text.splitlines()
    if len(lines) > MOST_LINES:
        raise InputError(f"{name}: {len(lines):,} lines, allowed {MOST_LINES:,}", "a Dockerfile is a small file")
    at = 0
    while at < len(lines):
        start, parts = at, list[str]()
        while at < len(lines):
            line = lines[at].strip()
            at += 1
            if line.startswith("#") or (parts and not line):
                continue
            if not line.endswith(escape):
                parts.append(line)
                break
            parts.append(line[: -len(escape)])
        whole = " ".join(parts).strip()
        if not whole:
            continue
        found = _INSTRUCTION.fullmatch(whole)
        if found is None:
            raise InputError(f"{name}: line {start + 1}: found {quoted(whole)}, allowed an instruction", "FROM, CMD, …")
        for end in _HEREDOC.findall(found[2]) if found[1].upper() in ("RUN", "COPY", "ADD") else ():
            while at < len(lines) and lines[at].strip() != end:
                at += 1
            at += 1
        yield start + 1, found[1].upper(), found[2].strip()


def _arguments(rest: str, known: Mapping[str, str], environment: Mapping[str, str], place: str) -> dict[str, str]:
    """What ARG declares: its default, or what `--env` says of it."""
    found: dict[str, str] = {}
    for word in _words(rest, known, place):
        name, given, value = word.partition("=")
        if name in environment:
            found[name] = environment[name]
        elif given:
            found[name] = value
        elif name in known:
            found[name] = known[name]
    return found


def _changed(stage: Stage, word: str, rest: str, arguments: Mapping[str, str], place: str) -> Stage:
    """The stage after one more instruction."""
    if word == "ENV":
        known = {**arguments, **stage.environment}
        return stage.replace(environment={**stage.environment, **_variables(rest, known, place)})
    if word in ("CMD", "ENTRYPOINT"):
        exec_form = _exec_form(rest)
        words = exec_form if exec_form is not None else ("/bin/sh", "-c", rest)
        if word == "CMD":
            return stage.replace(command=words)
        return stage.replace(entry=words, command=(), shell_entry=exec_form is None)
    return stage


def _exec_form(rest: str) -> tuple[str, ...] | None:
    """The words of a JSON array; None for the form that a shell reads."""
    if not rest.startswith("["):
        return None
    try:
        found = json.loads(rest)
    except (ValueError, RecursionError):
        return None
    return tuple(found) if isinstance(found, list) and all(isinstance(word, str) for word in found) else None


def _variables(rest: str, known: Mapping[str, str], place: str) -> dict[str, str]:
    """What ENV sets, as `A=1 B=2` or as `A 1`."""
    words = _words(rest, known, place)
    if words and "=" not in words[0]:
        return {words[0]: " ".join(words[1:])}
    pairs = (word.partition("=") for word in words)
    return {name: value for name, equals, value in pairs if equals}


def _words(text: str, known: Mapping[str, str], place: str) -> list[str]:
    lines = commands(text, known, place)
    return [word for line in lines for word in line.words]
