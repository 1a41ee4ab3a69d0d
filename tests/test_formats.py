"""A format stores a tensor as codes, scales and residuals, and refuses what it cannot hold."""

from __future__ import annotations

import pytest
from strategies import model, plan

from kvplan.errors import InputError
from kvplan.formats import ALIASES, ANY, FORMATS, HEADS, INDEX_FORMATS, ROWS, format_named
from kvplan.growth import Behind, Flushed, Grouped, Newest, PerToken, Unflushed
from kvplan.tensor import ITEM_BYTES, CacheTensor, Role, StoredTensor

TOKENS = PerToken()
K = CacheTensor("k", Role.K, (8, 128), TOKENS, shards=8)
V = CacheTensor("v", Role.V, (8, 128), TOKENS, shards=8)
LATENT = CacheTensor("latent", Role.LATENT, (576,), TOKENS, shards=1, rope=64)
ENTRY = CacheTensor("entry", Role.ENTRY, (512,), TOKENS, shards=1, rope=64)
CONTRACT = (
    "fp32 fp16 bf16 fp8 fp8_e4m3 fp8_e5m2 int8 int4 q8_0 q5_1 q5_0 q4_1 q4_0 iq4_nl nvfp4 fp8_ds_mla nvfp4_ds_mla "
    "int8_per_token_head fp8_per_token_head int4_per_token_head turboquant_k8v4 turboquant_4bit_nc turboquant_k3v4_nc "
    "turboquant_3bit_nc int4_g32 int4_g64 int4_g128 int2_g32 kivi4 kivi2"
).split()


def stored(
    name: str, tensor: CacheTensor, partner: CacheTensor | None = None
) -> list[tuple[str, tuple[int, ...], str]]:
    """(content, row, dtype) of what `name` stores of `tensor`."""
    return [(s.content, s.row, s.dtype) for s in FORMATS[name].stored(tensor, partner, TOKENS, "bf16")]


@pytest.mark.parametrize("name", CONTRACT)
def test_the_formats_people_name_are_known(name: str) -> None:
    """Every format the contract lists is found by its name, in any case."""
    assert format_named(name) is format_named(f" {name.upper()} ")


@pytest.mark.parametrize(("alias", "name"), ALIASES.items())
def test_an_alias_is_its_format(alias: str, name: str) -> None:
    """Two spellings lead to one format, so that K and V may be spelled apart."""
    assert FORMATS[name] is format_named(alias)


def test_an_unknown_format_is_refused_with_its_neighbours() -> None:
    """The error names the option and what was found, the fix the nearest formats."""
    with pytest.raises(InputError, match="^--k-dtype: found 'q4_00', allowed one of") as caught:
        format_named("q4_00", "--k-dtype")
    assert caught.value.fix.startswith("did you mean q4_0")
    with pytest.raises(InputError) as caught:
        format_named("zzzzzz")
    assert "`kvplan formats` lists them" == caught.value.fix
    with pytest.raises(InputError):
        format_named("")


def test_index_keys_have_formats_of_their_own() -> None:
    """`fp8` of an index key carries a scale; llama.cpp's blocks do not apply."""
    assert INDEX_FORMATS["fp8"] is format_named("fp8", "--index-dtype", INDEX_FORMATS)
    with pytest.raises(InputError, match="--index-dtype"):
        format_named("q4_0", "--index-dtype", INDEX_FORMATS)


@pytest.mark.parametrize("name", [*FORMATS])
def test_a_format_is_written_down(name: str) -> None:
    """Each says what it is, where its bytes are published, and stores only types whose width is known."""
    known = FORMATS[name]
    tensor = K if Role.K in known.roles else LATENT
    assert known.summary
    assert known.source
    assert name == known.name
    assert {s.dtype for s in known.stored(tensor, None, TOKENS, "bf16")} <= set(ITEM_BYTES)


def test_codes_pack_into_bytes_along_the_row() -> None:
    """The textbook's half byte; an odd row rounds up."""
    assert [("data", (512,), "uint8")] == stored("int4", K)
    assert [("data", (2,), "uint8")] == stored("int4", CacheTensor("k", Role.K, (1, 3), TOKENS, shards=1))


