"""What SGLang leaves for its pools: a share of what was free before the weights, less the weights.

    available = free after loading - free before loading x (1 - mem_fraction_static)
              = free before loading x mem_fraction_static - weights

Free before loading is the card less the context and the communicators of its ranks. Activations and graphs live in
the share that is left, so nothing else is taken off. Without the option the share is

    round((memory - reserved) / memory, 3), in MiB
    reserved = 512 + 1.5 x chunked_prefill_size + 128 x tp x pp + 2 x largest decode batch + 8 per prefill graph
               (1,536 for latents in place of the last), at least 10 GiB on cards of more than 60 GiB

Worked: DeepSeek-R1 in fp8 on 8 H200 at 0.82: 139.8 GiB less 2.4 in use, x 0.82 = 112.7, less 79.8 of weights leave
32.9 GiB; 509 thousand tokens of 70,272 bytes were seen, 33.3 GiB.

Source: SGLang 0.5.23 srt/arg_groups/memory_hook.py and srt/mem_cache/kv_cache_configurator.py, read.
"""

from __future__ import annotations

from fractions import Fraction

from kvplan.account import Account, Device, Overhead, Range, asked_share, left_of
from kvplan.activations import gib_range
from kvplan.engine import Options
from kvplan.spec import ModelSpec
from kvplan.tensor import Role
from kvplan.workload import Workload

MIB = 2**20
BEFORE = gib_range(0.8, 0.4, 1.2)
BEFORE_RANKS = gib_range(2.4, 1.2, 4.6)
LOGS = ("'Load weight begin' lines of SGLang logs: RTX 4090, H100, 8 x H200, 8 x MI355X (docs/engines/budget.md)",)
CARDS = ((20, 2048, 8, 8), (35, 4096, 48, 160), (60, 4096, 32, 160), (90, 8192, 256, 512), (160, 8192, 256, 512))
"""(below GiB, chunked_prefill_size, largest decode batch below tp 4, from tp 4 on)."""


def account(spec: ModelSpec, workload: Workload, options: Options, device: Device) -> Account:
    """The share of what is free before loading, and what is not free then."""
    share = _share(spec, workload, options, device)
    usable = device.share(share)
    found = BEFORE_RANKS if device.cards > 1 else BEFORE
    taken = found.each(lambda count: count * share.numerator // share.denominator)
    note = "That share of what context and communicators hold before the weights: 0.7 to 0.9 GiB on one card, 1.9 to 4.4 on eight."
    before = Overhead("communication" if device.cards > 1 else "runtime", taken, note, LOGS)
    kv = left_of(usable, [*device.taken(), before.bytes])
    return Account(usable, (before,), kv.replace(confidence="assumed"))


def _share(spec: ModelSpec, workload: Workload, options: Options, device: Device) -> Fraction:
    """`mem_fraction_static`, or --utilization, or SGLang's default for the card.

    Raises: InputError where both are given and differ.
    """
    asked = asked_share("mem_fraction_static", options.get("mem_fraction_static"), device.utilization)
    if asked is not None:
        return asked
    latent = any(t.role is Role.LATENT for _, layer in spec.runs for t in layer.tensors())
    return default_share(device.total, workload.tp, workload.pp, latent, options.get("chunked_prefill_size"))


def default_share(total: Range, tp: int, pp: int, latent: bool, chunk: object = None) -> Fraction:
    """The default of `mem_fraction_static`.

    >>> default_share(Range.exact(81559 * MIB), 1, 1, False)
    Fraction(83, 100)
    """
    memory = Fraction(total.best, MIB)
    row = next((row for row in CARDS if memory < row[0] * 1024), (0, 16384, 512, 512))
    tokens = int(str(chunk)) if chunk is not None else row[1]
    batch = row[3] if tp >= 4 else row[2]
    graphs = 1536 if latent else 8 * _prefill_graphs(tokens)
    reserved = 512 + Fraction(3, 2) * max(tokens, 2048) + Fraction(tp * pp * 1024, 8) + 2 * batch + graphs
    if memory > 60 * 1024:
        reserved = max(reserved, Fraction(10 * 1024))
    return Fraction(max(1, round((memory - reserved) / memory * 1000)), 1000)


def _prefill_graphs(most: int) -> int:
    """Sizes of captured prefill pieces up to `most` tokens."""
    steps = ((4, 32, 4), (48, 256, 16), (288, 512, 32), (576, 1024, 64), (1280, 4096, 256), (4608, most, 512))
    return sum(len(range(first, min(last, most) + 1, step)) for first, last, step in steps)
