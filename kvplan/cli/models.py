"""`kvplan models`: the models kvplan knows, searchable."""

from __future__ import annotations

from kvplan.cli import options as o
from kvplan.cli.lists import print_list


def command(
    query: o.Query = None,
    specs: o.Specs = None,
    format: o.OutputFormat = "table",
    output: o.OutputFile = None,
    unit: o.Unit = "GiB",
    quiet: o.Quiet = False,
    no_color: o.NoColor = False,
    json_schema: o.JsonSchema = False,
) -> int:
    """List the models kvplan knows; QUERY narrows the list."""
    return print_list("models", query, specs, format, output, unit, quiet, no_color, json_schema)
