"""One question answered on a device: allocate, touch, weigh, compare, give back, and prove that too."""

from __future__ import annotations

from kvplan.errors import InputError, MissingError, NotCountableError
from kvplan.footprint import stage_layers
from kvplan.measure.allocation import Allocation, Layout, layout_of
from kvplan.measure.device import MOST_SHARE, Device, FullError, LostError
from kvplan.measure.until_full import UntilFull
from kvplan.question import MOST, Question, Subject, subject
from kvplan.results import MeasureResult, UntilFullResult
from kvplan.sizing import workload_result
from kvplan.units import iec

MOST_TENSORS = 2_000_000


def measure_answer(
    question: Question,
    device: Device,
    limit_bytes: int | None = None,
    vary: str | None = None,
    library: str | None = None,
) -> MeasureResult:
    """Predicted, measured, difference: the cache of `question`, on the fullest rank, allocated on `device`.

    limit_bytes: the most that may be taken, None for 90 % of what is free. vary: `context` or `batch`
    to search the largest one that allocates, None to weigh the one that was asked for. library: one whose
    own cache classes are filled and weighed too.

    Raises: InputError for more memory than is free; NotCountableError for an engine's layout;
    MissingError where the device is lost.
    """
    if question.batch == MOST:
        raise InputError("--batch max: measure searches it on the device itself", "--until-oom --vary batch")
    asked = subject(question)
    if asked.engine is not None and asked.engine.engine.NAME != "ideal":
        raise NotCountableError(
            f"measure: {asked.engine.engine.NAME} reserves bytes, and the tensors behind them are not listed",
            "leave --engine out; --weigh-with transformers fills that library's own cache"
            if asked.engine.engine.NAME == "transformers"
            else f"leave --engine out, or see `kvplan size --engine {asked.engine.engine.NAME}`",
        )
    try:
        device.begin()
        limit = _limit(device, limit_bytes)
        found = until_full(asked, device, limit, vary) if vary else None
        if found is not None:
            asked = _at(asked, found)
        weighed = _weighed(asked, device, limit, found, limit_bytes is not None)
        return weighed if library is None else _with_opinion(weighed, asked, device, limit)
    except FullError as error:
        raise MissingError(
            f"--device {device.name}: no room even to begin: {error}", "wait until others leave it, or --device cpu"
        ) from None
    except LostError as error:
        raise MissingError(
            f"--device {device.name}: {error}", "restart the device or the process that lost it"
        ) from None


def _with_opinion(weighed: MeasureResult, asked: Subject, device: Device, limit: int) -> MeasureResult:
    """The measurement beside that of the library's own classes; both must agree with their predictions."""
    from kvplan.measure.second_opinion import second_opinion

    other = second_opinion(asked, limit, device.name)
    device.release()
    return weighed.replace(second_opinion=other, agrees=weighed.agrees and other.agrees)


def until_full(asked: Subject, device: Device, limit: int, vary: str) -> UntilFullResult:
    """The search for the largest cache."""
    return UntilFull(asked, stage_layers(asked.spec, asked.workload), device, limit, vary).result()


def _at(asked: Subject, found: UntilFullResult) -> Subject:
    """The same question at the length or batch that was found, where one was."""
    if not found.measured:
        return asked
    if found.varied == "batch":
        return asked.replace(workload=asked.workload.replace(batch=found.measured))
    prefix = min(asked.workload.prefix, found.measured)
    return asked.replace(workload=asked.workload.replace(context=found.measured, prefix=prefix))


def _limit(device: Device, asked_bytes: int | None) -> int:
    """The most that may be taken."""
    free = device.free_bytes()
    if free is None and asked_bytes is None:
        raise InputError("measure: this system does not say how much memory is free", "--limit-bytes 1GiB")
    if asked_bytes is None:
        assert free is not None
        return free * MOST_SHARE // 100
    if free is not None and asked_bytes > free:
        raise InputError(
            f"--limit-bytes: found {asked_bytes:,}, but only {free:,} bytes are free on {device.name}",
            "leave the option out to take at most 90 % of what is free",
        )
    return asked_bytes


def _weighed(asked: Subject, device: Device, limit: int, found: UntilFullResult | None, told: bool) -> MeasureResult:
    w, plan = asked.workload, asked.plan
    stages = stage_layers(asked.spec, w)
    layouts = [layout_of(stage, plan, w.context, w.batch, w.prefix) for stage in stages]
    layout = max(layouts, key=Layout.bytes)
    fitting = layout.layers_within(limit)
    _check_count(layout)
    with Allocation(device) as held:
        held.take((layer for _, layer in zip(range(fitting), layout.each(), strict=False)), touch=True)
        measured, allocator = held.measured_bytes(), device.figures(held.sizes())
        layers = held.layers
    freed, left = held.all_gone(), device.release()
    whole = int(plan.rank_bytes(w.context, w.batch, w.prefix))
    complete = layers == layout.layers
    predicted = whole if complete else layout.bytes(layers)
    nothing = layers == 0 < layout.layers and whole > 0
    return MeasureResult(
        model=asked.spec.name,
        workload=workload_result(asked),
        predicted_bytes=predicted,
        measured_bytes=measured,
        difference_bytes=measured - predicted,
        measured_layers=layers,
        of_layers=layout.layers,
        whole_bytes=whole,
        limit_bytes=limit,
        freed=freed,
        allocator={**allocator, "left_bytes": left},
        until_oom=found,
        second_opinion=None,
        agrees=measured == predicted and freed and not nothing and (found is None or found.agrees),
        notes=_notes(asked, layout, layers, limit, whole, device.name, told),
        hints=asked.hints,
    )


def _check_count(layout: Layout) -> None:
    count = sum(count * len(layer) for count, layer in layout.runs)
    if count > MOST_TENSORS:
        raise InputError(f"measure: {count:,} tensors, allowed at most {MOST_TENSORS:,}", "ask for fewer layers")


def _notes(
    asked: Subject, layout: Layout, layers: int, limit: int, whole: int, device: str, told: bool
) -> tuple[str, ...]:
    notes = []
    why = f"--limit-bytes allows {iec(limit)}" if told else f"90 % of what is free on {device} is {iec(limit)}"
    if layers < layout.layers and whole:
        what = (
            f"{layers:,} of {layout.layers:,} layers"
            if layers
            else f"nothing: not one of {layout.layers:,} layers fits"
        )
        notes.append(f"measured {what}; the whole cache takes {iec(whole)}, {why}")
    if asked.workload.ranks > 1:
        notes.append(f"the fullest of {asked.workload.ranks:,} ranks, on this one device")
    return tuple(notes)
