"""The GGUF container: hostile counts, lengths, offsets and files end in two lines, in bounded time and memory."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
from pathlib import Path

import pytest
from gguf_models import MODELS
from gguf_writer import ARRAY, F16_TYPE, F32_TYPE, Q4_0_TYPE, STRING, U8, U32, head, infos, packed, text, write
from hypothesis import given
from hypothesis import strategies as st

from kvplan.errors import InputError, KvplanError
from kvplan.importers.gguf import read_container, read_gguf
from kvplan.importers.gguf.container import (
    LONGEST_ARRAY,
    LONGEST_TEXT,
    MOST_KEPT_ITEMS,
    MOST_KEYS,
    MOST_READ_BYTES,
    MOST_STRINGS,
    MOST_TENSORS,
    Skipped,
)

LLAMA = MODELS["llama-3.1-70b"]


def refusal(path):
    with pytest.raises(InputError) as caught:
        read_container(path)
    assert "\n" not in caught.value.what
    assert len(caught.value.what) < 500
    assert caught.value.fix
    return caught.value.what


def file(tmp_path, *parts, size=None):
    path = tmp_path / "m.gguf"
    path.write_bytes(b"".join(parts))
    if size is not None:
        os.truncate(path, size)
    return path


def start(keys=0, tensors=0, version=3):
    return struct.pack("<4sIQQ", b"GGUF", version, tensors, keys)


def array(kind, count, body=b""):
    return struct.pack("<IIQ", ARRAY, kind, count) + body


@pytest.mark.parametrize("version", [2, 3])
def test_versions_2_and_3_are_read(tmp_path, version):
    found = read_container(
        write(tmp_path / "m.gguf", {"a": 1, "b": "c", "d": [True, False], "e": -1.5}, version=version)
    )
    assert found.values == {"a": 1, "b": "c", "d": (True, False), "e": -1.5}
    assert found.version == version


@pytest.mark.parametrize("version", [0, 1, 4, 65536 * 2 + 1])
def test_other_versions_are_refused(tmp_path, version):
    assert "version: found" in refusal(file(tmp_path, start(version=version)))


def test_big_endian_files_are_refused_with_the_command_that_converts_them(tmp_path):
    path = file(tmp_path, struct.pack(">4sIQQ", b"GGUF", 3, 0, 0))
    with pytest.raises(InputError) as caught:
        read_container(path)
    assert "big-endian" in caught.value.what
    assert "gguf-convert-endian" in caught.value.fix


@pytest.mark.parametrize(
    "content", [b"", b"GGUF", b"GGML" + bytes(20), b"PK\x03\x04" + bytes(60), b"GGUF\x03\0\0\0" + bytes(15)]
)
def test_what_is_no_gguf_is_refused(tmp_path, content):
    assert "does not begin with GGUF" in refusal(file(tmp_path, content))


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (start(keys=10**9), "found 1,000,000,000 keys"),
        (start(keys=2**64 - 1), "keys, allowed"),
        (start(tensors=2**63), "tensors, allowed"),
        (start(keys=MOST_KEYS), "what it describes needs"),
        (start(tensors=MOST_TENSORS), "what it describes needs"),
        (start(keys=1) + struct.pack("<Q", 2**64 - 1), "a key: found"),
        (start(keys=1) + struct.pack("<Q", 2**40), "a key: found"),
        (start(keys=1) + text(b"\xff\xfe") + packed(1), "not UTF-8"),
        (start(keys=1) + text("") + packed(1), "is empty or stands twice"),
        (start(keys=2) + (text("a") + packed(1)) * 2, "is empty or stands twice"),
        (start(keys=1) + text("a") + struct.pack("<I", 13), "kind 13"),
        (start(keys=1) + text("a") + struct.pack("<I", 2**32 - 1), "kind 4,294,967,295"),
        (start(keys=1) + text("a") + struct.pack("<IQ", STRING, 2**63), "needs"),
        (start(keys=1) + text("a") + struct.pack("<IQ", STRING, 2**40), "needs"),
        (start(keys=1) + text("a") + array(ARRAY, 1, array(ARRAY, 1) * 50), "a list of kind 9"),
        (start(keys=1) + text("a") + array(77, 1), "a list of kind 77"),
        (start(keys=1) + text("a") + array(U32, 2**62), "needs"),
        (start(keys=1) + text("a") + array(U32, 2), "needs"),
        (start(keys=1) + text("a") + array(STRING, 2**61), "a list of 2,305,843,009,213,693,952 texts"),
        (start(keys=1) + text("a") + array(STRING, 2, text("b")), "texts"),
        (start(keys=1) + text("a") + array(STRING, 1, struct.pack("<Q", 2**64 - 1)), "needs"),
        (start(tensors=1) + text("a" * 256), "a tensor's name"),
        (start(tensors=1) + text("a") + struct.pack("<I", 5), "found 5 dimensions"),
        (start(tensors=1) + text("a") + struct.pack("<I", 2**32 - 1), "dimensions"),
        (start(tensors=1) + text("a") + struct.pack("<IQIQ", 1, 4, 99, 0), "type: found 99"),
        (start(tensors=1) + text("a") + struct.pack("<IQIQ", 1, 4, 4, 0), "type: found 4"),
        (start(tensors=1) + text("a") + struct.pack("<IQIQ", 1, 31, Q4_0_TYPE, 0), "rows of 32 x n in Q4_0"),
        (start(tensors=1) + text("a") + struct.pack("<IQQIQ", 2, 2**40, 2**40, F32_TYPE, 0), "shape: found"),
        (start(tensors=1) + text("a") + struct.pack("<IQIQ", 1, 2**64 - 1, F32_TYPE, 0), "shape: found"),
        (start(tensors=1) + text("a") + struct.pack("<IQIQ", 1, 2**50, F32_TYPE, 0), "needs"),
        (start(tensors=1) + text("a") + struct.pack("<IQIQ", 1, 4, F32_TYPE, 32), "offset: found 32"),
        (start(tensors=1) + text("a") + struct.pack("<IQIQ", 1, 4, F32_TYPE, 2**64 - 32), "offset: found"),
        (start(tensors=2) + (text("a") + struct.pack("<IQIQ", 1, 8, F32_TYPE, 0)) * 2, "stands twice"),
        (
            start(tensors=2)
            + text("a") + struct.pack("<IQIQ", 1, 8, F32_TYPE, 0)
            + text("b") + struct.pack("<IQIQ", 1, 8, F32_TYPE, 0),
            "offset: found 0, allowed '32'",
        ),
        (start(keys=1) + text("general.alignment") + packed(3), "general.alignment: found '3'"),
        (start(keys=1) + text("general.alignment") + packed(0), "general.alignment: found '0'"),
        (start(keys=1) + text("general.alignment") + packed(2**31), "general.alignment: found"),
        (start(keys=1) + text("general.alignment") + packed("32"), "general.alignment: found '32'"),
    ],
)  # fmt: skip
def test_a_lying_file_is_refused(tmp_path, content, says):
    assert says in refusal(file(tmp_path, content))


def test_a_file_cut_off_anywhere_is_refused(tmp_path):
    whole = write(tmp_path / "w.gguf", LLAMA, {"a": (F32_TYPE, (8,)), "b": (F16_TYPE, (8, 8))}).read_bytes()
    for length in range(len(whole)):
        refusal(file(tmp_path, whole[:length]))
    read_container(file(tmp_path, whole))


def test_alignment_is_the_files_own(tmp_path):
    values = LLAMA | {"general.alignment": 128}
    path = write(tmp_path / "m.gguf", values, {"a": (F32_TYPE, (8,)), "b": (F32_TYPE, (8,))})
    assert [t.bytes for t in read_container(path).tensors] == [32, 32]


def test_tensors_may_be_empty_or_single_numbers(tmp_path):
    path = write(tmp_path / "m.gguf", LLAMA, {"a": (F32_TYPE, ()), "b": (F32_TYPE, (0, 8)), "c": (F32_TYPE, (1,))})
    assert [t.bytes for t in read_container(path).tensors] == [4, 0, 4]


def test_long_values_are_stepped_over(tmp_path):
    values = {
        "long": "x" * (LONGEST_TEXT + 1),
        "list": [1] * (LONGEST_ARRAY + 1),
        "tokenizer.ggml.scores": [1, 2],
        "tokenizer.ggml.tokens": ["é"] * 70_000,
        "odd": ("raw", struct.pack("<IQ", STRING, 2) + b"\xff\xff"),
        "after": 7,
    }
    found = read_container(write(tmp_path / "m.gguf", values)).values
    assert [found[key] for key in list(values)[:4]] == [
        Skipped(LONGEST_TEXT + 1),
        Skipped(LONGEST_ARRAY + 1),
        Skipped(2),
        Skipped(70_000),
    ]
    assert found["odd"] == "\ufffd\ufffd"
    assert found["after"] == 7


def test_no_more_numbers_are_kept_than_a_bound(tmp_path):
    count = MOST_KEPT_ITEMS // LONGEST_ARRAY
    values = {f"k{i}": ("raw", array(U8, LONGEST_ARRAY, bytes(LONGEST_ARRAY))) for i in range(count + 2)}
    found = read_container(write(tmp_path / "m.gguf", values)).values
    assert sum(isinstance(value, Skipped) for value in found.values()) == 2


def test_special_files_are_refused_and_never_waited_for(tmp_path):
    os.mkfifo(tmp_path / "m.gguf")
    assert "not a regular file" in refusal(tmp_path / "m.gguf")
    assert "not a regular file" in refusal(Path("/dev/zero"))
    assert "not a regular file" in refusal(tmp_path)
    assert "cannot be read" in refusal(tmp_path / "missing.gguf")
    assert "cannot be read" in refusal(Path("a\0b.gguf"))


def test_texts_spread_over_a_sparse_terabyte_end_at_the_bound(tmp_path):
    """Each length leads far ahead, so each costs a read."""
    step, count = 2**20, MOST_READ_BYTES // 2**16 + 10
    path = file(tmp_path, start(keys=1), text("a"), array(STRING, count), size=step * (count + 2))
    with path.open("r+b") as handle:
        at = len(start()) + len(text("a")) + 16
        for _ in range(count):
            handle.seek(at)
            handle.write(struct.pack("<Q", step))
            at += 8 + step
    os.truncate(path, at + 100)
    assert "bytes of metadata" in refusal(path)


PEAK = r"""
import re, sys
from pathlib import Path
from kvplan.errors import KvplanError
from kvplan.importers.gguf import read_gguf
try:
    print(read_gguf(Path(sys.argv[1])).spec.name)
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


