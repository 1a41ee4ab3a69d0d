"""A card's rates as the roofline takes them: its datasheet, and what its kernels reach where they were timed."""

from __future__ import annotations

from functools import cache

from kvplan.catalogue import laws_text
from kvplan.errors import NotCountableError
from kvplan.gpu import Gpu
from kvplan.record import Record
from kvplan.roofline import DeviceLaw, Laws, Machine

PCIE_BYTES_PER_SECOND = {"3.0": 16e9, "4.0": 32e9, "5.0": 64e9, "6.0": 128e9}
"""One way over 16 lanes, by PCI Express generation: 8, 16, 32 and 64 GT/s a lane, a bit a transfer."""


class Bands(Record):
    """How far measured figures lie from predicted ones: the natural logarithm of the ratio that 80 % keep within."""

    measured: dict[str, float]
    assumed: dict[str, float]


class Shipped(Record):
    """The fitted constants: laws of all devices, of each measured device, of any other, and the bands.

    same_chip: cards that carry a measured card's chip, by name; their rates are their own datasheets'.
    """

    laws: Laws
    devices: dict[str, DeviceLaw]
    other_devices: DeviceLaw
    same_chip: dict[str, str]
    bands: Bands

    def law_of(self, name: str) -> DeviceLaw:
        """The law of the card called `name`: its own, its chip's, or that of any other card."""
        return self.devices.get(name) or self.devices.get(self.same_chip.get(name, "")) or self.other_devices


@cache
def shipped() -> Shipped:
    """The constants as laws.yaml has them."""
    text = laws_text()
    return Shipped(
        Laws(**text["laws"]),
        {name: DeviceLaw(**values) for name, values in text["devices"].items()},
        DeviceLaw(**text["other_devices"]),
        text["same_chip"],
        Bands(**text["bands"]),
    )


def machine_of(gpu: Gpu) -> Machine:
    """A card's rates: achieved shares where its kernels were timed, any other card's on its datasheet otherwise.

    Raises: NotCountableError for a card whose bandwidth or FLOPS nobody has written down.
    """
    constants = shipped()
    bandwidth = gpu.bandwidth.get("gb_per_second")
    if bandwidth is None:
        raise _unknown(gpu, "bandwidth.gb_per_second")
    flops = {key: float(value) * 1e12 for key, value in gpu.tflops.items() if isinstance(value, int | float)}
    bf16 = flops.get("bf16") or flops.get("fp16") or flops.get("fp8", 0.0) / 2 or flops.get("fp4", 0.0) / 4
    if not bf16:
        raise _unknown(gpu, "tflops.bf16")
    fp8 = flops.get("fp8", bf16)  # without units of its own, narrow weights are widened and multiplied in bf16
    link, switched = _link(gpu)
    return Machine(
        gpu.name,
        float(bandwidth) * 1e9,
        {"bf16": bf16, "fp8": fp8, "fp4": flops.get("fp4", fp8)},
        link,
        switched,
        constants.law_of(gpu.name),
        gpu.name in constants.devices,
    )


def _unknown(gpu: Gpu, field: str) -> NotCountableError:
    return NotCountableError(
        f"{gpu.name}: {field}: not known, so no time can be told",
        "`kvplan gpus` lists cards; a .yaml file of your own may say",
    )


def _link(gpu: Gpu) -> tuple[float, bool]:
    """(bytes per second one way to the other cards of a node, whether a switch or full mesh joins them)."""
    links = gpu.links
    if "nvlink_gb_per_second_total" in links and "bridge" not in str(links.get("note", "")):
        return float(links["nvlink_gb_per_second_total"]) * 1e9 / 2, True
    if "xgmi_gb_per_second_one_way_all_to_all" in links:
        return float(links["xgmi_gb_per_second_one_way_all_to_all"]) * 1e9, True
    generation = str(links.get("pcie", "")).split(" ")[0]
    return PCIE_BYTES_PER_SECOND.get(generation, 32e9), False
