"""Checkpoints: exact bytes from headers, and two lines for whatever a hostile file claims."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvplan.errors import InputError
from kvplan.importers.safetensors_header import DTYPE_BITS, checkpoint, place, read_header
from kvplan.importers.safetensors_header.header import MOST_HEADER_BYTES, MOST_TENSORS

TINY = {"a": ("BF16", [2, 3])}


def table(tensors):
    """The header's mapping for `tensors`, one after the other."""
    header, at = {}, 0
    for name, (dtype, shape) in tensors.items():
        size = DTYPE_BITS[dtype]
        for n in shape:
            size *= n
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + size // 8]}
        at += size // 8
    return header, at


def write(path, tensors, metadata=None):
    """A true file whose tensors are holes."""
    header, data_bytes = table(tensors)
    raw(path, json.dumps(({"__metadata__": metadata} if metadata else {}) | header).encode(), data_bytes)
    return path


def raw(path, header, data_bytes=0, length=None):
    path.write_bytes((len(header) if length is None else length).to_bytes(8, "little") + header)
    os.truncate(path, 8 + len(header) + data_bytes)
    return path


def refusal(path, read=read_header):
    with pytest.raises(InputError) as caught:
        read(path)
    assert "\n" not in caught.value.what
    assert len(caught.value.what) < 500
    assert caught.value.fix
    return caught.value.what


def read_or_refuse(path):
    """Whatever the bytes: tensors, or two lines."""
    try:
        read_header(path)
    except InputError as error:
        if "\n" in error.what:
            raise AssertionError(error.what) from error


MODEL = {
    "model.embed_tokens.weight": ("BF16", [1000, 64]),
    "model.layers.0.self_attn.q_proj.weight": ("F8_E4M3", [64, 64]),
    "model.layers.0.self_attn.q_proj.weight_scale_inv": ("F32", [1, 1]),
    "model.layers.0.mlp.experts.0.up_proj.weight": ("F4", [64, 64]),
    "model.layers.0.mlp.shared_experts.up_proj.weight": ("BF16", [64, 64]),
    "model.layers.1.self_attn.q_proj.weight": ("BF16", [64, 64]),
    "model.layers.2.eh_proj.weight": ("BF16", [64, 128]),
    "model.layers.2.mlp.experts.0.up_proj.weight": ("BF16", [64, 64]),
    "model.norm.weight": ("BF16", [64]),
    "lm_head.weight": ("BF16", [1000, 64]),
    "visual.blocks.0.attn.qkv.weight": ("BF16", [64, 192]),
    "audio_tower.layers.0.fc1.weight": ("F16", [64, 64]),
}
PLACES = {
    "embeddings": 128_000,
    "layers": 4096 + 4 + 8192 + 8192,
    "experts": 2048,
    "mtp": 16_384 + 8192,
    "other": 128,
    "head": 128_000,
    "vision": 24_576,
    "audio": 8192,
}


def test_every_byte_is_counted_by_dtype_and_by_place(tmp_path):
    found = checkpoint(write(tmp_path / "model.safetensors", MODEL, {"format": "pt"}))
    assert found.bytes_by_place == PLACES
    assert found.bytes_by_dtype == {"BF16": 321_664, "F8_E4M3": 4096, "F32": 4, "F4": 2048, "F16": 8192}
    assert (
        found.total_bytes
        == sum(PLACES.values())
        == (tmp_path / "model.safetensors").stat().st_size - header_bytes(tmp_path / "model.safetensors")
    )
    assert (found.tensors, found.elements) == (12, 173_121)


def header_bytes(path):
    return 8 + int.from_bytes(path.read_bytes()[:8], "little")


def test_layers_past_the_models_own_are_draft_layers(tmp_path):
    path = write(tmp_path / "m.safetensors", {f"model.layers.{i}.mlp.up_proj.weight": ("I8", [10]) for i in range(4)})
    assert checkpoint(path).bytes_by_place == {"layers": 40}
    assert checkpoint(path, layers=3).bytes_by_place == {"layers": 30, "mtp": 10}


