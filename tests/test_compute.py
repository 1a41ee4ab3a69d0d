"""Attention pairs, FLOPs and bytes with a cache and without one, against sums written out and published figures."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import model, shipped

import kvplan
from kvplan.compute import attention_work, cached_pairs, decode_pair_flops, naive_pairs

limits = st.one_of(st.none(), st.integers(1, 400))


@given(tokens=st.integers(1, 300), limit=limits)
def test_pairs_with_a_cache_are_the_sum_over_the_steps(tokens: int, limit: int | None) -> None:
    """Step t asks one query of the rows that are kept, min(t, limit) of them."""
    assert sum(min(t, limit or t) for t in range(1, tokens + 1)) == cached_pairs(tokens, limit)


@given(tokens=st.integers(1, 120), limit=limits)
def test_pairs_without_a_cache_are_every_pair_of_every_step(tokens: int, limit: int | None) -> None:
    """Step t computes the whole prefix again: each of its t queries meets what a t-token step keeps."""
    pairs = sum(1 for t in range(1, tokens + 1) for _ in range(t) for _ in range(min(t, limit or t)))
    assert pairs == naive_pairs(tokens, limit)


def test_a_thousand_tokens_as_published() -> None:
    """N(N+1)(2N+1)/6 = 333,833,500 against N(N+1)/2 = 500,500: a factor of (2N+1)/3 = 667."""
    assert (333833500, 500500, 667) == (naive_pairs(1000), cached_pairs(1000), naive_pairs(1000) // cached_pairs(1000))


@given(tokens=st.integers(1, 10**6), limit=limits)
def test_a_cache_never_costs_more_pairs(tokens: int, limit: int | None) -> None:
    """And a window never more than full attention."""
    assert cached_pairs(tokens, limit) <= naive_pairs(tokens, limit) <= naive_pairs(tokens)
    assert cached_pairs(tokens, limit) <= cached_pairs(tokens)


def test_a_pair_costs_four_flops_per_element_of_every_query_head() -> None:
    """QK and PV, 2 FLOPs per multiply-add: 4 x 128 x 64 heads x 80 layers for Llama-3.1-70B, whatever its KV heads."""
    work = attention_work(shipped("llama-3.1-70b"), 1000)
    assert 4 * 128 * 64 * 80 * 500500 == work.cached_attention_flops
    assert 4 * 128 * 64 * 80 * 333833500 == work.naive_attention_flops
    assert () == work.uncounted


def test_other_flops_are_two_per_parameter_and_token() -> None:
    """N tokens once with a cache; N(N+1)/2 tokens without one."""
    work = attention_work(shipped("llama-3.1-70b"), 1000)
    assert 2 * 70553706496 * 1000 == work.cached_linear_flops
    assert 2 * 70553706496 * 500500 == work.naive_linear_flops


def test_a_mixture_computes_its_active_parameters() -> None:
    """gpt-oss-120b: 5,750,547,264 of its 116,829,156,672."""
    assert 2 * 5750547264 * 1000 == attention_work(shipped("gpt-oss-120b"), 1000).cached_linear_flops


def test_unknown_parameters_leave_the_other_flops_open() -> None:
    """Nothing is guessed."""
    spec = model({"type": "mha", "heads": 4, "kv_heads": 4, "head_dim": 64})
    work = attention_work(spec, 10)
    assert (None, None) == (work.naive_linear_flops, work.cached_linear_flops)
    assert 4 * 64 * 4 * 55 == work.cached_attention_flops


def test_windowed_layers_meet_their_window_alone() -> None:
    """gpt-oss: 18 of 36 layers see 128 rows at most; 64 heads of 64."""
    pair = 4 * 64 * 64
    full, window = 1000 * 1001 // 2, 128 * 129 // 2 + 128 * (1000 - 128)
    assert pair * 18 * (full + window) == attention_work(shipped("gpt-oss-120b"), 1000).cached_attention_flops
    assert pair * 18 * (1000 + 128) == decode_pair_flops(shipped("gpt-oss-120b"), 1000)
    assert pair * 36 * 100 == decode_pair_flops(shipped("gpt-oss-120b"), 100), "below the window all layers are alike"


def test_kinds_that_are_not_counted_are_named() -> None:
    """Compressed entries meet a selection of rows that the spec does not give."""
    assert "compressed" in attention_work(shipped("deepseek-v4-pro"), 1000).uncounted


def test_the_step_adds_up_to_the_run() -> None:
    """Decoding at 1, 2, ... N tokens is generating N tokens with a cache."""
    for name in ("llama-3.1-8b", "gemma-3-27b", "deepseek-v3"):
        spec = shipped(name)
        assert (
            sum(decode_pair_flops(spec, t) for t in range(1, 1301)) == attention_work(spec, 1300).cached_attention_flops
        )


def test_multi_query_attention_reads_as_many_bytes_less_as_it_has_heads() -> None:
    """Shazeer 2019, section 3.1: sharing K and V over h heads divides the bytes read by h; the FLOPs stay."""
    many = {"type": "mha", "heads": 8, "kv_heads": 8, "head_dim": 128}
    one = {"type": "mqa", "heads": 8, "kv_heads": 1, "head_dim": 128}
    found = [kvplan.size(model(a, 6, parameters=100), ctx=1024, formula=True).compute for a in (many, one)]
    assert found[0] is not None
    assert found[1] is not None
    assert found[0].cache_bytes_per_decoded_token == 8 * found[1].cache_bytes_per_decoded_token
    assert found[0].cached_attention_flops == found[1].cached_attention_flops


def test_decoding_alone_is_bound_by_memory_and_prefill_by_compute() -> None:
    """Batch 1 in bf16: each 2-byte weight does 2 FLOPs, so decode is near 1 FLOP per byte and prefill near the length."""
    work = kvplan.size("llama-3.1-8b", ctx=1000, formula=True).compute
    assert work is not None
    decode, prefill = work.decode_flops_per_byte, work.prefill_flops_per_byte
    assert decode == pytest.approx(1, rel=0.03)
    assert prefill == pytest.approx(1000, rel=0.03)


def test_a_batch_shares_the_weights_it_reads() -> None:
    """Sixty-four sequences do nearly sixty-four times the work per byte of weights while caches are short."""
    one, many = (kvplan.size("llama-3.1-8b", ctx=10, batch=b, formula=True).compute for b in (1, 64))
    assert one is not None
    assert many is not None
    assert many.decode_flops_per_byte == pytest.approx(64 * float(one.decode_flops_per_byte or 0), rel=0.02)


def test_absorbed_latents_do_two_flops_per_head_and_byte() -> None:
    """MLA decode: 128 heads on one latent are about 2 x 128 = 256 FLOPs per byte (grouped-latent-attention README)."""
    spec = shipped("deepseek-v3")
    flops = decode_pair_flops(spec, 100_000)
    read = kvplan.size("deepseek-v3", ctx=100_000).total_bytes
    assert 215 <= flops / read <= 256, "512 + 64 for scores and 512 for values per 1,152 bytes: 241.8"
