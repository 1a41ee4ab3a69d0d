"""What a path holds, and the reader for it: config.json, a checkpoint folder, safetensors or GGUF."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from kvplan.errors import InputError, quoted
from kvplan.importers import Imported
from kvplan.record import Record

MOST_JSON_BYTES = 4 * 2**20
SUFFIXES = (".json", ".gguf", ".safetensors")
_WORD = r"(?![^/@]*(?:--|\.\.))[A-Za-z0-9_][A-Za-z0-9_.-]{0,95}"
_HUB_ID = rf"({_WORD}/({_WORD}))(?:@((?!.*\.\.)[A-Za-z0-9_][A-Za-z0-9_./-]{{0,199}}))?"


class HubId(Record):
    """A model on the hub: `ORG/NAME`, its NAME, and the branch, tag or commit where one is given."""

    repository: str
    name: str
    revision: str | None


def is_source(text: str) -> bool:
    """True when `text` names a file or folder that a model is read from, rather than a spec or a name.

    >>> is_source("model.gguf"), is_source("spec.yaml"), is_source("llama-70b")
    (True, False, False)
    """
    if text.endswith(SUFFIXES):
        return True
    try:
        return (Path(text) / "config.json").exists() or (text[:1] in "./~" and Path(text).is_dir())
    except (OSError, ValueError):
        return False


def hub_id(text: str) -> HubId | None:
    """What `text` names on the hub, `ORG/NAME` or `ORG/NAME@REVISION`; None where it can be no such name.

    >>> hub_id("Qwen/Qwen3-8B@main")
    HubId(repository='Qwen/Qwen3-8B', name='Qwen3-8B', revision='main')
    >>> hub_id("llama-70b"), hub_id("./Qwen/Qwen3-8B"), hub_id("specs/mine.yaml")
    (None, None, None)
    """
    match = re.fullmatch(_HUB_ID, text)
    if match is None or text.endswith((*SUFFIXES, ".yaml", ".yml")):
        return None
    return HubId(match[1], match[2], match[3])


def read_source(text: str) -> Imported:
    """The model at the path `text`, with its weight bytes where the source holds weights.

    Raises: InputError for a missing, damaged or unreadable source; NotCountableError naming what
    changes the cache and is not understood.
    """
    path = Path(text)
    if text.endswith(".gguf"):
        from kvplan.importers.gguf import read_gguf

        return read_gguf(path)
    if text.endswith(".safetensors"):
        return _with_weights(read_config_file(path.parent / "config.json"), path)
    if path.is_dir():
        return _with_weights(read_config_file(path / "config.json"), path)
    return read_config_file(path)


def read_folder(folder: Path, shown: str, name: str, partial: bool = False) -> Imported:
    """The model in a checkpoint folder.

    shown: what errors and the spec call it. name: the spec's, before it is made one.
    partial: the folder holds what was downloaded so far, so weights that cannot be read are a note.

    Raises: InputError, NotCountableError as `read_source` does.
    """
    from kvplan.importers.config import read_config

    read = read_config(read_json(folder / "config.json"), shown, _slug(name))
    try:
        return _with_weights(read, folder)
    except InputError as error:
        if not partial:
            raise
        return read.replace(notes=(*read.notes, f"weights are not known: {error.what}"))


def read_config_file(path: Path) -> Imported:
    """The model that a config.json describes, without weights.

    Raises: InputError, NotCountableError as `read_config` does.
    """
    from kvplan.importers.config import read_config

    values = read_json(path)
    return read_config(values, str(path), _name(path, values))


def read_json(path: Path) -> Any:
    """The JSON in a small file.

    Raises: InputError when it is missing, too large, nested too deeply or not JSON.
    """
    import json

    shown = quoted(str(path))
    try:
        if not path.is_file():
            raise InputError(
                f"{shown} {'is not a regular file' if path.exists() else 'does not exist'}",
                "give a config.json or a folder that holds one",
            )
        with path.open("rb") as file:
            data = file.read(MOST_JSON_BYTES + 1)
    except (OSError, ValueError) as error:
        raise InputError(
            f"{shown} cannot be read: {getattr(error, 'strerror', None) or 'bad path'}",
            "check the path and its permissions",
        ) from None
    if len(data) > MOST_JSON_BYTES:
        raise InputError(f"{shown} is larger than {MOST_JSON_BYTES:,} bytes", "a config.json is a small file")
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        place = f" at line {error.lineno}" if isinstance(error, json.JSONDecodeError) else ""
        raise InputError(f"{shown} is not JSON{place}", "give the config.json as it was published") from None


def _with_weights(read: Imported, path: Path) -> Imported:
    """The model with the bytes its checkpoint stores, which replace every estimate."""
    from kvplan.importers.safetensors_header import checkpoint

    if path.is_dir() and not _holds_weights(path):
        return read.replace(notes=(*read.notes, "the folder holds no safetensors: weights are not known"))
    stored = checkpoint(path, layers=read.spec.layer_count)
    fields = read.spec.fields.model_copy(update={"weight_bytes": dict(stored.bytes_by_place)})
    by_dtype = ", ".join(f"{dtype} {count:,} bytes" for dtype, count in stored.bytes_by_dtype.items())
    pairs = (("weights", f"{stored.total_bytes:,} bytes in {len(stored.files):,} files: {by_dtype}"),)
    return Imported(read.spec.replace(fields=fields), (*read.read, *pairs), (*read.notes, *stored.notes))


def _holds_weights(folder: Path) -> bool:
    return any(folder.glob("*.safetensors")) or (folder / "model.safetensors.index.json").exists()


def _name(path: Path, values: Any) -> str:
    """A spec name after the folder that was named with a config.json, else after its architecture, else the file."""
    stem = path.parent.name if path.name == "config.json" else path.stem
    if not stem and isinstance(values, dict):
        stem = str(values.get("model_type", ""))
    return _slug(stem)


def _slug(text: str) -> str:
    """`text` as the name of a spec."""
    slug = re.sub(r"[^a-z0-9._+-]+", "-", text[:200].lower()).strip("-._+")[:100]
    return slug or "imported"
