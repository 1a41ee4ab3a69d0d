"""Logs of llama.cpp: a model from its own metadata, several contexts, older wordings, and lists that are cut short."""

from __future__ import annotations

import pytest

from kvplan.errors import InputError
from kvplan.explain import explain_answer, reading_of

OLD_DEEPSEEK = """\
llm_load_print_meta: arch             = deepseek2
llm_load_print_meta: n_ctx_train      = 163840
llm_load_print_meta: n_embd           = 7168
llm_load_print_meta: n_layer          = 61
llm_load_print_meta: n_head           = 128
llm_load_print_meta: n_head_kv        = 128
llm_load_print_meta: n_rot            = 64
llm_load_print_meta: n_swa            = 0
llm_load_print_meta: n_embd_head_k    = 192
llm_load_print_meta: n_embd_head_v    = 128
llm_load_print_meta: n_gqa            = 1
llm_load_print_meta: n_embd_k_gqa     = 24576
llm_load_print_meta: n_embd_v_gqa     = 16384
llm_load_print_meta: general.name     = DeepSeek R1 BF16
llm_load_print_meta: n_lora_kv             = 512
llama_new_context_with_model: n_ctx      = 2048
"""
MODERN = """\
llama_model_loader: - kv   0:                       general.architecture str              = llama
llama_model_loader: - kv   1:                          llama.block_count u32              = 32
llama_model_loader: - kv   2:                       llama.context_length u32              = 131072
llama_model_loader: - kv   3:                     llama.embedding_length u32              = 4096
llama_model_loader: - kv   4:                 llama.attention.head_count u32              = 32
llama_model_loader: - kv   5:              llama.attention.head_count_kv u32              = 8
"""


def cache(cells: int, mib: float, layers: int = 32) -> str:
    return (
        f"llama_kv_cache: size = {mib:.2f} MiB ( {cells} cells,  {layers} layers,  1/1 seqs), "
        f"K (f16): {mib / 2:.2f} MiB, V (f16): {mib / 2:.2f} MiB\n"
    )


def test_a_release_without_latents_keeps_whole_heads() -> None:
    """9,760 MiB of DeepSeek-R1 at 2,048 cells, as ollama/ollama#8447 and ik_llama.cpp#271 print."""
    log = f"{OLD_DEEPSEEK}llama_new_context_with_model: KV self size  = 9760.00 MiB, K (f16): 5856.00 MiB, V (f16): 3904.00 MiB\n"
    answer = explain_answer(log)
    assert [figure.agrees for figure in answer.figures] == [True, True, True]


def test_a_fork_with_latents_prints_no_values() -> None:
    """601.54 MiB at 16,896 cells in q8_0, as ik_llama.cpp#287 prints for the same model."""
    log = OLD_DEEPSEEK.replace("= 2048", "= 16896")
    answer = explain_answer(
        f"{log}llama_new_context_with_model: KV self size  =  601.54 MiB, K (q8_0):  601.54 MiB, V (f16): 0.00 MiB\n"
    )
    assert [figure.agrees for figure in answer.figures] == [True, True, True]


def test_the_model_comes_from_the_metadata_lines() -> None:
    answer = explain_answer(MODERN + cache(1024, 128.0))
    assert (answer.model_through, answer.agrees) == ("the file's metadata in the log", True)


def test_the_largest_context_is_the_models_own() -> None:
    log = f"{MODERN}llama_context: constructing llama_context\nllama_context: n_ctx = 256\n{cache(256, 32.0)}"
    log += f"llama_context: constructing llama_context\nllama_context: n_ctx = 4096\n{cache(4096, 512.0)}"
    log += f"llama_context: constructing llama_context\nllama_context: n_ctx = 4096\n{cache(4096, 16.0, 1)}"
    answer = explain_answer(log)
    assert answer.agrees
    assert answer.context == 4096
    assert any("16.00 MiB more" in note for note in answer.notes)


def test_a_list_cut_short_is_not_guessed() -> None:
    log = MODERN.replace("u32              = 8", "arr[i32,32]      = [8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8...")
    with pytest.raises(InputError, match="a list of 0"):
        explain_answer(log + cache(1024, 128.0))
    told = "print_info: n_head_kv             = [" + ", ".join(["8"] * 32) + "]\n"
    assert explain_answer(log + told + cache(1024, 128.0)).agrees


def test_buffers_of_several_devices_are_added_up() -> None:
    two = "llama_kv_cache:      CUDA0 KV buffer size =    80.00 MiB\nllama_kv_cache:      CUDA1 KV buffer size =    48.00 MiB\n"
    answer = explain_answer(MODERN + two + cache(1024, 128.0))
    assert answer.agrees
    assert "base buffers of 2 devices" in [figure.name for figure in answer.figures]


def test_prefixes_of_log_files_and_servers_do_no_harm() -> None:
    plain = reading_of(MODERN + cache(1024, 128.0))
    lines = [
        f"Sep 11 00:42:49 host docker[3110]: 0.00.263.342 I {line}"
        for line in (MODERN + cache(1024, 128.0)).splitlines()
    ]
    assert reading_of("\n".join(lines)).metadata == plain.metadata
    assert [p.value for p in reading_of("\n".join(lines)).printed] == [p.value for p in plain.printed]
