"""The searches behind every answer, against brute force: what they name fits, and one more does not."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import batches, formats, head_formats, heads, plan, policies, specs

from kvplan.errors import InputError
from kvplan.planner.fit import MOST_GPUS, fewest_gpus, largest, longest_context, most_sequences
from kvplan.spec import ModelSpec

budgets = st.one_of(st.integers(0, 10**5), st.integers(0, 10**8))


@given(limit=st.integers(-1, 3000), ceiling=st.integers(3000, 10**6))
def test_the_largest_is_the_last_of_all_that_hold(limit: int, ceiling: int) -> None:
    """Halving finds what trying each number finds."""
    expected = max((n for n in range(1, 3001) if n <= limit), default=0)
    assert expected == largest(lambda n: n <= limit, ceiling)


def test_nothing_fails_below_the_ceiling() -> None:
    """A question without a limit has no largest answer."""
    assert largest(lambda _: True, 10) is None
    assert largest(lambda n: n <= 10**9, 10) is None


@given(spec=specs(heads), kv_dtype=head_formats, policy=policies, batch=st.integers(1, 4), budget=budgets)
def test_every_length_up_to_the_longest_fits_and_the_next_does_not(
    spec: ModelSpec, kv_dtype: str | None, policy: str, batch: int, budget: int
) -> None:
    """A sequence grows through every length, so each on the way has to fit, residuals waiting to be flushed included."""
    cache = plan(spec, kv_dtype=kv_dtype, policy=policy)
    least = 30 if policy.startswith("snapkv") else 1

    def weigh(context: int, sequences: int) -> int:
        return int(cache.total_bytes(context, sequences))

    found = longest_context(weigh, budget, batch, least, cache.dip_tokens(), cache.filled_after())
    first_failure = first(lambda n: weigh(n, batch) > budget, least, 6000)
    if found is None:
        assert first_failure is None
    elif first_failure is None:
        assert found >= 6000
    else:
        assert found == (first_failure - 1 if first_failure > least else 0)


def first(holds: Callable[[int], bool], low: int, high: int) -> int | None:
    """The first number of the range for which `holds`, tried one by one."""
    return next((n for n in range(low, high) if holds(n)), None)


@given(spec=specs(), kv_dtype=formats, budget=budgets, more=st.integers(0, 10**7), batch=batches)
def test_a_larger_budget_never_holds_less(
    spec: ModelSpec, kv_dtype: str | None, budget: int, more: int, batch: int
) -> None:
    """More bytes never mean a shorter context or fewer sequences."""
    cache = plan(spec, kv_dtype=kv_dtype)

    def weigh(context: int, sequences: int) -> int:
        return int(cache.total_bytes(context, sequences))

    def endless(count: int | None) -> float:
        return float("inf") if count is None else count

    contexts = [endless(longest_context(weigh, b, batch, 1, 0, cache.filled_after())) for b in (budget, budget + more)]
    sequences = [endless(most_sequences(weigh, b, 1000)) for b in (budget, budget + more)]
    assert contexts == sorted(contexts)
    assert sequences == sorted(sequences)


@given(rate=st.integers(1, 10**4), budget=st.integers(0, 10**7), context=st.integers(1, 100))
def test_the_most_sequences_are_the_budget_divided(rate: int, budget: int, context: int) -> None:
    """Sequences that share nothing divide the budget."""
    assert budget // (rate * context) == most_sequences(lambda n, b: rate * n * b, budget, context)


def test_a_cache_of_nothing_holds_any_number() -> None:
    """A model without a cache has no limit, and an empty budget holds it too."""
    assert most_sequences(lambda *_: 0, 0, 1000) is None
    assert longest_context(lambda *_: 0, 0, 1) is None


def test_no_byte_holds_no_token() -> None:
    """Below the first token's bytes the answer is none at all, not an error."""
    assert 0 == longest_context(lambda n, b: 100 * n * b, 99, 1)
    assert 0 == most_sequences(lambda n, b: 100 * n * b, 99, 1)
    assert 0 == longest_context(lambda n, b: 100 * n * b, -1, 1)


def test_a_peak_before_a_fall_ends_the_context() -> None:
    """90 bytes at 10 tokens and 50 at 11: with 80 bytes a sequence gets to 9, since it cannot jump."""

    def weigh(context: int, _: int) -> int:
        return 9 * context if context <= 10 else 50 + context - 11

    assert 8 == longest_context(weigh, 80, 1, dip_tokens=40)
    assert 41 == longest_context(weigh, 80, 1)  # what a search that knows of no fall would say


def test_a_bounded_cache_may_fail_at_its_peak_alone() -> None:
    """Full, it would fit for ever; on the way it does not."""

    def weigh(context: int, _: int) -> int:
        return {7: 100}.get(context, 10)

    assert 6 == longest_context(weigh, 50, 1, dip_tokens=8, filled_after=8)


@pytest.mark.parametrize("fits_from", [1, 2, 5, 63, 64])
def test_the_fewest_gpus_are_the_first_that_do(fits_from: int) -> None:
    """One step less does not."""
    assert fits_from == fewest_gpus(lambda n: n >= fits_from)


def test_more_gpus_than_a_replica_has_are_none() -> None:
    """A replica has at most 64 GPUs."""
    assert 64 == MOST_GPUS
    assert fewest_gpus(lambda n: n >= 65) is None


def test_a_count_that_cannot_be_is_passed_over() -> None:
    """Ranks a model cannot be divided over do not fit, and the next may."""

    def fits(count: int) -> bool:
        if count % 4:
            raise InputError("not divisible")
        return count >= 5

    assert 8 == fewest_gpus(fits)


def test_steps_count_whole_replicas_of_stages() -> None:
    """Three ranks wide with two stages each are six GPUs."""
    assert 6 == fewest_gpus(lambda n: n >= 3, per_step=2)
