"""The transformers engine without the library: its rules at their edges, golden bytes, reasons and dips."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from tiny_specs import CROSS, ENTRY, GQA, LATENT, LOCAL, figures, spec_of

from kvplan.engine import engine_named
from kvplan.errors import InputError
from kvplan.spec import inline_spec, parse_spec
from kvplan.workload import Workload

GOLDEN: dict[str, Any] = yaml.safe_load(
    (Path(__file__).parents[1] / "data" / "transformers_quantized.yaml").read_text(encoding="utf-8")
)
ROW = 2 * 2 * 8 * 2


def golden(of: str) -> list[Any]:
    rows = [dict(zip(GOLDEN["columns"], row, strict=False)) for row in GOLDEN[of]]
    return [pytest.param(row, id=" ".join(map(str, row.values()))) for row in rows]


def quantized(run: dict[str, Any]) -> tuple[int, int]:
    model = {"name": "tiny", "dtype": run["dtype"], **GOLDEN["models"][run["model"]]}
    options = [f"{key}={run[key]}" for key in ("backend", "nbits", "q_group_size", "residual_length", "prefill")]
    return figures(parse_spec(model, run["model"]), run["context"], "cache=quantized", *options, batch=run["batch"])


@pytest.mark.parametrize("run", golden("runs"))
def test_quantized_bytes_are_those_the_library_held(run: dict[str, Any]) -> None:
    assert quantized(run) == (run["bytes"], run["bytes"])


@pytest.mark.parametrize("run", golden("refused"))
def test_groups_that_made_the_library_raise_are_refused(run: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="q_group_size"):
        quantized(run)


def test_tokens_are_split_into_quantized_and_waiting() -> None:
    choice = engine_named("transformers", ("cache=quantized", "prefill=10", "residual_length=16"))
    found = choice.reserve(spec_of({**GQA, "head_dim": 64}), Workload(50)).figures
    assert (found["quantized_tokens"], found["residual_tokens"]) == (42, 8)


@pytest.mark.parametrize(
    ("context", "first", "shown", "stored"),
    [
        (1, 1, 1, 1),
        (15, 15, 15, 15),
        (16, 16, 15, 16),
        (16, 15, 15, 16),
        (17, 17, 15, 17),
        (17, 5, 15, 16),
        (40, 40, 15, 40),
        (40, 39, 15, 16),
    ],
)
def test_a_window_shows_one_row_less_and_stores_what_the_last_update_left(
    context: int, first: int, shown: int, stored: int
) -> None:
    assert figures(spec_of(LOCAL), context, f"prefill={first}") == (shown * ROW + 8, stored * ROW + 8)


def test_a_chunk_is_kept_like_a_window() -> None:
    chunked = spec_of({**GQA, "chunk": 16})
    assert figures(chunked, 40, "prefill=5") == figures(spec_of(LOCAL), 40, "prefill=5")


def test_a_prefill_longer_than_the_context_is_the_context() -> None:
    assert figures(spec_of(LOCAL), 40, "prefill=99") == figures(spec_of(LOCAL), 40)


def test_counters_do_not_multiply_with_the_batch() -> None:
    assert figures(spec_of(LOCAL), 10, batch=3) == (30 * ROW + 8, 30 * ROW + 8)
    assert figures(spec_of(GQA), 10, "cache=static", batch=3) == (30 * ROW + 8, 30 * ROW + 8)


def test_a_layer_with_two_attentions_has_two_counters_in_a_static_cache() -> None:
    one, two = (
        figures(spec_of(LATENT), 10, "cache=static")[0],
        figures(spec_of([LATENT, LATENT]), 10, "cache=static")[0],
    )
    assert two == 2 * one == 2 * (10 * 24 * 2 + 8)


def test_a_static_cache_is_as_long_as_it_is_told() -> None:
    assert figures(spec_of(GQA, LOCAL), 10, "cache=static", "max_cache_len=30")[0] == 30 * ROW + 16 * ROW + 16


def test_a_cross_layer_keeps_the_encoders_rows_beside_self_attention_and_all_rows_alone() -> None:
    both, alone = spec_of([GQA, CROSS], encoder_tokens=12), spec_of(CROSS, encoder_tokens=12)
    assert figures(both, 40)[0] == 52 * ROW
    assert figures(alone, 40)[0] == 12 * ROW
    assert figures(both, 40, "cache=static")[0] == 52 * ROW + 16
    assert figures(alone, 40, "cache=static")[0] == 40 * ROW + 8


def test_a_static_cache_adds_a_counter_per_index_and_none_for_states() -> None:
    indexed = spec_of([LATENT, {"type": "index", "head_dim": 16}])
    conv = spec_of({"type": "short_conv", "dim": 32, "conv_kernel": 3})
    assert figures(indexed, 10, "cache=static")[0] == 10 * (24 + 16) * 2 + 16
    assert figures(conv, 10, "cache=static") == figures(conv, 10) == (32 * 3 * 2,) * 2


def test_one_number_per_channel_keeps_one_column_less_after_a_prefill_at_once() -> None:
    channels = spec_of({"type": "rg_lru", "width": 32, "conv_kernel": 4})
    assert figures(channels, 9) == (32 * 3 * 2 + 32 * 4,) * 2
    assert figures(channels, 9, "prefill=8") == (32 * 3 * 2 + 32 * 4, 32 * 4 * 2 + 32 * 4)


def test_several_states_per_layer_bring_one_counter_for_the_whole_cache() -> None:
    mlstm = {"type": "mlstm", "heads": 4, "qk_head_dim": 16, "v_head_dim": 32}
    assert figures(spec_of(mlstm, mlstm), 9)[0] == 2 * 4 * (16 * 32 + 16 + 1) * 2 + 8


def test_states_have_the_dtype_of_the_librarys_code_not_of_the_spec() -> None:
    mamba = {"type": "mamba1", "d_inner": 64, "d_state": 4, "conv_kernel": 4}
    for state_dtype in ("fp32", "bf16"):
        assert figures(spec_of({**mamba, "state_dtype": state_dtype}), 9)[0] == 64 * 4 * 2 + 256 * 4
        assert (
            figures(spec_of({"type": "lightning", "heads": 4, "head_dim": 8, "state_dtype": state_dtype}), 9)[0]
            == 256 * 2
        )


@pytest.mark.parametrize(
    ("layers", "options", "reason"),
    [
        ([LOCAL], (), "windows keep W - 1 rows"),
        ([LOCAL], (), "a prefill at once stays allocated beneath the views"),
        ([LOCAL], ("prefill=5",), "a view of W - 1 rows keeps W rows allocated"),
        ([{**GQA, "window": 1}], (), "a window of 1 is never cut"),
        ([LOCAL], (), "layers with counters hold 8 bytes each"),
        ([{"type": "short_conv", "dim": 32, "conv_kernel": 3}], (), "convolutions keep K columns"),
        ([[LATENT, {"type": "index", "head_dim": 16}]], (), "index keys are in the model's dtype, without scales"),
        ([{"type": "lightning", "heads": 4, "head_dim": 8}], (), "states are in the model's dtype"),
        (
            [{"type": "rg_lru", "width": 32, "conv_kernel": 4}],
            ("prefill=5",),
            "a view of K - 1 columns keeps K allocated",
        ),
        (
            [{"type": "mamba1", "d_inner": 64, "d_state": 4, "conv_kernel": 4, "state_dtype": "bf16"}],
            (),
            "states are fp32 whatever the configuration says",
        ),
        ([ENTRY], (), "layers that do not compress hold K and V apart"),
        ([{**ENTRY, "ratio": 8}], (), "compressors buffer values and gates of tokens that wait for their entry"),
        ([GQA], ("cache=static", "max_cache_len=99"), "every layer holds max_cache_len rows"),
        ([CROSS], ("cache=static",), "layers of cross-attention alone hold max_cache_len rows"),
    ],
)
def test_a_difference_from_the_ideal_is_said(layers: list[Any], options: tuple[str, ...], reason: str) -> None:
    extra = {"encoder_tokens": 12} if CROSS in layers else {}
    assert reason in engine_named("transformers", options).reserve(spec_of(*layers, **extra), Workload(40)).reasons


def test_plain_attention_differs_in_nothing() -> None:
    found = engine_named("transformers").reserve(spec_of(GQA, {"type": "shared"}), Workload(40))
    assert (found.reserved_bytes, found.reasons) == (40 * ROW, ())


@pytest.mark.parametrize("name", ["bf16", "bfloat16"])
def test_the_models_own_dtype_may_be_named(name: str) -> None:
    assert figures(spec_of(GQA), 40, k_dtype=name, v_dtype=name) == (40 * ROW, 40 * ROW)


DIPS = [
    ([GQA], ()),
    ([GQA, LOCAL], ()),
    ([GQA, LOCAL, LOCAL], ("prefill=100",)),
    ([GQA, {"type": "rg_lru", "width": 32, "conv_kernel": 4}], ()),
    ([{**ENTRY, "ratio": 8}, ENTRY], ("prefill=40",)),
    ([[{**ENTRY, "ratio": 4}, {"type": "index", "head_dim": 8, "ratio": 4}]], ("prefill=1",)),
    ([{**GQA, "head_dim": 64}], ("cache=quantized", "prefill=1", "residual_length=32")),
    ([{**GQA, "head_dim": 64}], ("cache=quantized", "backend=hqq", "nbits=2", "prefill=7")),
    ([{**GQA, "head_dim": 64}], ("cache=quantized",)),
]


@pytest.mark.parametrize(("layers", "options"), DIPS)
def test_past_the_dip_no_shorter_context_takes_more(layers: list[Any], options: tuple[str, ...]) -> None:
    spec, choice = spec_of(*layers), engine_named("transformers", options)
    sizes = [choice.reserve(spec, Workload(context)).reserved_bytes for context in range(1, 1500)]
    dip, peak = 0, 0
    for i, size in enumerate(sizes):
        if size < sizes[peak]:
            dip = max(dip, i - peak)
        else:
            peak = i
    assert choice.dip_tokens(spec, Workload(500)) >= dip


def test_bounded_caches_and_plain_ones_say_how_far_they_dip() -> None:
    assert engine_named("transformers").dip_tokens(spec_of(GQA, LOCAL), Workload(40)) == 0
    assert engine_named("transformers", ("prefill=100",)).dip_tokens(spec_of(LOCAL), Workload(400)) == 100


def test_a_model_by_its_numbers_alone_is_counted() -> None:
    assert figures(inline_spec(layers=80, kv_heads=64, head_dim=128), 128_000) == (335_544_320_000,) * 2
