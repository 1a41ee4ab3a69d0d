"""Weight bytes of a safetensors checkpoint, from the headers alone: no tensor is read, no pickle opened.

A file is a length of 8 bytes, a JSON header and the tensors' bytes; a checkpoint is one file, the
shards of an index, or the files of a folder.
"""

from __future__ import annotations

from collections import Counter
from math import prod
from pathlib import Path

from kvplan.errors import InputError, quoted
from kvplan.importers.safetensors_header.folder import Promises, files_of
from kvplan.importers.safetensors_header.header import DTYPE_BITS, HeaderTensor, read_header
from kvplan.importers.safetensors_header.places import place, place_and_layer
from kvplan.record import Record
from kvplan.spec import WeightPlace

__all__ = ["DTYPE_BITS", "Checkpoint", "HeaderTensor", "checkpoint", "place", "read_header"]


class Checkpoint(Record):
    """Weights as they are stored.

    bytes_by_dtype: by safetensors dtype. bytes_by_place: by where the weights belong, as a spec's `weight_bytes`.
    elements: stored numbers; packed formats hold several parameters in one.
    files: names of what was read. notes: what was left out, and why.
    """

    source: str
    files: tuple[str, ...]
    tensors: int
    elements: int
    bytes_by_dtype: dict[str, int]
    bytes_by_place: dict[WeightPlace, int]
    notes: tuple[str, ...] = ()

    @property
    def total_bytes(self) -> int:
        """Bytes of all tensors."""
        return sum(self.bytes_by_place.values())


def checkpoint(path: Path, layers: int | None = None) -> Checkpoint:
    """The weights in one .safetensors file, or in a folder: its index's shards, else its files.

    layers: the model's own layers, where known; those numbered from there on are draft (MTP) layers.

    Raises: InputError for a damaged, missing or escaping file.
    """
    if not path.is_dir():
        return _sums(str(path), [(path.name, path)], {}, layers, [])
    files, promised, notes = files_of(path)
    return _sums(str(path), files, promised, layers, notes)


def _sums(
    source: str, files: list[tuple[str, Path]], promised: Promises, layers: int | None, notes: list[str]
) -> Checkpoint:
    by_dtype: Counter[str] = Counter()
    by_place: Counter[tuple[WeightPlace, int]] = Counter()
    drafts: set[int] = set()
    seen: set[int] = set()
    tensors = elements = 0
    for shard, path in files:
        found = read_header(path)
        _check_promise(shard, found, promised.get(shard), quoted(source), notes)
        for name, dtype, shape, size in found:
            by_dtype[dtype] += size
            elements += prod(shape)
            where, layer, draft = place_and_layer(name)
            by_place[where, layer] += size
            if draft:
                drafts.add(layer)
            if not promised and len(files) > 1:
                if hash(name) in seen:
                    raise InputError(
                        f"{quoted(source)}: the tensor {quoted(name)} stands in two files",
                        "give one of the files, or add model.safetensors.index.json",
                    )
                seen.add(hash(name))
        tensors += len(found)
    places: Counter[WeightPlace] = Counter()
    for (where, layer), size in by_place.items():
        own = layer < 0 or (layer not in drafts and (layers is None or layer < layers))
        places[where if own else "mtp"] += size
    return Checkpoint(
        source, tuple(shard for shard, _ in files), tensors, elements, dict(by_dtype), dict(places), tuple(notes)
    )


def _check_promise(
    shard: str, found: list[HeaderTensor], promise: tuple[int, int] | None, shown: str, notes: list[str]
) -> None:
    """Refuse a shard that lacks what the index says it holds; sums of hashes compare sets in no memory."""
    if promise is None:
        return
    count, total = promise
    if count < len(found):
        notes.append(f"{shard} holds {len(found) - count:,} tensors that the index does not name; they are counted")
    elif count > len(found) or total != sum(hash(t.name) for t in found):
        raise InputError(
            f"{shown}: index: tensors that {quoted(shard)} should hold are not in it",
            "the shard or the index is from another checkpoint; download both again",
        )
