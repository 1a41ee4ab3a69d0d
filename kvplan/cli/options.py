"""The options that commands share: what is typed, in lists, turned into single questions."""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from typing import Annotated, Any

import typer

from kvplan.errors import InputError, quoted
from kvplan.units import byte_count, tokens, whole_number

MOST_COMBINATIONS = 20_000


def complete_model(incomplete: str) -> list[str]:
    """Model names and aliases that begin with what is typed."""
    from kvplan.catalogue import names, spec_folders

    return [
        word for name, aliases, _ in names(spec_folders()) for word in (name, *aliases) if word.startswith(incomplete)
    ]


def complete_gpu(incomplete: str) -> list[str]:
    """GPU names and aliases that begin with what is typed."""
    from kvplan.catalogue import SHIPPED_GPUS, names

    return [
        word for name, aliases, _ in names([SHIPPED_GPUS]) for word in (name, *aliases) if word.startswith(incomplete)
    ]


def complete_anything(incomplete: str) -> list[str]:
    """Whatever `kvplan show` takes that begins with what is typed."""
    from kvplan.engine import ENGINES

    engines = [name for name in ENGINES if name.startswith(incomplete)]
    return [*complete_model(incomplete), *complete_gpu(incomplete), *complete_format(incomplete), *engines]


def complete_format(incomplete: str) -> list[str]:
    """Cache formats that begin with what is typed."""
    from kvplan.formats import FORMATS

    return [name for name in FORMATS if name.startswith(incomplete)]


def option(*names: str, help: str, metavar: str | None = None, complete: Any = None) -> Any:
    """An option of a command: its names, its help line, what its value is called, and what completes it."""
    return typer.Option(*names, help=help, metavar=metavar, autocompletion=complete, show_default=False)


