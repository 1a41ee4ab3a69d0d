"""quantised: narrow codes with their scales beside them, packed for real, read back when attended to.

fp8 and int8 carry one fp32 scale per token and head; int8, int4 and int2 in groups carry an fp16
scale and zero per group of elements of a head. Names are those of `kvplan formats`.

Bytes: as the format of the same name, to the byte: codes, scales and zeros are tensors of their own.

Worked: a head of 128 in int4_g32 takes 64 bytes of codes, 4 scales and 4 zeros of 2 bytes: 80 bytes.

Source: vLLM 0.33 per-token-head formats; asymmetric groups as in KIVI (arXiv:2402.02750), section 3.1.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import partial
from typing import Protocol

import torch

from kvplan.caches.attention import attention
from kvplan.caches.interface import Shape, tensor_bytes
from kvplan.caches.packing import asymmetric, packed, restored, unpacked
from kvplan.errors import InputError, quoted

Parts = tuple[torch.Tensor, ...]


class Codec(Protocol):
    """Rows [kv_heads, tokens, width] to the tensors that are stored, and back."""

    def store(self, rows: torch.Tensor) -> Parts:
        """What is kept of rows: data, then scales, then zeros, each [kv_heads, tokens, ...]."""
        ...

    def load(self, parts: Parts) -> torch.Tensor:
        """The rows that the stored tensors stand for."""
        ...


class PerHead:
    """Signed codes and one fp32 scale per token and head; `most` is the largest code."""

    def __init__(self, dtype: torch.dtype, most: float) -> None:
        self.dtype, self.most = dtype, most

    def store(self, rows: torch.Tensor) -> Parts:
        """Codes of `dtype`, and the scales."""
        wide = rows.float()
        scale = (wide.abs().amax(-1, keepdim=True) / self.most).clamp(min=torch.finfo(torch.float32).tiny)
        codes = wide / scale
        return (codes if self.dtype.is_floating_point else codes.round()).to(self.dtype), scale

    def load(self, parts: Parts) -> torch.Tensor:
        """Codes times scales."""
        codes, scale = parts
        return codes.float() * scale


class InGroups:
    """Codes of `bits` packed into bytes, with scale and zero per `group` elements of a head."""

    def __init__(self, bits: int, group: int) -> None:
        self.bits, self.group = bits, group

    def store(self, rows: torch.Tensor) -> Parts:
        """Packed codes, scales, zeros."""
        codes, scale, zero = asymmetric(rows.unflatten(-1, (-1, self.group)), self.bits, -1)
        return packed(codes.flatten(-2), self.bits), scale.squeeze(-1), zero.squeeze(-1)

    def load(self, parts: Parts) -> torch.Tensor:
        """Codes in steps of their group's scale, from its zero on."""
        data, scale, zero = parts
        codes = unpacked(data, self.bits).unflatten(-1, (-1, self.group))
        return restored(codes, scale[..., None], zero[..., None]).flatten(-2)


CODECS = {
    "fp8_per_token_head": partial(PerHead, torch.float8_e4m3fn, 448.0),
    "int8_per_token_head": partial(PerHead, torch.int8, 127.0),
}


def codec_named(name: str) -> Codec:
    """The codec of a format of that name.

    Raises: InputError for a format that has none here.
    """
    if name in CODECS:
        made: Codec = CODECS[name]()
        return made
    found = re.fullmatch(r"int(8|4|2)_g(32|64|128)", name)
    if found is None:
        raise InputError(
            f"no running codec for the format {quoted(name)}",
            f"{', '.join(CODECS)}, or int8, int4, int2 with _g32, _g64, _g128",
        )
    return InGroups(int(found[1]), int(found[2]))


class Quantised:
    """One codec for keys and values; every row is stored as soon as it comes."""

    def __init__(self, shape: Shape, format: str) -> None:
        self.codec = codec_named(format)
        self.keys = self.codec.store(torch.empty(shape.kv_heads, 0, shape.head_dim))
        self.values = self.codec.store(torch.empty(shape.kv_heads, 0, shape.v_head_dim))

    def append(self, keys: torch.Tensor, values: torch.Tensor) -> None:
        """Store the codes of the next rows."""
        self.keys = _joined(self.keys, self.codec.store(keys))
        self.values = _joined(self.values, self.codec.store(values))

    def attend(self, query: torch.Tensor) -> torch.Tensor:
        """Over the rows read back."""
        return attention(query, self.codec.load(self.keys), self.codec.load(self.values))

    def tensors(self) -> Iterable[torch.Tensor]:
        """Codes, scales and zeros of keys, then of values."""
        return *self.keys, *self.values

    def bookkeeping(self) -> Iterable[torch.Tensor]:
        """Nothing."""
        return ()

    def used_bytes(self) -> int:
        """Everything that is held."""
        return tensor_bytes(self.tensors())


def _joined(held: Parts, new: Parts) -> Parts:
    return tuple(
        torch.cat((a.view(torch.uint8), b.view(torch.uint8)), dim=1).view(a.dtype)
        if a.itemsize == 1
        else torch.cat((a, b), dim=1)
        for a, b in zip(held, new, strict=True)
    )
