"""Verdicts as JUnit XML, which CI services draw: one test case a verdict, a failure for each that does not hold."""

from __future__ import annotations

from xml.sax.saxutils import escape, quoteattr

from kvplan.errors import printable
from kvplan.report.check_view import cell_text, limit_text, value_text
from kvplan.results import CheckVerdict


def junit_text(verdicts: list[CheckVerdict]) -> str:
    """The XML document; characters that XML has no room for are written out."""
    failures = sum(verdict.ok is False for verdict in verdicts)
    skipped = sum(verdict.ok is None for verdict in verdicts)
    lines = [
        '<?xml version="1.0" encoding="utf-8"?>',
        f'<testsuites><testsuite name="kvplan check" tests="{len(verdicts)}" failures="{failures}" skipped="{skipped}">',
    ]
    for verdict in verdicts:
        name, said = _said(verdict)
        head = f"<testcase classname={_attribute(verdict.place)} name={_attribute(name)}"
        match verdict.ok:
            case True:
                lines.append(f"{head}/>")
            case False:
                lines.append(f"{head}><failure message={_attribute(said)}>{escape(_clean(said))}</failure></testcase>")
            case _:
                lines.append(f"{head}><skipped message={_attribute(said)}/></testcase>")
    lines.append("</testsuite></testsuites>")
    return "\n".join(lines) + "\n"


def _said(verdict: CheckVerdict) -> tuple[str, str]:
    """(what must hold, what was found)."""
    if verdict.cell is not None:
        return limit_text(verdict, "GiB"), f"found {value_text(verdict, 'GiB')} in {cell_text(verdict)}"
    if verdict.serve is None:
        return str(verdict.budget.get("command", "command")), f"not answered: {verdict.refused}"
    needs = f"needs {verdict.value:,} bytes" if verdict.value is not None else "not judged"
    return verdict.serve.command, f"{needs}, has {verdict.limit:,}" if verdict.limit is not None else needs


def _clean(text: str) -> str:
    return "".join(c if c.isprintable() or c == "\n" else printable(c) for c in text)


def _attribute(text: str) -> str:
    return quoteattr(_clean(text))
