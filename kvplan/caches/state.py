"""state: a recurrent layer keeps one matrix per head and the last columns of a convolution, at any length.

The state decays by a factor per head and step and takes in the newest token: S <- a S + x B^T; the
output is S C. Unrolled, it is attention without softmax, whose weights fall with the distance:
y_t = sum over s of (a_(s+1) ... a_t) (C_t . B_s) x_s.

Bytes: (conv_kernel - 1) x (heads x head_dim + 2 x groups x d_state) elements and heads x head_dim x
d_state of state, whatever the length.

Worked: Nemotron-H-8B's Mamba-2 layer holds 4,255,744 bytes at 1 token and at 1,000,000.

Source: Mamba-2, Dao and Gu 2024 (arXiv:2405.21060), section 3.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch

from kvplan.caches.interface import tensor_bytes
from kvplan.record import Record


class StateShape(Record):
    """heads of head_dim share the B and C of `groups`, each d_state wide; conv_kernel columns meet in a convolution."""

    heads: int
    head_dim: int
    groups: int
    d_state: int
    conv_kernel: int

    @property
    def channels(self) -> int:
        """Width of one column: x of all heads, then B, then C of all groups."""
        return self.heads * self.head_dim + 2 * self.groups * self.d_state


class State:
    """The last conv_kernel - 1 columns [conv_kernel - 1, channels] and the state [heads, head_dim, d_state].

    kernel: [channels, conv_kernel], the newest column last.
    """

    def __init__(
        self, shape: StateShape, kernel: torch.Tensor, dtype: torch.dtype, state_dtype: torch.dtype = torch.float32
    ) -> None:
        self.shape, self.kernel = shape, kernel
        self.columns = torch.zeros(shape.conv_kernel - 1, shape.channels, dtype=dtype)
        self.state = torch.zeros(shape.heads, shape.head_dim, shape.d_state, dtype=state_dtype)

    def step(self, column: torch.Tensor, decay: torch.Tensor) -> torch.Tensor:
        """Take one column [channels] with each head's decay [heads]; the output [heads, head_dim]."""
        s = self.shape
        seen = torch.cat((self.columns, column.to(self.columns.dtype)[None]))
        self.columns = seen[1:].clone()
        mixed = torch.nn.functional.silu((seen.to(self.state.dtype) * self.kernel.T.to(self.state.dtype)).sum(0))
        x, b, c = mixed.split((s.heads * s.head_dim, s.groups * s.d_state, s.groups * s.d_state))
        each = s.heads // s.groups
        x, b, c = x.view(s.heads, s.head_dim), *(t.view(s.groups, s.d_state).repeat_interleave(each, 0) for t in (b, c))
        self.state = decay.to(self.state.dtype)[:, None, None] * self.state + x[:, :, None] * b[:, None, :]
        output: torch.Tensor = (self.state @ c[:, :, None]).squeeze(-1)
        return output

    def tensors(self) -> Iterable[torch.Tensor]:
        """Columns and state."""
        return self.columns, self.state

    def bookkeeping(self) -> Iterable[torch.Tensor]:
        """Nothing."""
        return ()

    def used_bytes(self) -> int:
        """Everything that is held."""
        return tensor_bytes(self.tensors())
