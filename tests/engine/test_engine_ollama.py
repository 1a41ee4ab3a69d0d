"""The Ollama engine: what it decides before llama-server starts, and that llama.cpp's rules follow."""

from __future__ import annotations

from typing import Any

import pytest
from tiny_specs import GQA, LOCAL, spec_of

from kvplan.account import Device, Range
from kvplan.engine import engine_named
from kvplan.engine.ollama import ENGINE
from kvplan.errors import InputError
from kvplan.spec import parse_spec
from kvplan.workload import Workload

GIB = 2**30
SPEC = parse_spec({"name": "tiny", "max_context": 40000, "layers": 2, "attention": GQA}, "tiny.yaml")


def figures(*options: str, context: int = 1000, batch: int = 1, spec: Any = SPEC, **workload: Any) -> Any:
    return engine_named("ollama", options).reserve(spec, Workload(context, batch, **workload)).figures


@pytest.mark.parametrize(
    ("options", "num_ctx", "num_parallel", "n_ctx"),
    [
        ((), 1000, 1, 1024),
        (("num_parallel=3",), 1000, 3, 3072),
        (("num_ctx=8192", "num_parallel=4"), 8192, 4, 32768),
        (("context_length=4096",), 4096, 1, 4096),
        (("context_length=4096", "num_ctx=2048"), 2048, 1, 2048),
        (("num_ctx=1",), 4, 1, 256),
        (("num_ctx=65536",), 40000, 1, 40192),
    ],
)
def test_the_context_is_num_ctx_for_each_of_num_parallel(
    options: tuple[str, ...], num_ctx: int, num_parallel: int, n_ctx: int
) -> None:
    found = figures(*options)
    assert (found["num_ctx"], found["num_parallel"], found["n_ctx"]) == (num_ctx, num_parallel, n_ctx)
    assert found["kv_unified"] is False


@pytest.mark.parametrize(
    ("total", "overhead", "pp", "num_ctx"),
    [
        (0, 0, 1, 4096),
        (23 * GIB - 1, 0, 1, 4096),
        (23 * GIB, 0, 1, 32768),
        (47 * GIB - 1, 0, 1, 32768),
        (47 * GIB, 0, 1, 40000),
        (24 * GIB, 2 * GIB, 1, 4096),
        (48 * GIB, GIB, 2, 32768),
    ],
)
def test_memory_of_all_gpus_decides_a_context_that_nobody_asked_for(
    total: int, overhead: int, pp: int, num_ctx: int
) -> None:
    found = figures(f"total_vram={total}", f"gpu_overhead={overhead}", pp=pp)
    assert found["num_ctx"] == num_ctx


@pytest.mark.parametrize(
    ("options", "context", "batch", "n_ubatch"),
    [
        ((), 4096, 1, 512),
        ((), 4097, 1, 1024),
        ((), 2048, 3, 1024),
        ((), 32768, 1, 1024),
        ((), 32769, 1, 2048),
        (("flash_attention=false",), 32769, 1, 512),
        (("flash_attention=true",), 32769, 1, 2048),
        (("num_batch=300",), 32769, 1, 300),
    ],
)
def test_the_batch_grows_with_the_tokens_of_all_sequences(
    options: tuple[str, ...], context: int, batch: int, n_ubatch: int
) -> None:
    assert figures(*options, context=context, batch=batch)["n_ubatch"] == n_ubatch


def test_windows_hold_that_batch_beyond_their_own() -> None:
    mixed = parse_spec(
        {"name": "tiny", "layers": [{"count": 1, "attention": GQA}, {"count": 1, "attention": LOCAL}]}, "tiny.yaml"
    )
    assert figures(context=40000, spec=mixed)["caches"][1]["cells"] == 2304


def test_one_type_is_for_k_and_v() -> None:
    found = figures("kv_cache_type=q8_0", spec=spec_of({**GQA, "head_dim": 32}))
    assert (found["cache_type_k"], found["cache_type_v"]) == ("q8_0", "q8_0")


@pytest.mark.parametrize("name", ["qwen3.5-9b", "lfm2-1.2b", "nemotron-3-nano-30b-a3b", "qwen3-next-80b-a3b"])
def test_some_families_are_served_one_sequence_at_a_time(name: str) -> None:
    spec = parse_spec({"name": name, "layers": 2, "attention": GQA}, "tiny.yaml")
    found = engine_named("ollama", ("num_parallel=4",)).reserve(spec, Workload(1000))
    assert found.figures["num_parallel"] == 1
    assert "one sequence at a time" in found.reasons[-1]
    assert figures("num_parallel=4", "model_family=llama", spec=spec)["num_parallel"] == 4
    with pytest.raises(InputError, match="--batch: found 2"):
        figures(batch=2, spec=spec)


def test_layers_stay_on_the_cpu_where_num_gpu_says() -> None:
    found = engine_named("ollama", ("num_gpu=2",)).reserve(SPEC, Workload(1000))
    assert [item["name"] for item in found.figures["devices"]] == ["CPU", "0"]
    assert found.reserved_bytes == found.figures["kv_bytes"] // 2


def test_memory_that_is_kept_back_is_not_the_caches() -> None:
    exact = Range.exact
    device = Device("card", exact(80 * GIB), (), 1, exact(GIB), exact(0), 0, None, ())
    kept = engine_named("ollama", ("gpu_overhead=2GiB",)).options
    plain = ENGINE.account(SPEC, Workload(1000), {}, "0.33", device).kv.best
    assert plain - ENGINE.account(SPEC, Workload(1000), kept, "0.33", device).kv.best == 2 * GIB


@pytest.mark.parametrize(
    ("options", "workload", "what", "fix"),
    [
        ((), {"context": 40001}, "--ctx: found 40,001 tokens", "--ctx max"),
        ((), {"k_dtype": "q8_0", "v_dtype": "f16"}, "--v-dtype: found f16 beside", "-E kv_cache_type=q8_0"),
        (("kv_cache_type=q4_0",), {"k_dtype": "q8_0"}, "--k-dtype: found q8_0", "one of them"),
        (("flash_attention=false", "kv_cache_type=q4_0"), {}, "-E flash_attention: found false", "kv_cache_type=f16"),
        (("num_parallel=300",), {}, "-E num_parallel: found 300", "several servers"),
        (("kv_cache_type=q8_0",), {}, "-E kv_cache_type: found q8_0, whose blocks", "-E kv_cache_type=f16"),
        ((), {"tp": 2}, "--tp: found 2", "--pp 2"),
    ],
)
def test_what_does_not_start_is_refused_in_ollamas_own_words(
    options: tuple[str, ...], workload: dict[str, Any], what: str, fix: str
) -> None:
    with pytest.raises(InputError) as caught:
        figures(*options, **workload)
    assert what in caught.value.what
    assert fix in caught.value.fix
