"""Draw `docs/importing/architectures.md`: which architectures of the library an import gets right, and which it refuses.

Run it from the checkout: `python tests/importers/draw_architectures.py`. It reads the caches that the library
filled (`tests/data/config_oracle.jsonl`) and imports each of those configs.
"""

from __future__ import annotations

import json
from pathlib import Path

from kvplan.errors import NotCountableError
from kvplan.importers.config import read_config
from kvplan.lists import attention_text

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "importing" / "architectures.md"


def page() -> str:
    """The whole page as Markdown."""
    found: dict[str, tuple[str, str, int]] = {}
    for line in (ROOT / "tests" / "data" / "config_oracle.jsonl").read_text().splitlines():
        case = json.loads(line)
        kind = case["config"]["model_type"]
        if not case["runs"]:
            continue
        verdict, why, count = found.get(kind, ("", "", 0))
        if case["variant"] == "base" or not verdict:
            try:
                verdict, why = "right", attention_text(read_config(case["config"], "config.json").spec)
            except NotCountableError as error:
                verdict, why = "refused", error.what.removeprefix("config.json: ")
        found[kind] = (verdict, why, count + 1)
    right = [kind for kind, (verdict, _, _) in found.items() if verdict == "right"]
    rows = [f"| {kind} | {verdict} | {count} | {why} |" for kind, (verdict, why, count) in sorted(found.items())]
    return "\n".join(
        [
            "# Architectures of the transformers library",
            "",
            "This page is drawn by `tests/importers/draw_architectures.py`.",
            "",
            "Each model type was built with transformers 5.24.0 from a tiny config, run on a CPU at several lengths and batches, and its cache weighed.",
            "`right` means that importing that very config counts the same bytes, in every variant of the config that was built; a test repeats the comparison.",
            "`refused` means exit code 3, naming the field.",
            "Types of the library that could not be built or cache nothing are not listed.",
            "",
            f"{len(right)} are right and {len(found) - len(right)} are refused.",
            "",
            "| model type | import | configs tried | keeps, or why not |",
            "| --- | --- | --- | --- |",
            *rows,
            "",
        ]
    )


if __name__ == "__main__":
    PAGE.write_text(page())
