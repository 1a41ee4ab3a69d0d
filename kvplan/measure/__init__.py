"""Allocate the cache for real, weigh it, and set it against the prediction: the rooms that use torch.

`weighing` answers the question; `allocation` lays the plan's stored tensors out on a device;
`device`, `cpu` and `cuda` are the devices, behind one small protocol; `caching_allocator` predicts
what CUDA's allocator rounds up; `until_full` searches the largest cache that really allocates.
"""

from __future__ import annotations

from kvplan.errors import MissingError

INSTALL = "pip install 'kvplan[measure]'"


def require_torch() -> None:
    """Refuse where torch is not installed, with the line that installs it.

    Raises: MissingError.
    """
    try:
        import torch  # noqa: F401  # asked for, not used
    except ImportError:
        raise MissingError("measure: torch is not installed", INSTALL) from None
