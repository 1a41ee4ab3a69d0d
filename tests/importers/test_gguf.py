"""GGUF: keys to specs that equal the shipped ones, the figures where others fail, and refusals by name."""

from __future__ import annotations

import pytest
from gguf_models import LATENT, MODELS, attention, base, every
from gguf_writer import F16_TYPE, F32_TYPE, MXFP4_TYPE, Q4_K_TYPE, Q6_K_TYPE, metadata, write
from strategies import plan, shipped

from kvplan.errors import InputError, NotCountableError
from kvplan.importers.gguf import TENSOR_TYPES, read_gguf, stored_weights
from kvplan.importers.gguf.architectures import COUNTED, KEEPS_NOTHING, PLAIN, WINDOWED
from kvplan.spec import parse_spec
from kvplan.spec_text import spec_values


def kept(spec):
    """What each layer keeps, in order; fp32 is what a state's dtype means where it is not given."""
    return [
        [(t.role, t.row, t.growth, t.dtype or "fp32" if t.role == "state" else t.dtype) for t in layer.tensors()]
        for count, layer in spec.runs
        for _ in range(count)
    ]


def drafted(spec):
    return [(t.role, t.row, t.growth) for t in spec.draft.tensors()] if spec.draft else None


def fp16(spec):
    return spec.replace(fields=spec.fields.model_copy(update={"dtype": "fp16"}))


@pytest.mark.parametrize("name", MODELS)
def test_a_files_layers_are_those_of_the_shipped_spec(tmp_path, name):
    spec = read_gguf(write(tmp_path / f"{name}.gguf", MODELS[name])).spec
    assert kept(spec) == kept(shipped(name))
    assert spec.name == name
    assert spec.fields.dtype == "fp16"


@pytest.mark.parametrize("name", MODELS)
def test_a_files_growth_is_that_of_the_shipped_spec(tmp_path, name):
    source = {"encoder_tokens": 512} if name == "t5-small" else {}
    found = plan(read_gguf(write(tmp_path / "m.gguf", MODELS[name])).spec, **source)
    expected = plan(fp16(shipped(name)), **source)
    for context in (1, 777, 131_072):
        assert found.total_bytes(context) == expected.total_bytes(context)
    for full in (False, True):
        assert found.marginal_bytes(full) == expected.marginal_bytes(full)
    assert found.fixed_bytes() == expected.fixed_bytes()


@pytest.mark.parametrize("name", [n for n, values in MODELS.items() if any("nextn" in k for k in values)])
def test_draft_layers_are_apart(tmp_path, name):
    spec = read_gguf(write(tmp_path / "m.gguf", MODELS[name])).spec
    assert spec.layer_count == shipped(name).layer_count
    assert drafted(spec) == (drafted(shipped(name)) or drafted(spec))  # a spec may leave its draft unsaid


@pytest.mark.parametrize("name", MODELS)
def test_a_file_read_and_written_as_a_spec_reads_back(tmp_path, name):
    spec = read_gguf(write(tmp_path / "m.gguf", MODELS[name], {"token_embd.weight": (F16_TYPE, (64, 100))})).spec
    back = parse_spec(spec_values(spec), spec.source)
    assert kept(back) == kept(spec)
    assert back.fields == spec.fields


GIB = 2**30


@pytest.mark.parametrize(
    ("name", "gib"),
    [
        ("llama-3.1-70b", 40.0),
        ("gemma-3-27b", 10.406),
        ("gpt-oss-20b", None),
        ("deepseek-v3", 8.578),
        ("qwen3-next-80b-a3b", 3.0),
    ],
)
def test_the_figures_where_others_fail(tmp_path, name, gib):
    """peers.md, GGUF probes: (a), (d), (e), (c) and (f1) at 131,072 tokens, states apart."""
    found = plan(read_gguf(write(tmp_path / "m.gguf", MODELS[name])).spec)
    grown = found.total_bytes(131_072) - found.fixed_bytes()
    if gib is None:  # 12 full layers of 2,048 bytes and 12 of 128 rows
        assert grown == 12 * 2048 * 131_072 + 12 * 2048 * 128
    else:
        assert round(grown / GIB, 3) == gib


