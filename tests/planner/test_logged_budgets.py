"""What engines printed of their memory, against the intervals that kvplan gives."""

from __future__ import annotations

from typing import Any

import pytest
from cli.conftest import row
from logged_budgets import BUDGETS, GIB, LOGS, Compared
from strategies import shipped

from kvplan.activations import forward_bytes


@pytest.mark.parametrize("entry", BUDGETS, ids=lambda entry: entry["id"])
def test_a_logged_budget_lies_inside_the_interval_or_the_reason_is_listed(entry: dict[str, Any]) -> None:
    found = Compared(entry)
    assert found.low <= found.best <= found.high
    assert found.inside == ("outside" not in entry), (found.low, entry["available"], found.high)


def test_most_logs_lie_inside_and_the_interval_says_something() -> None:
    """Four of five at least; and it is never wider than a fifth of the card."""
    compared = [Compared(entry) for entry in BUDGETS if entry["use"] == "check"]
    assert sum(found.inside for found in compared) >= 0.8 * len(compared)
    assert all(found.high - found.low < 16 for found in compared)


@pytest.mark.parametrize("log", LOGS["forward_peaks"], ids=lambda log: f"{log['model']} {log['tokens']}")
def test_a_logged_peak_of_a_forward_pass_lies_inside_its_interval(log: dict[str, Any]) -> None:
    dimensions = shipped(log["model"]).fields.dimensions
    assert dimensions is not None
    found = forward_bytes(dimensions, log["tokens"])
    assert found.low < log["peak"] * GIB < found.high
    assert abs(found.best / GIB - log["peak"]) < log.get("within", 0.1) * log["peak"]


@pytest.mark.parametrize("log", LOGS["compute_buffers"], ids=lambda log: log["model"])
def test_a_logged_compute_buffer_lies_inside_its_interval(log: dict[str, Any]) -> None:
    asked = ("--ctx", str(log["context"]), "--gpu", "200GiB", "--engine", "llama.cpp")
    gpu = row("size", log["model"], *asked)["gpu"]
    found = next(overhead for overhead in gpu["overheads"] if overhead["name"] == "activations")
    assert found["low_bytes"] <= log["mib"] * 2**20 <= found["high_bytes"]