@pytest.mark.parametrize(
    ("name", "where"),
    [
        ("transformer.h.3.attn.c_attn.weight", "layers"),
        ("transformer.wte.weight", "embeddings"),
        ("transformer.encoder.layers.3.mlp.dense_h_to_4h.weight", "layers"),
        ("transformer.output_layer.weight", "head"),
        ("encoder.block.0.layer.0.SelfAttention.q.weight", "encoder"),
        ("decoder.block.0.layer.1.EncDecAttention.q.weight", "layers"),
        ("shared.weight", "embeddings"),
        ("model.encoder.conv1.weight", "encoder"),
        ("model.decoder.embed_positions.weight", "embeddings"),
        ("model.layers.3.block_sparse_moe.experts.7.w1.weight", "experts"),
        ("model.layers.3.block_sparse_moe.input_linear.weight", "experts"),
        ("model.layers.3.block_sparse_moe.gate.weight", "layers"),
        ("model.layers.3.mlp.shared_expert.up_proj.weight", "layers"),
        ("model.language_model.layers.3.feed_forward.experts.gate_up_proj", "experts"),
        ("language_model.model.layers.3.mlp.up_proj.weight", "layers"),
        ("vision_tower.vision_model.encoder.layers.3.mlp.fc1.weight", "vision"),
        ("multi_modal_projector.linear_1.weight", "vision"),
        ("mlp1.1.weight", "vision"),
        ("audio_projector.weight", "audio"),
        ("mtp.layers.0.mlp.experts.1.up_proj.weight", "mtp"),
        ("model.mtp_layers.0.input_proj.weight", "mtp"),
        ("backbone.embeddings.weight", "embeddings"),
        ("backbone.layers.3.mixer.experts.4.up_proj.weight", "experts"),
        ("model.norm.weight", "other"),
        ("", "other"),
    ],
)
def test_names_say_where_weights_belong(name, where):
    assert place(name) == where


def test_an_index_names_the_shards_and_the_rest_is_left_out(tmp_path):
    halves = list(MODEL.items())
    shards = {
        "model-00001-of-00002.safetensors": dict(halves[:5]),
        "model-00002-of-00002.safetensors": dict(halves[5:]),
    }
    for name, tensors in shards.items():
        write(tmp_path / name, tensors)
    write(tmp_path / "consolidated.safetensors", MODEL)
    (tmp_path / "pytorch_model.bin").write_bytes(b"cos\nsystem\n(S'false'\ntR.")
    weight_map = {tensor: name for name, tensors in shards.items() for tensor in tensors}
    index = tmp_path / "model.safetensors.index.json"
    index.write_text(json.dumps({"metadata": {"total_size": 1}, "weight_map": weight_map}, indent=2))
    found = checkpoint(tmp_path)
    assert found.bytes_by_place == PLACES
    assert found.files == tuple(shards)
    assert any("pytorch_model.bin" in note and "never opened" in note for note in found.notes)
    assert any("consolidated.safetensors" in note for note in found.notes)
    index.unlink()
    assert "two files" in refusal(tmp_path, checkpoint)
    (tmp_path / "consolidated.safetensors").unlink()
    assert checkpoint(tmp_path).bytes_by_place == PLACES
    (tmp_path / "model-00001-of-00002.safetensors").unlink()
    assert "'model-00001-of-00002.safetensors' does not exist" in refusal(tmp_path, checkpoint)


def test_models_own_file_comes_before_others(tmp_path):
    write(tmp_path / "model.safetensors", MODEL)
    write(tmp_path / "other.safetensors", MODEL)
    found = checkpoint(tmp_path)
    assert found.bytes_by_place == PLACES
    assert "other.safetensors" in found.notes[0]


def test_a_folder_of_pickles_is_never_opened(tmp_path):
    os.mkfifo(tmp_path / "pytorch_model.bin")
    assert "only pickled weights, which are never opened" in refusal(tmp_path, checkpoint)


