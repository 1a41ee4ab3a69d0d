"""What each kind keeps, how its heads divide, and which claims it refuses."""

from __future__ import annotations

from typing import Any

import pytest
from strategies import data, model, plan

from kvplan.attention import kind_class
from kvplan.errors import InputError
from kvplan.growth import Chunk, Constant, PerToken, PerTokens, Window

EXAMPLES = {kind: entry["attention"] for kind, entry in data("goldens.yaml")["kinds"].items()}
STATES = ("mamba1", "mamba2", "gated_deltanet", "kda", "lightning", "rwkv7", "rg_lru", "mlstm")


def kind(**fields: Any) -> Any:
    """A kind of attention, its fields checked."""
    return model(fields).runs[0][1].kinds[0]


def laws(**fields: Any) -> list[object]:
    """The growth laws of a kind's tensors."""
    return [tensor.growth for tensor in kind(**fields).cache_tensors()]


@pytest.mark.parametrize(
    ("fields", "what"),
    [
        (
            {"type": "mha", "heads": 8, "kv_heads": 2, "head_dim": 64},
            "type mha means kv_heads = heads, but kv_heads is 2 and heads is 8",
        ),
        ({"type": "mqa", "heads": 8, "kv_heads": 2, "head_dim": 64}, "type mqa means kv_heads = 1, but kv_heads is 2"),
        (
            {"type": "gqa", "heads": 8, "kv_heads": 3, "head_dim": 64},
            "heads must be a multiple of kv_heads: 8 is not a multiple of 3",
        ),
        (
            {"type": "gqa", "heads": 8, "kv_heads": 2, "head_dim": 64, "window": 1, "chunk": 1},
            "window and chunk exclude each other",
        ),
    ],
)
def test_a_wrong_claim_says_which_number_contradicts_it(fields: dict[str, Any], what: str) -> None:
    """The type is checked against the head counts, and a window against a chunk."""
    with pytest.raises(InputError, match=f"^model.yaml: attention: {what}$") as caught:
        kind(**fields)
    assert "mend one of the two" == caught.value.fix


@pytest.mark.parametrize(
    ("type_", "heads", "kv_heads"),
    [("mha", 8, 8), ("gqa", 8, 2), ("mqa", 8, 1), ("gqa", 8, 8), ("gqa", 8, 1), ("mha", 1, 1)],
)
def test_a_true_claim_is_taken(type_: str, heads: int, kv_heads: int) -> None:
    """GQA covers both ends."""
    assert kv_heads == kind(type=type_, heads=heads, kv_heads=kv_heads, head_dim=64).kv_heads


@pytest.mark.parametrize("type_", ["mha", "gqa", "mqa"])
def test_heads_keep_keys_and_values(type_: str) -> None:
    """K [kv_heads, head_dim] and V [kv_heads, v_head_dim], by token, window or chunk."""
    kv_heads = 1 if type_ == "mqa" else 8
    fields = {"type": type_, "heads": 8, "kv_heads": kv_heads, "head_dim": 64}
    assert [("k", (kv_heads, 64)), ("v", (kv_heads, 64))] == [(t.name, t.row) for t in kind(**fields).cache_tensors()]
    assert [(kv_heads, 64), (kv_heads, 32)] == [t.row for t in kind(**fields, v_head_dim=32).cache_tensors()]
    assert [PerToken()] * 2 == laws(**fields)
    assert [Window(128)] * 2 == laws(**fields, window=128)
    assert [Chunk(128)] * 2 == laws(**fields, chunk=128)
    assert 2 * 8 * (64 + 32) == kind(**fields, v_head_dim=32).pair_flops()
    assert 2 * 8 * (64 + 64) == kind(**fields).pair_flops()


def test_a_latent_is_key_and_value_at_once() -> None:
    """One row and no factor 2, with or without positions, with or without a window."""
    fields = {"type": "mla", "heads": 128, "kv_lora_rank": 512, "qk_rope_head_dim": 64}
    assert [(576,)] == [t.row for t in kind(**fields).cache_tensors()]
    assert [(512,)] == [t.row for t in kind(**{**fields, "qk_rope_head_dim": 0}).cache_tensors()]
    assert [Window(512)] == laws(**fields, window=512)
    assert 2 * 128 * (2 * 512 + 64) == kind(**fields).pair_flops()


