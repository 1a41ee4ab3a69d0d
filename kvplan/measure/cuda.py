"""An NVIDIA GPU as a device, weighed by torch's allocator and by the driver's own count.

Not yet run on a GPU: the tests put a stand-in for `torch.cuda` beneath it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import Any

import torch

from kvplan.catalogue import overheads_text
from kvplan.measure.caching_allocator import allocated, reserved
from kvplan.measure.device import DTYPES, FullError, LostError


class Cuda:
    """One GPU. `cuda` is `torch.cuda`, or what stands in for it; `driver_used` asks the driver without torch."""

    def __init__(
        self,
        cuda: Any,
        index: int = 0,
        place: str | None = None,
        driver_used: Callable[[int], int | None] | None = None,
    ) -> None:
        self.cuda, self.index = cuda, index
        self.driver_used = driver_used or _driver_used
        self.context: int | None = None
        self.name, self.rounds = f"cuda:{index}", True
        self.place = place or self.name
        settings = os.environ.get("PYTORCH_CUDA_ALLOC_CONF", "") + os.environ.get("PYTORCH_ALLOC_CONF", "")
        self.expandable = "expandable_segments:true" in settings.lower().replace(" ", "")
        self.before: dict[str, int] = {}

    def free_bytes(self) -> int | None:
        """What the driver calls free, and what torch's allocator keeps unused."""
        free, _ = self._asked(lambda: self.cuda.mem_get_info(self.index))
        kept = self.cuda.memory_reserved(self.index) - self.cuda.memory_allocated(self.index)
        return int(free + kept)

    def allocate(self, shape: tuple[int, ...], dtype: str) -> torch.Tensor:
        """An uninitialised tensor in the GPU's memory."""
        try:
            return torch.empty(shape, dtype=DTYPES[dtype], device=self.place)
        except torch.OutOfMemoryError as error:
            raise FullError(str(error).splitlines()[0]) from None
        except RuntimeError as error:
            raise LostError(str(error).splitlines()[0]) from None

    def touch(self, tensor: torch.Tensor) -> None:
        """Write to every byte, and wait until that is done."""
        self._asked(lambda: (tensor.view(torch.uint8).fill_(1), self.cuda.synchronize(self.index)))

    def rounded_bytes(self, sizes: Iterable[int]) -> int:
        """The segments that torch's allocator takes from the driver."""
        return reserved(sizes, self.expandable)

    def begin(self) -> None:
        """Start torch's context, empty its allocator and note every counter."""
        fresh = not self.cuda.is_initialized()
        unused = self.driver_used(self.index) if fresh else None
        self._asked(lambda: (self.cuda.init(), self.cuda.mem_get_info(self.index)))
        used = self.driver_used(self.index) if unused is not None else None
        if unused is not None and used is not None:
            self.context = used - unused
        self.cuda.empty_cache()
        self.cuda.reset_peak_memory_stats(self.index)
        self.before = self._counters()

    def figures(self, sizes: list[int]) -> dict[str, Any]:
        """Blocks, segments and what the driver sees, each predicted and measured; and the peak."""
        now = self._counters()
        grown = {key: now[key] - self.before[key] for key in now}
        blocks, segments = allocated(sizes), self.rounded_bytes(sizes)
        return {
            "name": "expandable segments" if self.expandable else "caching allocator",
            "allocated_predicted_bytes": blocks,
            "allocated_measured_bytes": grown["allocated"],
            "allocated_difference_bytes": grown["allocated"] - blocks,
            "reserved_predicted_bytes": segments,
            "reserved_measured_bytes": grown["reserved"],
            "reserved_difference_bytes": grown["reserved"] - segments,
            "driver_predicted_bytes": segments,
            "driver_measured_bytes": grown["driver"],
            "driver_difference_bytes": grown["driver"] - segments,
            "peak_bytes": int(self.cuda.max_memory_allocated(self.index)) - self.before["allocated"],
            **self._context_figures(),
        }

    def _context_figures(self) -> dict[str, Any]:
        """What torch's context and libraries took before any tensor, beside the shipped figure."""
        predicted = next(e["best_bytes"] for e in overheads_text() if e["name"] == "runtime_context")
        if self.context is None:
            return {"context_predicted_bytes": predicted}
        return {
            "context_predicted_bytes": predicted,
            "context_measured_bytes": self.context,
            "context_difference_bytes": self.context - predicted,
        }

    def release(self) -> int | None:
        """Empty the allocator; what torch still counts beyond the beginning."""
        self.cuda.empty_cache()
        return self._counters()["allocated"] - self.before["allocated"]

    def _counters(self) -> dict[str, int]:
        free, total = self._asked(lambda: self.cuda.mem_get_info(self.index))
        return {
            "allocated": int(self.cuda.memory_allocated(self.index)),
            "reserved": int(self.cuda.memory_reserved(self.index)),
            "driver": int(total - free),
        }

    def _asked(self, question: Any) -> Any:
        """The answer of the driver; a device that is gone has none.

        Raises: LostError.
        """
        try:
            return question()
        except torch.OutOfMemoryError as error:
            raise FullError(str(error).splitlines()[0]) from None
        except RuntimeError as error:
            raise LostError(str(error).splitlines()[0]) from None


def _driver_used(index: int) -> int | None:
    """Bytes in use on the GPU by the driver's own count, all processes together; None without the NVML client."""
    try:
        import pynvml  # type: ignore[import-untyped]  # the NVML client ships no types

        pynvml.nvmlInit()
        try:
            return int(pynvml.nvmlDeviceGetMemoryInfo(pynvml.nvmlDeviceGetHandleByIndex(index)).used)
        finally:
            pynvml.nvmlShutdown()
    except Exception:  # noqa: BLE001  # a figure beside the answer; NVML fails in many ways and none is worth stopping for
        return None
