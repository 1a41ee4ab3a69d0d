"""Work over rates: what one forward pass takes on a device, with what binds it.

A pass is a sum over its kernels of

    (memory^4 + compute^4)^(1/4)  +  a share of the kernel's fixed cost

with memory = bytes / (bandwidth x a share) and compute = FLOPs / (rate x a share), the transfers of tensor
parallelism, and what the host does between passes. The fourth power is a soft maximum: 19 % above either
where both are equal. The shares and costs are data (`laws.yaml`): per device from kernels timed one by one,
the rest from whole engines.

Worked: 16 GB of bf16 weights read once at 3,350 GB/s and a share of 0.87 take 5.5 ms.

Source: the roofline model (Williams et al. 2009); `tests/timing/fit.py` and its data for every constant.
"""

from __future__ import annotations

from math import log2

from kvplan.record import Record

SHARPNESS = 4


class DeviceLaw(Record):
    """What one device's kernels reach: shares of its bandwidth, and the fixed cost of a kernel in seconds."""

    linear_share: float
    attention_share: float
    linear_seconds: float
    attention_seconds: float


class Laws(Record):
    """Constants of every device; seconds and shares.

    launch_share: of a kernel's fixed cost that a pass pays, where kernels follow each other.
    expert_kernels: fixed costs that a layer of experts adds to the four of a dense one.
    compute_share: of the rate, by arithmetic; expert_compute_share is on top of it.
    host: per step and per sequence, times a factor by engine. all_reduce: per call, and per doubling of ranks.
    first: time to first token of a request that joins others: a constant, passes of its prompt, steps.
    """

    launch_share: float
    expert_kernels: float
    compute_share: dict[str, float]
    expert_compute_share: float
    prefill_attention_share: float
    decode_attention_share: float
    fp8_cache_share: float
    head_seconds: float
    host_seconds: float
    host_sequence_seconds: float
    host_factor: dict[str, float]
    all_reduce_seconds: float
    all_reduce_doubling_seconds: float
    unswitched_factor: float
    link_share: float
    first_seconds: float
    first_prompts: float
    first_steps: float


class Machine(Record):
    """One card's rates and law, and its link to the others. bandwidth, link: bytes per second; flops by arithmetic."""

    name: str
    bandwidth: float
    flops: dict[str, float]
    link: float
    switched: bool
    law: DeviceLaw
    measured: bool


class Work(Record):
    """What one rank does in one forward pass: bytes, FLOPs, calls.

    arithmetic: `bf16`, `fp8` or `fp4`, of the weights. decode: one token a sequence, attention reads the cache.
    sequence_heads: sequences x KV heads x layers that attend. message_bytes: sent over the link by one rank.
    """

    linear_bytes: float
    linear_flops: float
    expert_bytes: float
    expert_flops: float
    attention_bytes: float
    attention_flops: float
    sequence_heads: float
    layers: int
    ranks: int
    message_bytes: float
    arithmetic: str
    decode: bool
    fp8_cache: bool = False


class Seconds(Record):
    """One pass: its time, and the time each resource alone would take."""

    total: float
    memory: float
    compute: float
    latency: float
    link: float

    @property
    def bound(self) -> str:
        """The resource that alone takes longest."""
        return max(("memory", "compute", "latency", "link"), key=lambda name: getattr(self, name))


def soft_maximum(first: float, second: float) -> float:
    """Between the larger of two times and their sum, close to the larger.

    >>> round(soft_maximum(1.0, 0.5), 3), round(soft_maximum(1.0, 1.0), 3)
    (1.015, 1.189)
    """
    return float((first**SHARPNESS + second**SHARPNESS) ** (1 / SHARPNESS))


def pass_seconds(work: Work, machine: Machine, laws: Laws) -> Seconds:
    """What `work` takes on `machine`, the host's own time left out."""
    law, rate = machine.law, machine.flops[work.arithmetic] * laws.compute_share[work.arithmetic]
    linear = work.linear_bytes / (machine.bandwidth * law.linear_share), work.linear_flops / rate
    experts = (
        work.expert_bytes / (machine.bandwidth * law.linear_share),
        work.expert_flops / (rate * laws.expert_compute_share),
    )
    share = law.attention_share * (laws.fp8_cache_share if work.fp8_cache else 1.0)
    reach = laws.decode_attention_share if work.decode else laws.prefill_attention_share
    attention = (
        work.attention_bytes / (machine.bandwidth * share),
        work.attention_flops / (machine.flops["bf16"] * reach),
    )
    kernels = (4 + (laws.expert_kernels if work.expert_bytes else 0)) * law.linear_seconds + law.attention_seconds
    latency = laws.launch_share * work.layers * kernels + laws.head_seconds * work.sequence_heads
    link = 0.0
    if work.ranks > 1:
        calls = laws.all_reduce_seconds + laws.all_reduce_doubling_seconds * log2(work.ranks)
        latency += 2 * work.layers * calls * (1.0 if machine.switched else laws.unswitched_factor)
        link = work.message_bytes / (machine.link * laws.link_share)
    return Seconds(
        total=sum(soft_maximum(*pair) for pair in (linear, experts, attention)) + latency + link,
        memory=linear[0] + experts[0] + attention[0],
        compute=linear[1] + experts[1] + attention[1],
        latency=latency,
        link=link,
    )


def host_seconds(sequences: float, engine: str | None, laws: Laws) -> float:
    """What the host does between two passes: scheduling, sampling, detokenising."""
    factor = laws.host_factor.get(engine or "", 1.0)
    return (laws.host_seconds + laws.host_sequence_seconds * sequences) * factor
