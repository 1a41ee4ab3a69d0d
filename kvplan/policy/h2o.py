"""h2o: a share of the context, half heavy hitters and half recent tokens (H2O).

Rows: floor(budget x n). The budget is read in decimal, so 0.2 is exactly one fifth.

Worked: budget=0.2 keeps 25,600 of 128,000 rows, 12,800 heavy hitters and 12,800 recent.

Source: Zhang et al. 2023 (arXiv:2306.14048); 20 % in its experiments.

>>> from kvplan.growth import rows
>>> rows(H2o(budget=Fraction("0.2")).kept(), 128_000)
25600
"""

from __future__ import annotations

from fractions import Fraction
from typing import ClassVar

from kvplan.growth import RowLaw, Share
from kvplan.record import Record


class H2o(Record):
    """Heavy hitters and recent tokens, in equal parts."""

    budget: Fraction

    OPTIONS: ClassVar[dict[str, str]] = {"budget": "share"}
    REQUIRED: ClassVar[tuple[str, ...]] = ("budget",)
    EXAMPLE: ClassVar[str] = "for example --policy h2o:budget=0.2"

    def kept(self) -> RowLaw:
        """The budget's share of the context, rounded down."""
        return Share(self.budget)

    def least_context(self) -> int:
        """Any context will do."""
        return 1


POLICY = H2o