def test_gpt_oss_120b_is_4_504_gib(tmp_path):
    values = metadata("gpt-oss", **base(36, 2880, 131072), **attention(64, 8, 64, sliding_window=128))
    assert round(plan(read_gguf(write(tmp_path / "m.gguf", values)).spec).total_bytes(131_072) / GIB, 3) == 4.504


def test_a_list_of_heads_with_zeros_is_5_gib(tmp_path):
    """(f2): ten of 118 layers attend, 8 heads of 128... the rest recur or hold experts."""
    pattern = "MEM*" * 10 + "ME" * 39
    values = metadata(
        "nemotron_h_moe",
        **{**base(118, 8192, 131072), "feed_forward_length": [1024 if c == "E" else 0 for c in pattern]},
        **attention(64, [8 if c == "*" else 0 for c in pattern], 128),
        ssm__conv_kernel=4,
        ssm__inner_size=16384,
        ssm__state_size=128,
        ssm__time_step_rank=256,
        ssm__group_count=8,
    )
    found = plan(read_gguf(write(tmp_path / "m.gguf", values)).spec)
    assert found.total_bytes(131_072) - found.fixed_bytes() == 5 * GIB


def test_old_and_new_latent_metadata_count_alike(tmp_path):
    """The old form keeps whole keys and values in llama.cpp, and says so here."""
    new = read_gguf(write(tmp_path / "new.gguf", MODELS["deepseek-v3"]))
    old = metadata(
        "deepseek2",
        **base(61, 7168, 163840),
        **attention(128, 128, 192, 128, kv_lora_rank=512),
        rope__dimension_count=64,
    )
    found = read_gguf(write(tmp_path / "old.gguf", old))
    assert kept(found.spec) == kept(new.spec)
    assert any("older conversion" in note for note in found.notes)
    assert not any("older conversion" in note for note in new.notes)


def test_patterns_may_be_a_number_or_a_list_or_left_out(tmp_path):
    by_list = dict(MODELS["gemma-3-27b"]) | {"gemma3.attention.sliding_window_pattern": every(62, 6)}
    by_number = dict(MODELS["gemma-3-27b"]) | {"gemma3.attention.sliding_window_pattern": 6}
    other = dict(MODELS["gemma-3-27b"]) | {"gemma3.attention.sliding_window_pattern": 2}
    for values in (by_list, by_number):
        assert kept(read_gguf(write(tmp_path / "m.gguf", values)).spec) == kept(shipped("gemma-3-27b"))
    spec = read_gguf(write(tmp_path / "m.gguf", other)).spec
    assert [layer.name for count, layer in spec.runs for _ in range(count)][:4] == ["sliding", "full"] * 2


def test_a_file_without_a_window_slides_nowhere(tmp_path):
    values = {k: v for k, v in MODELS["gemma-3-27b"].items() if "sliding" not in k}
    assert plan(read_gguf(write(tmp_path / "m.gguf", values)).spec).total_bytes(131_072) == 62 * GIB


def test_a_chunk_may_be_given_or_switched_off(tmp_path):
    smaller = dict(MODELS["llama-4-scout"]) | {"llama4.attention.chunk_size": 4096}
    off = dict(MODELS["llama-4-scout"]) | {"llama4.attention.sliding_window": 0}
    assert plan(read_gguf(write(tmp_path / "m.gguf", smaller)).spec).total_bytes(131_072) == 4096 * (
        12 * 131_072 + 36 * 4096
    )
    assert plan(read_gguf(write(tmp_path / "m.gguf", off)).spec).total_bytes(131_072) == 24 * GIB


def test_gemma3n_shares_from_layer_20_where_the_file_does_not_say(tmp_path):
    values = {k: v for k, v in MODELS["gemma-3n-e4b"].items() if "shared" not in k}
    assert kept(read_gguf(write(tmp_path / "m.gguf", values)).spec) == kept(shipped("gemma-3n-e4b"))


def test_recurrent_layers_may_be_listed(tmp_path):
    values = dict(MODELS["qwen3-next-80b-a3b"]) | {"qwen3next.attention.recurrent_layers": [True, False] * 24}
    spec = read_gguf(write(tmp_path / "m.gguf", values)).spec
    assert [len(layer) for layer in kept(spec)] == [3, 2] * 24


