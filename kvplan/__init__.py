"""kvplan: how much memory a model's KV cache takes, whether it fits, and what to buy.

    >>> import kvplan
    >>> kvplan.size("llama-3.1-70b", ctx=128_000).total_bytes
    41943040000

Everything public is listed in `__all__` and loaded when it is first used; torch never is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kvplan.api import fit as fit
    from kvplan.api import model as model
    from kvplan.api import size as size
    from kvplan.arrays import sweep as sweep
    from kvplan.errors import InputError as InputError
    from kvplan.errors import KvplanError as KvplanError
    from kvplan.errors import MissingError as MissingError
    from kvplan.errors import NotCountableError as NotCountableError
    from kvplan.lists import format_rows as format_rows
    from kvplan.lists import gpu_rows as gpu_rows
    from kvplan.lists import model_rows as model_rows
    from kvplan.results import FitResult as FitResult
    from kvplan.results import SizeResult as SizeResult
    from kvplan.spec import ModelSpec as ModelSpec

_HOMES = {
    "FitResult": "results",
    "InputError": "errors",
    "KvplanError": "errors",
    "MissingError": "errors",
    "ModelSpec": "spec",
    "NotCountableError": "errors",
    "SizeResult": "results",
    "fit": "api",
    "format_rows": "lists",
    "gpu_rows": "lists",
    "model": "api",
    "model_rows": "lists",
    "size": "api",
    "sweep": "arrays",
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
    "format_rows",
    "gpu_rows",
    "model",
    "model_rows",
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


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
