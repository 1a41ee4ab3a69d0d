"""What kvplan knows, as rows: models, GPUs, formats and engines, searchable by words."""

from __future__ import annotations

from fractions import Fraction
from math import prod
from typing import Any

from kvplan.catalogue import all_gpus, all_models
from kvplan.footprint import cache_plan
from kvplan.growth import PerToken, rows
from kvplan.results import EngineRow, FormatRow, GpuRow, ModelRow
from kvplan.spec import ModelSpec
from kvplan.tensor import CacheTensor, Role
from kvplan.workload import Workload


def matches(query: str, *texts: object) -> bool:
    """True when every word of `query` stands in one of `texts`.

    >>> matches("qwen3 32b", "qwen3-32b"), matches("", "x"), matches("a b", "a")
    (True, True, False)
    """
    hay = " ".join(str(text).lower() for text in texts if text)
    return all(word in hay for word in query.lower().split())


def model_rows(query: str = "", specs: str | None = None) -> list[ModelRow]:
    """Every model that answers to the words of `query`, in order of name.

    >>> [row.name for row in model_rows("llama-3.1-70b")]
    ['llama-3.1-70b']
    """
    found = []
    for spec in all_models(specs):
        row = model_row(spec)
        if matches(query, row.name, " ".join(row.aliases), row.hub, row.attention):
            found.append(row)
    return found


def model_row(spec: ModelSpec) -> ModelRow:
    """One model's line; cross-attention counts nothing where the encoder's length is open."""
    fields = spec.fields
    encoder = None if fields.encoder_tokens else 1
    has_cross = any(kind.type == "cross" for _, layer in spec.layers() for kind in layer.kinds)
    plan = cache_plan(spec, Workload(1, encoder_tokens=encoder if has_cross else None))
    rate: Fraction = plan.marginal_bytes(full=True)
    fixed = 0 if has_cross and encoder else plan.fixed_bytes()
    return ModelRow(
        name=fields.name,
        aliases=tuple(fields.aliases),
        hub=fields.hub,
        parameters=fields.parameters,
        layers=spec.layer_count,
        attention=attention_text(spec),
        max_context=fields.max_context,
        bytes_per_token=int(rate) if rate.denominator == 1 else float(rate),
        fixed_bytes_per_sequence=fixed,
        confidence=fields.confidence,
    )


def attention_text(spec: ModelSpec) -> str:
    """The model's attention kinds in a few words, most layers first.

    A window or chunk is named with its width.
    """
    counts: dict[str, int] = {}
    for count, layer in spec.layers():
        text = "+".join(_kind_text(kind) for kind in layer.kinds)
        counts[text] = counts.get(text, 0) + count
    ordered = sorted(counts.items(), key=lambda item: -item[1])
    return ordered[0][0] if len(ordered) == 1 else ", ".join(f"{count} {text}" for text, count in ordered)


def _kind_text(kind: Any) -> str:
    for bound in ("window", "chunk"):
        width = getattr(kind, bound, None)
        if width is not None:
            return f"{kind.type} {bound} {width}"
    return str(kind.type)


def gpu_rows(query: str = "") -> list[GpuRow]:
    """Every GPU that answers to the words of `query`, in order of name.

    >>> [row.name for row in gpu_rows("h100 sxm")]
    ['h100-sxm-80gb']
    """
    found = []
    for gpu in all_gpus():
        if not matches(query, gpu.name, " ".join(gpu.aliases), gpu.title, gpu.vendor, gpu.arch):
            continue
        found.append(
            GpuRow(
                name=gpu.name,
                aliases=tuple(gpu.aliases),
                title=gpu.title,
                total_bytes=gpu.memory.total_bytes,
                bandwidth_gb_per_second=gpu.bandwidth.get("gb_per_second"),
                bf16_tflops=gpu.tflops.get("bf16"),
                memory_confidence=gpu.memory.confidence,
            ),
        )
    return found


def format_rows(query: str = "") -> list[FormatRow]:
    """Every cache format that answers to `query`, with its bits per element, metadata left out and in.

    >>> [(row.name, row.bits_with_metadata) for row in format_rows("q8_0")]
    [('q8_0', 8.5)]
    """
    from kvplan.formats import FORMATS, INDEX_FORMATS

    index_only = {f"index {name}": f for name, f in INDEX_FORMATS.items() if f.roles == {Role.INDEX}}
    found = []
    for name, chosen in [*FORMATS.items(), *index_only.items()]:
        holds = "K, V" if Role.K in chosen.roles else ", ".join(sorted(role.value for role in chosen.roles))
        row = FormatRow(name, holds, chosen.bits, _bits(chosen), chosen.summary, chosen.source)
        if matches(query, row.name, row.holds, row.summary):
            found.append(row)
    return found


EXAMPLE_CONTEXT = 2**17


def _bits(chosen: Any) -> float:
    """Bits per element with metadata: of a head of 128, a latent of 512 + 64 or an index key of 128."""
    law = PerToken()
    k = CacheTensor("k", Role.K, (1, 128), law, 1)
    if Role.K in chosen.roles:
        pairs = [(k, None), (CacheTensor("v", Role.V, (1, 128), law, 1), k)]
    elif Role.LATENT in chosen.roles:
        pairs = [(CacheTensor("latent", Role.LATENT, (576,), law, 1, rope=64), None)]
    else:
        pairs = [(CacheTensor("index", Role.INDEX, (128,), law, 1), None)]
    held = elements = 0
    for tensor, partner in pairs:
        for stored in chosen.stored(tensor, partner, law, "bf16"):
            held += int(rows(stored.growth, EXAMPLE_CONTEXT)) * stored.row_bytes
        elements += prod(tensor.row) * EXAMPLE_CONTEXT
    return 8 * held / elements


def engine_rows(query: str = "") -> list[EngineRow]:
    """Every engine that answers to `query`."""
    from kvplan.engine import ENGINES, engine_class

    engines = [engine_class(name) for name in ENGINES]
    return [
        EngineRow(e.NAME, e.VERSIONS, e.SUMMARY, tuple(e.OPTIONS), e.SOURCE)
        for e in engines
        if matches(query, e.NAME, e.SUMMARY)
    ]