def test_a_hundred_gigabytes_with_a_real_vocabulary_take_little_memory(tmp_path):
    values = LLAMA | {
        "tokenizer.ggml.tokens": ("raw", array(STRING, 262_144, text("token") * 262_144)),
        "tokenizer.ggml.merges": ("raw", array(STRING, 500_000, text("to ken") * 500_000)),
        "tokenizer.ggml.token_type": ("raw", array(U32, 262_144, bytes(4 * 262_144))),
    }
    tensors = {f"blk.{i}.ffn_up.weight": (F16_TYPE, (8192, 28672 * 3)) for i in range(80)}
    path = write(tmp_path / "m.gguf", values, tensors)
    assert path.stat().st_size > 100 * 10**9
    said, mib = peak(path)
    assert said == "m"
    assert mib < 100


@pytest.mark.parametrize("kind", ["tensors", "keys", "texts", "numbers"])
def test_the_largest_file_of_each_kind_takes_bounded_memory(tmp_path, kind):
    if kind == "tensors":
        tensors = {f"{i:0>63}": (F32_TYPE, (8, 1, 1, 1)) for i in range(MOST_TENSORS)}
        described, size = infos(tensors)
        content = head(LLAMA, MOST_TENSORS) + described
        path = file(tmp_path, content, size=len(content) + 32 + size)
    elif kind == "keys":
        path = write(tmp_path / "m.gguf", {f"{i:0>1000}": "x" * LONGEST_TEXT for i in range(MOST_KEYS)})
    elif kind == "texts":
        path = file(tmp_path, start(keys=1), text("a"), array(STRING, MOST_STRINGS), size=100 + 8 * MOST_STRINGS)
    else:
        body = array(U32, LONGEST_ARRAY, b"\xff" * 4 * LONGEST_ARRAY)
        path = write(tmp_path / "m.gguf", {f"k{i}": ("raw", body) for i in range(500)})
    _, mib = peak(path)
    assert mib < 150


