"""What one layer keeps for one sequence: the roster of attention kinds.

A kind is one file: its YAML fields, `cache_tensors()` and `pair_flops()`. A new kind adds its
file and one line to `KINDS`. Kinds are imported when a spec first names them, so that sizing
one model never pays for the others.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol, cast

from kvplan.errors import NotCountableError, did_you_mean, quoted

if TYPE_CHECKING:
    from kvplan.tensor import CacheTensor

KINDS = {
    "mha": "mha",
    "mqa": "mqa",
    "gqa": "gqa",
    "mla": "mla",
    "cross": "cross",
    "index": "index",
    "compressed": "compressed",
    "mamba1": "mamba1",
    "mamba2": "mamba2",
    "gated_deltanet": "gated_deltanet",
    "kda": "kda",
    "lightning": "lightning",
    "short_conv": "short_conv",
    "rwkv7": "rwkv7",
    "rg_lru": "rg_lru",
    "mlstm": "mlstm",
    "shared": "shared",
    "none": "none",
}


class AttentionKind(Protocol):
    """What the core asks of a kind, and all it asks."""

    type: str

    def cache_tensors(self) -> tuple[CacheTensor, ...]:
        """The tensors one layer keeps for one sequence."""
        ...

    def pair_flops(self) -> int:
        """FLOPs of one query token against one cached row, all heads; 0 where nothing is attended to."""
        ...


def kind_class(name: object) -> Any:
    """The class of the attention kind called `name`.

    >>> kind_class("gqa").__name__
    'Gqa'

    Raises: NotCountableError for a kind that is not in the roster.
    """
    if not isinstance(name, str) or name not in KINDS:
        fix = did_you_mean(str(name)[:80], KINDS, f"kinds kvplan counts: {', '.join(KINDS)}")
        raise NotCountableError(f"type: found {quoted(name)}, which kvplan does not know how to count", fix)
    module = import_module(f"kvplan.attention.{KINDS[name]}")
    return cast("Any", module).KIND
