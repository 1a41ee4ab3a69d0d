"""A serve command answered: its question, its size, whether it starts, and what would make it start.

The command says the model, the engine and the options; the cards stand beside it. What it leaves open is the
engine's default. Every change that is named was counted and does start.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kvplan.catalogue import SHIPPED_GPUS, find, gpu_named, model_named
from kvplan.engine import ENGINES, engine_class, engine_named, options_known
from kvplan.errors import InputError, KvplanError, printable, quoted
from kvplan.planner.changes import changes
from kvplan.planner.refusals import refusals
from kvplan.planner.served_model import check_weights, in_catalogue, is_here, model_of
from kvplan.question import Question, subject
from kvplan.record import Record
from kvplan.results import ServeResult, SizeResult
from kvplan.serving import Served, served, server
from kvplan.serving.launch import Launch
from kvplan.sizing import size_answer
from kvplan.spec import ModelSpec

CONTRADICTED = ("tp", "pp", "dp", "ep", "dcp", "mtp", "k_dtype", "v_dtype", "utilization", "draft")
"""Fields that may stand beside a command only where the command leaves them open or says the same."""

SPELLED = {"k_dtype": "--k-dtype", "v_dtype": "--v-dtype"}


class Command(Record):
    """A serve command read and resolved: the question that it asks, and what was done with its flags."""

    launch: Launch
    served: Served
    question: Question
    counted_as: str | None
    shaping: tuple[str, ...]
    idle: tuple[str, ...]
    uncounted: tuple[str, ...]
    notes: tuple[str, ...]
    automatic: bool


def serve_answer(launch: Launch, beside: Mapping[str, Any]) -> SizeResult:
    """The size of what a serve command asks for, with the verdict on the command.

    beside: fields of `Question` that stand beside the command, such as `gpu`; what is not given is None.

    Raises: InputError for a command that its engine would refuse, or options that contradict it;
    NotCountableError as `size_answer` does.
    """
    command = command_of(launch, beside)
    answer, question = _sized(command)
    refused = refusals(command.served, launch, question, answer)
    engine = server(command.served.engine)
    short = answer.gpu is not None and not answer.gpu.fits
    found = changes(question, engine.CHANGES) if short and not refused else ()

    def shown(words: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(printable(word) for word in words)

    return answer.replace(
        serve=ServeResult(
            command=printable_words(launch.words),
            place=launch.place,
            engine=command.served.engine,
            version=command.served.version,
            model=printable(command.served.model or answer.model),
            counted_as=command.counted_as,
            cards=launch.cards,
            starts=False if refused else _starts(question, answer, engine.WHEN_SHORT),
            when_short=engine.WHEN_SHORT,
            needed_bytes=_needed(question, answer),
            parallel=command.served.parallel,
            shaping=shown(command.shaping),
            idle=shown(command.idle),
            unknown=shown(command.served.unknown),
            uncounted=shown(command.uncounted),
            refusals=tuple(_one_line(reason) for reason in refused),
            notes=tuple(_one_line(note) for note in command.notes),
            changes=found,
        )
    )


def printable_words(words: tuple[str, ...], most: int = 400) -> str:
    """A command on one bounded line."""
    line = " ".join(printable(word) for word in words)
    return line if len(line) <= most else f"{line[:most]}…"


def _starts(question: Question, answer: SizeResult, when_short: str) -> bool | None:
    """Whether the engine starts; None where no card is named.

    An engine that shortens starts with any room at all; one that spills starts unless it was told how many layers
    go to the card.
    """
    gpu = answer.gpu
    if gpu is None or gpu.fits:
        return None if gpu is None else True
    if when_short != "spills" and gpu.max_batch:
        return True  # what was asked for beside the command is more than one sequence
    if when_short == "shortens":
        return bool(gpu.max_context)
    return when_short == "spills" and not any(pair.startswith("n_gpu_layers=") for pair in question.engine_options)


def _needed(question: Question, answer: SizeResult) -> int:
    """The smallest cache budget of one card in which the command starts, a draft model's cache included."""
    w = answer.workload
    refused = bool(answer.engine and "refused" in answer.engine)
    asked = subject(question.replace(engine=None, engine_options=()) if refused else question)
    return asked.weigh(w.context, w.batch) + (answer.draft.per_rank_bytes if answer.draft else 0)


