"""One safetensors header, entry by entry, within bounds.

The reader is our own because it must be bounded: it takes one entry at a time and stops at the first
that oversteps, while `json` would build whatever a hostile header asks for, and the `safetensors`
library brings a compiled module for what is one regular expression.

Source: https://huggingface.co/docs/safetensors, "Format"; safetensors 0.8.0 for the dtypes.
"""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Iterator
from math import prod
from pathlib import Path
from typing import NamedTuple

from kvplan.errors import InputError, quoted

MOST_HEADER_BYTES = 16 * 2**20
MOST_TENSORS = 150_000

DTYPE_BITS = {
    **dict.fromkeys(("F64", "I64", "U64", "C64"), 64),
    **dict.fromkeys(("F32", "I32", "U32"), 32),
    **dict.fromkeys(("F16", "BF16", "I16", "U16"), 16),
    **dict.fromkeys(("F8_E4M3", "F8_E5M2", "F8_E8M0", "F8_E4M3FNUZ", "F8_E5M2FNUZ", "I8", "U8", "BOOL"), 8),
    **dict.fromkeys(("F6_E2M3", "F6_E3M2"), 6),
    "F4": 4,
}

TEXT = rb'"([^"\\]{0,1024}+(?:\\.[^"\\]{0,1024}+){0,256}+)"'
_ENTRY = re.compile(
    rb"\s*+"
    + TEXT
    + rb'\s*+:\s*+\{\s*+"dtype"\s*+:\s*+"([A-Z0-9_]{1,20})"\s*+,\s*+"shape"\s*+:\s*+\[([\d, ]{0,400}+)\]\s*+,'
    rb'\s*+"data_offsets"\s*+:\s*+\[\s*+(\d{1,19})\s*+,\s*+(\d{1,19})\s*+\]\s*+\}\s*+([,}])'
)
_ANY_ENTRY = re.compile(rb"\s*+" + TEXT + rb"\s*+:\s*+(\{[^{}]{0,4096}+\})\s*+([,}])")
STRING = rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"'
_METADATA = re.compile(
    rb'\s*+"__metadata__"\s*+:\s*+(?:null|\{\s*+(?:' + STRING + rb"\s*+:\s*+" + STRING + rb"\s*+,?\s*+)*+\})\s*+([,}])"
)


class HeaderTensor(NamedTuple):
    """One stored tensor: what its header says."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    bytes: int


def read_header(path: Path) -> list[HeaderTensor]:
    """The tensors of one .safetensors file, in the header's order.

    Raises: InputError for anything but a regular file whose header covers its bytes exactly.
    """
    header, data_bytes, shown = _header(path)
    tensors: list[HeaderTensor] = []
    spans: list[tuple[int, int]] = []
    names: set[str] = set()
    for name, dtype, shape, begin, end in _entries(header, shown):
        if len(tensors) == MOST_TENSORS:
            raise InputError(f"{shown}: more than {MOST_TENSORS:,} tensors", "split the checkpoint into shards")
        if name in names:
            raise InputError(f"{shown}: the tensor {quoted(name)} stands twice", "write the file again")
        bits = DTYPE_BITS.get(dtype)
        if bits is None:
            raise InputError(
                f"{shown}: {quoted(name)}: dtype: found {quoted(dtype)}, allowed {', '.join(DTYPE_BITS)}",
                "write the file again with a dtype of the format",
            )
        if prod(shape) * bits != (end - begin) * 8:
            raise InputError(
                f"{shown}: {quoted(name)}: data_offsets: found {end - begin:,} bytes, "
                f"its shape and dtype take {quoted(prod(shape) * bits / 8 if bits < 8 else prod(shape) * bits // 8)}",
                "the file is damaged; download it again",
            )
        names.add(name)
        tensors.append(HeaderTensor(name, dtype, shape, end - begin))
        spans.append((begin, end))
    _check_cover(spans, data_bytes, shown)
    return tensors


def _header(path: Path) -> tuple[bytes, int, str]:
    """The JSON header, the bytes that follow it, and what errors call the file."""
    shown = quoted(str(path))
    data, size = beginning(path, 8, shown)
    if len(data) < 8:
        raise InputError(f"{shown}: found {size} bytes, allowed at least 8", "the file is cut off; download it again")
    length = int.from_bytes(data, "little")
    if length > size - 8:
        raise InputError(
            f"{shown}: header length: found {length:,} bytes, the file has {size - 8:,} after it",
            "the file is cut off or not safetensors; download it again",
        )
    if length > MOST_HEADER_BYTES:
        raise InputError(
            f"{shown}: header length: found {length:,} bytes, allowed at most {MOST_HEADER_BYTES:,}",
            "split the checkpoint into shards",
        )
    header = beginning(path, 8 + length, shown)[0][8:]
    if len(header) != length:
        raise InputError(f"{shown}: changed while it was read", "try again")
    return header, size - 8 - length, shown


def beginning(path: Path, count: int, shown: str) -> tuple[bytes, int]:
    """The first `count` bytes of a regular file, and its size; nothing else is ever waited for."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            info = os.fstat(handle)
            if not stat.S_ISREG(info.st_mode):
                raise InputError(f"{shown}: is not a regular file", "give the path of a stored file")
            chunks, left = [], count
            while left and (chunk := os.read(handle, left)):
                chunks.append(chunk)
                left -= len(chunk)
        finally:
            os.close(handle)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "bad path"
        raise InputError(f"{shown}: cannot be read: {reason}", "check the path and its permissions") from None
    return b"".join(chunks), info.st_size


