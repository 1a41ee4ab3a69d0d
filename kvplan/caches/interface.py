"""What every running cache answers: append, attend, and the tensors it holds."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Protocol

from kvplan.record import Record

if TYPE_CHECKING:
    import torch


class Shape(Record):
    """One attention layer: query heads, KV heads, and the widths of a key and of a value."""

    heads: int
    kv_heads: int
    head_dim: int
    v_head_dim: int


class RunningCache(Protocol):
    """One layer of one sequence."""

    def append(self, keys: torch.Tensor, values: torch.Tensor) -> None:
        """Take new rows: keys [kv_heads, tokens, head_dim], values [kv_heads, tokens, v_head_dim]."""
        ...

    def attend(self, query: torch.Tensor) -> torch.Tensor:
        """The output [heads, v_head_dim] of the newest token, whose query is [heads, head_dim]."""
        ...

    def tensors(self) -> Iterable[torch.Tensor]:
        """What is held of keys and values, scales included."""
        ...

    def bookkeeping(self) -> Iterable[torch.Tensor]:
        """What is held beside them: block tables, scores, positions."""
        ...

    def used_bytes(self) -> int:
        """The part of the held bytes that rows in use take; the rest is waste."""
        ...


class FullCacheError(Exception):
    """The cache, or the pool behind it, has no room for another row."""


def storage_bytes(tensors: Iterable[torch.Tensor]) -> int:
    """Bytes of the distinct storages beneath `tensors`."""
    storages = {}
    for tensor in tensors:
        storage = tensor.untyped_storage()
        if storage.nbytes():
            storages[storage.data_ptr()] = storage.nbytes()
    return sum(storages.values())


def tensor_bytes(tensors: Iterable[torch.Tensor]) -> int:
    """Bytes of the elements of `tensors`."""
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)