def test_the_hub_caches_own_links_are_followed_and_no_others(tmp_path):
    repo = tmp_path / "models--a--b"
    (repo / "blobs").mkdir(parents=True)
    snapshot = repo / "snapshots" / "abc"
    snapshot.mkdir(parents=True)
    write(repo / "blobs" / "1234", MODEL)
    (snapshot / "model.safetensors").symlink_to("../../blobs/1234")
    assert checkpoint(snapshot).bytes_by_place == PLACES
    write(tmp_path / "elsewhere", MODEL)
    (snapshot / "model.safetensors").unlink()
    (snapshot / "model.safetensors").symlink_to(tmp_path / "elsewhere")
    assert "leads out of the folder" in refusal(snapshot, checkpoint)


def test_links_that_loop_are_refused(tmp_path):
    (tmp_path / "a.safetensors").symlink_to("b.safetensors")
    (tmp_path / "b.safetensors").symlink_to("a.safetensors")
    refusal(tmp_path, checkpoint)
    refusal(tmp_path / "a.safetensors")


@pytest.mark.parametrize(
    "name",
    [
        "/etc/passwd.safetensors",
        "../up.safetensors",
        "a/../../b.safetensors",
        "a\\b.safetensors",
        "",
        "model.safetensors.index.json",
        "weights.bin",
        "./a.safetensors",
        "a//b.safetensors",
    ],
)
def test_an_index_that_leads_out_of_the_folder_is_refused(tmp_path, name):
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {"a": name}}))
    assert "weight_map" in refusal(tmp_path, checkpoint)


def test_an_index_that_disagrees_with_its_shard_is_refused(tmp_path):
    write(tmp_path / "m.safetensors", TINY)
    index = tmp_path / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": {"a": "m.safetensors", "b": "m.safetensors"}}))
    assert "not in it" in refusal(tmp_path, checkpoint)
    index.write_text(json.dumps({"weight_map": {"b": "m.safetensors"}}))
    assert "not in it" in refusal(tmp_path, checkpoint)
    index.write_text(json.dumps({"weight_map": {"a": "n.safetensors"}}))
    assert "No such file" in refusal(tmp_path, checkpoint)
    write(tmp_path / "m.safetensors", TINY | {"c": ("U8", [3])})
    index.write_text(json.dumps({"weight_map": {"a": "m.safetensors"}}))
    assert "1 tensors that the index does not name" in checkpoint(tmp_path).notes[0]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "{}",
        '{"weight_map": {}}',
        '{"weight_map": {"a": 1}}',
        '{"weight_map": {"a": "m.safetensors"}',
        '{"weight_map": {"a": "m.safetensors"}} x',
        '{"weight_map": {"a": "m.safetensors"}, "weight_map": {"b": "m.safetensors"}}',
        '{"weight_map": ' + '{"a":' * 100_000,
        '{"metadata": ' + "[" * 100_000,
        '{"weight_map": {"\\ud8": "m.safetensors"}}',
    ],
)
def test_a_broken_index_is_refused(tmp_path, text):
    (tmp_path / "model.safetensors.index.json").write_text(text)
    assert "not an index" in refusal(tmp_path, checkpoint)


ENTRY = '"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]}'


