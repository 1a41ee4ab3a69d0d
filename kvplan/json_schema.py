"""JSON Schemas of the commands' documents, generated from the result classes."""

from __future__ import annotations

import json
from typing import Any, get_args, get_origin, get_type_hints

from pydantic import ConfigDict, TypeAdapter, create_model

from kvplan import results as r
from kvplan.explained import ExplainResult
from kvplan.record import Record

RESULTS: dict[str, type[Record]] = {
    "size": r.SizeResult,
    "fit": r.FitResult,
    "table": r.TableRow,
    "measure": r.MeasureResult,
    "check": r.CheckVerdict,
    "models": r.ModelRow,
    "gpus": r.GpuRow,
    "engines": r.EngineRow,
    "formats": r.FormatRow,
}
MORE: dict[str, dict[str, Any]] = {"measure": {"device": {"type": "string"}}, "table": {"inputs": {"type": "object"}}}
"""Keys that a document has beside its results."""
MAYBE: dict[str, dict[str, type[Record]]] = {"measure": {"techniques": r.TechniqueResult}}
"""Lists that a document has where they were asked for."""


DOCUMENTS: dict[str, type[Record]] = {"explain": ExplainResult}
"""Commands with one answer, whose fields stand in the document itself."""


def schema(command: str) -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) of `command`'s document."""
    if command in DOCUMENTS:
        return _flat(command)
    model = _model(RESULTS[command], {})
    items = TypeAdapter(model).json_schema(mode="serialization")
    definitions = items.pop("$defs", {})
    lists = {}
    for name, record in MAYBE.get(command, {}).items():
        one = TypeAdapter(_model(record, {})).json_schema(mode="serialization")
        definitions |= one.pop("$defs", {})
        lists[name] = {"type": "array", "items": one}
    key = {"table": "rows", "check": "verdicts"}.get(command, "results")
    more = MORE.get(command, {})
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"kvplan {command}",
        "type": "object",
        "required": ["schema", *more, key],
        "properties": {
            "schema": {"const": f"kvplan.{command}/1"},
            **more,
            key: {"type": "array", "items": items},
            **lists,
        },
        "$defs": definitions,
    }


def _flat(command: str) -> dict[str, Any]:
    """The schema of a document that is one result."""
    document = TypeAdapter(_model(DOCUMENTS[command], {})).json_schema(mode="serialization")
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", **document, "title": f"kvplan {command}"}
    head["properties"] = {"schema": {"const": f"kvplan.{command}/1"}, **document["properties"]}
    head["required"] = ["schema", *document["required"]]
    return head


def schema_text(command: str) -> str:
    """The schema as indented JSON."""
    return json.dumps(schema(command), indent=2)


def _model(record: type[Record], made: dict[type[Record], Any]) -> Any:
    """A pydantic model with the fields of `record`, nested records included."""
    if record not in made:
        hints = get_type_hints(record)
        fields: dict[str, Any] = {name: (_nested(hints[name], made), ...) for name in record.__match_args__}
        description = (record.__doc__ or "").strip()
        made[record] = create_model(
            record.__name__,
            __doc__=description,
            __config__=ConfigDict(extra="forbid"),
            **fields,
        )
    return made[record]


def _nested(hint: Any, made: dict[type[Record], Any]) -> Any:
    """`hint` with every record in it replaced by its model."""
    if isinstance(hint, type) and issubclass(hint, Record):
        return _model(hint, made)
    inner = get_args(hint)
    if not inner:
        return hint
    replaced = tuple(_nested(part, made) for part in inner)
    origin = get_origin(hint)
    if hasattr(origin, "__class_getitem__"):
        return origin.__class_getitem__(replaced)
    return _union(replaced)


def _union(parts: tuple[Any, ...]) -> Any:
    joined = parts[0]
    for part in parts[1:]:
        joined = joined | part
    return joined
