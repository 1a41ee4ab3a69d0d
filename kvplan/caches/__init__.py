"""The caches of the literature as running torch code: one readable file per technique.

Each holds one layer of one sequence, takes keys and values as they come, attends, and says which
tensors it holds. They are references to read, to weigh and to compare, not fast ones. A new
technique adds its file and one line to `TECHNIQUES`.
"""

from __future__ import annotations

TECHNIQUES = {
    "none": "recompute",
    "contiguous": "contiguous",
    "dynamic": "dynamic",
    "paged": "paged",
    "prefix-tree": "prefix_tree",
    "gqa": "grouped",
    "mla": "latent",
    "window": "window",
    "chunk": "chunk",
    "streaming": "streaming",
    "h2o": "h2o",
    "quantised": "quantised",
    "kivi": "kivi",
    "state": "state",
}
"""Techniques by name, and the module of each."""
