"""The GGUF container: metadata and tensor descriptions, read within bounds; tensor data is never touched.

The reader is our own because it must be bounded: the `gguf` package maps the file and builds an
array for every value, so a tokenizer costs hundreds of megabytes and a hostile count an hour.
This one steps over what nobody asks for: long arrays, texts, token lists.

Source: ggml/docs/gguf.md; llama.cpp's ggml/src/gguf.cpp for what is refused; its gguf-py for the type sizes.
"""

from __future__ import annotations

import os
import stat
import struct
from math import prod
from pathlib import Path
from typing import NamedTuple

from kvplan.errors import InputError, quoted
from kvplan.record import Record

MOST_KEYS = 16_384
MOST_TENSORS = 131_072
MOST_STRINGS = 4_000_000
MOST_READ_BYTES = 256 * 2**20
MOST_KEPT_ITEMS = 200_000
LONGEST_KEY = 1024
LONGEST_NAME = 255
LONGEST_TEXT = 1024
LONGEST_ARRAY = 10_000
MOST_ALIGNMENT = 2**20
STEP = 2**16

TENSOR_TYPES = {
    0: ("F32", 1, 4),
    1: ("F16", 1, 2),
    2: ("Q4_0", 32, 18),
    3: ("Q4_1", 32, 20),
    6: ("Q5_0", 32, 22),
    7: ("Q5_1", 32, 24),
    8: ("Q8_0", 32, 34),
    9: ("Q8_1", 32, 40),
    10: ("Q2_K", 256, 84),
    11: ("Q3_K", 256, 110),
    12: ("Q4_K", 256, 144),
    13: ("Q5_K", 256, 176),
    14: ("Q6_K", 256, 210),
    15: ("Q8_K", 256, 292),
    16: ("IQ2_XXS", 256, 66),
    17: ("IQ2_XS", 256, 74),
    18: ("IQ3_XXS", 256, 98),
    19: ("IQ1_S", 256, 50),
    20: ("IQ4_NL", 32, 18),
    21: ("IQ3_S", 256, 110),
    22: ("IQ2_S", 256, 82),
    23: ("IQ4_XS", 256, 136),
    24: ("I8", 1, 1),
    25: ("I16", 1, 2),
    26: ("I32", 1, 4),
    27: ("I64", 1, 8),
    28: ("F64", 1, 8),
    29: ("IQ1_M", 256, 56),
    30: ("BF16", 1, 2),
    34: ("TQ1_0", 256, 54),
    35: ("TQ2_0", 256, 66),
    39: ("MXFP4", 32, 17),
    40: ("NVFP4", 64, 36),
    41: ("Q1_0", 128, 18),
    42: ("Q2_0", 64, 18),
}
"""ggml's tensor types: number -> (name, elements of a block, bytes of a block)."""

_SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_STRING, _ARRAY = 8, 9


class Skipped(NamedTuple):
    """A value that was stepped over: so many items of a list, or bytes of a text."""

    items: int


Value = int | float | bool | str | tuple[int | float | bool, ...] | Skipped


class StoredTensor(NamedTuple):
    """One tensor as its description has it; `shape` in ggml's order, rows first."""

    name: str
    type: str
    shape: tuple[int, ...]
    bytes: int


class Container(Record):
    """What one file says of itself."""

    source: str
    version: int
    values: dict[str, Value]
    tensors: tuple[StoredTensor, ...]


def read_container(path: Path) -> Container:
    """The metadata and tensor descriptions of one .gguf file.

    Raises: InputError for anything but a regular little-endian file of version 2 or 3 that is whole.
    """
    shown = quoted(str(path))
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            info = os.fstat(handle)
            if not stat.S_ISREG(info.st_mode):
                raise InputError(f"{shown}: is not a regular file", "give the path of a .gguf file")
            return _read(_Cursor(handle, info.st_size, shown))
        finally:
            os.close(handle)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "bad path"
        raise InputError(f"{shown}: cannot be read: {reason}", "check the path and its permissions") from None


