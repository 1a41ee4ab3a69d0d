"""One accelerator from YAML, from plain bytes, or as the driver of this machine reports it."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any
from unittest.mock import patch

import pytest

from kvplan.catalogue import gpu_named
from kvplan.errors import InputError, MissingError
from kvplan.gpu import local_gpu, parse_gpu, plain_gpu

from cli.conftest import refused, row, run  # isort: skip

H100 = 85520809984  # nvidia-smi 81559 MiB, what NVML calls total on an H100 80GB


def nvml(total: int = H100, free: int = H100, count: int = 1, fails: str = "") -> Any:
    """A stand-in for the NVML client: one card with that much memory, or a driver that fails at one call."""
    module: Any = ModuleType("pynvml")
    module.NVMLError = type("NVMLError", (Exception,), {})
    module.shut = 0

    def answer(name: str, value: Any) -> Any:
        def call(*_: Any) -> Any:
            if name == fails:
                raise module.NVMLError("Driver Not Loaded")
            return value

        return call

    module.nvmlInit = answer("nvmlInit", None)
    module.nvmlDeviceGetCount = answer("nvmlDeviceGetCount", count)
    module.nvmlDeviceGetHandleByIndex = answer("nvmlDeviceGetHandleByIndex", "handle")
    memory = SimpleNamespace(total=total, free=free, used=total - free)
    module.nvmlDeviceGetMemoryInfo = answer("nvmlDeviceGetMemoryInfo", memory)
    module.nvmlDeviceGetName = answer("nvmlDeviceGetName", "NVIDIA H100 80GB HBM3")
    module.nvmlSystemGetDriverVersion = answer("nvmlSystemGetDriverVersion", "580.95.05")

    def shutdown() -> None:
        module.shut += 1

    module.nvmlShutdown = shutdown
    return module


def test_the_local_card_is_what_the_driver_reports() -> None:
    """Total and free memory, the card's name, and the driver as the source."""
    client = nvml(free=70 * 2**30)
    with patch.dict(sys.modules, {"pynvml": client}):
        found = local_gpu()
    assert (H100, 70 * 2**30) == (found.memory.total_bytes, found.memory.free_bytes)
    assert ("local", "NVIDIA H100 80GB HBM3") == (found.name, found.title)
    assert "NVML, driver 580.95.05" == found.memory.basis
    assert 1 == client.shut


def test_what_other_tenants_hold_cannot_be_used() -> None:
    """With 20 GiB free of 80, the share of the total does not matter: 20 GiB are usable."""
    with patch.dict(sys.modules, {"pynvml": nvml(free=20 * 2**30)}):
        gpu = row("size", "llama-3.1-8b", "--ctx", "8k", "--gpu", "local")["gpu"]
    assert (H100, 20 * 2**30, 20 * 2**30) == (gpu["total_bytes"], gpu["free_bytes"], gpu["usable_bytes"])


def test_an_idle_local_card_is_used_up_to_the_utilisation() -> None:
    """0.92 x 85,520,809,984 = 78,679,145,185.28, rounded down."""
    with patch.dict(sys.modules, {"pynvml": nvml()}):
        gpu = row("size", "llama-3.1-8b", "--ctx", "8k", "--gpu", "local")["gpu"]
    assert 78679145185 == gpu["usable_bytes"]


def test_free_memory_stands_beside_the_total_in_the_table() -> None:
    """A reader sees what is there and what is left of it."""
    with patch.dict(sys.modules, {"pynvml": nvml(free=20 * 2**30)}):
        out = run("size", "llama-3.1-8b", "--ctx", "8k", "--gpu", "local").out
    assert "free now" in out
    assert "20.00" in next(line for line in out.splitlines() if line.startswith("free now"))


