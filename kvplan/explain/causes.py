"""Why a figure disagrees: what else the engine might have been asked, tried one by one."""

from __future__ import annotations

from collections.abc import Iterator

from kvplan.errors import KvplanError
from kvplan.explain.ask import profiles
from kvplan.explain.figures import looked_up
from kvplan.explain.predict import Prediction, attempt
from kvplan.explained import FigureResult
from kvplan.logs import Reading, with_option
from kvplan.spec import ModelSpec

TELLING_BLOCKS = 500
"""Blocks of one request up to which a printed figure tells one number of blocks from the next."""


def with_causes(prediction: Prediction, spec: ModelSpec) -> Prediction:
    """The same prediction, each disagreeing figure with how far it is off and what would explain it."""
    explained = _explained(prediction, spec)
    figures = tuple(_told(figure, prediction, explained) for figure in prediction.figures)
    return prediction.replace(figures=figures)


def _told(figure: FigureResult, prediction: Prediction, explained: str) -> FigureResult:
    if figure.agrees is not False or not figure.predicted:
        return figure
    share = figure.printed / figure.predicted - 1
    parts = [f"{abs(share):.1%} {'more' if share > 0 else 'less'} than predicted"]
    ranks = prediction.question.tp or 1
    if explained:
        parts.append(explained)
    elif prediction.reading.ask.budget and share < 0 and ranks * (prediction.question.pp or 1) > 1:
        parts.append("the smallest of all ranks decides, and the log prints the budget of one")
    return figure.replace(reason="; ".join(parts))


def _explained(prediction: Prediction, spec: ModelSpec) -> str:
    """What change of the question makes every figure agree; empty where none of those tried does.

    Without a budget, some number of small blocks prints nearly any figure, so that nothing is tried.
    """
    if prediction.reading.ask.budget is None and prediction.budget is not None:
        blocks = looked_up(prediction.reservation.figures, "blocks_per_request")
        if blocks is None or blocks > TELLING_BLOCKS:
            return ""
    likely = [prediction.profile, *(name for name in profiles(prediction.reading) if name != prediction.profile)]
    for words, reading, profile in (one for name in likely for one in _alternatives(prediction, name)):
        try:
            tried = attempt(reading, spec, profile)
        except KvplanError:
            continue
        if tried.figures and all(figure.agrees is not False for figure in tried.figures) and tried.agreeing > 0:
            return f"agrees {words}"
    return ""


def _alternatives(prediction: Prediction, profile: str) -> Iterator[tuple[str, Reading, str]]:
    reading = prediction.reading
    ask = reading.ask
    as_version = "" if profile == prediction.profile else f" as {reading.engine} {profile} counts"

    def changed(**changes: object) -> Reading:
        return reading.replace(ask=ask.replace(**changes))

    from kvplan.engine import engine_class

    for other in engine_class(reading.engine).VERSIONS:
        if other != profile and not as_version:
            yield f"as {reading.engine} {other} counts", reading, other
    if not ask.mtp:
        yield f"with one draft layer{as_version}", changed(mtp=1), profile
    for dtype in ("fp8", "fp8_ds_mla", "bf16", "fp32", "q8_0"):
        if ask.k_dtype != dtype:
            yield f"with a cache of {dtype}{as_version}", changed(k_dtype=dtype, v_dtype=dtype), profile
    for tp in (1, 2, 4, 8):
        if tp != ask.tp:
            yield f"on {tp} {'rank' if tp == 1 else 'ranks'}{as_version}", changed(tp=tp), profile
    for pair in reading.unsaid:
        yield f"with {pair}{as_version}", changed(options=with_option(ask.options, pair)), profile