def test_each_pass_of_a_looped_model_keeps_its_own_cache(tmp_path):
    values = metadata("nanbeige", **base(8, 1024, 4096), **attention(8, 2, 128), num_loops=3)
    assert read_gguf(write(tmp_path / "m.gguf", values)).spec.layer_count == 24


def test_layers_without_key_value_heads_keep_nothing(tmp_path):
    values = metadata("deci", **base(4, 8192, 131072), **attention([64, 0, 64, 64], [8, 0, 0, 4], 128))
    assert [len(layer) for layer in kept(read_gguf(write(tmp_path / "m.gguf", values)).spec)] == [2, 0, 0, 2]


def test_plamo2s_mixer_is_counted_by_its_state(tmp_path):
    values = metadata(
        "plamo2", **base(4, 2048, 4096), **attention(16, [0, 4, 0, 4], 128), ssm__conv_kernel=4, ssm__inner_size=4096,
        ssm__state_size=64, ssm__time_step_rank=32, ssm__group_count=0,
    )  # fmt: skip
    spec = read_gguf(write(tmp_path / "m.gguf", values)).spec
    assert [kinds[0].type for kinds in (layer.kinds for _, layer in spec.runs)] == ["mamba1", "gqa"] * 2


def test_what_was_read_is_listed(tmp_path):
    found = read_gguf(write(tmp_path / "m.gguf", MODELS["gemma-4-31b"]))
    read = dict(found.read)
    assert read["general.architecture"] == "gemma4"
    assert read["gemma4.block_count"] == "60"
    assert read["gemma4.attention.head_count_kv"].startswith("5 x 16, 4, 5 x 16, 4")
    assert "gemma4.feed_forward_length" not in read
    assert any("fp16" in note for note in found.notes)
    assert found.spec.fields.max_context == 262_144


@pytest.mark.parametrize("architecture", sorted(KEEPS_NOTHING))
def test_models_without_a_cache_are_refused(tmp_path, architecture):
    says(
        tmp_path,
        metadata(architecture, **base(12, 768, 512), **attention(12)),
        f"found '{architecture}', which keeps no cache",
    )


def says(tmp_path, values, text, error=NotCountableError):
    with pytest.raises(error) as caught:
        read_gguf(write(tmp_path / "m.gguf", values))
    assert text in caught.value.what
    assert caught.value.fix
    assert type(caught.value) is error


def change(name, **keys):
    architecture = MODELS[name]["general.architecture"]
    values = dict(MODELS[name])
    for key, value in keys.items():
        full = f"{architecture}.{key.replace('__', '.')}"
        if value is None:
            values.pop(full)
        else:
            values[full] = value
    return values


