"""Plain dense attention in double precision, written apart from the caches: heads copied, every score in full."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the extra `measure` is not installed")

from kvplan.caches.interface import Shape

torch.set_num_threads(1)
SHAPE = Shape(heads=6, kv_heads=2, head_dim=64, v_head_dim=32)


def fresh(seed: int) -> Any:
    """A generator; tests draw theirs from hypothesis, so that every example has inputs of its own."""
    return torch.Generator().manual_seed(seed)


def stream(tokens: int, generator: Any, shape: Shape = SHAPE) -> tuple[Any, Any, Any]:
    """Queries [heads, n, d], keys and values [kv_heads, n, ...] in double precision; key channels differ in size."""
    queries = torch.randn(shape.heads, tokens, shape.head_dim, generator=generator, dtype=torch.float64)
    keys = torch.randn(shape.kv_heads, tokens, shape.head_dim, generator=generator, dtype=torch.float64)
    keys *= 1 + 3 * (torch.arange(shape.head_dim) % 16 == 0)  # a few large channels, as real keys have
    values = torch.randn(shape.kv_heads, tokens, shape.v_head_dim, generator=generator, dtype=torch.float64)
    return queries, keys, values


def dense(query: Any, keys: Any, values: Any, kept: list[int] | None = None) -> Any:
    """The output [heads, v_head_dim] of one query over the rows `kept`, or all; one head at a time."""
    group = query.shape[0] // keys.shape[0]
    outputs = []
    for head in range(query.shape[0]):
        k, v = keys[head // group].double(), values[head // group].double()
        if kept is not None:
            k, v = k[kept], v[kept]
        scores = (k * query[head].double()).sum(-1) / query.shape[-1] ** 0.5
        share = torch.exp(scores - scores.max())
        outputs.append((share[:, None] * v).sum(0) / share.sum())
    return torch.stack(outputs)


def relative_error(found: Any, expected: Any) -> float:
    """How far apart two tensors are, beside the size of the second."""
    return float((found.double() - expected).norm() / expected.norm())
