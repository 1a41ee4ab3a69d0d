"""How a size answer reads: the headline, the parts that sum to it, the card's memory, notes."""

from __future__ import annotations

from typing import Any

from kvplan.report import Block, Grid, Heading, Lines, Report
from kvplan.results import MeasureResult, SizeResult, document
from kvplan.units import in_unit, places_for


def size_report(results: list[SizeResult], unit: str) -> Report:
    """The report of one or several sizes: one in full, several as a table with a row each."""
    blocks = _full(results[0], unit) if len(results) == 1 else _compared(results, unit)
    if len(results) == 1 and results[0].serve is not None:
        from kvplan.report.serve_view import reading_blocks, serve_blocks

        blocks = [*serve_blocks(results[0], results[0].serve), *blocks, *reading_blocks(results[0].serve)]
    return Report(document("size", results), tuple(_row(result) for result in results), tuple(blocks))


def _full(result: SizeResult, unit: str) -> list[Block]:
    blocks: list[Block] = [Heading(title(result)), Lines(_answer(result), strong=True), Lines(_rates(result))]
    blocks.append(_parts(result, unit))
    if result.engine:
        blocks += _engine(result, unit)
    if result.draft:
        draft = result.draft
        blocks.append(
            Lines(
                (
                    f"draft {draft.model}: {in_unit(draft.total_bytes, unit)} {unit} of cache beside it, {in_unit(draft.per_rank_bytes, unit)} {unit} on one card",
                ),
            ),
        )
    if result.gpu:
        from kvplan.report.card_view import card_blocks

        blocks += card_blocks(result, result.gpu, unit)
    if result.time:
        from kvplan.report.time_view import time_blocks

        blocks += time_blocks(result.time)
    if result.formula:
        blocks += [Heading("formula"), Lines(tuple(result.formula.split("\n")))]
    if result.compute:
        from kvplan.report.card_view import compute_blocks

        blocks += compute_blocks(result.compute)
    if result.notes:
        blocks.append(Lines(tuple(f"note: {note}" for note in result.notes)))
    return blocks


def title(result: SizeResult | MeasureResult) -> str:
    """Model and workload in one line."""
    found = getattr(result, "found_through", None)
    through = f" ({found})" if found else ""
    w = result.workload
    sequences = f"{w.batch:,} {'sequence' if w.batch == 1 else 'sequences'}"
    extras = [f"{name} {getattr(w, name):,}" for name in ("tp", "pp", "dcp", "ep", "dp") if getattr(w, name) > 1]
    if w.mtp:
        extras.append(f"{w.mtp} draft {'layer' if w.mtp == 1 else 'layers'}")
    if w.prefix:
        extras.append(f"{w.prefix:,} tokens shared")
    if w.encoder_tokens:
        extras.append(f"{w.encoder_tokens:,} encoder tokens")
    if w.policy != "full":
        extras.append(w.policy)
    more = "".join(f", {extra}" for extra in extras)
    time = getattr(result, "time", None)
    tokens = f"{w.context:,}" if time is None else f"{time.prompt_tokens:,} + {time.output_tokens:,}"
    return f"{result.model}{through}: {tokens} tokens x {sequences}, {cache_format(result)}{more}"


def cache_format(result: SizeResult | MeasureResult) -> str:
    """The cache's format in one word, or K's and V's where they differ."""
    w = result.workload
    return w.k_dtype if w.k_dtype == w.v_dtype else f"{w.k_dtype} K, {w.v_dtype} V"


def _answer(result: SizeResult) -> tuple[str, ...]:
    lines = [f"KV cache {_both_units(result.total_bytes)}"]
    if result.per_rank_bytes != result.total_bytes:
        lines.append(f"on the fullest rank {_both_units(result.per_rank_bytes)}")
    return tuple(lines)


def _both_units(count: int) -> str:
    """Bytes in GiB, in GB and in full."""
    gib, gb = (in_unit(count, unit, places_for(count, unit)) for unit in ("GiB", "GB"))
    return f"{gib} GiB ({gb} GB, {count:,} bytes)"


def number(value: float) -> str:
    """A whole number with separators, or a fraction to three places.

    >>> number(327680), number(5511.4375)
    ('327,680', '5,511.438')
    """
    return f"{value:,}" if isinstance(value, int) else f"{value:,.3f}"


