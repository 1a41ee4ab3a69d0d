"""`kvplan engines`: the engines kvplan knows, searchable."""

from __future__ import annotations

from kvplan.cli import options as o
from kvplan.cli.lists import print_list


def command(
    query: o.Query = None,
    format: o.OutputFormat = "table",
    output: o.OutputFile = None,
    unit: o.Unit = "GiB",
    quiet: o.Quiet = False,
    no_color: o.NoColor = False,
    json_schema: o.JsonSchema = False,
) -> int:
    """List the engines kvplan knows; QUERY narrows the list."""
    return print_list("engines", query, None, format, output, unit, quiet, no_color, json_schema)
