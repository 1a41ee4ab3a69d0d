"""What TensorRT-LLM leaves for its blocks: a fraction of what weights, activations and everything else leave.

    left   = total - peak of a run of max_num_tokens - what is in use outside of tensors (context, NCCL, graphs)
    budget = left x free_gpu_memory_fraction

The fraction is of what is left, unlike vLLM's, which is of the whole card. Ranks take the fewest.

Worked: Qwen1.5-7B on a card of 39.39 GiB printed 21.89 GiB left: 14.38 of weights and 3.12 of everything else.

Source: TensorRT-LLM 1.2 _torch/pyexecutor/_util.py (the estimate of the cache), read.
"""

from __future__ import annotations

from fractions import Fraction

from kvplan.account import Account, Device, Overhead, Range, asked_share, left_of
from kvplan.activations import forward_bytes, gib_range, peak_elsewhere
from kvplan.engine import Options
from kvplan.spec import ModelSpec
from kvplan.workload import Workload

FRACTION = Fraction(9, 10)
MAX_NUM_TOKENS = 8192
OUTSIDE = gib_range(1.5, 0.4, 3.0)
OUTSIDE_RANKS = gib_range(3.0, 1.0, 6.0)
LOGS = ("memory profiles that TensorRT-LLM printed (docs/reference/logged-budgets.md)",)


def account(spec: ModelSpec, workload: Workload, options: Options, device: Device) -> Account:
    """The whole card, less all that is in use, and the share of the rest that stays free."""
    asked = asked_share("free_gpu_memory_fraction", options.get("free_gpu_memory_fraction"), device.utilization)
    share = FRACTION if asked is None else asked
    usable = device.share(Fraction(1))
    overheads = (_activations(spec, workload, device), _outside(device))
    left = left_of(usable, [*device.taken(), *(overhead.bytes for overhead in overheads)])
    kept = left.each(lambda count: max(0, count) * share.numerator // share.denominator + min(0, count))
    free = Range(left.best - kept.best, left.low - kept.low, left.high - kept.high, "assumed")
    note = f"The part of what is left that free_gpu_memory_fraction={float(share):g} does not take."
    beside = Overhead("left_free", free, note, ("TensorRT-LLM 1.2 _torch/pyexecutor/_util.py",))
    return Account(usable, (*overheads, beside), kept.replace(confidence="assumed"))


def _activations(spec: ModelSpec, workload: Workload, device: Device) -> Overhead:
    dimensions = spec.fields.dimensions
    if dimensions is None:
        return peak_elsewhere(device.runtime)
    found = forward_bytes(dimensions, MAX_NUM_TOKENS, workload.tp)
    return Overhead("activations", found, f"A forward pass of max_num_tokens, {MAX_NUM_TOKENS:,} tokens.", LOGS)


def _outside(device: Device) -> Overhead:
    if device.cards > 1:
        note = "Context, NCCL and graphs of each rank."
        return Overhead("communication", OUTSIDE_RANKS, note, LOGS)
    return Overhead("runtime", OUTSIDE, "Context and graphs: about 2.4 GiB in a log.", LOGS)
