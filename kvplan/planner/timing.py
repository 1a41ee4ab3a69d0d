"""How long it takes: the passes of prefill and decode on a card, and what clients see under a load."""

from __future__ import annotations

from fractions import Fraction
from functools import cache
from math import exp
from typing import TYPE_CHECKING, Any

from kvplan.catalogue import gpu_named, laws_text
from kvplan.compute import attention_work, decode_pair_flops
from kvplan.errors import InputError, NotCountableError
from kvplan.formats import format_named
from kvplan.gpu import Gpu
from kvplan.growth import Constant, PerEncoderToken
from kvplan.question import Question, Subject
from kvplan.record import Record
from kvplan.results import SpanResult, TimeResult
from kvplan.roofline import DeviceLaw, Laws, Machine, Seconds, Work, host_seconds, pass_seconds
from kvplan.spec import ModelSpec
from kvplan.weights import weight_shares

if TYPE_CHECKING:
    from kvplan.workload import Workload

NOT_MODELLED = ("queueing", "speculative decoding", "prefix hits", "expert imbalance")
PCIE_BYTES_PER_SECOND = {"3.0": 16e9, "4.0": 32e9, "5.0": 64e9, "6.0": 128e9}


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


class Shape(Record):
    """What of a model decides its times, on one rank of a layout.

    body: parameters of the layers beside experts; head: of the output head, computed for sampled tokens alone;
    the input's embeddings are looked up and not read. experts: parameters in experts, share: of them that one
    token touches. Bytes are those of one rank.
    """

    body: int
    head: int
    experts: int
    share: Fraction
    body_bytes: int
    head_bytes: int
    expert_bytes: int
    width: int
    arithmetic: str


