"""How one model, GPU, engine or format reads, with the source of every figure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kvplan.errors import printable
from kvplan.lists import model_row
from kvplan.report import Block, Grid, Heading, Lines, Report
from kvplan.report.size_view import number
from kvplan.results import document
from kvplan.units import in_unit

if TYPE_CHECKING:
    from kvplan.catalogue import Found
    from kvplan.engine import Engine
    from kvplan.formats import Format
    from kvplan.gpu import Gpu
    from kvplan.spec import ModelSpec


def model_report(spec: ModelSpec, found: Found | None) -> Report:
    """A model: its figures, its layers as a table, notes and sources."""
    row, fields = model_row(spec), spec.fields
    facts = [
        ("hub", fields.hub or ""),
        ("aliases", ", ".join(fields.aliases)),
        ("parameters", f"{fields.parameters:,}" if fields.parameters else "not known"),
        ("weights", "; ".join(f"{p.part} {p.parameters:,} in {p.format}" for p in fields.weights)),
        ("maximum context", f"{fields.max_context:,} tokens" if fields.max_context else "none"),
        ("dtype", fields.dtype),
        ("bytes per token", number(row.bytes_per_token)),
        ("fixed bytes per sequence", f"{row.fixed_bytes_per_sequence:,}" if row.fixed_bytes_per_sequence else ""),
        ("confidence", fields.confidence or ""),
        ("file", str(found.path) if found else spec.source),
    ]
    layers = [(f"{count:,}", layer.name, _kind_text(kind)) for count, layer in spec.runs for kind in layer.kinds]
    blocks: list[Block] = [
        Heading(fields.name),
        _facts(facts),
        Grid(("layers", "name", "keeps"), frozenset({0}), tuple(_merged(layers))),
        *_texts("note", [fields.notes] if fields.notes else []),
        *_texts("source", fields.sources),
    ]
    shown = {
        "name": fields.name,
        **fields.model_dump(mode="json", exclude={"name"}, exclude_none=True, exclude_defaults=True),
        "layers": [
            {"count": count, "name": layer.name, "attention": [_dump(kind) for kind in layer.kinds]}
            for count, layer in spec.runs
        ],
        "bytes_per_token": row.bytes_per_token,
        "fixed_bytes_per_sequence": row.fixed_bytes_per_sequence,
    }
    return _report(shown, blocks)


def _dump(kind: Any) -> dict[str, Any]:
    dumped: dict[str, Any] = kind.model_dump(exclude_none=True)
    return {"type": kind.type, **{key: value for key, value in dumped.items() if key != "type"}}


def _kind_text(kind: Any) -> str:
    return ", ".join(
        str(value) if key == "type" else f"{key} {value:,}" if isinstance(value, int) else f"{key} {value}"
        for key, value in _dump(kind).items()
    )


def _merged(rows: list[tuple[str, str, str]]) -> list[tuple[str, str, str]]:
    """Long alternating patterns as one row per kind of layer."""
    if len(rows) <= 12:
        return rows
    counts: dict[tuple[str, str], int] = {}
    for count, name, text in rows:
        counts[name, text] = counts.get((name, text), 0) + int(count.replace(",", ""))
    return [(f"{count:,}", name, text) for (name, text), count in counts.items()]


def gpu_report(gpu: Gpu, unit: str) -> Report:
    """A GPU: memory with its range and source, speeds, links, prices with their dates."""
    memory = gpu.memory
    total = (
        f"{in_unit(memory.total_bytes, unit)} {unit}, {memory.total_bytes:,} bytes"
        if memory.total_bytes
        else "not known"
    )
    seen = f"{memory.low_bytes:,} to {memory.high_bytes:,} bytes" if memory.low_bytes and memory.high_bytes else ""
    facts = [
        ("title", gpu.title or ""),
        ("aliases", ", ".join(gpu.aliases)),
        ("label", memory.label or ""),
        ("driver-reported total", total),
        ("range seen", seen),
        ("basis", memory.basis or ""),
        ("memory confidence", memory.confidence or ""),
        ("shared with the CPU", memory.unified.rule if memory.unified else ""),
        (
            "usable of it",
            f"{memory.unified.usable_bytes:,} bytes" if memory.unified and memory.unified.usable_bytes else "",
        ),
        ("bandwidth", _figures(gpu.bandwidth)),
        ("dense TFLOPS", _figures(gpu.tflops)),
        ("links", _figures(gpu.links)),
        ("node", _figures(gpu.node)),
        ("power", _figures(gpu.tdp_watts)),
        ("launch", gpu.launch or ""),
        ("status", gpu.status or ""),
    ]
    prices = tuple(
        (
            str(p.get("kind", "")).replace("_", " "),
            f"{p.get('low_usd', '')}",
            f"{p.get('high_usd', '')}",
            str(p.get("date", "")),
            str(p.get("trust", "")),
        )
        for p in gpu.prices
    )
    blocks: list[Block] = [Heading(gpu.name), _facts(facts)]
    if prices:
        blocks.append(Grid(("price, USD", "low", "high", "date", "trust"), frozenset({1, 2}), prices))
    blocks += [*_texts("note", [n for n in (memory.note, gpu.notes) if n]), *_texts("memory source", memory.sources)]
    return _report(gpu.model_dump(mode="json", by_alias=True, exclude_none=True, exclude_defaults=True), blocks)


def _figures(values: dict[str, Any]) -> str:
    shown = {key: value for key, value in values.items() if key not in ("sources", "confidence", "note")}
    text = ", ".join(f"{key.replace('_', ' ')} {value}" for key, value in shown.items())
    return f"{text} ({values['confidence']} confidence)" if text and "confidence" in values else text


def engine_report(engine: Engine) -> Report:
    """An engine: its versions, source and options with their defaults."""
    facts = [("what it is", engine.SUMMARY), ("versions", ", ".join(engine.VERSIONS)), ("source", engine.SOURCE)]
    options = tuple(
        (
            f"-E {key}=",
            option.kind if isinstance(option.kind, str) else ", ".join(option.kind),
            option.default,
            option.meaning,
        )
        for key, option in engine.OPTIONS.items()
    )
    blocks: list[Block] = [
        Heading(engine.NAME),
        _facts(facts),
        Grid(("option", "takes", "default", "meaning"), frozenset(), options),
    ]
    shown = {
        "name": engine.NAME,
        "versions": list(engine.VERSIONS),
        "summary": engine.SUMMARY,
        "source": engine.SOURCE,
        "options": list(engine.OPTIONS),
    }
    return _report(shown, blocks)


def format_report(chosen: Format) -> Report:
    """A format: bits per element, what it holds, and where its bytes are written down."""
    from kvplan.lists import format_rows

    row = next(r for r in format_rows() if r.name == chosen.name)
    facts = [
        ("what it stores", row.summary),
        ("holds", row.holds),
        ("bits per element", f"{row.bits:g}"),
        ("with metadata", f"{row.bits_with_metadata:.6g}"),
        ("source", row.source),
    ]
    shown = {
        "name": row.name,
        "holds": row.holds,
        "bits": row.bits,
        "bits_with_metadata": row.bits_with_metadata,
        "summary": row.summary,
        "source": row.source,
    }
    return _report(shown, [Heading(row.name), _facts(facts)])


def _facts(facts: list[tuple[str, str]]) -> Grid:
    return Grid(("", ""), frozenset(), tuple((name, printable_lines(value)) for name, value in facts if value))


def _texts(name: str, texts: list[str]) -> list[Block]:
    return [Lines(tuple(f"{name}: {printable_lines(text)}" for text in texts))] if texts else []


def printable_lines(text: str) -> str:
    """A long text as one line without control characters; a spec may be a stranger's."""
    return "".join(c if c.isprintable() else " " if c in "\n\t" else printable(c) for c in text)


def _report(shown: dict[str, Any], blocks: list[Block]) -> Report:
    return Report(
        document("show", [shown]),
        ({k: v for k, v in shown.items() if not isinstance(v, list | dict)},),
        tuple(blocks),
    )
