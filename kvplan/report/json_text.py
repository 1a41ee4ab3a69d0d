"""The JSON document, whole bytes as integers."""

from __future__ import annotations

import json

from kvplan.report import Report


def render(report: Report, color: bool, width: int | None) -> str:
    """The document, indented, keys in the order of the result classes."""
    return json.dumps(report.document, indent=2, ensure_ascii=False)