def _one_line(text: str) -> str:
    return "".join(c if c.isprintable() else printable(c) for c in text)[:2_000]


def _sized(command: Command) -> tuple[SizeResult, Question]:
    """The answer, at the longest length that fits where the command leaves the length to the engine.

    What the engine refuses is an answer too; the engine's part then says why.
    """
    question = command.question
    try:
        answer = size_answer(question)
    except InputError:
        answer = size_answer(question.replace(lenient=True))
        if not answer.engine or "refused" not in answer.engine:
            raise
        return answer, question
    if command.automatic and answer.gpu is not None and not answer.gpu.fits and answer.gpu.max_context:
        question = question.replace(ctx=answer.gpu.max_context)
        answer = size_answer(question)
    return answer, question


def command_of(launch: Launch, beside: Mapping[str, Any]) -> Command:
    """The question that a serve command asks, with what stands beside it.

    Raises: as `serve_answer`.
    """
    read = served(launch)
    notes = [*read.notes]
    fields = {key: value for key, value in read.fields.items() if value is not None}
    given = {key: value for key, value in beside.items() if value is not None}
    model, counted_as = model_of(read, given, fields, notes)
    if (draft := fields.get("draft")) is not None and not is_here(draft, given):
        fields["draft"] = in_catalogue(draft, given)[1] or draft
    if "k_dtype" in fields and read.engine not in ("llama.cpp", "mlx"):
        fields.setdefault("v_dtype", fields["k_dtype"])
    if launch.cards and launch.cards > 1 and read.engine in ("llama.cpp", "ollama") and "pp" not in given:
        fields["pp"] = launch.cards
    for key in CONTRADICTED:
        if key in given and fields.get(key, given[key]) != given[key]:
            raise InputError(
                f"{SPELLED.get(key, '--' + key)}: found {quoted(given[key])}, but the command says {quoted(fields[key])}",
                "change the command, or leave the option out",
            )
    allowed, asked = fields.get("ctx"), given.get("ctx")
    if isinstance(allowed, int) and isinstance(asked, int) and asked > allowed:
        notes.append(f"--ctx {asked:,} is past the {allowed:,} tokens of the command: counted as if it allowed them")
    fields |= given
    if fields.get("gpu") is None and launch.gpu is not None:
        card = find(launch.gpu.removesuffix("-SHARED"), [SHIPPED_GPUS])
        if card is None:
            notes.append(f"its card, {launch.gpu}, is not in the catalogue: name it with --gpu")
        else:
            fields["gpu"] = card.name
    automatic = fields.get("ctx") == "auto"
    if automatic:
        fields["ctx"] = "max"
    if read.engine == "ollama":
        if "ctx" not in fields:
            fields["ctx"] = _ollama_length(fields, notes)
        _cut_as_ollama_does(model, fields, notes)
    check_weights(fields, notes)
    more = _beside_engine(read, fields)
    name, options, uncounted = _engine(read.replace(options=_merged(read.options, more)), notes)
    taken = {pair.partition("=")[0] for pair in options}
    shaped = tuple(flag for flag in read.idle if _key(flag) in taken)
    uncounted = tuple(dict.fromkeys((*read.uncounted, *uncounted)))
    return Command(
        launch=launch,
        served=read,
        question=Question(model=model, engine=name, engine_options=options, **fields),
        counted_as=counted_as,
        shaping=(*read.shaping, *shaped),
        idle=tuple(flag for flag in read.idle if flag not in shaped and flag not in uncounted),
        uncounted=uncounted,
        notes=tuple(notes),
        automatic=automatic,
    )


def _beside_engine(read: Served, fields: dict[str, Any]) -> tuple[str, ...]:
    """The `-E` pairs that stand beside the command; an engine beside it must be the command's own.

    Raises: InputError where it is another.
    """
    named = fields.pop("engine", None)
    if named is not None and named.partition("@")[0] != read.engine:
        raise InputError(
            f"--engine: found {quoted(named)}, but the command is one of {read.engine}", "leave --engine out"
        )
    pairs: tuple[str, ...] = fields.pop("engine_options", ())
    if read.engine in ENGINES:
        engine_named(read.engine, pairs)
    return pairs


