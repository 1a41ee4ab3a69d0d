"""`kvplan check`: whether a deployment file's commands start, and a capacity file's budgets hold, for CI."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kvplan.cli import options as o
from kvplan.cli.output import checked_format, checked_unit, emit, say, write_whole
from kvplan.errors import InputError, KvplanError, quoted
from kvplan.units import tokens, whole_number

if TYPE_CHECKING:
    from kvplan.report import Report
    from kvplan.results import CheckVerdict

NEEDS_ARGUMENTS = True
Files = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="FILE...",
        help="Capacity file with budgets, or a Dockerfile, compose file, Kubernetes manifest, systemd unit or shell script that serves a model.",
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
Junit = Annotated[
    str | None,
    o.option("--junit", help="Write the verdicts to a file as JUnit XML too.", metavar="FILE"),
]
Gpu = Annotated[
    str | None,
    o.option(
        "--gpu",
        help="Catalogue name, local, a .yaml file or bytes (80GiB); stands above the file's own.",
        metavar="GPU",
        complete=o.complete_gpu,
    ),
]
Ctx = Annotated[
    str | None,
    o.option("--ctx", help="Tokens of one sequence, in place of the commands' own.", metavar="N"),
]
Batch = Annotated[
    str | None,
    o.option("--batch", help="Sequences that must be held at once. Default: as the engine starts.", metavar="N"),
]
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=.*", re.DOTALL)


def command(
    files: Files = None,
    gpu: Gpu = None,
    model: Model = None,
    env: Env = None,
    ctx: Ctx = None,
    batch: Batch = None,
    weights: o.WeightsOption = None,
    available_bytes: o.AvailableBytes = None,
    reserve: o.Reserve = None,
    specs: o.Specs = None,
    online: o.Online = False,
    junit: Junit = None,
    format: o.OutputFormat = "table",
    output: o.OutputFile = None,
    unit: o.Unit = "GiB",
    quiet: o.Quiet = False,
    no_color: o.NoColor = False,
    json_schema: o.JsonSchema = False,
) -> int:
    """Whether the serve commands of deployment files fit their cards, and the budgets of capacity files hold."""
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
        junit,
    )


def _verdicts(
    file: str, environment: dict[str, str], beside: dict[str, Any]
) -> tuple[list[CheckVerdict], list[KvplanError]]:
    """The verdicts of one file, and the errors of what it asks that cannot be answered.

    Raises: InputError for a file that cannot be read, or options that a capacity file says itself.
    """
    from kvplan.capacity import is_capacity, parse_capacity
    from kvplan.catalogue import read_text

    text = read_text(Path(file))
    if not is_capacity(text, file):
        from kvplan.planner.check import check_deployment

        return check_deployment(text, file, environment, beside)
    from kvplan.planner.budgets import check_budgets
    from kvplan.yaml_text import load_yaml

    own = sorted(f"--{key.replace('_bytes', '').replace('_', '-')}" for key in beside if key != "specs")
    if own or environment:
        raise InputError(
            f"{file}: a capacity file says itself what {', '.join(own) or '--env'} would", "leave the option out"
        )
    return check_budgets(parse_capacity(load_yaml(text, file), file), beside.get("specs")), []


def _tell_github(report: Report, verdicts: list[CheckVerdict]) -> None:
    """In GitHub Actions: an annotation for each verdict that fails, and the report in the step's summary."""
    if os.environ.get("GITHUB_ACTIONS") != "true":
        return
    from kvplan.report import render
    from kvplan.report.check_view import github_lines

    for line in github_lines(verdicts):
        sys.stderr.write(f"{line}\n")
    summary = os.environ.get("GITHUB_STEP_SUMMARY")
    if summary:
        try:
            with Path(summary).open("a", encoding="utf-8") as file:
                file.write(render(report, "markdown", color=False))
        except OSError as error:
            sys.stderr.write(f"hint: $GITHUB_STEP_SUMMARY: not written: {error.strerror}\n")


LONGEST_VARIABLE = 4_096
"""A file may name a variable thousands of times."""


def variables(pairs: list[str] | None) -> dict[str, str]:
    """What `--env` sets.

    Raises: InputError for what is no `NAME=VALUE`.
    """
    for pair in pairs or ():
        if not _VARIABLE.fullmatch(pair):
            raise InputError(f"--env: found {quoted(pair)}, allowed NAME=VALUE", "for example --env MAX_LEN=8192")
        if len(pair) > LONGEST_VARIABLE:
            raise InputError(f"--env: {len(pair):,} characters, allowed {LONGEST_VARIABLE:,}", "write it into the file")
    return dict(pair.split("=", 1) for pair in pairs or ())


def _checked(
    files: list[str],
    environment: dict[str, str],
    beside: dict[str, Any],
    shown: tuple[str, str, str | None, bool, bool],
    junit: str | None,
) -> int:
    from kvplan.cli import complain
    from kvplan.report.check_view import check_report

    name, unit, output, no_color, quiet = shown
    verdicts, errors = [], list[KvplanError]()
    for file in files:
        found, failed = _verdicts(file, environment, beside)
        verdicts += found
        errors += failed
    if len(errors) == len(verdicts):
        raise errors[0]
    report = check_report(verdicts, unit)
    if junit is not None:
        from kvplan.report.junit_view import junit_text

        write_whole(Path(junit), junit_text(verdicts), "--junit")
    emit(report, name, output, no_color)
    _tell_github(report, verdicts)
    for error in errors:
        complain(error.what, error.fix, error.exit_code)
    say((hint for verdict in verdicts for hint in verdict.hints), quiet)
    if any(verdict.ok is None and verdict.refused is None for verdict in verdicts):
        say(["no GPU is named: add --gpu to learn whether it starts"], quiet)
    if errors:
        return max(error.exit_code for error in errors)
    return 0 if all(verdict.ok is not False for verdict in verdicts) else 1
