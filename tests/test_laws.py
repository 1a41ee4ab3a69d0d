"""What holds for every model, workload and format, whatever the numbers: searched for counter-examples."""

from __future__ import annotations

from fractions import Fraction
from math import lcm
from typing import Any

import numpy
from hypothesis import assume, given
from hypothesis import strategies as st
from strategies import (
    MOST_CONTEXT,
    attentions,
    batches,
    contexts,
    crosses,
    formats,
    full_heads,
    head_formats,
    heads,
    keeps_encoder,
    latents,
    mappings,
    plan,
    policies,
    specs,
    states,
    without_windows,
)

from kvplan.growth import PerTokens, Unflushed, divisible, period, rows
from kvplan.spec import ModelSpec, parse_spec
from kvplan.spec_text import spec_yaml
from kvplan.yaml_text import load_yaml

ranks = st.sampled_from([1, 2, 4, 8, 16])
many = given(spec=specs(), kv_dtype=formats, context=contexts, more=st.integers(0, 500), batch=batches)


@many
def test_more_tokens_never_cost_less(
    spec: ModelSpec, kv_dtype: str | None, context: int, more: int, batch: int
) -> None:
    """Bytes never fall as the context grows where nothing waits for a flush."""
    cache = plan(spec, kv_dtype=kv_dtype)
    assert cache.dip_tokens() == 0
    assert cache.total_bytes(context, batch) <= cache.total_bytes(context + more, batch)


@given(
    spec=specs(full_heads),
    kv_dtype=st.sampled_from(["kivi4", "kivi2"]),
    policy=st.sampled_from(["full", "h2o:budget=0.2"]),
    context=contexts,
)
def test_a_whole_period_more_never_costs_less(spec: ModelSpec, kv_dtype: str, policy: str, context: int) -> None:
    """A residual may be flushed at the next token, but a period later it is as full again."""
    cache = plan(spec, kv_dtype=kv_dtype, policy=policy)
    step = lcm(*(period(law) for law in cache.whole))
    assert cache.total_bytes(context) <= cache.total_bytes(context + step)


@given(
    spec=specs(heads),
    kv_dtype=st.sampled_from(["kivi4", "kivi2"]),
    policy=policies,
    context=contexts,
    more=st.integers(0, MOST_CONTEXT),
)
def test_bytes_dip_no_deeper_than_said(spec: ModelSpec, kv_dtype: str, policy: str, context: int, more: int) -> None:
    """Past `dip_tokens` more tokens, or once a bounded cache is full, no shorter context cost more."""
    cache = plan(spec, kv_dtype=kv_dtype, policy=policy)
    later = context + cache.dip_tokens() + more
    assert any(isinstance(law, Unflushed) for law in cache.whole)
    assume(not cache.bounded())
    assert cache.total_bytes(context) <= cache.total_bytes(later)


@given(spec=specs(heads), kv_dtype=head_formats, policy=policies, more=st.integers(0, MOST_CONTEXT))
def test_a_bounded_cache_stays_as_it_is_once_full(
    spec: ModelSpec, kv_dtype: str | None, policy: str, more: int
) -> None:
    """Past `filled_after` tokens a bounded cache never changes."""
    cache = plan(spec, kv_dtype=kv_dtype, policy=policy)
    assume(cache.bounded())
    assert cache.total_bytes(cache.filled_after()) == cache.total_bytes(cache.filled_after() + more)


@many
def test_bytes_are_linear_in_the_batch(
    spec: ModelSpec, kv_dtype: str | None, context: int, more: int, batch: int
) -> None:
    """Sequences that share nothing cost the same each, in all and on the fullest rank."""
    cache = plan(spec, kv_dtype=kv_dtype, tp=2, dcp=2)
    assert cache.total_bytes(context, batch) == batch * cache.total_bytes(context)
    assert cache.rank_bytes(context, batch) == batch * cache.rank_bytes(context)


@given(spec=specs(st.one_of(heads, latents)), kv_dtype=formats, context=contexts)
def test_a_window_never_costs_more_than_full_attention(spec: ModelSpec, kv_dtype: str | None, context: int) -> None:
    """A window or chunk can only take rows away."""
    full = plan(without_windows(spec), kv_dtype=kv_dtype)
    assert plan(spec, kv_dtype=kv_dtype).total_bytes(context) <= full.total_bytes(context)


