"""`kvplan size`: how many bytes, and does it fit; several models side by side."""

from __future__ import annotations

from typing import Any

import typer

from kvplan.cli import options as o
from kvplan.cli.output import checked_format, checked_unit, emit, say
from kvplan.errors import InputError
from kvplan.question import Question
from kvplan.sizing import size_answer
from kvplan.units import tokens, whole_number


def command(
    models: o.Models = None,
    ctx: o.Ctx = None,
    batch: o.Batch = None,
    kv_dtype: o.KvDtype = None,
    k_dtype: o.KDtype = None,
    v_dtype: o.VDtype = None,
    index_dtype: o.IndexDtype = "fp8",
    policy: o.Policy = None,
    tp: o.Tp = None,
    pp: o.Pp = None,
    ep: o.Ep = "1",
    dp: o.Dp = None,
    dcp: o.Dcp = "1",
    mtp: o.Mtp = "0",
    prefix: o.Prefix = None,
    encoder_tokens: o.EncoderTokens = None,
    engine: o.Engine = None,
    engine_options: o.EngineOptions = None,
    gpu: o.GpuOption = None,
    count: o.Count = None,
    utilization: o.Utilization = None,
    weights: o.WeightsOption = None,
    available_bytes: o.AvailableBytes = None,
    reserve: o.Reserve = None,
    draft: o.Draft = None,
    serve: o.Serve = None,
    time: o.Time = False,
    output_tokens: o.OutputTokens = None,
    load: o.Load = None,
    formula: bool = typer.Option(
        False,
        "--formula",
        help="Write the formula with the model's numbers, and the work with and without a cache.",
    ),
    measure: bool = typer.Option(
        False,
        "--measure",
        help="Allocate the cache for real and weigh it: as `kvplan measure`, whose options then apply.",
    ),
    layers: o.InlineLayers = None,
    heads: o.InlineHeads = None,
    kv_heads: o.InlineKvHeads = None,
    head_dim: o.InlineHeadDim = None,
    window: o.InlineWindow = None,
    dtype: o.InlineDtype = None,
    specs: o.Specs = None,
    online: o.Online = False,
    format: o.OutputFormat = "table",
    output: o.OutputFile = None,
    unit: o.Unit = "GiB",
    quiet: o.Quiet = False,
    no_color: o.NoColor = False,
    json_schema: o.JsonSchema = False,
) -> int:
    """How many bytes a model's KV cache takes, and whether it fits a GPU."""
    if json_schema:
        return print_schema("size")
    name, shown = checked_format(format), checked_unit(unit)
    hints: list[str] = []
    given = o.inline(layers, heads, kv_heads, head_dim, window, dtype)
    axes = workload_axes(
        models,
        given,
        ctx,
        batch,
        kv_dtype,
        k_dtype,
        v_dtype,
        policy,
        tp,
        pp,
        engine,
        engine_options,
        o.gpus_named(gpu, hints),
        needs_model=serve is None,
    )
    fixed = fixed_options(
        index_dtype,
        ep,
        dp,
        dcp,
        mtp,
        prefix,
        encoder_tokens,
        engine_options,
        count,
        utilization,
        weights,
        available_bytes,
        reserve,
        draft,
        specs,
        online,
    )
    fixed |= o.output_tokens(time, output_tokens, load)
    lenient = o.all_engines(engine)
    if serve is not None:
        from kvplan.cli.serve import served_sizes

        results = served_sizes(serve, o.combinations(**axes), fixed, formula, hints)
    else:
        asked = (question(combination, fixed, formula, lenient) for combination in o.combinations(**axes))
        results = [size_answer(row) for row in asked]
    from kvplan.report.size_view import size_report

    emit(size_report(results, shown), name, output, no_color)
    say((hint for result in results for hint in result.hints), quiet)
    say(hints, quiet)
    return 0 if all(result.fits for result in results) else 1


