"""streaming: the first tokens as attention sinks, and a window of the newest (StreamingLLM).

Rows: min(n, sinks + window).

Worked: sinks=4, window=2044 keep 2,048 rows of any longer context.

Source: Xiao et al. 2023 (arXiv:2309.17453); reference code, start_size 4.

>>> from kvplan.growth import rows
>>> rows(Streaming(window=2044).kept(), 128_000)
2048
"""

from __future__ import annotations

from typing import ClassVar

from kvplan.growth import RowLaw, SinksAndWindow
from kvplan.record import Record


class Streaming(Record):
    """Sinks and a sliding window."""

    window: int
    sinks: int = 4

    OPTIONS: ClassVar[dict[str, str]] = {"sinks": "rows", "window": "rows"}
    REQUIRED: ClassVar[tuple[str, ...]] = ("window",)
    EXAMPLE: ClassVar[str] = "for example --policy streaming:sinks=4,window=2044"

    def kept(self) -> RowLaw:
        """The sinks and the window."""
        return SinksAndWindow(self.sinks, self.window)

    def least_context(self) -> int:
        """Any context will do."""
        return 1


POLICY = Streaming
