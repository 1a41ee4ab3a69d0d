"""`kvplan show`: one model, GPU, engine or format, with its sources and notes."""

from __future__ import annotations

from typing import Annotated

import typer

from kvplan.cli import options as o
from kvplan.cli.output import checked_format, checked_unit, emit
from kvplan.errors import InputError, nearest, quoted
from kvplan.report import Report

NEEDS_ARGUMENTS = True
Name = Annotated[
    str,
    typer.Argument(
        metavar="NAME",
        help="A model, GPU, engine or format.",
        autocompletion=o.complete_anything,
        show_default=False,
    ),
]


def command(
    name: Name,
    specs: o.Specs = None,
    online: o.Online = False,
    format: o.OutputFormat = "table",
    output: o.OutputFile = None,
    unit: o.Unit = "GiB",
    quiet: o.Quiet = False,
    no_color: o.NoColor = False,
) -> int:
    """Show one model, GPU, engine or format with its sources and notes."""
    chosen, shown = checked_format(format), checked_unit(unit)
    emit(_found(name, specs, online, shown), chosen, output, no_color)
    return 0


def _found(name: str, specs: str | None, online: bool, unit: str) -> Report:
    """The first of model, format, engine and GPU that answers to `name`.

    Raises: InputError when none does.
    """
    from kvplan import catalogue
    from kvplan.engine import ENGINES, engine_class
    from kvplan.formats import ALIASES, FORMATS, format_named
    from kvplan.importers.source import hub_id, is_source
    from kvplan.report import show_view

    lowered = name.strip().lower()
    if lowered in FORMATS or lowered in ALIASES:
        return show_view.format_report(format_named(lowered))
    if lowered in ENGINES:
        return show_view.engine_report(engine_class(lowered))
    if is_source(name):
        return show_view.model_report(*catalogue.model_named(name, specs))
    is_path = name.endswith((".yaml", ".yml"))
    describes_gpu = is_path and _describes_gpu(name)
    if (is_path and not describes_gpu) or catalogue.find(name, catalogue.spec_folders(specs)):
        return show_view.model_report(*catalogue.model_named(name, specs))
    if describes_gpu or catalogue.find(name, [catalogue.SHIPPED_GPUS]):
        return show_view.gpu_report(catalogue.gpu_named(name), unit)
    if hub_id(name):
        return show_view.model_report(*catalogue.model_named(name, specs, online))
    known = [n for n, _, _ in catalogue.names([*catalogue.spec_folders(specs), catalogue.SHIPPED_GPUS])] + [
        *FORMATS,
        *ENGINES,
    ]
    close = nearest(name, known)
    raise InputError(
        f"no model, GPU, engine or format called {quoted(name)}",
        f"nearest: {', '.join(close)}"
        if close
        else "`kvplan models`, `kvplan gpus`, `kvplan engines` and `kvplan formats` list what is known",
    )


def _describes_gpu(path: str) -> bool:
    """True for a YAML file that describes a GPU: it has `memory`, as no model has."""
    from pathlib import Path

    from kvplan.catalogue import read_text
    from kvplan.yaml_text import load_yaml

    values = load_yaml(read_text(Path(path)), path)
    return isinstance(values, dict) and "memory" in values