def _rates(result: SizeResult) -> tuple[str, ...]:
    filling, full = result.bytes_per_token, result.bytes_per_token_full
    if filling == full:
        rate = f"{number(full)} bytes per token"
    else:
        bound = "windows fill" if result.workload.policy == "full" else "the policy keeps all"
        rate = f"{number(filling)} bytes per token while {bound}, {number(full)} after"
    if result.fixed_bytes_per_sequence:
        rate += f", and {result.fixed_bytes_per_sequence:,} bytes per sequence at any length"
    return (rate,)


def _parts(result: SizeResult, unit: str) -> Grid:
    rows = []
    places = places_for(result.total_bytes, unit)
    for part in result.parts:
        shape = " x ".join(f"{size:,}" for size in part.row)
        rows.append(
            (part.tensor, f"{part.layers:,}", shape, f"{part.rows:,}", part.format, in_unit(part.bytes, unit, places))
        )
    rows.append(("total", "", "", "", "", in_unit(result.total_bytes, unit, places)))
    return Grid(("tensor", "layers", "row", "rows", "format", unit), frozenset({1, 2, 3, 5}), tuple(rows), total=True)


def _engine(result: SizeResult, unit: str) -> list[Block]:
    engine = dict(result.engine or {})
    name, version, reserved = engine.pop("name"), engine.pop("version"), engine.pop("reserved_bytes")
    if reserved is None:
        return [Lines((f"{name} {version} does not take this: {engine['refused']}",))]
    reasons = engine.pop("reasons")
    ideal = result.per_rank_bytes
    rows = [
        ("architecture's need", in_unit(ideal, unit), f"{ideal:,}"),
        (f"reserved by {name}", in_unit(reserved, unit), f"{reserved:,}"),
    ]
    over = difference(reserved, ideal)
    lines = [
        f"{name} {version} reserves {in_unit(reserved, unit)} {unit}{f' ({over})' if over else ''} on one rank",
        *(f"  {reason}" for reason in reasons),
    ]
    own = tuple((key, figure(value)) for key, value in engine.items() if not isinstance(value, list | dict))
    blocks: list[Block] = [Grid(("one rank", unit, "bytes"), frozenset({1, 2}), tuple(rows)), Lines(tuple(lines))]
    if own:
        blocks.append(Grid((f"{name}'s own figures", ""), frozenset({1}), own))
    for key, items in engine.items():
        if isinstance(items, list) and items:
            blocks += _nested(key, items)
    return blocks


def _nested(name: str, items: list[Any]) -> list[Block]:
    """A list of an engine's figures as a table with a row each."""
    if not all(isinstance(item, dict) for item in items):
        return [Lines((f"{name}: {', '.join(figure(item) for item in items)}",))]
    columns = tuple(dict.fromkeys(key for item in items for key in item))
    numbers = frozenset(
        i for i, column in enumerate(columns) if not any(isinstance(item.get(column), str) for item in items)
    )
    rows = tuple(tuple(figure(item[column]) if column in item else "" for column in columns) for item in items)
    return [Lines((f"{name}:",)), Grid(columns, numbers, rows)]


