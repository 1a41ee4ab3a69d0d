"""The one formula: bytes in all, on the fullest rank, per token, fixed, and part by part."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy
import pytest
from strategies import model, plan, shipped

from kvplan.errors import InputError, NotCountableError
from kvplan.footprint import pipeline_stages
from kvplan.spec import ModelSpec, parse_spec
from kvplan.tensor import StoredTensor

GQA: dict[str, Any] = {"type": "gqa", "heads": 64, "kv_heads": 8, "head_dim": 128}
MLA: dict[str, Any] = {"type": "mla", "heads": 128, "kv_lora_rank": 512, "qk_rope_head_dim": 64}
MAMBA: dict[str, Any] = {"type": "mamba1", "d_inner": 8192, "d_state": 16, "conv_kernel": 4, "state_dtype": "bf16"}
CROSS: dict[str, Any] = {"type": "cross", "heads": 20, "kv_heads": 20, "head_dim": 64}


def in_groups(*groups: tuple[int, dict[str, Any]]) -> ModelSpec:
    """A model of (count, attention) groups."""
    return parse_spec(
        {"name": "m", "layers": [{"count": count, "attention": attention} for count, attention in groups]}, "m"
    )


def test_the_total_is_whole_bytes_over_layers_tokens_and_sequences() -> None:
    """80 x 4,096 bytes per token, times tokens, times sequences."""
    cache = plan(model(GQA, 80))
    assert 327_680 * 128_000 * 16 == cache.total_bytes(128_000, 16)
    assert Fraction(327_680) == cache.marginal_bytes(full=True)


def test_one_rank_holds_the_total() -> None:
    """Without ranks there is no share."""
    cache = plan(model(GQA, 80))
    assert cache.total_bytes(1000, 3) == cache.rank_bytes(1000, 3)
    assert 0 == cache.copied_bytes(1000, 3)


@pytest.mark.parametrize(("tp", "share", "copies"), [(2, 2, 0), (8, 8, 0), (16, 8, 1), (32, 8, 3)])
def test_heads_divide_until_they_run_out(tp: int, share: int, copies: int) -> None:
    """Past eight ranks, eight heads are copied."""
    cache = plan(model(GQA, 80), tp=tp)
    assert cache.total_bytes(1000) == share * cache.rank_bytes(1000)
    assert copies * cache.total_bytes(1000) == cache.copied_bytes(1000)


def test_a_latent_is_copied_to_every_rank() -> None:
    """TP 8 holds it eight times, seven of them copies."""
    cache = plan(model(MLA, 61), tp=8)
    assert cache.total_bytes(1000) == cache.rank_bytes(1000)
    assert 7 * cache.total_bytes(1000) == cache.copied_bytes(1000)


def test_dcp_spreads_the_tokens_of_a_latent() -> None:
    """Eight ranks hold an eighth of the tokens each, rounded up, and nothing is copied."""
    cache = plan(model(MLA, 61), tp=8, dcp=8)
    assert 61 * 1152 * 126 == cache.rank_bytes(1001)
    assert 0 == cache.copied_bytes(1001)


def test_dcp_spreads_the_rows_of_a_prefix_too() -> None:
    """Own rows and shared rows are each split over the ranks."""
    cache = plan(model(MLA, 1), tp=2, dcp=2)
    assert 1152 * (4 * 250 + 251) == cache.rank_bytes(1001, 4, 501)


def test_states_are_divided_by_tp_and_not_by_dcp() -> None:
    """A state belongs to no token."""
    assert 311_296 // 8 == plan(model(MAMBA), tp=8, dcp=8).rank_bytes(1000)


@pytest.mark.parametrize("kv_dtype", ["bf16", "kivi4"])
def test_encoder_rows_are_divided_by_tp_and_not_by_dcp(kv_dtype: str) -> None:
    """Cross-attention belongs to no token of the context, whatever its format."""
    one = plan(model(CROSS, encoder_tokens=1500), kv_dtype=kv_dtype, tp=4)
    assert one.rank_bytes(10) == plan(model(CROSS, encoder_tokens=1500), kv_dtype=kv_dtype, tp=4, dcp=4).rank_bytes(10)


def test_the_fullest_stage_counts() -> None:
    """61 layers over four stages: one holds 16."""
    assert 16 * 1152 * 1000 == plan(model(MLA, 61), pp=4).rank_bytes(1000)


def test_the_fullest_stage_depends_on_the_length() -> None:
    """A stage of windows is fuller while they fill, a stage of full attention afterwards."""
    windows, full, none = ((3, {**GQA, "window": 100}), (2, GQA), (1, {"type": "none"}))
    cache = plan(in_groups(windows, full, none), pp=2)
    assert [3 * 4096 * 100, 2 * 4096 * 1000] == [cache.rank_bytes(100), cache.rank_bytes(1000)]
    assert [3 * 4096 * 100, 2 * 4096 * 1000] == cache.rank_bytes(numpy.array([100, 1000])).tolist()


def test_draft_layers_stand_on_the_last_stage() -> None:
    """They count like layers, after all others."""
    cache = plan(model(GQA, 4), pp=4, mtp=2)
    assert [4096, 4096, 4096, 3 * 4096] == [sum(stage.values()) for stage in cache.stages]
    assert 6 * 4096 == cache.total_bytes(1)


def test_draft_layers_of_a_mixed_model_are_not_guessed() -> None:
    """Exit 3 where the spec does not say what they keep."""
    with pytest.raises(NotCountableError):
        plan(shipped("gemma-3-27b"), mtp=1)


def test_more_stages_than_layers_are_refused() -> None:
    """The fix is the most there can be."""
    with pytest.raises(InputError, match="^--pp: found 5, allowed at most the 4 layers of model.yaml$") as caught:
        plan(model(GQA, 4), pp=5)
    assert "--pp 4" == caught.value.fix


def test_stages_cut_runs_where_they_must() -> None:
    """A run that spans a boundary is split, and order is kept."""
    runs = model(GQA, 5).runs
    assert [[3], [2]] == [[count for count, _ in stage] for stage in pipeline_stages(runs, 2)]


def test_an_encoder_of_any_length_needs_one() -> None:
    """Images or audio decide the length; without it the answer would be a guess."""
    with pytest.raises(
        InputError, match="^model.yaml: encoder_tokens: missing, and model attends to an encoder of any length$"
    ) as caught:
        plan(model(CROSS))
    assert "add --encoder-tokens N" == caught.value.fix


def test_the_workloads_encoder_length_comes_first() -> None:
    """`--encoder-tokens` overrides the spec's own."""
    own, given = plan(model(CROSS, encoder_tokens=1500)), plan(model(CROSS, encoder_tokens=1500), encoder_tokens=100)
    assert [1500 * 5120, 100 * 5120] == [own.fixed_bytes(), given.fixed_bytes()]


