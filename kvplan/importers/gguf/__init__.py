"""A .gguf file, or a set of split ones, as a model spec with the bytes its weights take.

Keys say what each layer keeps; what an architecture leaves unsaid follows llama.cpp's own loader.
An architecture or key that may change the cache and is not understood is refused by name.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from math import prod
from pathlib import Path
from typing import Any

from kvplan.errors import InputError, NotCountableError, did_you_mean, printable, quoted
from kvplan.importers import Imported
from kvplan.importers.gguf.architectures import (
    COUNTED,
    HARMLESS,
    HARMLESS_BEGINNINGS,
    KEEPS_NOTHING,
    LATENT,
    SHAPES_A_CACHE,
)
from kvplan.importers.gguf.container import TENSOR_TYPES, Container, Value, read_container
from kvplan.importers.gguf.keys import Keys
from kvplan.importers.gguf.layers import Stack, check_latent, layer_names
from kvplan.importers.gguf.places import place
from kvplan.record import Record
from kvplan.spec import WeightPlace, parse_spec

__all__ = ["TENSOR_TYPES", "Container", "GgufWeights", "read_container", "read_gguf", "read_metadata", "stored_weights"]

MOST_FILES = 1024
MOST_TENSORS = 262_144
_SPLIT = re.compile(r"(.+)-(\d{5})-of-(\d{5})\.gguf")
DTYPE_NOTE = "a GGUF does not say how its cache is stored: fp16, llama.cpp's default"


class GgufWeights(Record):
    """Weights as they are stored: bytes by ggml type and by place; elements are parameters."""

    files: tuple[str, ...]
    tensors: int
    elements: int
    bytes_by_type: dict[str, int]
    bytes_by_place: dict[WeightPlace, int]


def read_gguf(path: Path) -> Imported:
    """The model in a .gguf file; of split files, whichever is given, all are read.

    Raises: InputError for a damaged or incomplete file; NotCountableError for an architecture or a
    key that may change the cache and is not understood.
    """
    first, paths = _files(path)
    keys = _keys(first.values, first.source)
    stack, notes = _stack(keys)
    weights = _weights(first, paths, stack.count)
    values = {**_fields(keys, path, weights, notes), **_layers(stack)}
    return Imported(parse_spec(values, path.name), tuple(keys.read.items()), tuple(notes))


def read_metadata(values: Mapping[str, Any], shown: str) -> Imported:
    """The model that a file's keys describe where the file itself is not at hand, as a log prints them.

    Raises: InputError for a missing or malformed key; NotCountableError as `read_gguf` does.
    """
    keys = _keys(dict(values), shown)
    stack, notes = _stack(keys)
    nothing = GgufWeights((), 0, 0, {}, {})
    fields = _fields(keys, Path(shown), nothing, notes)
    return Imported(parse_spec({**fields, **_layers(stack)}, shown), tuple(keys.read.items()), tuple(notes))


def _stack(keys: Keys) -> tuple[Stack, list[str]]:
    """(the layers, what must be said of them)."""
    stack = Stack(keys)
    if keys.architecture in LATENT:
        check_latent(keys, stack.kept)
    unread = _check_unread(keys)
    notes = [DTYPE_NOTE, *stack.notes]
    if unread:
        notes.append(f"keys that were not read: {', '.join(map(printable, unread[:5]))}")
    return stack, notes


def stored_weights(path: Path, layers: int = 10**6) -> GgufWeights:
    """The weights alone, whatever the architecture; blocks numbered from `layers` on are draft layers.

    Raises: InputError for a damaged or incomplete file.
    """
    first, paths = _files(path)
    return _weights(first, paths, layers)


def _files(path: Path) -> tuple[Container, list[Path]]:
    """The file that holds the metadata, and the paths of all splits, that one first."""
    match = _SPLIT.fullmatch(path.name)
    total = int(match[3]) if match else 1
    if match and not 1 <= total <= MOST_FILES:
        raise InputError(f"{quoted(str(path))}: found {total:,} splits, allowed 1 to {MOST_FILES:,}", "rename the file")
    names = [f"{match[1]}-{n:05d}-of-{match[3]}.gguf" for n in range(1, total + 1)] if match else [path.name]
    paths = [path.with_name(name) for name in names] if match else [path]
    first = read_container(paths[0])
    told = first.values.get("split.count", 0) or 1
    if told != total:
        raise InputError(
            f"{first.source}: split.count: found {quoted(told)}, the name says {total:,}",
            "keep the names that the split was written with: NAME-00001-of-00002.gguf",
        )
    return first, paths


def _keys(values: dict[str, Value], shown: str) -> Keys:
    """The keys of an architecture that is counted."""
    kind = values.get("general.type", "model")
    if kind != "model":
        raise NotCountableError(
            f"{shown}: general.type: found {quoted(kind)}, allowed 'model'", "give the model's own .gguf file"
        )
    architecture = values.get("general.architecture")
    if not isinstance(architecture, str):
        raise InputError(
            f"{shown}: general.architecture: found nothing, allowed a word", "give the first file of a split model"
        )
    what = f"{shown}: general.architecture: found {quoted(architecture)}, which"
    if architecture in KEEPS_NOTHING:
        raise NotCountableError(f"{what} keeps no cache", "an encoder or diffusion model has none to plan")
    if architecture not in COUNTED:
        fix = did_you_mean(architecture, COUNTED, "write a spec by hand: `kvplan show llama-3.1-70b` prints one")
        raise NotCountableError(f"{what} kvplan does not know how to count", fix)
    keys = Keys(values, architecture, shown)
    keys.read["general.architecture"] = architecture
    if values.get(f"{architecture}.attention.causal") is False:
        raise NotCountableError(
            f"{shown}: {architecture}.attention.causal: found 'False', which keeps no cache", "it is an encoder"
        )
    return keys


def _check_unread(keys: Keys) -> list[str]:
    """Refuse keys that nobody read and that may shape a cache; the other unknown ones are returned."""
    beginning = f"{keys.architecture}."
    unknown = []
    for key, value in keys.values.items():
        name = key.removeprefix(beginning)
        if name == key or key in keys.read or name in HARMLESS or name.startswith(HARMLESS_BEGINNINGS) or not value:
            continue
        if any(word in name for word in SHAPES_A_CACHE):
            found = quoted(value) if not isinstance(value, tuple) else f"a list of {len(value):,}"
            raise NotCountableError(
                f"{keys.shown}: {printable(key)}: found {found}, which kvplan does not know how to count in this architecture",
                "write a spec by hand: `kvplan show llama-3.1-70b` prints one",
            )
        unknown.append(key)
    return unknown


def _layers(stack: Stack) -> dict[str, Any]:
    """The keys of a spec that say what each layer keeps."""
    pattern, names = layer_names(stack.kept)
    uniform = len(names) == 1
    attention: Any = {name: _one(kinds) for name, kinds in names.items()}
    values = {"layers": len(pattern), "attention": attention[pattern[0]] if uniform else attention}
    if not uniform:
        values["pattern"] = pattern
    if stack.draft is not None:
        values["draft"] = {"attention": _one(stack.draft)}
    return values


def _one(kinds: list[dict[str, Any]]) -> Any:
    return kinds[0] if len(kinds) == 1 else kinds


def _fields(keys: Keys, path: Path, weights: GgufWeights, notes: list[str]) -> dict[str, Any]:
    """The keys of a spec but those of layers."""
    fields: dict[str, Any] = {"name": _name(keys, path), "dtype": "fp16"}
    context = keys.whole("context_length", 0, most=2**40)
    if context:
        fields["max_context"] = min(context, 10**12)
    if weights.tensors:
        fields["parameters"] = max(1, min(weights.elements, 10**15))
        fields["weight_bytes"] = weights.bytes_by_place
    fields["notes"] = "; ".join(notes)[:2000]
    fields["sources"] = [printable(f"metadata of {path.name}")]
    return fields


def _name(keys: Keys, path: Path) -> str:
    """A spec's name from the model's own, else from the file's."""
    given = keys.values.get("general.name")
    match = _SPLIT.fullmatch(path.name)
    for text in (given, match[1] if match else path.stem):
        name = (
            re.sub(r"[^a-z0-9._+-]+", "-", text.lower())[:100].lstrip("._+-").rstrip("-")
            if isinstance(text, str)
            else ""
        )
        if name:
            return name
    return "gguf"