def shape_of(asked: Subject, given: str | None) -> Shape:
    """The model's parameters, their bytes on a rank, and the width of its hidden state.

    Raises: NotCountableError for a model whose parameters, or active ones among experts, are not known.
    """
    spec, fields = asked.spec, asked.spec.fields
    if fields.parameters is None:
        raise NotCountableError(
            f"{spec.source}: parameters: missing, so no time can be told", "add `parameters:` to the spec"
        )
    experts = sum(part.parameters for part in fields.weights if part.part == "experts")
    rest = fields.parameters - experts
    share = Fraction(0)
    if experts:
        if fields.active_parameters is None:
            raise NotCountableError(
                f"{spec.source}: active_parameters: missing, so the experts a step touches are not known",
                "add `active_parameters:` to the spec",
            )
        share = Fraction(min(max(fields.active_parameters - rest, 0), experts), experts)
    rest_bytes, expert_bytes = weight_shares(spec, asked.workload, given)
    stored = Fraction((rest_bytes + expert_bytes) * 8 * asked.workload.ranks, fields.parameters)
    head, width = 0, _width(spec)
    if fields.dimensions is not None:
        head = min(fields.dimensions.vocab_size * width, rest // 3)
    body = rest - head * (1 if fields.dimensions is None or fields.dimensions.tie_word_embeddings else 2)
    return Shape(
        body=body,
        head=head,
        experts=experts,
        share=share,
        body_bytes=rest_bytes * body // rest,
        head_bytes=head * HEAD_BYTES // asked.workload.tp,
        expert_bytes=expert_bytes,
        width=width,
        arithmetic=_arithmetic(spec, given, stored),
    )


HEAD_BYTES = 2
"""Engines keep the output head in 16 bit, whatever the layers' format."""


def _width(spec: ModelSpec) -> int:
    """The hidden width: as the spec says, else the width of all query heads."""
    if spec.fields.dimensions is not None:
        return spec.fields.dimensions.hidden_size
    widths = [
        (getattr(kind, "heads", None) or 1) * (getattr(kind, "head_dim", None) or 128)
        for _, layer in spec.layers()
        for kind in layer.kinds
    ]
    return max(widths, default=4096)


def _arithmetic(spec: ModelSpec, given: str | None, bits: Fraction) -> str:
    """What the products are computed in: the weights' own format where tensor cores take it."""
    name = given.lower() if given is not None and not given[:1].isdigit() else ""
    if not name:
        formats = {part.format for part in spec.fields.weights} or {spec.fields.dtype}
        name = next(iter(formats)) if len(formats) == 1 else "bf16"
    if name.startswith("fp8"):
        return "fp8"
    if name == "nvfp4":
        return "fp4"
    return "bf16"


def decode_work(asked: Subject, shape: Shape, context: int, batch: float) -> Work:
    """One step of `batch` sequences that each hold `context` tokens, on the fullest rank."""
    w = asked.workload
    held = Fraction(int(asked.plan.rank_bytes(context, 1, 0))) * w.pp
    heads = _kv_heads(asked.spec)
    return _work(
        asked,
        shape,
        tokens=batch,
        sampled=batch,
        attention_bytes=float(held) * batch,
        attention_flops=decode_pair_flops(asked.spec, context) * batch / w.tp,
        sequence_heads=batch * max(1.0, heads / w.tp) * asked.spec.layer_count,
        decode=True,
    )


def prefill_work(asked: Subject, shape: Shape, tokens: int, prompts: int = 1) -> Work:
    """A pass over the prompts of `prompts` sequences of `tokens` tokens."""
    flops = attention_work(asked.spec, tokens).cached_attention_flops * prompts / asked.workload.tp
    return _work(
        asked,
        shape,
        tokens=float(tokens) * prompts,
        sampled=prompts,
        attention_bytes=0.0,
        attention_flops=flops * _unabsorbed(asked.spec),
        sequence_heads=0.0,
        decode=False,
    )


def _work(
    asked: Subject,
    shape: Shape,
    tokens: float,
    sampled: float,
    attention_bytes: float,
    attention_flops: float,
    sequence_heads: float,
    decode: bool,
) -> Work:
    w = asked.workload
    touched = 1 - (1 - float(shape.share)) ** (tokens * w.dp if w.ep > w.tp else tokens)
    expert_ranks = max(w.ep, w.tp) / (w.dp if w.ep > w.tp else 1)
    moved = 2 * 2 * (w.tp - 1) / w.tp * tokens * shape.width * 2 * asked.spec.layer_count
    return Work(
        linear_bytes=float(shape.body_bytes) * w.pp + shape.head_bytes,
        linear_flops=2.0 * (shape.body * tokens + shape.head * sampled) / w.tp,
        expert_bytes=float(shape.expert_bytes) * w.pp * touched,
        expert_flops=2.0 * shape.experts * float(shape.share) * tokens / expert_ranks,
        attention_bytes=attention_bytes,
        attention_flops=attention_flops,
        sequence_heads=sequence_heads,
        layers=asked.spec.layer_count,
        ranks=w.tp,
        message_bytes=moved,
        arithmetic=shape.arithmetic,
        decode=decode,
        fp8_cache=_fp8(w, asked.spec),
    )


def _kv_heads(spec: ModelSpec) -> int:
    """KV heads of the widest attention; the calls of a decode kernel go one by one over them."""
    return max((tensor.shards for _, layer in spec.layers() for tensor in layer.tensors() if _grows(tensor)), default=1)


def _grows(tensor: Any) -> bool:
    return not isinstance(tensor.growth, Constant | PerEncoderToken)


def _fp8(workload: Workload, spec: ModelSpec) -> bool:
    stored = workload.k_dtype or spec.fields.kv_dtype or spec.fields.dtype
    return format_named(stored).name.startswith("fp8")


def _unabsorbed(spec: ModelSpec) -> float:
    """Prefill of a latent expands keys and values: heads of 192 and 128 beside 576 and 512 when absorbed."""
    latent = any(kind.type == "mla" for _, layer in spec.layers() for kind in layer.kinds)
    return (192 + 128) / (576 + 512) if latent else 1.0


class Load(Record):
    """Requests as clients send them: prompt and output tokens, how many at once, replaced at once or not."""

    prompt: int
    output: int
    batch: int
    closed: bool


def time_answer(question: Question, asked: Subject, load: Load) -> TimeResult:
    """Decode step, prefill and what clients see, each with bounds.

    Raises: InputError without a GPU; NotCountableError where a fact about card or model is missing.
    """
    if question.gpu is None:
        raise InputError("--time: needs --gpu, since time passes on a card", "add --gpu, for example --gpu h100")
    gpu = gpu_named(question.gpu) if isinstance(question.gpu, str) else question.gpu
    laws, bands = shipped().laws, shipped().bands
    machine, shape = machine_of(gpu), shape_of(asked, question.weights)
    engine = asked.engine.engine.NAME if asked.engine else None
    found = predicted(asked, shape, machine, laws, load, engine)
    moe = "moe" if shape.experts else "dense"
    band = bands.measured if machine.measured else bands.assumed

    def span(value: float, kind: str) -> SpanResult:
        factor = exp(band[kind])
        return SpanResult(value / factor, value, value * factor)

    return TimeResult(
        decode_step_seconds=span(found.step, f"decode_{moe}"),
        prefill_seconds=span(found.prefill, "prefill"),
        ttft_seconds=span(found.first, "first"),
        tpot_seconds=span(found.per_token, f"decode_{moe}"),
        request_seconds=span(found.first + (load.output - 1) * found.per_token, f"decode_{moe}"),
        tokens_per_second=span(found.rate * asked.workload.dp, f"rate_{moe}"),
        prompt_tokens=load.prompt,
        output_tokens=load.output,
        load="closed" if load.closed else "static",
        batch=load.batch,
        bound=found.bound,
        bound_changes_at=_flip(asked, shape, machine, laws, load, found.bound),
        memory_seconds=found.decode.memory,
        compute_seconds=found.decode.compute,
        latency_seconds=found.decode.latency + found.host,
        link_seconds=found.decode.link,
        confidence="measured" if machine.measured else "assumed",
        not_modelled=NOT_MODELLED,
    )


class Predicted(Record):
    """Best estimates in seconds: a decode step with its parts, all prompts, and what a client sees."""

    decode: Seconds
    host: float
    step: float
    prefill: float
    first: float
    per_token: float
    rate: float
    bound: str


def predicted(
    asked: Subject, shape: Shape, machine: Machine, laws: Laws, load: Load, engine: str | None = None
) -> Predicted:
    """The times of `load` by the laws.

    Closed: a step is shared with the prompts of the requests that replace finished ones, B / M prompts a step.
    Static: all prompts first, then M steps of all sequences.
    """
    middle = load.prompt + load.output // 2
    stages = asked.workload.pp
    in_pass = max(1.0, load.batch / stages)
    decode = pass_seconds(decode_work(asked, shape, middle, in_pass), machine, laws)
    prompt = pass_seconds(prefill_work(asked, shape, load.prompt), machine, laws).total
    host = host_seconds(load.batch, engine, laws)
    step = decode.total + host
    if load.closed:
        cycle = step + load.batch / load.output * prompt
        per_token = cycle if load.output > 1 else step  # one token has no gap before the next
        first = laws.first_seconds + laws.first_prompts * prompt + laws.first_steps * decode.total
        rate = load.batch / cycle
        prefill = load.batch * prompt
    else:
        together = pass_seconds(prefill_work(asked, shape, load.prompt, load.batch), machine, laws).total
        prefill, per_token = load.batch * prompt, step
        first = host + together
        rate = load.batch * load.output / (together + load.output * step)
    bound = _bound(decode, host)
    return Predicted(decode, host, step, prefill, first, per_token, rate, bound)


def _bound(decode: Seconds, host: float) -> str:
    return decode.replace(latency=decode.latency + host).bound


def _flip(asked: Subject, shape: Shape, machine: Machine, laws: Laws, load: Load, bound: str) -> int | None:
    """The smallest larger batch at which something else binds a decode step; None up to a million sequences."""
    engine = asked.engine.engine.NAME if asked.engine else None
    middle = load.prompt + load.output // 2

    def binds(batch: int) -> str:
        work = decode_work(asked, shape, middle, max(1.0, batch / asked.workload.pp))
        return _bound(pass_seconds(work, machine, laws), host_seconds(batch, engine, laws))

    low, high = load.batch, load.batch * 2
    while binds(high) == bound:
        low, high = high, high * 2
        if high > 2**20:
            return None
    while high - low > 1:
        between = (low + high) // 2
        low, high = (between, high) if binds(between) == bound else (low, between)
    return high
