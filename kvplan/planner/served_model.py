"""The model that a serve command means: itself where it is here, else what its name stands for in the catalogue.

A name may be that of a quantized or tuned copy, and a path may lie inside a container; the answer says what was
taken, and asks where nothing answers.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kvplan.catalogue import find, spec_folders
from kvplan.errors import InputError, quoted
from kvplan.importers.source import hub_id, is_source
from kvplan.serving import Served
from kvplan.serving.names import Candidate, candidates
from kvplan.weights import WIDTHS


def model_of(read: Served, given: dict[str, Any], fields: dict[str, Any], notes: list[str]) -> tuple[Any, str | None]:
    """(what names the model, the catalogue's name where it stands for another name); weights go to `fields`.

    Raises: InputError where the command names none, or one that nothing answers to.
    """
    beside = given.pop("model", None)
    if beside is not None:
        if read.model is not None:
            notes.append(f"{read.model} is counted as {beside if isinstance(beside, str) else beside.name}")
        return beside, None
    if read.model is None:
        raise InputError(
            f"{read.engine}: the command names no model",
            "name it beside the command: kvplan size MODEL --serve '…'",
        )
    if is_here(read.model, given):
        return read.model, None
    candidate, found = in_catalogue(read.model, given)
    if found is None:
        if is_source(read.model) or read.model.startswith(("/", ".", "~")):
            raise InputError(
                f"the model {quoted(read.model)} is a path that is not here",
                "name the model beside the command: kvplan size MODEL --serve '…', kvplan check FILE --model MODEL",
            )
        return read.model, None
    if candidate.weights is not None:
        fields.setdefault("weights", candidate.weights)
    if candidate.name == read.model:
        return read.model, None
    if candidate.dated and fields.get("ctx", "max") in ("max", "auto") and "ctx" not in given:
        raise InputError(
            f"{read.model}: counted as {found}, but its own maximum length is not known here",
            "state the length in the command or with --ctx, or add --online",
        )
    notes.append(f"{read.model} is counted as {found}: the same layers; its own maximum length may differ")
    return found, found


def is_here(model: str, given: Mapping[str, Any]) -> bool:
    """Whether a model itself can be read: a file, or a hub id that is cached or may be fetched."""
    if is_source(model) and Path(model).exists():
        return True
    wanted = hub_id(model)
    if wanted is None or find(model, spec_folders(given.get("specs"))) is not None:
        return False
    if given.get("online"):
        return True
    from kvplan.importers.hub import read_hub

    return read_hub(wanted) is not None


def in_catalogue(model: str, given: Mapping[str, Any]) -> tuple[Candidate, str | None]:
    """The first of the names that `model` may have in the catalogue, with the spec that answers to it."""
    folders = spec_folders(given.get("specs"))
    names = candidates(model)
    for candidate in names:
        found = find(candidate.name, folders)
        if found is not None:
            return candidate, found.name
    return names[0], None


def check_weights(fields: dict[str, Any], notes: list[str]) -> None:
    """Leave out a format of the weights whose width is not known; the answer then asks for it."""
    weights = fields.get("weights")
    if isinstance(weights, str) and weights not in WIDTHS and not weights[:1].isdigit():
        if fields.get("gpu") is not None:
            raise InputError(
                f"the weights are {quoted(weights)}, whose width is not known",
                "give their bytes beside the command, for example --weights 19GiB",
            )
        notes.append(f"the weights are {weights}, whose width is not known")
        del fields["weights"]
