"""The Python surface: the commands as functions, one answer each."""

from __future__ import annotations

import os
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kvplan.catalogue import model_named
from kvplan.errors import InputError, quoted
from kvplan.question import Question
from kvplan.results import FitResult, SizeResult
from kvplan.spec import ModelSpec, parse_spec
from kvplan.units import byte_count

if TYPE_CHECKING:
    from kvplan.gpu import Gpu

Model = str | os.PathLike[str] | ModelSpec | dict[str, Any]


def model(source: Model, *, specs: str | None = None, online: bool = False) -> ModelSpec:
    """The model spec that `source` means.

    source: a name, alias, hub id or path; a mapping with the keys of a spec file; or a spec.
    online: fetch a hub id that the catalogue lacks; without it nothing touches the network.

    Raises: InputError for an unknown name or a malformed spec; NotCountableError for an attention
    type kvplan does not know; MissingError for `online` without the hub client.

    >>> model("llama-70b").name
    'llama-3.1-70b'
    """
    if isinstance(source, ModelSpec):
        return source
    if isinstance(source, dict):
        return parse_spec(source, "mapping")
    text = str(Path(source)) if isinstance(source, os.PathLike) else source
    if not isinstance(text, str):
        raise InputError(f"model: found {quoted(text)}, allowed a name, a path, a mapping or a spec", '"llama-3.1-70b"')
    _check_texts({"specs": specs})
    _check_flag("online", online)
    return model_named(text, specs, online)[0]


def size(
    source: Model,
    *,
    ctx: int | str | None = None,
    batch: int = 1,
    kv_dtype: str | None = None,
    k_dtype: str | None = None,
    v_dtype: str | None = None,
    index_dtype: str = "fp8",
    policy: str = "full",
    tp: int | None = None,
    pp: int | None = None,
    ep: int = 1,
    dp: int | None = None,
    dcp: int = 1,
    mtp: int = 0,
    prefix: int = 0,
    encoder_tokens: int | None = None,
    engine: str | None = None,
    engine_options: dict[str, Any] | None = None,
    gpu: str | Gpu | None = None,
    count: int | None = None,
    utilization: float | str | None = None,
    weights: str | int | None = None,
    available_bytes: int | str | None = None,
    reserve: int | str = 0,
    draft: str | None = None,
    specs: str | None = None,
    online: bool = False,
    formula: bool = False,
    time: bool = False,
    output_tokens: int = 1,
    load: str = "closed",
) -> SizeResult:
    """How many bytes the cache of a model takes, and whether it fits `gpu`: `kvplan size` for one row.

    ctx: tokens of one sequence, as a number or as text (`128k`, `max`); None is the model's maximum.
    time: predict decode and prefill times on `gpu`; `ctx` is then each request's prompt and `output_tokens` what it
    generates, under a `load` that is closed or static. Bytes are numbers or text (`40GiB`). online: fetch a hub id that the catalogue lacks. The other options are the command line's.

    Raises: InputError for bad input, NotCountableError for what cannot be counted, MissingError for
    `gpu="local"` without a driver and `online` without the hub client.

    >>> size("llama-3.1-70b", ctx="128k", tp=8).per_rank_bytes
    5242880000
    """
    from kvplan.sizing import size_answer

    options = dict(locals())
    options.pop("size_answer")
    return size_answer(_question(**options))


def fit(
    source: Model,
    *,
    gpu: str | Gpu | None = None,
    ctx: int | str | None = None,
    batch: int = 1,
    **options: Any,
) -> FitResult:
    """The longest context for `batch`, the most sequences for `ctx`, the fewest GPUs for both.

    options: those of `size`.

    Raises: as `size` does, and InputError without a GPU or `available_bytes`.

    >>> fit("llama-3.1-8b", ctx=8192, available_bytes="8GiB").max_batch
    8
    """
    from kvplan.planner.inverse import fit_answer

    return fit_answer(_question(source=source, gpu=gpu, ctx=ctx, batch=batch, **options))


