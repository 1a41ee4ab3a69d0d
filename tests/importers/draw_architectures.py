"""Draw `docs/importing/architectures.md`: which architectures of the library an import gets right, and which it refuses.

Run it from the checkout: `python tests/importers/draw_architectures.py`. It reads the caches that the library
filled (`tests/data/config_oracle.jsonl`) and imports each of those configs.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from kvplan.errors import KvplanError
from kvplan.importers.config import read_config
from kvplan.lists import attention_text

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "importing" / "architectures.md"


def answer(config: dict[str, Any]) -> tuple[str, str | None]:
    """What the spec keeps, or why it is refused."""
    try:
        return attention_text(read_config(config, "config.json").spec), None
    except KvplanError as error:
        return "", error.what.removeprefix("config.json: ")


def page() -> str:
    """The whole page as Markdown."""
    found: dict[str, list[dict[str, Any]]] = {}
    for line in (ROOT / "tests" / "data" / "config_oracle.jsonl").read_text().splitlines():
        case = json.loads(line)
        found.setdefault(case["saved"]["model_type"], []).append(case)
    rows, right, refused = [], 0, 0
    for kind, cases in sorted(found.items()):
        answers = [answer(case[form]) for case in cases for form in ("saved", "written")]
        counted = [text for text, error in answers if error is None]
        right, refused = right + bool(counted), refused + (not counted)
        why = counted[0] if counted else answers[0][1]
        rows.append(
            f"| {kind} | {'right' if counted else 'refused'} | {len(counted)} | {len(answers) - len(counted)} | {why} |"
        )
    return "\n".join(
        [
            "# Architectures of the transformers library",
            "",
            "This page is drawn by `tests/importers/draw_architectures.py`.",
            "",
            "Each model type was built with transformers 5.24.0 from a tiny config, run on a CPU at several lengths and batches, and its cache weighed.",
            "Each config was read in two forms: with every field, as the library saves it, and with the written fields alone, as older releases were published.",
            "`right` means that importing it counts the same bytes for every config that is not refused; a test repeats the comparison.",
            "Three exceptions: with `new_decoder_architecture` falcon's cache in the library holds every KV head once per query head it serves, more than the architecture needs; mllama was run without a picture, so its cross-attention layers stayed empty; and a stablelm config whose RoPE part is one number wide.",
            "`refused` means exit code 3, naming the field.",
            "Types of the library that could not be built or cache nothing are not listed.",
            "",
            f"{right} are right and {refused} are refused.",
            "",
            "| model type | import | configs right | configs refused | keeps, or why not |",
            "| --- | --- | --- | --- | --- |",
            *rows,
            "",
        ]
    )


if __name__ == "__main__":
    PAGE.write_text(page())
