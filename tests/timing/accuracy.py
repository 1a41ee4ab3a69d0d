"""How far predicted times are from published ones, on the figures that were not fitted.

Run it from the checkout: `python tests/timing/accuracy.py` prints the tables of docs/time.md.
"""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Iterable

from data import Row, left_out, rows

from kvplan.catalogue import gpu_named
from kvplan.planner.machine import Bands, machine_of, shipped
from kvplan.planner.timing import predicted
from kvplan.roofline import DeviceLaw, Laws, Machine


def figure(row: Row, machine: Machine, laws: Laws) -> float:
    """What the laws say for the quantity of `row`, in the row's own unit."""
    found = predicted(row.asked, row.shape, machine, laws, row.load, row.values["engine"])
    match row.values["metric"]:
        case "tpot_ms":
            return found.per_token * 1e3
        case "ttft_ms":
            return found.first * 1e3
        case "latency_s":
            return found.first + row.load.output * found.step
        case "decode_tps":
            return row.load.batch / found.step
        case "prefill_tps":
            return row.load.prompt * row.load.batch / found.prefill
        case _:  # output tokens per second of one card
            cards = row.asked.workload.ranks
            return found.rate / cards


def band_of(row: Row) -> str:
    """Which band the quantity of `row` belongs to."""
    kind = "moe" if row.shape.experts else "dense"
    match row.values["metric"]:
        case "ttft_ms":
            return "first"
        case "prefill_tps":
            return "prefill"
        case "output_tps_per_gpu":
            return f"rate_{kind}"
        case _:
            return f"decode_{kind}"


def residual(row: Row, machine: Machine, laws: Laws) -> float:
    """The natural logarithm of predicted over published."""
    return math.log(figure(row, machine, laws) / row.values["value"])


def compared() -> list[tuple[Row, Machine, float]]:
    """Every judged figure with its machine and residual under the shipped laws."""
    laws = shipped().laws
    found = []
    for row in rows():
        machine = machine_of(gpu_named(row.values["gpu"]))
        found.append((row, machine, residual(row, machine, laws)))
    return found


def bare_machine(machine: Machine) -> Machine:
    """The card as its datasheet has it: every byte and FLOP at the full rate, no kernel with a cost of its own."""
    return machine.replace(law=DeviceLaw(1.0, 1.0, 0.0, 0.0))


def bare_laws(laws: Laws) -> Laws:
    """Laws that know nothing but rates: no shares, no fixed costs, no host; a first token is its prompt's pass."""
    ones = {"compute_share": dict.fromkeys(laws.compute_share, 1.0), "host_factor": {}}
    shares = {name: 1.0 for name in laws.__match_args__ if name.endswith("_share") and name != "compute_share"}
    costs = {name: 0.0 for name in laws.__match_args__ if name.endswith("_seconds")}
    return laws.replace(**{**ones, **shares, **costs, "launch_share": 0.0, "first_prompts": 1.0, "first_steps": 0.0})


def bare_error() -> float:
    """The median absolute error of a bare datasheet roofline, on the decode figures that were not fitted."""
    laws = bare_laws(shipped().laws)
    held = [(row, machine) for row, machine, _ in compared() if not row.fitted and row.values["metric"] != "ttft_ms"]
    return statistics.median(abs(math.expm1(residual(row, bare_machine(machine), laws))) for row, machine in held)


def summary(items: Iterable[tuple[Row, Machine, float]], bands: Bands) -> tuple[int, float, float, float]:
    """(figures, median absolute error, share inside the interval, median high over low)."""
    errors, inside, widths = [], [], []
    for row, machine, error in items:
        band = (bands.measured if machine.measured else bands.assumed)[band_of(row)]
        errors.append(abs(math.expm1(error)))
        inside.append(abs(error) <= band)
        widths.append(math.exp(2 * band))
    return len(errors), statistics.median(errors), sum(inside) / len(inside), statistics.median(widths)


def table(groups: dict[str, list[tuple[Row, Machine, float]]], name: str, bands: Bands) -> list[str]:
    """A Markdown table with a row a group."""
    lines = [f"| {name} | figures | median error | inside | high / low |", "| --- | --- | --- | --- | --- |"]
    for group, items in sorted(groups.items()):
        count, error, inside, width = summary(items, bands)
        lines.append(f"| {group} | {count} | {error:.0%} | {inside:.0%} | {width:.1f} |")
    return lines


def report() -> str:
    """The tables of docs/time.md."""
    bands = shipped().bands
    found = compared()
    held = [item for item in found if not item[0].fitted]
    parts = []
    for title, key in (
        ("quantity", lambda item: item[0].kind),
        ("card", lambda item: f"{item[1].name} ({'own kernels' if item[1].measured else 'datasheet'})"),
        ("engine", lambda item: item[0].values["engine"]),
    ):
        groups: dict[str, list[tuple[Row, Machine, float]]] = defaultdict(list)
        for item in held:
            groups[key(item)].append(item)
        parts.append("\n".join(table(groups, title, bands)))
    halves = {
        "not fitted": held,
        "fitted": [item for item in found if item[0].fitted],
        "decode, not fitted": [item for item in held if item[0].values["metric"] != "ttft_ms"],
    }
    parts.insert(0, "\n".join(table(halves, "half", bands)))
    parts.append(
        f"A bare datasheet roofline, without any constant, is {bare_error():.0%} off on the same decode figures."
    )
    why: dict[str, int] = defaultdict(int)
    for reason in left_out().values():
        why[reason.split(":")[0]] += 1
    parts.append(f"Left out: {', '.join(f'{count} ({reason})' for reason, count in sorted(why.items()))}.")
    return "\n\n".join(parts)


if __name__ == "__main__":
    print(report())
