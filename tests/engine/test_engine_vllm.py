"""The vLLM engine against numbers that vLLM's own planner printed, and its refusals."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from kvplan.catalogue import model_named
from kvplan.engine import Reservation, engine_named
from kvplan.errors import InputError, NotCountableError
from kvplan.policy import policy_named
from kvplan.spec import ModelSpec, parse_spec
from kvplan.workload import Workload
from kvplan.yaml_text import load_yaml

GIB = 2**30
LENGTH = 131_072


def reserved(
    model: str | ModelSpec,
    context: int,
    *options: str,
    budget: int | None = None,
    engine: str = "vllm",
    **workload: Any,
) -> Reservation:
    spec = model_named(model)[0] if isinstance(model, str) else model
    return engine_named(engine, options).reserve(spec, Workload(context, **workload), budget)


def spec_of(*layers: Any, dtype: str = "bf16", **fields: Any) -> ModelSpec:
    groups = [
        {"count": count, "attention": attention}
        for count, attention in ((1, one) if isinstance(one, dict | list) else one for one in layers)
    ]
    return parse_spec({"name": "tiny", "dtype": dtype, "layers": groups, **fields}, "tiny.yaml")


GQA = {"type": "gqa", "heads": 8, "kv_heads": 8, "head_dim": 128}
FP8 = {"k_dtype": "fp8", "v_dtype": "fp8"}
DS_MLA = {"k_dtype": "fp8_ds_mla", "v_dtype": "fp8_ds_mla"}

# (model, context, workload, options, GiB, bytes per block, blocks, tokens, concurrency, bytes per request): the log
# line and the planner's figures of vLLM 0.33.0, executed with these shapes; two batches of 8,192 tokens in flight.
EXECUTED: list[tuple[str, int, dict[str, Any], tuple[str, ...], int, int, int, int, str, int]] = [
    ("llama-3.1-8b", LENGTH, {}, (), 60, 2_097_152, 30_720, 491_520, "3.7500", 17_179_869_184),
    ("llama-3.1-8b", LENGTH, FP8, (), 60, 1_048_576, 61_440, 983_040, "7.5000", 8_589_934_592),
    ("llama-3-70b", 8192, {"tp": 8}, (), 40, 655_360, 65_536, 1_048_576, "128.0000", 335_544_320),
    ("llama-3-70b", 8192, {"tp": 16}, (), 40, 655_360, 65_536, 1_048_576, "128.0000", 335_544_320),
    ("deepseek-v3", 163_840, {}, (), 40, 4_497_408, 9549, 611_136, "3.7301", 11_513_364_480),
    ("deepseek-v3", 163_840, {"tp": 8, "dcp": 8}, (), 40, 4_497_408, 9549, 4_889_088, "29.8406", 1_439_170_560),
    ("deepseek-v3", 163_840, FP8, (), 40, 2_248_704, 19_099, 1_222_336, "7.4605", 5_756_682_240),
    ("deepseek-v3", 163_840, DS_MLA, (), 40, 2_561_024, 16_770, 1_073_280, "6.5508", 6_556_221_440),
    ("deepseek-v3.2", 163_840, DS_MLA, (), 40, 3_076_352, 13_961, 893_504, "5.4535", 7_875_461_120),
    ("deepseek-v3.2", 163_840, FP8, (), 40, 3_076_352, 13_961, 893_504, "5.4535", 7_875_461_120),
    ("deepseek-v3", 163_840, {"mtp": 1}, (), 40, 4_571_136, 9395, 601_280, "3.6699", 11_702_108_160),
    ("llama-3.1-8b", LENGTH, {"mtp": 1}, (), 60, 2_162_688, 29_789, 476_624, "3.6364", 17_716_740_096),
    ("gemma-3-27b", LENGTH, {}, (), 40, 1_310_720, 32_768, 291_658, "2.2252", 19_301_662_720),
    ("gpt-oss-20b", LENGTH, {}, (), 40, 393_216, 109_226, 1_551_920, "11.8402", 3_627_417_600),
    ("gpt-oss-120b", LENGTH, {}, (), 40, 589_824, 72_817, 1_034_609, "7.8934", 5_441_126_400),
    ("gemma-4-31b", LENGTH, {}, (), 40, 2_621_440, 16_384, 225_079, "1.7172", 25_011_159_040),
    ("whisper-large-v3", 448, {"encoder_tokens": 1500}, (), 10, 2_621_440, 4096, 15_041, "33.5738", 319_815_680),
    ("qwen3-next-80b-a3b", 32_768, {}, (), 40, 13_369_344, 3212, 1_570_907, "47.9403", 67 * 13_369_344),
    (
        "qwen3-next-80b-a3b",
        32_768,
        {},
        ("enable_prefix_caching=false",),
        40,
        13_369_344,
        3212,
        1_644_544,
        "50.1875",
        64 * 13_369_344,
    ),
    ("qwen3-next-80b-a3b", 32_768, {"tp": 2}, (), 40, 6_684_672, 6425, 3_142_304, "95.8955", 67 * 6_684_672),
    ("qwen3-next-80b-a3b", 32_768, {"tp": 4}, (), 40, 3_342_336, 12_850, 3_315_502, "101.1811", 127 * 3_342_336),
    (
        "qwen3-next-80b-a3b",
        32_768,
        {},
        ("mamba_ssm_cache_dtype=float32",),
        40,
        25_952_256,
        1654,
        1_426_270,
        "43.5263",
        38 * 25_952_256,
    ),
    ("jamba-1.5-mini-52b", 32_768, {}, (), 40, 1_310_720, 32_768, 2_532_409, "77.2830", 424 * 1_310_720),
    ("kimi-linear-48b-a3b", 32_768, {}, (), 40, 15_482_880, 2774, 3_787_434, "115.5833", 24 * 15_482_880),
]


@pytest.mark.parametrize("case", EXECUTED, ids=lambda case: f"{case[0]}-{case[2]}-{case[3]}")
def test_the_executed_table_comes_out_exactly(case: tuple[Any, ...]) -> None:
    model, context, workload, options, gib, block_bytes, blocks, tokens, concurrency, request_bytes = case
    found = reserved(model, context, *options, budget=gib * GIB, **workload)
    figures = found.figures
    assert figures["bytes_per_block"] == block_bytes
    assert figures["num_gpu_blocks"] == blocks
    assert figures["allocated_bytes"] == blocks * block_bytes
    assert figures["kv_cache_size_tokens"] == tokens
    assert f"{figures['max_concurrency']:.4f}" == concurrency
    assert figures["bytes_per_request"] == request_bytes == found.reserved_bytes


@pytest.mark.parametrize(
    ("model", "workload", "block_size", "page"),
    [
        ("qwen3-next-80b-a3b", {}, 544, 1_114_112),
        ("qwen3-next-80b-a3b", {"tp": 2}, 544, 557_056),
        ("qwen3-next-80b-a3b", {"tp": 4}, 272, 278_528),
        ("jamba-1.5-mini-52b", {}, 80, 327_680),
        ("nemotron-h-8b", {}, 1040, 4_259_840),
        ("nemotron-h-8b", {"tp": 8}, 1040, 532_480),
        ("kimi-linear-48b-a3b", {}, 1920, 2_211_840),
    ],
)
def test_the_attention_block_is_raised_to_the_state_page(
    model: str, workload: dict[str, Any], block_size: int, page: int
) -> None:
    figures = reserved(model, 32_768, **workload).figures
    assert figures["block_size"] == block_size
    assert {group["page_bytes"] for group in figures["groups"]} == {page}


def test_flashinfers_gated_deltanet_puts_blocks_on_its_checkpoint_grid() -> None:
    figures = reserved("qwen3-next-80b-a3b", 32_768, "gdn_prefill_backend=flashinfer").figures
    assert figures["block_size"] == 576
    assert {group["page_bytes"] for group in figures["groups"]} == {1_179_648}


# Bytes of one token in one layer of 8 heads of 128, from vLLM 0.33.0's backends.
@pytest.mark.parametrize(
    ("name", "token_bytes"),
    [
        ("bf16", 4096),
        ("fp8", 2048),
        ("fp8_e5m2", 2048),
        ("int8_per_token_head", 2112),
        ("fp8_per_token_head", 2112),
        ("int4_per_token_head", 1088),
        ("nvfp4", 1152),
    ],
)
def test_a_page_holds_a_block_of_tokens_in_its_format(name: str, token_bytes: int) -> None:
    figures = reserved(spec_of(GQA), 1024, k_dtype=name, v_dtype=name).figures
    assert figures["bytes_per_block"] == 16 * token_bytes


@pytest.mark.parametrize(("tokens", "batched"), [(291_658, 8192), (424_487, 2048), (205_796, 16_384)])
def test_windows_wait_for_the_tokens_in_flight(tokens: int, batched: int) -> None:
    found = reserved("gemma-3-27b", LENGTH, f"max_num_batched_tokens={batched}", budget=40 * GIB)
    assert found.figures["kv_cache_size_tokens"] == tokens


def test_one_batch_is_in_flight_without_asynchronous_scheduling() -> None:
    found = reserved("gemma-3-27b", LENGTH, "async_scheduling=false", budget=40 * GIB)
    assert found.figures["kv_cache_size_tokens"] == 368_540


def test_without_the_hybrid_manager_windows_are_allocated_in_full() -> None:
    found = reserved("gemma-3-27b", LENGTH, "disable_hybrid_kv_cache_manager=true", budget=40 * GIB)
    assert found.least_budget_bytes > 40 * GIB
    assert f"{found.figures['bytes_per_request'] / GIB:.1f}" == "62.0"
    assert found.figures["max_model_len"] == 84_544


def test_one_request_and_the_null_block_must_fit() -> None:
    block = 2_097_152
    assert reserved("llama-3.1-8b", 8192).least_budget_bytes == 513 * block
    assert reserved("llama-3.1-8b", 8192, budget=512 * block).figures["max_model_len"] == 8176


def test_the_token_line_is_concurrency_times_length() -> None:
    assert reserved("llama-3.1-8b", 8001, budget=60 * GIB).figures["kv_cache_size_tokens"] == 490_600
    assert reserved("gemma-3-27b", 8192, budget=40 * GIB).figures["kv_cache_size_tokens"] == 74_773


def test_groups_are_those_of_the_planner() -> None:
    def groups(model: str, **workload: Any) -> list[tuple[int, str, int]]:
        found = reserved(model, 32_768, **workload).figures["groups"]
        return [(group["count"], group["kind"], group["layers"]) for group in found]

    assert groups("gemma-3-27b") == [(4, "sliding window", 9), (2, "sliding window", 8), (1, "full attention", 10)]
    assert groups("gpt-oss-20b") == [(1, "sliding window", 12), (1, "full attention", 12)]
    assert groups("llama-4-scout", tp=8) == [(3, "chunked", 12), (1, "full attention", 12)]
    assert groups("kimi-linear-48b-a3b") == [(2, "state", 7), (1, "state", 6), (1, "MLA", 7)]
    assert groups("whisper-large-v3") == [(1, "full attention", 32), (1, "cross attention", 32)]
    assert reserved("llama-4-scout", 32_768, tp=8).figures["bytes_per_block"] == 98_304
    assert reserved("gemma-3-1b", 32_768).figures["bytes_per_block"] == 65_536


def test_a_full_draft_layer_makes_groups_of_the_larger_size() -> None:
    spec = spec_of(
        (12, {**GQA, "head_dim": 64, "window": 128}),
        (12, {**GQA, "head_dim": 64}),
        draft={"attention": {**GQA, "head_dim": 64}},
    )
    assert reserved(spec, LENGTH, mtp=1).figures["bytes_per_block"] == 425_984


def test_layers_of_two_widths_are_one_group_of_mixed_pages() -> None:
    spec = spec_of((16, GQA), (16, {**GQA, "kv_heads": 4}))
    assert reserved(spec, LENGTH).figures["bytes_per_block"] == 1_572_864


def test_compressed_entries_have_the_pages_of_their_kernels() -> None:
    """Pages of 256 tokens at ratio 4 and 128, as vLLM 0.33.0 rounds them up to 576 bytes."""
    figures = reserved("deepseek-v4-flash", 32_768).figures
    pages = {page for group in figures["groups"] for page in str(group["page_bytes"]).split(" + ")}
    assert {"37,440", "1,728", "8,640"} <= pages
    assert figures["block_size"] == 256


def test_the_stage_with_fewest_blocks_decides() -> None:
    found = reserved("llama-3.1-8b", LENGTH, budget=20 * GIB + 12_345, pp=2)
    assert found.figures["num_gpu_blocks"] == 20_480
    assert found.figures["allocated_bytes"] == 21_474_836_480


def test_the_override_and_the_bytes_are_budgets() -> None:
    spec = model_named("llama-3.1-8b")[0]
    assert engine_named("vllm", ("num_gpu_blocks_override=100",)).given_budget(spec, Workload(8192)) == 100 * 2_097_152
    assert engine_named("vllm", ("kv_cache_memory_bytes=1GiB",)).given_budget(spec, Workload(8192)) == GIB
    assert engine_named("vllm").given_budget(spec, Workload(8192)) is None


def test_a_shared_prefix_is_shared_in_whole_blocks() -> None:
    alone = reserved("llama-3.1-8b", 8192, batch=4)
    shared = reserved("llama-3.1-8b", 8192, batch=4, prefix=1000)
    assert alone.reserved_bytes - shared.reserved_bytes == 3 * 62 * 2_097_152
    off = reserved("llama-3.1-8b", 8192, "enable_prefix_caching=false", batch=4, prefix=1000)
    assert off.reserved_bytes == alone.reserved_bytes


@pytest.mark.parametrize(
    ("spec", "workload", "options", "word"),
    [
        ("llama-3.1-8b", {"k_dtype": "q8_0", "v_dtype": "q8_0"}, (), "--kv-dtype"),
        ("llama-3.1-8b", {"k_dtype": "fp8"}, (), "--v-dtype"),
        ("llama-3.1-8b", {"k_dtype": "fp8_ds_mla", "v_dtype": "fp8_ds_mla"}, (), "--kv-dtype"),
        ("deepseek-v3", {"k_dtype": "nvfp4", "v_dtype": "nvfp4"}, (), "--kv-dtype"),
        ("deepseek-v3.2", {"index_dtype": "bf16"}, (), "--index-dtype"),
        ("llama-3.1-8b", {"tp": 3}, (), "--tp"),
        ("qwen3-next-80b-a3b", {"tp": 3}, (), "--tp"),
        ("llama-3.1-8b", {"tp": 8, "dcp": 2}, (), "--dcp"),
        ("gemma-3-27b", {"tp": 32, "dcp": 2}, (), "--dcp"),
        (
            "llama-3.1-8b",
            {"policy": policy_named("streaming:sinks=4,window=60"), "policy_text": "streaming"},
            (),
            "--policy",
        ),
        ("llama-3.1-8b", {}, ("block_size=17",), "block_size"),
        ("llama-3.1-8b", {}, ("attention_backend=FLASHMLA",), "attention_backend"),
        ("deepseek-v3", {}, ("attention_backend=FLASH_ATTN",), "attention_backend"),
        ("jamba-1.5-mini-52b", {}, ("disable_hybrid_kv_cache_manager=true",), "does not start"),
        ("jamba-1.5-mini-52b", {}, ("enable_prefix_caching=false", "mamba_cache_mode=align"), "mamba_cache_mode"),
        ("jamba-1.5-mini-52b", {}, ("enable_prefix_caching=true", "mamba_cache_mode=none"), "mamba_cache_mode"),
        ("kimi-linear-48b-a3b", {}, ("mamba_ssm_cache_dtype=float16",), "mamba_ssm_cache_dtype"),
        ("llama-3.1-8b", FP8, ("kv_cache_dtype_skip_layers=first",), "kv_cache_dtype_skip_layers"),
        ("deepseek-v3", {"k_dtype": "fp8_e5m2", "v_dtype": "fp8_e5m2"}, (), "--kv-dtype"),
        ("deepseek-v3", FP8, ("attention_backend=FLASH_ATTN_MLA",), "--kv-dtype"),
        ("deepseek-v4-flash", {"tp": 8, "dcp": 2}, (), "--dcp"),
        ("deepseek-v4-flash", {"k_dtype": "bf16", "v_dtype": "bf16"}, (), "--kv-dtype"),
        ("deepseek-v4-flash", {}, ("block_size=128",), "block_size"),
        ("deepseek-v4-flash", {}, ("attention_backend=FLASHMLA",), "attention_backend"),
        ("deepseek-v4-flash", {}, ("disable_hybrid_kv_cache_manager=true",), "does not start"),
        ("llama-3.1-8b", {"mtp": 1}, ("num_speculative_tokens=0",), "num_speculative_tokens"),
    ],
)
def test_what_vllm_refuses_is_refused(spec: str, workload: dict[str, Any], options: tuple[str, ...], word: str) -> None:
    with pytest.raises(InputError, match=word):
        reserved(spec, 8192, *options, **workload)


@pytest.mark.parametrize(
    "model", ["xlstm-7b", "rwkv-7-1.5b", "recurrentgemma-2b", "glm-5.3-flash", "deepseek-v4.1-flash"]
)
def test_what_nobody_counted_is_refused(model: str) -> None:
    with pytest.raises(NotCountableError):
        reserved(model, 8192)


def test_shares_come_as_fractions() -> None:
    assert engine_named("vllm", ("gpu_memory_utilization=0.9",)).options == {"gpu_memory_utilization": Fraction(9, 10)}


UNEVEN = ((10, GQA), (13, {**GQA, "window": 512}))
OF_CASE: dict[str, tuple[Any, int, dict[str, Any], tuple[str, ...], int]] = {
    "llama-3.1-8b": ("llama-3.1-8b", LENGTH, {}, (), 60),
    "llama-3.1-8b short": ("llama-3.1-8b", 8001, {}, (), 60),
    "llama-3.1-8b tight": ("llama-3.1-8b", 8192, {}, (), 1),
    "llama-3.1-8b pp": ("llama-3.1-8b", 8192, {"pp": 2}, (), 20),
    "deepseek-v3": ("deepseek-v3", 163_840, {}, (), 40),
    "deepseek-v3 dcp": ("deepseek-v3", 163_840, {"tp": 8, "dcp": 8}, (), 40),
    "gemma-3-27b": ("gemma-3-27b", LENGTH, {}, (), 40),
    "gpt-oss-20b": ("gpt-oss-20b", LENGTH, {}, (), 40),
    "llama-4-scout": ("llama-4-scout", 32_768, {"tp": 8}, (), 40),
    "uneven": (UNEVEN, 32_768, {}, (), 40),
    "qwen3-next": ("qwen3-next-80b-a3b", 32_768, {}, ("enable_prefix_caching=false",), 40),
    "qwen3-next align": (
        "qwen3-next-80b-a3b",
        32_768,
        {},
        ("enable_prefix_caching=true", "mamba_cache_mode=align"),
        40,
    ),
}
PROFILE_OF = {"0.20.2": "0.23", "0.21.0": "0.23"}
RELEASES = load_yaml(
    (Path(__file__).parents[1] / "data" / "vllm_versions.yaml").read_text(encoding="utf-8"), "vllm_versions"
)


@pytest.mark.parametrize("row", RELEASES["executed"], ids=lambda row: f"{row['vllm']}-{row['case']}")
def test_older_releases_are_counted_as_their_planners_did(row: dict[str, Any]) -> None:
    model, context, workload, options, gib = OF_CASE[row["case"]]
    profile = PROFILE_OF.get(row["vllm"], row["vllm"].rpartition(".")[0])
    spec = model if isinstance(model, str) else spec_of(*model)
    figures = reserved(spec, context, *options, budget=gib * GIB, engine=f"vllm@{profile}", **workload).figures
    assert figures["num_gpu_blocks"] == row["blocks"]
    assert figures["allocated_bytes"] == row["allocated"]
    assert figures["max_model_len"] == row["length"]
    if row["length"] == context:
        assert figures["kv_cache_size_tokens"] == row["tokens"]
        assert figures["max_concurrency"] == row["concurrency"]


def test_older_releases_refuse_what_was_not_compared_with_them() -> None:
    for model, options, engine, workload in (
        ("deepseek-v4-flash", (), "vllm@0.29", {}),
        ("llama-3.1-8b", ("kv_cache_dtype_skip_layers=0",), "vllm@0.27", FP8),
        ("qwen3-next-80b-a3b", ("enable_prefix_caching=true",), "vllm@0.19", {}),
        (spec_of(GQA, {**GQA, "head_dim": 96, "window": 64}), (), "vllm@0.27", {}),
    ):
        with pytest.raises(NotCountableError):
            reserved(model, 8192, *options, engine=engine, **workload)
    with pytest.raises(InputError, match="does not start"):
        reserved(spec_of(GQA, {**GQA, "head_dim": 96, "window": 64}), 8192, engine="vllm@0.23")


def test_states_hold_fewer_blocks_before_prefills_exported_them() -> None:
    """Nemotron-H-8B at 40 GiB: vLLM 0.33.0's planner with and without its Mamba-2 layers' checkpoint blocks."""
    newest = reserved("nemotron-h-8b", 32_768, budget=40 * GIB).figures
    older = reserved("nemotron-h-8b", 32_768, budget=40 * GIB, engine="vllm@0.29").figures
    assert (newest["num_gpu_blocks"], older["num_gpu_blocks"]) == (2520, 2520)
    assert older["kv_cache_size_tokens"] == 1_876_712
    assert newest["kv_cache_size_tokens"] == 1_651_507
