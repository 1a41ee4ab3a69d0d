"""`kvplan explain`: an engine's start-up log against the prediction, and what would change its figures."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from kvplan.cli import options as o
from kvplan.cli.output import checked_format, checked_unit, emit, say
from kvplan.cli.size import print_schema
from kvplan.errors import InputError, quoted
from kvplan.logs import MOST_BYTES, decoded

NEEDS_ARGUMENTS = True


def command(
    log: Annotated[
        str | None,
        typer.Argument(
            metavar="LOG",
            help="A start-up log of vLLM, SGLang, TensorRT-LLM, llama.cpp or Ollama; - reads it from stdin.",
        ),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option("--model", metavar="MODEL", help="The model, where the log names none that is known."),
    ] = None,
    specs: o.Specs = None,
    online: o.Online = False,
    format: o.OutputFormat = "table",
    output: o.OutputFile = None,
    unit: o.Unit = "GiB",
    quiet: o.Quiet = False,
    no_color: o.NoColor = False,
    json_schema: o.JsonSchema = False,
) -> int:
    """An engine's start-up log against the prediction, and what would help."""
    if json_schema:
        return print_schema("explain")
    name, _ = checked_format(format), checked_unit(unit)
    if log is None:
        raise InputError("no log named", "for example kvplan explain vllm.log, or … | kvplan explain -")
    from kvplan.explain import explain_answer
    from kvplan.report.explain_view import explain_report

    answer = explain_answer(decoded(log_bytes(log)), model, specs, online)
    emit(explain_report(answer), name, output, no_color)
    say(answer.hints, quiet)
    return 0 if answer.agrees else 1


def log_bytes(log: str) -> bytes:
    """The first bytes of a file, or of stdin for `-`.

    Raises: InputError when it cannot be read.
    """
    if log == "-":
        return sys.stdin.buffer.read(MOST_BYTES)
    try:
        path = Path(log)
        if path.is_dir():
            raise InputError(f"{quoted(log)} is a folder", "give the log itself")
        with path.open("rb") as file:
            return file.read(MOST_BYTES)
    except (OSError, ValueError) as error:
        raise InputError(
            f"{quoted(log)} cannot be read: {getattr(error, 'strerror', None) or 'bad path'}",
            "give the path of a log, or - for stdin",
        ) from None
