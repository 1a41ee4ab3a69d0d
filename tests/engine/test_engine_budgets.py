"""From a card to a budget, engine by engine: steps add up, defaults are the engine's, overrides are exact."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

import kvplan
from kvplan.account import Range
from kvplan.engine import ENGINES
from kvplan.engine.sglang.budget import default_share
from kvplan.errors import InputError

MIB, GIB = 2**20, 2**30
MODELS = ("llama-3.1-8b", "mha-70b", "gpt-oss-20b")


def sized(model: str = "llama-3.1-8b", **asked: Any) -> Any:
    return kvplan.size(model, ctx=1000, **{"gpu": "h100-sxm-80gb", **asked})


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("gpu", ["h100-sxm-80gb", "24GiB", "gb10", "m4-max-128gb"])
@pytest.mark.parametrize("model", MODELS)
def test_every_step_adds_up_and_has_a_source(engine: str, gpu: str, model: str) -> None:
    found = sized(model, engine=engine, gpu=gpu, weights="16GB")
    card = found.gpu
    assert card.usable_bytes <= card.total_bytes
    taken = card.weights_bytes + sum(o.bytes for o in card.overheads)
    assert card.kv_budget_bytes == card.usable_bytes - taken
    low, high = found.bounds["gpu.kv_budget_bytes"]
    assert low <= card.kv_budget_bytes <= high
    for overhead in card.overheads:
        assert overhead.low_bytes <= overhead.bytes <= overhead.high_bytes
        assert overhead.sources
        assert overhead.note


@pytest.mark.parametrize("engine", ENGINES)
def test_a_stated_budget_is_exact_in_every_engine(engine: str) -> None:
    found = sized(engine=engine, available_bytes="40GiB")
    assert found.gpu.kv_budget_bytes == 40 * GIB
    assert found.gpu.overhead_bytes == 0
    assert not [key for key in found.bounds if key.startswith(("gpu.kv", "gpu.max", "engine.", "gpu.head"))]


@pytest.mark.parametrize(
    ("engine", "options", "budget"),
    [
        ("vllm", {"kv_cache_memory_bytes": "40GiB"}, 40 * GIB),
        ("vllm", {"num_gpu_blocks_override": 1000}, 1000 * 16 * 131072),
        ("sglang", {"max_total_tokens": 100_000}, 100_001 * 131072),
        ("trtllm", {"max_tokens": 100_000}, 100_000 * 131072),
        ("trtllm", {"max_gpu_total_bytes": "40GiB"}, 40 * GIB),
    ],
)
def test_an_engines_own_override_is_exact(engine: str, options: dict[str, Any], budget: int) -> None:
    found = sized(engine=engine, engine_options=options)
    assert found.gpu.kv_budget_bytes == budget
    assert found.confidence["gpu.kv_budget_bytes"] == "exact"
    assert not [key for key in found.bounds if key.startswith("engine.")]


def test_vllm_takes_its_share_of_the_whole_card_rounded_up() -> None:
    total = 84943715696
    for engine, share in (("vllm", "0.92"), ("vllm@0.25", "0.92"), ("vllm@0.19", "0.9")):
        assert sized(engine=engine).gpu.usable_bytes == -(-total * Fraction(share) // 1)
    own = sized(engine="vllm", engine_options={"gpu_memory_utilization": "0.5"})
    asked = sized(engine="vllm", utilization="0.5")
    assert own.gpu.usable_bytes == asked.gpu.usable_bytes == -(-total // 2)


@pytest.mark.parametrize(
    ("engine", "option"),
    [("vllm", "gpu_memory_utilization"), ("sglang", "mem_fraction_static"), ("trtllm", "free_gpu_memory_fraction")],
)
def test_two_shares_that_differ_are_refused(engine: str, option: str) -> None:
    assert sized(engine=engine, utilization="0.8", engine_options={option: "0.8"}).gpu.fits
    with pytest.raises(InputError, match=option):
        sized(engine=engine, utilization="0.9", engine_options={option: "0.8"})


def test_vllm_counts_graphs_since_0_21_and_not_in_eager_mode() -> None:
    def names(**asked: Any) -> set[str]:
        return {overhead.name for overhead in sized(**asked).gpu.overheads}

    assert "graphs" in names(engine="vllm")
    assert "graphs" not in names(engine="vllm@0.19")
    assert "graphs" not in names(engine="vllm", engine_options={"enforce_eager": True})


def test_vllms_peak_follows_the_sequences_of_a_step() -> None:
    """1,024 x 128,256 logits of 32 bytes, or 256 of them."""

    def activations(**options: Any) -> int:
        found = sized(engine="vllm", engine_options=options).gpu.overheads
        return next(overhead.bytes for overhead in found if overhead.name == "activations")

    assert activations() == 1024 * 128256 * 32
    assert activations(max_num_seqs=256) == 256 * 128256 * 32
    assert activations(max_num_seqs=1, max_num_batched_tokens=32768) == 32768 * 2 * (4 * 4096 + 3 * 14336)


@pytest.mark.parametrize(
    ("gib", "tp", "latent", "share"),
    [
        (16, 1, False, 1 - (512 + 3072 + 128 + 16 + 8 * 42) / 16384),
        (24, 1, False, 1 - (512 + 6144 + 128 + 96 + 8 * 50) / 24576),
        (24, 4, False, 1 - (512 + 6144 + 512 + 320 + 8 * 50) / 24576),
        (80, 1, False, 1 - (512 + 12288 + 128 + 512 + 8 * 58) / 81920),
        (141, 8, True, 1 - (512 + 12288 + 1024 + 1024 + 1536) / (141 * 1024)),
        (192, 8, False, 1 - (512 + 24576 + 1024 + 1024 + 8 * 74) / (192 * 1024)),
    ],
)
def test_sglangs_default_share_written_out(gib: int, tp: int, latent: bool, share: float) -> None:
    assert float(default_share(Range.exact(gib * GIB), tp, 1, latent)) == round(share, 3)


def test_llama_cpp_leaves_a_margin_and_mlx_takes_the_working_set() -> None:
    assert sized(engine="llama.cpp", gpu="24GiB").gpu.usable_bytes == 23 * GIB
    assert sized(engine="mlx", gpu="24GiB").gpu.usable_bytes == 24 * GIB
    assert sized(engine="mlx", gpu="24GiB", utilization="0.5").gpu.usable_bytes == 12 * GIB


def test_tensorrt_llm_takes_its_fraction_of_what_is_left() -> None:
    """Nine tenths by default; all of it at 1, where nothing stays free."""
    default, everything = sized(engine="trtllm").gpu, sized(engine="trtllm", utilization="1").gpu
    assert default.kv_budget_bytes == everything.kv_budget_bytes * 9 // 10
    assert next(o.bytes for o in everything.overheads if o.name == "left_free") == 0
    full = sized(engine="trtllm", weights="100GB").gpu
    assert full.kv_budget_bytes < 0
    assert not full.fits


def test_ollama_is_its_llama_server_less_what_is_kept_back() -> None:
    plain = sized(engine="ollama", gpu="24GiB").gpu
    kept = sized(engine="ollama", gpu="24GiB", engine_options={"gpu_overhead": "1GiB"}).gpu
    assert plain.usable_bytes == 23 * GIB
    assert plain.kv_budget_bytes - kept.kv_budget_bytes == GIB
