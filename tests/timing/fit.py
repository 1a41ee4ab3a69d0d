"""Fit the constants of kvplan/roofline/laws.yaml to the published times, and write the file.

Run it from the checkout: `python tests/timing/fit.py` (about five minutes on one core).
First each measured card's shares and fixed costs, to its own kernels; then the laws of all cards, to the half
of the whole-engine figures that `data.Row.fitted` names. The other half is never looked at here.
The second search begins at the constants that the file holds, so another run polishes them.
Both searches are random walks from a fixed seed that keep what lowers the mean absolute logarithm of
predicted over published, an error above e counting as one, so that single odd figures do not steer.
"""

from __future__ import annotations

import math
import statistics
import sys
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from accuracy import band_of, residual
from data import kernels, rows

from kvplan.catalogue import gpu_named
from kvplan.planner.machine import machine_of, shipped
from kvplan.roofline import DeviceLaw, Laws

LAWS = Path(__file__).parents[2] / "kvplan" / "roofline" / "laws.yaml"
KINDS = ("decode_dense", "decode_moe", "prefill", "first", "rate_dense", "rate_moe")
WIDEST = {"first": 1.2, "prefill": 0.8}
"""Bands end where an interval would say nothing; 0.6 for the other quantities."""
SAME_CHIP = {
    **dict.fromkeys(("a100-sxm-40gb", "a100-pcie-40gb", "a100-pcie-80gb"), "a100-sxm-80gb"),
    **dict.fromkeys(
        ("h100-pcie-80gb", "h100-nvl-94gb", "h800-sxm-80gb", "h200-sxm", "h200-nvl", "gh200-96gb", "gh200-144gb"),
        "h100-sxm-80gb",
    ),
    **dict.fromkeys(("rtx-pro-6000-workstation", "rtx-pro-6000-max-q"), "rtx-pro-6000-server"),
}
"""Cards that carry the chip of a measured one: GA100, GH100 and GB202."""
SIXTEEN_BIT = ("bf16", "fp16")
UNIFORM = ("launch_share", "compute_share.bf16", "compute_share.fp8", "compute_share.fp4", "expert_compute_share",
           "prefill_attention_share", "decode_attention_share", "fp8_cache_share", "link_share")  # fmt: skip


def walk(start: dict[str, float], loss: Callable[[dict[str, float]], float], steps: int, seed: int) -> dict[str, float]:
    """The best of a random walk over positive numbers; those in UNIFORM stay at most 1."""
    rng = np.random.default_rng(seed)
    best, low, width = dict(start), loss(start), 0.5
    for step in range(steps):
        tried = {
            key: value * math.exp(rng.normal() * width) if rng.random() < 0.3 else value for key, value in best.items()
        }
        tried = {
            key: min(value, 1.0) if key in UNIFORM or key.endswith("_share") else value for key, value in tried.items()
        }
        found = loss(tried)
        if found < low:
            best, low = tried, found
        if step % 300 == 299:
            width *= 0.8
            print(f"  step {step + 1}: {low:.4f}", file=sys.stderr, flush=True)
    return best


def capped(errors: Any) -> float:
    """The mean of absolute errors, none counted above 1."""
    return float(np.minimum(np.abs(errors), 1.0).mean())


def device_laws() -> dict[str, DeviceLaw]:
    """The law of each card whose matrix products and decode attention were both timed."""
    products: dict[str, list[tuple[float, float, float]]] = defaultdict(list)
    attention: dict[str, list[tuple[float, float, float]]] = defaultdict(list)
    for row in kernels():
        gpu = gpu_named(row["gpu"])
        bandwidth, seconds = gpu.bandwidth["gb_per_second"] * 1e9, float(row["latency_us"]) * 1e-6
        if row["kernel"] == "gemm" and row["compute_dtype"] in SIXTEEN_BIT:
            m, n, k = (int(row[key]) for key in ("m", "n", "k"))
            rate = (gpu.tflops.get("bf16") or gpu.tflops["fp16"]) * 1e12
            products[gpu.name].append(((k * n + m * k + m * n) * 2 / bandwidth, 2 * m * n * k / rate, seconds))
        if row["kernel"] == "decode_attention" and row["kv_dtype"] == "bf16":
            batch, length, heads, width = (int(row[key]) for key in ("batch", "seq_len", "kv_heads", "head_dim"))
            attention[gpu.name].append((batch * length * heads * width * 4 / bandwidth, batch * heads, seconds))
    found = {}
    for name in sorted(set(products) & set(attention)):
        print(name, file=sys.stderr)
        linear = np.array(products[name])
        read = np.array(attention[name])

        def product_loss(x: dict[str, float], linear: Any = linear) -> float:
            memory, compute = linear[:, 0] / x["linear_share"], linear[:, 1] / x["compute_share"]
            return capped(np.log(((memory**4 + compute**4) ** 0.25 + x["seconds"]) / linear[:, 2]))

        def attention_loss(x: dict[str, float], read: Any = read) -> float:
            return capped(
                np.log((read[:, 0] / x["attention_share"] + x["head"] * read[:, 1] + x["seconds"]) / read[:, 2])
            )

        of_products = walk({"linear_share": 0.85, "compute_share": 0.7, "seconds": 5e-6}, product_loss, 1500, 1)
        of_attention = walk({"attention_share": 0.9, "head": 1e-8, "seconds": 1e-5}, attention_loss, 1500, 2)
        found[name] = DeviceLaw(
            of_products["linear_share"],
            of_attention["attention_share"],
            of_products["seconds"],
            of_attention["seconds"],
        )
    return found


