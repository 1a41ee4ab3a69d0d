"""Draw `docs/importing/architectures.md`: which architectures of the library an import gets right, and which it refuses.

Run it from the checkout: `python tests/importers/draw_architectures.py`. It reads the caches that the library
filled (`tests/data/config_oracle.jsonl`, which `record.py` draws) and imports each of those configs.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

from kvplan.engine import engine_named
from kvplan.errors import KvplanError
from kvplan.importers.config import read_config
from kvplan.lists import attention_text
from kvplan.spec import ModelSpec
from kvplan.workload import Workload

Case = dict[str, Any]
FORMS = ("saved", "written")

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "importing" / "architectures.md"
NOT_FILLED = ROOT / "tests" / "data" / "config_not_filled.json"
CASES = ROOT / "tests" / "data" / "config_oracle.jsonl"


def not_filled() -> dict[str, str]:
    """The model types whose cache could not be filled, and what the library said."""
    told: dict[str, str] = json.loads(NOT_FILLED.read_text())
    return told


def cases() -> dict[str, list[Case]]:
    """Every record by model type."""
    found: dict[str, list[Case]] = {}
    for line in CASES.read_text().splitlines():
        case = json.loads(line)
        found.setdefault(case["written"]["model_type"], []).append(case)
    return dict(sorted(found.items()))


def counted(spec: ModelSpec, run: dict[str, Any]) -> int:
    """What kvplan says the library's cache holds after one run, counters left out."""
    workload = Workload(run["length"], batch=run["batch"], encoder_tokens=run["encoder"])
    figures = engine_named("transformers", (f"prefill={run['prefill']}",)).reserve(spec, workload).figures
    return int(figures["logical_bytes"]) - int(figures["counter_bytes"])


def verdict(case: Case, form: str) -> tuple[str, str]:
    """`right`, `refused` or `other bytes` for one config; and what the spec keeps, or why it is refused."""
    try:
        spec = read_config(case[form], "config.json").spec
    except KvplanError as error:
        return "refused", error.what.removeprefix("config.json: ")
    equal = [counted(spec, run) for run in case["runs"]] == [run["bytes"] for run in case["runs"]]
    return "right" if equal else "other bytes", attention_text(spec)


def page() -> str:
    """The whole page as Markdown."""
    rows = []
    types: Counter[str] = Counter()
    configs: Counter[str] = Counter()
    for model_type, of_type in cases().items():
        verdicts = [verdict(case, form) for case in of_type for form in FORMS]
        counts = Counter(word for word, _ in verdicts)
        stands = next(word for word in WORDS if counts[word])
        told = next(text for word, text in verdicts if word == stands)
        types[stands] += 1
        configs += counts
        rows.append(f"| {model_type} | {' | '.join(str(counts[word]) for word in WORDS)} | {told} |")
    unfilled = [f"| {model_type} | {why} |" for model_type, why in not_filled().items()]
    return "\n".join([*HEAD, *_summary(types, configs), "", *TABLE, *rows, "", *UNFILLED, *unfilled, ""])


def _summary(types: Counter[str], configs: Counter[str]) -> list[str]:
    return [
        f"{types['right']} model types are right and {types['refused']} are refused.",
        f"Of {configs.total():,} configs {configs['right']:,} are right, {configs['refused']:,} are refused and {configs['other bytes']} hold other bytes: those of falcon's `new_decoder_architecture`, where the library keeps every KV head once per query head that it serves, more than the architecture needs.",
    ]


WORDS = ("right", "refused", "other bytes")
HEAD = """# Architectures of the transformers library

This page is drawn by `tests/importers/record.py` and `tests/importers/draw_architectures.py`.

Each model type that generates text was built with transformers 5.24.0 from tiny configs, run on a CPU at several lengths and batches, and its cache weighed.
Each config was read in two forms: with every field, as the library saves it, and with the written fields alone, as older releases were published.
`right` means that importing it counts the same bytes, `refused` means exit code 3, naming the field.
""".splitlines()
TABLE = """| model type | right | refused | other bytes | keeps, or why not |
| --- | --- | --- | --- | --- |""".splitlines()
UNFILLED = """## Not filled

The library does not fill a cache of these, or not from what a text model is given.

| model type | what it says |
| --- | --- |""".splitlines()


if __name__ == "__main__":
    PAGE.write_text(page())