@pytest.mark.parametrize(
    ("values", "text"),
    [
        (metadata("llama9", **base(2, 64, 64)), "general.architecture: found 'llama9', which kvplan does not know"),
        (metadata("eagle3", **base(2, 64, 64)), "general.architecture: found 'eagle3'"),
        (metadata("graniteswitch", **base(2, 64, 64)), "general.architecture: found 'graniteswitch'"),
        ({"general.architecture": "llama", "general.type": "adapter"}, "general.type: found 'adapter'"),
        (change("llama-3.1-70b", attention__causal=False), "llama.attention.causal"),
        (change("qwen2.5-7b", attention__sliding_window=4096), "qwen2.attention.sliding_window: found '4096'"),
        (change("qwen2.5-7b", attention__shared_kv_layers=2), "qwen2.attention.shared_kv_layers: found '2'"),
        (change("qwen3-32b", attention__indexer__key_length=128), "qwen3.attention.indexer.key_length"),
        (change("qwen3-32b", attention__compress_ratios=[1, 2]), "found a list of 2"),
        (change("qwen3-32b", ssm__state_size=128), "qwen3.ssm.state_size"),
        (change("qwen3-32b", num_loops=2), "qwen3.num_loops"),
        (change("llama-3.1-70b", attention__kv_lora_rank_swa=128), "llama.attention.kv_lora_rank_swa"),
        (change("exaone-4.0-32b", block_count=30), "exaone4.attention.sliding_window"),
    ],
)  # fmt: skip
def test_what_may_change_the_cache_is_refused_by_name(tmp_path, values, text):
    says(tmp_path, values, text)


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ({"general.type": "model"}, "general.architecture: found nothing"),
        ({"general.architecture": 3}, "general.architecture: found nothing"),
        (change("llama-3.1-70b", block_count=None), "llama.block_count: found nothing"),
        (change("llama-3.1-70b", block_count=2**31), "allowed whole numbers from 1 to 10,000"),
        (change("llama-3.1-70b", block_count=0), "llama.block_count: found '0'"),
        (change("llama-3.1-70b", block_count=True), "llama.block_count: found 'True'"),
        (change("llama-3.1-70b", block_count=80.0), "llama.block_count: found '80.0'"),
        (change("llama-3.1-70b", block_count="80"), "llama.block_count: found '80'"),
        (change("llama-3.1-70b", block_count=[80]), "llama.block_count"),
        (change("llama-3.1-70b", attention__head_count=None), "llama.attention.head_count: found nothing"),
        (change("llama-3.1-70b", attention__head_count=[64] * 79), "found 'a list of 79', allowed one value for each of 80"),
        (change("llama-3.1-70b", attention__head_count=[-1] * 80), "allowed whole numbers from 0"),
        (change("llama-3.1-70b", attention__head_count=["a"] * 80), "found 'a list of 80'"),
        (change("llama-3.1-70b", attention__head_count_kv=7), "llama.attention.head_count: found '64', allowed a multiple"),
        (change("llama-3.1-70b", embedding_length=None), "llama.embedding_length: found nothing"),
        (change("llama-3.1-70b", embedding_length=1), "llama.attention.key_length: found '0'"),
        (change("llama-3.1-70b", nextn_predict_layers=80), "llama.nextn_predict_layers: found '80'"),
        (change("gpt-oss-20b", attention__sliding_window=None), "gpt-oss.attention.sliding_window: found nothing"),
        (change("gemma-4-31b", attention__sliding_window_pattern=None), "gemma4.attention.sliding_window_pattern: found nothing"),
        (change("gemma-4-31b", attention__sliding_window_pattern=[True]), "found 'a list of 1'"),
        (change("gemma-3-27b", attention__sliding_window_pattern=[2] * 62), "allowed whole numbers from 0 to 1"),
        (change("deepseek-v3", attention__kv_lora_rank=None), "deepseek2.attention.kv_lora_rank: found nothing"),
        (change("deepseek-v3", attention__key_length=100), "allowed kv_lora_rank 512 and more"),
        (change("deepseek-v2-lite", rope__dimension_count=None), "deepseek2.rope.dimension_count: found nothing"),
        (change("deepseek-v4-flash", attention__compress_ratios=[3] * 43), "allowed 0, 4 and 128"),
        (change("mamba-2.8b", ssm__inner_size=None), "mamba.ssm.inner_size: found nothing"),
        (change("mamba-2.8b", ssm__group_count=2), "mamba.ssm.group_count: found '2'"),
        (change("mamba2-2.7b", ssm__time_step_rank=81), "a multiple of time_step_rank 81"),
        (change("rwkv-7-1.5b", token_shift_count=1), "rwkv7.token_shift_count: found '1'"),
        (change("rwkv-7-1.5b", wkv__head_size=63), "a divisor of embedding_length"),
        (metadata("nanbeige", **base(9000, 64, 64), **attention(8), num_loops=2), "nanbeige.num_loops"),
    ],
)  # fmt: skip
def test_wrong_values_are_refused_by_name(tmp_path, values, text):
    says(tmp_path, values, text, InputError)


def test_layers_with_an_indexer_may_be_listed(tmp_path):
    values = change("glm-5.2", attention__indexer__types=[True, False] * 39)
    assert [len(layer) for layer in kept(read_gguf(write(tmp_path / "m.gguf", values)).spec)] == [2, 1] * 39
    earlier = change("glm-5.2", context_length=202_752)
    assert {len(layer) for layer in kept(read_gguf(write(tmp_path / "m.gguf", earlier)).spec)} == {2}


def test_a_value_too_long_to_keep_is_no_number(tmp_path):
    says(tmp_path, change("llama-3.1-70b", block_count="8" * 5000), "found '5,000 items'", InputError)


def test_a_file_may_leave_its_context_and_its_heads_for_key_values_out(tmp_path):
    values = change("deepseek-v2-lite", context_length=None, attention__head_count_kv=None)
    found = read_gguf(write(tmp_path / "m.gguf", values))
    assert found.spec.fields.max_context is None
    assert kept(found.spec) == kept(shipped("deepseek-v2-lite"))