def flat(laws: Laws) -> dict[str, float]:
    """The constants that are fitted, by name; those in tables by table and key."""
    found: dict[str, float] = {}
    for name in laws.__match_args__:
        value = getattr(laws, name)
        found |= {f"{name}.{key}": item for key, item in value.items()} if isinstance(value, dict) else {name: value}
    return found


def shaped(values: dict[str, float]) -> Laws:
    """The laws that `flat` took apart."""
    nested: dict[str, Any] = {}
    for name, value in values.items():
        table, _, key = name.partition(".")
        if key:
            nested.setdefault(table, {})[key] = value
        else:
            nested[name] = value
    return Laws(**nested)


def other_law(devices: dict[str, DeviceLaw]) -> DeviceLaw:
    """The law of a card without a kernel table: the median of those with one."""
    return DeviceLaw(
        *(statistics.median(getattr(law, name) for law in devices.values()) for name in DeviceLaw.__match_args__)
    )


def main() -> None:
    """Fit, print what is left, and write laws.yaml."""
    devices = device_laws()
    other = other_law(devices)
    chosen = [row for row in rows() if row.fitted]
    machines = {}
    for row in chosen:
        machine = machine_of(gpu_named(row.values["gpu"]))
        law = devices.get(machine.name) or devices.get(SAME_CHIP.get(machine.name, "")) or other
        machines[row.values["gpu"]] = machine.replace(law=law, measured=machine.name in devices)

    def loss(values: dict[str, float]) -> float:
        laws = shaped(values)
        return capped([residual(row, machines[row.values["gpu"]], laws) for row in chosen])

    laws = shaped(walk(flat(shipped().laws), loss, int(sys.argv[1]) if len(sys.argv) > 1 else 2400, 3))
    bands = fitted_bands([(row, residual(row, machines[row.values["gpu"]], laws)) for row in chosen])
    write(laws, devices, other, bands)


def fitted_bands(found: list[tuple[Any, float]]) -> dict[str, dict[str, float]]:
    """By quantity, 1.2 times what 90 % of the fitted figures keep within; a quarter more for a card on its datasheet.

    More than the 80 % that are promised, since figures that were not fitted lie farther out than those that were;
    twice instead of 1.2 times where fewer than 20 figures speak.
    """
    errors: dict[str, list[float]] = defaultdict(list)
    for row, error in found:
        errors[band_of(row)].append(abs(error))
    measured = {}
    for kind in KINDS:
        widest = WIDEST.get(kind, 0.6)
        seen = errors[kind]
        margin = 1.2 if len(seen) >= 20 else 2.0
        measured[kind] = min(widest, margin * float(np.quantile(seen, 0.9))) if len(seen) >= 5 else widest
    return {"measured": measured, "assumed": {kind: 1.25 * band for kind, band in measured.items()}}


def write(laws: Laws, devices: dict[str, DeviceLaw], other: DeviceLaw, bands: dict[str, dict[str, float]]) -> None:
    """laws.yaml, four digits a constant."""

    def plain(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: plain(item) for key, item in value.items()}
        if isinstance(value, Laws | DeviceLaw):
            return {name: plain(getattr(value, name)) for name in value.__match_args__}
        return float(f"{value:.4g}")

    text = yaml.safe_dump(
        {
            **plain({"laws": laws, "devices": devices, "other_devices": other}),
            "same_chip": SAME_CHIP,
            **plain({"bands": bands}),
        },
        sort_keys=False,
    )
    head = (
        "# Constants of the roofline, written by tests/timing/fit.py; seconds, shares, and natural logarithms (bands).\n"
        "# Sources: tests/data/timing/README.md (aiconfigurator-core 0.12.0, vidur, InferenceX, TensorRT-LLM, llama.cpp).\n"
    )
    LAWS.write_text(head + text, encoding="utf-8")


if __name__ == "__main__":
    main()
