"""How answers read: every report has a document, rows and blocks, and strangers' text stays text."""

from __future__ import annotations

import csv
import io
import json
from html.parser import HTMLParser

import pytest
from strategies import SPECS, shipped

import kvplan
from kvplan.catalogue import all_gpus
from kvplan.errors import InputError
from kvplan.report import FORMATS, Grid, Heading, Lines, Report, render
from kvplan.report.show_view import gpu_report, model_report
from kvplan.report.size_view import size_report

NASTY = [
    "[red]x[/red]",
    "\x1b[31mred",
    "\x9b31mred",
    "a|b",
    "<b>&amp;</b>",
    "`*_`",
    "=1+1",
    "-1+1",
    "@x",
    "a\nb",
    "é😀",
    "…",
]


def report(*cells: str) -> Report:
    """A report whose heading, line and cells are all the same words."""
    grid = Grid(("name", "number"), frozenset({1}), tuple((cell, "1,000") for cell in cells), total=True)
    rows = tuple({"name": cell, "number": 1000, "yes": True, "nothing": None} for cell in cells)
    return Report({"schema": "x/1", "results": list(cells)}, rows, (Heading(cells[0]), grid, Lines(cells, strong=True)))


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("cell", NASTY, ids=ascii)
def test_a_strangers_text_survives_every_format(name: str, cell: str) -> None:
    """Markup, pipes, tags, formulas and letters come out as they went in, or escaped as the format asks."""
    text = render(report(cell), name, color=False, width=100)
    if cell == "\x9b31mred":
        assert name in ("table", "markdown", "html") or "\x9b" not in text
        return
    shown = {
        "json": json.dumps(cell, ensure_ascii=False),
        "html": cell.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;"),
    }.get(name)
    if name == "csv":
        read = next(csv.DictReader(io.StringIO(text)))
        assert cell.replace("\x1b", "\\x1b") == read["name"].removeprefix("'")
        assert read["name"][0] not in "=+-@", "a spreadsheet would run it"
        assert ("1000", "true", "") == (read["number"], read["yes"], read["nothing"])
    elif shown is not None:
        assert shown in text
    elif name == "markdown":
        table = [line for line in text.splitlines() if line.startswith("|")]
        assert {3} == {line.replace("\\|", "").count("|") for line in table}, "no cell opens another"
    else:
        assert cell.replace("\x1b", "") in text.replace("\x1b", "") or "\n" in cell


def test_a_table_of_html_is_well_formed() -> None:
    """Every tag that is opened is closed."""

    class Tags(HTMLParser):
        open: list[str] = []

        def handle_starttag(self, tag: str, attrs: object) -> None:
            if tag != "meta":
                self.open.append(tag)

        def handle_endtag(self, tag: str) -> None:
            assert tag == self.open.pop()

    parser = Tags()
    parser.feed(render(report(*NASTY), "html", color=False))
    assert [] == parser.open


def test_an_unknown_format_is_refused() -> None:
    """With the formats there are."""
    with pytest.raises(InputError, match="table, json, csv, markdown, html"):
        render(report("x"), "yaml", color=False)


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_ends_in_one_newline(name: str) -> None:
    """Files end as files end."""
    text = render(report("x"), name, color=False)
    assert text.endswith("\n")
    assert not text.endswith("\n\n")


def test_colour_adds_nothing_but_escapes() -> None:
    """The words are the same."""
    import re

    plain, coloured = (render(report("x"), "table", color=color, width=80) for color in (False, True))
    assert "\x1b[" in coloured
    assert plain.split() == re.sub(r"\x1b\[[0-9;]*m", "", coloured).split()


@pytest.mark.parametrize("name", sorted(path.stem for path in SPECS.glob("*.yaml")))
def test_every_model_reads_on_a_page(name: str) -> None:
    """Figures, layers, sources; every source of the file stands on the page."""
    page = render(model_report(shipped(name), None), "table", color=False, width=200)
    assert page.startswith(f"{name}\n")
    assert page.replace("\n", "").isprintable()
    assert page.count("source: ") == len(shipped(name).fields.sources)


def test_every_gpu_reads_on_a_page() -> None:
    """Each begins with its name and is printable."""
    for gpu in all_gpus():
        page = render(gpu_report(gpu, "GiB"), "table", color=False, width=200)
        assert page.startswith(f"{gpu.name}\n")
        assert page.replace("\n", "").isprintable()


def test_one_answer_is_shown_in_full_and_several_as_rows() -> None:
    """Parts and notes for one; a line each for more, what is the same in all above them."""
    one = kvplan.size("llama-3.1-8b", ctx=8000)
    two = kvplan.size("llama-3.1-8b", ctx=32000)
    full = render(size_report([one], "GiB"), "table", color=False, width=100)
    rows = render(size_report([one, two], "GiB"), "table", color=False, width=100)
    assert "tensor" in full
    assert "tensor" not in rows
    assert ["8,000", "32,000"] == [line.split()[1] for line in rows.splitlines() if line.startswith("llama-3.1-8b")]
    assert rows.startswith("sequences 1, format bf16")


def test_the_parts_of_a_page_add_up_to_its_total() -> None:
    """In bytes, nothing is rounded: the rows above the total are the total."""
    text = render(size_report([kvplan.size("gemma-3-27b", ctx=50_000)], "bytes"), "table", color=False, width=120)
    table = [line.split() for line in text.splitlines() if line.startswith(("k ", "v ", "total"))]
    counts = [int(line[-1].replace(",", "")) for line in table]
    assert counts[-1] == sum(counts[:-1]) == kvplan.size("gemma-3-27b", ctx=50_000).total_bytes