@given(spec=specs(heads), policy=policies, context=contexts)
def test_a_policy_never_costs_more_than_keeping_all(spec: ModelSpec, policy: str, context: int) -> None:
    """Eviction can only take rows away."""
    assert plan(spec, policy=policy).total_bytes(context) <= plan(spec).total_bytes(context)


@given(spec=specs(), kv_dtype=formats, tp=ranks, context=contexts, batch=batches)
def test_shards_together_hold_the_whole_and_its_copies(
    spec: ModelSpec, kv_dtype: str | None, tp: int, context: int, batch: int
) -> None:
    """Where TP divides the heads, or exceeds them, its ranks hold the total and what is counted as copied."""
    cache = plan(spec, kv_dtype=kv_dtype, tp=tp)
    assert cache.total_bytes(context, batch) + cache.copied_bytes(context, batch) == tp * cache.rank_bytes(
        context, batch
    )


@given(spec=specs(), tp=st.integers(1, 20), context=contexts)
def test_shards_together_never_hold_less_than_the_whole(spec: ModelSpec, tp: int, context: int) -> None:
    """However TP divides the heads, as many fullest ranks cover the total."""
    cache = plan(spec, tp=tp)
    assert cache.total_bytes(context) <= tp * cache.rank_bytes(context)


@given(spec=specs(), tp=ranks, dcp=ranks, context=contexts, batch=batches)
def test_dcp_ranks_together_never_hold_less_than_the_whole(
    spec: ModelSpec, tp: int, dcp: int, context: int, batch: int
) -> None:
    """Ranks that split tokens as well as heads cover the total, copies included where the split is even."""
    assume(tp % dcp == 0)
    cache = plan(spec, tp=tp, dcp=dcp)
    held = tp * cache.rank_bytes(context, batch)
    assert cache.total_bytes(context, batch) <= held
    if all(rows(law, context, cache.encoder_tokens) % dcp == 0 for law in cache.whole if divisible(law)):
        assert cache.total_bytes(context, batch) + cache.copied_bytes(context, batch) == held


@given(spec=specs(st.one_of(full_heads, latents)), dcp=st.sampled_from([2, 4, 8]), context=contexts)
def test_dcp_divides_tokens_that_tp_would_copy(spec: ModelSpec, dcp: int, context: int) -> None:
    """Splitting tokens never makes the fullest rank fuller than copying heads does, by more than one row each."""
    slack = sum(plan(spec, tp=dcp, dcp=dcp).whole.values())
    assert plan(spec, tp=dcp, dcp=dcp).rank_bytes(context) <= plan(spec, tp=dcp).rank_bytes(context) + slack


@given(spec=specs(st.one_of(crosses, heads)), kv_dtype=head_formats, context=contexts)
def test_dcp_leaves_the_encoder_rows_whole(spec: ModelSpec, kv_dtype: str | None, context: int) -> None:
    """Cross-attention belongs to no token of the context, in plain and in grouped formats alike."""
    assume(keeps_encoder(spec))
    split = plan(spec, kv_dtype=kv_dtype, tp=2, dcp=2)
    assert 2 * split.rank_bytes(context) >= split.fixed_bytes()


@given(spec=specs(), pp=st.integers(1, 6), tp=st.sampled_from([1, 2, 4]), context=contexts, batch=batches)
def test_the_fullest_stage_holds_at_least_its_share(
    spec: ModelSpec, pp: int, tp: int, context: int, batch: int
) -> None:
    """Pipeline stages together hold the whole model, so the fullest holds the mean or more."""
    assume(pp <= spec.layer_count)
    cache = plan(spec, pp=pp, tp=tp)
    assert cache.total_bytes(context, batch) <= pp * tp * cache.rank_bytes(context, batch)


@given(spec=specs(), pp=st.integers(1, 6), context=contexts)
def test_stages_add_up_to_the_model(spec: ModelSpec, pp: int, context: int) -> None:
    """No layer is lost or doubled between stages."""
    assume(pp <= spec.layer_count)
    cache = plan(spec, pp=pp)
    held = sum(cache.replace(stages=(stage,)).rank_bytes(context) for stage in cache.stages)
    assert cache.total_bytes(context) == held