def test_more_tensors_than_the_bound_over_all_files_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("kvplan.importers.gguf.MOST_TENSORS", 10)
    with pytest.raises(InputError, match="more than 10 tensors in all"):
        read_gguf(split(tmp_path)[0])


def test_harmless_and_unknown_keys_are_told_apart(tmp_path):
    values = change("llama-3.1-70b", rope__freq_base=500000.0, expert_something=1, brand_new=3, attention__brand=0)
    found = read_gguf(write(tmp_path / "m.gguf", values))
    assert found.notes[-1] == "keys that were not read: llama.brand_new"


TENSORS = {
    "token_embd.weight": (Q6_K_TYPE, (1024, 100)),
    "output.weight": (Q6_K_TYPE, (1024, 100)),
    "output_norm.weight": (F32_TYPE, (1024,)),
    "rope_freqs.weight": (F32_TYPE, (32,)),
    "blk.0.attn_q.weight": (Q4_K_TYPE, (1024, 1024)),
    "blk.0.ffn_gate_inp.weight": (F32_TYPE, (1024, 8)),
    "blk.0.ffn_up_exps.weight": (MXFP4_TYPE, (1024, 32, 8)),
    "blk.0.ffn_up.3.weight": (F16_TYPE, (1024, 32)),
    "blk.0.ffn_up_shexp.weight": (F16_TYPE, (1024, 32)),
    "blk.1.nextn.eh_proj.weight": (F16_TYPE, (2048, 32)),
    "v.blk.0.attn_q.weight": (F16_TYPE, (32, 32)),
    "enc.blk.0.attn_q.weight": (F16_TYPE, (32, 32)),
    "dec.blk.0.attn_q.weight": (F16_TYPE, (32, 32)),
    "a.blk.0.attn_q.weight": (F16_TYPE, (32, 32)),
    "mm.a.mlp.0.weight": (F16_TYPE, (32, 32)),
}
SMALL = metadata("glm4moe", **base(2, 1024, 4096), **attention(8, 2, 128), nextn_predict_layers=1)
PLACES = {
    "embeddings": 84_000,
    "head": 84_000,
    "other": 4096 + 128,
    "layers": 589_824 + 32_768 + 65_536 + 2048,
    "experts": 139_264 + 65_536,
    "mtp": 131_072,
    "vision": 2048,
    "encoder": 2048,
    "audio": 4096,
}


def test_weights_are_counted_by_type_and_by_place(tmp_path):
    path = write(tmp_path / "m.gguf", SMALL, TENSORS)
    spec = read_gguf(path).spec
    assert spec.fields.weight_bytes == PLACES
    found = stored_weights(path, 1)
    assert found.bytes_by_place == PLACES
    assert found.bytes_by_type == {"Q6_K": 168_000, "F32": 36_992, "Q4_K": 589_824, "MXFP4": 139_264, "F16": 272_384}
    assert spec.fields.parameters == found.elements == sum(_product(shape) for _, shape in TENSORS.values())


def _product(shape):
    out = 1
    for n in shape:
        out *= n
    return out


def split(folder, count=3, **changes):
    """The tensors over `count` files, as gguf-split names and numbers them."""
    names = list(TENSORS)
    paths = []
    for number in range(count):
        part = {name: TENSORS[name] for name in names[number::count]}
        told = {"split.no": number, "split.count": count, "split.tensors.count": len(names), **changes}
        values = {**SMALL, **told} if number == 0 else told
        paths.append(write(folder / f"m-{number + 1:05d}-of-{count:05d}.gguf", values, part))
    return paths


def test_split_files_are_read_whole_whichever_is_given(tmp_path):
    for path in split(tmp_path):
        found = read_gguf(path)
        assert found.spec.fields.weight_bytes == PLACES
        assert found.spec.name == "m"


