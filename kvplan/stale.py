"""A committed table set against what it would be now: the cells that moved, by how much, and because of which input.

The committed text carries the fingerprints of what it was made from: JSON as a key, Markdown and HTML as a
comment at the end, CSV and plain tables not at all.
"""

from __future__ import annotations

import csv
import difflib
import io
import json
import re
from typing import Any

from kvplan.errors import printable
from kvplan.inputs import changed

MARK = "<!-- kvplan inputs: "
END = " -->"
MOST_LINES = 200
KEYS = ("model", "gpu", "count", "tp", "pp", "context", "batch", "kv_dtype", "policy", "engine")
"""What tells one row of JSON or CSV from another."""


def kept_text(text: str, format: str, inputs: dict[str, Any]) -> str:
    """`text` as it is committed, with the fingerprints of its inputs where the format can hide them."""
    if format not in ("markdown", "html"):
        return text
    hidden = json.dumps(inputs, sort_keys=True).replace("--", "\\u002d\\u002d")
    return f"{text}\n{MARK}{hidden}{END}\n"


def moved(old: str, new: str, format: str, name: str) -> list[str]:
    """What differs between the committed `old` and `new`, for reading: causes, cells, and the lines themselves."""
    lines = [f"{printable(name)} is stale"]
    causes = _causes(old, new, format)
    lines += [f"  because: {cause}" for cause in causes]
    cells = _moved_cells(_cells(old, format), _cells(new, format))
    lines += [f"  {cell}" for cell in cells[:MOST_LINES]]
    if len(cells) > MOST_LINES:
        lines.append(f"  and {len(cells) - MOST_LINES:,} more cells")
    diff = [
        _clean(line)
        for line in difflib.unified_diff(
            _body(old).splitlines(), _body(new).splitlines(), f"{name} (committed)", f"{name} (now)", lineterm="", n=1
        )
    ]
    lines += diff[:MOST_LINES]
    if len(diff) > MOST_LINES:
        lines.append(f"and {len(diff) - MOST_LINES:,} more lines")
    return lines


def _clean(line: str) -> str:
    return "".join(c if c.isprintable() else printable(c) for c in line)[:2000]


def _body(text: str) -> str:
    """The text without its fingerprints, whose change is told as a cause."""
    return "\n".join(line for line in text.split("\n") if not line.startswith(MARK))


def _causes(old: str, new: str, format: str) -> list[str]:
    before, after = _inputs(old, format), _inputs(new, format)
    if after is None:
        return ["not told: this format does not keep what it was made from (Markdown, HTML and JSON do)"]
    if before is None:
        return ["not told: the committed file does not say what it was made from"]
    return [printable(cause) for cause in changed(before, after)] or ["the committed file was changed by hand"]


def _inputs(text: str, format: str) -> dict[str, Any] | None:
    try:
        if format == "json":
            found = json.loads(text)["inputs"]
        else:
            start = text.index(MARK) + len(MARK)
            found = json.loads(text[start : text.index(END, start)])
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


Cells = dict[tuple[str, ...], str]


def _cells(text: str, format: str) -> Cells:
    """Every cell by its place; nothing where the text cannot be read as such a table."""
    match format:
        case "markdown":
            return _markdown_cells(text)
        case "json" | "csv":
            return _row_cells(text, format)
        case _:
            return {}


def _markdown_cells(text: str) -> Cells:
    found: Cells = {}
    heading = ""
    header: list[str] = []
    for line in text.split("\n"):
        if line.startswith("#"):
            heading, header = line.lstrip("# "), []
        elif line.startswith("|"):
            row = [cell.strip().replace("\\", "") for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
            if not header:
                header = row
            elif not set("".join(row)) <= set("-: ") and len(row) == len(header):
                for column, cell in zip(header[1:], row[1:], strict=True):
                    found[heading, row[0], column, header[0]] = cell
        else:
            header = []
    return found


def _row_cells(text: str, format: str) -> Cells:
    rows: Any
    try:
        rows = json.loads(text)["rows"] if format == "json" else list(csv.DictReader(io.StringIO(text)))
        found: Cells = {}
        for row in rows:
            place = tuple(f"{key} {row[key]}" for key in KEYS if row.get(key) not in (None, "", "full"))
            for name, value in row.items():
                if name not in KEYS:
                    found[*place, str(name)] = str(value)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, csv.Error):
        return {}
    return found


def _moved_cells(old: Cells, new: Cells) -> list[str]:
    found = []
    for place in dict.fromkeys((*old, *new)):
        before, after = old.get(place), new.get(place)
        if before == after:
            continue
        where = _clean(", ".join(word for word in place if word))
        if before is None:
            found.append(f"{where}: {_clean(after or '')} is new")
        elif after is None:
            found.append(f"{where}: {_clean(before)} is gone")
        else:
            found.append(f"{where}: {_clean(before)} -> {_clean(after)}{_by(before, after)}")
    return found


def _by(before: str, after: str) -> str:
    try:
        was, now = (float(text.rstrip(" !").replace(",", "")) for text in (before, after))
    except ValueError:
        return ""
    share = f", {(now - was) / was:+.1%}" if was else ""
    return f" ({now - was:+,.10g}{share})"
