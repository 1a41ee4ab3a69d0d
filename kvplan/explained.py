"""What an explained log is made of: figures beside predictions, the budget, what would help.

Field order is output order; the JSON Schema is generated from these classes.
"""

from __future__ import annotations

from collections.abc import Mapping

from kvplan.record import Record


class FigureResult(Record):
    """One figure of a log beside the prediction, both in the unit that the log prints.

    agrees: within the printed figure's own rounding; null where nothing predicts it, which `reason` explains.
    predicted_range: what it may be where another printed figure, such as the budget, is itself rounded.
    line: of the log, from 1.
    """

    name: str
    printed: int | float
    predicted: int | float | None
    agrees: bool | None
    reason: str
    printed_text: str
    predicted_text: str | None
    predicted_range: tuple[int | float, int | float] | None
    line: int


class BudgetResult(Record):
    """The room for the cache on the poorest rank as a log prints it, and the bytes that print so."""

    printed: str
    low_bytes: int
    high_bytes: int
    line: int


class AdviceResult(Record):
    """One change and what the engine answers to it: `figure` before and after, everything else as it was."""

    option: str
    figure: str
    before: int | float
    after: int | float


class ExplainResult(Record):
    """A start-up log against the prediction.

    version: as the log prints it; profile: the version profile that was asked. model_through: how the model was found.
    settings: the flags that matter, as the log writes them. answer: why the figures are what they are.
    """

    engine: str
    version: str | None
    profile: str
    model: str
    model_through: str
    settings: Mapping[str, str]
    context: int | None
    budget: BudgetResult | None
    figures: tuple[FigureResult, ...]
    answer: tuple[str, ...]
    advice: tuple[AdviceResult, ...]
    notes: tuple[str, ...]
    hints: tuple[str, ...]

    @property
    def agrees(self) -> bool:
        """True unless a figure that was predicted disagrees."""
        return all(figure.agrees is not False for figure in self.figures)
