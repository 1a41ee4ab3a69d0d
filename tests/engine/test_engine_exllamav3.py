"""The exllamav3 engine without the library: worked bytes, pages, rings and refusals."""

from __future__ import annotations

from typing import Any

import pytest
from tiny_specs import CROSS, ENTRY, GQA, LATENT, LOCAL, spec_of

from kvplan.engine import Reservation, engine_named
from kvplan.errors import InputError, KvplanError, NotCountableError
from kvplan.policy import policy_named
from kvplan.spec import ModelSpec, inline_spec
from kvplan.workload import Workload

EIGHT = inline_spec(1, 8, 128)
DEEP = {"type": "mla", "heads": 8, "kv_lora_rank": 512, "qk_rope_head_dim": 64}
STREAMING = "streaming:sinks=1,window=4"


def reserved(spec: ModelSpec, context: int, *options: str, **workload: Any) -> Reservation:
    return engine_named("exllamav3", options).reserve(spec, Workload(context, **workload))


def named(spec: ModelSpec, name: str) -> ModelSpec:
    return spec.replace(fields=spec.fields.model_copy(update={"name": name}))


@pytest.mark.parametrize(
    ("spec", "options", "bytes_"),
    [
        (EIGHT, (), 2_097_152),
        (EIGHT, ("k_bits=4", "v_bits=5"), 655_360),
        (EIGHT, ("k_bits=4",), 512 * 1152),
        (spec_of(DEEP), (), 589_824),
        (spec_of(DEEP), ("k_bits=4",), 512 * 416),
        (spec_of(DEEP), ("k_bits=8", "v_bits=2"), 512 * 672),
    ],
)
def test_the_bytes_that_its_own_layers_hold_for_512_tokens(
    spec: ModelSpec, options: tuple[str, ...], bytes_: int
) -> None:
    assert reserved(spec, 300, *options).reserved_bytes == bytes_


def test_sequences_take_whole_pages_and_share_whole_pages() -> None:
    assert reserved(EIGHT, 300, batch=3).figures["max_num_tokens"] == 1536
    assert reserved(EIGHT, 600, batch=3, prefix=300).figures["max_num_tokens"] == 3 * 768 - 2 * 256
    assert reserved(EIGHT, 300, "max_num_tokens=1024").figures["max_num_tokens"] == 1024


def test_a_window_keeps_every_token_unless_the_model_has_rings() -> None:
    both, row = spec_of(LOCAL, GQA), 2 * 2 * 8 * 2
    plain = reserved(both, 3000)
    assert plain.reserved_bytes == 2 * 3072 * row
    assert "windowed layers keep every token" in plain.reasons
    ringed = reserved(named(both, "gpt-oss-tiny"), 3000, "max_batch_size=4")
    assert ringed.figures["ring_bytes"] == 4 * 768 * row, "16 + 512 rows are three pages"
    assert ringed.reserved_bytes == 3072 * row + 4 * 768 * row
    assert reserved(named(both, "gpt-oss-tiny"), 3000, "swa_full=true").reserved_bytes == plain.reserved_bytes


def test_a_narrow_v_is_stored_as_wide_as_k() -> None:
    narrow = spec_of({**GQA, "v_head_dim": 4})
    assert reserved(narrow, 256).reserved_bytes == reserved(spec_of(GQA), 256).reserved_bytes
    assert "V is as wide as K" in reserved(narrow, 256).reasons


@pytest.mark.parametrize(
    ("layers", "options", "workload", "error", "what", "fix"),
    [
        ([GQA], (), {"tp": 2}, InputError, "--tp: found 2", "leave out --tp"),
        ([GQA], (), {"mtp": 1}, InputError, "--mtp: found 1", "leave out --mtp"),
        (
            [GQA],
            (),
            {"policy": policy_named(STREAMING), "policy_text": STREAMING},
            InputError,
            "--policy: found streaming",
            "--policy full",
        ),
        ([GQA], (), {"k_dtype": "fp8", "v_dtype": "fp8"}, InputError, "--k-dtype: found fp8", "-E k_bits=8"),
        ([GQA], ("max_num_tokens=1000",), {}, InputError, "found 1,000", "-E max_num_tokens=1024"),
        ([GQA], ("max_num_tokens=256",), {"batch": 2}, InputError, "need 512", "-E max_num_tokens=512"),
        ([GQA], ("max_batch_size=1",), {"batch": 2}, InputError, "-E max_batch_size: found 1", "-E max_batch_size=2"),
        ([GQA], ("k_bits=9",), {}, InputError, "-E k_bits: found 9", "-E k_bits=8"),
        ([GQA], ("k_bits=4", "v_bits=1"), {}, InputError, "-E v_bits: found 1", "-E v_bits=8"),
        ([GQA], ("v_bits=4",), {}, InputError, "-E v_bits: says nothing", "-E k_bits=4"),
        ([GQA], ("k_bits=4",), {}, InputError, "rows of 16", "leave out -E k_bits"),
        ([ENTRY], (), {}, NotCountableError, "window_entry", "--engine ideal"),
        ([CROSS], (), {"encoder_tokens": 5}, NotCountableError, "cross_k", "--engine ideal"),
        ([[LATENT, {"type": "index", "head_dim": 16}]], (), {}, NotCountableError, "index", "--engine ideal"),
    ],
)
def test_what_was_not_counted_is_refused_with_a_way_out(
    layers: list[Any], options: tuple[str, ...], workload: dict[str, Any], error: type[KvplanError], what: str, fix: str
) -> None:
    with pytest.raises(error) as caught:
        reserved(spec_of(*layers), 40, *options, **workload)
    assert caught.value.exit_code == {InputError: 2, NotCountableError: 3}[error]
    assert what in caught.value.what
    assert fix in caught.value.fix
