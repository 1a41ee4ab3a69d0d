"""The command line, run in this process or in its own: what went in, the exit code, and both streams."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import pytest

from kvplan.cli import main

REPOSITORY = Path(__file__).resolve().parent.parent.parent
PLAIN = {"COLUMNS": "100", "TERM": "xterm-256color"}


class Answer(NamedTuple):
    """One run: exit code, stdout, stderr."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        """Stdout as JSON."""
        return json.loads(self.out)

    @property
    def result(self) -> Any:
        """The only row of a JSON answer."""
        (row,) = self.document["results"]
        return row


class Terminal(io.TextIOWrapper):
    """A captured stream that says whether it is a terminal."""

    tty = False

    def isatty(self) -> bool:
        """What the stream was told to be."""
        return self.tty


def run(*arguments: str, env: dict[str, str] | None = None, tty: bool = False) -> Answer:
    """`kvplan ARGUMENTS` in this process, with $KVPLAN_SPECS and $NO_COLOR unset unless `env` sets them."""
    streams = [Terminal(io.BytesIO(), encoding="utf-8", newline="") for _ in range(2)]
    for stream in streams:
        stream.tty = tty
    kept = {k: v for k, v in os.environ.items() if k not in ("KVPLAN_SPECS", "NO_COLOR", "FORCE_COLOR")}
    with (
        patch.dict(os.environ, {**kept, **PLAIN, **(env or {})}, clear=True),
        patch.object(sys, "argv", ["kvplan", *arguments]),
        patch.object(sys, "stdout", streams[0]),
        patch.object(sys, "stderr", streams[1]),
        pytest.raises(SystemExit) as left,
    ):
        main()
    out, err = (_text(stream) for stream in streams)
    code = left.value.code
    return Answer(code if isinstance(code, int) else 0 if code is None else 1, out, err)


def _text(stream: io.TextIOWrapper) -> str:
    stream.flush()
    raw: Any = stream.buffer
    return str(raw.getvalue().decode("utf-8"))


def row(*arguments: str, **options: Any) -> Any:
    """The only row of `kvplan ARGUMENTS --format json`."""
    return run(*arguments, "--format", "json", **options).result


def command(*arguments: str) -> list[str]:
    """The words that start kvplan as a process of its own."""
    return [sys.executable, "-m", "kvplan", *arguments]


def process(*arguments: str, env: dict[str, str] | None = None, **options: Any) -> subprocess.CompletedProcess[bytes]:
    """`python -m kvplan ARGUMENTS` as a process of its own, in the repository."""
    kept = {k: v for k, v in os.environ.items() if k not in ("KVPLAN_SPECS", "NO_COLOR", "FORCE_COLOR")}
    return subprocess.run(  # kvplan itself
        command(*arguments),
        env={**kept, **PLAIN, **(env or {})},
        cwd=REPOSITORY,
        capture_output=True,
        timeout=60,
        check=False,
        **options,
    )


def refused(answer: Answer, code: int) -> str:
    """What is wrong, after checking that the refusal is as every refusal: two clean lines, nothing on stdout."""
    lines = answer.err.splitlines()
    assert (code, "", 2) == (answer.code, answer.out, len(lines)), answer
    assert lines[0].startswith("error: "), answer.err
    assert lines[1].startswith("  fix: "), answer.err
    assert all(line.isprintable() and len(line) < 2_100 for line in lines), answer.err
    return answer.err
