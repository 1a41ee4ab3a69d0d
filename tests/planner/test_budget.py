"""One card's memory, step by step: total, usable, less weights, overheads and reserve; the bounds in order."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from cli.conftest import refused, row, run
from hypothesis import given
from hypothesis import strategies as st

import kvplan
from kvplan.account import Range
from kvplan.catalogue import gpu_named
from kvplan.planner.budget import card_budget, given_budget
from kvplan.weights import Weights

GPUS = ["h100-sxm-80gb", "h200-sxm", "rtx-4090", "mi300x", "gb10", "80GiB", "24GB", "t4"]


def test_the_steps_of_an_h100_written_out() -> None:
    """84,943,715,696 bytes as the driver reports x 0.92 = 78,148,218,440.32, less what the card must hold besides."""
    gpu = row("size", "llama-3.1-8b", "--ctx", "8k", "--gpu", "h100")["gpu"]
    assert 84943715696 == gpu["total_bytes"]
    assert 78148218440 == gpu["usable_bytes"]
    assert 8030261248 * 2 == gpu["weights_bytes"], "8,030,261,248 parameters of 2 bytes"
    activations, graphs = 2072321720, 536870912
    assert activations + graphs == gpu["overhead_bytes"]
    assert 78148218440 - 16060522496 - 2609192632 == gpu["kv_budget_bytes"]
    assert 8000 * 131072 == gpu["kv_bytes"]
    assert gpu["kv_budget_bytes"] - gpu["kv_bytes"] == gpu["headroom_bytes"]
    assert gpu["kv_budget_bytes"] // 131072 == gpu["max_context"]
    assert gpu["kv_budget_bytes"] // (8000 * 131072) == gpu["max_batch"]
    assert gpu["fits"]


@given(
    gpu=st.sampled_from(GPUS),
    tp=st.sampled_from([1, 2, 8]),
    utilization=st.sampled_from(["0.5", "0.92", "0.999", "1"]),
    reserve=st.integers(0, 10**10),
    weights=st.sampled_from([None, "fp8", "mxfp4", "q4_k_m", "40GB"]),
)
def test_each_budget_adds_up_and_its_bounds_are_in_order(
    gpu: str, tp: int, utilization: str, reserve: int, weights: str | None
) -> None:
    """Usable - weights - overheads - reserve = KV budget; low <= best <= high in every row."""
    found = kvplan.size(
        "llama-3.1-8b", ctx=1000, gpu=gpu, tp=tp, utilization=utilization, reserve=reserve, weights=weights
    )
    card: Any = found.gpu
    assert card.usable_bytes <= Fraction(utilization) * card.total_bytes
    taken = card.weights_bytes + sum(o.bytes for o in card.overheads) + card.reserve_bytes
    assert card.kv_budget_bytes == card.usable_bytes - taken
    assert card.headroom_bytes == card.kv_budget_bytes - card.kv_bytes
    assert card.fits == (card.headroom_bytes >= 0)
    for key in ("total_bytes", "usable_bytes", "weights_bytes", "overhead_bytes", "kv_budget_bytes", "headroom_bytes"):
        low, high = found.bounds.get(f"gpu.{key}", (getattr(card, key),) * 2)
        assert low <= getattr(card, key) <= high, key
        assert (found.confidence[f"gpu.{key}"] == "exact") == (f"gpu.{key}" not in found.bounds), key
    for key in ("max_context", "max_batch"):
        low, high = found.bounds[f"gpu.{key}"]
        assert low <= getattr(card, key) <= high, key
    for overhead in card.overheads:
        assert overhead.low_bytes <= overhead.bytes <= overhead.high_bytes
        assert overhead.sources
        assert overhead.confidence in ("measured", "assumed")


def test_weights_divide_over_the_ranks() -> None:
    """Llama-3.1-70B: 70,553,706,496 parameters of 2 bytes over 8, or over 4 x 2, ranks."""
    for ranks in (("--tp", "8"), ("--tp", "4", "--pp", "2")):
        gpu = row("size", "llama-3.1-70b", "--ctx", "8k", "--gpu", "h100", *ranks)["gpu"]
        assert 70553706496 * 2 // 8 == gpu["weights_bytes"]
        assert 8 == gpu["count"]


def test_one_card_needs_no_communication_buffers_and_two_do() -> None:
    """Collectives take memory only where there is somebody to talk to."""
    named = [
        {o["name"] for o in row("size", "llama-3.1-8b", "--ctx", "8k", "--gpu", "h100", "--tp", tp)["gpu"]["overheads"]}
        for tp in ("1", "2")
    ]
    assert {"communication"} == named[1] - named[0]


def test_the_driver_context_hides_in_what_utilisation_leaves_free() -> None:
    """At 0.92 of 79 GiB more than 6 GiB are left for it; at all of it, it has to be counted."""
    for share, counted in (("0.92", False), ("1", True)):
        gpu = row("size", "llama-3.1-8b", "--ctx", "8k", "--gpu", "h100", "--utilization", share)["gpu"]
        assert counted == ("runtime_context" in {o["name"] for o in gpu["overheads"]})


def test_a_unified_memory_has_its_own_ceiling() -> None:
    """A GB10 frees 101 of 121.69 GiB at best (two machines, logged): 0.92 of the total would promise 111."""
    gpu = row("size", "llama-3.1-8b", "--ctx", "8k", "--gpu", "gb10")["gpu"]
    assert (130663642562, 101 * 2**30) == (gpu["total_bytes"], gpu["usable_bytes"])
    low = row("size", "llama-3.1-8b", "--ctx", "8k", "--gpu", "gb10", "--utilization", "0.5")["gpu"]
    assert 130663642562 // 2 == low["usable_bytes"], "below the ceiling the share decides"


@pytest.mark.parametrize("gpu", ["v100-sxm2-32gb", "b100", "m5-max", "mi455x", "mi210"])
def test_a_card_of_unknown_total_is_refused_unless_the_budget_is_given(gpu: str) -> None:
    """Exit 3 names the field; --available-bytes or bytes for --gpu answer without it."""
    assert "memory.total_bytes" in refused(run("size", "llama-3.1-8b", "--ctx", "8k", "--gpu", gpu), 3)
    found = row("size", "llama-3.1-8b", "--ctx", "8k", "--gpu", gpu, "--available-bytes", "10GiB")
    assert (gpu, None, 10 * 2**30) == tuple(found["gpu"][k] for k in ("name", "total_bytes", "kv_budget_bytes"))


INLINE = ("--layers", "80", "--kv-heads", "64", "--head-dim", "128")


def test_unknown_weights_are_a_no_where_the_cache_alone_is_too_large() -> None:
    """312.5 GiB never fit 80, whatever the weights: exit 1."""
    answer = run("size", *INLINE, "--ctx", "128k", "--gpu", "h100", "--format", "json")
    assert 1 == answer.code
    gpu = answer.result["gpu"]
    assert (False, None, None) == (gpu["fits"], gpu["weights_bytes"], gpu["kv_budget_bytes"])
    assert [84938346987, 85099408262] == answer.result["bounds"]["gpu.total_bytes"]
    assert "measured" == answer.result["confidence"]["gpu.total_bytes"]


def test_unknown_weights_that_would_decide_are_asked_for() -> None:
    """19.5 GiB of cache may or may not fit beside them: exit 2, and the fix names the option."""
    assert "--weights" in refused(run("size", *INLINE, "--ctx", "8k", "--gpu", "h100"), 2)
    found = run("size", *INLINE, "--ctx", "8k", "--gpu", "h100", "--weights", "38GiB", "-q")
    assert 0 == found.code, "72.8 - 38 - 2.4 GiB leave 32"


def test_unknown_weights_promise_nothing() -> None:
    """Neither `no limit` nor a number of GPUs stands where the weights would decide."""
    for command in ("size", "fit"):
        for contexts in ("128k", "128k,64k"):
            answer = run(command, *INLINE, "--ctx", contexts, "--gpu", "h100", "-q")
            assert 1 == answer.code
            assert "no limit" not in answer.out
            assert "64 a replica" not in answer.out
            assert ">64" not in answer.out
    assert "--weights" in run("fit", *INLINE, "--ctx", "128k", "--gpu", "h100").out


def test_fits_into_a_bare_budget_name_no_gpus() -> None:
    """Without a card the column of the fewest GPUs is empty."""
    out = run("fit", "llama-3.1-8b", "--ctx", "8k,32k", "--available-bytes", "8GiB").out
    assert ">64" not in out
    assert "no limit" not in out


def test_unknown_weights_do_not_matter_to_a_given_budget() -> None:
    """--available-bytes is what is left after everything else."""
    found = row("size", *INLINE, "--ctx", "8k", "--available-bytes", "20971520000")
    assert (True, 0) == (found["gpu"]["fits"], found["gpu"]["headroom_bytes"])


def test_a_given_budget_is_exact() -> None:
    """Nothing is estimated, so nothing has bounds; one byte less does not fit."""
    found = row("size", "llama-3.1-70b", "--ctx", "128k", "--available-bytes", "41943040000")
    assert ({}, True, 0) == (found["bounds"], found["gpu"]["fits"], found["gpu"]["headroom_bytes"])
    assert 1 == run("size", "llama-3.1-70b", "--ctx", "128k", "--available-bytes", "41943039999", "-q").code


def test_a_given_budget_is_for_one_rank() -> None:
    """Eight ranks of 5,242,880,000 bytes hold the 41,943,040,000."""
    typed = ("size", "llama-3.1-70b", "--ctx", "128k", "--tp", "8", "--available-bytes")
    assert [0, 1] == [run(*typed, count, "-q").code for count in ("5242880000", "5242879999")]


def test_a_draft_model_takes_weights_and_cache_of_its_own() -> None:
    """Llama-3.2-1B: 1,235,814,400 parameters of 2 bytes, and 16 layers x 8 heads x 64 x 2 x 2 bytes per token."""
    found = row("size", "llama-3.1-8b", "--ctx", "8k", "--gpu", "h100", "--draft", "llama-3.2-1b")
    alone = row("size", "llama-3.1-8b", "--ctx", "8k", "--gpu", "h100")["gpu"]
    gpu = found["gpu"]
    assert 1235814400 * 2 == gpu["draft_weights_bytes"] == alone["kv_budget_bytes"] - gpu["kv_budget_bytes"]
    assert 16 * 8 * 64 * 2 * 2 * 8000 == gpu["draft_kv_bytes"] == found["draft"]["total_bytes"]
    assert gpu["kv_budget_bytes"] - gpu["kv_bytes"] - gpu["draft_kv_bytes"] == gpu["headroom_bytes"]


def test_the_verdict_follows_the_best_estimate_and_says_when_bounds_disagree() -> None:
    """Between the low and the high budget the answer is not sure, and a note says so."""
    budget = row("size", "llama-3.1-8b", "--ctx", "8k", "--gpu", "h100")
    low, high = budget["bounds"]["gpu.kv_budget_bytes"]
    best = budget["gpu"]["kv_budget_bytes"]
    for allowed, fits, sure in (
        (low, True, True),
        (best, True, False),
        (high, False, False),
        (high + 131072, False, True),
    ):
        found = row("size", "llama-3.1-8b", "--ctx", str(allowed // 131072), "--gpu", "h100")
        assert fits == found["gpu"]["fits"]
        assert sure != any("the bounds disagree" in note for note in found["notes"])
        assert sure != ("gpu.fits" in found["bounds"])


def test_every_card_of_the_catalogue_answers_all_at_once() -> None:
    """`--gpu all` leaves out the cards of unknown total, and a hint names them."""
    answer = run("size", "llama-3.1-8b", "--ctx", "8k", "--gpu", "all", "--format", "json")
    rows = [r["gpu"] for r in answer.document["results"]]
    known = [gpu.name for gpu in kvplan.gpu_rows() if gpu.total_bytes is not None]
    unknown = [gpu.name for gpu in kvplan.gpu_rows() if gpu.total_bytes is None]
    assert known == [gpu["name"] for gpu in rows]
    assert 1 == answer.code
    assert unknown
    assert all(name in answer.err for name in unknown)


@pytest.mark.parametrize(
    ("typed", "ranks"),
    [
        (("--tp", "4", "--pp", "2"), (4, 2, 1, 8)),
        (("--tp", "4", "--dp", "2"), (4, 1, 2, 8)),
        (("--count", "8"), (8, 1, 1, 8)),
        (("--count", "8", "--pp", "2"), (4, 2, 1, 8)),
        (("--count", "8", "--tp", "4"), (4, 1, 2, 8)),
        (("--count", "8", "--tp", "4", "--pp", "2"), (4, 2, 1, 8)),
    ],
    ids=lambda value: " ".join(value) if isinstance(value[0], str) else None,
)
def test_cards_are_ranks_times_replicas(typed: tuple[str, ...], ranks: tuple[int, ...]) -> None:
    """`--count` is tp x pp x dp; given alone it is tensor parallelism over all cards."""
    found = row("size", "llama-3.1-70b", "--ctx", "8k", "--gpu", "h100", *typed)
    w = found["workload"]
    assert ranks == (w["tp"], w["pp"], w["dp"], found["gpu"]["count"])


def test_an_estimate_keeps_its_bounds_and_a_fact_has_none() -> None:
    """A range of one value is exact."""
    assert Range(5, 5, 5, "exact") == Range.exact(5)
    assert Range.exact(7) == given_budget(7).kv


def test_a_budget_without_weights_is_not_known() -> None:
    """Nothing is guessed in their place."""
    budget = card_budget(gpu_named("80GiB"), None, None, 1, Fraction(1), 0, None)
    assert budget.kv is None
    assert 80 * 2**30 == budget.usable.best  # type: ignore[union-attr]


def test_bounds_of_weights_widen_the_budget_the_other_way() -> None:
    """Heavier weights mean less room: the budget's low end takes the weights' high end."""
    light = Weights(10, 10, 10, "exact", "")
    heavy = Weights(10, 10, 13, "assumed", "")
    budgets = [card_budget(gpu_named("80GiB"), w, None, 1, Fraction(1), 0, None).kv for w in (light, heavy)]
    assert [0, 0, -3] == [getattr(budgets[1], e) - getattr(budgets[0], e) for e in ("best", "high", "low")]
