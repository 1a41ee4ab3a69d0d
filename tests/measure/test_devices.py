"""What devices say of themselves: main memory by the kernel's files, a GPU by a stand-in for torch.cuda."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import pytest
from stand_ins import FakeCuda, asked, fake_gpu, torch
from strategies import model

from kvplan.errors import InputError, MissingError
from kvplan.measure.cpu import Cpu
from kvplan.measure.cuda import Cuda, _driver_used
from kvplan.measure.device import FullError, LostError, device_named
from kvplan.measure.weighing import measure_answer

GQA = {"type": "gqa", "heads": 4, "kv_heads": 2, "head_dim": 128}


def kernel(folder: Path, **files: str) -> Cpu:
    """Main memory as these files of the kernel describe it."""
    for name, text in files.items():
        (folder / name.replace("_", ".")).write_text(text)
    return Cpu(proc=folder, cgroup=folder)


def test_free_memory_is_what_the_kernel_could_give(tmp_path: Path) -> None:
    """`MemAvailable`, in bytes."""
    cpu = kernel(tmp_path)
    (tmp_path / "meminfo").write_text("MemTotal:  100 kB\nMemFree:  1 kB\nMemAvailable:   80 kB\n")
    assert 80 * 1024 == cpu.free_bytes()


def test_a_container_may_take_less(tmp_path: Path) -> None:
    """The limit of its control group less what the group holds, where there is one."""
    cpu = kernel(tmp_path, memory_max="50000\n", memory_current="20000\n")
    (tmp_path / "meminfo").write_text("MemAvailable:   80 kB\n")
    assert 30_000 == cpu.free_bytes()
    (tmp_path / "memory.max").write_text("max\n")
    assert 80 * 1024 == cpu.free_bytes()


def test_a_system_without_these_files_does_not_say(tmp_path: Path) -> None:
    """Neither what is free nor how large the process is; the tensors are weighed all the same."""
    cpu = Cpu(proc=tmp_path, cgroup=tmp_path)
    assert cpu.free_bytes() is None
    answer = measure_answer(asked(model(GQA), 100), cpu, limit_bytes=10**6)
    assert answer.agrees
    assert {"name": "malloc", "left_bytes": None} == answer.allocator


@pytest.mark.skipif(not Path("/proc/self/smaps_rollup").exists(), reason="the kernel does not weigh processes")
def test_the_process_grows_by_the_cache() -> None:
    """A cache of 256 MiB, touched, shows in the process's proportional set size within one per cent."""
    answer = measure_answer(asked(model(GQA, layers=4), 65_536), Cpu(), limit_bytes=2**29)
    assert 4 * 65_536 * 1024 == answer.measured_bytes == answer.allocator["process_predicted_bytes"]
    assert abs(answer.allocator["process_difference_bytes"]) < answer.measured_bytes // 100
    assert answer.allocator["left_bytes"] < answer.measured_bytes // 100


def test_more_than_any_memory_is_full() -> None:
    """The operating system says no, and that is an answer."""
    with pytest.raises(FullError):
        Cpu().allocate((2**50,), "uint8")


def test_a_gpu_is_weighed_by_torch_and_by_the_driver() -> None:
    """Blocks, segments and the driver's count, each beside its prediction; the context in a row of its own."""
    gpu = fake_gpu(FakeCuda(others=3 * 2**30))
    answer = measure_answer(asked(model(GQA, layers=3), 1001), gpu)
    figures = answer.allocator
    assert answer.agrees
    assert 6 * 512_512 == answer.measured_bytes
    assert figures["allocated_predicted_bytes"] == figures["allocated_measured_bytes"] == 6 * 512_512
    assert figures["reserved_predicted_bytes"] == figures["reserved_measured_bytes"] == 2 * 2**21
    assert figures["driver_measured_bytes"] == 2 * 2**21
    assert 6 * 512_512 == figures["peak_bytes"]
    assert 400 * 2**20 == figures["context_measured_bytes"]
    assert 400 * 2**20 - figures["context_predicted_bytes"] == figures["context_difference_bytes"]
    assert 0 == figures["left_bytes"]


