"""llama.cpp and Ollama against figures that their logs printed for real models, whose shapes come from the shipped specs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kvplan.catalogue import model_named
from kvplan.engine import engine_named
from kvplan.workload import Workload

SPECS = Path(__file__).parents[2] / "model_specs"
MIB = 2**20
ROUNDING = 0.005 * MIB
UNIFIED = "n_parallel=4 kv_unified=true"

# Quoted in public threads and repository files; where a log does not say the batch of a windowed model, its cells do.
LOGS: list[tuple[str, str, dict[str, tuple[int, int, float]]]] = [
    ("qwen3-30b-a3b", "n_ctx=32768", {"base": (32768, 48, 3072.00)}),
    ("smollm2-1.7b", "n_ctx=1024", {"base": (1024, 24, 192.00)}),
    ("gemma-2-2b", f"n_ctx=8192 {UNIFIED}", {"base": (8192, 13, 416.00), "swa": (8192, 13, 416.00)}),
    (
        "gemma-4-12b",
        f"n_ctx=8192 {UNIFIED} cache_type_k=q8_0 cache_type_v=q8_0",
        {"base": (8192, 8, 68.00), "swa": (4608, 40, 765.00)},
    ),
    (
        "gpt-oss-20b",
        "n_ctx=8192 n_ubatch=128 cache_type_k=q8_0 cache_type_v=q8_0",
        {"base": (8192, 12, 102.00), "swa": (256, 12, 3.19)},
    ),
    ("gpt-oss-20b", "n_ctx=131072 n_ubatch=2048", {"base": (131072, 12, 3072.00), "swa": (2304, 12, 54.00)}),
    ("llama-3.2-3b", "n_ctx=4096 cache_type_k=q4_0", {"base": (4096, 28, 287.00)}),
    ("llama-3.2-3b", "n_ctx=4096 cache_type_k=q5_0", {"base": (4096, 28, 301.00)}),
    ("llama-3.2-3b", "n_ctx=4096 cache_type_k=q8_0", {"base": (4096, 28, 343.00)}),
    ("llama-3.1-8b", "n_ctx=1024 cache_type_k=iq4_nl", {"base": (1024, 32, 82.00)}),
    ("qwen3-235b-a22b", "n_ctx=65536 cache_type_k=q8_0", {"base": (65536, 94, 9212.00)}),
    ("qwen3-32b", "n_ctx=40960", {"base": (40960, 64, 10240.00)}),
    ("deepseek-v3", "n_ctx=131072 cache_type_k=q8_0 cache_type_v=q8_0", {"base": (131072, 61, 4666.50)}),
    ("deepseek-r1", "n_ctx=20480", {"base": (20480, 61, 1372.50)}),
    ("qwen3.6-27b", f"n_ctx=262144 {UNIFIED}", {"base": (262144, 16, 16384.00), "recurrent": (4, 48, 598.50)}),
    ("qwen3.5-35b-a3b", "n_parallel=4", {"recurrent": (4, 30, 251.25)}),
    ("qwen3.5-35b-a3b", "n_parallel=2", {"recurrent": (2, 30, 125.62)}),
    ("qwen3.5-4b", "n_ctx=8192", {"base": (8192, 8, 256.00), "recurrent": (1, 24, 50.25)}),
    ("qwen3.5-9b", f"n_ctx=135168 {UNIFIED}", {"base": (135168, 8, 4224.00), "recurrent": (4, 24, 201.00)}),
    ("qwen3.8-27b", "n_rs_seq=2", {"recurrent": (1, 48, 448.88)}),
    ("qwen2.5-32b", "n_ctx=32768 cache_type_k=q8_0 cache_type_v=q8_0", {"base": (32768, 64, 4352.00)}),
    ("olmoe-1b-7b", "n_ctx=8192 cache_type_k=q8_0 cache_type_v=q8_0", {"base": (8192, 16, 544.00)}),
    ("mamba-2.8b", "", {"recurrent": (1, 64, 23.75)}),
]
OLLAMA_LOGS: list[tuple[str, str, dict[str, tuple[int, int, float]]]] = [
    ("mistral-7b-v0.3", "num_ctx=4096", {"base": (4096, 32, 512.00)}),
    ("qwen3.5-9b", "num_ctx=262144 kv_cache_type=q8_0", {"base": (262144, 8, 4352.00)}),
    ("llama-3.2-3b", "num_ctx=8192", {"base": (8192, 28, 896.00)}),
    ("llama-3.1-8b", "num_ctx=2048 num_parallel=4", {"base": (2048, 32, 1024.00)}),
]


def caches(engine: str, name: str, options: str, context: int = 1024) -> dict[str, dict[str, Any]]:
    spec, _ = model_named(str(SPECS / f"{name}.yaml"))
    found = engine_named(engine, tuple(options.split())).reserve(spec, Workload(context))
    return {item["name"]: item for item in found.figures["caches"]}


def check(held: dict[str, dict[str, Any]], printed: dict[str, tuple[int, int, float]]) -> None:
    for name, (cells, layers, mib) in printed.items():
        assert (held[name]["cells"], held[name]["layers"]) == (cells, layers)
        total = sum(size for key, size in held[name].items() if key.endswith("_bytes"))
        assert total == pytest.approx(mib * MIB, abs=ROUNDING)


@pytest.mark.parametrize(
    ("name", "options", "printed"), LOGS, ids=lambda value: value if isinstance(value, str) else ""
)
def test_llama_cpp_holds_what_its_log_printed(
    name: str, options: str, printed: dict[str, tuple[int, int, float]]
) -> None:
    check(caches("llama.cpp", name, options), printed)


@pytest.mark.parametrize(
    ("name", "options", "printed"), OLLAMA_LOGS, ids=lambda value: value if isinstance(value, str) else ""
)
def test_ollamas_server_holds_what_its_log_printed(
    name: str, options: str, printed: dict[str, tuple[int, int, float]]
) -> None:
    check(caches("ollama", name, options), printed)


def test_a_draft_layer_of_a_27b_model_adds_one_sixteenth() -> None:
    spec, _ = model_named(str(SPECS / "qwen3.6-27b.yaml"))
    found = engine_named("llama.cpp").reserve(spec, Workload(262144, mtp=1))
    held = {item["name"]: item for item in found.figures["caches"]}
    check(held, {"base": (262144, 16, 16384.00), "mtp": (262144, 1, 1024.00)})


def test_two_devices_hold_41_and_39_layers_of_a_70b_model() -> None:
    spec, _ = model_named(str(SPECS / "llama-3.3-70b.yaml"))
    found = engine_named("llama.cpp").reserve(spec, Workload(4096, pp=2))
    assert [item["kv_bytes"] for item in found.figures["devices"]] == [656 * MIB, 624 * MIB]


def test_shares_of_two_cards_hold_41_and_23_layers_of_a_32b_model() -> None:
    spec, _ = model_named(str(SPECS / "qwen2.5-32b.yaml"))
    options = ("cache_type_k=q8_0", "cache_type_v=q8_0", "tensor_split=41,24")
    found = engine_named("llama.cpp", options).reserve(spec, Workload(32768, pp=2))
    assert [item["kv_bytes"] for item in found.figures["devices"]] == [2788 * MIB, 1564 * MIB]
