"""The TensorRT-LLM engine: block counts of its own code, what it printed, its rules at their edges, refusals."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from tiny_specs import CROSS, ENTRY, GQA, LATENT, LOCAL, spec_of

from kvplan.catalogue import model_named
from kvplan.engine import Reservation, engine_named
from kvplan.engine.trtllm.blocks import Layout, counted
from kvplan.engine.trtllm.layers import held
from kvplan.errors import InputError, KvplanError, NotCountableError
from kvplan.policy import policy_named
from kvplan.spec import ModelSpec, parse_spec
from kvplan.workload import Workload

DATA = Path(__file__).parents[1] / "data"
DRAWN: dict[str, Any] = yaml.load((DATA / "trtllm_blocks.yaml").read_text(encoding="utf-8"), yaml.CSafeLoader)
LOGS: dict[str, Any] = yaml.safe_load((DATA / "trtllm_logs.yaml").read_text(encoding="utf-8"))
RUNS = [dict(zip(DRAWN["columns"], run, strict=True)) for run in DRAWN["runs"]]
INDEX = {"type": "index", "head_dim": 128}
MAMBA2 = {"type": "mamba2", "heads": 8, "head_dim": 16, "groups": 2, "d_state": 8, "conv_kernel": 4}


def reserved(spec: ModelSpec, context: int, *options: str, budget: int | None = None, **workload: Any) -> Reservation:
    return engine_named("trtllm", options).reserve(spec, Workload(context, **workload), budget)


def shipped(name: str) -> ModelSpec:
    return model_named(name, None, False)[0]


def drawn_spec(run: dict[str, Any]) -> ModelSpec:
    heads, width = run["kv_heads"], run["head_dim"]
    attention = (
        {"type": "mla", "heads": 8, "kv_lora_rank": width - 64, "qk_rope_head_dim": 64}
        if run["latent"]
        else {"type": "gqa", "heads": 2 * heads, "kv_heads": heads, "head_dim": width}
    )
    return parse_spec({"name": "drawn", "layers": run["layers"], "attention": attention}, "drawn")


@pytest.mark.parametrize("number", range(len(RUNS)))
def test_blocks_are_those_that_tensorrt_llms_own_code_counts(number: int) -> None:
    run = RUNS[number]
    spec, size = drawn_spec(run), run["tokens_per_block"]
    model = held(spec, 1 if run["dp"] else run["tp"], run["pp"], run["drafts"], None)
    windows = tuple(min(run["context"], window) for window in run["windows"] or [run["context"]])
    layout = Layout({"auto": "bf16"}.get(run["dtype"], run["dtype"]), size, windows)
    own = [counted(model, stage, layout, run["budget"], run["max_tokens"]) for stage in model.stages]
    assert [[[pool.window, pool.blocks] for pool in pools] for pools in own] == [
        sorted(pairs) for pairs in run["blocks"]
    ]
    assert [sum(pool.token_bytes for pool in pools) for pools in own] == run["bytes_per_token"]


@pytest.mark.parametrize("number", [n for n, run in enumerate(RUNS) if not run["windows"]])
def test_the_figures_are_the_fewest_blocks_and_the_fullest_rank(number: int) -> None:
    run = RUNS[number]
    options = [f"tokens_per_block={run['tokens_per_block']}", f"dtype={run['dtype']}"]
    options += ["enable_attention_dp=true"] if run["dp"] else []
    options += [f"max_tokens={run['max_tokens']}"] if run["max_tokens"] else []
    found = reserved(
        drawn_spec(run), run["context"], *options, budget=run["budget"], tp=run["tp"], pp=run["pp"], mtp=run["drafts"]
    ).figures
    fewest = min(pairs[0][1] for pairs in run["blocks"])
    assert (found["num_blocks"], found["max_tokens"]) == (fewest, fewest * run["tokens_per_block"])
    assert found["bytes_per_token"] == max(run["bytes_per_token"])


@pytest.mark.parametrize("log", [pytest.param(log, id=log["id"]) for log in LOGS["logs"]])
def test_pools_have_the_sizes_that_servers_printed(log: dict[str, Any]) -> None:
    found = reserved(shipped(log["model"]), 1024, *log["options"])
    assert f"{found.reserved_bytes / 2**30:.2f}" == log["gib"]
    assert found.figures["num_blocks"] == log.get("num_blocks", found.figures["num_blocks"])


def test_a_request_takes_whole_blocks_and_shares_those_of_a_prefix() -> None:
    spec = spec_of(GQA)
    assert reserved(spec, 33, batch=3).reserved_bytes == 3 * 64 * 64
    assert reserved(spec, 200, batch=3, prefix=70).reserved_bytes == (2 + 3 * 5) * 32 * 64


@pytest.mark.parametrize("context", [1, 31, 32, 33, 100_000])
@pytest.mark.parametrize(
    "options", [(), ("max_attention_window=16,999999",), ("max_attention_window=40",), ("dtype=nvfp4",)]
)
def test_the_least_budget_is_enough_and_a_byte_less_is_not(context: int, options: tuple[str, ...]) -> None:
    spec = spec_of({**GQA, "head_dim": 16}, {**GQA, "head_dim": 16}, {**GQA, "head_dim": 16})
    least = reserved(spec, context, *options).least_budget_bytes

    def enough(budget: int) -> bool:
        figures = reserved(spec, context, *options, budget=budget).figures
        if "windows" not in figures:
            return bool(figures["num_blocks"] >= figures["blocks_per_request"])
        wanted = {pool["window"]: pool["blocks"] for pool in figures["windows"]}
        got = {pool["window"]: pool["num_blocks"] for pool in figures["pools"]}
        return set(got) == set(wanted) and all(got[window] >= wanted[window] for window in wanted)

    assert enough(least)
    assert not enough(least - 1)


def test_windows_hold_every_token_until_it_is_said() -> None:
    spec = shipped("gpt-oss-20b")
    whole = reserved(spec, 32_768)
    assert whole.reserved_bytes == 49_152 * 32_768
    assert "windowed layers hold every token" in whole.reasons[0]
    varied = reserved(spec, 32_768, "max_attention_window=128,32768").figures
    assert [pool["blocks"] for pool in varied["windows"]] == [5, 1024]
    assert reserved(spec, 32_768, "max_attention_window=128").reserved_bytes == 49_152 * 32 * 5


def test_states_are_a_fixed_cost_of_every_request_there_is_room_for() -> None:
    spec = spec_of(MAMBA2, GQA)
    state = (8 * 16 + 2 * 2 * 8) * 3 * 2 + 8 * 16 * 8 * 2
    assert reserved(spec, 32, batch=3).figures["mamba_state_bytes"] == 3 * state
    many = reserved(spec, 32, "max_batch_size=9", batch=3)
    assert many.figures["mamba_state_bytes"] == 9 * state
    assert many.reserved_bytes == 9 * state + 3 * 32 * 64
    assert "states of 9 requests" in many.reasons
    assert reserved(spec, 32, tp=2).figures["mamba_state_bytes"] == state // 2
    wide = reserved(spec, 32, "mamba_ssm_cache_dtype=float32").figures["mamba_state_bytes"]
    assert wide == state + 8 * 16 * 8 * 2
    assert "num_blocks" not in reserved(spec_of(MAMBA2), 32, budget=10**6).figures


def test_a_cache_format_that_the_release_states_is_taken() -> None:
    spec = spec_of(GQA, kv_dtype="fp8")
    assert reserved(spec, 32).figures["bytes_per_token"] == 32
    assert reserved(spec, 32, k_dtype="bf16", v_dtype="bf16").figures["bytes_per_token"] == 64


def test_index_keys_are_bytes_whatever_the_caches_dtype() -> None:
    spec = spec_of([LATENT, INDEX], LATENT)
    assert reserved(spec, 32).figures["bytes_per_token"] == 2 * (24 * 2 + 132)
    assert reserved(spec, 32, k_dtype="fp8", v_dtype="fp8").figures["bytes_per_token"] == 2 * (24 + 132)


def test_stated_tokens_or_bytes_are_the_budget() -> None:
    spec = shipped("llama-3.1-8b")
    tokens = engine_named("trtllm", ("max_tokens=1000",))
    assert tokens.given_budget(spec, Workload(100)) == 31 * 32 * 131_072
    assert tokens.reserve(spec, Workload(992)).least_budget_bytes == 31 * 32 * 131_072
    assert tokens.reserve(spec, Workload(993)).least_budget_bytes > 31 * 32 * 131_072
    assert engine_named("trtllm", ("max_gpu_total_bytes=1GiB",)).given_budget(spec, Workload(100)) == 2**30
    both = engine_named("trtllm", ("max_gpu_total_bytes=1MiB", "max_tokens=1000"))
    assert both.given_budget(spec, Workload(100)) == 2**20
    assert engine_named("trtllm").given_budget(spec, Workload(100)) is None


@pytest.mark.parametrize(
    ("layers", "options", "workload", "error", "what", "fix"),
    [
        ([GQA], (), {"policy": policy_named("streaming:sinks=4,window=4"), "policy_text": "s"}, InputError, "--policy", "full"),
        ([GQA], (), {"tp": 2, "dcp": 2}, InputError, "--dcp: found 2", "leave out"),
        ([GQA], (), {"pp": 2}, InputError, "--pp: found 2", "--pp 1"),
        ([GQA], (), {"k_dtype": "q8_0", "v_dtype": "q8_0"}, InputError, "--kv-dtype: found q8_0", "--kv-dtype fp8"),
        ([GQA], (), {"k_dtype": "fp8"}, InputError, "two formats", "--kv-dtype fp8"),
        ([GQA], ("dtype=nvfp4",), {"k_dtype": "fp8", "v_dtype": "fp8"}, InputError, "--kv-dtype says fp8", "one of them"),
        ([GQA], ("dtype=nvfp4",), {}, InputError, "found 8 numbers", "-E dtype=fp8"),
        ([GQA], ("max_attention_window=12,x",), {}, InputError, "found 12,x", "1024,32768"),
        ([GQA], ("max_attention_window=0",), {}, InputError, "found 0", "1024,32768"),
        ([GQA], ("max_attention_window=16,32", "max_tokens=99"), {}, InputError, "ignores it", "max_gpu_total_bytes"),
        ([GQA], ("max_batch_size=2",), {"batch": 3}, InputError, "the batch has 3", "max_batch_size=3"),
        ([[LATENT, INDEX]], (), {"index_dtype": "bf16"}, InputError, "--index-dtype", "fp8"),
        ([MAMBA2], (), {"tp": 3}, InputError, "3 ranks do not divide the 8 heads", "--tp 2"),
        ([ENTRY], (), {}, NotCountableError, "compressed entries", "--engine ideal"),
        ([CROSS], (), {}, NotCountableError, "cross_k", "--engine ideal"),
        ([[GQA, INDEX]], (), {}, NotCountableError, "index keys beside", "--engine ideal"),
        ([[LATENT, {**INDEX, "head_dim": 64}]], (), {}, NotCountableError, "index keys of 64", "--engine ideal"),
        ([[LATENT, LATENT]], (), {}, NotCountableError, "two attentions", "--engine ideal"),
        ([GQA, {**GQA, "head_dim": 16}], (), {}, NotCountableError, "head width", "--engine ideal"),
        ([{**GQA, "v_head_dim": 16}], (), {}, NotCountableError, "V of another shape", "--engine ideal"),
        ([{"type": "rg_lru", "width": 32, "conv_kernel": 4}, LOCAL], (), {}, NotCountableError, "this recurrence", "--engine ideal"),
    ],
)  # fmt: skip
def test_what_tensorrt_llm_does_not_do_is_refused_with_a_way_out(
    layers: list[Any], options: tuple[str, ...], workload: dict[str, Any], error: type[KvplanError], what: str, fix: str
) -> None:
    spec = spec_of(*layers, encoder_tokens=12) if layers == [CROSS] else spec_of(*layers)
    with pytest.raises(error) as caught:
        reserved(spec, 40, *options, **workload)
    assert what in caught.value.what
    assert fix in caught.value.fix
