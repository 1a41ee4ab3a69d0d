"""full: nothing is evicted; the default.

Rows: n.

Worked: 128,000 tokens keep 128,000 rows.

Source: the definition of a KV cache.

>>> Full().kept()
PerToken()
"""

from __future__ import annotations

from typing import ClassVar

from kvplan.growth import PerToken, RowLaw
from kvplan.record import Record


class Full(Record):
    """Every row stays."""

    OPTIONS: ClassVar[dict[str, str]] = {}
    REQUIRED: ClassVar[tuple[str, ...]] = ()
    EXAMPLE: ClassVar[str] = "--policy full"

    def kept(self) -> RowLaw:
        """One row per token."""
        return PerToken()

    def least_context(self) -> int:
        """Any context will do."""
        return 1


POLICY = Full
