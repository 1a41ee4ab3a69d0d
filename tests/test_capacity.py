"""Capacity files: what they say, and what they are told when they are wrong."""

from __future__ import annotations

from typing import Any

import pytest

from kvplan.capacity import MOST_CELLS, parse_capacity
from kvplan.errors import InputError

SMALL: dict[str, Any] = {"models": "llama-3.1-8b", "ctx": "8k"}


def test_the_contracts_own_example_reads() -> None:
    capacity = parse_capacity(
        {
            "models": ["llama-3.1-70b", "qwen3-32b"],
            "ctx": ["8k", "32k", "128k"],
            "batch": [1, 16],
            "kv_dtype": ["bf16", "fp8"],
            "gpu": ["h100-sxm-80gb", "h200-sxm"],
            "tp": [4, 8],
            "budgets": [
                {"model": "llama-3.1-70b", "gpu": "h100-sxm-80gb", "tp": 8, "ctx": "32k", "min_batch": 16},
                {"model": "qwen3-32b", "gpu": "h200-sxm", "tp": 4, "ctx": "128k", "must": "fit"},
            ],
        },
        "capacity.yaml",
    )
    assert len(capacity.questions()) == 2 * 3 * 2 * 2 * 2 * 2
    assert capacity.axes()["ctx"] == [8000, 32000, 128000]
    assert capacity.fields.budgets[0].models == "llama-3.1-70b"


def test_one_value_stands_for_a_list_of_one() -> None:
    ((place, question),) = parse_capacity(SMALL, "c").questions()
    assert (place["models"], question.ctx, question.batch, question.tp) == ("llama-3.1-8b", 8000, 1, 1)


def test_options_that_all_cells_share_reach_the_question() -> None:
    values = {**SMALL, "engine": "transformers", "engine_options": {"cache": "static", "max_cache_len": 9000}, "reserve": "2GiB", "utilization": 0.9, "prefix": "1k"}  # fmt: skip
    ((_, question),) = parse_capacity(values, "c").questions()
    assert question.engine_options == ("cache=static", "max_cache_len=9000")
    assert question.reserve_bytes == 2 * 2**30
    assert str(question.utilization) == "9/10"
    assert question.prefix == 1000


@pytest.mark.parametrize(
    ("values", "what"),
    [
        ({}, "models: missing"),
        ({"models": []}, "models"),
        ({**SMALL, "modles": "x"}, "modles: unknown key"),
        ({**SMALL, "ctx": "8q"}, "ctx: found '8q'"),
        ({**SMALL, "ctx": 0}, "ctx"),
        ({**SMALL, "ctx": list(range(1, 3000))}, "ctx: found 'a list of 2999 items', allowed at most 500 items"),
        ({**SMALL, "tp": [1, 0]}, "tp.1: found '0', allowed greater than or equal to 1"),
        ({**SMALL, "ctx": []}, "ctx: found 'a list of 0 items', allowed at least 1 item"),
        ({**SMALL, "batch": 0}, "batch"),
        ({**SMALL, "batch": True}, "batch"),
        ({**SMALL, "kv_dtype": "fp8", "k_dtype": "fp8"}, "kv_dtype stands for both"),
        ({**SMALL, "layout": {"across": "gpu", "down": "gpu"}}, "both across and down"),
        ({**SMALL, "layout": {"across": "weather"}}, "layout.across"),
        ({**SMALL, "budgets": [{"model": "llama-3.1-8b"}]}, "budgets.0: sets no limit"),
        ({**SMALL, "budgets": [{"must": "shine"}]}, "budgets.0.must"),
        ({**SMALL, "reserve": "2G"}, "reserve: found '2G'"),
        ({**SMALL, "utilization": 1.5}, "utilization"),
        ([], "found"),
        ("text", "found"),
    ],
)
def test_a_wrong_file_is_told_where_and_what(values: Any, what: str) -> None:
    with pytest.raises(InputError) as caught:
        parse_capacity(values, "c.yaml").questions()
    assert "c.yaml" in caught.value.what
    assert what in caught.value.what


def test_a_matrix_too_large_to_answer_is_refused_before_any_work() -> None:
    values = {"models": "llama-3.1-8b", "ctx": list(range(1, 200)), "batch": list(range(1, 200))}
    with pytest.raises(InputError, match=f"39,601 cells, allowed at most {MOST_CELLS:,}"):
        parse_capacity(values, "c.yaml").questions()