Models = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="MODEL",
        help="Spec name, alias, hub id, or path of a spec, config.json, checkpoint or GGUF; several side by side.",
        autocompletion=complete_model,
        show_default=False,
    ),
]
Ctx = Annotated[
    str | None,
    option(
        "--ctx",
        help="Tokens of one sequence: 8192, 8k, 128K, max; a list gives a row each. Default: the model's maximum.",
        metavar="N,...",
    ),
]
Batch = Annotated[
    str | None,
    option("--batch", help="Sequences alive at once, or max: as many as fit. Default: 1.", metavar="N,..."),
]
Time = Annotated[
    bool,
    typer.Option(
        "--time",
        help="Predict decode and prefill times on --gpu; --ctx is then the prompt of each request.",
    ),
]
OutputTokens = Annotated[
    str | None,
    option("--output-tokens", help="With --time: tokens that each request generates. Default: 1.", metavar="N"),
]
Load = Annotated[
    str | None,
    option(
        "--load",
        help="With --time: closed (a finished request is replaced at once) or static. Default: closed.",
        metavar="LOAD",
    ),
]
KvDtype = Annotated[
    str | None,
    option(
        "--kv-dtype",
        help="Storage format of K, V and latents. Default: the model's dtype.",
        metavar="FORMAT,...",
        complete=complete_format,
    ),
]
KDtype = Annotated[
    str | None,
    option("--k-dtype", help="Storage format of K (and latents) alone.", metavar="FORMAT", complete=complete_format),
]
VDtype = Annotated[
    str | None,
    option("--v-dtype", help="Storage format of V alone.", metavar="FORMAT", complete=complete_format),
]
IndexDtype = Annotated[
    str,
    option(
        "--index-dtype",
        help="Storage of sparse-attention index keys. Default: fp8 with a scale.",
        metavar="FORMAT",
    ),
]
Policy = Annotated[
    list[str] | None,
    option(
        "--policy",
        help="What stays in the cache: full, streaming:sinks=4,window=2044, h2o:budget=0.2, snapkv:generated=500. Repeat to compare.",
        metavar="POLICY",
    ),
]
Tp = Annotated[str | None, option("--tp", help="Tensor-parallel ranks.", metavar="N,...")]
Pp = Annotated[str | None, option("--pp", help="Pipeline stages.", metavar="N,...")]
Ep = Annotated[str, option("--ep", help="Expert-parallel ranks: divide the expert weights.", metavar="N")]
Dp = Annotated[str | None, option("--dp", help="Replicas; bytes and batch are per replica.", metavar="N")]
Dcp = Annotated[
    str,
    option("--dcp", help="Decode-context-parallel ranks among the TP ranks: divide the tokens.", metavar="N"),
]
Mtp = Annotated[str, option("--mtp", help="Draft (multi-token prediction) layers held.", metavar="N")]
Prefix = Annotated[str | None, option("--prefix", help="Tokens that all sequences share, held once.", metavar="N")]
EncoderTokens = Annotated[
    str | None,
    option("--encoder-tokens", help="Tokens of the encoder's output, for cross-attention.", metavar="N"),
]
Engine = Annotated[
    str | None,
    option(
        "--engine",
        help="NAME[@VERSION] of an engine whose reservation to show beside the need; all for every engine.",
        metavar="ENGINE,...",
    ),
]
EngineOptions = Annotated[
    list[str] | None,
    option(
        "-E",
        help="An option of the engine, spelled as the engine spells it: -E block_size=16. Repeatable.",
        metavar="KEY=VALUE",
    ),
]
GpuOption = Annotated[
    str | None,
    option(
        "--gpu",
        help="Catalogue name, all, local, a .yaml file or bytes (80GiB).",
        metavar="GPU,...",
        complete=complete_gpu,
    ),
]
Count = Annotated[str | None, option("--count", help="Cards. Default: tp x pp x dp.", metavar="N")]
Utilization = Annotated[
    str | None,
    option(
        "--utilization",
        help="Share of the card's memory that may be used. Default: the engine's own, else 0.92.",
        metavar="SHARE",
    ),
]
WeightsOption = Annotated[
    str | None,
    option(
        "--weights",
        help="Stored format of the weights (bf16, fp8, q4_k_m, ...) or their bytes (38GiB). Default: as released.",
        metavar="FORMAT|BYTES",
    ),
]
AvailableBytes = Annotated[
    str | None,
    option("--available-bytes", help="The KV budget of one card outright.", metavar="BYTES"),
]
Reserve = Annotated[str | None, option("--reserve", help="Bytes of each card held back for others.", metavar="BYTES")]
Draft = Annotated[
    str | None,
    option("--draft", help="A separate draft model on the same cards.", metavar="MODEL", complete=complete_model),
]
Serve = Annotated[
    str | None,
    option(
        "--serve",
        help="A real serve command, read and never run, in place of MODEL and the options: 'vllm serve ...'.",
        metavar="COMMAND",
    ),
]
Specs = Annotated[
    str | None,
    option(
        "--specs",
        help="Folder of your own specs, searched before the shipped ones; or $KVPLAN_SPECS.",
        metavar="DIR",
    ),
]
Online = Annotated[
    bool,
    option("--online", help="Fetch a hub id's config.json and safetensors headers; nothing else touches the network."),
]
OutputFormat = Annotated[
    str,
    option("--format", help="table, json, csv, markdown or html. Default: table.", metavar="FORMAT"),
]
OutputFile = Annotated[
    str | None,
    option("-o", "--output", help="Write the report to a file, whole or not at all.", metavar="FILE"),
]
Unit = Annotated[
    str,
    option("--unit", help="Unit of tables: GiB, GB, MiB, MB, KiB, KB or bytes. Default: GiB.", metavar="UNIT"),
]
Quiet = Annotated[bool, option("--quiet", "-q", help="No hints.")]
NoColor = Annotated[bool, option("--no-color", help="No colour, even on a terminal.")]
JsonSchema = Annotated[bool, option("--json-schema", help="Print the JSON Schema of this command's JSON and stop.")]
Query = Annotated[
    list[str] | None,
    typer.Argument(metavar="[QUERY]...", help="Words to search for.", show_default=False),
]
InlineLayers = Annotated[
    str | None,
    option("--layers", help="A model by its numbers, in place of MODEL: layers.", metavar="N"),
]
InlineHeads = Annotated[
    str | None,
    option("--heads", help="Query heads of that model. Default: --kv-heads.", metavar="N"),
]
InlineKvHeads = Annotated[str | None, option("--kv-heads", help="KV heads of that model.", metavar="N")]
InlineHeadDim = Annotated[str | None, option("--head-dim", help="Head width of that model.", metavar="N")]
InlineWindow = Annotated[str | None, option("--window", help="Sliding window of that model.", metavar="N")]
InlineDtype = Annotated[
    str | None,
    option("--dtype", help="Number format of that model: bf16, fp16 or fp32.", metavar="DTYPE"),
]


def listed(text: str | None) -> list[str | None]:
    """The values of a comma-separated option; [None] where it was not given.

    Raises: InputError for an empty item.
    """
    if text is None:
        return [None]
    items = [item.strip() for item in text.split(",")]
    if len(items) > MOST_COMBINATIONS:
        raise InputError(
            f"a list of {len(items):,} values, allowed at most {MOST_COMBINATIONS:,}", "ask for fewer at once"
        )
    if not all(items):
        raise InputError(f"found {quoted(text)}, allowed values separated by commas", "for example 8k,32k,128k")
    return list(items)


def numbers(text: str | None, what: str, least: int = 1, most: int = 10**9) -> list[int | None]:
    """The whole numbers of a comma-separated option; [None] where it was not given."""
    return [None if item is None else whole_number(item, what, least, most) for item in listed(text)]


def batches(text: str | None) -> list[int | None]:
    """The values of `--batch`; `max` stands for as many sequences as fit, None for an option not given.

    Raises: InputError for anything that is neither.
    """
    from kvplan.question import MOST

    found: list[int | None] = []
    for item in listed(text):
        found += [MOST] if item == "max" else numbers(item, "--batch", most=10**12)
    return found


