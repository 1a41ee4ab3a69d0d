"""Which device holds which layer: the engine's split by shares, output layer included.

Layer i of n goes to the first device whose cumulative share exceeds (i - start) / (layers on devices), in
32-bit floats; the output counts as one more layer. Layers before `start` stay on the CPU.

Worked: 32 layers over two equal devices: (i / 33) passes 0.5 at layer 17, so the first holds 17 and the second 15.

Source: llama.cpp build 11549, llama_model::load_tensors.
"""

from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate
from struct import pack, unpack

from kvplan.engine import Options
from kvplan.errors import InputError, quoted
from kvplan.workload import Workload

CPU = -1


def devices_of(layers: int, workload: Workload, options: Options) -> list[int]:
    """The device of every layer, CPU for those that stay with the host.

    >>> devices_of(4, Workload(1, pp=2), {})
    [0, 0, 0, 1]

    Raises: InputError for shares that do not fit the devices.
    """
    if options.get("no_kv_offload", False):
        return [CPU] * layers
    offloaded = min(int(options.get("n_gpu_layers", layers + 1)), layers + 1)
    start = layers + 1 - offloaded
    points = _split_points(workload, options)
    placed = [bisect_right(points, _single((i - start) / offloaded)) if i >= start else CPU for i in range(layers)]
    return [min(device, workload.pp - 1) for device in placed]


def _split_points(workload: Workload, options: Options) -> list[float]:
    """Cumulative shares of the devices, the last 1."""
    if options.get("split_mode", "layer") == "none":
        return [1.0] * workload.pp
    shares = _shares(str(options["tensor_split"])) if "tensor_split" in options else [1.0] * workload.pp
    if len(shares) != workload.pp:
        raise InputError(
            f"-E tensor_split: found {len(shares)} shares, but --pp gives {workload.pp} devices",
            f"--pp {len(shares)}",
        )
    sums = list(accumulate(shares, lambda total, share: _single(total + share)))
    return [_single(total / sums[-1]) for total in sums]


def _shares(text: str) -> list[float]:
    """Shares written `3,1` or `3/1`."""
    try:
        shares = [_single(float(share)) for share in text.replace("/", ",").split(",")]
    except (ValueError, OverflowError):
        shares = []
    if not shares or not all(0 <= share < float("inf") for share in shares) or not 0 < sum(shares) < float("inf"):
        raise InputError(
            f"-E tensor_split: found {quoted(text)}, llama.cpp takes one share per device", "-E tensor_split=3,1"
        )
    return shares


def _single(value: float) -> float:
    """`value` rounded to a 32-bit float."""
    return float(unpack("f", pack("f", value))[0])
