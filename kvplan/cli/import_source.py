"""`kvplan import`: a config.json, checkpoint folder, GGUF or hub id as a spec, with the fields it was read from."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kvplan.cli import options as o
from kvplan.cli.output import say, write_whole
from kvplan.errors import InputError, printable, quoted
from kvplan.importers import Imported
from kvplan.importers.source import hub_id, is_source, read_source
from kvplan.spec_text import spec_yaml

NEEDS_ARGUMENTS = True
Source = Annotated[
    str,
    typer.Argument(
        metavar="SOURCE",
        help="A config.json, a folder that holds one, a .safetensors, a .gguf or a hub id.",
        show_default=False,
    ),
]
SpecName = Annotated[
    str | None,
    typer.Option(
        "--name", metavar="NAME", help="The spec's name. Default: after the folder or file.", show_default=False
    ),
]


def command(
    source: Source,
    name: SpecName = None,
    online: o.Online = False,
    output: o.OutputFile = None,
    quiet: o.Quiet = False,
) -> int:
    """Write a model's spec, with the fields it was read from as comments."""
    text = spec_document(source, name, online)
    if output is None:
        typer.echo(text, nl=False)
    else:
        write_whole(Path(output), text)
        say([f"try: kvplan size {output} --ctx 32k"], quiet)
    return 0


def spec_document(source: str, name: str | None, online: bool = False) -> str:
    """The YAML of the model at `source`: comments that say where it came from, then the spec.

    Raises: InputError for a bad name or source; NotCountableError for what cannot be told.
    """
    read, place = _read(source, online)
    spec = read.spec
    if name is not None:
        from kvplan.schema import validated
        from kvplan.spec import SpecFields

        values = spec.fields.model_dump(exclude_none=True, exclude_defaults=True)
        spec = spec.replace(fields=validated(SpecFields, {**values, "name": name}, "--name"))
    lines = [f"# read from {printable(place)}"]
    lines += [f"#   {printable(field)}: {printable(value)}" for field, value in read.read]
    lines += [f"# note: {printable(note)}" for note in read.notes]
    return "\n".join(lines) + "\n" + spec_yaml(spec)


def _read(source: str, online: bool) -> tuple[Imported, str]:
    """What `source` holds, and what to call the place: a hub id is followed by its commit."""
    if is_source(source):
        return read_source(source), source
    wanted = hub_id(source)
    if wanted is None:
        raise InputError(
            f"SOURCE: found {quoted(source)}, allowed a config.json, a folder that holds one, a .safetensors, a .gguf or a hub id",
            "`kvplan show NAME` prints a shipped spec",
        )
    from kvplan.importers.hub import read_hub

    read = read_hub(wanted, online)
    if read is None:
        raise InputError(
            f"{quoted(source)} is neither a folder here nor in the local hub cache",
            "add --online to fetch it from the hub; `kvplan show NAME` prints a shipped spec",
        )
    return read, read.spec.source
