"""kivi: keys quantised per channel, values per token, the newest rows in full precision.

A channel of the keys has a size of its own, so keys share a scale along 32 tokens of one channel;
they wait in full precision until `residual` of them are there and are then stored at once. Values
share a scale along 32 elements of one token; the newest `residual` wait.

Bytes: as the formats kivi4 and kivi2, to the byte, at every length.

Worked: 300 tokens at residual 128: 256 keys as codes and 44 whole, 172 values as codes and 128 whole.

Source: Liu et al. 2024 (arXiv:2402.02750), Algorithm 1, and its reference code's flushing rule.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch

from kvplan.caches.attention import attention
from kvplan.caches.interface import Shape, tensor_bytes
from kvplan.caches.packing import asymmetric, packed, restored, unpacked
from kvplan.caches.quantised import InGroups

GROUP = 32


class Kivi:
    """Per side: packed codes, scales and zeros, and the rows that wait in the model's dtype."""

    def __init__(self, shape: Shape, bits: int, dtype: torch.dtype, residual: int = 128) -> None:
        self.bits, self.residual = bits, residual
        self.per_token = InGroups(bits, GROUP)
        heads = shape.kv_heads
        self.keys_waiting = torch.empty(heads, 0, shape.head_dim, dtype=dtype)
        self.values_waiting = torch.empty(heads, 0, shape.v_head_dim, dtype=dtype)
        self.keys = self._key_codes(torch.empty(heads, 0, shape.head_dim))
        self.values = self.per_token.store(torch.empty(heads, 0, shape.v_head_dim))

    def append(self, keys: torch.Tensor, values: torch.Tensor) -> None:
        """Let the next rows wait; store those whose turn has come."""
        self.keys_waiting = torch.cat((self.keys_waiting, keys.to(self.keys_waiting.dtype)), dim=1)
        self.values_waiting = torch.cat((self.values_waiting, values.to(self.values_waiting.dtype)), dim=1)
        flushed = self.keys_waiting.shape[1] // self.residual * self.residual
        if flushed:
            codes = self._key_codes(self.keys_waiting[:, :flushed])
            self.keys = tuple(torch.cat(pair, dim=1) for pair in zip(self.keys, codes, strict=True))
            self.keys_waiting = self.keys_waiting[:, flushed:].clone()
        behind = max(0, self.values_waiting.shape[1] - self.residual)
        if behind:
            codes = self.per_token.store(self.values_waiting[:, :behind])
            self.values = tuple(torch.cat(pair, dim=1) for pair in zip(self.values, codes, strict=True))
            self.values_waiting = self.values_waiting[:, behind:].clone()

    def _key_codes(self, rows: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Codes [kv_heads, tokens, width x bits / 8], scales and zeros [kv_heads, tokens / 32, width]."""
        codes, scale, zero = asymmetric(rows.unflatten(1, (rows.shape[1] // GROUP, GROUP)), self.bits, 2)
        return packed(codes.flatten(1, 2), self.bits), scale.squeeze(2), zero.squeeze(2)

    def rows(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Keys and values as attention sees them: read back, then those that wait."""
        data, scale, zero = self.keys
        codes = unpacked(data, self.bits).unflatten(1, (scale.shape[1], GROUP))
        old_keys = restored(codes, scale[:, :, None], zero[:, :, None]).flatten(1, 2)
        old_values = self.per_token.load(self.values)
        waiting = self.keys_waiting.float(), self.values_waiting.float()
        return torch.cat((old_keys, waiting[0]), dim=1), torch.cat((old_values, waiting[1]), dim=1)

    def attend(self, query: torch.Tensor) -> torch.Tensor:
        """Over all rows."""
        return attention(query, *self.rows())

    def tensors(self) -> Iterable[torch.Tensor]:
        """Data, scale, zero and residual of the keys, then of the values."""
        return *self.keys, self.keys_waiting, *self.values, self.values_waiting

    def bookkeeping(self) -> Iterable[torch.Tensor]:
        """Nothing."""
        return ()

    def used_bytes(self) -> int:
        """Everything that is held."""
        return tensor_bytes(self.tensors())
