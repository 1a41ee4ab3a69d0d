"""snapkv: the prompt is cut once to `cap` rows, and everything generated after it stays (SnapKV).

Rows: min(prompt, cap) + generated, where prompt + generated is the context. The observation
window is part of the cap and changes which rows stay, not how many.

Worked: cap=2048, generated=500 at 128,000 tokens keeps 2,548 rows.

Source: Li et al. 2024 (arXiv:2404.14469); reference code, window 32, cap 2048.

>>> from kvplan.growth import rows
>>> rows(SnapKv(cap=2048, generated=500).kept(), 128_000)
2548
"""

from __future__ import annotations

from typing import ClassVar

from kvplan.growth import PromptCap, RowLaw
from kvplan.record import Record


class SnapKv(Record):
    """A compressed prompt and a full tail."""

    generated: int
    cap: int = 2048
    window: int = 32

    OPTIONS: ClassVar[dict[str, str]] = {"cap": "rows", "window": "rows", "generated": "rows"}
    REQUIRED: ClassVar[tuple[str, ...]] = ("generated",)
    EXAMPLE: ClassVar[str] = "for example --policy snapkv:cap=2048,window=32,generated=500"

    def kept(self) -> RowLaw:
        """The capped prompt and the generated rows."""
        return PromptCap(self.cap, self.generated)

    def least_context(self) -> int:
        """The context holds the generated tokens."""
        return max(1, self.generated)


POLICY = SnapKv
