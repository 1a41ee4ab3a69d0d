"""The mlx engine without the library: rules at their edges, worked bytes, reasons, refusals and dips."""

from __future__ import annotations

from typing import Any

import pytest
from tiny_specs import CROSS, ENTRY, GQA, LATENT, LOCAL, spec_of

from kvplan.engine import Reservation, engine_named
from kvplan.engine.mlx.rows import Feed, chunked_rows, full_rows, rotating_rows
from kvplan.errors import InputError, KvplanError, NotCountableError
from kvplan.policy import policy_named
from kvplan.spec import ModelSpec, inline_spec
from kvplan.workload import Workload

WIDE = {"type": "gqa", "heads": 8, "kv_heads": 8, "head_dim": 128}
INDEX = {"type": "index", "head_dim": 16}
STREAMING = "streaming:sinks=1,window=4"


def reserved(spec: ModelSpec, context: int, *options: str, **workload: Any) -> Reservation:
    return engine_named("mlx", options).reserve(spec, Workload(context, **workload))


@pytest.mark.parametrize(
    ("tokens", "step", "alone", "rows"),
    [
        (1, 2048, 1, 256),
        (256, 2048, 1, 256),
        (257, 2048, 1, 512),
        (300, 2048, 1, 512),
        (257, 100, 1, 512),
        (258, 100, 1, 456),
        (100_000_001, 2048, 1, 100_000_256),
    ],
)
def test_rows_grow_in_steps_of_256(tokens: int, step: int, alone: int, rows: int) -> None:
    assert full_rows(Feed(tokens, step, alone)) == rows


@pytest.mark.parametrize(
    ("feed", "window", "rows"),
    [
        (Feed(300, 2048, 0), 256, 300),
        (Feed(301, 2048, 1), 256, 256),
        (Feed(5000, 2048, 0), 1024, 1023 + 904),
        (Feed(4096, 2048, 0), 1024, 3071),
        (Feed(100, 2048, 1), 1024, 99 + 256),
        (Feed(4097, 2048, 0), 1024, 1024),
    ],
)
def test_a_rotating_cache_holds_more_while_a_prompt_is_read(feed: Feed, window: int, rows: int) -> None:
    assert rotating_rows(feed, window) == rows


def test_a_chunk_is_passed_by_one_step() -> None:
    assert chunked_rows(Feed(9000, 2048, 1), 8192) == 8448
    assert chunked_rows(Feed(20_480, 2048, 0), 8192) == 8192 + 2048


def test_the_figures_that_engine_authors_measured() -> None:
    dense = reserved(inline_spec(1, 8, 128, dtype="fp16"), 300)
    assert (dense.figures["rows"], dense.figures["kv_bytes"]) == (512, 2_097_152)
    four = reserved(inline_spec(1, 8, 128, dtype="fp16"), 300, "kv_bits=4", "quantized_kv_start=0")
    assert four.figures["kv_bytes"] == 589_824
    eight = reserved(inline_spec(1, 8, 128, dtype="fp16"), 300, "kv_bits=8", "quantized_kv_start=0")
    assert eight.figures["kv_bytes"] == 1_114_112


def test_a_quantized_cache_is_the_models_dtype_before_its_start() -> None:
    found = reserved(spec_of(WIDE), 5000, "kv_bits=4")
    assert found.figures["caches"][0]["name"] == "QuantizedKVCache"
    assert found.figures["kv_bytes"] == 5120 * 1152
    assert found.figures["peak_bytes"] == found.reserved_bytes == 5120 * 4096
    assert any("before 5,000 tokens" in reason for reason in found.reasons)
    early = reserved(spec_of(WIDE), 4999, "kv_bits=4")
    assert early.figures["kv_bytes"] == early.reserved_bytes == 5120 * 4096


def test_batches_multiply() -> None:
    one, three = reserved(spec_of(LOCAL), 300), reserved(spec_of(LOCAL), 300, batch=3)
    assert three.reserved_bytes == 3 * one.reserved_bytes
    assert three.figures["kv_bytes"] == 3 * one.figures["kv_bytes"]


def test_a_window_in_every_layer_is_ignored_and_one_of_several_is_not() -> None:
    row = 2 * 2 * 8 * 2
    assert reserved(spec_of(LOCAL), 300).figures["kv_bytes"] == 512 * row
    assert reserved(spec_of(LOCAL, GQA), 300).figures["kv_bytes"] == (512 + 16) * row
    named = spec_of(LOCAL, GQA).replace(fields=spec_of(GQA).fields.model_copy(update={"name": "gemma-2-tiny"}))
    assert reserved(named, 300).figures["kv_bytes"] == 2 * 512 * row


