"""The JSON document, whole bytes as integers."""

from __future__ import annotations

import json
import re

from kvplan.report import Report

_UNSEEN = re.compile(
    "[\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)  # JSON leaves these raw; terminals act on them


def render(report: Report, color: bool, width: int | None) -> str:
    """The document, indented, keys in the order of the result classes."""
    text = json.dumps(report.document, indent=2, ensure_ascii=False)
    return _UNSEEN.sub(lambda match: f"\\u{ord(match[0]):04x}", text)
