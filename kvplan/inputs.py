"""What an answer was made from: short fingerprints of specs, cards and engines, so that a change can be named.

A fingerprint covers what bytes follow from (layers, dtype, parameters; a card's memory), not names, notes,
sources or prices.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

from kvplan.gpu import Gpu
from kvplan.spec import ModelSpec
from kvplan.spec_text import spec_values

SILENT = ("aliases", "hub", "dimensions", "notes", "sources", "confidence", "expect", "name")
"""Keys of a spec that no byte follows from."""


def fingerprint(values: Any) -> str:
    """Eight hexadecimal digits of the SHA-256 of `values` as canonical JSON.

    >>> fingerprint({"a": 1, "b": 2}) == fingerprint({"b": 2, "a": 1})
    True
    """
    text = json.dumps(values, sort_keys=True, separators=(",", ":"), default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def spec_fingerprint(spec: ModelSpec) -> str:
    """The fingerprint of a model's layers, dtype, weights and lengths."""
    return fingerprint({key: value for key, value in spec_values(spec).items() if key not in SILENT})


def gpu_fingerprint(gpu: Gpu) -> str:
    """The fingerprint of a card's memory."""
    memory = gpu.memory.model_dump(mode="json", exclude={"sources", "note", "label", "basis"})
    return fingerprint(memory)


def own_version() -> str:
    """Kvplan's version: the installed one, or that of the checkout it runs from."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("kvplan")
    except PackageNotFoundError:
        import tomllib
        from pathlib import Path

        with (Path(__file__).parents[1] / "pyproject.toml").open("rb") as file:
            return str(tomllib.load(file)["project"]["version"])


def changed(old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    """The inputs that differ between two records of inputs, in words; none where they are the same.

    >>> changed({"kvplan": "0.1.0", "models": {"a": "1"}}, {"kvplan": "0.2.0", "models": {"a": "2", "b": "1"}})
    ['kvplan 0.1.0 -> 0.2.0', 'models: a changed', 'models: b is new']
    """
    found = []
    for key in dict.fromkeys((*old, *new)):
        before, after = old.get(key), new.get(key)
        if isinstance(before, dict) or isinstance(after, dict):
            was, now = before or {}, after or {}
            for name in dict.fromkeys((*was, *now)):
                if name not in was:
                    found.append(f"{key}: {name} is new")
                elif name not in now:
                    found.append(f"{key}: {name} is gone")
                elif was[name] != now[name]:
                    found.append(f"{key}: {name} changed")
        elif before != after:
            found.append(f"{key} {before} -> {after}")
    return found
