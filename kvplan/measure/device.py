"""A device that a cache is allocated on: what is free there, a tensor of it, and what its allocator says.

The rest of `measure` knows this protocol only, so that a test can stand in for a GPU that is busy,
full or lost.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

import torch

from kvplan.errors import InputError, MissingError, quoted
from kvplan.measure import INSTALL
from kvplan.tensor import ITEM_BYTES

MOST_SHARE = 90
"""Per cent of what is free that is taken unless the user says otherwise: others may use the device too."""

DTYPES = {
    "fp32": torch.float32,
    "fp16": torch.float16,
    "bf16": torch.bfloat16,
    "fp8_e4m3": torch.float8_e4m3fn,
    "fp8_e5m2": torch.float8_e5m2,
    "int8": torch.int8,
    "uint8": torch.uint8,
    "ue8m0": getattr(torch, "float8_e8m0fnu", torch.uint8),  # since torch 2.7; a byte in any
}
assert set(DTYPES) == set(ITEM_BYTES)


class FullError(Exception):
    """The device has no room for a tensor; what was allocated before it is still held."""


class LostError(Exception):
    """The device stopped answering; what it held is gone."""


class Device(Protocol):
    """One device and its allocator.

    rounds: the allocator takes more than it was asked for, and keeps what is freed until `release`.
    """

    name: str
    rounds: bool

    def free_bytes(self) -> int | None:
        """Bytes that could be allocated now; None where the system does not say."""
        ...

    def allocate(self, shape: tuple[int, ...], dtype: str) -> torch.Tensor:
        """A tensor of `shape` and `dtype` (a key of `DTYPES`), not yet written to.

        Raises: FullError, LostError.
        """
        ...

    def touch(self, tensor: torch.Tensor) -> None:
        """Write to every byte, so that no page stays a promise."""
        ...

    def rounded_bytes(self, sizes: Iterable[int]) -> int:
        """What the allocator holds for tensors of these sizes, allocated in this order from nothing."""
        ...

    def begin(self) -> None:
        """Note where the counters stand before anything is allocated."""
        ...

    def figures(self, sizes: list[int]) -> dict[str, Any]:
        """The allocator's own figures with tensors of `sizes` held: predicted, measured, and their difference."""
        ...

    def release(self) -> int | None:
        """Hand freed memory back; the bytes still held beyond those at `begin`, None where nobody counts them."""
        ...


def device_named(text: str) -> Device:
    """The device written `cpu`, `cuda`, `cuda:1` or `auto`: a GPU where there is one, else the CPU.

    Raises: InputError for another name; MissingError for a GPU that torch does not see.
    """
    from kvplan.measure.cpu import Cpu

    name, _, index = text.strip().lower().partition(":")
    if name == "auto" and not index:
        name = "cuda" if torch.cuda.is_available() else "cpu"
    if name == "cpu" and not index:
        return Cpu()
    if name != "cuda" or (index and not (index.isascii() and index.isdigit() and len(index) < 4)):
        raise InputError(f"--device: found {quoted(text)}, allowed auto, cpu, cuda or cuda:N", "--device auto")
    if not torch.cuda.is_available():
        built = "sees no GPU" if torch.version.cuda else "is built without CUDA"
        raise MissingError(
            f"--device {name}: torch {torch.__version__} {built}",
            f"--device cpu, or on a machine with a GPU and its driver: {INSTALL}",
        )
    if int(index or 0) >= torch.cuda.device_count():
        raise InputError(
            f"--device: found {quoted(text)}, allowed cuda:0 to cuda:{torch.cuda.device_count() - 1}", "--device cuda:0"
        )
    from kvplan.measure.cuda import Cuda

    return Cuda(torch.cuda, int(index or 0))