class _Cursor:
    """A place in the file that only moves forward, and never past the end."""

    def __init__(self, handle: int, size: int, shown: str) -> None:
        self.handle, self.size, self.shown = handle, size, shown
        self.at = 0
        self.held, self.held_from, self.read_bytes = b"", 0, 0
        self.strings = self.kept = 0

    def _hold(self, count: int) -> int:
        """Have the next `count` bytes at hand; where they start in `held`."""
        offset = self.at - self.held_from
        if offset + count <= len(self.held):
            return offset
        if self.at + count > self.size:
            raise self.cut_off(self.at + count)
        self.held = os.pread(self.handle, max(count, STEP), self.at)
        self.held_from = self.at
        self.read_bytes += len(self.held)
        if self.read_bytes > MOST_READ_BYTES:
            raise InputError(
                f"{self.shown}: more than {MOST_READ_BYTES:,} bytes of metadata",
                "no model describes itself at such length",
            )
        if len(self.held) < count:
            raise self.cut_off(self.at + count)
        return 0

    def take(self, count: int) -> bytes:
        """The next `count` bytes."""
        offset = self._hold(count)
        self.at += count
        return self.held[offset : offset + count]

    def whole(self, width: int) -> int:
        """The next unsigned number of `width` bytes."""
        return int.from_bytes(self.take(width), "little")

    def skip(self, count: int) -> None:
        """Step over `count` bytes unread."""
        if self.at + count > self.size:
            raise self.cut_off(self.at + count)
        self.at += count

    def skip_strings(self, count: int) -> None:
        """Step over `count` texts, each a length and its bytes."""
        self.strings += count
        if self.strings > MOST_STRINGS or count * 8 > self.size - self.at:
            raise InputError(
                f"{self.shown}: found a list of {count:,} texts, allowed {MOST_STRINGS:,} in all",
                "no vocabulary is so large; the file is damaged",
            )
        unpack = struct.Struct("<Q").unpack_from
        size = self.size
        for _ in range(count):
            offset = self.at - self.held_from
            if offset + 8 > len(self.held):
                offset = self._hold(8)
            self.at += 8 + unpack(self.held, offset)[0]
            if self.at > size:
                raise self.cut_off(self.at)

    def text(self, most: int, what: str) -> str:
        """The next text, of at most `most` bytes."""
        length = self.whole(8)
        if length > most:
            raise InputError(f"{self.shown}: {what}: found {length:,} bytes, allowed {most:,}", "the file is damaged")
        try:
            return self.take(length).decode("utf-8")
        except UnicodeDecodeError:
            raise InputError(f"{self.shown}: {what}: not UTF-8 text", "the file is damaged") from None

    def cut_off(self, needed: int) -> InputError:
        """The refusal of a file that ends too early."""
        return InputError(
            f"{self.shown}: found {self.size:,} bytes, what it describes needs {quoted(needed)}",
            "the file is cut off or damaged; download it again",
        )


def _read(cursor: _Cursor) -> Container:
    if cursor.size < 24 or cursor.take(4) != b"GGUF":
        raise InputError(f"{cursor.shown}: does not begin with GGUF", "give the path of a .gguf file")
    version = cursor.whole(4)
    if version & 0xFFFF == 0 and version:
        raise InputError(
            f"{cursor.shown}: is big-endian", "convert it for this machine: gguf-convert-endian FILE little"
        )
    if version not in {2, 3}:
        raise InputError(f"{cursor.shown}: version: found {version:,}, allowed 2 and 3", "convert the model again")
    tensor_count, key_count = cursor.whole(8), cursor.whole(8)
    for what, count, most in (("tensors", tensor_count, MOST_TENSORS), ("keys", key_count, MOST_KEYS)):
        if count > most:
            raise InputError(
                f"{cursor.shown}: found {count:,} {what}, allowed at most {most:,}",
                "the file is damaged; download it again",
            )
    values: dict[str, Value] = {}
    for _ in range(key_count):
        key = cursor.text(LONGEST_KEY, "a key")
        if not key or key in values:
            raise InputError(
                f"{cursor.shown}: the key {quoted(key)} is empty or stands twice", "convert the model again"
            )
        values[key] = _value(cursor, key)
    described = [_tensor(cursor) for _ in range(tensor_count)]
    _check_data(cursor, described, values.get("general.alignment", 32))
    return Container(cursor.shown, version, values, tuple(tensor for tensor, _ in described))