def test_a_compressed_layer_keeps_a_window_and_entries() -> None:
    """Without a ratio it keeps the window only; without query heads its work is unknown."""
    fields = {"type": "compressed", "entry_dim": 512, "rope_dim": 64, "window": 128}
    assert [Window(128)] == laws(**fields)
    assert [Window(128), PerTokens(4)] == laws(**fields, ratio=4)
    assert (0, 4 * 64 * 512) == (kind(**fields).pair_flops(), kind(**fields, heads=64).pair_flops())


def test_an_index_key_stands_per_token_or_per_group() -> None:
    """DeepSeek-V3.2 keeps one per token, V4 one per four."""
    assert [PerToken()] == laws(type="index", head_dim=128)
    assert [PerTokens(4)] == laws(type="index", head_dim=128, ratio=4)


def test_cross_attention_values_may_be_narrower() -> None:
    """As in self-attention."""
    fields = {"type": "cross", "heads": 8, "kv_heads": 4, "head_dim": 64, "v_head_dim": 32}
    spec = model(fields, encoder_tokens=10)
    assert 10 * 4 * (64 + 32) * 2 == plan(spec).total_bytes(1)


@pytest.mark.parametrize("type_", [*STATES, "short_conv"])
def test_a_state_never_grows(type_: str) -> None:
    """Every tensor of a recurrent layer has a constant number of rows."""
    assert {type(law) for law in laws(**EXAMPLES[type_])} == {Constant}


@pytest.mark.parametrize("type_", STATES)
def test_a_state_is_fp32_unless_the_spec_says(type_: str) -> None:
    """A 16-bit state takes half the state's bytes and leaves the convolution alone."""
    fields = {key: value for key, value in EXAMPLES[type_].items() if key != "state_dtype"}
    wide, narrow = plan(model(fields)), plan(model({**fields, "state_dtype": "bf16"}))
    states = [sum(part.bytes for part in cache.parts(1) if part.role == "state") for cache in (wide, narrow)]
    assert states[0] == 2 * states[1] > 0
    assert wide.fixed_bytes() - states[0] == narrow.fixed_bytes() - states[1]


@pytest.mark.parametrize("type_", [*STATES, "short_conv", "cross", "index", "shared", "none"])
def test_what_meets_no_cached_pair_does_no_pairs(type_: str) -> None:
    """States are updated, encoder rows and indexes are counted elsewhere."""
    assert 0 == kind_class(type_).model_validate(EXAMPLES[type_]).pair_flops()


@pytest.mark.parametrize(("groups", "tp"), [(8, 2), (8, 8), (8, 16), (1, 8)])
def test_mamba2_groups_are_copied_where_they_run_out(groups: int, tp: int) -> None:
    """vLLM 0.33 raises the groups to the ranks: each rank keeps at least one group's B and C."""
    fields = {"type": "mamba2", "heads": 64, "head_dim": 64, "groups": groups, "d_state": 128, "conv_kernel": 2}
    shards = [tensor.shard(tp) for tensor in kind(**fields).cache_tensors()]
    assert (64 // tp, 64) == shards[0].row
    assert (max(1, groups // tp), 256) == shards[1].row


@pytest.mark.parametrize("kernel", [1, 2, 4])
def test_a_convolution_keeps_one_column_less_than_its_kernel(kernel: int) -> None:
    """A kernel of one remembers nothing."""
    assert (kernel - 1) * 1024 * 2 == plan(
        model({"type": "short_conv", "dim": 1024, "conv_kernel": kernel})
    ).total_bytes(1)


@pytest.mark.parametrize(
    ("type_", "field", "value"),
    [
        ("gqa", "heads", 0),
        ("gqa", "heads", 4097),
        ("mla", "kv_lora_rank", 2**21),
        ("mla", "qk_rope_head_dim", -1),
        ("mamba1", "conv_kernel", 1025),
        ("kda", "heads", "32"),
        ("rwkv7", "head_dim", 64.0),
        ("lightning", "state_dtype", "fp8"),
        ("index", "ratio", 0),
        ("compressed", "window", 2**41),
    ],
)
def test_a_field_out_of_bounds_is_refused(type_: str, field: str, value: object) -> None:
    """File, field and what was found."""
    with pytest.raises(InputError, match=f"^model.yaml: attention: {field}: found '.*', allowed "):
        kind(**{**EXAMPLES[type_], field: value})


@pytest.mark.parametrize("type_", EXAMPLES)
def test_a_mistyped_field_finds_its_neighbour(type_: str) -> None:
    """Unknown keys are errors in every kind."""
    with pytest.raises(InputError, match="^model.yaml: attention: typ: unknown key$") as caught:
        kind(**EXAMPLES[type_], typ="x")
    assert caught.value.fix.startswith("did you mean type")
