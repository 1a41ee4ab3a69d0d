"""A deployment file judged: every serve command in it, and whether it fits its cards."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kvplan.deployment import deployed
from kvplan.errors import KvplanError
from kvplan.planner.serve import printable_words, serve_answer
from kvplan.results import CheckVerdict, SizeResult
from kvplan.serving import served
from kvplan.serving.launch import Launch


def check_deployment(
    text: str, name: str, environment: Mapping[str, str], beside: Mapping[str, Any]
) -> tuple[list[CheckVerdict], list[KvplanError]]:
    """(a verdict for every serve command of a deployment file, the errors of those that cannot be answered).

    beside: fields of `Question` that hold for all of them, such as `gpu`; `model` stands in only where a command
    names none, or a path.

    Raises: InputError for a file that cannot be read.
    """
    verdicts: list[CheckVerdict] = []
    errors: list[KvplanError] = []
    for launch in deployed(text, name, environment):
        try:
            verdicts.append(_verdict(launch, serve_answer(launch, _fields(launch, beside))))
        except KvplanError as error:
            what = error.what if error.what.startswith(launch.place) else f"{launch.place}: {error.what}"
            errors.append(type(error)(what, error.fix))
            verdicts.append(_unanswered(launch, error.what))
    return verdicts, errors


def _fields(launch: Launch, beside: Mapping[str, Any]) -> dict[str, Any]:
    """What stands beside this command: a model only where its own cannot be looked up."""
    fields = dict(beside)
    model = served(launch).model if "model" in fields else None
    if model is not None and not model.startswith(("/", ".", "~")) and not model.endswith(".gguf"):
        del fields["model"]
    return fields


def _verdict(launch: Launch, answer: SizeResult) -> CheckVerdict:
    gpu, serve, w = answer.gpu, answer.serve, answer.workload
    reserved = (answer.engine or {}).get("reserved_bytes")
    held = reserved if isinstance(reserved, int) else answer.per_rank_bytes
    return CheckVerdict(
        budget={
            "must": "fit",
            "model": answer.model,
            "engine": serve.engine if serve else None,
            "gpu": gpu.name if gpu else None,
            "count": gpu.count if gpu else w.tp * w.pp * w.dp,
            "ctx": w.context,
            "batch": w.batch,
        },
        ok=None if gpu is None else answer.fits,
        value=serve.needed_bytes if serve else held,
        limit=gpu.kv_budget_bytes if gpu else None,
        place=launch.place,
        refused=None,
        bytes_per_sequence=held if w.batch == 1 else None,
        max_context=gpu.max_context if gpu else None,
        max_batch=gpu.max_batch if gpu else None,
        serve=serve,
        cell=None,
        hints=answer.hints,
    )


def _unanswered(launch: Launch, what: str) -> CheckVerdict:
    budget = {"must": "fit", "command": printable_words(launch.words)}
    return CheckVerdict(budget, None, None, None, launch.place, what, None, None, None, None, None, ())
