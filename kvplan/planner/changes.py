"""What would make a serve command start: each change counted before it is named, in the engine's own words."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Any

from kvplan.errors import KvplanError
from kvplan.planner.refusals import even_heads
from kvplan.question import Question, subject
from kvplan.results import ChangeResult
from kvplan.sizing import size_answer

MOST_CHANGES = 6
HIGHEST_UTILIZATION = Fraction("0.95")
FORMATS = {"vllm": ("fp8", "fp8"), "sglang": ("fp8_e4m3", "fp8"), "trtllm": ("fp8", "fp8")}
"""engine -> the smaller cache format to try, as the engine and as kvplan spells it."""

BLOCKS = {"llama.cpp": ("q8_0", "q4_0"), "ollama": ("q8_0", "q4_0")}
MOST_RANKS = 64


def changes(question: Question, spelled: Mapping[str, str]) -> tuple[ChangeResult, ...]:
    """The changes after which the workload fits, the gentlest first; none where nothing tried is enough.

    spelled: how the engine writes a change, by field; a field that is missing cannot be changed.
    """
    found: list[ChangeResult] = []
    for text, changed in _candidates(question, spelled):
        if len(found) == MOST_CHANGES:
            break
        try:
            answer = size_answer(changed)
        except KvplanError:
            continue
        gpu = answer.gpu
        if gpu is not None and gpu.fits:
            found.append(ChangeResult(text, gpu.max_context, gpu.max_batch))
    return tuple(found)


def _candidates(question: Question, spelled: Mapping[str, str]) -> Iterator[tuple[str, Question]]:
    """(how it is written, the question with it) of everything that may help."""
    smaller = list(_smaller_caches(question, spelled))
    if "ctx" in spelled:
        yield from _shorter(question, spelled, "")
    if "batch" in spelled and question.batch > 1:
        batch, length = question.batch, subject(question).workload.context
        while batch > 1:
            batch //= 2
            yield spelled["batch"].format(batch, batch * length), question.replace(batch=batch)
    yield from smaller
    if "utilization" in spelled and question.utilization is not None and question.utilization < HIGHEST_UTILIZATION:
        raised = question.replace(utilization=HIGHEST_UTILIZATION)
        yield spelled["utilization"].format(float(HIGHEST_UTILIZATION)), raised
    if "weights" in spelled and question.weights in (None, "bf16", "fp16"):
        yield spelled["weights"].format("fp8"), question.replace(weights="fp8")
    yield from _more_ranks(question, spelled)
    if "ctx" in spelled:
        for text, changed in smaller:
            yield from _shorter(changed, spelled, f"{text} ")


def _smaller_caches(question: Question, spelled: Mapping[str, str]) -> Iterator[tuple[str, Question]]:
    """The same with a cache of fewer bits, where the command leaves the format to the model."""
    engine = (question.engine or "").partition("@")[0]
    if question.k_dtype is not None or "cache" not in spelled:
        return
    if engine in FORMATS:
        theirs, ours = FORMATS[engine]
        yield spelled["cache"].format(theirs), question.replace(k_dtype=ours, v_dtype=ours)
    for name in BLOCKS.get(engine, ()):
        yield spelled["cache"].format(name), question.replace(k_dtype=name, v_dtype=name)


def _shorter(question: Question, spelled: Mapping[str, str], before: str) -> Iterator[tuple[str, Question]]:
    """The longest length that fits."""
    try:
        gpu = size_answer(question).gpu
    except KvplanError:
        return
    if gpu is None or gpu.fits or not gpu.max_context:
        return
    slots: Any = question.batch if "batch" in spelled and "-c" in spelled["ctx"] else 1
    yield before + spelled["ctx"].format(gpu.max_context * slots), question.replace(ctx=gpu.max_context)


def _more_ranks(question: Question, spelled: Mapping[str, str]) -> Iterator[tuple[str, Question]]:
    """More tensor-parallel ranks: twice, four times, eight times as many."""
    if "tp" not in spelled:
        return
    tp, spec = question.tp or 1, subject(question).spec
    while tp * 2 * (question.pp or 1) <= MOST_RANKS and tp < (question.tp or 1) * 8:
        tp *= 2
        if not even_heads(spec, tp):
            continue
        more = question.replace(tp=tp, count=None)
        yield f"{spelled['tp'].format(tp)} on {tp * (question.pp or 1) * (question.dp or 1):,} cards", more