@pytest.mark.parametrize("fails", ["nvmlInit", "nvmlDeviceGetCount", "nvmlDeviceGetMemoryInfo"])
def test_a_driver_that_does_not_answer_is_missing(fails: str) -> None:
    """Exit 4, and the fix names another way."""
    client = nvml(fails=fails)
    with patch.dict(sys.modules, {"pynvml": client}):
        assert "Driver Not Loaded" in refused(run("size", "gpt-2", "--gpu", "local"), 4)
    assert client.shut == (fails != "nvmlInit")


def test_a_driver_without_a_card_is_missing() -> None:
    """A machine may have the driver and no GPU."""
    with patch.dict(sys.modules, {"pynvml": nvml(count=0)}), pytest.raises(MissingError, match="no GPU"):
        local_gpu()


def test_a_missing_client_is_missing() -> None:
    """The fix holds the command that installs it."""
    with patch.dict(sys.modules, {"pynvml": None}), pytest.raises(MissingError) as caught:
        local_gpu()
    assert "pip install 'kvplan[measure]'" == caught.value.fix


@pytest.mark.parametrize(
    ("text", "total"),
    [
        ("80GiB", 85899345920),
        ("80gib", 85899345920),
        ("80GB", 80 * 10**9),
        ("24576MiB", 24 * 2**30),
        ("85899345920", 85899345920),
    ],
)
def test_plain_bytes_are_a_card(text: str, total: int) -> None:
    """`--gpu 80GiB` is a card of which only the memory is known."""
    assert total == gpu_named(text).memory.total_bytes
    assert total == row("size", "gpt-2", "--gpu", text, "-q")["gpu"]["total_bytes"]


@pytest.mark.parametrize("text", ["80G", "GiB", "", "80 GiBs", "-80GiB"])
def test_what_is_not_bytes_is_no_card(text: str) -> None:
    """Nobody can tell which G it is."""
    assert plain_gpu(text) is None
    with pytest.raises(InputError):
        gpu_named(text)


def test_the_name_4090_is_a_card_and_not_bytes() -> None:
    """A short number is what people call a card."""
    assert "rtx-4090" == gpu_named("4090").name


def test_a_file_of_ones_own_is_a_card(tmp_path: Path) -> None:
    """Two keys are enough."""
    file = tmp_path / "card.yaml"
    file.write_text("name: my-card\nmemory: {total_bytes: 34359738368}\n")
    gpu = row("size", "gpt-2", "--gpu", str(file), "-q")["gpu"]
    assert ("my-card", 34359738368) == (gpu["name"], gpu["total_bytes"])


@pytest.mark.parametrize(
    ("text", "place", "fix"),
    [
        ("name: c\n", "memory: missing", "memory"),
        ("memory: {total_bytes: 1}\n", "name: missing", "name"),
        ("name: c\nmemory: {total_bytes: many}\n", "memory.total_bytes: found 'many'", ""),
        ("name: c\nmemory: {total_bytes: -1}\n", "memory.total_bytes", ""),
        ("name: c\nmemory: {total_byte: 1}\n", "memory.total_byte: unknown key", "total_bytes"),
        ("name: c\nclas: x\nmemory: {total_bytes: 1}\n", "clas: unknown key", "did you mean class"),
        ("name: C C\nmemory: {total_bytes: 1}\n", "name: found 'C C'", ""),
        ("- name: c\n", "allowed a mapping", ""),
        ("name: c\nmemory: 5\n", "memory: found", ""),
    ],
)
def test_a_faulty_file_is_refused_with_its_field(tmp_path: Path, text: str, place: str, fix: str) -> None:
    """File, field, what was found, and the nearest known key as YAML spells it."""
    file = tmp_path / "card.yaml"
    file.write_text(text)
    error = refused(run("size", "gpt-2", "--gpu", str(file)), 2)
    assert "card.yaml" in error
    assert place in error
    assert fix in error
    assert "class_" not in error


def test_a_card_needs_no_total() -> None:
    """What nobody has measured is left out, not guessed."""
    assert parse_gpu({"name": "c", "memory": {"label": "1 TB"}}, "c.yaml").memory.total_bytes is None
