"""`fit`: a question turned around, on the cards it names and on the fewest that would do."""

from __future__ import annotations

from collections.abc import Callable

from kvplan.errors import InputError
from kvplan.planner.fit import MOST_GPUS, fewest_gpus
from kvplan.question import Question, subject
from kvplan.results import FitResult
from kvplan.sizing import size_answer
from kvplan.spec import ModelSpec


def fit_answer(question: Question) -> FitResult:
    """The longest context, the most sequences and the fewest GPUs.

    Raises: InputError without a GPU or budget, and as `size_answer` does.
    """
    if question.gpu is None and question.available_bytes is None:
        raise InputError("fit: needs --gpu or --available-bytes", "add --gpu, for example --gpu h100-sxm-80gb")
    asked = subject(question)
    answer = size_answer(question)
    gpu = answer.gpu
    assert gpu is not None
    per_step = (question.pp or 1) * (question.dp or 1)

    def fits_on(tp: int) -> bool:
        result = size_answer(question.replace(tp=tp, count=None, pp=question.pp, dp=question.dp))
        return result.fits

    fewest = None if question.gpu is None else fewest_gpus(fits_on, MOST_GPUS // (question.pp or 1), per_step)
    uneven = () if fewest is None else _uneven(asked.spec, fewest // per_step, fits_on, per_step)
    return FitResult(
        model=asked.spec.name,
        gpu=gpu.name,
        count=gpu.count,
        context=asked.workload.context,
        batch=asked.workload.batch,
        engine=asked.engine.engine.NAME if asked.engine else None,
        kv_dtype=cache_format(answer.workload.k_dtype, answer.workload.v_dtype),
        kv_budget_bytes=gpu.kv_budget_bytes,
        max_context=gpu.max_context,
        model_max_context=answer.model_max_context,
        max_batch=gpu.max_batch,
        min_gpus=fewest,
        fits=gpu.fits,
        notes=(*answer.notes, *uneven),
        hints=answer.hints,
    )


def _uneven(spec: ModelSpec, tp: int, fits_on: Callable[[int], bool], per_step: int) -> tuple[str, ...]:
    """What to say when `tp` ranks cannot share the attention heads evenly, as most engines demand."""
    named = (getattr(kind, "heads", None) for _, layer in spec.layers() for kind in layer.kinds)
    heads = {count for count in named if count}
    if all(count % tp == 0 for count in heads):
        return ()
    even = next((n for n in range(tp, MOST_GPUS + 1) if all(count % n == 0 for count in heads) and fits_on(n)), None)
    better = f"; {even * per_step:,} GPUs do" if even else ""
    return (
        f"{tp} ranks do not share {', '.join(f'{count:,}' for count in sorted(heads))} attention heads evenly, as most engines demand{better}",
    )


def cache_format(k_dtype: str, v_dtype: str) -> str:
    """One name for the cache's format: K's, or both where they differ."""
    return k_dtype if k_dtype == v_dtype else f"{k_dtype}/{v_dtype}"
