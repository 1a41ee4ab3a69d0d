"""`kvplan import`: a config.json, checkpoint folder or GGUF as a spec, with the fields it was read from."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kvplan.cli import options as o
from kvplan.cli.output import say, write_whole
from kvplan.errors import InputError, printable, quoted
from kvplan.importers.source import is_source, read_source
from kvplan.spec_text import spec_yaml

NEEDS_ARGUMENTS = True
Source = Annotated[
    str,
    typer.Argument(
        metavar="SOURCE", help="A config.json, a folder that holds one, a .safetensors or a .gguf.", show_default=False
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
    output: o.OutputFile = None,
    quiet: o.Quiet = False,
) -> int:
    """Write a model's spec, with the fields it was read from as comments."""
    if not is_source(source):
        raise InputError(
            f"SOURCE: found {quoted(source)}, allowed a config.json, a folder that holds one, a .safetensors or a .gguf",
            "`kvplan show NAME` prints a shipped spec",
        )
    text = spec_document(source, name)
    if output is None:
        typer.echo(text, nl=False)
    else:
        write_whole(Path(output), text)
        say([f"try: kvplan size {output} --ctx 32k"], quiet)
    return 0


def spec_document(source: str, name: str | None) -> str:
    """The YAML of the model at `source`: comments that say where it came from, then the spec.

    Raises: InputError for a bad name or source; NotCountableError for what cannot be told.
    """
    read = read_source(source)
    spec = read.spec
    if name is not None:
        from kvplan.schema import validated
        from kvplan.spec import SpecFields

        values = spec.fields.model_dump(exclude_none=True, exclude_defaults=True)
        spec = spec.replace(fields=validated(SpecFields, {**values, "name": name}, "--name"))
    lines = [f"# read from {printable(source)}"]
    lines += [f"#   {printable(field)}: {printable(value)}" for field, value in read.read]
    lines += [f"# note: {printable(note)}" for note in read.notes]
    return "\n".join(lines) + "\n" + spec_yaml(spec)
