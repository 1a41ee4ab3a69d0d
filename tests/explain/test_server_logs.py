"""Logs of vLLM, SGLang, TensorRT-LLM and Ollama: wordings of several releases, several ranks, flags, drafts, advice."""

from __future__ import annotations

import pytest

from kvplan.errors import InputError
from kvplan.explain import explain_answer, reading_of
from kvplan.explain.ask import profiles

AVAILABLE = "INFO [gpu_worker.py:773] Available KV cache memory: {} GiB\n"
TOKENS = "INFO [kv_cache_utils.py:1145] GPU KV cache size: {} tokens, Maximum concurrency for 131,072 tokens per request: {}x\n"


def args(**flags: object) -> str:
    return f"INFO [startup.py:96] non-default args: {flags!r}\n"


@pytest.mark.parametrize(
    "line",
    [
        "Available KV cache memory: 8.77 GiB",
        "torch peak 9.52GiB non_torch_memory=0.34GiB kv_cache_size=8.77GiB gpu_memory_utilization=0.42",
        "PyTorch activation peak memory takes 1.20GiB; the rest of the memory reserved for KV Cache is 8.77GiB.",
    ],
)
def test_the_room_is_read_in_every_wording(line: str) -> None:
    budget = reading_of(line).ask.budget
    assert budget is not None
    assert float(budget.value) == pytest.approx(8.77 * 2**30)


def test_the_poorest_rank_decides_for_all() -> None:
    """Ranks' lines come in any order; the pool is what the poorest of them holds, and the answer says so."""
    log = args(model="meta-llama/Llama-3.1-8B", tensor_parallel_size=2)
    log += f"(Worker_TP1 pid=9) {AVAILABLE.format('31.00')}(Worker_TP0 pid=8) {AVAILABLE.format('30.00')}"
    answer = explain_answer(log + TOKENS.format("491,520", "3.75"))
    assert answer.agrees
    assert any("30.00 GiB to 31.00 GiB" in note for note in answer.notes)


REFUSAL = (
    "ValueError: To serve at least one request with the {} max seq len (131072), {}16.00 GiB KV cache is needed, which is "
    "larger than the available KV cache memory (3.77 GiB). Based on the available memory, the estimated maximum model length is 30880."
)


@pytest.mark.parametrize("words", [("model's", "("), ("models's", "")])
def test_a_refusal_to_start_is_explained(words: tuple[str, str]) -> None:
    answer = explain_answer(REFUSAL.format(*words), "llama-3.1-8b")
    assert [figure.agrees for figure in answer.figures] == [True, True]
    assert answer.context == 131072


@pytest.mark.parametrize(
    ("line", "version", "first"),
    [
        ("Initializing a V1 LLM engine (v0.19.0) with config: model='x'", "0.19.0", "0.19"),
        ("Initializing an LLM engine (v0.6.4.post1) with config: model='x'", "0.6.4.post1", "0.16"),
        ("Initializing a V1 LLM engine (v0.29.1rc1.dev17+g1) with config: model='x'", "0.29.1rc1.dev17+g1", "0.29"),
        ("Initializing a V1 LLM engine (v0.33.0) with config: model='x'", "0.33.0", "0.33"),
        ("Initializing a V1 LLM engine (v0.99.0) with config: model='x'", "0.99.0", "0.33"),
        ("vLLM API server version 0.25.1", "0.25.1", "0.25"),
    ],
)
def test_a_release_is_asked_by_its_own_rules(line: str, version: str, first: str) -> None:
    reading = reading_of(line)
    assert reading.version == version
    assert profiles(reading)[0] == first


@pytest.mark.parametrize(
    ("config", "layers", "drafted"),
    [
        ({"method": "mtp", "num_speculative_tokens": 3}, 1, True),
        ({"method": "eagle3", "model": "org/eagle", "num_speculative_tokens": 2}, 1, True),
        ({"model": "google/gemma-4-31B-it-assistant", "num_speculative_tokens": 4}, 0, True),
        ({"method": "ngram", "num_speculative_tokens": 4}, 0, True),
        ({}, 0, False),
    ],
)
def test_drafts_are_told_by_their_method(config: dict[str, object], layers: int, drafted: bool) -> None:
    reading = reading_of(args(model="m", speculative_config=config))
    assert reading.ask.mtp == layers
    assert any(option.startswith("num_speculative_tokens=") for option in reading.ask.options) == drafted


def test_no_draft_is_read_where_the_configuration_says_none() -> None:
    line = "Initializing a V1 LLM engine (v0.33.0) with config: model='m', speculative_config=None, dtype=torch.float16"
    reading = reading_of(line)
    assert (reading.ask.mtp, reading.ask.k_dtype) == (0, "fp16")


