"""The files of a checkpoint folder that hold the model: what its index names, else what lies there."""

from __future__ import annotations

import re
from pathlib import Path

from kvplan.errors import InputError, quoted
from kvplan.importers.safetensors_header.header import STRING, TEXT, beginning, unescaped

MOST_INDEX_BYTES = 64 * 2**20
MOST_FILES = 5_000
PICKLED = (".bin", ".pt", ".pth", ".ckpt", ".pkl")
INDEX = ".safetensors.index.json"

_PAIR = re.compile(rb"\s*+" + TEXT + rb"\s*+:\s*+" + TEXT + rb"\s*+([,}])")
_BESIDE = re.compile(
    rb"\s*+" + TEXT + rb'\s*+:\s*+(?:\{[^{}]{0,65536}+\}|[^,{}\[\]"]{1,100}+|' + STRING + rb")\s*+([,}])"
)
_MAP = re.compile(rb'\s*+"weight_map"\s*+:\s*+\{')
_SHARD = re.compile(r"(.+)-(\d{1,6})-of-(\d{1,6})\.safetensors")


Promises = dict[str, tuple[int, int]]
"""For each shard that an index names: how many tensors it should hold, and the sum of their names' hashes."""


def files_of(folder: Path) -> tuple[list[tuple[str, Path]], Promises, list[str]]:
    """The files of a folder that hold the model, what the index promises of each, and what was left out."""
    shown = quoted(str(folder))
    try:
        names = sorted(entry.name for entry in folder.iterdir())
    except OSError as error:
        raise InputError(f"{shown}: cannot be read: {error.strerror}", "check the folder's permissions") from None
    stored = [name for name in names if name.endswith(".safetensors")]
    pickled = [name for name in names if name.endswith(PICKLED)]
    notes = []
    if pickled:
        more = f" and {len(pickled) - 1} more" if len(pickled) > 1 else ""
        notes.append(f"{quoted(pickled[0])}{more}: pickled weights, never opened and not counted")
    indexes = [name for name in names if name.endswith(INDEX)]
    index = f"model{INDEX}" if f"model{INDEX}" in indexes else indexes[0] if len(indexes) == 1 else None
    promised = _index(folder / index) if index else {}
    if promised:
        chosen = sorted(promised)
    elif "model.safetensors" in stored:
        chosen = ["model.safetensors"]
    else:
        chosen = [name for name in stored if name != "adapter_model.safetensors"]
        _check_numbering(chosen, shown)
    if not chosen:
        held = "only pickled weights, which are never opened" if pickled else "no .safetensors file"
        raise InputError(f"{shown}: holds {held}", "convert the weights to safetensors, or give --weights BYTES")
    left = [name for name in stored if name not in set(chosen)]
    if left:
        why = "not in the index" if promised else "beside the model's own file"
        notes.append(f"{quoted(left[0])}{f' and {len(left) - 1} more' if len(left) > 1 else ''}: {why}, not counted")
    if len(chosen) > MOST_FILES:
        raise InputError(f"{shown}: {len(chosen):,} files, allowed at most {MOST_FILES:,}", "give one model's folder")
    return [(name, _inside(folder, name)) for name in chosen], promised, notes


def _check_numbering(names: list[str], shown: str) -> None:
    """Refuse a set of numbered shards with one missing."""
    present: dict[tuple[str, str], set[int]] = {}
    for name in names:
        if match := _SHARD.fullmatch(name):
            present.setdefault((match[1], match[3]), set()).add(int(match[2]))
    for (stem, total), numbers in present.items():
        if len(numbers) < int(total):
            missing = next(n for n in range(1, int(total) + 1) if n not in numbers)
            raise InputError(
                f"{shown}: {quoted(f'{stem}-{missing:0{len(total)}d}-of-{total}.safetensors')} does not exist",
                "download the whole checkpoint",
            )


def _inside(folder: Path, name: str) -> Path:
    """The shard's path, if it stays in the folder, or in the blobs of the hub cache the folder belongs to."""
    path = folder / name
    root = folder.resolve()
    allowed = [root, root.parent.parent / "blobs"] if root.parent.name == "snapshots" else [root]
    try:
        real = path.resolve()
    except (OSError, RuntimeError, ValueError):  # links in a circle, or a name that is none
        raise InputError(f"{quoted(str(path))}: cannot be followed", "put the shard itself there") from None
    if not any(real.is_relative_to(place) for place in allowed):
        raise InputError(
            f"{quoted(str(path))}: leads out of the folder", "put the shard itself there, or give the folder it is in"
        )
    return path


def _index(path: Path) -> Promises:
    """For each shard that an index names: how many tensors it should hold, and the sum of their names' hashes."""
    shown = quoted(str(path))
    data, size = beginning(path, MOST_INDEX_BYTES, shown)
    if size > MOST_INDEX_BYTES:
        raise InputError(
            f"{shown}: found {size:,} bytes, allowed at most {MOST_INDEX_BYTES:,}",
            "remove the index to read every file",
        )
    bad = InputError(
        f"{shown}: not an index: {{metadata: {{...}}, weight_map: {{tensor: shard}}}}", "download it again"
    )
    promised: Promises = {}
    opening = re.match(rb"\s*+\{", data)
    place, more = (opening.end(), True) if opening else (0, False)
    while more and (match := _MAP.match(data, place) or _BESIDE.match(data, place)):
        place = match.end()
        if match.re is _MAP:
            if promised:
                raise bad
            place = _weight_map(data, place, promised, shown, bad)
            match = re.compile(rb"\s*+([,}])").match(data, place)
            if match is None:
                raise bad
            place = match.end()
        more = match[match.lastindex or 0] == b","
    if not promised or data[place:].strip():
        raise bad
    return promised


def _weight_map(data: bytes, place: int, promised: Promises, shown: str, bad: InputError) -> int:
    """Fill `promised` from the pairs that start at `place`; where they end."""
    shards: dict[bytes, str] = {}
    while match := _PAIR.match(data, place):
        try:
            if match[2] not in shards:
                shards[match[2]] = _shard_name(unescaped(match[2]), shown)
            shard = shards[match[2]]
            count, total = promised.get(shard, (0, 0))
            promised[shard] = (count + 1, total + hash(unescaped(match[1])))
        except ValueError:
            raise bad from None
        if len(shards) > MOST_FILES:
            raise InputError(f"{shown}: more than {MOST_FILES:,} shards", "no checkpoint has so many")
        place = match.end()
        if match[3] == b"}":
            return place
    raise bad


def _shard_name(name: str, shown: str) -> str:
    parts = name.split("/")
    if (
        not name.endswith(".safetensors")
        or name.startswith("/")
        or "\\" in name
        or not {"", ".", ".."}.isdisjoint(parts)
    ):
        pickled = ": pickled weights are never opened" if name.endswith(PICKLED) else ""
        raise InputError(
            f"{shown}: weight_map: found {quoted(name)}, allowed a .safetensors file in the folder{pickled}",
            "download the index again",
        )
    return name
