"""The techniques side by side: one decode of one layer of the model, each with its own cache.

Scaled down and said so: one layer, one sequence, the model's own head counts and widths, random rows
with rotary positions. Each technique decodes at an eighth, a quarter, half and the whole of its
length; a recomputing one is given a shorter text, since its work grows with the square at every step.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from math import log
from typing import Any

import torch

from kvplan.caches.interface import RunningCache, Shape, storage_bytes
from kvplan.caches.paged import Paged
from kvplan.caches.rotary import rotated
from kvplan.errors import InputError, NotCountableError
from kvplan.measure.contestants import SINKS, Contestant, Rows, Setting
from kvplan.question import Question, Subject, subject
from kvplan.results import Comparison, TechniquePoint, TechniqueResult
from kvplan.spec import ModelSpec

USUAL_TOKENS = 4096
MOST_SCORED = 1024
MOST_STEP_FLOPS = 2 * 10**9
STEPS = 4
ROOM = 4
"""A contiguous cache reserves the model's maximum, or so many times the text where that is less."""
SEED = 20_261_129


@contextmanager
def _one_thread() -> Iterator[None]:
    """One thread, whose own time can be told from what others do on a busy machine."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def usual(question: Question) -> Question:
    """The same question at a length that is quick to compare, where none was given."""
    if question.ctx is not None:
        return question
    most = subject(question).workload.context
    return question.replace(ctx=min(most, USUAL_TOKENS))


def compared(asked: Subject, contestants: Iterable[Contestant], place: str, said: Callable[[str], None]) -> Comparison:
    """Run `contestants` at the shape of the model's first attention layer, on the device called `place`.

    said: told what is being run, for a progress line.

    Raises: NotCountableError for a model without keys and values of heads.
    """
    shape, bound = _shape(asked.spec)
    tokens = asked.workload.context
    keep = bound if bound is not None and bound <= tokens else max(SINKS + 1, tokens // 4)
    room = max(tokens, min(asked.spec.fields.max_context or ROOM * tokens, ROOM * tokens))
    setting = Setting(shape, asked.spec.fields.dtype, tokens, keep, room)
    found, left_out = [], []
    with torch.device(place), torch.no_grad(), _one_thread():
        for one in contestants:
            said(one.name)
            try:
                one.predicted(setting, tokens)
            except InputError as error:
                left_out.append(f"{one.name} left out: {error.what}")
                continue
            found.append(_run(one, setting, place))
    gc.collect()  # what the caches held must not be given back while something else is weighed
    shorter = "".join(f", {one.name} of {one.tokens:,}" for one in found if one.tokens < tokens)
    layers = sum(count for count, _ in asked.spec.runs)
    notes = [
        f"one layer of {layers:,}, one sequence of {tokens:,} tokens{shorter}",
        "the rows are random: what a bounded cache drops is missed more than in real text",
        *left_out,
    ]
    if place == "cpu":
        notes.insert(1, "ms/token is one core's own time; time n^x is fitted to the whole text's")
    return Comparison(tuple(found), tuple(notes))


def _shape(spec: ModelSpec) -> tuple[Shape, int | None]:
    """The heads of the first layer that attends to everything, else of the first with heads; and the model's window."""
    kinds: list[Any] = [kind for _, layer in spec.runs for kind in layer.kinds if kind.type in ("mha", "mqa", "gqa")]
    if not kinds:
        raise NotCountableError(
            f"{spec.source}: attention: --compare needs keys and values of heads, and no layer of {spec.name} has them",
            "compare on a model with mha, mqa or gqa layers",
        )
    bounds = [kind.window or kind.chunk for kind in kinds if kind.window or kind.chunk]
    first = next((kind for kind in kinds if not (kind.window or kind.chunk)), kinds[0])
    shape = Shape(first.heads, first.kv_heads, first.head_dim, first.v_head_dim or first.head_dim)
    if shape.head_dim % 2:
        raise NotCountableError(
            f"{spec.source}: head_dim: rotary positions need an even width, found {shape.head_dim}",
            "compare on another model",
        )
    return shape, bounds[0] if bounds else None


def _length(one: Contestant, setting: Setting) -> int:
    """The longest text that the technique is given."""
    tokens = setting.most_tokens
    if one.scored or one.recomputes:
        tokens = min(tokens, MOST_SCORED)
    if one.recomputes:
        widths = setting.shape.head_dim + setting.shape.v_head_dim
        while tokens > 8 and 2 * setting.shape.heads * widths * tokens * tokens > MOST_STEP_FLOPS:
            tokens //= 2
    return tokens


