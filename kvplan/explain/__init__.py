"""An engine's start-up log against the prediction: each printed figure asked of the engine again, and what would help.

The reader of an engine says what a log holds; here the model is found, the engine is asked the same
question, and every figure is compared within the rounding that it was printed with.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from kvplan.errors import InputError, KvplanError
from kvplan.explain.advice import advice, answer
from kvplan.explain.model import model_of
from kvplan.explain.predict import Prediction, predicted
from kvplan.explained import BudgetResult, ExplainResult
from kvplan.logs import MOST_FIGURES, Log, Reading
from kvplan.schema import at

READERS: dict[str, str] = {
    "vllm": "vllm",
    "sglang": "sglang",
    "trtllm": "trtllm",
    "ollama": "ollama",
    "llama.cpp": "llama_cpp",
}
"""Engines whose logs are read, the more special first: Ollama's hold llama.cpp's lines too."""


def reading_of(text: str) -> Reading:
    """What the log says, by the reader that finds most in it.

    Raises: InputError where no reader knows it.
    """
    log = Log(text)
    found: list[Reading] = []
    for module in READERS.values():
        reader: Any = import_module(f"kvplan.engine.{module}.log")
        reading = reader.read(log)
        if reading is not None:
            found.append(reading.replace(printed=reading.printed[:MOST_FIGURES]))
    if not found:
        raise InputError(
            "the log holds no line of an engine kvplan knows",
            f"give the start-up log of {', '.join(READERS)}, from its first line on",
        )
    return max(found, key=lambda reading: (bool(reading.printed), len(reading.printed), reading.engine != "llama.cpp"))


def explain_answer(
    text: str, model: str | None = None, specs: str | None = None, online: bool = False
) -> ExplainResult:
    """Every figure of the log in `text` against the prediction, and what would change them.

    model: what names the model, where the log does not or means another.

    Raises: InputError where nothing is recognised or no model is found; as the engine does.
    """
    reading = reading_of(text)
    spec, through = model_of(reading, model, specs, online)
    try:
        prediction = predicted(reading, spec)
    except KvplanError as error:
        raise at("the log", error) from None
    return ExplainResult(
        engine=reading.engine,
        version=reading.version,
        profile=prediction.profile,
        model=spec.name,
        model_through=through,
        settings=dict(reading.settings),
        context=prediction.question.ctx if isinstance(prediction.question.ctx, int) else None,
        budget=_budget(prediction),
        figures=prediction.figures,
        answer=answer(prediction),
        advice=advice(prediction),
        notes=(*reading.notes, *prediction.notes),
        hints=prediction.hints,
    )


def _budget(prediction: Prediction) -> BudgetResult | None:
    printed = prediction.reading.ask.budget
    if printed is None:
        return None
    low, high = prediction.budget_range()
    return BudgetResult(printed.text, low, high, printed.line)
