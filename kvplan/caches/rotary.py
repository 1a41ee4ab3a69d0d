"""Rotary positions: pairs of elements, a half apart, turned by an angle that grows with the position.

Source: Su et al. 2021 (arXiv:2104.09864), in the half-split layout of Llama.
"""

from __future__ import annotations

import torch


def rotated(rows: torch.Tensor, positions: torch.Tensor, theta: float = 10_000.0) -> torch.Tensor:
    """Rows [heads, tokens, head_dim], each turned to its position [tokens]; in single precision at least."""
    precise = torch.promote_types(rows.dtype, torch.float32)
    width = rows.shape[-1] // 2
    frequency = theta ** (-torch.arange(width, dtype=precise, device=rows.device) / width)
    angle = positions.to(precise)[:, None] * frequency
    first, second = rows.to(precise).split(width, dim=-1)
    cos, sin = angle.cos(), angle.sin()
    return torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1)
