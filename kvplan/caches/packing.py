"""Small codes side by side in bytes, the first in the lowest bits.

>>> packed(torch.tensor([[1, 2, 3, 0]], dtype=torch.uint8), 2), packed(torch.tensor([[1, 15]], dtype=torch.uint8), 4)
(tensor([[57]], dtype=torch.uint8), tensor([[241]], dtype=torch.uint8))
>>> unpacked(torch.tensor([[57]], dtype=torch.uint8), 2)
tensor([[1, 2, 3, 0]], dtype=torch.uint8)
"""

from __future__ import annotations

import torch


def packed(codes: torch.Tensor, bits: int) -> torch.Tensor:
    """Codes [..., n] below 2^bits as bytes [..., n x bits / 8]; n fills whole bytes."""
    each = 8 // bits
    lanes: torch.Tensor = codes.unflatten(-1, (-1, each))
    joined = lanes[..., 0].clone()
    for lane in range(1, each):
        joined |= lanes[..., lane] << (lane * bits)
    return joined


def unpacked(stored: torch.Tensor, bits: int) -> torch.Tensor:
    """The codes [..., n] in bytes [..., n x bits / 8]."""
    mask = 2**bits - 1
    return torch.stack([(stored >> shift) & mask for shift in range(0, 8, bits)], dim=-1).flatten(-2)


def asymmetric(rows: torch.Tensor, bits: int, dim: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """(codes, scale, zero) of one group along `dim`: zero is the smallest element, scale a step, both fp16.

    The codes are counted in the steps that are stored, so rounding the scale costs no second error.
    """
    wide = rows.float()
    zero = wide.amin(dim, keepdim=True).half()
    scale = ((wide.amax(dim, keepdim=True) - zero.float()) / (2**bits - 1)).half()
    step = scale.float().clamp(min=torch.finfo(torch.float16).tiny)
    codes = ((wide - zero.float()) / step).round().clamp(0, 2**bits - 1)
    return codes.to(torch.uint8), scale, zero


def restored(codes: torch.Tensor, scale: torch.Tensor, zero: torch.Tensor) -> torch.Tensor:
    """What codes stand for, in single precision."""
    return codes.float() * scale.float() + zero.float()