def _entries(header: bytes, shown: str) -> Iterator[tuple[str, str, tuple[int, ...], int, int]]:
    """(name, dtype, shape, begin, end) of each entry; one is looked at, at a time."""
    if re.fullmatch(rb"\{\s*+\}\s*+", header):
        return
    place, end, more = 1, len(header), header[:1] == b"{"
    while more:
        if match := _ENTRY.match(header, place):
            raw, dtype, sizes, first, last, closing = match.groups()
            try:
                shape = tuple(map(int, sizes.split(b","))) if sizes else ()
                yield unescaped(raw), dtype.decode(), shape, int(first), int(last)
            except ValueError:
                raise _not_json(shown, place) from None
        elif match := _METADATA.match(header, place):
            closing = match[1]
        elif match := _ANY_ENTRY.match(header, place):
            closing = match[3]
            yield _loose_entry(match[1], match[2], shown, place)
        else:
            raise _not_json(shown, place)
        place, more = match.end(), closing == b","
    if header[:1] != b"{" or header[place:end].strip():
        raise _not_json(shown, place)


def _loose_entry(raw: bytes, body: bytes, shown: str, place: int) -> tuple[str, str, tuple[int, ...], int, int]:
    """An entry whose keys stand in another order, or whose values are wrong."""
    try:
        name, values = unescaped(raw), json.loads(body)
    except (ValueError, RecursionError):
        raise _not_json(shown, place) from None
    what = f"{shown}: {quoted(name)}:"
    dtype, shape, offsets = values.get("dtype"), values.get("shape"), values.get("data_offsets")
    if not isinstance(dtype, str):
        raise InputError(f"{what} dtype: found {quoted(dtype)}, allowed a word", "write the file again")
    if not isinstance(shape, list) or not all(type(n) is int and 0 <= n < 2**63 for n in shape):
        raise InputError(f"{what} shape: found {quoted(shape)}, allowed whole numbers", "write the file again")
    if (
        not isinstance(offsets, list)
        or len(offsets) != 2
        or not all(type(n) is int and 0 <= n < 2**63 for n in offsets)
        or offsets[0] > offsets[1]
    ):
        found = ", ".join(map(quoted, offsets[:2])) if isinstance(offsets, list) else quoted(offsets)
        raise InputError(f"{what} data_offsets: found [{found}], allowed [begin, end]", "write the file again")
    return name, dtype, tuple(shape), offsets[0], offsets[1]


def unescaped(raw: bytes) -> str:
    """The text of a JSON string, between its quotes."""
    text = raw.decode("utf-8")
    return json.loads(f'"{text}"', strict=False) if "\\" in text else text


def _not_json(shown: str, place: int) -> InputError:
    return InputError(
        f"{shown}: header: not a flat table of tensors at byte {place:,}",
        "the file is damaged or not safetensors; download it again",
    )


def _check_cover(spans: list[tuple[int, int]], data_bytes: int, shown: str) -> None:
    """Refuse tensors that overlap, leave a gap, or end before or after the file does."""
    reached = 0
    for begin, end in sorted(spans):
        if begin != reached:
            what = "overlap" if begin < reached else "leave a gap"
            raise InputError(
                f"{shown}: data_offsets: tensors {what} at byte {min(begin, reached):,}",
                "the file is damaged; download it again",
            )
        reached = end
    if reached != data_bytes:
        raise InputError(
            f"{shown}: data_offsets: tensors take {reached:,} bytes, the file holds {data_bytes:,}",
            "the file is cut off or damaged; download it again",
        )
