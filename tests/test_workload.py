"""A workload refuses combinations that no deployment can have."""

from __future__ import annotations

from typing import Any

import pytest

from kvplan.errors import InputError
from kvplan.growth import PerToken
from kvplan.policy import policy_named
from kvplan.workload import Workload


def test_a_workload_is_one_sequence_on_one_rank_by_default() -> None:
    """Full attention, the model's own dtype, nothing shared."""
    workload = Workload(context=8192)
    assert (1, 1, None, None, "fp8", 0, 0) == (
        workload.batch,
        workload.ranks,
        workload.k_dtype,
        workload.v_dtype,
        workload.index_dtype,
        workload.prefix,
        workload.mtp,
    )
    assert PerToken() == workload.policy.kept()


def test_a_replica_has_tp_times_pp_ranks() -> None:
    """DCP reuses the TP ranks and adds none."""
    assert 16 == Workload(context=8192, tp=8, pp=2, dcp=4).ranks


@pytest.mark.parametrize(
    ("options", "what", "fix"),
    [
        (
            {"tp": 8, "dcp": 3},
            "--dcp: found 3, allowed divisors of --tp 8",
            "--dcp takes a divisor of --tp 8, since DCP reuses the TP ranks",
        ),
        (
            {"dcp": 2},
            "--dcp: found 2, allowed divisors of --tp 1",
            "--dcp takes a divisor of --tp 1, since DCP reuses the TP ranks",
        ),
        (
            {"prefix": 8193},
            "--prefix: found 8,193 tokens, allowed at most the context of 8,192",
            "the prefix is part of the context: raise --ctx or lower --prefix",
        ),
        (
            {"policy": policy_named("snapkv:generated=9000"), "policy_text": "snapkv:generated=9000"},
            "--policy snapkv:generated=9000: needs a context of at least 9,000 tokens",
            "the generated tokens are part of the context: raise --ctx",
        ),
    ],
)
def test_an_impossible_workload_is_refused(options: dict[str, Any], what: str, fix: str) -> None:
    """The option, what was found and what is allowed; then the fix."""
    with pytest.raises(InputError) as caught:
        Workload(context=8192, **options)
    assert (what, fix) == (caught.value.what, caught.value.fix)


def test_a_prefix_may_be_the_whole_context() -> None:
    """Nothing is generated yet."""
    assert 8192 == Workload(context=8192, prefix=8192).prefix
