"""A model fetched from the hub: its config.json and the headers of its safetensors, at one commit.

What is fetched is laid out as a checkpoint folder whose tensors are holes of the right size, so that the folder's
own reader decides which files are the model and checks every header. No tensor and no pickle is asked for.

Source: the hub's HTTP interface as huggingface_hub 2.4 speaks it: `api/models/…/revision/…`, `…/resolve/…`.
"""

from __future__ import annotations

import json
import re
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock
from time import monotonic
from typing import Any
from urllib.parse import quote

from kvplan.errors import InputError, KvplanError, quoted
from kvplan.importers import Imported
from kvplan.importers.hub.cached import COMMIT, of_hub
from kvplan.importers.hub.client import Hub, RefusedError, check_online, endpoint, token
from kvplan.importers.safetensors_header.folder import INDEX, MOST_INDEX_BYTES, PICKLED, files_of
from kvplan.importers.safetensors_header.header import MOST_HEADER_BYTES
from kvplan.importers.source import MOST_JSON_BYTES, HubId, read_folder

MOST_SHARDS = 1_000
MOST_FILES = 10_000
MOST_HEADERS_BYTES = 256 * 2**20
SECONDS_KEPT = 300
_FILE_NAME = re.compile(r"[A-Za-z0-9_+-][A-Za-z0-9._+-]{0,199}")


def fetched(wanted: HubId) -> Imported:
    """The model as the hub holds it now, or at the revision that is asked for.

    One answer serves a command's many rows: it is kept for a few minutes.

    Raises: InputError for what is missing, closed, unreachable or damaged; NotCountableError as `read_config`
    does; MissingError without the hub client.
    """
    check_online()
    return _fetched(wanted, endpoint(), token(), int(monotonic() // SECONDS_KEPT))


@lru_cache(maxsize=16)
def _fetched(wanted: HubId, address: str, secret: str | None, period: int) -> Imported:
    revision = wanted.revision or "main"
    hub = Hub(address, secret)
    with TemporaryDirectory(prefix="kvplan-", ignore_cleanup_errors=True) as place:
        folder = Path(place).resolve()
        label = wanted.repository
        try:
            commit, files = _listing(hub, wanted, revision)
            label = f"{wanted.repository}@{commit}"
            _lay_out(hub, wanted, commit, files, folder)
            read = read_folder(folder, label, wanted.name)
        except RefusedError as refused:
            raise _refusal(refused, wanted, revision, address) from None
        except KvplanError as error:
            raise type(error)(error.what.replace(str(folder), label), error.fix) from None
        except OSError as error:
            raise InputError(f"{label}: cannot be laid out: {error.strerror}", "make room in $TMPDIR") from None
    pickled = [name for name in files if name.endswith(PICKLED)]
    if pickled and not read.spec.fields.weight_bytes:
        read = read.replace(notes=(*read.notes, f"{quoted(pickled[0])}: pickled weights, never fetched"))
    return of_hub(read, wanted, commit, f"fetched from {address}: {wanted.repository} at {revision}", address)


def _listing(hub: Hub, wanted: HubId, revision: str) -> tuple[str, list[str]]:
    """The commit that a revision means, and the names of the files at its top."""
    url = f"{hub.address}/api/models/{wanted.repository}/revision/{quote(revision, safe='')}"
    data = hub.whole(url, MOST_JSON_BYTES, elsewhere=False)
    bad = InputError(f"{wanted.repository}: the hub's answer is no listing of a model", "check HF_ENDPOINT")
    try:
        told: Any = json.loads(data)
    except (ValueError, RecursionError):
        raise bad from None
    commit = told.get("sha") if isinstance(told, dict) else None
    siblings = told.get("siblings") if isinstance(told, dict) else None
    if not isinstance(commit, str) or not COMMIT.fullmatch(commit) or not isinstance(siblings, list):
        raise bad
    names = [item.get("rfilename") for item in siblings if isinstance(item, dict)]
    return commit, [name for name in names if isinstance(name, str) and _FILE_NAME.fullmatch(name)][:MOST_FILES]


def _lay_out(hub: Hub, wanted: HubId, commit: str, files: list[str], folder: Path) -> None:
    """Fill `folder` with the config, the index and the headers, each file as long as the stored one."""
    if "config.json" not in files:
        held = [name for name in files if name.endswith(".gguf")]
        raise InputError(
            f"{wanted.repository}: holds no config.json",
            f"it holds {quoted(held[0])}: download that and give its path" if held else "give another repository",
        )

    def address(name: str) -> str:
        return f"{hub.address}/{wanted.repository}/resolve/{commit}/{quote(name)}"

    (folder / "config.json").write_bytes(hub.whole(address("config.json"), MOST_JSON_BYTES))
    stored = [name for name in files if name.endswith(".safetensors")]
    indexes = [name for name in files if name.endswith(INDEX)]
    for name in (*stored, *(name for name in files if name.endswith(PICKLED))):
        (folder / name).touch()
    for name in [f"model{INDEX}"] if f"model{INDEX}" in indexes else indexes[:2]:
        (folder / name).write_bytes(hub.whole(address(name), MOST_INDEX_BYTES))
    if not stored and not indexes:
        return
    chosen = [name for name, _ in files_of(folder)[0]]
    if len(chosen) > MOST_SHARDS:
        raise InputError(
            f"{wanted.repository}: {len(chosen):,} shards, allowed at most {MOST_SHARDS:,}",
            "download the model and give its folder",
        )
    taken, lock = [0], Lock()

    def fetch_header(name: str) -> None:
        first = hub.span(address(name), 0, 7)
        length = int.from_bytes(first.data, "little")
        data = first.data
        if 0 < length <= min(MOST_HEADER_BYTES, first.total_bytes - 8):  # the reader refuses the rest
            with lock:
                taken[0] += length
            if taken[0] > MOST_HEADERS_BYTES:
                raise InputError(
                    f"{wanted.repository}: headers of more than {MOST_HEADERS_BYTES:,} bytes in all",
                    "download the model and give its folder",
                )
            rest = hub.span(first.url, 8, 7 + length)
            if rest.total_bytes != first.total_bytes:
                raise InputError(f"{wanted.repository}: {quoted(name)} changed while it was read", "try again")
            data += rest.data
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("wb") as file:
            file.write(data)
            file.truncate(first.total_bytes)

    hub.each(fetch_header, chosen)


def _refusal(refused: RefusedError, wanted: HubId, revision: str, address: str) -> InputError:
    """The hub's no in words: what is closed or missing, and what opens it."""
    page = f"{address}/{wanted.repository}"
    login = "`hf auth login` or HF_TOKEN"
    if refused.code == "RevisionNotFound":
        return InputError(
            f"{wanted.repository}: no revision {quoted(revision)} on the hub", f"{page}/branches/all lists them"
        )
    if refused.code == "RepoNotFound" or (refused.status == 404 and refused.code != "EntryNotFound"):
        what = "no such repository" if revision == "main" else f"no such repository or revision {quoted(revision)}"
        return InputError(
            f"{wanted.repository}: {what} on the hub", f"check the name at {page}; if it is private, log in: {login}"
        )
    if refused.status in {401, 403}:
        gated = "gated" if refused.code == "GatedRepo" else "closed"
        return InputError(
            f"{wanted.repository}: {gated}: the hub refuses its files to this account ({refused.status})",
            f"accept the licence at {page}, then log in: {login}",
        )
    return InputError(
        f"{wanted.repository}: a file that the hub lists is refused ({refused.status})",
        f"try again, or download the model from {page} and give its folder",
    )
