"""exllamav3: one cache of a fixed number of tokens, in pages of 256, shared by all sequences.

    fp16        2 x kv_heads x head_dim x 2 bytes per token and layer; V is as wide as K
    quantized   per 32 numbers k_bits (v_bits) words of 4 bytes and a scale of 2: (bits / 8 + 1 / 16) bytes per number
    a latent    kv_lora_rank in k_bits as above, its rotary part in fp16
    a window    for some models a ring per slot instead, W + 512 rows up to whole pages, in fp16

By default the cache has as many tokens as the sequences need in whole pages, and as many slots as there are sequences.

Worked: 8 heads of 128 at 512 tokens: 2,097,152 bytes; k_bits 4 and v_bits 5: 655,360; a latent of 512 + 64: 589,824.

Source: exllamav3 1.6.5 cache/fp16.py, cache/quant.py and cache/mla.py, executed on a CPU; modules/sliding_attn.py, read.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from kvplan.account import Account, Device, general_account
from kvplan.engine import EngineOption, Options, Reservation
from kvplan.errors import InputError, NotCountableError
from kvplan.growth import PerToken, Window
from kvplan.policy.full import Full
from kvplan.spec import ModelSpec
from kvplan.tensor import CacheTensor, Role
from kvplan.units import ceil_div
from kvplan.workload import Workload

PAGE = 256
HALF = 2
GROUP = 32
OVER = 2 * PAGE
RINGS = ("trinity-", "gemma-4-", "gpt-oss", "laguna-", "mimo-v2", "muse-glimmer", "step-3")
"""Models whose windowed layers are rings; the others keep every token of a window."""

BITS = range(2, 9)


class Exllamav3:
    """exllamav3 in one process."""

    NAME: ClassVar[str] = "exllamav3"
    VERSIONS: ClassVar[tuple[str, ...]] = ("1.6",)
    SUMMARY: ClassVar[str] = "a cache of a fixed number of tokens in pages of 256, fp16 or quantized"
    SOURCE: ClassVar[str] = "exllamav3 1.6.5 cache layers, executed on a CPU; rings read"
    OPTIONS: ClassVar[Mapping[str, EngineOption]] = {
        "max_num_tokens": EngineOption("int", "what the sequences need", "tokens of the cache, a multiple of 256"),
        "max_batch_size": EngineOption("int", "the batch", "slots of rings"),
        "k_bits": EngineOption("int", "fp16", "bits per number of K, 2 to 8"),
        "v_bits": EngineOption("int", "k_bits", "bits per number of V, 2 to 8"),
        "swa_full": EngineOption("bool", "false", "windowed layers keep every token in all models"),
    }

    def reserve(
        self, spec: ModelSpec, workload: Workload, options: Options, version: str, budget_bytes: int | None = None
    ) -> Reservation:
        """The cache and its rings."""
        _check(spec, workload)
        tokens, slots, bits = _tokens(workload, options), _slots(workload, options), _bits(options)
        rings = spec.name.startswith(RINGS) and not options.get("swa_full", False)
        pages = ring_bytes = kept = 0
        for count, layer in spec.layers():
            pair = layer.tensors()
            window = _window(spec, pair)
            if window is None or not rings:
                pages += count * tokens * _row_bytes(spec, pair, bits)
                kept += count if window is not None else 0
            else:
                rows = ceil_div(window + OVER, PAGE) * PAGE
                ring_bytes += count * slots * rows * _row_bytes(spec, pair, None)
        figures: dict[str, Any] = {"max_num_tokens": tokens, "kv_bytes": pages + ring_bytes, "page_bytes": pages}
        if ring_bytes:
            figures |= {"ring_bytes": ring_bytes, "max_batch_size": slots}
        why = _reasons(spec, workload, tokens, bits, bool(ring_bytes), bool(kept))
        return Reservation(self.NAME, version, pages + ring_bytes, figures, why)

    def given_budget(self, spec: ModelSpec, workload: Workload, options: Options, version: str) -> int | None:
        """None: the cache is as large as its tokens."""
        return None

    def account(self, spec: ModelSpec, workload: Workload, options: Options, version: str, device: Device) -> Account:
        """The general account: the loader fills a card and leaves what is not asked for."""
        return general_account(device)

    def dip_tokens(self, spec: ModelSpec, workload: Workload, options: Options) -> int:
        """0: pages never fall with the context."""
        return 0


def _check(spec: ModelSpec, workload: Workload) -> None:
    """Refuse what was not counted for the engine."""
    for option, ranks in (("--tp", workload.tp), ("--pp", workload.pp), ("--dcp", workload.dcp)):
        if ranks > 1:
            raise InputError(f"{option}: found {ranks}, but exllamav3 is counted for one card", f"leave out {option}")
    if not isinstance(workload.policy, Full):
        raise InputError(
            f"--policy: found {workload.policy_text}, but exllamav3 keeps every row", "--policy full, or --engine ideal"
        )
    if workload.mtp:
        raise InputError(
            f"--mtp: found {workload.mtp}, but drafts have a cache of their own in exllamav3", "leave out --mtp"
        )
    for option, name in (("--k-dtype", workload.k_dtype), ("--v-dtype", workload.v_dtype)):
        if name not in (None, "fp16"):
            raise InputError(f"{option}: found {name}, but exllamav3 caches in fp16", "-E k_bits=8, or fp16")


def _tokens(workload: Workload, options: Options) -> int:
    """Tokens of the cache: as stated, or whole pages for every sequence, shared pages once."""
    each = ceil_div(workload.context, PAGE) * PAGE
    needed = workload.batch * each - (workload.batch - 1) * (workload.prefix // PAGE * PAGE)
    stated = int(options.get("max_num_tokens", needed))
    if stated % PAGE:
        raise InputError(
            f"-E max_num_tokens: found {stated:,}, allowed multiples of {PAGE}",
            f"-E max_num_tokens={ceil_div(stated, PAGE) * PAGE}",
        )
    if stated < needed:
        raise InputError(
            f"-E max_num_tokens: found {stated:,}, but the sequences need {needed:,}", f"-E max_num_tokens={needed}"
        )
    return stated


def _slots(workload: Workload, options: Options) -> int:
    slots = int(options.get("max_batch_size", workload.batch))
    if slots < workload.batch:
        raise InputError(
            f"-E max_batch_size: found {slots:,}, but --batch is {workload.batch:,}",
            f"-E max_batch_size={workload.batch}",
        )
    return slots


def _bits(options: Options) -> tuple[int, int] | None:
    if "k_bits" not in options:
        if "v_bits" in options:
            raise InputError("-E v_bits: says nothing without k_bits", f"-E k_bits={options['v_bits']}")
        return None
    bits = int(options["k_bits"]), int(options.get("v_bits", options["k_bits"]))
    for name, found in zip(("k_bits", "v_bits"), bits, strict=True):
        if found not in BITS:
            raise InputError(f"-E {name}: found {found}, exllamav3 takes 2 to 8", f"-E {name}=8")
    return bits


def _window(spec: ModelSpec, pair: tuple[CacheTensor, ...]) -> int | None:
    """The window of a layer of attention, None for full attention or a layer that keeps nothing.

    Raises: NotCountableError for anything else.
    """
    for tensor in pair:
        if tensor.role not in {Role.K, Role.V, Role.LATENT} or not isinstance(tensor.growth, PerToken | Window):
            raise NotCountableError(
                f"{spec.source}: {tensor.name}: is not counted for exllamav3",
                "--engine ideal counts what the architecture needs",
            )
    windows = {t.growth.tokens for t in pair if isinstance(t.growth, Window)}
    return max(windows, default=None)


def _row_bytes(spec: ModelSpec, pair: tuple[CacheTensor, ...], bits: tuple[int, int] | None) -> int:
    """Bytes of one token in one layer."""
    if not pair:
        return 0
    if pair[0].role is Role.LATENT:
        latent, rope = pair[0].elements - pair[0].rope, pair[0].rope
        return _numbers(spec, latent, bits[0] if bits else None) + rope * HALF
    width = max(tensor.elements for tensor in pair)
    return sum(_numbers(spec, width, each) for each in bits or (None, None))


def _numbers(spec: ModelSpec, count: int, bits: int | None) -> int:
    """Bytes of `count` numbers."""
    if bits is None:
        return count * HALF
    if count % GROUP:
        raise InputError(f"-E k_bits: {spec.name} has rows of {count}, no multiple of {GROUP}", "leave out -E k_bits")
    return count // GROUP * (4 * bits + HALF)


def _reasons(
    spec: ModelSpec, workload: Workload, tokens: int, bits: tuple[int, int] | None, rings: bool, kept: bool
) -> tuple[str, ...]:
    found = []
    if bits is not None:
        found.append(f"K in {bits[0]} and V in {bits[1]} bits, a scale per {GROUP} numbers")
    if kept:
        found.append("windowed layers keep every token")
    if rings:
        found.append("rings hold W + 512 rows in whole pages")
    if tokens > workload.context * workload.batch:
        found.append("pages of 256 tokens")
    if any(len({t.elements for t in layer.tensors()}) > 1 for _, layer in spec.layers()):
        found.append("V is as wide as K")
    return tuple(found)


ENGINE = Exllamav3()