def figure(value: Any) -> str:
    """An engine's own figure for reading: whole numbers with separators, fractions to four places."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    return f"{value:,.4f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)


def difference(reserved: int, ideal: int) -> str:
    """How much more or less is reserved than needed, in per cent; nothing where they are equal.

    >>> difference(1129, 1000), difference(1000, 1000)
    ('+12.9%', '')
    """
    return f"{(reserved - ideal) / ideal:+,.1%}" if ideal and reserved != ideal else ""


def past_maximum(longest: int | None, own: int | None) -> str:
    """What to add to the longest context that fits, where the model itself goes less far.

    >>> past_maximum(200_000, 131_072), past_maximum(8_192, 131_072)
    (" (past the model's own 131,072)", '')
    """
    beyond = own is not None and (longest is None or longest > own)
    return f" (past the model's own {own:,})" if beyond else ""


def unlimited(count: int | None, noun: str = "") -> str:
    """A count for reading, with its noun; None means that nothing bounds it.

    >>> unlimited(None, "tokens"), unlimited(8, "tokens")
    ('no limit', '8 tokens')
    """
    if count is None:
        return "no limit"
    return f"{count:,} {noun}".rstrip()


def _compared(results: list[SizeResult], unit: str) -> list[Block]:
    """One row a result; what is the same in all of them goes into the heading."""
    cells = [_cells(result, unit, places_for(min(r.total_bytes for r in results), unit)) for result in results]
    columns = list(dict.fromkeys(key for row in cells for key in row))
    always = {"model", unit, "GB" if unit != "GB" else unit}
    varying = [c for c in columns if c in always or len({row.get(c, "") for row in cells}) > 1]
    usual = {"policy": "full", "mtp": "0", **dict.fromkeys(("tp", "pp", "dcp", "ep", "dp", "cards"), "1")}
    constant = [
        f"{c} {cells[0][c]}" for c in columns if c not in varying and cells[0].get(c, "") not in ("", usual.get(c))
    ]
    numbers = frozenset(i for i, c in enumerate(varying) if c not in _WORDS)
    grid = Grid(tuple(varying), numbers, tuple(tuple(row.get(c, "") for c in varying) for row in cells))
    blocks: list[Block] = [Heading(", ".join(constant))] if constant else []
    notes = dict.fromkeys(f"note: {result.model}: {note}" for result in results for note in result.notes)
    return [*blocks, grid, *([Lines(tuple(notes))] if notes else [])]


_WORDS = frozenset({"model", "format", "policy", "engine", "gpu", "fits", "starts", "why", "bound"})


def _cells(result: SizeResult, unit: str, places: int) -> dict[str, str]:
    w, gpu = result.workload, result.gpu
    cells = {
        "model": result.model,
        "tokens": f"{w.context:,}",
        "sequences": f"{w.batch:,}",
        "format": cache_format(result),
        "policy": w.policy,
    }
    for name in ("tp", "pp", "dcp", "ep", "dp", "mtp"):
        cells[name] = f"{getattr(w, name):,}"
    cells[unit] = in_unit(result.total_bytes, unit, places)
    if unit != "GB":
        cells["GB"] = in_unit(result.total_bytes, "GB", places)
    cells["B/token"] = number(result.bytes_per_token_full)
    if result.per_rank_bytes != result.total_bytes:
        cells[f"rank {unit}"] = in_unit(result.per_rank_bytes, unit, places)
    if result.engine:
        cells |= _engine_cells(result, unit, places)
    if result.serve and result.serve.starts is not None:
        cells["starts"] = "yes" if result.serve.starts else "no"
    if gpu:
        cells |= {"gpu": gpu.name or "", "cards": f"{gpu.count:,}", "fits": "yes" if gpu.fits else "no"}
        if result.time:
            from kvplan.report.time_view import time_cells

            cells |= time_cells(result.time)
        elif gpu.kv_budget_bytes is not None:
            cells |= {"max tokens": unlimited(gpu.max_context), "max seqs": unlimited(gpu.max_batch)}
    return cells


def _engine_cells(result: SizeResult, unit: str, places: int) -> dict[str, str]:
    engine = result.engine or {}
    name = f"{engine['name']} {engine['version']}" if engine["name"] != "ideal" else "ideal"
    reserved = engine["reserved_bytes"]
    if reserved is None:
        return {"engine": name, f"reserved {unit}": "-", "why": str(engine["refused"])}
    return {
        "engine": name,
        f"reserved {unit}": in_unit(reserved, unit, places),
        "over": difference(reserved, result.per_rank_bytes),
        "why": str(next(iter(engine["reasons"]), "")),
    }


def _row(result: SizeResult) -> dict[str, Any]:
    """One flat CSV row, whole bytes."""
    row: dict[str, Any] = {"model": result.model}
    row |= {name: getattr(result.workload, name) for name in result.workload.__match_args__}
    for name in (
        "total_bytes",
        "bytes_per_token",
        "bytes_per_token_full",
        "fixed_bytes_per_sequence",
        "per_rank_bytes",
        "copied_bytes",
    ):
        row[name] = getattr(result, name)
    if result.engine:
        row |= {f"engine_{key}": value for key, value in result.engine.items() if not isinstance(value, list)}
    if result.gpu:
        nested = ("overheads", "sources")
        row |= {f"gpu_{name}": getattr(result.gpu, name) for name in result.gpu.__match_args__ if name not in nested}
    if result.serve:
        from kvplan.report.serve_view import serve_row

        row |= {f"serve_{key}": value for key, value in serve_row(result.serve).items()}
    if result.time:
        from kvplan.report.time_view import time_row

        row |= time_row(result.time)
    return row