def _rows(setting: Setting, tokens: int) -> Rows:
    s, generator = setting.shape, torch.Generator(torch.get_default_device()).manual_seed(SEED)
    keys = torch.randn(s.kv_heads, tokens, s.head_dim, generator=generator)
    values = torch.randn(s.kv_heads, tokens, s.v_head_dim, generator=generator)
    queries = torch.randn(s.heads, min(tokens, MOST_SCORED), s.head_dim, generator=generator)
    return Rows(queries, keys, rotated(keys, torch.arange(tokens)), values)


def _run(one: Contestant, setting: Setting, place: str) -> TechniqueResult:
    longest = _length(one, setting)
    setting = setting.replace(most_tokens=longest)
    rows = _rows(setting, longest)
    points = []
    for tokens in sorted({max(1, longest >> halved) for halved in range(4)}):
        cache = one.make(setting, rows)
        output, seconds = _decoded(one, cache, rows, tokens, place)
        points.append(TechniquePoint(tokens, _held(cache), seconds))
    predicted, measured = one.predicted(setting, longest), _held(cache)
    return TechniqueResult(
        name=one.name,
        what=one.what(setting),
        tokens=longest,
        predicted_bytes=predicted,
        measured_bytes=measured,
        difference_bytes=measured - predicted,
        waste_bytes=measured - cache.used_bytes(),
        bookkeeping_bytes=storage_bytes(cache.bookkeeping()),
        relative_error=_error(output, rows, longest),
        seconds_per_token=points[-1].seconds_per_token,
        time_exponent=_exponent(points),
        agrees=measured == predicted,
        points=tuple(points),
    )


def _held(cache: RunningCache) -> int:
    """Bytes of distinct storages; of a pool, the blocks in the sequence's table."""
    return cache.held_bytes() if isinstance(cache, Paged) else storage_bytes(cache.tensors())


def _decoded(one: Contestant, cache: RunningCache, rows: Rows, tokens: int, place: str) -> tuple[torch.Tensor, float]:
    """(the last output, the least time of a token) when the last few of `tokens` are decoded one by one."""
    keys = rows.keys if one.turns else rows.turned
    prompt = max(0, tokens - STEPS)
    if one.scored:
        for at in range(prompt):
            cache.append(keys[:, at : at + 1], rows.values[:, at : at + 1])
            cache.attend(rows.query(at))
    elif prompt:
        cache.append(keys[:, :prompt], rows.values[:, :prompt])
    taken = []
    for at in range(prompt, tokens):
        query = rows.query(at, turn=not one.turns)
        begun = _now(place)
        cache.append(keys[:, at : at + 1], rows.values[:, at : at + 1])
        output = cache.attend(query)
        taken.append(_now(place) - begun)
    return output, max(min(taken), 1e-9)


def _now(place: str) -> float:
    """Seconds of this thread's own work; on a GPU, of the clock once it has done what it was given."""
    if place.startswith("cuda"):
        torch.cuda.synchronize(place)
        return time.perf_counter()
    return time.thread_time()


def _error(output: torch.Tensor, rows: Rows, tokens: int) -> float:
    """Against attention over all rows in double precision, one query head at a time."""
    query = rows.query(tokens - 1).double()
    group = query.shape[0] // rows.turned.shape[0]
    expected = []
    for head, one in enumerate(query):
        scores = rows.turned[head // group].double() @ one * one.shape[-1] ** -0.5
        expected.append(torch.softmax(scores, dim=-1) @ rows.values[head // group].double())
    whole = torch.stack(expected)
    return float((output.double() - whole).norm() / whole.norm())


def _exponent(points: list[TechniquePoint]) -> float | None:
    """The whole text's time grows with its length to this power: one more than a token's time does.

    The slope of a straight line through the logarithms of the longest three, by least squares.
    """
    points = points[-3:]
    if len(points) < 2:
        return None
    x, y = [log(p.tokens) for p in points], [log(p.seconds_per_token) for p in points]
    mid_x, mid_y = sum(x) / len(x), sum(y) / len(y)
    slope = sum((a - mid_x) * (b - mid_y) for a, b in zip(x, y, strict=True)) / sum((a - mid_x) ** 2 for a in x)
    return 1 + slope