def _question(source: Model, **options: Any) -> Question:
    """The question behind a call, every value checked for its kind."""
    specs = options.get("specs")
    kv_dtype = options.pop("kv_dtype", None)
    if kv_dtype is not None:
        if options.get("k_dtype") is not None or options.get("v_dtype") is not None:
            raise InputError(
                "kv_dtype stands for both k_dtype and v_dtype",
                "give either kv_dtype, or k_dtype and v_dtype",
            )
        options["k_dtype"] = options["v_dtype"] = kv_dtype
    options["reserve_bytes"] = _bytes(options.pop("reserve", 0), "reserve")
    if options.get("available_bytes") is not None:
        options["available_bytes"] = _bytes(options["available_bytes"], "available_bytes")
    if type(options.get("weights")) is int:
        options["weights"] = str(options["weights"])
    _check_texts(options)
    if options.get("utilization") is not None:
        options["utilization"] = _share(options["utilization"])
    engine_options = options.pop("engine_options", None) or {}
    if not isinstance(engine_options, dict):
        raise InputError(f"engine_options: found {quoted(engine_options)}, allowed a mapping", "engine_options={}")
    pairs = (
        f"{key}={str(value).lower() if isinstance(value, bool) else value}" for key, value in engine_options.items()
    )
    check_counts(options)
    _check_flag("online", options.get("online", False))
    timed = options.pop("time", False)
    _check_flag("time", timed)
    if options.get("load", "closed") not in ("closed", "static"):
        raise InputError(f"load: found {quoted(options['load'])}, allowed closed, static", 'load="closed"')
    if not timed:
        options.pop("output_tokens", None)
    subject: str | ModelSpec = (
        source
        if isinstance(source, str | ModelSpec)
        else model(source, specs=specs, online=options.get("online", False))
    )
    try:
        return Question(model=subject, engine_options=tuple(pairs), **options)
    except TypeError as error:
        raise InputError(
            str(error).replace("Question has no field", "no option called"),
            "help(kvplan.size) lists the options",
        ) from None


LEAST = {
    "batch": 1,
    "tp": 1,
    "pp": 1,
    "ep": 1,
    "dp": 1,
    "dcp": 1,
    "mtp": 0,
    "prefix": 0,
    "count": 1,
    "encoder_tokens": 1,
    "output_tokens": 1,
}


def check_counts(options: dict[str, Any]) -> None:
    """Refuse counts among `options` that are not whole numbers, or too small; None is not given.

    Raises: InputError naming the option.
    """
    for name, least in LEAST.items():
        value = options.get(name)
        if value is not None and (type(value) is not int or value < least):
            raise InputError(
                f"{name}: found {quoted(value)}, allowed whole numbers from {least}",
                f"for example {name}={max(least, 1)}",
            )


TEXTS = ("k_dtype", "v_dtype", "index_dtype", "policy", "engine", "gpu", "weights", "draft", "specs")


def _check_texts(options: dict[str, Any]) -> None:
    """Refuse names among `options` that are not text; those with a default of their own cannot be None."""
    for name in TEXTS:
        if name not in options:
            continue
        value = options[name]
        fits = isinstance(value, str) or (value is None and name not in ("index_dtype", "policy"))
        if name == "gpu" and not fits:
            from kvplan.gpu import Gpu

            fits = isinstance(value, Gpu)
        if not fits:
            raise InputError(f"{name}: found {quoted(value)}, allowed text", "names are text, as on the command line")


def _check_flag(name: str, value: object) -> None:
    if type(value) is not bool:
        raise InputError(f"{name}: found {quoted(value)}, allowed True or False", f"for example {name}=True")


def _bytes(value: int | str, what: str) -> int:
    if not isinstance(value, str) and type(value) is not int:
        raise InputError(f"{what}: found {quoted(value)}, allowed whole bytes or text such as 40GiB", f'{what}="40GiB"')
    return byte_count(str(value), what)


def _share(value: float | str) -> Fraction:
    try:
        share = Fraction(str(value)) if isinstance(value, str | int | float) and len(str(value)) < 30 else Fraction(0)
    except ValueError:
        share = Fraction(0)
    if not 0 < share <= 1:
        raise InputError(
            f"utilization: found {quoted(value)}, allowed a share above 0 and at most 1",
            "for example utilization=0.92",
        )
    return share
