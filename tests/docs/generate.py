"""The reference pages, written from the code: `python tests/docs/generate.py` writes them anew."""

from __future__ import annotations

import json
import re
import sys
import tempfile
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1]))

from logged_budgets import BUDGETS, Compared
from pages import REFERENCE, run

from kvplan.attention import KINDS, kind_class
from kvplan.catalogue import overheads_text
from kvplan.cli import COMMANDS
from kvplan.engine import ENGINES
from kvplan.gpu import Gpu, Memory, Unified
from kvplan.json_schema import DOCUMENTS, RESULTS, schema_text
from kvplan.lists import format_rows
from kvplan.policy import POLICIES
from kvplan.spec import Dimensions, Expect, SpecFields, WeightPart
from kvplan.weights import WIDTHS

NOTICE = "<!-- Written by tests/docs/generate.py; change the code, not this page. -->"


def pages() -> dict[str, str]:
    """Every generated file below docs/reference, by its path there."""
    with tempfile.TemporaryDirectory() as folder:
        here = Path(folder)
        found = {
            "commands.md": _commands(here),
            "models.md": _listed("models", "Models", "The models that ship with kvplan.", here),
            "gpus.md": _listed("gpus", "GPUs", "The accelerators that ship with kvplan.", here),
            "formats.md": _formats(),
            "engines.md": _engines(here),
            "kinds.md": _docstrings("Attention kinds", "attention", KINDS, "What one layer keeps for one sequence."),
            "policies.md": _docstrings("Policies", "policy", POLICIES, "What stays when a cache is bounded."),
            "overheads.md": _overheads(),
            "weights.md": _weights(),
            "spec-fields.md": _spec_fields(),
            "gpu-fields.md": _gpu_fields(),
            "logged-budgets.md": _logged_budgets(),
        }
    return found | {f"schemas/{name}.json": f"{schema_text(name).strip()}\n" for name in (*RESULTS, *DOCUMENTS)}


def stale() -> Iterator[str]:
    """The generated files that differ from what the code says, or are not the code's."""
    wanted = pages()
    for path, text in wanted.items():
        file = REFERENCE / path
        if not file.is_file() or file.read_text("utf-8") != text:
            yield path
    for file in (*REFERENCE.rglob("*.md"), *REFERENCE.rglob("*.json")):
        if str(file.relative_to(REFERENCE)) not in wanted:
            yield str(file.relative_to(REFERENCE))


def write() -> None:
    """Write every page."""
    for path, text in pages().items():
        file = REFERENCE / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")


def _page(title: str, *parts: str) -> str:
    return "\n\n".join([f"# {title}", NOTICE, *parts]) + "\n"


def _commands(here: Path) -> str:
    parts = ["Every command and its options, as `--help` prints them."]
    for command in ("", *COMMANDS):
        words = f"kvplan {command}".strip()
        text = "\n".join(line.rstrip() for line in run(f"{words} --help", here)[1].strip().splitlines())
        parts += [f"## {words}", f"```console\n$ {words} --help\n{text}\n```"]
    return _page("Commands", *parts)


def _listed(command: str, title: str, summary: str, here: Path) -> str:
    table = run(f"kvplan {command} --format markdown --quiet", here)[1].strip()
    return _page(title, f"{summary}\n`kvplan show NAME` adds aliases, sources and notes.", table)


def _formats() -> str:
    rows = [
        (f"`{row.name}`", row.holds, f"{row.bits:g}", f"{row.bits_with_metadata:.4g}", row.summary, row.source)
        for row in format_rows("")
    ]
    head = ("format", "holds", "bits", "with metadata", "what it stores", "source")
    return _page(
        "Storage formats",
        "Bits per element, of the codes alone and with their metadata, at the usual row width.\n"
        "`kvplan formats` prints the same table.",
        _table(head, rows),
    )


def _engines(here: Path) -> str:
    parts = ["What `--engine` takes, with the options that `-E` passes on."]
    for name in ENGINES:
        shown = run(f"kvplan show {name} --format markdown --quiet", here)[1].strip()
        parts.append(shown.replace("### ", "## ", 1))
    return _page("Engines", *parts)


def _docstrings(title: str, package: str, roster: dict[str, str], summary: str) -> str:
    """One section per member: its docstring without the example, which its own test runs."""
    parts = [summary]
    for name, module in roster.items():
        text = import_module(f"kvplan.{package}.{module}").__doc__ or ""
        paragraphs = [" ".join(p.split()) for p in text.strip().split("\n\n") if not p.startswith(">>>")]
        parts += [f"## `{name}`", *("\n".join(re.split(r"(?<=[a-z0-9)`][.]) (?=[A-Z`])", p)) for p in paragraphs)]
    return _page(title, *parts)


