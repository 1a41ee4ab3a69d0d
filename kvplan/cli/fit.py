"""`kvplan fit`: the size turned around: longest context, most sequences, fewest GPUs."""

from __future__ import annotations

from kvplan.cli import options as o
from kvplan.cli.output import checked_format, checked_unit, emit, say
from kvplan.cli.size import fixed_options, print_schema, question, workload_axes
from kvplan.planner.inverse import fit_answer


def command(
    models: o.Models = None,
    ctx: o.Ctx = None,
    batch: o.Batch = None,
    gpu: o.GpuOption = None,
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
    count: o.Count = None,
    utilization: o.Utilization = None,
    weights: o.WeightsOption = None,
    available_bytes: o.AvailableBytes = None,
    reserve: o.Reserve = None,
    draft: o.Draft = None,
    serve: o.Serve = None,
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
    """The longest context, the most sequences and the fewest GPUs for a model."""
    if json_schema:
        return print_schema("fit")
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
    if serve is not None:
        from kvplan.cli.serve import served_fits

        results = served_fits(serve, o.combinations(**axes), fixed, hints)
    else:
        results = [fit_answer(question(combination, fixed)) for combination in o.combinations(**axes)]
    from kvplan.report.fit_view import fit_report

    emit(fit_report(results, shown), name, output, no_color)
    say((hint for result in results for hint in result.hints), quiet)
    say(hints, quiet)
    return 0 if all(result.fits for result in results) else 1
