"""`kvplan table`: capacity tables from a YAML file, and whether what is committed is still true."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from kvplan.cli import options as o
from kvplan.cli.output import checked_format, checked_unit, emit, say, write_whole
from kvplan.cli.progress import progress
from kvplan.errors import InputError, quoted

NEEDS_ARGUMENTS = True
File = Annotated[
    str | None,
    typer.Argument(metavar="FILE", help="A capacity file: models, lengths, cards.", show_default=False),
]
Check = Annotated[
    str | None,
    o.option("--check", help="A committed table to compare with: exit 1 and a diff when it is stale.", metavar="FILE"),
]
EXTENSIONS = {".md": "markdown", ".json": "json", ".csv": "csv", ".html": "html", ".txt": "table"}


def command(
    file: File = None,
    check: Check = None,
    update: Annotated[bool, typer.Option("--update", help="Write the file that --check names anew.")] = False,
    across: Annotated[
        str | None, o.option("--across", help="The axis whose values stand across.", metavar="AXIS")
    ] = None,
    down: Annotated[str | None, o.option("--down", help="The axis whose values stand down.", metavar="AXIS")] = None,
    show: Annotated[
        str | None,
        o.option("--show", help="What is shown: bytes, reserved, fits, max_batch, max_context.", metavar="WHAT,..."),
    ] = None,
    sort: Annotated[str | None, o.option("--sort", help="Order of the rows: name or bytes.", metavar="ORDER")] = None,
    specs: o.Specs = None,
    format: Annotated[
        str | None,
        o.option(
            "--format",
            help="table, json, csv, markdown or html. Default: as --check's file ends, else table.",
            metavar="FORMAT",
        ),
    ] = None,
    output: o.OutputFile = None,
    unit: o.Unit = "GiB",
    quiet: o.Quiet = False,
    no_color: o.NoColor = False,
    json_schema: o.JsonSchema = False,
) -> int:
    """Capacity tables from a YAML file; with --check, whether a committed table is still true."""
    if json_schema:
        from kvplan.cli.size import print_schema

        return print_schema("table")
    if file is None:
        raise InputError("table: no capacity file named", "for example kvplan table capacity.yaml")
    if update and check is None:
        raise InputError("--update: writes the file that --check names", "add --check FILE")
    if check is not None and output is not None:
        raise InputError("-o: does not go with --check", "--check FILE --update writes FILE")
    chosen, shown = checked_format(format or _format_of(check)), checked_unit(unit)
    from kvplan.report import render
    from kvplan.report.table_view import table_report

    capacity, layout = _read(file, {"across": across, "down": down, "show": show, "sort": sort})
    with progress("cells", quiet) as step:
        from kvplan.planner.matrix import matrix_inputs, matrix_rows

        cells = matrix_rows(capacity, specs, step)
    inputs = matrix_inputs(capacity, cells, specs)
    report = table_report(cells, layout, shown, inputs, capacity.fields.title)
    if check is None:
        emit(report, chosen, output, no_color)
        return 0
    from kvplan.stale import kept_text, moved

    text = kept_text(render(report, chosen, color=False, width=200), chosen, inputs)
    path = Path(check)
    committed = _committed(path, update)
    if committed == text:
        say([f"{check} is up to date"], quiet)
        return 0
    if update:
        write_whole(path, text, "--check")
        say([f"{check} written"], quiet)
        return 0
    typer.echo("\n".join(moved(committed or "", text, chosen, check)))
    say([f"kvplan table {file} --check {check} --update writes it anew"], quiet)
    return 1


def _format_of(check: str | None) -> str:
    if check is None:
        return "table"
    suffix = Path(check).suffix.lower()
    if suffix not in EXTENSIONS:
        raise InputError(
            f"--check: found {quoted(check)}, allowed files that end in {', '.join(EXTENSIONS)}", "or add --format"
        )
    return EXTENSIONS[suffix]


def _read(file: str, given: dict[str, str | None]) -> tuple[Any, Any]:
    """The capacity file, and its layout with what the command line says instead."""
    from kvplan.capacity import Layout, parse_capacity
    from kvplan.catalogue import read_text
    from kvplan.schema import validated
    from kvplan.yaml_text import load_yaml

    capacity = parse_capacity(load_yaml(read_text(Path(file)), file), file)
    said: dict[str, Any] = {key: value for key, value in given.items() if value is not None}
    if "show" in said:
        said["show"] = [word.strip() for word in said["show"].split(",")]
    layout = validated(Layout, {**capacity.fields.layout.model_dump(), **said}, "--across, --down, --show, --sort")
    if layout.across == layout.down:
        raise InputError(f"{quoted(layout.across)} stands both across and down", "choose two different axes")
    return capacity, layout


MOST_BYTES = 64 * 2**20


def _committed(path: Path, update: bool) -> str | None:
    """The committed text; None where it is to be written for the first time.

    Raises: InputError when it is missing, unreadable, too large or not UTF-8.
    """
    if update and not path.exists():
        return None
    try:
        if not path.is_file():
            raise InputError(f"--check: {quoted(str(path))} does not exist", "add --update to write it")
        with path.open("rb") as file:
            data = file.read(MOST_BYTES + 1)
        if len(data) > MOST_BYTES:
            raise InputError(
                f"--check: {quoted(str(path))} is larger than {MOST_BYTES:,} bytes", "split the capacity file"
            )
        return data.decode("utf-8-sig")
    except OSError as error:
        raise InputError(
            f"--check: {quoted(str(path))} cannot be read: {error.strerror}", "check the path and its permissions"
        ) from None
    except ValueError:
        raise InputError(f"--check: {quoted(str(path))} is not UTF-8 text", "add --update to write it anew") from None
