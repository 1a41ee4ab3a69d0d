"""The published times as kvplan's own questions: each row a model, a card, a layout and a load."""

from __future__ import annotations

import csv
import hashlib
import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from kvplan.errors import KvplanError
from kvplan.planner.timing import Load
from kvplan.planner.work import Shape, shape_of
from kvplan.question import Question, Subject, subject
from kvplan.sizing import size_answer

FOLDER = Path(__file__).parents[1] / "data" / "timing"
WEIGHTS = {"mxfp4": None, "q8_0": "q8_0", "int4": "int4_g32"}
"""Formats of the rows by kvplan's names; None is the checkpoint's own mixture."""
MOST_RESIDENT = 2048
"""Sequences an engine admits at most where a row says only that it takes what it can."""


class Row(NamedTuple):
    """A figure, the question it answers, and the load it was measured under."""

    values: dict[str, Any]
    question: Question
    asked: Subject
    shape: Shape
    load: Load

    @property
    def fitted(self) -> bool:
        """True for the half that the constants are fitted to; the split is by the row's name alone."""
        return int(hashlib.sha256(self.values["id"].encode()).hexdigest(), 16) % 2 == 0

    @property
    def kind(self) -> str:
        """What is measured: per-token times, first tokens, whole batches or rates, dense or of experts."""
        return f"{self.values['kind']}, {self.values['class']}"


def kernels() -> list[dict[str, str]]:
    """Every row of the kernel table."""
    with (FOLDER / "kernels.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def published() -> list[dict[str, Any]]:
    """Every figure of a whole engine."""
    text = (FOLDER / "e2e.yaml").read_text(encoding="utf-8")
    return [json.loads(line[2:]) for line in text.splitlines() if line.startswith("- ")]


@cache
def rows() -> tuple[Row, ...]:
    """The figures that can be judged, as questions; `left_out` names the others."""
    return tuple(row for row, _ in _all() if row is not None)


@cache
def left_out() -> dict[str, str]:
    """Why a figure is not compared, by its name."""
    return {values["id"]: why for row, (values, why) in _all() if row is None}


@cache
def _all() -> tuple[tuple[Row | None, tuple[dict[str, Any], str]], ...]:
    return tuple(_each())


def _each() -> Iterator[tuple[Row | None, tuple[dict[str, Any], str]]]:
    for values in published():
        if not values["judge"]:
            yield None, (values, f"not judged: {values.get('judge_why', '')}")
            continue
        try:
            yield _row(values), (values, "")
        except (KvplanError, ValueError) as error:
            yield None, (values, str(error))


def _row(values: dict[str, Any]) -> Row:
    if values["metric"] == "prefill_tps" and not values.get("isl"):
        raise ValueError("no prompt length")
    shorter = 0.9 if "0.8-1.0" in str(values.get("note", "")) else 1.0
    prompt = max(1, int((values.get("depth") or values.get("isl") or 1) * shorter))
    output = max(1, int((values.get("osl") or 1) * shorter))
    dtype = str(values["weight_dtype"])
    kv = values.get("kv_dtype")
    question = Question(
        model=values["model"],
        ctx=prompt + output,
        gpu=values["gpu"],
        tp=values.get("tp") or 1,
        pp=values.get("pp") or 1,
        dp=values.get("dp") or 1,
        ep=values.get("ep") or 1,
        weights=WEIGHTS.get(dtype, dtype),
        k_dtype=kv if kv in ("fp8", "fp16", "bf16", "q8_0") else None,
        v_dtype=kv if kv in ("fp8", "fp16", "bf16", "q8_0") else None,
    )
    batch = values.get("concurrency") or values.get("batch")
    if batch is None:
        quarter = question.replace(k_dtype=question.k_dtype or "fp8", v_dtype=question.v_dtype or "fp8")
        fits = size_answer(quarter).gpu
        assert fits is not None
        if not fits.max_batch:
            raise ValueError("no sequence of this length fits")
        question, batch = quarter, min(fits.max_batch, MOST_RESIDENT)
    asked = subject(question)
    load = Load(prompt, output, int(batch), closed=values["load"] != "static")
    return Row(values, question, asked, shape_of(asked, question.weights), load)
