"""`fit`: a question turned around, on the cards it names and on the fewest that would do."""

from __future__ import annotations

from kvplan.errors import InputError
from kvplan.planner.fit import fewest_gpus
from kvplan.question import Question, subject
from kvplan.results import FitResult
from kvplan.sizing import size_answer


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

    fewest = None if question.gpu is None else fewest_gpus(fits_on, per_step)
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
        max_batch=gpu.max_batch,
        min_gpus=fewest,
        fits=gpu.fits,
        notes=answer.notes,
        hints=answer.hints,
    )


def cache_format(k_dtype: str, v_dtype: str) -> str:
    """One name for the cache's format: K's, or both where they differ."""
    return k_dtype if k_dtype == v_dtype else f"{k_dtype}/{v_dtype}"
