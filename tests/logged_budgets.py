"""Budgets that engines logged, each beside what kvplan says of the same card."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

import kvplan

LOGS: dict[str, Any] = yaml.safe_load((Path(__file__).parent / "data" / "logged_budgets.yaml").read_text("utf-8"))
BUDGETS: list[dict[str, Any]] = LOGS["budgets"]
GIB = 2**30
ROUNDING = 0.006
"""Half a unit of the last printed digit, and of the total's or the weights'."""


class Compared:
    """One log: the interval that kvplan gives, in GiB, and whether the logged budget lies in it."""

    def __init__(self, entry: dict[str, Any]) -> None:
        self.entry = entry
        ranks = entry.get("tp", 1)
        weights = entry.get("weights_format")
        if "weights" in entry:
            weights = str(int(entry["weights"] * GIB * ranks))
        found: Any = kvplan.size(
            entry["model"],
            ctx=1000,
            gpu=entry["gpu"],
            tp=ranks,
            weights=weights,
            engine=entry["engine"],
            engine_options=entry.get("options", {}),
        )
        low, high = found.bounds["gpu.kv_budget_bytes"]
        self.low, self.best, self.high = low / GIB, found.gpu.kv_budget_bytes / GIB, high / GIB
        slack = entry.get("slack", 0) + ROUNDING
        self.inside = self.low - slack <= entry["available"] <= self.high + slack
