"""A capacity matrix answered cell by cell: the same bytes and verdicts as `size`, thousands at a time.

Cells that differ in length and batch alone share their spec, plan and budget; nothing else is taken over.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from kvplan.capacity import Capacity
from kvplan.catalogue import gpu_named, model_named
from kvplan.errors import InputError, KvplanError, NotCountableError
from kvplan.gpu import Gpu
from kvplan.inputs import fingerprint, gpu_fingerprint, own_version, spec_fingerprint
from kvplan.planner.verdict import budget, longest_held, most_held, stated_bytes
from kvplan.question import Question, Subject, context_of, subject
from kvplan.record import Record
from kvplan.results import TableRow
from kvplan.spec import ModelSpec

Place = dict[str, Any]


def matrix_rows(
    capacity: Capacity, specs: str | None = None, step: Callable[[int, int], None] | None = None
) -> list[tuple[Place, TableRow]]:
    """Every cell of `capacity` with its place on the axes. step: told how many are done, of how many.

    Raises: InputError and NotCountableError as `size` does, naming the cell.
    """
    questions = capacity.questions()
    read = _Read(specs)
    found: list[tuple[Place, TableRow]] = []
    for series in _series(questions):
        place, first = series[0]
        try:
            found += _series_rows(series, read)
        except KvplanError as error:
            kind = NotCountableError if isinstance(error, NotCountableError) else InputError
            raise kind(f"{capacity.source}: {_cell_text(place, first)}: {error.what}", error.fix) from None
        if step is not None:
            step(len(found), len(questions))
    return found


def matrix_inputs(capacity: Capacity, cells: list[tuple[Place, TableRow]], specs: str | None) -> dict[str, Any]:
    """What the cells were made from: the tool's version, the file, and fingerprints of specs, cards and engines."""
    read = _Read(specs)
    models, gpus, axes = {}, {}, capacity.axes()
    for name in axes["models"]:
        spec = read.model(name)
        models[spec.name] = spec_fingerprint(spec)
    for name in axes["gpu"]:
        if name is not None:
            gpu = read.gpu(name)
            gpus[gpu.name] = gpu_fingerprint(gpu)
    engines = {row.engine.split()[0]: row.engine.split()[1] for _, row in cells if row.engine}
    asked = capacity.fields.model_dump(mode="json", exclude={"budgets", "title"})
    return {
        "kvplan": own_version(),
        "capacity file": fingerprint(asked),
        "models": models,
        "gpus": gpus,
        "engines": engines,
    }


class _Read:
    """Models and cards, each read once however many cells name it."""

    def __init__(self, specs: str | None) -> None:
        self.specs = specs
        self.models: dict[str, ModelSpec] = {}
        self.gpus: dict[str, Gpu] = {}

    def model(self, name: str) -> ModelSpec:
        """The spec that `name` means."""
        if name not in self.models:
            self.models[name] = model_named(name, self.specs)[0]
        return self.models[name]

    def gpu(self, name: str) -> Gpu:
        """The card that `name` means."""
        if name not in self.gpus:
            self.gpus[name] = gpu_named(name)
        return self.gpus[name]

    def question(self, question: Question) -> Question:
        """`question` with its names replaced by what they mean."""
        gpu = self.gpu(question.gpu) if isinstance(question.gpu, str) else question.gpu
        return question.replace(model=self.model(str(question.model)), gpu=gpu)


def _series(questions: list[tuple[Place, Question]]) -> Iterator[list[tuple[Place, Question]]]:
    """Runs of cells that differ in length and batch alone, in the order of their first cell."""
    runs: dict[tuple[Any, ...], list[tuple[Place, Question]]] = {}
    for place, question in questions:
        key = tuple(value for axis, value in place.items() if axis not in ("ctx", "batch"))
        runs.setdefault(key, []).append((place, question))
    yield from runs.values()


def _series_rows(series: list[tuple[Place, Question]], read: _Read) -> list[tuple[Place, TableRow]]:
    first = read.question(series[0][1])
    assert not isinstance(first.model, str)
    spec = first.model
    contexts = {question.ctx: context_of(question.replace(model=spec), spec, []) for _, question in series}
    asked = subject(first.replace(ctx=max(contexts.values())))
    room = _room(first, asked)
    longest: dict[tuple[int, int], int | None] = {}
    most: dict[tuple[int, int], int | None] = {}
    rows = []
    for place, question in series:
        cell = asked.replace(workload=asked.workload.replace(context=contexts[question.ctx], batch=question.batch))
        if cell.engine is not None:  # an engine's budget may depend on the length
            room = _room(first, cell)
        bounds: tuple[int | None, int | None] = None, None
        if room is not None:
            by_batch, by_context = (room.kv, cell.workload.batch), (room.kv, cell.workload.context)
            if by_batch not in longest:
                longest[by_batch] = longest_held(cell, None, room.kv)
            if by_context not in most:
                most[by_context] = most_held(cell, None, room.kv)
            bounds = longest[by_batch], most[by_context]
        rows.append((place, _row(cell, room, *bounds)))
    return rows


class _Room(Record):
    """The card by name and the bytes it leaves for the cache."""

    gpu: str | None
    kv: int


def _room(question: Question, asked: Subject) -> _Room | None:
    """The room on the card or in the budget that `question` names; None where it names none.

    Raises: InputError where the weights are not known.
    """
    stated = stated_bytes(question, asked)
    if question.gpu is None and stated is None:
        return None
    card = budget(question, asked, None, stated)
    if card.kv is None:
        raise InputError(
            f"the weights of {asked.spec.name} are not known, so whether it fits {card.gpu} is not either",
            "add `weights:` with a format or bytes, for example weights: 38GiB",
        )
    return _Room(card.gpu, card.kv.best)


def _row(cell: Subject, room: _Room | None, longest: int | None, most: int | None) -> TableRow:
    w = cell.workload
    held = int(cell.plan.rank_bytes(w.context, w.batch, w.prefix))
    reservation = cell.engine.reserve(cell.spec, w) if cell.engine else None
    least = reservation.least_budget_bytes if reservation else held
    return TableRow(
        model=cell.spec.name,
        gpu=room.gpu if room else None,
        count=w.ranks * w.dp,
        tp=w.tp,
        pp=w.pp,
        context=w.context,
        batch=w.batch,
        kv_dtype=_format(cell),
        policy=w.policy_text,
        engine=f"{reservation.engine} {reservation.version}" if reservation else None,
        total_bytes=int(cell.plan.total_bytes(w.context, w.batch, w.prefix)),
        reserved_bytes=reservation.reserved_bytes if reservation else held,
        kv_budget_bytes=room.kv if room else None,
        fits=least <= room.kv if room else None,
        max_batch=most,
        max_context=longest,
    )


def _format(cell: Subject) -> str:
    from kvplan.formats import format_named

    stored = cell.spec.fields.kv_dtype or cell.spec.fields.dtype
    k, v = (format_named(name or stored).name for name in (cell.workload.k_dtype, cell.workload.v_dtype))
    return k if k == v else f"{k}/{v}"


def _cell_text(place: Place, question: Question) -> str:
    named = {key: value for key, value in place.items() if value not in (None, 1, "full")}
    return ", ".join(value if key == "models" else f"{key} {value}" for key, value in named.items() if key != "ctx")