def _overheads() -> str:
    rows = [
        (
            entry["name"],
            *(f"{entry[f'{edge}_bytes'] / 2**30:.2f}" for edge in ("low", "best", "high")),
            entry["note"],
            "; ".join(entry["sources"]),
        )
        for entry in overheads_text()
    ]
    return _page(
        "Overheads",
        "What a card holds beside weights and cache, in GiB, as other people measured it.",
        _table(("name", "low", "best", "high", "note", "sources"), rows),
    )


def _logged_budgets() -> str:
    compared = [Compared(entry) for entry in BUDGETS]
    inside = sum(found.inside for found in compared)
    widths = sorted(found.high - found.low for found in compared)
    rows = [
        (
            found.entry["id"],
            f"`{found.entry['engine']}`",
            found.entry["use"],
            f"{found.entry['available']:.2f}",
            *(f"{value:.2f}" for value in (found.best, found.low, found.high)),
            "yes" if found.inside else f"no: {found.entry['outside']}",
            found.entry["source"],
        )
        for found in compared
    ]
    return _page(
        "Logged budgets",
        "What engines printed as the room for their cache, in GiB on one rank, beside what kvplan says.\n"
        "Weights are those that the log prints, where it does; `fit` marks the logs that constants were taken from.",
        f"{inside} of {len(compared)} logged budgets lie inside the interval; its width is {widths[0]:.1f} to "
        f"{widths[-1]:.1f} GiB, {widths[len(widths) // 2]:.1f} in the middle.",
        _table(("log", "engine", "use", "logged", "best", "low", "high", "inside", "source"), rows),
    )


def _weights() -> str:
    rows = [
        (f"`{name}`", f"{float(width.bits):.6g}", "yes" if width.exact else "no", width.source)
        for name, width in WIDTHS.items()
    ]
    return _page(
        "Weight formats",
        "What `--weights` takes; bytes such as `38GiB` work too.\n"
        "Where not every parameter takes the same, 3 % are added to the upper bound, 7 % for mxfp4, whose kernels pad.\n"
        "Formats that quantize a released model leave its embeddings and head as they were, where the spec gives `dimensions`.",
        _table(("format", "bits per parameter", "exact", "source"), rows),
    )


def _spec_fields() -> str:
    parts = [
        "Every key of a model spec; [the guide](../spec.md) explains how they go together.",
        "## The model",
        _fields(SpecFields),
        "`layers`, `pattern`, `attention` and `draft` say what each layer keeps.",
        "### `weights` entries",
        _fields(WeightPart),
        "### `expect`",
        _fields(Expect),
        "## `dimensions`",
        "Widths that activations and quantized weights depend on; the cache never does.",
        _fields(Dimensions),
        "## Attention kinds",
    ]
    for name in KINDS:
        cls = kind_class(name)
        first = (sys.modules[cls.__module__].__doc__ or "").strip().splitlines()[0]
        parts += [f"### `{name}`", first, _fields(cls)]
    return _page("Spec fields", *parts)


def _gpu_fields() -> str:
    return _page(
        "GPU fields",
        "Every key of a GPU file, as `--gpu FILE.yaml` reads it.",
        "## The device",
        _fields(Gpu),
        "## `memory`",
        _fields(Memory),
        "## `memory.unified`",
        _fields(Unified),
    )


def _fields(cls: Any) -> str:
    schema = cls.model_json_schema()
    required = set(schema.get("required", ()))
    rows = []
    for name, field in schema["properties"].items():
        default = "required" if name in required else _default(field.get("default"))
        rows.append((f"`{name}`", _type(field), default))
    return _table(("key", "what it takes", "default"), rows)


def _default(value: Any) -> str:
    empty = value in (None, [], {}) or (isinstance(value, dict) and not any(value.values()))
    return "" if empty else f"`{json.dumps(value)}`"


def _type(field: dict[str, Any]) -> str:
    if "const" in field:
        return f"`{field['const']}`"
    if "enum" in field:
        return ", ".join(f"`{word}`" for word in field["enum"])
    if "anyOf" in field:
        return " or ".join(_type(one) for one in field["anyOf"] if one.get("type") != "null")
    if "$ref" in field:
        return f"a mapping, `{field['$ref'].rpartition('/')[2]}`"
    match field.get("type"):
        case "integer":
            return f"whole number{_bounds(field)}"
        case "number":
            return f"number{_bounds(field)}"
        case "array":
            return f"list of {_type(field['items'])}"
        case "object":
            return "mapping"
        case _:
            pattern = f" like `{field['pattern']}`" if "pattern" in field else ""
            return f"text{pattern}"


def _bounds(field: dict[str, Any]) -> str:
    low, high = field.get("minimum"), field.get("maximum")
    return f", {low:,.0f} to {high:,.0f}" if low is not None and high is not None else ""


def _table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    lines = [head, tuple("---" for _ in head), *rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |" for line in lines)


if __name__ == "__main__":
    write()
