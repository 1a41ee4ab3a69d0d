"""A log's settings as a question to the engine that wrote it."""

from __future__ import annotations

import re

from kvplan.engine import engine_class, options_known
from kvplan.logs import Reading
from kvplan.question import Question
from kvplan.spec import ModelSpec
from kvplan.tensor import Role

ANY_LENGTH = 4096


def profiles(reading: Reading) -> tuple[str, ...]:
    """Version profiles that may have written the log, the likeliest first: all of them where it does not say.

    A profile is called after the last release that was seen to follow it; between two of them, either may hold.
    """
    known = engine_class(reading.engine).VERSIONS
    wanted = _numbers(reading.version or "")
    if not wanted or len(known) == 1:
        return tuple(reversed(known))
    later = [name for name in known if _numbers(name) >= wanted[: len(_numbers(name))]]
    earlier = [name for name in known if name not in later]
    if not later:
        return (known[-1],)
    same = _numbers(later[0]) == wanted[: len(_numbers(later[0]))]
    return (later[0],) if same or not earlier else (later[0], earlier[-1])


def _numbers(text: str) -> tuple[int, ...]:
    """The numbers of a version, `0.29.1rc1` as (0, 29, 1)."""
    match = re.match(r"[a-z]?(\d{1,6}(?:\.\d{1,6}){0,3})", text)
    return tuple(int(part) for part in match[1].split(".")) if match else ()


def question_of(reading: Reading, spec: ModelSpec, profile: str) -> tuple[Question, list[str]]:
    """(the question the log answers, what it says that the engine does not take)."""
    ask = reading.ask
    known = options_known(reading.engine, ask.options)
    dropped = [pair for pair in ask.options if pair not in known]
    keeps_values = any(tensor.role is Role.V for _, layer in spec.runs for tensor in layer.tensors())
    context = ask.context or spec.fields.max_context or ANY_LENGTH
    question = Question(
        model=spec,
        ctx=context,
        batch=ask.batch,
        k_dtype=ask.k_dtype,
        v_dtype=ask.v_dtype if keeps_values else None,
        tp=ask.tp,
        pp=ask.pp,
        dp=ask.dp,
        dcp=ask.dcp,
        mtp=ask.mtp,
        engine=f"{reading.engine}@{profile}",
        engine_options=known,
    )
    return question, dropped
