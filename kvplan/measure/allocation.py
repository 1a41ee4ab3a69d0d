"""The plan's stored tensors laid out on a device, touched, weighed by unique storage, and given back.

One tensor holds a stored tensor of one layer for all sequences, [batch, rows, *row]; rows of a shared
prefix are a tensor of their own, [rows, *row].
"""

from __future__ import annotations

import gc
from collections.abc import Iterable, Iterator
from math import prod
from typing import TYPE_CHECKING, Self
from weakref import ref

from kvplan.footprint import CachePlan, StageLayers
from kvplan.measure.device import Device, FullError
from kvplan.record import Record
from kvplan.tensor import ITEM_BYTES

if TYPE_CHECKING:
    import torch


class Block(Record):
    """One tensor to allocate."""

    shape: tuple[int, ...]
    dtype: str

    @property
    def bytes(self) -> int:
        """Its bytes."""
        return prod(self.shape) * ITEM_BYTES[self.dtype]


Layer = tuple[Block, ...]


class Layout(Record):
    """What one rank allocates: its layers in order, so many of each."""

    runs: tuple[tuple[int, Layer], ...]

    @property
    def layers(self) -> int:
        """How many layers there are."""
        return sum(count for count, _ in self.runs)

    def each(self) -> Iterator[Layer]:
        """Layer by layer."""
        for count, layer in self.runs:
            for _ in range(count):
                yield layer

    def bytes(self, layers: int | None = None) -> int:
        """Bytes of the first `layers` layers, or of all."""
        total, left = 0, self.layers if layers is None else layers
        for count, layer in self.runs:
            total += min(count, left) * sum(block.bytes for block in layer)
            left -= min(count, left)
        return total

    def layers_within(self, budget_bytes: int) -> int:
        """How many layers, from the first on, take no more than `budget_bytes`."""
        held, left = 0, budget_bytes
        for count, layer in self.runs:
            one = sum(block.bytes for block in layer)
            fitting = count if one == 0 else min(count, left // one)
            held, left = held + fitting, left - fitting * one
            if fitting < count:
                break
        return held


def layout_of(stage: StageLayers, plan: CachePlan, context: int, batch: int, prefix: int) -> Layout:
    """The blocks of one pipeline stage for `batch` sequences of `context` tokens."""
    runs = []
    for count, tensors in stage:
        blocks = []
        for tensor in tensors:
            own, shared = (int(rows) for rows in plan.rank_rows(tensor.growth, context, prefix))
            blocks.append(Block((batch, own, *tensor.row), tensor.dtype))
            if shared:
                blocks.append(Block((shared, *tensor.row), tensor.dtype))
        runs.append((count, tuple(blocks)))
    return Layout(tuple(runs))


class Allocation:
    """Tensors held on a device until the block is left, whatever ends it.

    >>> from kvplan.measure.cpu import Cpu
    >>> layout = Layout(((2, (Block((1, 10, 8, 128), "bf16"),)),))
    >>> with Allocation(Cpu()) as held:
    ...     held.take(layout.each(), touch=True)
    ...     held.measured_bytes()
    True
    40960
    >>> held.all_gone()
    True
    """

    def __init__(self, device: Device) -> None:
        self.device = device
        self.held: list[torch.Tensor] = []
        self.layers = 0
        self._watched: list[ref[torch.Tensor]] = []

    def take(self, layers: Iterable[Layer], touch: bool) -> bool:
        """Allocate whole layers; False where the device had no room for one, which is then not held."""
        for layer in layers:
            whole = len(self.held)
            try:
                for block in layer:
                    self.held.append(self.device.allocate(block.shape, block.dtype))
                    self._watched.append(ref(self.held[-1]))
                    if touch:
                        self.device.touch(self.held[-1])
            except FullError:
                del self.held[whole:]
                return False
            self.layers += 1
        return True

    def measured_bytes(self) -> int:
        """Bytes of the distinct storages beneath the tensors."""
        storages = {}
        for tensor in self.held:
            storage = tensor.untyped_storage()
            if storage.nbytes():
                storages[storage.data_ptr()] = storage.nbytes()
        return sum(storages.values())

    def sizes(self) -> list[int]:
        """Bytes of each tensor, in the order of allocation."""
        return [tensor.numel() * tensor.element_size() for tensor in self.held]

    def free(self) -> None:
        """Let go of every tensor."""
        self.held.clear()

    def all_gone(self) -> bool:
        """True once nothing refers to any of the tensors any more."""
        if any(watched() is not None for watched in self._watched):
            gc.collect()  # an error's traceback may hold them in a cycle
        return all(watched() is None for watched in self._watched)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.free()
