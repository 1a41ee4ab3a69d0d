"""JSON Schemas of the commands' documents, generated from the result classes."""

from __future__ import annotations

import json
from typing import Any

from pydantic import TypeAdapter

from kvplan import results as r

RESULTS: dict[str, Any] = {
    "size": r.SizeResult,
    "fit": r.FitResult,
    "models": r.ModelRow,
    "gpus": r.GpuRow,
    "engines": r.EngineRow,
    "formats": r.FormatRow,
}


def schema(command: str) -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) of `command`'s document."""
    items = TypeAdapter(RESULTS[command]).json_schema(ref_template="#/$defs/{model}")
    definitions = items.pop("$defs", {})
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"kvplan {command}",
        "type": "object",
        "required": ["schema", "results"],
        "properties": {"schema": {"const": f"kvplan.{command}/1"}, "results": {"type": "array", "items": items}},
        "$defs": definitions,
    }


def schema_text(command: str) -> str:
    """The schema as indented JSON."""
    return json.dumps(schema(command), indent=2)
