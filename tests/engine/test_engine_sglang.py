"""The SGLang engine without SGLang: what servers printed, its rules at their edges, and what it refuses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from tiny_specs import CROSS, ENTRY, GQA, LATENT, LOCAL, spec_of

from kvplan.catalogue import model_named
from kvplan.engine import Reservation, engine_named
from kvplan.errors import InputError, KvplanError, NotCountableError
from kvplan.policy import policy_named
from kvplan.spec import ModelSpec
from kvplan.workload import Workload

LOGS: dict[str, Any] = yaml.safe_load(
    (Path(__file__).parents[1] / "data" / "sglang_logs.yaml").read_text(encoding="utf-8")
)
GIB = 2**30
INDEX = {"type": "index", "head_dim": 128}
MAMBA1 = {"type": "mamba1", "d_inner": 64, "d_state": 4, "conv_kernel": 4}
MAMBA2 = {"type": "mamba2", "heads": 8, "head_dim": 16, "groups": 2, "d_state": 8, "conv_kernel": 4}
RG_LRU = {"type": "rg_lru", "width": 32, "conv_kernel": 4}


def reserved(spec: ModelSpec, context: int, *options: str, budget: int | None = None, **workload: Any) -> Reservation:
    return engine_named("sglang", options).reserve(spec, Workload(context, **workload), budget)


def shipped(name: str) -> ModelSpec:
    return model_named(name, None, False)[0]


@pytest.mark.parametrize("log", [pytest.param(log, id=log["id"]) for log in LOGS["logs"]])
def test_pools_have_the_sizes_that_servers_printed(log: dict[str, Any]) -> None:
    ask = dict(log["ask"])
    options = ask.pop("options")
    figures = reserved(shipped(log["model"]), 1024, *options, **ask).figures
    shown = {
        name: f"{figures[name] / GIB:.2f}" if isinstance(value, str) else figures[name]
        for name, value in log["printed"].items()
    }
    assert shown == log["printed"]


def test_a_pool_has_a_padding_page() -> None:
    spec = shipped("llama-3.1-8b")
    assert reserved(spec, 1000).figures["k_bytes"] == 65_601_536
    paged = reserved(spec, 1024, "page_size=64", k_dtype="fp8", v_dtype="fp8")
    assert (paged.figures["k_bytes"], paged.figures["v_bytes"]) == (35_651_584, 35_651_584)
    assert reserved(shipped("deepseek-v3"), 1024, "page_size=64").figures["kv_bytes"] == 76_455_936


def test_each_request_takes_whole_pages_and_shares_those_of_a_prefix() -> None:
    spec = spec_of(GQA)
    assert reserved(spec, 65, "page_size=64", batch=3).figures["tokens"] == 3 * 128
    assert reserved(spec, 200, "page_size=64", batch=3, prefix=130).figures["tokens"] == (2 + 3 * 2) * 64


def test_the_families_that_sglang_stores_whole_have_no_window_pool() -> None:
    gemma = reserved(shipped("gemma-3-27b"), 1000).figures
    assert gemma["cell_bytes"] == 62 * 8192
    assert "swa_layer_tokens" not in gemma
    assert reserved(shipped("gpt-oss-20b"), 1000).figures["cell_bytes"] == 24_576 * 1.8


def test_an_unknown_family_is_assumed_to_have_a_window_pool_and_says_so() -> None:
    found = reserved(spec_of(GQA, LOCAL), 1000)
    assert found.figures["swa_layer_tokens"] == 800
    assert any("is assumed (-E disable_hybrid_swa_memory=true" in reason for reason in found.reasons)
    whole = reserved(spec_of(GQA, LOCAL), 1000, "disable_hybrid_swa_memory=true")
    assert whole.figures["tokens"] == 1000
    assert "windowed layers hold every token" in whole.reasons


def test_a_window_pool_admits_every_request() -> None:
    spec = shipped("gpt-oss-20b")
    short = reserved(spec, 100, batch=64).figures
    assert (short["full_layer_tokens"], short["swa_layer_tokens"]) == (8080, 6464)
    assert reserved(spec, 100, "swa_full_tokens_ratio=0.1").figures["swa_layer_tokens"] == 129
    only = reserved(spec_of(LOCAL), 100, "disable_hybrid_swa_memory=false").figures
    assert (only["full_layer_tokens"], only["swa_layer_tokens"]) == (0, 100)


def test_requests_capped_without_a_radix_cache_fix_the_window_pool() -> None:
    spec = shipped("gpt-oss-20b")
    found = reserved(spec, 1000, "disable_radix_cache=true", "max_running_requests=16").figures
    assert found["swa_layer_tokens"] == 16 * (127 + 128 + 1 + 1) + 2 * 8192 + 1
    assert found["cell_bytes"] == 24_576


def test_layers_without_a_cache_get_one_unless_there_are_states() -> None:
    shared = reserved(spec_of(GQA, {"type": "shared"}, {"type": "none"}), 10)
    assert shared.figures["cell_bytes"] == 3 * 64
    assert "2 layers without a cache of their own get one" in shared.reasons
    assert reserved(spec_of(GQA, {"type": "none"}, MAMBA2), 10).figures["cell_bytes"] == 64


def test_stages_hold_consecutive_layers_and_the_last_ones_the_remainder() -> None:
    spec = spec_of(GQA, GQA, GQA, GQA, GQA)
    assert reserved(spec, 10, pp=3).figures["cell_bytes"] == 2 * 64
    assert reserved(spec_of(MAMBA2, MAMBA2, GQA), 10, pp=2).figures["ssm_state_bytes"] == 6 * 8 * 16 * 8 * 4
    assert reserved(spec_of(MAMBA2), 10, pp=1).figures["state_slots"] == 6


def test_state_slots_follow_the_radix_caches_strategy() -> None:
    def slots(*options: str, layer: Any = MAMBA2) -> int:
        return int(reserved(spec_of(layer, GQA), 10, *options, batch=2).figures["state_slots"])

    assert slots() == 2 * 5 + 1
    assert slots("disable_overlap_schedule=true") == 2 * 3 + 1
    assert slots("mamba_radix_cache_strategy=extra_buffer_lazy") == 2 * 4 + 1
    assert slots("disable_radix_cache=true") == 2 + 1
    assert slots("disable_radix_cache=true", "max_running_requests=9") == 9 + 1
    assert slots("max_mamba_cache_size=40") == 41
    assert slots(layer=MAMBA1) == 2 * 3 + 1


def test_states_are_fp32_unless_it_is_said() -> None:
    whole = reserved(spec_of(MAMBA2), 10).figures["ssm_state_bytes"]
    assert whole == 6 * 8 * 16 * 8 * 4
    assert reserved(spec_of(MAMBA2), 10, "mamba_ssm_dtype=bfloat16").figures["ssm_state_bytes"] == whole // 2
    assert reserved(spec_of({**MAMBA2, "state_dtype": "bf16"}), 10).figures["ssm_state_bytes"] == whole // 2


def test_groups_of_ranks_with_attention_data_parallelism_hold_their_own_requests() -> None:
    spec = spec_of({"type": "gqa", "heads": 8, "kv_heads": 8, "head_dim": 8})
    found = reserved(spec, 10, "enable_dp_attention=true", "dp_size=4", tp=8, batch=6).figures
    assert (found["cell_bytes"], found["tokens"]) == (2 * 4 * 8 * 2, 20)


def test_a_stated_pool_is_taken_whole_and_decides_what_fits() -> None:
    spec, choice = shipped("llama-3.1-8b"), engine_named("sglang", ("max_total_tokens=1000", "page_size=64"))
    found = choice.reserve(spec, Workload(100))
    assert found.figures["max_total_num_tokens"] == 960
    assert found.reserved_bytes == choice.given_budget(spec, Workload(100)) == 131_072 * 1024
    assert choice.reserve(spec, Workload(960)).least_budget_bytes == found.reserved_bytes
    assert choice.reserve(spec, Workload(961)).least_budget_bytes > found.reserved_bytes


def test_a_cache_format_that_the_release_states_is_taken() -> None:
    spec = spec_of(GQA, kv_dtype="fp8")
    assert reserved(spec, 10).figures["cell_bytes"] == 32
    assert reserved(spec, 10, "kv_cache_dtype=bf16").figures["cell_bytes"] == 64
    assert reserved(spec, 10, k_dtype="bf16", v_dtype="bf16").figures["cell_bytes"] == 64


def test_a_share_of_almost_nothing_and_pages_beyond_all_bounds_are_answered() -> None:
    spec = shipped("gpt-oss-20b")
    tiny = reserved(spec, 10**12, "swa_full_tokens_ratio=0.000000001", batch=10**6).figures
    assert tiny["swa_layer_tokens"] >= 10**6 * 128
    assert reserved(spec, 10**12, "page_size=999999999999999", batch=10**6).least_budget_bytes > 10**21


def test_a_stated_pool_is_no_budget_while_states_share_it() -> None:
    spec = spec_of(MAMBA2, GQA)
    assert engine_named("sglang", ("max_total_tokens=99",)).given_budget(spec, Workload(9)) is None
    stated = engine_named("sglang", ("max_total_tokens=99", "max_mamba_cache_size=9", "disable_radix_cache=true"))
    assert stated.given_budget(spec, Workload(9)) == stated.reserve(spec, Workload(9)).reserved_bytes
    assert engine_named("sglang").given_budget(spec, Workload(9)) is None


def test_too_small_a_budget_gives_no_tokens() -> None:
    spec = shipped("qwen3.8-27b")
    found = reserved(spec, 1000, budget=0)
    assert (found.figures["max_total_num_tokens"], found.figures["max_mamba_cache_size"]) == (0, 0)
    assert reserved(spec_of(MAMBA2), 10, budget=10**6).figures["max_mamba_cache_size"] > 0


@pytest.mark.parametrize("budget", range(20_000, 400_000, 7_919))
def test_from_the_least_budget_on_states_and_tokens_are_enough(budget: int) -> None:
    spec = spec_of({**MAMBA2, "heads": 4}, GQA)
    found = reserved(spec, 200, budget=budget)
    enough = found.figures["max_total_num_tokens"] >= 200 and found.figures["max_mamba_cache_size"] >= 5
    assert enough or budget < found.least_budget_bytes


def test_more_context_never_takes_less() -> None:
    for spec in (shipped("gpt-oss-20b"), shipped("qwen3.8-27b"), shipped("deepseek-v3.2")):
        needs = [reserved(spec, context).least_budget_bytes for context in range(1, 400, 7)]
        assert needs == sorted(needs)


def test_draft_layers_have_a_pool_of_the_targets_size() -> None:
    found = reserved(shipped("deepseek-v3"), 1024, "page_size=64", mtp=1).figures
    assert found["draft_kv_bytes"] == 76_455_936 // 61
    assert found["cell_bytes"] == 62 * 1152


@pytest.mark.parametrize(
    ("layers", "options", "workload", "error", "what", "fix"),
    [
        ([GQA], (), {"policy": policy_named("streaming:sinks=4,window=4"), "policy_text": "s"}, InputError, "--policy", "full"),
        ([GQA], (), {"tp": 3}, InputError, "3 ranks do not divide 2 KV heads", "--tp 2"),
        ([GQA], (), {"pp": 2}, InputError, "--pp: found 2", "--pp 1"),
        ([GQA], (), {"k_dtype": "q8_0", "v_dtype": "q8_0"}, InputError, "--kv-dtype: found q8_0", "--kv-dtype fp8"),
        ([GQA], (), {"k_dtype": "fp8"}, InputError, "--kv-dtype: found bf16", "--kv-dtype fp8"),
        ([GQA], ("kv_cache_dtype=mxfp8",), {}, InputError, "found 8 numbers", "fp8_e4m3"),
        ([GQA], ("kv_cache_dtype=mxfp8",), {"k_dtype": "fp8", "v_dtype": "fp8"}, InputError, "--kv-dtype says fp8", "one of them"),
        ([LATENT], ("kv_cache_dtype=mxfp8",), {}, InputError, "no such latents", "fp8_e4m3"),
        ([GQA, LOCAL], ("kv_cache_dtype=nvfp4",), {}, InputError, "no window pool in four bits", "fp8_e4m3"),
        ([[LATENT, INDEX]], ("page_size=1",), {}, InputError, "pages of 64", "page_size=64"),
        ([[LATENT, INDEX]], (), {"index_dtype": "bf16"}, InputError, "--index-dtype", "fp8"),
        ([GQA], ("dp_size=2",), {}, InputError, "dp_size", "enable_dp_attention=true"),
        ([GQA], ("dp_size=2", "enable_dp_attention=true"), {"tp": 1}, InputError, "allowed divisors", "dp_size=1"),
        ([GQA], ("max_running_requests=2",), {"batch": 3}, InputError, "the batch has 3", "max_running_requests=3"),
        ([MAMBA2], ("max_mamba_cache_size=9",), {"batch": 2}, InputError, "run 1 requests of 5 slots", "max_mamba_cache_size=10"),
        ([MAMBA2], ("mamba_full_memory_ratio=0",), {}, InputError, "states need a share", "mamba_full_memory_ratio=0.9"),
        ([GQA, LOCAL], (), {"tp": 2, "dcp": 2}, InputError, "--dcp", "leave out --dcp"),
        ([GQA], (), {"mtp": 1, "tp": 2, "dcp": 2}, InputError, "--mtp: found beside --dcp", "leave one out"),
        ([MAMBA2], (), {"tp": 3}, InputError, "3 ranks do not divide the 8 heads", "--tp 2"),
        ([ENTRY], (), {}, NotCountableError, "window_entry: SGLang: not known: compressed", "--engine ideal"),
        ([CROSS], (), {}, NotCountableError, "cross_k", "--engine ideal"),
        ([[GQA, INDEX]], (), {}, NotCountableError, "index keys beside keys and values", "--engine ideal"),
        ([[LATENT, {**INDEX, "head_dim": 64}]], (), {}, NotCountableError, "index keys of 64", "--engine ideal"),
        ([[LATENT, LATENT]], (), {}, NotCountableError, "two attentions", "--engine ideal"),
        ([GQA, {**GQA, "kv_heads": 1}], (), {}, NotCountableError, "the layers differ", "--engine ideal"),
        ([GQA, LOCAL, {"type": "shared"}], (), {}, NotCountableError, "full or a window pool", "--engine ideal"),
        ([LATENT, {**LATENT, "window": 8}], (), {}, NotCountableError, "latents and window pools", "--engine ideal"),
        ([GQA, LOCAL, {**LOCAL, "window": 9}], (), {}, NotCountableError, "windows of several lengths", "--engine ideal"),
        ([RG_LRU], (), {}, NotCountableError, "no pool for this recurrence", "--engine ideal"),
    ],
)  # fmt: skip
def test_what_sglang_does_not_do_is_refused_with_a_way_out(
    layers: list[Any], options: tuple[str, ...], workload: dict[str, Any], error: type[KvplanError], what: str, fix: str
) -> None:
    with pytest.raises(error) as caught:
        reserved(
            spec_of(*layers, encoder_tokens=12) if layers == [CROSS] else spec_of(*layers), 40, *options, **workload
        )
    assert what in caught.value.what
    assert fix in caught.value.fix


def test_a_family_that_sglang_stores_whole_cannot_be_given_a_window_pool() -> None:
    with pytest.raises(InputError, match="stores every token of gemma-3-27b"):
        reserved(shipped("gemma-3-27b"), 100, "disable_hybrid_swa_memory=false")