def test_a_gpu_in_use_by_others_gives_nine_tenths_of_its_rest() -> None:
    """What others hold is not free."""
    gpu = fake_gpu(FakeCuda(total=2**30, others=2**29, context=2**28))
    assert 2**28 * 90 // 100 == measure_answer(asked(model(GQA), 10), gpu).limit_bytes


def test_a_gpu_that_fills_up_is_measured_as_far_as_it_went() -> None:
    """Another process took the memory after the first look."""
    cuda = FakeCuda(total=2**30, context=0)
    gpu = fake_gpu(cuda)
    seen = gpu.free_bytes
    gpu.free_bytes = lambda: (seen(), setattr(cuda, "others", 2**30 - 45 * 2**20))[0]
    answer = measure_answer(asked(model(GQA, layers=4), 2**15), gpu)
    assert (1, 4) == (answer.measured_layers, answer.of_layers)
    assert answer.agrees


def test_a_gpu_lost_on_the_way_is_something_missing() -> None:
    """In CUDA's own first line."""
    cuda = FakeCuda()
    cuda.lost = True
    with pytest.raises(MissingError, match="--device cuda:0: CUDA error: unspecified launch failure$"):
        measure_answer(asked(model(GQA), 10), fake_gpu(cuda))


@pytest.mark.parametrize(
    ("raised", "expected"),
    [(torch.OutOfMemoryError("CUDA out of memory.\nmore"), FullError), (RuntimeError("CUDA error: x\ny"), LostError)],
)
def test_torchs_own_errors_are_told_apart(raised: Exception, expected: type[Exception]) -> None:
    """Out of memory is an answer, anything else a device that is gone."""
    gpu = Cuda(FakeCuda(), place="cpu")
    with patch("torch.empty", side_effect=raised), pytest.raises(expected, match=r"^CUDA [a-z :.]+$"):
        gpu.allocate((1,), "fp32")
    with pytest.raises(expected):
        gpu._asked(lambda: (_ for _ in ()).throw(raised))


def test_expandable_segments_are_read_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """As torch reads them."""
    monkeypatch.setenv("PYTORCH_CUDA_ALLOC_CONF", "max_split_size_mb:64, expandable_segments:True")
    gpu = Cuda(FakeCuda())
    assert (True, 20 * 2**20) == (gpu.expandable, gpu.rounded_bytes([3 * 2**20] * 3))


def test_the_driver_is_asked_without_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Through NVML where its client is installed; nothing where it or the driver is not."""
    nvml = SimpleNamespace(
        nvmlInit=lambda: None,
        nvmlShutdown=lambda: None,
        nvmlDeviceGetHandleByIndex=lambda index: index,
        nvmlDeviceGetMemoryInfo=lambda handle: SimpleNamespace(used=123 + handle),
    )
    monkeypatch.setitem(sys.modules, "pynvml", nvml)
    assert 124 == _driver_used(1)
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert _driver_used(0) is None


def test_devices_are_named() -> None:
    """auto is the CPU where there is no GPU."""
    with patch("torch.cuda.is_available", return_value=False):
        assert "cpu" == device_named("auto").name == device_named(" CPU ").name
        with pytest.raises(MissingError, match="--device cuda: torch .* is built without CUDA|sees no GPU"):
            device_named("cuda:0")
    for wrong in ("tpu", "cpu:1", "cuda:x", "cuda:-1", "cuda:99999", ""):
        with pytest.raises(InputError, match="--device: found"):
            device_named(wrong)


def test_a_gpu_is_taken_where_there_is_one() -> None:
    """The first, or the one that is named; one too many is refused."""
    with patch("torch.cuda.is_available", return_value=True), patch("torch.cuda.device_count", return_value=2):
        named: list[Any] = [device_named(text).name for text in ("auto", "cuda", "cuda:1")]
        with pytest.raises(InputError, match="allowed cuda:0 to cuda:1"):
            device_named("cuda:2")
    assert ["cuda:0", "cuda:0", "cuda:1"] == named