@given(spec=specs(heads), kv_dtype=head_formats, policy=policies, context=contexts, batch=batches, prefix=contexts)
def test_parts_add_up_to_the_total(
    spec: ModelSpec, kv_dtype: str | None, policy: str, context: int, batch: int, prefix: int
) -> None:
    """Every byte of the total belongs to one part, and every byte of a part to one stored tensor."""
    cache, prefix = plan(spec, kv_dtype=kv_dtype, policy=policy), min(prefix, context)
    parts = cache.parts(context, batch, prefix)
    assert cache.total_bytes(context, batch, prefix) == sum(part.bytes for part in parts)
    assert [part.bytes for part in parts] == [sum(stored.bytes for stored in part.stored) for part in parts]


@given(spec=specs(), context=contexts, batch=batches, prefix=contexts)
def test_parts_of_every_kind_add_up(spec: ModelSpec, context: int, batch: int, prefix: int) -> None:
    """The same for states, latents, entries, index keys and encoder rows."""
    cache, prefix = plan(spec), min(prefix, context)
    assert cache.total_bytes(context, batch, prefix) == sum(part.bytes for part in cache.parts(context, batch, prefix))


@given(spec=specs(), kv_dtype=formats, context=contexts, batch=batches, prefix=contexts)
def test_a_shared_prefix_never_costs_more(
    spec: ModelSpec, kv_dtype: str | None, context: int, batch: int, prefix: int
) -> None:
    """Rows held once instead of once per sequence can only save."""
    cache, prefix = plan(spec, kv_dtype=kv_dtype), min(prefix, context)
    alone = cache.total_bytes(context, 1)
    assert alone <= cache.total_bytes(context, batch, prefix) <= cache.total_bytes(context, batch)
    assert cache.total_bytes(context, 1, prefix) == alone


@given(spec=specs(), context=contexts, batch=batches)
def test_no_prefix_changes_nothing(spec: ModelSpec, context: int, batch: int) -> None:
    """A prefix of no tokens is no prefix, given as a number or as an array."""
    cache = plan(spec)
    assert cache.total_bytes(context, batch, 0) == batch * cache.total_bytes(context)
    assert cache.total_bytes(context, batch, numpy.int64(0)) == batch * cache.total_bytes(context)


@given(spec=specs(st.one_of(heads, latents)), context=contexts, batch=batches)
def test_a_prefix_that_is_the_whole_context_is_held_once(spec: ModelSpec, context: int, batch: int) -> None:
    """Sequences that share everything cost what one costs."""
    cache = plan(spec)
    assert cache.total_bytes(context, batch, context) == cache.total_bytes(context)


@given(spec=specs(), policy=policies, context=contexts)
def test_marginal_bytes_are_what_a_period_adds(spec: ModelSpec, policy: str, context: int) -> None:
    """Once windows are full, a whole period of tokens adds its length times the marginal bytes."""
    cache = plan(spec, policy=policy)
    context = max(context, cache.filled_after())
    step = lcm(*(steps(law) for law in cache.whole))
    grown = cache.total_bytes(context + step) - cache.total_bytes(context)
    assert step * cache.marginal_bytes(full=True) == grown


def steps(law: Any) -> int:
    """Tokens in which a law gains a whole number of rows."""
    return law.ratio if isinstance(law, PerTokens) else law.share.denominator if hasattr(law, "share") else 1


@given(spec=specs(st.one_of(heads, latents, states)), kv_dtype=formats)
def test_marginal_bytes_of_an_empty_window_are_what_the_first_token_adds(spec: ModelSpec, kv_dtype: str | None) -> None:
    """While every window still fills, one more token costs the marginal bytes."""
    cache = plan(spec, kv_dtype=kv_dtype)
    assert cache.marginal_bytes(full=False) == cache.total_bytes(1) - cache.total_bytes(0)


