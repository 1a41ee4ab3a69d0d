"""GGUF files as llama.cpp's converter writes them, their tensors holes; written from the format's page, not with kvplan."""

from __future__ import annotations

import os
import struct

U8, I8, U16, I16, U32, I32, F32, BOOL, STRING, ARRAY, U64, I64, F64 = range(13)
CODES = {U8: "B", I8: "b", U16: "H", I16: "h", U32: "I", I32: "i", F32: "f", BOOL: "?", U64: "Q", I64: "q", F64: "d"}
F32_TYPE, F16_TYPE, Q4_0_TYPE, Q8_0_TYPE, Q4_K_TYPE, Q6_K_TYPE, MXFP4_TYPE = 0, 1, 2, 8, 12, 14, 39
BLOCKS = {
    F32_TYPE: (1, 4),
    F16_TYPE: (1, 2),
    Q4_0_TYPE: (32, 18),
    Q8_0_TYPE: (32, 34),
    Q4_K_TYPE: (256, 144),
    Q6_K_TYPE: (256, 210),
    MXFP4_TYPE: (32, 17),
}


def text(value):
    data = value.encode() if isinstance(value, str) else value
    return struct.pack("<Q", len(data)) + data


def packed(value):
    """A value with its kind, as the converter chooses kinds; ("raw", bytes) as it is."""
    if isinstance(value, tuple) and value and value[0] == "raw":
        return value[1]
    if isinstance(value, bool):
        return struct.pack("<I?", BOOL, value)
    if isinstance(value, int):
        return struct.pack("<II", U32, value)
    if isinstance(value, float):
        return struct.pack("<If", F32, value)
    if isinstance(value, str):
        return struct.pack("<I", STRING) + text(value)
    kind = STRING if isinstance(value[0], str) else BOOL if isinstance(value[0], bool) else I32
    body = b"".join(map(text, value)) if kind == STRING else struct.pack(f"<{len(value)}{CODES[kind]}", *value)
    return struct.pack("<IIQ", ARRAY, kind, len(value)) + body


def head(values, tensor_count, version=3, key_count=None):
    count = len(values) if key_count is None else key_count
    return struct.pack("<4sIQQ", b"GGUF", version, tensor_count, count) + b"".join(
        text(key) + packed(value) for key, value in values.items()
    )


def infos(tensors, alignment=32):
    """Descriptions of {name: (type, shape)} laid out in order, and the bytes of their data."""
    out, at, end = [], 0, 0
    for name, (kind, shape) in tensors.items():
        elements = 1
        for n in shape:
            elements *= n
        block, size = BLOCKS[kind]
        out.append(text(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, kind, at))
        end = at + elements // block * size
        at = end + -end % alignment
    return b"".join(out), end


def write(path, values, tensors=None, version=3):
    """A true file, sparse."""
    tensors = tensors or {}
    described, data_bytes = infos(tensors, values.get("general.alignment", 32))
    content = head(values, len(tensors), version) + described
    path.write_bytes(content)
    if tensors:
        alignment = values.get("general.alignment", 32)
        os.truncate(path, len(content) + -len(content) % alignment + data_bytes)
    return path


def metadata(architecture, **keys):
    """Keys of one architecture; `__` stands for a dot."""
    return {
        "general.architecture": architecture,
        "general.type": "model",
        **{f"{architecture}.{key.replace('__', '.')}": value for key, value in keys.items()},
    }
