"""How far below a length that fits a shorter one may not: the library's bytes can fall as a sequence grows.

They fall where views let go of what they kept alive: after the first update of P tokens (windows, compressors),
after each compressed entry, and when a quantized residual is flushed. Such a peak stands at most `excess` bytes
above a line that rises by `rise` bytes per token, so it is passed again after excess / rise tokens and one period.

Worked: Llama-3.1-8B in 4 bit with 127 tokens waiting in 16 bit: 127 x 131,072 B over 36,864 B per token:
passed again after 452 tokens, and two periods of 128.

Source: the rules of `windows`, `compressed` and `quantized`.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

from kvplan.engine.transformers.held import Tensors, Updates, window_of
from kvplan.engine.transformers.quantized import Quantization
from kvplan.growth import PerToken, PerTokens
from kvplan.tensor import CacheTensor, Role

Step = tuple[int, Fraction, int]
"""(excess bytes, bytes gained per token, period in tokens)"""
BUFFER_ROWS = 4


def passed_after(steps: Iterator[Step], bounded_tokens: int) -> int:
    """Tokens after which every peak of `steps` is passed again; `bounded_tokens` where nothing rises.

    >>> passed_after(iter([(1000, Fraction(10), 4)]), 64), passed_after(iter([(0, Fraction(10), 1)]), 64)
    (109, 0)
    """
    excess, rise, period = 0, Fraction(0), 1
    for peak, gained, every in steps:
        excess, rise, period = excess + peak, rise + gained, max(period, every)
    if not excess:
        return 0
    return int(excess / rise) + 2 * period + 1 if rise else bounded_tokens


def dynamic_steps(layers: list[tuple[int, Tensors]], updates: Updates, prefilled: bool) -> Iterator[Step]:
    """One step per tensor of a dynamic cache; `prefilled` when the first update is shorter than the context may be."""
    for count, layer in layers:
        for tensor in layer:
            excess, rise, period = _dynamic(tensor, updates, prefilled)
            yield count * excess, count * rise, period


def _dynamic(tensor: CacheTensor, updates: Updates, prefilled: bool) -> Step:
    row, window = updates.row_bytes(tensor), window_of(tensor)
    if tensor.role is Role.CONV:
        return row, Fraction(0), 1
    if window is not None:
        return (2 * row * max(0, updates.first - window + 1) if prefilled else 0), Fraction(0), 1
    if isinstance(tensor.growth, PerTokens):
        ratio = tensor.growth.ratio
        return (BUFFER_ROWS * row * max(updates.first, ratio) if prefilled else 0), Fraction(row, ratio), ratio
    return 0, Fraction(row if isinstance(tensor.growth, PerToken) else 0), 1


def quantized_steps(
    layers: list[tuple[int, Tensors]], updates: Updates, chosen: Quantization, prefilled: bool
) -> Iterator[Step]:
    """One step per tensor of a quantized cache: the residual, and the rounding of its groups."""
    group, waits = chosen.q_group_size, chosen.residual_length if prefilled else 1
    many = 8  # groups over which codes of any width are packed whole
    for count, layer in layers:
        for tensor in layer:
            row = updates.row_bytes(tensor)
            excess = row * (waits - 1) + 2 * chosen.group_bytes(1, updates.item_bytes)
            numbers = updates.batch * tensor.elements
            rise = Fraction(numbers * chosen.group_bytes(many, updates.item_bytes), many * group)
            yield count * excess, count * rise, waits
