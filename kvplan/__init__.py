"""kvplan: how much memory a model's KV cache takes, whether it fits, and what to buy.

    >>> import kvplan
    >>> kvplan.size("llama-3.1-70b", ctx=128_000).total_bytes
    41943040000

Everything public is listed in `__all__` and loaded when it is first used; torch never is.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kvplan.api import fit as fit
    from kvplan.api import formats as formats
    from kvplan.api import gpus as gpus
    from kvplan.api import model as model
    from kvplan.api import models as models
    from kvplan.api import size as size
    from kvplan.errors import InputError as InputError
    from kvplan.errors import KvplanError as KvplanError
    from kvplan.errors import MissingError as MissingError
    from kvplan.errors import NotCountableError as NotCountableError
    from kvplan.results import FitResult as FitResult
    from kvplan.results import SizeResult as SizeResult
    from kvplan.spec import ModelSpec as ModelSpec
    from kvplan.sweep import sweep as sweep

_HOMES = {
    "FitResult": "results",
    "InputError": "errors",
    "KvplanError": "errors",
    "MissingError": "errors",
    "ModelSpec": "spec",
    "NotCountableError": "errors",
    "SizeResult": "results",
    "fit": "api",
    "formats": "api",
    "gpus": "api",
    "model": "api",
    "models": "api",
    "size": "api",
    "sweep": "sweep",
}

__all__ = [
    "FitResult",
    "InputError",
    "KvplanError",
    "MissingError",
    "ModelSpec",
    "NotCountableError",
    "SizeResult",
    "fit",
    "formats",
    "gpus",
    "model",
    "models",
    "size",
    "sweep",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'kvplan' has no attribute {name!r}")
    from importlib import import_module

    value = getattr(import_module(f"kvplan.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


class _Package(ModuleType):
    """Keeps a submodule of the same name (`kvplan.formats`) from taking a public function's place."""

    def __setattr__(self, name: str, value: object) -> None:
        if not (name in _HOMES and isinstance(value, ModuleType)):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
