"""The CPU as a device: main memory, weighed by the process's proportional set size."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

import torch

from kvplan.measure.device import DTYPES, FullError

PAGE_BYTES = 4096
MAPPED_FROM = 128 * 1024
"""Size from which the C library maps a block of its own, in whole pages; smaller ones share its heap."""


class Cpu:
    """Main memory. `proc` and `cgroup` are where the kernel writes what it counts."""

    def __init__(self, proc: Path = Path("/proc"), cgroup: Path = Path("/sys/fs/cgroup")) -> None:
        self.name, self.rounds = "cpu", False
        self.proc, self.cgroup = proc, cgroup
        self.before: int | None = None

    def free_bytes(self) -> int | None:
        """What the kernel could give without swapping, and no more than this process's group may still take."""
        available = _kib(self.proc / "meminfo", "MemAvailable")
        limit, used = (_number(self.cgroup / name) for name in ("memory.max", "memory.current"))
        left = max(0, limit - used) if limit is not None and used is not None else None
        known = [count for count in (available, left) if count is not None]
        return min(known) if known else None

    def allocate(self, shape: tuple[int, ...], dtype: str) -> torch.Tensor:
        """An uninitialised tensor in main memory."""
        try:
            return torch.empty(shape, dtype=DTYPES[dtype])
        except RuntimeError as error:  # torch has no class of its own for this one on the CPU
            raise FullError(str(error).splitlines()[0]) from None

    def touch(self, tensor: torch.Tensor) -> None:
        """Write to every byte."""
        tensor.view(torch.uint8).fill_(1)

    def rounded_bytes(self, sizes: Iterable[int]) -> int:
        """The C library maps large blocks in whole pages; the small ones count as they are."""
        return sum(size if size < MAPPED_FROM else -(-size // PAGE_BYTES) * PAGE_BYTES for size in sizes)

    def begin(self) -> None:
        """Note the process's size once torch's own start-up is over."""
        warm = torch.empty(2 * MAPPED_FROM, dtype=torch.uint8)
        self.touch(warm)
        del warm
        _give_back()
        self.before = self._process_bytes()

    def figures(self, sizes: list[int]) -> dict[str, Any]:
        """How much the process grew, beside the tensors rounded up to pages."""
        now = self._process_bytes()
        if now is None or self.before is None:
            return {"name": "malloc"}
        predicted, measured = self.rounded_bytes(sizes), now - self.before
        return {
            "name": "malloc",
            "process_predicted_bytes": predicted,
            "process_measured_bytes": measured,
            "process_difference_bytes": measured - predicted,
        }

    def release(self) -> int | None:
        """How much larger the process is than before."""
        _give_back()
        now = self._process_bytes()
        return None if now is None or self.before is None else now - self.before

    def _process_bytes(self) -> int | None:
        """The proportional set size: private pages whole, shared ones divided among those who share them."""
        return _kib(self.proc / "self" / "smaps_rollup", "Pss")


def _give_back() -> None:
    """Have the C library return freed memory to the system, where it can."""
    with suppress(OSError, AttributeError):  # only glibc keeps freed blocks and has a way to give them back
        ctypes.CDLL(None).malloc_trim(0)


def _kib(file: Path, key: str) -> int | None:
    """The figure beside `key:` in a file of the kernel, in bytes; None where there is none."""
    try:
        found = re.search(rf"^{key}:\s+(\d+) kB$", file.read_text("ascii"), re.MULTILINE)
    except (OSError, ValueError):
        return None
    return int(found[1]) * 1024 if found else None


def _number(file: Path) -> int | None:
    try:
        return int(file.read_text("ascii"))
    except (OSError, ValueError):  # not there, or `max`
        return None