def output_tokens(timed: bool, output: str | None, load: str | None) -> dict[str, Any]:
    """What `--time` and its companions mean for a question.

    Raises: InputError for a companion without `--time`, or a load that is not known.
    """
    if not timed:
        for name, value in (("--output-tokens", output), ("--load", load)):
            if value is not None:
                raise InputError(f"{name}: belongs to --time", f"add --time, or leave out {name}")
        return {}
    if load not in (None, "closed", "static"):
        raise InputError(f"--load: found {quoted(load)}, allowed closed, static", "--load closed")
    return {"output_tokens": 1 if output is None else tokens(output, "--output-tokens"), "load": load or "closed"}


def share(text: str, what: str) -> Fraction:
    """A share above 0 and at most 1, read in decimal.

    Raises: InputError for anything else.
    """
    try:
        value = Fraction(text) if len(text) <= 20 and "/" not in text and "e" not in text.lower() else Fraction(0)
    except ValueError:
        value = Fraction(0)
    if not 0 < value <= 1:
        raise InputError(
            f"{what}: found {quoted(text)}, allowed a share above 0 and at most 1",
            f"for example {what} 0.92",
        )
    return value


def inline(
    layers: str | None,
    heads: str | None,
    kv_heads: str | None,
    head_dim: str | None,
    window: str | None,
    dtype: str | None,
) -> Any:
    """The model given by its numbers, or None when no such option was typed.

    Raises: InputError when some of the numbers are missing.
    """
    given = {"--layers": layers, "--kv-heads": kv_heads, "--head-dim": head_dim}
    if not any((*given.values(), heads, window, dtype)):
        return None
    missing = [name for name, value in given.items() if value is None]
    if missing:
        raise InputError(
            f"a model by its numbers needs {', '.join(missing)} too",
            "for example --layers 80 --kv-heads 64 --head-dim 128",
        )
    from kvplan.spec import inline_spec

    return inline_spec(
        layers=whole_number(layers or "", "--layers", most=10_000),
        kv_heads=whole_number(kv_heads or "", "--kv-heads", most=4096),
        head_dim=whole_number(head_dim or "", "--head-dim", most=2**20),
        heads=whole_number(heads, "--heads", most=4096) if heads else None,
        window=tokens(window, "--window") if window else None,
        dtype=dtype or "bf16",
    )


def all_engines(text: str | None) -> bool:
    """True where `--engine` asks for every engine: those that refuse the workload then say so in their row."""
    return "all" in listed(text)


def engines_named(text: str | None, pairs: list[str] | None) -> list[tuple[str | None, tuple[str, ...] | None]]:
    """The engines of `--engine`, each with those of the `-E` pairs that it takes; None for all of the pairs.

    `all` is every engine of the roster, the architecture's need first. Of several engines each takes the
    options it knows; an option that none of them knows is an error.
    """
    named = listed(text)
    if len(named) == 1 and named[0] != "all":
        return [(named[0], None)]
    from kvplan.engine import ENGINES, engine_named, options_known

    names = [name for item in named for name in (ENGINES if item == "all" else [item]) if name is not None]
    for name in names:
        engine_named(name)
    known = {name: options_known(name, pairs or ()) for name in names}
    for pair in pairs or ():
        if not any(pair in taken for taken in known.values()):
            raise InputError(
                f"-E: found {quoted(pair)}, which none of {', '.join(names)} takes",
                "`kvplan show ENGINE` lists an engine's options",
            )
    return list(known.items())


def gpus_named(text: str | None, hints: list[str]) -> list[Any]:
    """The GPUs of `--gpu`: names, or every device of the catalogue whose total is known."""
    found: list[Any] = []
    for name in listed(text):
        if name != "all":
            found.append(name)
            continue
        from kvplan.catalogue import all_gpus

        everything = list(all_gpus())
        found += [gpu for gpu in everything if gpu.memory.total_bytes is not None]
        unknown = [gpu.name for gpu in everything if gpu.memory.total_bytes is None]
        hints.append(f"left out, since their driver-reported total is not known: {', '.join(unknown)}")
    return found


def combinations(**axes: list[Any]) -> list[dict[str, Any]]:
    """Every combination of the axes' values, the first axis slowest.

    Raises: InputError when there are too many to answer.
    """
    count = 1
    for values in axes.values():
        count *= len(values)
    if count > MOST_COMBINATIONS:
        raise InputError(f"{count:,} combinations, allowed at most {MOST_COMBINATIONS:,}", "ask for fewer at once")
    return [dict(zip(axes, values, strict=True)) for values in product(*axes.values())]


def optional_bytes(text: str | None, what: str) -> int | None:
    """Bytes of an option, or None where it was not given."""
    return None if text is None else byte_count(text, what)