def _merged(theirs: tuple[str, ...], beside: tuple[str, ...]) -> tuple[str, ...]:
    """The command's options and those beside it.

    Raises: InputError where one says otherwise than the other.
    """
    found = dict(pair.split("=", 1) for pair in theirs)
    for pair in beside:
        key, _, value = pair.partition("=")
        key = _key(key.strip())
        if found.get(key, value) != value:
            raise InputError(
                f"-E {key}: found {quoted(value)}, but the command says {quoted(found[key])}",
                "change the command, or leave the option out",
            )
        found[key] = value
    return tuple(f"{key}={value}" for key, value in found.items())


def _key(flag: str) -> str:
    return flag.lstrip("-").replace("-", "_")


def _ollama_length(fields: dict[str, Any], notes: list[str]) -> int:
    """Ollama's own length where no variable sets it: by the memory of the card."""
    from kvplan.serving.ollama import default_length

    gpu = fields.get("gpu")
    total = None
    if gpu is not None:
        total = (gpu_named(gpu) if isinstance(gpu, str) else gpu).memory.total_bytes
    if total is None:
        raise InputError(
            "ollama: no OLLAMA_CONTEXT_LENGTH, and the default follows from the card's memory",
            "add --gpu, or --ctx",
        )
    length = default_length(total - fields.get("reserve_bytes", 0))
    notes.append(f"no OLLAMA_CONTEXT_LENGTH: Ollama takes {length:,} tokens on this card, at most the model's maximum")
    return length


def _cut_as_ollama_does(model: str | ModelSpec, fields: dict[str, Any], notes: list[str]) -> None:
    """The length cut to the model's own maximum, and one sequence at a time for families that Ollama serves so."""
    from kvplan.engine.ollama.launch import ONE_AT_A_TIME, family_of

    spec = model
    if not isinstance(spec, ModelSpec):
        spec, _ = model_named(spec, fields.get("specs"), fields.get("online", False))
    most, length, family = spec.fields.max_context, fields["ctx"], family_of(spec.name)
    if most is not None and isinstance(length, int) and length > most:
        notes.append(f"Ollama cuts {length:,} tokens to the model's maximum of {most:,}")
        fields["ctx"] = most
    if family in ONE_AT_A_TIME and fields.get("batch", 1) > 1:
        notes.append(f"Ollama serves the family {family} one sequence at a time, whatever OLLAMA_NUM_PARALLEL says")
        fields["batch"] = 1


def _engine(read: Served, notes: list[str]) -> tuple[str | None, tuple[str, ...], tuple[str, ...]]:
    """(engine and profile, the options it counts, flags that carry a value it does not count)."""
    if read.engine not in ENGINES:
        notes.append(f"what {read.engine} reserves is not counted: this is the architecture's need")
        return None, (), ()
    name = _profile(read, notes)
    options: list[str] = []
    uncounted: list[str] = []
    typed = {_key(flag): flag for flag in read.idle}
    for pair in options_known(read.engine, read.options):
        try:
            engine_named(name, (pair,))
        except KvplanError:
            key, _, value = pair.partition("=")
            uncounted.append(typed.get(key, key))
            notes.append(f"{typed.get(key, key)} {value}: a value that is not counted")
        else:
            options.append(pair)
    return name, tuple(options), tuple(uncounted)


def _profile(read: Served, notes: list[str]) -> str:
    """The engine with the newest profile that is no newer than the version the image states."""
    versions = engine_class(read.engine).VERSIONS
    wanted = _numbers(read.version or "")
    profiles = {version: _numbers(version) for version in versions}
    if not wanted or not all(profiles.values()):
        return read.engine
    older = [version for version in versions if profiles[version] <= wanted[: len(profiles[version])]]
    chosen = older[-1] if older else versions[0]
    if profiles[chosen] != wanted[: len(profiles[chosen])]:
        notes.append(f"{read.engine} {read.version} is counted by the rules of {chosen}")
    return f"{read.engine}@{chosen}"


def _numbers(version: str) -> tuple[int, ...]:
    parts = version.split(".")
    return tuple(int(part) for part in parts) if all(part.isdigit() and len(part) < 7 for part in parts) else ()
