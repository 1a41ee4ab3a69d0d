"""Find, read and name YAML files: model specs and GPUs, the shipped ones and the user's own.

A file is found by its name, its aliases or its hub id. The first is a file name; the other two
stand on their own lines near the top, so finding one means scanning bytes, not parsing YAML.
User folders come before the shipped ones.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kvplan.errors import InputError, NotCountableError, nearest, quoted
from kvplan.importers.source import hub_id, is_source, read_source
from kvplan.record import Record
from kvplan.spec import ModelSpec, parse_spec
from kvplan.yaml_text import MOST_BYTES, load_yaml

if TYPE_CHECKING:
    from kvplan.gpu import Gpu

HERE = Path(__file__).parent
SHIPPED_SPECS = HERE / "model_specs" if (HERE / "model_specs").is_dir() else HERE.parent / "model_specs"
SHIPPED_GPUS = HERE / "gpus"
HEAD_BYTES = 600
MOST_FILES = 20_000
_NAME = re.compile(r"[a-z0-9][a-z0-9._+-]{0,99}")
_HUB = re.compile(r"[\w.-]{1,96}/[\w.-]{1,96}")
_OWN_NAME = re.compile(rb"^name:[ ]*[\"']?([^\s#\"']+)", re.MULTILINE)
_ALIASES = re.compile(rb"^aliases:[ ]*\[([^\]\n]*)\]", re.MULTILINE)
_HUB_LINE = re.compile(rb"^hub:[ ]*[\"']?([^\s#\"']+)", re.MULTILINE)


class Found(Record):
    """A file that answers to a name: where it is, what it is called, and how it was found."""

    path: Path
    name: str
    through: str
    notes: tuple[str, ...] = ()


def read_text(path: Path) -> str:
    """The text of a small file.

    Raises: InputError when it is missing, unreadable, too large, special or not UTF-8.
    """
    shown = quoted(str(path))
    try:
        if not path.is_file():
            problem = "is a folder" if path.is_dir() else "is not a regular file" if path.exists() else "does not exist"
            raise InputError(f"{shown} {problem}", "give the path of a YAML file")
        with path.open("rb") as file:
            data = file.read(MOST_BYTES + 1)
    except (OSError, ValueError) as error:
        raise InputError(
            f"{shown} cannot be read: {getattr(error, 'strerror', None) or 'bad path'}",
            "check the path and its permissions",
        ) from None
    if len(data) > MOST_BYTES:
        raise InputError(f"{shown} is larger than {MOST_BYTES:,} bytes", "a spec is a small file")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InputError(f"{shown} is not UTF-8 text", "save it as UTF-8") from None


def spec_folders(own: str | None = None) -> list[Path]:
    """Folders searched for specs, in order: `own` or $KVPLAN_SPECS, then the shipped ones.

    Raises: InputError when a folder the user named does not exist.
    """
    folders = [Path(p) for p in (own or os.environ.get("KVPLAN_SPECS", "")).split(os.pathsep) if p]
    named = "--specs" if own else "$KVPLAN_SPECS"
    for folder in folders:
        if not _is_folder(folder):
            raise InputError(
                f"{named}: {quoted(str(folder))} is not a folder",
                "give the folder that holds your .yaml specs",
            )
    return [*folders, SHIPPED_SPECS]


def _is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except OSError:  # a name too long, a loop of links
        return False


def model_named(text: str, own: str | None = None, online: bool = False) -> tuple[ModelSpec, Found | None]:
    """The spec that `text` means: a path, a name, an alias or a hub id; and how it was found.

    online: a hub id that the folders lack is fetched from the hub, not read from the local hub cache.

    Raises: InputError for an unknown name, with the nearest three, or an invalid file;
    NotCountableError for a config.json or GGUF whose cache cannot be told; MissingError for `online`
    without the hub client.
    """
    if is_source(text):
        read = read_source(text)
        return read.spec, Found(Path(text), read.spec.name, "source", read.notes)
    if _is_path(text):
        path = Path(text)
        return parse_spec(load_yaml(read_text(path), str(path)), str(path)), None
    found = find(text, spec_folders(own))
    if found is None:
        return _on_hub(text, own, online)
    return parse_spec(load_yaml(read_text(found.path), found.path.name), found.path.name), found


def _on_hub(text: str, own: str | None, online: bool) -> tuple[ModelSpec, Found | None]:
    """The spec of a hub id that no file answers to.

    Raises: InputError when it is no hub id, or neither cached nor to be fetched; as `read_hub` does.
    """
    wanted = hub_id(text)
    if wanted is None:
        gpu = find(text, [SHIPPED_GPUS])
        if gpu is not None:
            fix = f"name a model first: kvplan size MODEL --gpu {gpu.name}"
            raise InputError(f"no model called {quoted(text)}: that is a GPU", fix)
        raise InputError(f"no model called {quoted(text)}", _nearest_names(text, spec_folders(own), "kvplan models"))
    from kvplan.importers.hub import read_hub

    read = read_hub(wanted, online)
    if read is None:
        raise InputError(
            f"{quoted(text)} is neither in the catalogue nor in the local hub cache",
            f"add --online to fetch it from the hub; {_nearest_names(wanted.name, spec_folders(own), 'kvplan models')}",
        )
    return read.spec, Found(Path(read.spec.source), read.spec.name, "source", read.notes)


def _is_path(text: str) -> bool:
    return text.endswith((".yaml", ".yml")) or text.startswith((".", "/", "~"))


def find(text: str, folders: list[Path]) -> Found | None:
    """The first file in `folders` that answers to `text`; in each folder by file name, name, alias or hub id."""
    wanted = text.strip().lower()
    if not _NAME.fullmatch(wanted) and not _HUB.fullmatch(wanted):
        return None
    return next((found for folder in folders if (found := _found_in(folder, wanted)) is not None), None)


def _found_in(folder: Path, wanted: str) -> Found | None:
    """As `_find_in`; a shipped folder is searched for each name once in a run, as deployments name one model often."""
    if folder not in (SHIPPED_SPECS, SHIPPED_GPUS) or not folder.is_dir():
        return _find_in(folder, wanted)
    return _find_shipped(folder, wanted, folder.stat().st_mtime_ns)


@lru_cache(maxsize=1024)
def _find_shipped(folder: Path, wanted: str, _changed: int) -> Found | None:
    return _find_in(folder, wanted)


def _find_in(folder: Path, wanted: str) -> Found | None:
    path = folder / f"{wanted}.yaml"
    if _NAME.fullmatch(wanted) and path.is_file():
        return Found(path, wanted, "name")
    key = wanted.encode()
    for path, head in _heads(folder):
        if key not in head.lower():
            continue
        name = _own_name(path, head)
        if name == wanted:
            return Found(path, name, "name")
        if any(word == wanted for word in _words(_ALIASES, head)):
            return Found(path, name, "alias")
        hub = _HUB_LINE.search(head)
        if hub and hub.group(1).lower() == key:
            return Found(path, name, "hub id")
    return None


def names(folders: list[Path]) -> Iterator[tuple[str, list[str], Path]]:
    """(name, aliases, path) of every file in `folders`, those shadowed by an earlier folder left out."""
    seen: set[str] = set()
    for folder in folders:
        for path, head in _heads(folder):
            name = _own_name(path, head)
            if name not in seen:
                seen.add(name)
                yield name, _words(_ALIASES, head), path


def _heads(folder: Path) -> Iterator[tuple[Path, bytes]]:
    """The first bytes of every YAML file of a folder, in order of file name."""
    try:
        files = sorted(entry.name for entry in os.scandir(folder) if entry.name.endswith((".yaml", ".yml")))
    except OSError:
        return
    for name in files[:MOST_FILES]:
        path = os.path.join(folder, name)
        try:
            handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        except OSError:
            continue
        try:
            head = os.read(handle, HEAD_BYTES if folder == SHIPPED_SPECS else HEAD_BYTES * 100)
        except OSError:
            continue
        finally:
            os.close(handle)
        yield Path(path), head


def _own_name(path: Path, head: bytes) -> str:
    match = _OWN_NAME.search(head)
    return match.group(1).decode("utf-8", "replace").lower() if match else path.stem.lower()


def _words(pattern: re.Pattern[bytes], head: bytes) -> list[str]:
    match = pattern.search(head)
    if match is None:
        return []
    return [
        word.strip().strip("'\"").lower()
        for word in match.group(1).decode("utf-8", "replace").split(",")
        if word.strip()
    ]


def _nearest_names(text: str, folders: list[Path], command: str) -> str:
    owner: dict[str, str] = {}
    for name, aliases, _ in names(folders):
        owner.setdefault(name, name)
        for alias in aliases:
            owner.setdefault(alias, name)
    close = list(dict.fromkeys(owner[word] for word in nearest(text, owner, count=12, least=0)))[:3]
    return f"nearest: {', '.join(close)}" if close else f"`{command}` lists what is known"


def all_models(own: str | None = None) -> Iterator[ModelSpec]:
    """Every spec in the folders, in order of name.

    Raises: InputError at the first file that is not a valid spec.
    """
    for _, _, path in sorted(names(spec_folders(own)), key=lambda item: item[0]):
        yield parse_spec(load_yaml(read_text(path), path.name), path.name)


def gpu_named(text: str) -> Gpu:
    """The GPU that `text` means: a catalogue name or alias, a YAML file, plain bytes, or `local`.

    Raises: InputError for an unknown name, with the nearest three; MissingError for `local`
    without an NVIDIA driver.
    """
    from kvplan import gpu as gpus

    if text == "local":
        return gpus.local_gpu()
    if _is_path(text):
        return gpus.parse_gpu(load_yaml(read_text(Path(text)), text), text)
    if text[:1].isdigit() and text.lower().endswith("b") and (plain := gpus.plain_gpu(text)) is not None:
        return plain
    found = find(text, [SHIPPED_GPUS])
    if found is None and text.isdigit() and len(text) > 6 and (plain := gpus.plain_gpu(text)) is not None:
        return plain
    if found is None:
        fix = _nearest_names(text, [SHIPPED_GPUS], "kvplan gpus")
        raise InputError(f"no GPU called {quoted(text)}", f"{fix}; plain bytes such as 80GiB work too")
    return gpus.parse_gpu(load_yaml(read_text(found.path), found.path.name), found.path.name)


def all_gpus() -> Iterator[Gpu]:
    """Every GPU of the catalogue, in order of name."""
    from kvplan import gpu as gpus

    for _, _, path in names([SHIPPED_GPUS]):
        yield gpus.parse_gpu(load_yaml(read_text(path), path.name), path.name)


def overheads_text() -> Any:
    """The shipped list of memory overheads, as plain values."""
    return load_yaml(read_text(HERE / "overheads.yaml"), "overheads.yaml")


def laws_text() -> Any:
    """The shipped constants of the roofline, as plain values."""
    return load_yaml(read_text(HERE / "roofline" / "laws.yaml"), "laws.yaml")


def unknown_total(gpu: Gpu) -> NotCountableError:
    """The refusal for a device whose driver-reported memory nobody has written down."""
    rule = f" ({gpu.memory.unified.rule})" if gpu.memory.unified else ""
    return NotCountableError(
        f"{gpu.name}: memory.total_bytes: the driver's own total is not known{rule}",
        "give bytes instead, for example --gpu 80GiB, or the KV budget with --available-bytes",
    )