def test_ggml_blocks_cross_heads() -> None:
    """32 elements per block, wherever the heads begin; a row that is no multiple is refused."""
    assert [("data", (6, 34), "uint8")] == stored("q8_0", CacheTensor("k", Role.K, (4, 48), TOKENS, shards=4))
    with pytest.raises(
        InputError, match="^format q8_0: found 80 elements of a row, allowed multiples of 32$"
    ) as caught:
        stored("q8_0", CacheTensor("k", Role.K, (1, 80), TOKENS, shards=1))
    assert "choose a format with a smaller group; `kvplan formats` lists them" == caught.value.fix


def test_per_head_scales_stand_beside_each_head() -> None:
    """One fp32 number per token and head."""
    assert [("data", (8, 64), "uint8"), ("scale", (8, 1), "fp32")] == stored("int4_per_token_head", V)


def test_groups_carry_scale_and_zero() -> None:
    """Two fp16 numbers per group, within one head; a latent is one head."""
    assert [("data", (8, 64), "uint8"), ("scale", (8, 4), "fp16"), ("zero", (8, 4), "fp16")] == stored("int4_g32", K)
    assert [("data", (288,), "uint8")] == [(c, (r[0] * r[1],), d) for c, r, d in stored("int4_g64", LATENT)[:1]]
    with pytest.raises(InputError, match="^format int4_g128: found 64 elements of a head, allowed multiples of 128$"):
        stored("int4_g128", CacheTensor("k", Role.K, (8, 64), TOKENS, shards=8))