def test_an_index_keeps_its_keys_twice() -> None:
    found = reserved(spec_of([LATENT, INDEX]), 300)
    assert found.figures["kv_bytes"] == 512 * (24 * 2 + 2 * 16 * 2)


def test_where_bytes_fall_the_search_looks_further() -> None:
    dense = spec_of(WIDE)
    assert engine_named("mlx").dip_tokens(dense, Workload(300)) == 0
    odd = engine_named("mlx", ("prefill_step_size=100",))
    assert odd.dip_tokens(dense, Workload(300)) >= 257 - 200
    packed = engine_named("mlx", ("kv_bits=4",))
    dips = packed.dip_tokens(dense, Workload(6000))
    peak = packed.reserve(dense, Workload(5000)).reserved_bytes
    assert packed.reserve(dense, Workload(5001)).reserved_bytes < peak
    assert packed.reserve(dense, Workload(5000 + dips)).reserved_bytes >= peak


@pytest.mark.parametrize(
    ("layers", "options", "workload", "error", "what", "fix"),
    [
        ([GQA], (), {"tp": 2}, InputError, "--tp: found 2", "leave out --tp"),
        ([GQA, GQA], (), {"pp": 2}, InputError, "--pp: found 2", "leave out --pp"),
        (
            [GQA],
            (),
            {"policy": policy_named(STREAMING), "policy_text": STREAMING},
            InputError,
            "--policy: found streaming",
            "max_kv_size",
        ),
        ([GQA], (), {"prefix": 10}, InputError, "--prefix: found 10", "leave out --prefix"),
        ([GQA], (), {"mtp": 1}, InputError, "--mtp: found 1", "leave out --mtp"),
        ([GQA], (), {"k_dtype": "fp8", "v_dtype": "fp8"}, InputError, "--k-dtype: found fp8", "-E kv_bits="),
        ([GQA], ("kv_group_size=32",), {}, InputError, "-E kv_group_size: says nothing", "-E kv_bits=4"),
        ([GQA], ("quantized_kv_start=0",), {}, InputError, "-E quantized_kv_start: says", "-E kv_bits=4"),
        ([GQA], ("kv_bits=7",), {}, InputError, "-E kv_bits: found 7", "-E kv_bits=4"),
        ([WIDE], ("kv_bits=4", "kv_group_size=48"), {}, InputError, "found 48", "-E kv_group_size=64"),
        ([GQA], ("kv_bits=4", "quantized_kv_start=0"), {}, InputError, "heads of 8", "leave out -E kv_bits"),
        (
            [{**WIDE, "head_dim": 96}],
            ("kv_bits=4", "quantized_kv_start=0"),
            {},
            InputError,
            "heads of 96",
            "-E kv_group_size=32",
        ),
        ([LATENT], ("kv_bits=4", "quantized_kv_start=0"), {}, InputError, "keeps latents", "leave out -E kv_bits"),
        ([LOCAL, WIDE], ("kv_bits=4", "quantized_kv_start=0"), {}, InputError, "rotating", "leave out -E kv_bits"),
        (
            [WIDE],
            ("kv_bits=4", "quantized_kv_start=0", "max_kv_size=64"),
            {},
            InputError,
            "rotating",
            "leave out -E max_kv_size",
        ),
        ([GQA], ("max_kv_size=4",), {}, InputError, "-E max_kv_size: found 4", "-E max_kv_size="),
        ([WIDE], ("kv_bits=4",), {"batch": 2}, InputError, "--batch: found 2", "leave out --batch"),
        ([{**GQA, "chunk": 16}], (), {"batch": 2}, InputError, "--batch: found 2", "leave out --batch"),
        ([ENTRY], (), {}, NotCountableError, "entry", "--engine ideal"),
        ([CROSS], (), {"encoder_tokens": 5}, NotCountableError, "cross_v", "--engine ideal"),
        ([[LATENT, {**INDEX, "ratio": 16}]], (), {}, NotCountableError, "fewer keys", "--engine ideal"),
        (
            [{"type": "mamba1", "d_inner": 16, "d_state": 4, "conv_kernel": 4}],
            (),
            {},
            NotCountableError,
            "A_log",
            "--engine ideal",
        ),
        (
            [{"type": "mlstm", "heads": 4, "qk_head_dim": 8, "v_head_dim": 8}],
            (),
            {},
            NotCountableError,
            "several states",
            "--engine ideal",
        ),
    ],
)
def test_what_the_library_does_not_do_is_refused_with_a_way_out(
    layers: list[Any], options: tuple[str, ...], workload: dict[str, Any], error: type[KvplanError], what: str, fix: str
) -> None:
    with pytest.raises(error) as caught:
        reserved(spec_of(*layers), 40, *options, **workload)
    assert caught.value.exit_code == {InputError: 2, NotCountableError: 3}[error]
    assert what in caught.value.what
    assert fix in caught.value.fix