def _value(cursor: _Cursor, key: str) -> Value:
    kind = cursor.whole(4)
    if kind in _SCALARS:
        code = "<" + _SCALARS[kind]
        value: int | float | bool = struct.unpack(code, cursor.take(struct.calcsize(code)))[0]
        return value
    if kind == _STRING:
        length = cursor.whole(8)
        if length > LONGEST_TEXT:
            cursor.skip(length)
            return Skipped(length)
        return cursor.take(length).decode("utf-8", "replace")
    if kind == _ARRAY:
        return _array(cursor, key)
    raise InputError(f"{cursor.shown}: {quoted(key)}: found a value of kind {kind:,}, allowed 0 to 12", "convert again")


def _array(cursor: _Cursor, key: str) -> Value:
    """A short list of numbers; anything else is stepped over."""
    kind, count = cursor.whole(4), cursor.whole(8)
    if kind == _STRING:
        cursor.skip_strings(count)
        return Skipped(count)
    if kind not in _SCALARS:
        raise InputError(
            f"{cursor.shown}: {quoted(key)}: found a list of kind {kind:,}, allowed numbers and texts", "convert again"
        )
    width = struct.calcsize("<" + _SCALARS[kind])
    wanted = count <= LONGEST_ARRAY and not key.startswith("tokenizer.")
    if not wanted or cursor.kept + count > MOST_KEPT_ITEMS:
        cursor.skip(count * width)
        return Skipped(count)
    cursor.kept += count
    return struct.unpack(f"<{count}{_SCALARS[kind]}", cursor.take(count * width))


def _tensor(cursor: _Cursor) -> tuple[StoredTensor, int]:
    """A tensor and where its data starts."""
    name = cursor.text(LONGEST_NAME, "a tensor's name")
    what = f"{cursor.shown}: {quoted(name)}"
    dimensions = cursor.whole(4)
    if dimensions > 4:
        raise InputError(f"{what}: found {dimensions:,} dimensions, allowed 0 to 4", "the file is damaged")
    shape = struct.unpack(f"<{dimensions}Q", cursor.take(8 * dimensions))
    number, offset = cursor.whole(4), cursor.whole(8)
    if number not in TENSOR_TYPES:
        raise InputError(
            f"{what}: type: found {number:,}, which kvplan does not know the size of",
            "quantize to a current type, or give --weights BYTES",
        )
    type_, block, block_bytes = TENSOR_TYPES[number]
    elements = prod(shape)
    if elements >= 2**63 or (shape and shape[0] % block):
        raise InputError(
            f"{what}: shape: found {' x '.join(map(quoted, shape))}, allowed rows of {block} x n in {type_}",
            "the file is damaged; download it again",
        )
    return StoredTensor(name, type_, shape, elements // block * block_bytes), offset


def _check_data(cursor: _Cursor, described: list[tuple[StoredTensor, int]], alignment: object) -> None:
    """Refuse data that overlaps, leaves a gap, or does not lie in the file; tensors stand in order, padded."""
    if type(alignment) is not int or not 1 <= alignment <= MOST_ALIGNMENT or alignment & (alignment - 1):
        raise InputError(
            f"{cursor.shown}: general.alignment: found {quoted(alignment)}, allowed a power of 2",
            "convert the model again",
        )
    names: set[str] = set()
    reached = end = 0
    for tensor, offset in described:
        if tensor.name in names:
            raise InputError(
                f"{cursor.shown}: the tensor {quoted(tensor.name)} stands twice", "convert the model again"
            )
        names.add(tensor.name)
        if offset != reached:
            raise InputError(
                f"{cursor.shown}: {quoted(tensor.name)}: offset: found {offset:,}, allowed {quoted(reached)}",
                "tensors overlap or leave a gap: the file is damaged; download it again",
            )
        end = reached + tensor.bytes
        reached = end + -end % alignment
    start = cursor.at + -cursor.at % alignment
    if described and start + end > cursor.size:
        raise cursor.cut_off(start + end)
