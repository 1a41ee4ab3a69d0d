"""What vLLM leaves for the cache: a share of the card, less everything its profile run finds in use.

    requested = total x gpu_memory_utilization, rounded up
    available = requested - weights - growth outside of tensors - peak of the profile run - CUDA graphs

The profile run passes `max_num_batched_tokens` tokens and then samples for as many of `max_num_seqs` sequences;
the larger of the two peaks counts. Graphs are subtracted since 0.21. The CUDA context is older than the first
snapshot, so it lies in the share that is left free.

Worked: Llama-3.1-8B on an H100 of 79.18 GiB at 0.9: 71.26 GiB requested, 14.99 weights, 0.13 outside, 4.76 peak
(1,024 x 128,256 logits of 38.9 bytes) leave 51.38.

Source: vLLM 0.33.0 v1/worker/gpu_worker.py (determine_available_memory), read; constants from its logs,
docs/reference/logged-budgets.md.
"""

from __future__ import annotations

from fractions import Fraction

from kvplan.account import Account, Device, Overhead, Range, asked_share, left_of
from kvplan.activations import GIB, forward_bytes, gib_range, larger, logit_bytes, peak_elsewhere
from kvplan.engine import Options
from kvplan.engine.vllm.versions import Profile
from kvplan.spec import ModelSpec
from kvplan.workload import Workload

PER_LOGIT = (32, 16, 42)
"""Bytes per logit while sampling, (best, low, high): 38 to 39 in V0 and V1 up to 0.13, 29 to 33 in 0.19 and 0.22."""

OUTSIDE = gib_range(0.2, 0.03, 0.6)
OUTSIDE_RANKS = gib_range(0.9, 0.25, 2.4)
GRAPHS = gib_range(0.65, 0.2, 1.3)
GRAPHS_RANKS = gib_range(1.3, 0.3, 2.8)
LOGS = ("memory profiles that vLLM 0.6 to 0.27 printed (docs/reference/logged-budgets.md)",)


def account(spec: ModelSpec, workload: Workload, options: Options, profile: Profile, device: Device) -> Account:
    """The share, and what the profile run takes from it."""
    usable = _requested(device, _utilization(options, profile, device))
    overheads = [_activations(spec, workload, options, device), _outside(device)]
    if profile.graphs and not options.get("enforce_eager", False):
        overheads.append(_graphs(device))
    kv = left_of(usable, [*device.taken(), *(overhead.bytes for overhead in overheads)])
    return Account(usable, tuple(overheads), kv.replace(confidence="assumed"))


def _utilization(options: Options, profile: Profile, device: Device) -> Fraction:
    """The share that the engine's option or --utilization asks for, else the release's default.

    Raises: InputError where both are given and differ.
    """
    asked = asked_share("gpu_memory_utilization", options.get("gpu_memory_utilization"), device.utilization)
    return profile.utilization if asked is None else asked


def _requested(device: Device, utilization: Fraction) -> Range:
    """That share of the total, rounded up, below every ceiling."""
    return device.total.each(
        lambda total: min([-(-total * utilization.numerator // utilization.denominator), *device.ceilings])
    )


def scheduler_defaults(name: str, total_bytes: int) -> tuple[int, int]:
    """(tokens, sequences) of a step of the API server on a card.

    >>> scheduler_defaults("h100-sxm-80gb", 84943715696), scheduler_defaults("l40s", 47809101824)
    ((8192, 1024), (2048, 256))
    """
    if total_bytes >= 160 * GIB:
        return 16384, 1024
    if total_bytes >= 70 * GIB and not name.startswith(("a100", "gb10")):
        return 8192, 1024
    return 2048, 256


def _activations(spec: ModelSpec, workload: Workload, options: Options, device: Device) -> Overhead:
    tokens, sequences = scheduler_defaults(device.name, device.total.best)
    tokens = int(options.get("max_num_batched_tokens", tokens))
    sequences = min(tokens, int(options.get("max_num_seqs", sequences)))
    dimensions = spec.fields.dimensions
    if dimensions is None:
        return peak_elsewhere(device.runtime)
    forward = forward_bytes(dimensions, tokens, workload.tp)
    logits = logit_bytes(dimensions, sequences, PER_LOGIT)
    what = f"{tokens:,} tokens of a forward pass, or {sequences:,} x {dimensions.vocab_size:,} logits"
    return Overhead("activations", larger(forward, logits), f"The larger peak of the profile run: {what}.", LOGS)


def _outside(device: Device) -> Overhead:
    if device.cards > 1:
        note = "Collectives and workspaces outside of tensors, and buffers: 0.25 to 2.10 GiB in logs of several ranks."
        return Overhead("communication", OUTSIDE_RANKS, note, LOGS)
    return Overhead("runtime", OUTSIDE, "Growth outside of tensors, and buffers: 0.01 to 0.4 GiB in logs.", LOGS)


def _graphs(device: Device) -> Overhead:
    found = GRAPHS_RANKS if device.cards > 1 else GRAPHS
    return Overhead("graphs", found, "CUDA graphs, which vLLM estimates at start: 0.22 to 2.73 GiB in logs.", LOGS)
