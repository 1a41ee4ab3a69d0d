"""The documentation as tests see it: pages, their fenced blocks, and how a block's commands are run."""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple
from unittest.mock import patch

from kvplan.cli import main

REPOSITORY = Path(__file__).parents[2]
DOCS = REPOSITORY / "docs"
REFERENCE = DOCS / "reference"
PAGES = [REPOSITORY / "README.md", *sorted(p for p in DOCS.rglob("*.md") if REFERENCE not in p.parents)]
FENCE = re.compile(r"^```(?P<kind>\w*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
FILE = re.compile(r"<!-- file: (?P<name>[\w.-]+) -->\n\s*\Z")
WIDTH = "80"
UNSET = ("KVPLAN_SPECS", "NO_COLOR", "FORCE_COLOR", "TERM")


class Block(NamedTuple):
    """One fenced block: its language, its text, where the text begins, and the file it is said to be."""

    kind: str
    text: str
    start: int
    file: str | None


def blocks(page: str) -> list[Block]:
    """Every fenced block of a page, in order.

    A comment `<!-- file: NAME -->` before a block names the file that the page's commands find it in.
    """
    found = []
    for match in FENCE.finditer(page):
        named = FILE.search(page[: match.start()])
        found.append(Block(match["kind"], match["text"], match.start("text"), named["name"] if named else None))
    return found


def runs_commands(block: Block) -> bool:
    """A console block that asks kvplan something; other consoles show set-up that CI does itself."""
    return block.kind == "console" and "$ kvplan" in block.text


def executed(block: Block, folder: Path) -> str:
    """The block as it reads when its commands run in `folder`: each command, then what it prints.

    What a command writes to stderr follows what it writes to stdout. `$ echo $?` shows the exit code
    of the command before it; a command that fails without it is an error of the page.
    """
    lines, code = [], 0
    for command in re.findall(r"^\$ ((?:.*\\\n)*.*)$", block.text, re.MULTILINE):
        lines.append(f"$ {command}")
        if command == "echo $?":
            lines.append(str(code))
            code = 0
            continue
        if code:
            raise AssertionError(f"exit code {code}: show it with `$ echo $?` before `{command}`")
        code, text = run(command, folder)
        lines += text.splitlines()
    if code:
        raise AssertionError(f"exit code {code}: show it with `$ echo $?` at the end of\n{block.text}")
    return "".join(f"{line.rstrip()}\n" for line in lines)


def run(command: str, folder: Path) -> tuple[int, str]:
    """(exit code, stdout then stderr) of `command` in `folder`."""
    words = shlex.split(command)
    plain = words[0] == "kvplan" and not any(mark in words for mark in ("|", ">", "&&", ";"))
    return _here(words, folder) if plain else _shell(command, folder)


def _here(words: list[str], folder: Path) -> tuple[int, str]:
    """kvplan in this process, which is many times faster than starting Python anew."""
    out, err = io.StringIO(), io.StringIO()
    with (
        contextlib.chdir(folder),
        patch.dict(os.environ, _environment(), clear=True),
        patch.object(sys, "argv", words),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        try:
            main()
        except SystemExit as left:
            code = left.code if isinstance(left.code, int) else 0
    return code, out.getvalue() + err.getvalue()


def _shell(command: str, folder: Path) -> tuple[int, str]:
    """A pipeline in a shell that knows `kvplan` and `python` as those of this environment."""
    programs = folder / ".programs"
    programs.mkdir(exist_ok=True)
    for name, words in {"kvplan": [sys.executable, "-m", "kvplan"], "python": [sys.executable]}.items():
        program = programs / name
        program.write_text(f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n', encoding="utf-8")
        program.chmod(0o755)
    environment = _environment()
    environment["PATH"] = f"{programs}{os.pathsep}{environment.get('PATH', '')}"
    environment["PYTHONPATH"] = str(REPOSITORY)
    done = subprocess.run(
        ["/bin/sh", "-c", command], cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=60
    )
    return done.returncode, done.stdout + done.stderr


def _environment() -> dict[str, str]:
    return {**{key: value for key, value in os.environ.items() if key not in UNSET}, "COLUMNS": WIDTH}


def rewriting() -> bool:
    """True when stale pages are to be written anew instead of reported."""
    return os.environ.get("KVPLAN_REWRITE_DOCS") == "1"