@given(spec=specs(full_heads), kv_dtype=st.sampled_from(["kivi4", "kivi2"]), context=st.integers(128, MOST_CONTEXT))
def test_marginal_bytes_of_a_residual_are_the_mean_of_a_run(spec: ModelSpec, kv_dtype: str, context: int) -> None:
    """Behind the first residual, 128 tokens cost 128 times the marginal bytes."""
    cache = plan(spec, kv_dtype=kv_dtype)
    assert 128 * cache.marginal_bytes(full=True) == cache.total_bytes(context + 128) - cache.total_bytes(context)


@given(spec=specs())
def test_fixed_bytes_are_what_no_token_costs(spec: ModelSpec) -> None:
    """States, convolutions and encoder rows are there before the first token."""
    cache = plan(spec)
    assert cache.fixed_bytes() == cache.total_bytes(0)


@given(spec=specs(states), context=contexts)
def test_a_model_of_states_costs_its_fixed_bytes(spec: ModelSpec, context: int) -> None:
    """A recurrent model holds its fixed bytes at any length."""
    cache = plan(spec)
    assert cache.bounded()
    assert cache.fixed_bytes() == cache.total_bytes(context)


@given(
    spec=specs(attentions),
    policy=policies,
    tp=st.sampled_from([1, 2, 4]),
    pp=st.sampled_from([1, 2]),
    cells=st.lists(st.tuples(contexts, batches, contexts), min_size=1, max_size=8),
)
def test_a_million_answers_are_the_single_ones(
    spec: ModelSpec, policy: str, tp: int, pp: int, cells: list[tuple[int, int, int]]
) -> None:
    """Arrays of contexts, batches and prefixes give to the byte what each gives alone."""
    assume(pp <= spec.layer_count)
    cache = plan(spec, policy=policy, tp=tp, dcp=tp, pp=pp)
    cells = [(context, batch, min(prefix, context)) for context, batch, prefix in cells]
    arrays = [numpy.array(column, dtype=numpy.int64) for column in zip(*cells, strict=True)]
    for found, single in (
        (cache.total_bytes(*arrays), cache.total_bytes),
        (cache.rank_bytes(*arrays), cache.rank_bytes),
    ):
        assert numpy.broadcast_to(found, len(cells)).tolist() == [single(*cell) for cell in cells]


@given(spec=specs(heads), kv_dtype=head_formats, policy=policies, context=st.lists(contexts, min_size=1, max_size=8))
def test_arrays_agree_for_every_format(spec: ModelSpec, kv_dtype: str | None, policy: str, context: list[int]) -> None:
    """The same for formats with residuals, groups and slots."""
    cache = plan(spec, kv_dtype=kv_dtype, policy=policy)
    found = cache.total_bytes(numpy.array(context, dtype=numpy.int64), 3)
    assert numpy.broadcast_to(found, len(context)).tolist() == [cache.total_bytes(one, 3) for one in context]


@given(spec=specs(), kv_dtype=formats, context=contexts, batch=batches)
def test_bytes_are_whole_python_integers(spec: ModelSpec, kv_dtype: str | None, context: int, batch: int) -> None:
    """No float ever touches a byte count."""
    cache = plan(spec, kv_dtype=kv_dtype, tp=2)
    counts = [
        cache.total_bytes(context, batch),
        cache.rank_bytes(context, batch),
        cache.fixed_bytes(),
        cache.copied_bytes(context, batch),
    ]
    assert [type(count) for count in counts] == [int] * 4
    assert isinstance(cache.marginal_bytes(full=True), Fraction)


def per_layer(spec: ModelSpec) -> list[Any]:
    """What each layer keeps, in order, and a draft layer after them."""
    return [layer.kinds for count, layer in spec.runs for _ in range(count)] + [
        spec.draft.kinds if spec.draft else None
    ]


@given(values=mappings(), draft=st.one_of(st.none(), attentions))
def test_a_spec_reads_back_as_it_was_written(values: dict[str, Any], draft: Any) -> None:
    """Spec, YAML, spec is the identity: fields, layers in order, draft."""
    spec = parse_spec({**values, **({"draft": {"attention": draft}} if draft else {})}, "f.yaml")
    again = parse_spec(load_yaml(spec_yaml(spec), "f.yaml"), "f.yaml")
    assert (spec.fields, per_layer(spec)) == (again.fields, per_layer(again))
    assert spec_yaml(spec) == spec_yaml(again)