@pytest.mark.parametrize(
    ("k_width", "v_width", "pad"),
    [(128, 128, 0), (128, 127, 0), (128, 125, 1), (127, 125, 1), (125, 128, 1), (125, 125, 0)],
)
def test_a_turboquant_slot_is_even(k_width: int, v_width: int, pad: int) -> None:
    """The pad follows from K and V together: vLLM rounds the slot of both up."""
    k = CacheTensor("k", Role.K, (2, k_width), TOKENS, shards=2)
    v = CacheTensor("v", Role.V, (2, v_width), TOKENS, shards=2)
    slot = stored("turboquant_4bit_nc", k)[0][1][1] + stored("turboquant_4bit_nc", v, k)[0][1][1]
    codes = -(-k_width // 2) + 2 + -(-v_width // 2) + 4
    assert (0, pad) == (slot % 2, slot - codes)


def test_a_turboquant_value_without_its_key_pads_for_its_own_width() -> None:
    """A V tensor weighed alone assumes a K as wide as itself."""
    assert stored("turboquant_3bit_nc", V, K) == stored("turboquant_3bit_nc", V)


def test_kivi_keeps_keys_in_runs_and_values_behind_a_window() -> None:
    """Keys are flushed 128 at once, values one by one; scales span 32 tokens of a channel or 32 channels of a token."""
    keys = {s.content: s.growth for s in FORMATS["kivi4"].stored(K, None, TOKENS, "bf16")}
    run = Flushed(128, TOKENS)
    assert {
        "data": run,
        "scale": Grouped(32, run),
        "zero": Grouped(32, run),
        "residual": Unflushed(128, TOKENS),
    } == keys
    values = {s.content: s.growth for s in FORMATS["kivi4"].stored(V, K, TOKENS, "bf16")}
    old = Behind(128, TOKENS)
    assert {"data": old, "scale": old, "zero": old, "residual": Newest(128, TOKENS)} == values


def test_a_residual_is_kept_in_the_models_dtype() -> None:
    """What waits is stored as the model computed it."""
    assert "fp32" == FORMATS["kivi2"].stored(K, None, TOKENS, "fp32")[-1].dtype


def test_a_ds_mla_latent_keeps_its_positions_wide() -> None:
    """512 fp8, four fp32 scales, 64 bf16."""
    assert [("data", (512,), "uint8"), ("scale", (4,), "fp32"), ("data", (64,), "bf16")] == stored("fp8_ds_mla", LATENT)


def test_a_v4_entry_pads_its_scales() -> None:
    """Seven ue8m0 scales take eight bytes; the entry without positions has sixteen and no pad."""
    assert [
        ("data", (448,), "uint8"),
        ("scale", (7,), "ue8m0"),
        ("data", (64,), "bf16"),
        ("pad", (1,), "uint8"),
    ] == stored("fp8_ds_mla", ENTRY)
    plain = CacheTensor("entry", Role.ENTRY, (512,), TOKENS, shards=1)
    assert [("data", (512,), "uint8"), ("scale", (16,), "ue8m0")] == stored("fp8_ds_mla", plain)


@pytest.mark.parametrize(
    ("name", "tensor"), [("nvfp4", LATENT), ("kivi4", LATENT), ("fp8_ds_mla", K), ("nvfp4_ds_mla", ENTRY)]
)
def test_a_format_refuses_the_roles_it_cannot_hold(name: str, tensor: CacheTensor) -> None:
    """The error names the format and the role, the fix the formats that can."""
    with pytest.raises(
        InputError, match=f"^format {name} cannot hold the {tensor.role.value} rows of this model$"
    ) as caught:
        stored(name, tensor)
    assert caught.value.fix.startswith("formats that can: ")
    assert name not in caught.value.fix.split(": ")[1].split(", ")


@pytest.mark.parametrize(
    ("k", "v", "fix"),
    [
        ("kivi4", "kivi2", "--kv-dtype kivi4"),
        ("bf16", "kivi4", "--kv-dtype kivi4"),
        ("turboquant_k8v4", None, "--kv-dtype turboquant_k8v4"),
    ],
)
def test_paired_formats_take_both_sides(k: str, v: str | None, fix: str) -> None:
    """KIVI and TurboQuant decide over K and V together."""
    with pytest.raises(
        InputError, match="^--v-dtype: found .* beside --k-dtype .*, allowed the same format for both$"
    ) as caught:
        plan(model({"type": "gqa", "heads": 8, "kv_heads": 8, "head_dim": 128}), k_dtype=k, v_dtype=v)
    assert fix == caught.value.fix


@pytest.mark.parametrize(
    ("attention", "role"),
    [
        ({"type": "mla", "heads": 8, "kv_lora_rank": 512, "qk_rope_head_dim": 64}, "latent"),
        ({"type": "compressed", "entry_dim": 512, "rope_dim": 64, "window": 128}, "entry"),
    ],
)
def test_a_latent_takes_one_format(attention: dict[str, object], role: str) -> None:
    """One row is both K and V, so a different V format is an error."""
    with pytest.raises(
        InputError, match=f"^--v-dtype: found q4_0 beside --k-dtype q8_0, but this model keeps one {role} for both$"
    ) as caught:
        plan(model(attention), k_dtype="q8_0", v_dtype="q4_0")
    assert "--kv-dtype q8_0" == caught.value.fix


def test_two_spellings_of_one_format_fit_a_latent() -> None:
    """`fp8` and `fp8_e4m3` are the same."""
    attention = {"type": "mla", "heads": 8, "kv_lora_rank": 512, "qk_rope_head_dim": 64}
    assert 576 == plan(model(attention), k_dtype="fp8", v_dtype="fp8_e4m3").total_bytes(1)


def test_states_keep_their_own_type() -> None:
    """The cache format does not touch recurrent state: fp32 unless the spec says, convolutions in the model's dtype."""
    attention = {"type": "mamba1", "d_inner": 64, "d_state": 16, "conv_kernel": 4}
    formats = [part.format for part in plan(model(attention), kv_dtype="q4_0").parts(1)]
    assert ["bf16", "fp32"] == formats
    assert ["fp16", "bf16"] == [
        p.format for p in plan(model({**attention, "state_dtype": "bf16"}, dtype="fp16")).parts(1)
    ]


def test_roles_are_nested() -> None:
    """Formats for heads hold a part of what formats for rows hold, and those of what plain numbers hold."""
    assert HEADS < ROWS < ANY


def test_the_bits_of_a_format_are_those_of_its_codes() -> None:
    """What is printed without metadata is the width of one code."""
    codes = {name: FORMATS[name].bits for name in ("bf16", "fp8", "q4_0", "int2_g32", "kivi2", "turboquant_k8v4")}
    assert {"bf16": 16, "fp8": 8, "q4_0": 4, "int2_g32": 2, "kivi2": 2, "turboquant_k8v4": 6} == codes


def test_bytes_of_a_stored_tensor_follow_its_own_law() -> None:
    """KIVI's key codes hold whole runs only."""
    codes: StoredTensor = FORMATS["kivi4"].stored(K, None, TOKENS, "bf16")[0]
    assert (0, 128 * 8 * 64) == (codes.bytes(127), codes.bytes(255))
