"""How long it takes: a decode step, the prompts, and what clients see under a load, each with its interval."""

from __future__ import annotations

from math import exp

from kvplan.catalogue import gpu_named
from kvplan.errors import InputError
from kvplan.planner.machine import machine_of, shipped
from kvplan.planner.work import Shape, decode_work, prefill_work, shape_of
from kvplan.question import Question, Subject
from kvplan.record import Record
from kvplan.results import SpanResult, TimeResult
from kvplan.roofline import Laws, Machine, Seconds, host_seconds, pass_seconds

NOT_MODELLED = ("queueing", "speculative decoding", "prefix hits", "expert imbalance")


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