def test_advice_is_the_engines_own_answer() -> None:
    """Gemma-3-27B in 40 GiB: the figures of docs/engines/vllm.md, asked again."""
    log = args(model="google/gemma-3-27b-it") + AVAILABLE.format("40.00") + TOKENS.format("291,658", "2.23")
    answer = explain_answer(f"Initializing a V1 LLM engine (v0.33.0) with config: model='google/gemma-3-27b-it'\n{log}")
    after = {one.option: one.after for one in answer.advice}
    assert after["--max-num-batched-tokens 2048"] == 424487
    assert after["--async-scheduling false"] == 368540
    assert answer.agrees


def test_an_option_that_no_engine_option_stands_for_is_named() -> None:
    reading = args(model="meta-llama/Llama-3.1-8B", mamba_block_size=1024) + AVAILABLE.format("30.00")
    answer = explain_answer(reading + TOKENS.format("245,760", "1.88"))
    assert "not counted: mamba_block_size=1024" in answer.notes


SGLANG = "[2026-05-01 10:00:00] server_args=ServerArgs(model_path='google/gemma-3-27b-it', tp_size=1, page_size=64, kv_cache_dtype='auto')\n"


def test_labelled_pools_and_a_draft_are_told_apart() -> None:
    log = SGLANG + (
        "[TP0] Use sliding window memory pool. full_layer_tokens=64000, swa_layer_tokens=51200\n"
        "[TP0] Full KV Cache is allocated. dtype: torch.bfloat16, #tokens: 64000, K size: 2.44 GB, V size: 2.44 GB\n"
        "[TP1] Full KV Cache is allocated. dtype: torch.bfloat16, #tokens: 64000, K size: 2.44 GB, V size: 2.44 GB\n"
        "[TP0] SWA KV Cache is allocated. dtype: torch.bfloat16, #tokens: 51200, K size: 10.17 GB, V size: 10.17 GB\n"
        "[TP0] KV Cache is allocated. dtype: torch.bfloat16, #tokens: 64001, K size: 0.25 GB, V size: 0.25 GB\n"
    )
    answer = explain_answer(log)
    assert answer.agrees
    assert len(answer.figures) == 5
    assert any("draft model has a pool" in note for note in answer.notes)


def test_an_upper_bound_of_addresses_is_read_like_a_pool() -> None:
    """Pools that are sized after graph capture print their reservation first."""
    line = "KV Cache VA upper bound. dtype: torch.bfloat16, #tokens: 1000, K size: 0.06 GB, V size: 0.06 GB"
    assert explain_answer(line, "llama-3.1-8b").agrees


def test_a_share_of_what_is_left_makes_the_blocks() -> None:
    """TensorRT-LLM 1.2: 0.9 of 29.90 GiB in blocks of 64 tokens, 131,072 bytes each."""
    log = (
        "[TRT-LLM] [I] LLM Args: TorchLlmArgs(model='meta-llama/Llama-3.1-8B', kv_cache_config=KvCacheConfig(free_gpu_memory_fraction=0.9))\n"
        "[TensorRT-LLM][INFO] Memory usage when calculating max tokens in paged kv cache: total: 79.10 GiB, available: 29.90 GiB\n"
        "[TensorRT-LLM][INFO] Number of blocks in KV cache primary pool: 3445\n"
        "[TensorRT-LLM][INFO] Number of tokens per block: 64.\n"
        "[TensorRT-LLM][INFO] [MemUsageChange] Allocated 26.91 GiB for max tokens in paged KV cache (220480).\n"
    )
    answer = explain_answer(log)
    assert [figure.agrees for figure in answer.figures] == [True, True, True]
    assert answer.budget is not None
    assert answer.budget.printed == "29.90 GiB x 0.9"


def test_ollama_divides_its_context_by_the_slots() -> None:
    log = (
        'time=2024-08-30T04:40:18Z level=INFO msg="offload to cuda" memory.required.kv="1.0 GiB" memory.weights.total="4.7 GiB"\n'
        'time=2024-08-30T04:40:18Z level=INFO msg="starting llama server" cmd="ollama_llama_server --ctx-size 8192 --batch-size 512 --parallel 4"\n'
    )
    answer = explain_answer(log, "llama-3.1-8b")
    assert (answer.engine, answer.context, answer.agrees) == ("ollama", 2048, True)
    assert {one.option: one.after for one in answer.advice}["OLLAMA_NUM_PARALLEL=1"] == 2048 * 131072


def test_a_length_beyond_reason_is_an_error_of_the_log() -> None:
    with pytest.raises(InputError, match="the log: "):
        explain_answer(
            "llama_context: n_ctx = 9999999999999\nllama_kv_cache: size = 1.00 MiB ( 9 cells, 1 layers, 1/1 seqs)",
            "llama-3.1-8b",
        )
