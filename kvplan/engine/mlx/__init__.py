"""mlx: the bytes that the cache objects of mlx-lm hold as `generate_step` runs, and the most they held on the way.

`kv_bytes` is what they hold at the end. A windowed layer holds more while a long prompt is read, and a cache that
is quantized from `quantized_kv_start` on held the model's dtype before; that is `peak_bytes`, and what the engine
reserves, since it has to fit as well. Both are `nbytes` of the caches between two steps.

Worked: Llama-3.1-8B at 300 tokens: 512 rows of 131,072 bytes, 67,108,864.

Source: mlx-lm 0.32.2 mlx_lm/models/cache.py and generate.py, executed on a CPU and compared byte for byte.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import ClassVar

from kvplan.account import Account, Device
from kvplan.engine import EngineOption, Options, Reservation
from kvplan.engine.mlx.budget import account
from kvplan.engine.mlx.layers import Cache, Quantized, caches_of
from kvplan.engine.mlx.rows import STEP, Feed
from kvplan.errors import InputError
from kvplan.formats import format_named
from kvplan.policy.full import Full
from kvplan.spec import ModelSpec
from kvplan.workload import Workload

BITS = (2, 3, 4, 5, 6, 8)
GROUPS = (32, 64, 128)
KEEP = 4
Caches = list[tuple[int, Cache]]


class Mlx:
    """mlx-lm in one process."""

    NAME: ClassVar[str] = "mlx"
    VERSIONS: ClassVar[tuple[str, ...]] = ("0.32",)
    SUMMARY: ClassVar[str] = "what the caches of mlx-lm hold, in one process"
    SOURCE: ClassVar[str] = "mlx-lm 0.32.2 mlx_lm/models/cache.py, executed and weighed"
    OPTIONS: ClassVar[Mapping[str, EngineOption]] = {
        "max_tokens": EngineOption("count", "0", "tokens of the context that are generated, one by one"),
        "prefill_step_size": EngineOption("int", "2048", "tokens of the prompt that are read at a time"),
        "max_kv_size": EngineOption("int", "no bound", "rows of a rotating cache, for models without their own"),
        "kv_bits": EngineOption("int", "not quantized", "bits per number: 2, 3, 4, 5, 6 or 8"),
        "kv_group_size": EngineOption("int", "64", "numbers that share a scale and a bias: 32, 64 or 128"),
        "quantized_kv_start": EngineOption("count", "5000", "tokens from which on the cache is quantized"),
    }

    def reserve(
        self, spec: ModelSpec, workload: Workload, options: Options, version: str, budget_bytes: int | None = None
    ) -> Reservation:
        """The most the caches hold; `kv_bytes` is what they hold at the end."""
        _check(spec, workload)
        run = _run(spec, workload, options)
        caches = run.caches
        held, peak = run.bytes(run.feed), max(run.bytes(feed) for feed in run.moments())
        figures = {
            "rows": max((cache.rows(run.feed) for _, cache in caches), default=0),
            "kv_bytes": workload.batch * held,
            "peak_bytes": workload.batch * peak,
            "caches": [
                {
                    "name": "QuantizedKVCache" if run.packs(cache, run.feed) else cache.name,
                    "layers": count,
                    "rows": cache.rows(run.feed),
                    "bytes": workload.batch * count * cache.bytes(run.feed, run.quantized(run.feed)),
                }
                for count, cache in caches
            ],
        }
        return Reservation(self.NAME, version, workload.batch * peak, figures, tuple(_reasons(run, peak > held)))

    def given_budget(self, spec: ModelSpec, workload: Workload, options: Options, version: str) -> int | None:
        """None: mlx-lm takes what it needs, when it needs it."""
        return None

    def account(self, spec: ModelSpec, workload: Workload, options: Options, version: str, device: Device) -> Account:
        """The working set, less the model and one piece of a prompt."""
        return account(spec, workload, options, device)

    def dip_tokens(self, spec: ModelSpec, workload: Workload, options: Options) -> int:
        """Where bytes fall as a sequence grows: pieces that are no multiple of 256, and the start of quantization."""
        run = _run(spec, workload, options)
        steps = 0 if run.feed.step % STEP == 0 else 2 * (run.feed.step + STEP)
        if run.chosen is None:
            return steps
        wide = sum(count * cache.row_bytes for count, cache in run.caches)
        packed = sum(count * (cache.quantized_row_bytes or cache.row_bytes) for count, cache in run.caches)
        return steps + int(Fraction(wide * (run.chosen.start + STEP), max(1, packed))) + 2 * run.feed.step


class Run:
    """One run of `generate_step`: its caches, what they are fed, and how they are quantized."""

    def __init__(self, caches: Caches, feed: Feed, chosen: Quantized | None, bounded: bool) -> None:
        self.caches, self.feed, self.chosen, self.bounded = caches, feed, chosen, bounded

    def quantized(self, feed: Feed) -> bool:
        """True once a step ended at `quantized_kv_start` tokens or more."""
        return self.chosen is not None and feed.tokens >= self.chosen.start

    def packs(self, cache: Cache, feed: Feed) -> bool:
        """True where `cache` is quantized after `feed`."""
        return self.quantized(feed) and cache.quantized_row_bytes is not None

    def bytes(self, feed: Feed) -> int:
        """Bytes of one sequence after `feed`."""
        quantized = self.quantized(feed)
        return sum(count * cache.bytes(feed, quantized) for count, cache in self.caches)

    def moments(self) -> Iterator[Feed]:
        """The steps after which the caches may hold the most: the last whole piece, the last piece, before packing, the end."""
        feed = self.feed
        whole = feed.bulk // feed.step * feed.step
        for bulk in {whole, feed.bulk} - {0}:
            yield Feed(bulk, feed.step, 0)
        if self.chosen is not None and feed.tokens >= self.chosen.start > 1:
            last = self.chosen.start - 1
            before = last if last >= feed.bulk else last // feed.step * feed.step
            if before:
                yield Feed(before, feed.step, max(0, before - feed.bulk))
        yield feed


def _run(spec: ModelSpec, workload: Workload, options: Options) -> Run:
    """What the options say, checked.

    Raises: InputError for options mlx-lm refuses together.
    """
    tokens, step = workload.context, int(options.get("prefill_step_size", 2048))
    feed = Feed(tokens, step, min(tokens, 1 + int(options.get("max_tokens", 0))))
    bound = int(options["max_kv_size"]) if "max_kv_size" in options else None
    if bound is not None and bound <= KEEP:
        raise InputError(
            f"-E max_kv_size: found {bound}, allowed more than the {KEEP} rows that are always kept",
            "-E max_kv_size=4096",
        )
    chosen = _quantized(options)
    active = chosen if chosen is not None and tokens >= chosen.start else None
    caches = caches_of(spec, bound, active)
    rotating = any(cache.name == "RotatingKVCache" for _, cache in caches)
    if active is not None and rotating:
        raise InputError(
            f"-E kv_bits: mlx-lm 0.32 cannot quantize a rotating cache, and {spec.name} has one here",
            "leave out -E max_kv_size" if bound is not None else "leave out -E kv_bits",
        )
    if workload.batch > 1 and any(cache.name == "ChunkedKVCache" for _, cache in caches):
        raise InputError(
            f"--batch: found {workload.batch:,}, but mlx-lm cannot batch {spec.name}, whose layers keep chunks",
            "leave out --batch",
        )
    if workload.batch > 1 and chosen is not None:
        raise InputError(
            f"--batch: found {workload.batch:,}, but mlx-lm batches no quantized cache", "leave out --batch"
        )
    return Run(caches, feed, active, bound is not None)


def _quantized(options: Options) -> Quantized | None:
    if "kv_bits" not in options:
        for option in ("kv_group_size", "quantized_kv_start"):
            if option in options:
                raise InputError(f"-E {option}: says nothing without kv_bits", "-E kv_bits=4")
        return None
    bits, group = int(options["kv_bits"]), int(options.get("kv_group_size", 64))
    if bits not in BITS:
        raise InputError(f"-E kv_bits: found {bits}, mlx takes {', '.join(map(str, BITS))}", "-E kv_bits=4")
    if group not in GROUPS:
        raise InputError(
            f"-E kv_group_size: found {group}, mlx takes {', '.join(map(str, GROUPS))}", "-E kv_group_size=64"
        )
    return Quantized(bits, group, int(options.get("quantized_kv_start", 5000)))


def _check(spec: ModelSpec, workload: Workload) -> None:
    """Refuse what mlx-lm's caches do not do."""
    for option, ranks in (("--tp", workload.tp), ("--pp", workload.pp), ("--dcp", workload.dcp)):
        if ranks > 1:
            raise InputError(f"{option}: found {ranks}, but mlx is counted for one process", f"leave out {option}")
    if not isinstance(workload.policy, Full):
        raise InputError(
            f"--policy: found {workload.policy_text}, but mlx-lm keeps every row", "-E max_kv_size= bounds the rows"
        )
    if workload.prefix:
        raise InputError(
            f"--prefix: found {workload.prefix:,}, but mlx-lm shares no rows between sequences", "leave out --prefix"
        )
    if workload.mtp:
        raise InputError(f"--mtp: found {workload.mtp}, but mlx-lm loads no draft layers", "leave out --mtp")
    dtype = spec.fields.dtype
    for option, name in (("--k-dtype", workload.k_dtype), ("--v-dtype", workload.v_dtype)):
        if name is not None and format_named(name, option).name != dtype:
            raise InputError(
                f"{option}: found {name}, but mlx-lm caches in the model's dtype, {dtype}",
                "leave out --kv-dtype; -E kv_bits=4 or 8 quantizes",
            )


def _reasons(run: Run, peaks: bool) -> Iterator[str]:
    names = {cache.name for _, cache in run.caches}
    if run.bounded and "RotatingKVCache" in names:
        yield "max_kv_size bounds the rows, unless the model makes its own caches, as Llama does"
    if run.chosen is not None:
        yield f"numbers of {run.chosen.bits} bits, a scale and a bias per {run.chosen.group_size}"
        if peaks:
            yield f"in the model's dtype before {run.chosen.start:,} tokens"
    elif peaks:
        yield "windows hold a piece of the prompt beside W - 1 rows"
    if "KVCache" in names or "ChunkedKVCache" in names:
        yield "rows grow in steps of 256"
    if "ArraysCache" in names:
        yield "states in the dtype that mlx-lm's code sets"


ENGINE = Mlx()