def _weights(first: Container, paths: list[Path], layers: int) -> GgufWeights:
    by_type: Counter[str] = Counter()
    by_place: Counter[WeightPlace] = Counter()
    seen: set[int] = set()
    tensors = elements = 0
    for number, path in enumerate(paths):
        container = first
        if number:
            container = read_container(path)
            if container.values.get("split.no", number) != number:
                raise InputError(
                    f"{container.source}: split.no: found {quoted(container.values['split.no'])}, the name says {number}",
                    "keep the names that the split was written with",
                )
        tensors += len(container.tensors)
        if tensors > MOST_TENSORS:
            raise InputError(f"{container.source}: more than {MOST_TENSORS:,} tensors in all", "no model has so many")
        for name, type_, shape, size in container.tensors:
            if hash(name) in seen:
                raise InputError(
                    f"{container.source}: the tensor {quoted(name)} stands in two files", "download them again"
                )
            seen.add(hash(name))
            by_type[type_] += size
            by_place[place(name, layers)] += size
            elements += prod(shape)
    told = first.values.get("split.tensors.count", tensors)
    if told != tensors:
        raise InputError(
            f"{first.source}: split.tensors.count: found {quoted(told)}, the files hold {tensors:,}",
            "download the whole split model",
        )
    return GgufWeights(tuple(path.name for path in paths), tensors, elements, dict(by_type), dict(by_place))
