"""The llama.cpp engine against figures that the engine itself printed: cells, MiB, devices, and what it refuses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from tiny_specs import CROSS, ENTRY, GQA, LATENT, spec_of

from kvplan.engine import engine_named
from kvplan.errors import InputError, KvplanError, NotCountableError
from kvplan.policy import policy_named
from kvplan.spec import ModelSpec, parse_spec
from kvplan.workload import Workload

MIB = 2**20
LLAMA = {"layers": 32, "attention": {"type": "gqa", "heads": 32, "kv_heads": 8, "head_dim": 128}}
SMOL = {"layers": 30, "attention": {"type": "gqa", "heads": 9, "kv_heads": 3, "head_dim": 64}}
DEEPSEEK = {"layers": 61, "attention": {"type": "mla", "heads": 128, "kv_lora_rank": 512, "qk_rope_head_dim": 64}}
WIDE = {"type": "gqa", "heads": 32, "kv_heads": 16, "head_dim": 128}
GEMMA = {
    "layers": [{"count": 10, "attention": WIDE}, {"count": 52, "attention": {**WIDE, "window": 1024}}],
}
LATENT_128 = {"type": "mla", "heads": 2, "kv_lora_rank": 96, "qk_rope_head_dim": 32}
MAMBA = {"layers": 8, "attention": {"type": "mamba1", "d_inner": 512, "d_state": 16, "conv_kernel": 4}}
PRINTED: dict[str, Any] = yaml.safe_load(
    (Path(__file__).parents[1] / "data" / "llama_cpp.yaml").read_text(encoding="utf-8")
)
STREAMING = "streaming:sinks=1,window=4"


def model(shape: dict[str, Any], **fields: Any) -> ModelSpec:
    return parse_spec({"name": "tiny", **shape, **fields}, "tiny.yaml")


def reserved(shape: dict[str, Any], *options: str, context: int = 4096, **workload: Any) -> Any:
    return engine_named("llama.cpp", options).reserve(model(shape), Workload(context, **workload))


def cache(found: Any, name: str) -> dict[str, Any]:
    return next(item for item in found.figures["caches"] if item["name"] == name)


def test_snapshots_repeat_every_state_as_the_engine_printed() -> None:
    """Qwen3.8-27B: 149.625 MiB for one sequence; `4 seqs  2 rs_seq` printed R 67.50 and S 1728.00 MiB."""
    deltanet = {"type": "gated_deltanet", "k_heads": 16, "v_heads": 48, "k_head_dim": 128, "v_head_dim": 128}
    found = reserved(
        {"layers": 48, "attention": {**deltanet, "conv_kernel": 4}}, "n_parallel=4", "n_rs_seq=2", "kv_unified=true"
    )
    states = cache(found, "recurrent")
    assert (states["r_bytes"], states["s_bytes"]) == (67.5 * MIB, 1728 * MIB)


@pytest.mark.parametrize(
    ("asked", "sequences", "unified", "cells", "n_ctx"),
    [
        (1000, 1, "false", 1024, 1024),
        (1000, 3, "false", 512, 1536),
        (1000, 3, "true", 1024, 1024),
        (8192, 4, "false", 2048, 8192),
        (8192, 4, "true", 8192, 8192),
    ],
)
def test_a_context_is_padded_as_the_engine_printed(
    asked: int, sequences: int, unified: str, cells: int, n_ctx: int
) -> None:
    found = reserved(LLAMA, f"n_ctx={asked}", f"n_parallel={sequences}", f"kv_unified={unified}", context=100)
    assert (cache(found, "base")["cells"], found.figures["n_ctx"]) == (cells, n_ctx)


@pytest.mark.parametrize(
    ("shape", "context", "types", "k_mib", "v_mib"),
    [
        (LLAMA, 1024, ("f16", "f16"), 64, 64),
        (LLAMA, 4096, ("q8_0", "q8_0"), 136, 136),
        (LLAMA, 4096, ("q4_0", "q4_0"), 72, 72),
        (LLAMA, 4096, ("q5_1", "q4_1"), 96, 80),
        (LLAMA, 4096, ("iq4_nl", "q5_0"), 72, 88),
        (LLAMA, 4096, ("f32", "bf16"), 512, 256),
        (SMOL, 2048, ("f16", "f16"), 22.5, 22.5),
        (SMOL, 8192, ("q8_0", "q8_0"), 47.8125, 47.8125),
        (DEEPSEEK, 4096, ("f16", "f16"), 274.5, 0),
        (DEEPSEEK, 4096, ("q8_0", "q8_0"), 145.828125, 0),
    ],
)
def test_k_and_v_are_what_the_engine_printed(
    shape: dict[str, Any], context: int, types: tuple[str, str], k_mib: float, v_mib: float
) -> None:
    found = reserved(shape, f"cache_type_k={types[0]}", f"cache_type_v={types[1]}", context=context)
    base = cache(found, "base")
    assert (base["k_bytes"], base["v_bytes"]) == (k_mib * MIB, v_mib * MIB)
    assert found.reserved_bytes == found.figures["kv_bytes"] == (k_mib + v_mib) * MIB


@pytest.mark.parametrize(
    ("n_ctx", "sequences", "unified", "full", "base_mib", "cells", "swa_mib"),
    [
        (131072, 1, "false", "false", 10240, 1536, 624),
        (8192, 1, "false", "false", 640, 1536, 624),
        (8192, 4, "false", "false", 640, 1536, 2496),
        (8192, 4, "true", "false", 640, 4608, 1872),
        (8192, 1, "false", "true", 640, 8192, 3328),
        (1024, 1, "false", "false", 80, 1024, 416),
    ],
)
def test_windows_are_what_the_engine_printed(
    n_ctx: int, sequences: int, unified: str, full: str, base_mib: int, cells: int, swa_mib: int
) -> None:
    options = (f"n_ctx={n_ctx}", f"n_parallel={sequences}", f"kv_unified={unified}", f"swa_full={full}")
    found = reserved(GEMMA, *options, context=n_ctx)
    base, swa = cache(found, "base"), cache(found, "swa")
    assert (base["k_bytes"] + base["v_bytes"], base["layers"]) == (base_mib * MIB, 10)
    assert (swa["cells"], swa["k_bytes"] + swa["v_bytes"], swa["layers"]) == (cells, swa_mib * MIB, 52)


@pytest.mark.parametrize("row", PRINTED["devices"], ids=lambda row: " ".join(map(str, row[:5])))
def test_each_device_holds_what_the_engine_printed(row: list[Any]) -> None:
    name, devices, options, n_ctx, sequences, printed = row
    found = engine_named("llama.cpp", (*options.split(), f"n_ctx={n_ctx}")).reserve(
        model({"layers": PRINTED["models"][name]}), Workload(n_ctx, sequences, pp=devices)
    )
    all_on_one = [{"name": "0", "kv_bytes": found.figures["kv_bytes"]}]
    held = {item["name"]: item["kv_bytes"] for item in found.figures.get("devices", all_on_one) if item["kv_bytes"]}
    assert held.keys() == printed.keys()
    for device, buffers in printed.items():
        assert held[device] == pytest.approx(sum(buffers) * MIB, abs=0.005 * MIB * len(buffers))
    assert found.reserved_bytes == max((size for name, size in held.items() if name != "CPU"), default=0)


@pytest.mark.parametrize("row", PRINTED["deepseek4"], ids=lambda row: row[0])
def test_the_caches_of_deepseek_v4_are_what_the_engine_printed(row: list[Any]) -> None:
    options, caches, states = row
    shape = {"layers": PRINTED["models"]["deepseek4"]}
    context = int(options.split()[0].partition("=")[2])
    listed = reserved(shape, *options.split(), context=context).figures["caches"]
    kept = [item for item in listed if "k_bytes" in item]
    assert [item["name"] for item in kept] == ["base", "swa", "csa", "hca", "indexer"]
    assert [
        [item["cells"], item["layers"], *(round(item[part] / MIB, 2) for part in ("k_bytes", "v_bytes"))]
        for item in kept
    ] == caches
    assert [round((item["r_bytes"] + item["s_bytes"]) / MIB, 2) for item in listed if "r_bytes" in item] == states


@pytest.mark.parametrize("sequences", [1, 4])
def test_recurrent_rows_are_f32_and_one_per_sequence(sequences: int) -> None:
    found = reserved(MAMBA, batch=sequences)
    assert found.figures["caches"] == [
        {
            "name": "recurrent",
            "cells": sequences,
            "layers": 8,
            "r_bytes": sequences * 8 * 3 * 512 * 4,
            "s_bytes": sequences * MIB // 4,
        }
    ]


def test_a_hybrid_keeps_both() -> None:
    layers = [
        {"count": 2, "attention": {"type": "gqa", "heads": 4, "kv_heads": 2, "head_dim": 64}},
        {"count": 14, "attention": {"type": "mamba1", "d_inner": 128, "d_state": 16, "conv_kernel": 4}},
    ]
    found = reserved({"layers": layers}, batch=2, context=512)
    recurrent = cache(found, "recurrent")
    assert (recurrent["r_bytes"], recurrent["s_bytes"], recurrent["layers"]) == (43008, 229376, 14)
    assert cache(found, "base")["layers"] == 2


@pytest.mark.parametrize(
    ("shape", "printed"),
    [
        (LLAMA, (512, 1, 2.0, 2.0)),
        ({"layers": 4, "attention": [LATENT_128, {"type": "index", "head_dim": 64}]}, (512, 1, 0.25, 0.0)),
    ],
)
def test_draft_layers_are_in_a_cache_of_their_own_without_an_index(
    shape: dict[str, Any], printed: tuple[int, int, float, float]
) -> None:
    """1,000 tokens over two sequences; the second as the engine printed it for DeepSeek-V3.2 and GLM-5."""
    for options in ((), ("cache_type_k=q8_0", "cache_type_v=q8_0")):
        found = reserved(shape, "n_ctx=1000", *options, context=300, batch=2, mtp=1)
        held = cache(found, "mtp")
        assert (held["cells"], held["layers"], held["k_bytes"] / MIB, held["v_bytes"] / MIB) == printed
        assert found.reserved_bytes == found.figures["kv_bytes"]


def test_draft_layers_with_windows_are_refused() -> None:
    with pytest.raises(NotCountableError, match="draft layers that are not full attention"):
        reserved({"layers": 2, "attention": {**GQA, "window": 16}}, mtp=1)


def test_the_cache_is_f16_whatever_the_model_is_in() -> None:
    for dtype in ("fp32", "bf16", "fp16"):
        found = engine_named("llama.cpp").reserve(model(LLAMA, dtype=dtype), Workload(1024))
        assert found.reserved_bytes == 128 * MIB


@pytest.mark.parametrize(("dtype", "mib"), [("f16", 128), ("fp32", 256), ("bf16", 128), ("q8_0", 68)])
def test_formats_can_be_named_as_kvplan_names_them(dtype: str, mib: int) -> None:
    assert reserved(LLAMA, context=1024, k_dtype=dtype, v_dtype=dtype).reserved_bytes == mib * MIB


def test_a_model_whose_every_layer_has_a_window_is_kept_whole() -> None:
    local = {"layers": 2, "attention": {**GQA, "window": 16}}
    found = reserved(local, context=1024)
    assert [item["name"] for item in found.figures["caches"]] == ["base"]
    assert found.reasons == ("windows of 16 are not applied",)


@pytest.mark.parametrize(
    ("options", "batch", "needed"),
    [
        (("n_parallel=4",), 1, 4 * 8192),
        (("n_parallel=4", "kv_unified=true"), 1, None),
        (("n_ctx=4096", "kv_unified=true"), 2, 2 * 8192),
        (("n_parallel=1",), 3, 3 * 8192),
        (("n_ctx=65536", "n_parallel=4"), 4, None),
        (("n_ctx=65536", "n_parallel=16"), 4, 16 * 8192),
        (("n_ctx=32768",), 4, None),
    ],
)
def test_a_context_that_does_not_hold_the_workload_needs_the_cells_that_would(
    options: tuple[str, ...], batch: int, needed: int | None
) -> None:
    found = reserved(LLAMA, *options, context=8192, batch=batch)
    assert found.needed_bytes == (None if needed is None else max(needed * 131072, found.reserved_bytes))


@pytest.mark.parametrize(
    ("shape", "options", "context", "reasons"),
    [
        (GEMMA, (), 1000, ("1,000 tokens in 1,024 cells",)),
        (GEMMA, (), 8192, ("windows of 1,024 hold 1,536 cells",)),
        (GEMMA, ("swa_full=true",), 8192, ("windows of 1,024 hold 8,192 cells",)),
        (LLAMA, (), 8192, ()),
        (LLAMA, ("cache_type_k=q8_0",), 8192, ("K and V in q8_0 and f16, not bf16",)),
        (LLAMA, ("no_kv_offload=true",), 8192, ("the cache stays in host memory",)),
        (MAMBA, (), 8192, ("convolutions and states in f32",)),
        (MAMBA, ("n_parallel=2",), 8192, ("convolutions and states in f32, 2 of each", "a sequence has 4,096 cells, fewer than the context")),
        (DEEPSEEK, (), 8000, ("8,000 tokens in 8,192 cells",)),
    ],
)  # fmt: skip
def test_reasons_name_what_makes_the_difference(
    shape: dict[str, Any], options: tuple[str, ...], context: int, reasons: tuple[str, ...]
) -> None:
    assert reserved(shape, *options, context=context).reasons == reasons


def test_slots_too_short_for_the_context_are_told_and_need_more() -> None:
    found = reserved(LLAMA, "n_parallel=4", context=8192)
    assert found.reserved_bytes == 1024 * MIB
    assert found.needed_bytes == 4096 * MIB
    assert "a sequence has 2,048 cells, fewer than the context" in found.reasons


def test_a_cache_in_host_memory_takes_nothing_of_the_device() -> None:
    found = reserved(LLAMA, "no_kv_offload=true", context=1024)
    assert (found.reserved_bytes, found.figures["kv_bytes"]) == (0, 128 * MIB)
    assert found.figures["devices"] == [{"name": "CPU", "layers": 32, "kv_bytes": 128 * MIB}]


@pytest.mark.parametrize(
    ("shape", "options", "workload", "error", "what", "fix"),
    [
        (LLAMA, (), {"tp": 2}, InputError, "--tp: found 2", "--pp 2"),
        (LLAMA, (), {"tp": 2, "dcp": 2}, InputError, "--tp: found 2", "--pp 2"),
        (LLAMA, (), {"prefix": 10}, InputError, "--prefix: found 10", "leave out --prefix"),
        (LLAMA, (), {"batch": 257}, InputError, "--batch: found 257", "several servers"),
        (LLAMA, ("n_parallel=300",), {}, InputError, "-E n_parallel: found 300", "several servers"),
        (LLAMA, ("n_ctx=2147483648",), {}, InputError, "-E n_ctx: found 2,147,483,648", "fewer tokens"),
        (LLAMA, (), {"context": 2**30, "batch": 2}, InputError, "--ctx x --batch: found 2,147,483,648", "fewer"),
        (LLAMA, (), {"k_dtype": "fp8", "v_dtype": "fp8"}, InputError, "--k-dtype: found fp8", "q8_0"),
        (LLAMA, ("cache_type_k=q8_0",), {"k_dtype": "q4_0"}, InputError, "--k-dtype: found q4_0", "one of them"),
        (LLAMA, ("flash_attn=off", "cache_type_v=q8_0"), {}, InputError, "-E flash_attn: found off", "flash_attn=on"),
        (DEEPSEEK, ("cache_type_k=q8_0",), {}, InputError, "-E cache_type_v: found f16", "--kv-dtype q8_0"),
        (
            {"layers": 2, "attention": {"type": "gqa", "heads": 4, "kv_heads": 2, "head_dim": 48}},
            ("cache_type_k=q8_0",),
            {},
            InputError,
            "do not divide a head of 48",
            "cache_type_k=f16",
        ),
        (LLAMA, ("tensor_split=1,2",), {}, InputError, "-E tensor_split: found 2 shares", "--pp 2"),
        (LLAMA, ("tensor_split=a",), {}, InputError, "-E tensor_split: found 'a'", "3,1"),
        (
            LLAMA,
            (),
            {"policy": policy_named(STREAMING), "policy_text": STREAMING},
            InputError,
            "--policy: found streaming",
            "--policy full",
        ),
    ],
)
def test_what_the_engine_refuses_is_refused_with_a_way_out(
    shape: dict[str, Any],
    options: tuple[str, ...],
    workload: dict[str, Any],
    error: type[KvplanError],
    what: str,
    fix: str,
) -> None:
    with pytest.raises(error) as caught:
        reserved(shape, *options, **workload)
    assert what in caught.value.what
    assert fix in caught.value.fix


@pytest.mark.parametrize(
    ("layers", "what"),
    [
        ([CROSS], "cross_k: rows of an encoder's output"),
        ([[GQA, GQA]], "a second one in the same layer"),
        ([LATENT, GQA], "latents in some layers and values in others"),
        ([GQA, {**GQA, "window": 8}, {**GQA, "window": 16}], "windows of 8 and 16 tokens"),
        ([GQA, {"type": "rg_lru", "width": 64, "conv_kernel": 4}], "a state of one number per channel"),
        ([[GQA, {"type": "short_conv", "dim": 32, "conv_kernel": 4}]], "convolutions of attention layers"),
        ([{**ENTRY, "ratio": 8}], "entry: rows by PerTokens"),
        ([ENTRY, GQA], "compressed entries beside other layers"),
        ([{"type": "mamba1", "d_inner": 8, "d_state": 4, "conv_kernel": 4}, {"type": "short_conv", "dim": 8, "conv_kernel": 3}], "recurrent layers of several sizes"),
    ],
)  # fmt: skip
def test_layers_the_engine_was_never_seen_to_keep_are_refused(layers: list[Any], what: str) -> None:
    with pytest.raises(NotCountableError) as caught:
        engine_named("llama.cpp").reserve(spec_of(*layers), Workload(64))
    assert what in caught.value.what
    assert "--engine ideal" in caught.value.fix