@pytest.mark.parametrize(
    ("header", "data_bytes", "says"),
    [
        ("", 0, "not a flat table"),
        ("[]", 0, "not a flat table"),
        ("null", 0, "not a flat table"),
        ("{" + ENTRY, 4, "not a flat table"),
        ("{" + ENTRY + ",}", 4, "not a flat table"),
        ("{" + ENTRY + "}}", 4, "not a flat table"),
        ("{" + ENTRY + "," + ENTRY + "}", 4, "stands twice"),
        ("{" + ENTRY + ',"b":{"dtype":"U8","shape":[2],"data_offsets":[2,4]}}', 4, "overlap at byte 2"),
        ("{" + ENTRY + ',"b":{"dtype":"U8","shape":[2],"data_offsets":[6,8]}}', 8, "leave a gap at byte 4"),
        ("{" + ENTRY + "}", 5, "the file holds 5"),
        ("{" + ENTRY + "}", 3, "the file holds 3"),
        ('{"a":{"dtype":"U8","shape":[4],"data_offsets":[-4,0]}}', 4, "'-4'"),
        ('{"a":{"dtype":"U8","shape":[4],"data_offsets":[4,0]}}', 4, "takes"[:3]),
        ('{"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4,8]}}', 4, "allowed [begin, end]"),
        ('{"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4e0]}}', 4, "allowed [begin, end]"),
        ('{"a":{"dtype":"U8","shape":[-4],"data_offsets":[0,4]}}', 4, "shape: found"),
        ('{"a":{"dtype":"U8","shape":[4],"data_offsets":[0,99999999999999999999]}}', 4, "data_offsets"),
        ('{"a":{"dtype":"U8","shape":[true],"data_offsets":[0,4]}}', 4, "shape: found"),
        ('{"a":{"dtype":"U8","shape":[5],"data_offsets":[0,4]}}', 4, "found 4 bytes"),
        ('{"a":{"dtype":"F4","shape":[7],"data_offsets":[0,4]}}', 4, "'3.5'"),
        ('{"a":{"dtype":"U9","shape":[4],"data_offsets":[0,4]}}', 4, "dtype: found 'U9', allowed"),
        ('{"a":{"dtype":9,"shape":[4],"data_offsets":[0,4]}}', 4, "dtype: found '9'"),
        ('{"a":{"shape":[4],"data_offsets":[0,4]}}', 4, "dtype: found 'None'"),
        (
            '{"a":{"dtype":"U8","shape":[9223372036854775807,9223372036854775807],"data_offsets":[0,4]}}',
            4,
            "found 4 bytes",
        ),
        ('{"a":4}', 4, "not a flat table"),
        ('{"a":{"b":{}}}', 4, "not a flat table"),
        ('{"__metadata__":{"a":{}}}', 0, "not a flat table"),
        ('{"a":' * 200_000, 0, "not a flat table"),
        ("[" * 1_000_000, 0, "not a flat table"),
        ('{"a":{"dtype":"U8","shape":' + "[" * 4000 + ',"data_offsets":[0,4]}}', 4, "not a flat table"),
        ('{"' + "a" * 2_000_000 + '":{}}', 0, "not a flat table"),
    ],
)
def test_a_header_that_lies_is_refused(tmp_path, header, data_bytes, says):
    assert says in refusal(raw(tmp_path / "m.safetensors", header.encode(), data_bytes))


@pytest.mark.parametrize(
    "header", [b'{"\xff":{}}', b'{"\\ud800":{"dtype":"U8","shape":[],"data_offsets":[0,1]}} ', b"\x00" * 100]
)
def test_bytes_that_are_not_text_are_refused_or_shown_safely(tmp_path, header):
    refusal(raw(tmp_path / "m.safetensors", header))


@pytest.mark.parametrize("length", [9, 2**40, 2**63, 2**64 - 1])
def test_a_header_longer_than_the_file_is_refused(tmp_path, length):
    assert "header length" in refusal(raw(tmp_path / "m.safetensors", b"{}", length=length))


@pytest.mark.parametrize("count", [0, 1, 7])
def test_a_file_cut_off_in_its_length_is_refused(tmp_path, count):
    (tmp_path / "m").write_bytes(b"\x02" * count)
    assert "allowed at least 8" in refusal(tmp_path / "m")


def test_a_header_over_the_bound_is_refused_unread(tmp_path):
    path = raw(tmp_path / "m", b"{", 100 * 2**20, length=100 * 2**20)
    assert f"allowed at most {MOST_HEADER_BYTES:,}" in refusal(path)


def test_an_index_over_the_bound_is_refused(tmp_path):
    index = tmp_path / "model.safetensors.index.json"
    index.write_bytes(b"{")
    os.truncate(index, 2**40)
    assert "remove the index" in "".join(str(e) for e in _what_and_fix(tmp_path))