def workload_axes(
    models: list[str] | None,
    given: Any,
    ctx: str | None,
    batch: str | None,
    kv_dtype: str | None,
    k_dtype: str | None,
    v_dtype: str | None,
    policy: list[str] | None,
    tp: str | None,
    pp: str | None,
    engine: str | None,
    engine_options: list[str] | None,
    gpus: list[Any],
    needs_model: bool = True,
) -> dict[str, list[Any]]:
    """The options that take lists, as the axes of the result rows.

    Raises: InputError when no model is named, or two options name the same format.
    """
    if given is not None and models:
        raise InputError(
            "a model by its numbers stands in place of MODEL",
            "leave out the name, or --layers and its companions",
        )
    subjects = [given] if given is not None else list(models or [])
    if not subjects and needs_model:
        raise InputError("no model named", "for example kvplan size llama-70b --ctx 128k; `kvplan models` lists them")
    if kv_dtype is not None and (k_dtype is not None or v_dtype is not None):
        raise InputError(
            "--kv-dtype stands for both --k-dtype and --v-dtype",
            "give either --kv-dtype, or --k-dtype and --v-dtype",
        )
    axes: dict[str, list[Any]] = {
        "model": subjects or [None],
        "ctx": [item if item in (None, "max") else tokens(item, "--ctx") for item in o.listed(ctx)],
        "batch": o.batches(batch),
        "policy": policy or ["full"],
        "tp": o.numbers(tp, "--tp", most=65_536),
        "pp": o.numbers(pp, "--pp", most=10_000),
        "engine": o.engines_named(engine, engine_options),
        "gpu": gpus,
    }
    axes["dtypes"] = [(k_dtype, v_dtype)] if kv_dtype is None else [(item, item) for item in o.listed(kv_dtype)]
    return axes


def fixed_options(
    index_dtype: str,
    ep: str,
    dp: str | None,
    dcp: str,
    mtp: str,
    prefix: str | None,
    encoder_tokens: str | None,
    engine_options: list[str] | None,
    count: str | None,
    utilization: str | None,
    weights: str | None,
    available_bytes: str | None,
    reserve: str | None,
    draft: str | None,
    specs: str | None,
    online: bool,
) -> dict[str, Any]:
    """The options that are the same in every row, as `Question` takes them."""
    return {
        "index_dtype": index_dtype,
        "ep": whole_number(ep, "--ep", most=65_536),
        "dp": None if dp is None else whole_number(dp, "--dp", most=65_536),
        "dcp": whole_number(dcp, "--dcp", most=65_536),
        "mtp": whole_number(mtp, "--mtp", least=0, most=10_000),
        "prefix": 0 if prefix in (None, "0") else tokens(prefix or "", "--prefix"),
        "encoder_tokens": None if encoder_tokens is None else tokens(encoder_tokens, "--encoder-tokens"),
        "engine_options": tuple(engine_options or ()),
        "count": None if count is None else whole_number(count, "--count", most=65_536),
        "utilization": None if utilization is None else o.share(utilization, "--utilization"),
        "weights": weights,
        "available_bytes": o.optional_bytes(available_bytes, "--available-bytes"),
        "reserve_bytes": o.optional_bytes(reserve, "--reserve") or 0,
        "draft": draft,
        "specs": specs,
        "online": online,
    }


def question(
    combination: dict[str, Any], fixed: dict[str, Any], formula: bool = False, lenient: bool = False
) -> Question:
    """One row's question."""
    k_dtype, v_dtype = combination["dtypes"]
    combination = {**combination, "batch": combination["batch"] or 1}
    single = {key: value for key, value in combination.items() if key not in ("dtypes", "engine")}
    name, pairs = combination["engine"]
    options = {**fixed, "engine_options": fixed["engine_options"] if pairs is None else pairs}
    return Question(
        **single, **options, engine=name, k_dtype=k_dtype, v_dtype=v_dtype, formula=formula, lenient=lenient
    )


def print_schema(name: str) -> int:
    """Print the JSON Schema of a command's JSON document."""
    from kvplan.json_schema import schema_text

    typer.echo(schema_text(name))
    return 0
