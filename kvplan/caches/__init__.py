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

COMPARED = (
    "none",
    "contiguous",
    "dynamic",
    "paged",
    "prefix-tree",
    "gqa",
    "window",
    "chunk",
    "streaming",
    "h2o",
    "fp8",
    "int8_g32",
    "int4_g32",
    "int2_g32",
    "kivi4",
    "kivi2",
)
"""What `kvplan measure --compare` can run side by side on the keys and values of heads."""
