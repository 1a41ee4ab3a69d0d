"""A second opinion on the same cache: the cache classes of Hugging Face transformers, filled and weighed.

Their layers are made for the model's layers, take the whole text in one update, and keep what that
library keeps; every tensor they hold is weighed by its storage. The prediction is that of
`--engine transformers`, whose rules differ from the architecture's need, so the two opinions are named apart.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

import torch

from kvplan.caches.interface import storage_bytes
from kvplan.engine import engine_named
from kvplan.errors import InputError, MissingError, NotCountableError
from kvplan.formats import format_named
from kvplan.measure.device import DTYPES
from kvplan.question import Subject
from kvplan.results import SecondOpinionResult
from kvplan.spec import Runs
from kvplan.tensor import Role

LIBRARIES = ("transformers",)


def checked_library(name: str) -> str:
    """The library that gives the second opinion.

    Raises: InputError for another one; MissingError where it is not installed.
    """
    if name not in LIBRARIES:
        raise InputError(f"--weigh-with: found {name!r}, allowed {', '.join(LIBRARIES)}", "--weigh-with transformers")
    try:
        import_module(name)
    except ImportError:
        raise MissingError("--weigh-with transformers: it is not installed", "pip install transformers") from None
    return name


def second_opinion(asked: Subject, limit_bytes: int, place: str) -> SecondOpinionResult:
    """The first layers of `asked`, as many as stay within `limit_bytes`, in that library's own classes.

    Raises: NotCountableError for layers other than full or windowed heads, or a workload those classes do not hold.
    """
    library: Any = import_module("transformers")
    _check(asked)
    layers = _layers_within(asked, limit_bytes)
    cut = asked.spec.replace(runs=_first(asked.spec.runs, layers))
    predicted = engine_named("transformers").reserve(cut, asked.workload).reserved_bytes if layers else 0
    cache = library.DynamicCache()
    cache.layers = []
    w = asked.workload
    dtype = DTYPES[format_named(w.k_dtype or asked.spec.fields.kv_dtype or asked.spec.fields.dtype).name]
    for count, layer in cut.runs if layers else ():
        kind: Any = layer.kinds[0]
        for _ in range(count):
            cache.layers.append(
                library.cache_utils.DynamicSlidingWindowLayer(sliding_window=kind.window)
                if kind.window
                else library.cache_utils.DynamicLayer()
            )
            widths = kind.head_dim, kind.v_head_dim or kind.head_dim
            rows = [torch.ones(w.batch, kind.kv_heads, w.context, n, dtype=dtype, device=place) for n in widths]
            cache.update(*rows, len(cache.layers) - 1)
            del rows
    measured = storage_bytes(t for layer in cache.layers for t in vars(layer).values() if isinstance(t, torch.Tensor))
    return SecondOpinionResult(
        library="transformers",
        version=str(library.__version__),
        measured_layers=layers,
        predicted_bytes=predicted,
        measured_bytes=measured,
        difference_bytes=measured - predicted,
        agrees=measured == predicted and layers > 0,
    )


def _check(asked: Subject) -> None:
    """Refuse what is not plain heads with one format, on one rank, nothing evicted or shared."""
    w, spec = asked.workload, asked.spec
    stored = [
        w.k_dtype or spec.fields.kv_dtype or spec.fields.dtype,
        w.v_dtype or spec.fields.kv_dtype or spec.fields.dtype,
    ]
    formats = {format_named(name).name for name in stored}
    plain = len(formats) == 1 and formats <= {"fp32", "fp16", "bf16"}
    if not plain or w.ranks > 1 or w.mtp or w.prefix or w.policy_text != "full":
        raise NotCountableError(
            "--weigh-with transformers: its DynamicCache holds one of fp32, fp16 and bf16, on one rank, nothing shared or evicted",
            "leave out --kv-dtype, --policy, --tp, --pp, --prefix and --mtp",
        )
    for _, layer in spec.runs:
        roles = [tensor.role for tensor in layer.tensors()]
        kinds: list[Any] = list(layer.kinds)
        if roles != [Role.K, Role.V] or kinds[0].type not in ("mha", "mqa", "gqa") or kinds[0].chunk:
            raise NotCountableError(
                f"{spec.source}: attention: --weigh-with fills layers of full or windowed heads, found {', '.join(k.type for k in kinds)}",
                "leave --weigh-with out; kvplan's own tensors are weighed all the same",
            )


def _first(runs: Runs, layers: int) -> Runs:
    """The first `layers` layers."""
    kept, left = [], layers
    for count, layer in runs:
        if left:
            kept.append((min(count, left), layer))
            left -= min(count, left)
    return tuple(kept)


def _layers_within(asked: Subject, limit_bytes: int) -> int:
    """How many layers the library's own rules keep within the limit."""
    engine, total = engine_named("transformers"), sum(count for count, _ in asked.spec.runs)
    low, high = 0, total + 1
    while high - low > 1:
        middle = (low + high) // 2
        cut = asked.spec.replace(runs=_first(asked.spec.runs, middle))
        fits = engine.reserve(cut, asked.workload).reserved_bytes <= limit_bytes
        low, high = (middle, high) if fits else (low, middle)
    return low
