"""`kvplan measure`: allocate the real cache, weigh it, and say predicted, measured, difference."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from kvplan.cli import options as o
from kvplan.cli.output import checked_format, checked_unit, emit, progress, say
from kvplan.cli.size import fixed_options, print_schema, question, workload_axes
from kvplan.errors import InputError
from kvplan.question import Question, subject
from kvplan.units import byte_count

if TYPE_CHECKING:
    from kvplan.results import Comparison

NEEDS_ARGUMENTS = True
Device = Annotated[
    str, typer.Option("--device", help="cpu, cuda, cuda:N or auto: a GPU where there is one. Default: auto.")
]
LimitBytes = Annotated[
    str | None,
    typer.Option(
        "--limit-bytes",
        help="The most that may be taken. Default: 90 % of what is free.",
        metavar="BYTES",
        show_default=False,
    ),
]
UntilOom = Annotated[
    bool, typer.Option("--until-oom", help="Search the largest cache that really allocates; compare with `kvplan fit`.")
]
Vary = Annotated[str, typer.Option("--vary", help="What --until-oom raises: context or batch. Default: context.")]
WeighWith = Annotated[
    str | None,
    typer.Option(
        "--weigh-with",
        help="A second opinion: fill and weigh the cache classes of transformers too.",
        metavar="LIBRARY",
        show_default=False,
    ),
]
Compare = Annotated[
    str | None,
    typer.Option(
        "--compare",
        help="Run the techniques side by side on one layer of the model: all, or a list such as paged,h2o,kivi2.",
        metavar="[all|NAME,...]",
        show_default=False,
    ),
]
Plot = Annotated[
    str | None,
    typer.Option(
        "--plot",
        help="With --compare: draw bytes and time against length into a .svg or .png file.",
        metavar="FILE",
        show_default=False,
    ),
]


def with_all(words: list[str]) -> list[str]:
    """The words of a command line where `--compare` alone means all techniques.

    >>> with_all(["measure", "--compare", "gpt-2"]), with_all(["measure", "gpt-2", "--compare", "paged,h2o"])
    (['measure', '--compare=all', 'gpt-2'], ['measure', 'gpt-2', '--compare', 'paged,h2o'])
    """
    place = words.index("--compare")
    following = words[place + 1] if place + 1 < len(words) else "-"
    from kvplan.caches import COMPARED

    if following.partition(",")[0] in ("all", *COMPARED) or "," in following:
        return words
    return [*words[:place], "--compare=all", *words[place + 1 :]]


def command(
    models: o.Models = None,
    ctx: o.Ctx = None,
    batch: o.Batch = "1",
    device: Device = "auto",
    limit_bytes: LimitBytes = None,
    until_oom: UntilOom = False,
    vary: Vary = "context",
    weigh_with: WeighWith = None,
    compare: Compare = None,
    plot: Plot = None,
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
    """Allocate the cache for real with torch, weigh it, and compare it with the prediction."""
    if json_schema:
        return print_schema("measure")
    name, shown = checked_format(format), checked_unit(unit)
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
        [None],
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
        None,
        None,
        None,
        None,
        None,
        None,
        specs,
        online,
    )
    limit = None if limit_bytes is None else byte_count(limit_bytes, "--limit-bytes")
    if plot is not None and compare is None:
        raise InputError("--plot: draws what --compare finds", "add --compare")
    from kvplan.measure import require_torch

    require_torch()
    from kvplan.measure.device import device_named
    from kvplan.measure.until_full import checked_axis
    from kvplan.measure.weighing import measure_answer

    varied, place = checked_axis(vary) if until_oom else None, device_named(device)
    questions = [question(combination, fixed) for combination in o.combinations(**axes)]
    library = None
    if weigh_with is not None:
        from kvplan.measure.second_opinion import checked_library

        library = checked_library(weigh_with)
    comparison = None
    if compare is not None:
        questions, comparison = _compared(questions, compare, place.name, plot, quiet)
    results = [measure_answer(asked, place, limit, varied, library) for asked in questions]
    from kvplan.report.measure_view import measure_report

    emit(measure_report(results, place.name, shown, comparison), name, output, no_color)
    say((hint for result in results for hint in result.hints), quiet)
    techniques = comparison.techniques if comparison else ()
    return 0 if all(one.agrees for one in results) and all(one.agrees for one in techniques) else 1


def _compared(
    questions: list[Question], names: str, place: str, plot: str | None, quiet: bool
) -> tuple[list[Question], Comparison]:
    """The one question, at the length that is compared, and the comparison; its picture in `plot`."""
    from kvplan.measure.comparing import compared, usual
    from kvplan.measure.contestants import contestants_named

    if len(questions) != 1:
        raise InputError(
            f"--compare: found {len(questions):,} combinations of options, allowed one",
            "one model, one --ctx, one format",
        )
    chosen = contestants_named(names)
    if plot is not None:
        from kvplan.measure.plotting import checked_plot

        checked_plot(plot)
    asked = usual(questions[0])
    with progress(quiet) as said:
        comparison = compared(subject(asked), chosen, place, said)
    if plot is not None:
        from kvplan.measure.plotting import draw

        draw(comparison.techniques, plot)
    return [asked], comparison
