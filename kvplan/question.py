"""One question: a model under one combination of options, and its names resolved.

What a command line, a YAML file or Python asks becomes a `Question`; `subject` finds the spec,
the workload, the engine and the plan it means.
"""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from kvplan.catalogue import Found, gpu_named, model_named
from kvplan.errors import InputError, KvplanError, quoted
from kvplan.footprint import CachePlan, cache_plan
from kvplan.policy import policy_named
from kvplan.record import Record
from kvplan.spec import ModelSpec
from kvplan.tensor import Role
from kvplan.units import MOST_TOKENS, tokens
from kvplan.workload import Workload

if TYPE_CHECKING:
    from kvplan.engine import EngineChoice
    from kvplan.gpu import Gpu

REFUSED_BYTES = 10**30
MOST = -1
"""The batch that stands for as many sequences as fit."""


class Question(Record):
    """One model under one combination of options, as the user wrote them.

    model: a spec, or what names one. ctx: tokens, text such as `128k`, `max`, or None for the maximum.
    gpu, engine, draft: what names them, or None. count: cards, None for tp x pp x dp.
    batch: sequences, or MOST. output_tokens: what each request generates beside its prompt of
    `ctx` tokens, where times are asked for, under `load`; the context is then both.
    lenient: an engine that refuses this workload is an answer (its reason), not an error.
    """

    model: str | ModelSpec
    ctx: int | str | None = None
    batch: int = 1
    k_dtype: str | None = None
    v_dtype: str | None = None
    index_dtype: str = "fp8"
    policy: str = "full"
    tp: int | None = None
    pp: int | None = None
    ep: int = 1
    dp: int | None = None
    dcp: int = 1
    mtp: int = 0
    prefix: int = 0
    encoder_tokens: int | None = None
    engine: str | None = None
    engine_options: tuple[str, ...] = ()
    gpu: str | Gpu | None = None
    count: int | None = None
    utilization: Fraction | None = None
    weights: str | None = None
    available_bytes: int | None = None
    reserve_bytes: int = 0
    draft: str | None = None
    specs: str | None = None
    online: bool = False
    formula: bool = False
    lenient: bool = False
    output_tokens: int | None = None
    load: str = "closed"


class Subject(Record):
    """The question with its names resolved: the spec, the workload, the plan, the engine."""

    spec: ModelSpec
    found: Found | None
    workload: Workload
    plan: CachePlan
    engine: EngineChoice | None
    hints: tuple[str, ...]

    def weigh(self, context: int, batch: int) -> int:
        """Bytes on the fullest rank at another length and batch: the engine's, or the footprint's.

        A length that the engine refuses takes more than any device has.
        """
        prefix = min(self.workload.prefix, context)
        if self.engine is None:
            return int(self.plan.rank_bytes(context, batch, prefix))
        changed = self.workload.replace(context=context, batch=batch, prefix=prefix)
        try:
            return self.engine.reserve(self.spec, changed).least_budget_bytes
        except KvplanError:
            return REFUSED_BYTES


def subject(question: Question) -> Subject:
    """Resolve every name in `question`.

    Raises: InputError, NotCountableError as the parts do.
    """
    if isinstance(question.model, ModelSpec):
        spec, found = question.model, None
    else:
        spec, found = model_named(question.model, question.specs, question.online)
    hints: list[str] = []
    context = context_of(question, spec, hints) + (question.output_tokens or 0)
    if question.weights is not None:
        from kvplan.weights import check_given

        check_given(question.weights)
    tp, pp, dp = layout(question, hints)
    engine = None
    if question.engine is not None or question.engine_options:
        from kvplan.engine import engine_named

        engine = engine_named(question.engine or "ideal", question.engine_options)
        if question.gpu is not None:
            gpu = gpu_named(question.gpu) if isinstance(question.gpu, str) else question.gpu
            engine = engine.on_card(gpu.name, gpu.memory.total_bytes)
    block = int(engine.options.get("block_size", 1)) if engine else 1
    if question.prefix > context:
        Workload(context, prefix=question.prefix)  # refuses, naming both
    workload = Workload(
        context=context,
        batch=max(1, question.batch),
        k_dtype=question.k_dtype,
        v_dtype=value_format(question, spec),
        index_dtype=question.index_dtype,
        policy=policy_named(question.policy),
        policy_text=question.policy,
        tp=tp,
        pp=pp,
        ep=question.ep,
        dp=dp,
        dcp=question.dcp,
        mtp=question.mtp,
        prefix=question.prefix // block * block,
        prefix_block=block,
        encoder_tokens=question.encoder_tokens,
    )
    return Subject(spec, found, workload, cache_plan(spec, workload), engine, tuple(hints))


def value_format(question: Question, spec: ModelSpec) -> str | None:
    """The format asked for values: K's where one latent or entry stands for both and nothing else is said."""
    if question.v_dtype is not None or question.k_dtype is None:
        return question.v_dtype
    keeps_values = any(tensor.role is Role.V for _, layer in spec.runs for tensor in layer.tensors())
    return None if keeps_values else question.k_dtype


def context_of(question: Question, spec: ModelSpec, hints: list[str]) -> int:
    """Tokens of one sequence: as typed, or the model's maximum; what the user should know goes to `hints`.

    Raises: InputError where neither is known, and for what is no number of tokens.
    """
    most = spec.fields.max_context
    if question.ctx is None or question.ctx == "max":
        if most is None:
            raise InputError(
                f"{spec.source}: max_context: missing, and no --ctx was given",
                "add --ctx, for example --ctx 32k",
            )
        if question.ctx is None:
            hints.append(f"no --ctx given: counting the maximum of {spec.name}, {most:,} tokens")
        return most
    context = tokens(question.ctx, "--ctx") if isinstance(question.ctx, str) else question.ctx
    if type(context) is not int or not 1 <= context <= MOST_TOKENS:
        raise InputError(
            f"--ctx: found {quoted(context)}, allowed whole numbers of tokens from 1 to {MOST_TOKENS:,}",
            "for example --ctx 32k",
        )
    if most is not None and context > most:
        hints.append(f"{context:,} tokens are past the maximum of {spec.name}, {most:,}")
    elif (most is not None and most & (most - 1) == 0 and context * 1024 == most * 1000) or (
        most is not None and most & (most - 1) == 0 and context * 1024**2 == most * 1000**2
    ):
        hints.append(f"{spec.name} goes to {most:,} tokens: --ctx max")
    return context


def layout(question: Question, hints: list[str]) -> tuple[int, int, int]:
    """(tp, pp, dp), `--count` alone meaning tensor parallelism over all cards.

    Raises: InputError when the count and the ranks contradict each other.
    """
    tp, pp, dp, count = question.tp, question.pp, question.dp, question.count
    if count is None:
        return tp or 1, pp or 1, dp or 1
    if tp is None:
        rest = (pp or 1) * (dp or 1)
        if count % rest:
            raise InputError(f"--count: found {count}, allowed multiples of pp x dp = {rest}", f"--count {rest}")
        if count // rest > 1:
            hints.append(f"--count {count} without --tp: counting tensor parallelism over {count // rest} cards")
        return count // rest, pp or 1, dp or 1
    ranks = tp * (pp or 1) * (dp or 1)
    if dp is None and count % ranks == 0:
        if count // ranks > 1:
            hints.append(f"--count {count} holds {count // ranks} replicas of {ranks} cards")
        return tp, pp or 1, count // ranks
    if count != ranks:
        raise InputError(
            f"--count: found {count}, but tp x pp x dp is {ranks}",
            f"--count {ranks}, or change --tp, --pp or --dp",
        )
    return tp, pp or 1, dp or 1