def test_incomplete_and_renamed_splits_are_refused(tmp_path):
    paths = split(tmp_path)
    paths[1].rename(tmp_path / "kept")
    with pytest.raises(InputError, match="m-00002-of-00003.gguf': cannot be read: No such file"):
        read_gguf(paths[0])
    paths[2].rename(paths[1])
    (tmp_path / "kept").rename(paths[2])
    with pytest.raises(InputError, match="split.no: found '2', the name says 1"):
        read_gguf(paths[0])
    paths[0].rename(tmp_path / "one.gguf")
    with pytest.raises(InputError, match="split.count: found '3', the name says 1"):
        read_gguf(tmp_path / "one.gguf")
    (tmp_path / "m-00001-of-00000.gguf").touch()
    with pytest.raises(InputError, match="found 0 splits"):
        read_gguf(tmp_path / "m-00001-of-00000.gguf")


def test_splits_that_do_not_add_up_are_refused(tmp_path):
    paths = split(tmp_path, **{"split.tensors.count": 99})
    with pytest.raises(InputError, match="split.tensors.count: found '99', the files hold 15"):
        read_gguf(paths[0])
    write(paths[1], {"split.no": 1}, {"output.weight": TENSORS["output.weight"], "token_embd.weight": (F32_TYPE, (1,))})
    with pytest.raises(InputError, match="stands in two files"):
        read_gguf(paths[0])


@pytest.mark.parametrize(
    ("given", "file", "name"),
    [
        ("Llama 3.1 70B Instruct", "x.gguf", "llama-3.1-70b-instruct"),
        ("../../etc/\x1b[31m", "x.gguf", "etc-31m"),
        ("日本語", "my model.Q4_K_M.gguf", "my-model.q4_k_m"),
        ("", "日.gguf", "gguf"),
        ("x" * 900, "y.gguf", "x" * 100),
    ],
)
def test_a_specs_name_is_the_models_own_made_plain(tmp_path, given, file, name):
    assert read_gguf(write(tmp_path / file, MODELS["gpt-2"] | {"general.name": given})).spec.name == name


def test_every_counted_architecture_is_one_kind_of_thing():
    assert not COUNTED & KEEPS_NOTHING
    assert not PLAIN & set(WINDOWED)


@pytest.mark.oracle
def test_type_sizes_are_the_gguf_packages_own():
    constants = pytest.importorskip("gguf.constants")
    own = {kind.value: (kind.name, *sizes) for kind, sizes in constants.GGML_QUANT_SIZES.items()}
    assert {number: TENSOR_TYPES[number] for number in own} == own


@pytest.mark.oracle
def test_files_of_the_gguf_package_read_alike(tmp_path):
    gguf = pytest.importorskip("gguf")
    numpy = pytest.importorskip("numpy")
    writer = gguf.GGUFWriter(tmp_path / "m.gguf", "gemma3")
    writer.add_block_count(6)
    writer.add_context_length(4096)
    writer.add_embedding_length(512)
    writer.add_head_count(8)
    writer.add_head_count_kv([4] * 6)
    writer.add_key_length(64)
    writer.add_value_length(64)
    writer.add_sliding_window(128)
    writer.add_sliding_window_pattern([True, False] * 3)
    writer.add_token_list([f"token {i}" for i in range(50_000)])
    writer.add_token_scores([0.0] * 50_000)
    writer.add_tensor("token_embd.weight", numpy.zeros((100, 512), "float16"))
    writer.add_tensor("blk.0.attn_q.weight", numpy.zeros((17, 3), "float32"))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    spec = read_gguf(tmp_path / "m.gguf").spec
    assert spec.fields.weight_bytes == {"embeddings": 102_400, "layers": 204}
    assert plan(spec).total_bytes(4096) == 3 * 4 * 128 * 2 * (4096 + 128)


def test_deepseek_latents_survive_a_draft_layer(tmp_path):
    values = metadata("deepseek2", **base(62, 7168, 163840), **attention(128, 1, **LATENT), rope__dimension_count=64, nextn_predict_layers=1)  # fmt: skip
    spec = read_gguf(write(tmp_path / "m.gguf", values)).spec
    assert spec.layer_count == 61
    assert [t.row for t in spec.draft.tensors()] == [(576,)]


@pytest.mark.parametrize(
    ("name", "told"), [("phi-3-mini-4k", True), ("mistral-7b-v0.1", True), ("phi-4-14b", False), ("gemma-3-27b", False)]
)
def test_windows_that_llama_cpp_leaves_out_are_told(tmp_path, name, told):
    notes = read_gguf(write(tmp_path / "m.gguf", MODELS[name])).notes
    assert any("leaves its windows out" in note for note in notes) is told
