"""`kvplan check`: whether the serve commands of a deployment file start, for CI."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any

import typer

from kvplan.cli import options as o
from kvplan.cli.output import checked_format, checked_unit, emit, say
from kvplan.errors import InputError, KvplanError, quoted
from kvplan.units import tokens, whole_number

NEEDS_ARGUMENTS = True
Files = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="FILE...",
        help="Dockerfile, compose file, Kubernetes manifest, systemd unit or shell script that serves a model.",
        show_default=False,
    ),
]
Model = Annotated[
    str | None,
    o.option("--model", help="The model of commands that name none, or a path.", metavar="MODEL"),
]
Env = Annotated[
    list[str] | None,
    o.option("--env", help="A variable that the file takes from outside. Repeatable.", metavar="NAME=VALUE"),
]
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=.*", re.DOTALL)


def command(
    files: Files = None,
    gpu: o.GpuOption = None,
    model: Model = None,
    env: Env = None,
    ctx: o.Ctx = None,
    batch: o.Batch = None,
    weights: o.WeightsOption = None,
    available_bytes: o.AvailableBytes = None,
    reserve: o.Reserve = None,
    specs: o.Specs = None,
    online: o.Online = False,
    format: o.OutputFormat = "table",
    output: o.OutputFile = None,
    unit: o.Unit = "GiB",
    quiet: o.Quiet = False,
    no_color: o.NoColor = False,
    json_schema: o.JsonSchema = False,
) -> int:
    """Whether the serve commands of a deployment file start on their cards."""
    if json_schema:
        from kvplan.cli.size import print_schema

        return print_schema("check")
    if not files:
        raise InputError("no file named", "for example kvplan check deploy.yaml --gpu h100")
    name, shown = checked_format(format), checked_unit(unit)
    beside: dict[str, Any] = {
        "gpu": gpu,
        "model": model,
        "ctx": ctx if ctx in (None, "max") else tokens(ctx or "", "--ctx"),
        "batch": None if batch is None else whole_number(batch, "--batch", most=10**12),
        "weights": weights,
        "available_bytes": o.optional_bytes(available_bytes, "--available-bytes"),
        "reserve_bytes": o.optional_bytes(reserve, "--reserve"),
        "specs": specs,
        "online": online or None,
    }
    return _checked(
        files,
        variables(env),
        {key: value for key, value in beside.items() if value is not None},
        (name, shown, output, no_color, quiet),
    )


def variables(pairs: list[str] | None) -> dict[str, str]:
    """What `--env` sets.

    Raises: InputError for what is no `NAME=VALUE`.
    """
    for pair in pairs or ():
        if not _VARIABLE.fullmatch(pair):
            raise InputError(f"--env: found {quoted(pair)}, allowed NAME=VALUE", "for example --env MAX_LEN=8192")
    return dict(pair.split("=", 1) for pair in pairs or ())


def _checked(
    files: list[str],
    environment: dict[str, str],
    beside: dict[str, Any],
    shown: tuple[str, str, str | None, bool, bool],
) -> int:
    from kvplan.catalogue import read_text
    from kvplan.cli import complain
    from kvplan.planner.check import check_deployment
    from kvplan.report.check_view import check_report

    name, unit, output, no_color, quiet = shown
    verdicts, errors = [], list[KvplanError]()
    for file in files:
        found, failed = check_deployment(read_text(Path(file)), file, environment, beside)
        verdicts += found
        errors += failed
    if len(errors) == len(verdicts):
        raise errors[0]
    emit(check_report(verdicts, unit), name, output, no_color)
    for error in errors:
        complain(error.what, error.fix, error.exit_code)
    say((hint for verdict in verdicts for hint in verdict.hints), quiet)
    if any(verdict.ok is None and verdict.refused is None for verdict in verdicts):
        say(["no GPU is named: add --gpu to learn whether it starts"], quiet)
    if errors:
        return max(error.exit_code for error in errors)
    return 0 if all(verdict.ok is not False for verdict in verdicts) else 1
