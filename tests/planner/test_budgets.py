"""Budgets of a capacity file: each limit is one verdict, decided by the cell that comes nearest to breaking it."""

from __future__ import annotations

from typing import Any

import pytest

import kvplan
from kvplan.capacity import is_capacity, parse_capacity
from kvplan.errors import InputError
from kvplan.planner.budgets import check_budgets, hourly_price, seconds

MATRIX: dict[str, Any] = {
    "models": ["llama-3.1-70b", "qwen3-32b"],
    "ctx": ["8k", "32k"],
    "kv_dtype": ["bf16", "fp8"],
    "gpu": "h100-sxm-80gb",
    "tp": [4, 8],
    "price": {"h100": 2.5},
}


def verdicts(*budgets: dict[str, Any], **changed: Any) -> list[Any]:
    return check_budgets(parse_capacity({**MATRIX, **changed, "budgets": list(budgets)}, "c.yaml"))


def only(budget: dict[str, Any], **changed: Any) -> Any:
    (verdict,) = verdicts(budget, **changed)
    return verdict


def test_min_batch_is_what_fit_answers_for_the_tightest_cell() -> None:
    verdict = only({"model": "llama-3.1-70b", "tp": 8, "ctx": "32k", "min_batch": 16})
    said = kvplan.fit("llama-3.1-70b", gpu="h100", tp=8, ctx="32k").max_batch
    assert (verdict.value, verdict.limit, verdict.ok) == (said, 16, True)
    assert verdict.cell["kv_dtype"] == "bf16", "fp8 holds more"
    assert not only({"model": "llama-3.1-70b", "tp": 8, "ctx": "32k", "min_batch": said + 1}).ok


def test_must_fit_names_the_cell_that_does_not() -> None:
    verdict = only({"model": "llama-3.1-70b", "batch": 100, "must": "fit"})
    assert (verdict.ok, verdict.value) == (False, 0)
    assert verdict.cell["batch"] == 100
    assert only({"model": "qwen3-32b", "gpu": "h200-sxm", "tp": 4, "ctx": "128k", "must": "fit"}).ok


def test_min_ctx_and_max_bytes_are_two_verdicts_of_one_budget() -> None:
    longest, largest = verdicts({"min_ctx": "200k", "max_bytes": "5GB"})
    assert longest.value == min(
        kvplan.fit(model, gpu="h100", tp=tp, kv_dtype=dtype, ctx="8k").max_context
        for model in MATRIX["models"]
        for tp in MATRIX["tp"]
        for dtype in MATRIX["kv_dtype"]
    )
    assert (largest.value, largest.limit, largest.ok) == (32000 * 327680, 5 * 10**9, False)


def test_cost_is_cards_times_price_times_hours() -> None:
    verdict = only({"tp": 8, "max_cost_per_month": 20000})
    assert (verdict.value, verdict.ok) == (8 * 2.5 * 730, True)
    assert "as the file says" in verdict.hints[0]


def test_a_catalogue_price_is_told_with_its_range_and_date() -> None:
    verdict = only({"tp": 8, "max_cost_per_month": 1}, price={})
    assert "the middle of $1.87 to $6.88 (2026-05, medium trust)" in verdict.hints[0]
    with pytest.raises(InputError, match="no price of rubin-cpx is known"):
        hourly_price("rubin-cpx", {}, "c.yaml")


def test_tpot_is_one_decode_step_of_the_slowest_cell() -> None:
    verdict = only({"model": "llama-3.1-70b", "batch": 32, "ctx": "8k", "max_tpot": "15ms"})
    assert verdict.cell["tp"] == 4
    slowest = kvplan.size("llama-3.1-70b", ctx=8000, batch=32, tp=4, gpu="h100", time=True, load="static").time
    assert slowest is not None
    assert (verdict.value, verdict.limit) == (slowest.decode_step_seconds.best, 0.015)
    assert not verdict.ok


def test_one_verdict_a_limit_in_the_order_of_the_file() -> None:
    found = verdicts({"must": "fit", "ctx": "8k"}, {"min_batch": 1, "ctx": "8k"})
    assert [verdict.place for verdict in found] == ["c.yaml: budgets.0", "c.yaml: budgets.1"]
    assert [list(verdict.budget)[-1] for verdict in found] == ["must", "min_batch"]


@pytest.mark.parametrize(
    ("budget", "changed", "what"),
    [
        ({"must": "fit"}, {"gpu": None}, "needs a card"),
        ({"min_ctx": "max"}, {}, "min_ctx: found 'max'"),
        ({"max_bytes": "12G"}, {}, "max_bytes: found '12G'"),
        ({"max_tpot": "fast"}, {}, "max_tpot: found 'fast'"),
        ({"model": "no-such-model", "must": "fit"}, {}, "no model called"),
    ],
)
def test_a_budget_that_cannot_be_answered_is_named(budget: dict[str, Any], changed: dict[str, Any], what: str) -> None:
    with pytest.raises(InputError) as caught:
        verdicts(budget, **changed)
    assert what in caught.value.what
    assert "budgets.0" in caught.value.what


def test_a_file_without_budgets_says_how_to_add_one() -> None:
    with pytest.raises(InputError, match="budgets: missing"):
        check_budgets(parse_capacity(MATRIX, "c.yaml"))


@pytest.mark.parametrize(("text", "value"), [("50ms", 0.05), ("2s", 2.0), ("1.5s", 1.5), ("800us", 0.0008)])
def test_times_are_read_with_their_unit(text: str, value: float) -> None:
    assert abs(seconds(text, "x") - value) < 1e-12


@pytest.mark.parametrize("text", ["50", "ms", "-1s", "1e3s", "٣s", "1.2.3s", "", "9" * 20 + "s"])
def test_times_without_one_are_refused(text: str) -> None:
    with pytest.raises(InputError, match="allowed a time such as 50ms"):
        seconds(text, "x")


def test_capacity_files_are_told_from_deployment_files() -> None:
    assert is_capacity("# mine\nmodels: [a]\n", "capacity.yaml")
    assert not is_capacity("services:\n  models: x\n", "compose.yaml")
    assert not is_capacity("models: [a]\n", "Dockerfile")
