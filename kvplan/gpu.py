"""The YAML description of one accelerator, and the devices that have none: plain bytes and `local`.

Capacity is what the driver reports, in bytes with its source; the number on the box is a label.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from kvplan.errors import InputError, MissingError
from kvplan.schema import validated
from kvplan.units import byte_count, iec

Name = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9._+-]{0,99}$")]
Text = Annotated[str, Field(max_length=2000)]
Texts = Annotated[list[Text], Field(max_length=50)]
Bytes = Annotated[int, Field(ge=0, le=10**15)]
Trust = Literal["high", "medium", "low"]


class Fields(BaseModel):
    """Strict, frozen YAML fields."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Unified(Fields):
    """The rule of a machine whose CPU and GPU share one memory."""

    rule: Text
    usable_bytes: Bytes | None = None
    sources: Texts = []


class Memory(Fields):
    """total_bytes: driver-reported, with the range seen; configurations: usable bytes by GiB sold."""

    label: Text | None = None
    total_bytes: Bytes | None = None
    low_bytes: Bytes | None = None
    high_bytes: Bytes | None = None
    free_bytes: Bytes | None = None
    basis: Text | None = None
    confidence: Trust | None = None
    sources: Texts = []
    note: Text | None = None
    configurations: dict[int, Bytes] = {}
    unified: Unified | None = None


class Gpu(Fields):
    """One accelerator. Figures other than memory keep the units of their keys; FLOPS are dense."""

    name: Name
    aliases: Annotated[list[Name], Field(max_length=60)] = []
    title: Text | None = None
    vendor: Text | None = None
    class_: Annotated[Text | None, Field(alias="class")] = None
    arch: Text | None = None
    compute_capability: Text | None = None
    memory: Memory
    bandwidth: dict[str, Any] = {}
    tflops: dict[str, Any] = {}
    links: dict[str, Any] = {}
    node: dict[str, Any] = {}
    tdp_watts: dict[str, Any] = {}
    launch: Text | None = None
    prices: Annotated[list[dict[str, Any]], Field(max_length=50)] = []
    status: Text | None = None
    notes: Text | None = None
    confidence: dict[str, Trust] = {}


def parse_gpu(values: Any, source: str) -> Gpu:
    """The GPU in `values`, as `load_yaml` returns them.

    Raises: InputError for anything malformed.
    """
    return validated(Gpu, values, source)


def plain_gpu(text: str) -> Gpu | None:
    """A device that is nothing but bytes, as `--gpu 80GiB`; None when `text` is not bytes.

    >>> plain_gpu("80GiB").memory.total_bytes
    85899345920
    """
    try:
        total = byte_count(text, "--gpu")
    except InputError:
        return None
    memory = Memory(label=iec(total), total_bytes=total, basis="given on the command line")
    return Gpu.model_construct(name=text.lower(), memory=memory, aliases=[], title=None)


def local_gpu() -> Gpu:
    """The first NVIDIA GPU of this machine, its free memory beside its total, through NVML.

    Raises: MissingError without the NVML client, a driver or a device.
    """
    try:
        import pynvml  # type: ignore[import-untyped]  # the NVML client ships no types
    except ImportError:
        raise MissingError("--gpu local: the NVML client is not installed", "pip install 'kvplan[measure]'") from None
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        raise MissingError(
            f"--gpu local: no NVIDIA driver answers ({error})",
            "name the GPU instead: `kvplan gpus` lists them",
        ) from None
    try:
        if pynvml.nvmlDeviceGetCount() < 1:
            raise MissingError(
                "--gpu local: the driver reports no GPU",
                "name the GPU instead: `kvplan gpus` lists them",
            )
        handle = pynvml.nvmlDeviceGetHandleByIndex(0)
        memory = pynvml.nvmlDeviceGetMemoryInfo(handle)
        title = str(pynvml.nvmlDeviceGetName(handle))
        driver = str(pynvml.nvmlSystemGetDriverVersion())
    except pynvml.NVMLError as error:
        raise MissingError(
            f"--gpu local: the driver does not report memory ({error})",
            "give bytes instead, for example --gpu 80GiB",
        ) from None
    finally:
        pynvml.nvmlShutdown()
    found = Memory(
        total_bytes=int(memory.total),
        free_bytes=int(memory.free),
        basis=f"NVML, driver {driver}",
        confidence="high",
    )
    return Gpu.model_construct(name="local", title=title, memory=found, aliases=[])
