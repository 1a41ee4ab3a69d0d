"""The local hub cache, read as the folder of a checkpoint: no flag, no client, no socket.

The cache keeps `models--ORG--NAME/refs/REVISION`, which holds a commit, and `snapshots/COMMIT/`, whose files
are links into `blobs/`.

Source: https://huggingface.co/docs/huggingface_hub/guides/manage-cache
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from kvplan.errors import InputError, quoted
from kvplan.importers import Imported
from kvplan.importers.safetensors_header.header import beginning
from kvplan.importers.source import HubId, read_folder

COMMIT = re.compile(r"[0-9a-f]{40}")
_SHORT = re.compile(r"[0-9a-f]{7,39}")
MOST_ENTRIES = 10_000
HUB = "https://huggingface.co"


def cached(wanted: HubId) -> Imported | None:
    """The model as the local cache holds it; None where it holds nothing of that repository.

    Raises: InputError when the revision or its config.json is not there, or a file is damaged;
    NotCountableError as `read_config` does.
    """
    folder = _repository(wanted)
    if folder is None:
        return None
    revision = wanted.revision or "main"
    commit = _commit(folder, revision)
    snapshot = folder / "snapshots" / (commit or "")
    if commit is None or not snapshot.is_dir():
        held = _names(folder / "snapshots")[:3]
        raise InputError(
            f"{quoted(wanted.repository)}: the local hub cache holds no revision {quoted(revision)}",
            f"it holds {', '.join(f'{wanted.repository}@{quoted(name)[1:-1]}' for name in held)}; or add --online to fetch it"
            if held
            else "add --online to fetch it",
        )
    if not (snapshot / "config.json").is_file():
        raise InputError(
            f"{quoted(wanted.repository)}: no config.json in the local hub cache at {revision}",
            "add --online to fetch it",
        )
    read = read_folder(snapshot, f"{wanted.repository}@{commit}", wanted.name, partial=True)
    return of_hub(read, wanted, commit, f"read from the local hub cache: {wanted.repository} at {revision}")


def of_hub(read: Imported, wanted: HubId, commit: str, how: str, hub: str = HUB) -> Imported:
    """The model with the repository and the commit it was read at, in its fields, its sources and its notes."""
    changes = {"hub": wanted.repository, "sources": [f"{hub}/{wanted.repository}/tree/{commit}"]}
    fields = read.spec.fields.model_copy(update=changes)
    return Imported(
        read.spec.replace(fields=fields),
        (("hub", wanted.repository), ("revision", commit), *read.read),
        (f"{how}, commit {commit}", *read.notes),
    )


def hub_cache() -> Path:
    """The folder of the local hub cache, where the hub's own client keeps it."""
    for name in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"):
        if given := os.environ.get(name):
            return _expanded(given)
    home = os.environ.get("HF_HOME") or os.path.join(os.environ.get("XDG_CACHE_HOME") or "~/.cache", "huggingface")  # noqa: PTH118  # expanded as a whole
    return _expanded(home) / "hub"


def _expanded(text: str) -> Path:
    return Path(os.path.expandvars(os.path.expanduser(text)))  # noqa: PTH111  # a home that is unknown stays as it is


def _repository(wanted: HubId) -> Path | None:
    folder = hub_cache() / f"models--{wanted.repository.replace('/', '--')}"
    try:
        return folder if folder.is_dir() else None
    except (OSError, ValueError):
        return None


def _commit(folder: Path, revision: str) -> str | None:
    """The commit that a branch, a tag, a commit or its beginning means in this cache."""
    if COMMIT.fullmatch(revision):
        return revision
    reference = folder / "refs" / revision
    if reference.is_file():
        text = beginning(reference, 64, quoted(str(reference)))[0].decode("ascii", "replace").strip()
        return text if COMMIT.fullmatch(text) else None
    if _SHORT.fullmatch(revision):
        found = [name for name in _names(folder / "snapshots") if name.startswith(revision)]
        return found[0] if len(found) == 1 else None
    return None


def _names(folder: Path) -> list[str]:
    try:
        return sorted(entry.name for entry in os.scandir(folder))[:MOST_ENTRIES]
    except (OSError, ValueError):
        return []