def test_encoder_tokens_without_cross_attention_are_refused() -> None:
    """A length that nothing would use is a mistake."""
    with pytest.raises(InputError, match="^--encoder-tokens: model has no cross-attention$") as caught:
        plan(model(GQA), encoder_tokens=10)
    assert "leave the option out; images in the text count as context" == caught.value.fix


def test_a_part_tells_where_its_bytes_come_from() -> None:
    """Layers, tensor, role, row, rows, bytes, shards and format, as the report prints them."""
    first, second = plan(model(GQA, 80)).parts(128_000)
    assert (80, "k", "k", (8, 128), 128_000, 20_971_520_000, 8, "bf16") == (
        first.layers,
        first.tensor,
        first.role,
        first.row,
        first.rows,
        first.bytes,
        first.shards,
        first.format,
    )
    assert ("v", first.bytes) == (second.tensor, second.bytes)
    assert [("data", "bf16", (8, 128), 128_000)] == [(s.content, s.dtype, s.row, s.rows) for s in first.stored]


def test_equal_tensors_of_different_layers_are_one_part() -> None:
    """52 windowed and 10 full layers of Gemma-3-27B make four parts."""
    parts = plan(shipped("gemma-3-27b")).parts(131_072)
    assert [(52, "k", 1024), (52, "v", 1024), (10, "k", 131_072), (10, "v", 131_072)] == [
        (p.layers, p.tensor, p.rows) for p in parts
    ]


