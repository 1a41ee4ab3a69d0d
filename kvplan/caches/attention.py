"""Attention of one query over stored rows, each KV head read once for all the query heads that share it."""

from __future__ import annotations

import torch


def weights(query: torch.Tensor, keys: torch.Tensor) -> torch.Tensor:
    """Softmax weights [kv_heads, group, rows] of a query [heads, head_dim] over keys [kv_heads, rows, head_dim].

    The heads of a group stand side by side in one matrix product, so no key is copied per query head.
    """
    precise = torch.promote_types(keys.dtype, torch.float32) if keys.dtype.is_floating_point else torch.float32
    grouped = query.to(precise).view(keys.shape[0], -1, query.shape[-1])
    scores = grouped @ keys.to(precise).transpose(1, 2) * query.shape[-1] ** -0.5
    return torch.softmax(scores, dim=-1)


def mixed(shares: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    """The values [kv_heads, rows, v_head_dim] mixed by their weights, as [heads, v_head_dim]."""
    return (shares @ values.to(shares.dtype)).flatten(0, 1)


def attention(query: torch.Tensor, keys: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    """The output [heads, v_head_dim] of one query over all rows."""
    return mixed(weights(query, keys), values)