@given(st.binary(max_size=300))
def test_no_bytes_raise_anything_but_the_two_lines(tmp_path_factory, data):
    path = tmp_path_factory.getbasetemp() / "fuzz.gguf"
    for content in (data, start(keys=1, tensors=1) + data, start(keys=1) + text("general.architecture") + data):
        path.write_bytes(content)
        read_or_refuse(path)


@given(st.sampled_from(sorted(MODELS)), st.integers(0, 3000), st.binary(min_size=1, max_size=8))
def test_a_true_file_with_bytes_changed_is_read_or_refused(tmp_path_factory, name, at, change):
    path = tmp_path_factory.getbasetemp() / "changed.gguf"
    whole = write(path, MODELS[name], {"a": (F32_TYPE, (8,))}).read_bytes()
    at %= len(whole)
    path.write_bytes(whole[:at] + change + whole[at + len(change) :])
    read_or_refuse(path)


def read_or_refuse(path):
    """Whatever the bytes: a spec, or two lines."""
    try:
        read_gguf(path)
    except KvplanError as error:
        if "\n" in error.what or not error.fix or len(error.what) > 900:
            raise AssertionError(error.what) from error


numbers = st.one_of(
    st.integers(0, 300), st.sampled_from([0, 1, 2**16, 2**20, 2**31, 2**32 - 1]), st.booleans(), st.floats(width=32)
)


@given(st.sampled_from(sorted(MODELS)), st.data())
def test_a_true_file_with_values_changed_is_read_or_refused(tmp_path_factory, name, data):
    path = tmp_path_factory.getbasetemp() / "values.gguf"
    values = dict(MODELS[name])
    for key in data.draw(st.lists(st.sampled_from(sorted(values)), min_size=1, max_size=3, unique=True)):
        values[key] = data.draw(
            st.one_of(numbers, st.lists(st.integers(-1, 99), min_size=1, max_size=70), st.text(max_size=5))
        )
    read_or_refuse(write(path, values))


def test_a_file_that_shrinks_meanwhile_is_refused(tmp_path, monkeypatch):
    path = write(tmp_path / "m.gguf", LLAMA)
    monkeypatch.setattr(os, "pread", lambda *_: b"")
    assert "needs" in refusal(path)
