"""Devices that stand in for real ones: main memory of a given size, and a GPU made of main memory."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the extra `measure` is not installed")

from kvplan.measure.caching_allocator import allocated, reserved
from kvplan.measure.cpu import Cpu
from kvplan.measure.device import FullError, LostError
from kvplan.question import Question

torch.set_num_threads(1)


class Small(Cpu):
    """Main memory with `free` bytes free, of which `fails_at` allocations succeed before `error`."""

    def __init__(self, free: int = 10**9, fails_at: int | None = None, error: BaseException | None = None) -> None:
        super().__init__()
        self.free, self.left, self.error = free, fails_at, error
        self.made: list[Any] = []

    def free_bytes(self) -> int:
        return self.free

    def begin(self) -> None:
        pass  # weighing the process takes longer than all the rest

    def figures(self, sizes: list[int]) -> dict[str, Any]:
        return {"name": "malloc"}

    def release(self) -> None:
        pass

    def allocate(self, shape: tuple[int, ...], dtype: str) -> Any:
        if self.left is not None:
            self.left -= 1
            if self.left < 0:
                raise self.error or FullError("no room")
        return super().allocate(shape, dtype)


class FakeCuda:
    """`torch.cuda` as `Cuda` uses it, over tensors in main memory: it counts as torch's documentation says.

    others: bytes that other processes hold. lost: every question fails, as after an Xid.
    """

    def __init__(self, total: int = 80 * 2**30, others: int = 0, context: int = 400 * 2**20) -> None:
        self.total, self.others, self.context = total, others, context
        self.started = False
        self.lost = False
        self.sizes: list[int] = []
        self.peak = 0

    def is_initialized(self) -> bool:
        return self.started

    def init(self) -> None:
        self.started = True

    def used(self, index: int = 0) -> int:
        return self.others + (self.context if self.started else 0) + reserved(self.sizes)

    def mem_get_info(self, index: int) -> tuple[int, int]:
        if self.lost:
            raise RuntimeError("CUDA error: unspecified launch failure\nCUDA kernel errors might be asynchronous")
        return self.total - self.used(), self.total

    def memory_allocated(self, index: int) -> int:
        return allocated(self.sizes)

    def memory_reserved(self, index: int) -> int:
        return reserved(self.sizes)

    def max_memory_allocated(self, index: int) -> int:
        return self.peak

    def reset_peak_memory_stats(self, index: int) -> None:
        self.peak = 0

    def empty_cache(self) -> None:
        self.sizes = []

    def synchronize(self, index: int) -> None:
        if self.lost:
            raise LostError("CUDA error: unspecified launch failure")


def fake_gpu(cuda: FakeCuda) -> Any:
    """`Cuda` over that stand-in, its tensors in main memory and counted."""
    from kvplan.measure.cuda import Cuda

    class Counted(Cuda):
        def allocate(self, shape: tuple[int, ...], dtype: str) -> Any:
            tensor = super().allocate(shape, dtype)
            size = tensor.numel() * tensor.element_size()
            if self.cuda.used() + reserved([*self.cuda.sizes, size]) - reserved(self.cuda.sizes) > self.cuda.total:
                raise FullError("CUDA out of memory")
            self.cuda.sizes.append(size)
            self.cuda.peak = max(self.cuda.peak, allocated(self.cuda.sizes))
            return tensor

    return Counted(cuda, place="cpu", driver_used=cuda.used)


def asked(model: Any, ctx: int, **options: Any) -> Question:
    """A question as the command line makes it; `kv_dtype` stands for both formats."""
    kv_dtype = options.pop("kv_dtype", None)
    if kv_dtype:
        options |= {"k_dtype": kv_dtype, "v_dtype": kv_dtype}
    return Question(model=model, ctx=ctx, **options)