def test_values_beside_different_keys_stay_apart() -> None:
    """A TurboQuant slot's pad depends on both, so equal V tensors with unequal K are not merged."""
    narrow = {"type": "mha", "heads": 2, "kv_heads": 2, "head_dim": 127, "v_head_dim": 126}
    even = {**narrow, "head_dim": 125}
    cache = plan(in_groups((1, narrow), (1, even)), kv_dtype="turboquant_k8v4")
    assert [1, 1, 1, 1] == [part.layers for part in cache.parts(1)]


def test_fixed_bytes_are_states_and_encoder_rows() -> None:
    """What grows with the context is not fixed."""
    assert 311_296 == plan(model([GQA, MAMBA])).fixed_bytes()
    assert 0 == plan(model(GQA)).fixed_bytes()


def test_a_model_that_keeps_nothing_costs_nothing() -> None:
    """No tensor, no bytes, no period."""
    cache = plan(model({"type": "none"}))
    assert (0, 0, 0, 1, True, []) == (
        cache.total_bytes(1000),
        cache.fixed_bytes(),
        cache.dip_tokens(),
        cache.filled_after(),
        cache.bounded(),
        cache.parts(1000),
    )


def test_a_window_bounds_a_cache_and_says_when() -> None:
    """Bounded from the window's length on."""
    cache = plan(model({**GQA, "window": 1024}))
    assert (True, 1024, 0) == (cache.bounded(), cache.filled_after(), cache.dip_tokens())
    assert not plan(model(GQA)).bounded()


def test_a_residual_dips() -> None:
    """The flush at token 128 frees what 127 waiting tokens took."""
    cache = plan(model(GQA), kv_dtype="kivi2")
    assert cache.total_bytes(127) > cache.total_bytes(128)
    assert cache.dip_tokens() > 1


def test_a_bounded_residual_may_end_below_its_peak() -> None:
    """A window of whole runs ends flushed, below every shorter length that waited."""
    cache = plan(model({**GQA, "window": 1024}), kv_dtype="kivi2")
    assert cache.total_bytes(1023) > cache.total_bytes(5000)
    assert 1024 == cache.dip_tokens() == cache.filled_after()


def test_windows_and_a_residual_dip_as_deep_as_said() -> None:
    """Where windows fill at a flush, full layers need many tokens to make up for it."""
    cache = plan(in_groups((5, {**GQA, "window": 1024}), (1, GQA)), kv_dtype="kivi4")
    later = next(n for n in range(1024, 10_000) if cache.total_bytes(n) >= cache.total_bytes(1023) and n % 128 == 0)
    assert 128 < later - 1023 <= cache.dip_tokens()


def test_a_prefix_is_held_once() -> None:
    """Four sequences of 1,000 tokens that share 400 hold 400 + 4 x 600 rows."""
    assert 4096 * (400 + 4 * 600) == plan(model(GQA)).total_bytes(1000, 4, 400)


def test_arrays_of_prefixes_are_counted_too() -> None:
    """Elementwise, by the same lines."""
    found = plan(model(GQA)).total_bytes(numpy.array([1000, 1000]), numpy.array([4, 4]), numpy.array([0, 400]))
    assert [4096 * 4000, 4096 * 2800] == found.tolist()


def test_a_policy_keeps_its_rows_in_every_part() -> None:
    """Parts print the rows kept, and windows are left as they are."""
    cache = plan(model([GQA, {**GQA, "window": 100}], 1), policy="streaming:sinks=4,window=252")
    assert [256, 256, 100, 100] == [part.rows for part in cache.parts(1000)]


def test_what_is_planned_can_be_allocated() -> None:
    """The stored tensors behind a part, one layer and sequence at a time, weigh what the part weighs."""
    cache = plan(model(GQA, 3), kv_dtype="kivi4")
    weighed = sum(item.layers * sum(int(s.bytes(1000)) for s in item.stored) for item in cache.planned)
    assert cache.total_bytes(1000) == weighed
    assert all(isinstance(s, StoredTensor) for item in cache.planned for s in item.stored)


def test_a_plan_is_a_value() -> None:
    """Two plans of one model and workload are equal."""
    assert plan(model(GQA)) == plan(model(GQA))
    assert plan(model(GQA)) != plan(model(MLA))
