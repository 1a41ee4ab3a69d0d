"""`size --engine all`: one row per engine beside the need, and -E options go to the engines that know them."""

from __future__ import annotations

from typing import Any

from kvplan.engine import ENGINES

from .conftest import refused, row, run


def rows(*arguments: str) -> list[Any]:
    return run(*arguments, "--format", "json").document["results"]


def test_all_gives_one_row_per_engine_the_need_first() -> None:
    found = rows("size", "gemma-3-27b", "--ctx", "32K", "--engine", "all")
    assert [r["engine"]["name"] for r in found] == list(ENGINES)
    assert found[0]["engine"]["name"] == "ideal"
    assert found[0]["engine"]["reserved_bytes"] == found[0]["per_rank_bytes"]
    assert len({r["total_bytes"] for r in found}) == 1, "the need does not depend on the engine"


def test_an_engine_that_refuses_the_workload_says_so_in_its_row() -> None:
    found = rows("size", "llama-3.1-70b", "--ctx", "8k", "--tp", "8", "--engine", "all")
    refusing = next(r for r in found if r["engine"]["name"] == "transformers")
    assert refusing["engine"]["reserved_bytes"] is None
    assert "one process" in refusing["engine"]["refused"]
    assert refusing["per_rank_bytes"] == found[0]["per_rank_bytes"]


def test_an_engine_named_alone_still_refuses_with_exit_2() -> None:
    assert "one process" in refused(
        run("size", "llama-3.1-70b", "--ctx", "8k", "--tp", "8", "--engine", "transformers"), 2
    )


def test_each_of_several_engines_takes_the_options_it_knows() -> None:
    found = rows("size", "llama-3.1-8b", "--ctx", "8k", "--engine", "ideal,transformers", "-E", "cache=static")
    assert [r["engine"].get("cache") for r in found] == [None, "static"]


def test_an_option_that_no_engine_knows_is_an_error() -> None:
    assert "none of" in refused(run("size", "llama-3.1-8b", "--engine", "ideal,transformers", "-E", "nonsense=1"), 2)


def test_dashes_in_an_option_are_underscores() -> None:
    found = row("size", "llama-3.1-8b", "--ctx", "8k", "--engine", "transformers", "-E", "cache=static", "-E", "max-cache-len=9000")  # fmt: skip
    assert found["engine"]["max_cache_len"] == 9000


def test_the_table_says_by_how_much_and_why() -> None:
    text = run("size", "gemma-3-27b", "--ctx", "32K", "--engine", "ideal,transformers").out
    assert "over" in text
    assert "+433.3%" in text
    assert "windows keep" in text


def test_a_gpu_in_place_of_a_model_is_told_apart() -> None:
    error = refused(run("size", "h100", "--ctx", "8k"), 2)
    assert "that is a GPU" in error
    assert "--gpu h100-sxm-80gb" in error


def test_the_longest_context_says_when_it_is_past_the_models_own() -> None:
    text = run("size", "llama-3.1-8b", "--ctx", "8k", "--gpu", "h100").out
    assert "past the model's own 131,072" in text
    assert "past the model's own" not in run("size", "llama-3.1-8b", "--ctx", "8k", "--available-bytes", "2GiB").out


def test_an_engine_that_refuses_gives_no_verdict_about_a_card() -> None:
    found = rows("size", "llama-3.1-70b", "--ctx", "8k", "--tp", "8", "--gpu", "h100", "--engine", "ideal,transformers,all")  # fmt: skip
    assert {r["engine"]["name"]: r["gpu"] is None for r in found if "refused" in r["engine"]}["transformers"]
    assert all(r["gpu"] is not None for r in found if "refused" not in r["engine"])