def _what_and_fix(path):
    with pytest.raises(InputError) as caught:
        checkpoint(path)
    return caught.value.what, caught.value.fix


def test_special_files_are_refused_and_never_waited_for(tmp_path):
    os.mkfifo(tmp_path / "m.safetensors")
    assert "not a regular file" in refusal(tmp_path / "m.safetensors")
    assert "not a regular file" in refusal(Path("/dev/zero"))
    assert "leads out" in refusal(_linked(tmp_path / "folder", "/dev/zero"), checkpoint)
    assert "cannot be read" in refusal(tmp_path / "missing")
    refusal(Path("a\0b"))


def _linked(folder, target):
    folder.mkdir()
    (folder / "m.safetensors").symlink_to(target)
    return folder


def test_loose_json_reads_as_well_as_tight(tmp_path):
    header = b' \t\n"b" : { "data_offsets" : [ 4 , 6 ], "dtype" : "BF16" , "shape" : [ 1 ] } , "__metadata__" : null, "a\\u0062" : {"dtype":"U8","shape":[2, 2],"data_offsets":[0,4]} }   '
    found = read_header(raw(tmp_path / "m", b"{" + header, 6))
    assert [(t.name, t.shape, t.bytes) for t in found] == [("b", (1,), 2), ("ab", (2, 2), 4)]


def test_metadata_of_megabytes_is_passed_over(tmp_path):
    path = write(tmp_path / "m", TINY, {f"key {i}": 'va"l{ue}\\' * 10 for i in range(50_000)})
    assert [t.name for t in read_header(path)] == ["a"]


def test_empty_files_of_the_format_hold_nothing(tmp_path):
    assert read_header(raw(tmp_path / "m", b"{} ")) == []
    assert checkpoint(write(tmp_path / "n", {"a": ("F32", [0, 4])})).total_bytes == 0


def test_two_hundred_shards_take_little_memory(tmp_path):
    total, weight_map = 200, {}
    for number in range(1, total + 1):
        name = f"model-{number:05d}-of-{total:05d}.safetensors"
        tensors = {f"model.layers.{number}.mlp.experts.{i}.up_proj.weight": ("BF16", [2048, 7168]) for i in range(180)}
        write(tmp_path / name, tensors)
        weight_map |= dict.fromkeys(tensors, name)
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": weight_map}))
    said, mib = peak(tmp_path)
    assert said == str({"experts": 200 * 180 * 2048 * 7168 * 2})
    assert mib < 150


PEAK = r"""
import re, sys
from pathlib import Path
from kvplan.errors import KvplanError
from kvplan.importers.safetensors_header import checkpoint
try:
    print(checkpoint(Path(sys.argv[1])).bytes_by_place)
except KvplanError as error:
    print(error.what)
print(re.search(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text())[1])
"""


