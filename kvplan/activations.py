"""What a forward pass holds beside weights and cache: hidden states and FFN of its tokens, then logits of its rows.

    forward = tokens x (4 hidden_size + 3 intermediate_size / tp) x 2 bytes
    logits  = rows x vocab_size x bytes per logit, once the forward pass has let go of its own

The first is the residual, its norm, the attention's input and output, and gate, up and product of the FFN. It was
set against peaks that vLLM printed: 2.02 GiB for Qwen2.5-1.5B at 32,768 tokens (the formula: 2.01), 2.07 for
Llama-3.1-8B at 20,000 (2.21), 6.90 for Qwen2.5-32B at 32,768 (6.31), 0.22 for Llama-3.1-8B at 2,048 (0.23).

Worked: 32,768 tokens x (4 x 1,536 + 3 x 8,960) x 2 = 2,164,260,864 bytes.

Source: memory profiles in vLLM's logs, docs/reference/logged-budgets.md.

>>> forward_bytes(Dimensions(hidden_size=1536, intermediate_size=8960, vocab_size=151936), 32768).best
2164260864
"""

from __future__ import annotations

from fractions import Fraction

from kvplan.account import Overhead, Range
from kvplan.spec import Dimensions

ITEM_BYTES = 2
LOW, HIGH = Fraction(3, 5), Fraction(8, 5)
"""Of the best estimate: fused kernels hold less, mixtures and encoders more."""

GIB = 2**30


def forward_bytes(dimensions: Dimensions, tokens: int, tp: int = 1) -> Range:
    """What one forward pass of `tokens` tokens holds at its peak on one of `tp` ranks."""
    ffn = Fraction(3 * (dimensions.intermediate_size or 4 * dimensions.hidden_size), tp)
    best = tokens * ITEM_BYTES * (4 * dimensions.hidden_size + ffn)
    return Range(int(best), int(best * LOW), int(best * HIGH), "assumed")


def logit_bytes(dimensions: Dimensions, rows: int, per_logit: tuple[int, int, int]) -> Range:
    """What `rows` rows of logits hold, at (best, low, high) bytes per logit."""
    best, low, high = (rows * dimensions.vocab_size * each for each in per_logit)
    return Range(best, low, high, "assumed")


def larger(*parts: Range) -> Range:
    """The larger of peaks that do not come together."""
    return Range(
        max(part.best for part in parts), max(part.low for part in parts), max(part.high for part in parts), "assumed"
    )


def gib_range(best: float, low: float, high: float, confidence: str = "assumed") -> Range:
    """A range given in GiB."""
    return Range(int(best * GIB), int(low * GIB), int(high * GIB), confidence)


def peak_elsewhere(runtime: tuple[Overhead, ...]) -> Overhead:
    """The peaks that other people measured, for a spec without `dimensions`."""
    note = "The spec has no `dimensions`: peaks of five architectures on an H100."
    for overhead in runtime:
        if overhead.name == "activations":
            return overhead.replace(note=note)
    return Overhead("activations", gib_range(1.9, 0.8, 4.0), note, ("kvplan/overheads.yaml",))