def peak(path):
    """(what was printed, peak MiB) of a fresh process, which has a minute at most."""
    done = subprocess.run(
        [sys.executable, "-c", PEAK, str(path)], check=False, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr
    said, kib = done.stdout.rsplit("\n", 2)[:2]
    return said, int(kib) / 1024


@pytest.mark.parametrize("kind", ["tensors", "keys", "strings", "shape"])
def test_the_worst_header_takes_bounded_memory(tmp_path, kind):
    room = MOST_HEADER_BYTES - 100
    if kind == "tensors":
        header = (
            b"{"
            + b",".join(
                b'"%x":{"dtype":"U8","shape":[],"data_offsets":[%d,%d]}' % (i, i, i + 1) for i in range(MOST_TENSORS)
            )
            + b"}"
        )
        path = raw(tmp_path / "m", header, MOST_TENSORS)
    else:
        unit = {"keys": b'"a":{},', "strings": b'"a":"b",', "shape": b"1,"}[kind]
        front = {"keys": b"{", "strings": b'{"__metadata__":{', "shape": b'{"a":{"dtype":"U8","shape":['}[kind]
        path = raw(tmp_path / "m", front + unit * (room // len(unit)))
    _, mib = peak(path)
    assert mib < 150


@given(st.binary(max_size=200))
def test_no_bytes_raise_anything_but_the_two_lines(tmp_path_factory, data):
    path = tmp_path_factory.getbasetemp() / "fuzz.safetensors"
    for content in (data, len(data).to_bytes(8, "little") + data):
        path.write_bytes(content)
        read_or_refuse(path)


@given(
    st.dictionaries(
        st.text(max_size=20),
        st.tuples(st.sampled_from(["F32", "BF16", "I8"]), st.lists(st.integers(0, 9), max_size=3)),
        max_size=5,
    ),
    st.integers(0, 400),
    st.binary(max_size=2),
)
def test_a_changed_byte_is_read_or_refused(tmp_path_factory, tensors, at, change):
    path = tmp_path_factory.getbasetemp() / "changed.safetensors"
    tensors.pop("__metadata__", None)
    try:
        write(path, tensors)
    except UnicodeEncodeError:
        return
    whole = path.read_bytes()
    assert sum(t.bytes for t in read_header(path)) == len(whole) - header_bytes(path)
    path.write_bytes(whole[:at] + change + whole[at + 1 :])
    read_or_refuse(path)


@pytest.mark.oracle
@given(
    st.dictionaries(
        st.text('ab.é"\\', min_size=1, max_size=9),
        st.tuples(st.sampled_from(["F32", "F16", "I8", "I64", "BOOL"]), st.lists(st.integers(0, 5), max_size=3)),
        min_size=1,
        max_size=5,
    )
)
def test_the_librarys_own_files_read_alike(tmp_path_factory, tensors):
    numpy = pytest.importorskip("numpy")
    library = pytest.importorskip("safetensors.numpy")
    kinds = {"F32": "float32", "F16": "float16", "I8": "int8", "I64": "int64", "BOOL": "bool"}
    path = tmp_path_factory.getbasetemp() / "library.safetensors"
    arrays = {name: numpy.zeros(shape, kinds[dtype]) for name, (dtype, shape) in tensors.items()}
    library.save_file(arrays, path, metadata={"é": '"}'})
    assert {t.name: (t.dtype, list(t.shape)) for t in read_header(path)} == {k: (d, s) for k, (d, s) in tensors.items()}


def test_more_tensors_or_shards_than_the_bounds_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("kvplan.importers.safetensors_header.header.MOST_TENSORS", 2)
    path = write(tmp_path / "m.safetensors", {name: ("U8", [1]) for name in "abc"})
    assert "more than 2 tensors" in refusal(path)
    monkeypatch.setattr("kvplan.importers.safetensors_header.folder.MOST_FILES", 1)
    write(tmp_path / "n.safetensors", TINY)
    assert "2 files, allowed at most 1" in refusal(tmp_path, checkpoint)
    index = {"weight_map": {"a": "m.safetensors", "b": "n.safetensors"}}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    assert "more than 1 shards" in refusal(tmp_path, checkpoint)


def test_a_folder_that_cannot_be_listed_is_refused(tmp_path, monkeypatch):
    def denied(_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "iterdir", denied)
    assert "Permission denied" in refusal(tmp_path, checkpoint)


def test_a_file_that_shrinks_meanwhile_is_refused(tmp_path, monkeypatch):
    path = write(tmp_path / "m.safetensors", TINY)
    whole = os.read
    monkeypatch.setattr(os, "read", lambda handle, count: whole(handle, count) if count <= 8 else b"")
    assert "changed while it was read" in refusal(path)


@pytest.mark.parametrize(
    "name", [b"x\x01\x00/n.safetensors", b"\\u0000.safetensors", b"\\ud800.safetensors", b"x" * 999 + b".safetensors"]
)
def test_shard_names_that_are_no_file_names_are_refused(tmp_path, name):
    """The first was found by a coverage-guided fuzzer."""
    (tmp_path / "model.safetensors.index.json").write_bytes(b'{"weight_map": {"a": "' + name + b'"}}')
    refusal(tmp_path, checkpoint)
