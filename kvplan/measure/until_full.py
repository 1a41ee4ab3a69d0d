"""The largest cache that really allocates, searched on the device, beside what `fit` says.

The search is `fit`'s own, asked of the device in place of the formula: it doubles until an allocation
fails, then halves the gap. A limit in bytes stands for the size of the device.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kvplan.errors import InputError, quoted
from kvplan.footprint import StageLayers
from kvplan.measure.allocation import Allocation, Layout, layout_of
from kvplan.measure.device import Device
from kvplan.planner.fit import longest_context, most_sequences
from kvplan.question import Subject
from kvplan.results import UntilFullResult

if TYPE_CHECKING:
    from collections.abc import Sequence

VARY = ("context", "batch")
SEGMENT_BYTES = 2 * 2**20


def checked_axis(text: str) -> str:
    """What grows until the device is full.

    Raises: InputError for anything but `context` and `batch`.
    """
    if text not in VARY:
        raise InputError(f"--vary: found {quoted(text)}, allowed {' or '.join(VARY)}", "--vary context")
    return text


class UntilFull:
    """One search: `axis` grows until `limit_bytes` of the device are taken."""

    def __init__(
        self, asked: Subject, stages: Sequence[StageLayers], device: Device, limit_bytes: int, axis: str
    ) -> None:
        self.asked, self.stages, self.device = asked, stages, device
        self.limit_bytes, self.axis, self.tries = limit_bytes, axis, 0

    def result(self) -> UntilFullResult:
        """Search, and set what was found beside the prediction."""
        found = self._search(self._allocates)
        predicted = self._search(self._predicted)
        block = self._block()
        agrees = found == predicted or (
            found is not None and predicted is not None and abs(found - predicted) <= block and block > 1
        )
        return UntilFullResult(
            varied=self.axis,
            limit_bytes=self.limit_bytes,
            measured=found,
            predicted=predicted,
            block=block,
            tries=self.tries,
            agrees=agrees,
        )

    def _search(self, full: Any) -> int | None:
        """The largest length or batch that `full(context, batch)` calls 0, and not 1, as `fit` searches it."""
        w, plan = self.asked.workload, self.asked.plan
        if self.axis == "batch":
            return most_sequences(full, 0, w.context)
        dips = plan.dip_tokens()
        filled = max(dips + 1, plan.filled_after())
        return longest_context(full, 0, w.batch, w.policy.least_context(), dips, filled)

    def _allocates(self, context: int, batch: int) -> int:
        """0 where every tensor of the fullest stage is really allocated within the limit, else 1."""
        self.tries += 1
        layout = self._fullest(context, batch)
        with Allocation(self.device) as held:
            room = self.limit_bytes
            for layer in layout.each():
                room -= sum(block.bytes for block in layer)
                if room < 0 or not held.take([layer], touch=False):
                    return 1
            full = held.measured_bytes() > self.limit_bytes
        if self.device.rounds:
            self.device.release()
        return int(full)

    def _predicted(self, context: int, batch: int) -> int:
        """0 where the formula's bytes, rounded as the device's allocator rounds, stay within the limit."""
        prefix = min(self.asked.workload.prefix, context)
        need = int(self.asked.plan.rank_bytes(context, batch, prefix))
        if need <= self.limit_bytes and self.device.rounds:
            layout = self._fullest(context, batch)
            need = self.device.rounded_bytes(block.bytes for layer in layout.each() for block in layer)
        return int(need > self.limit_bytes)

    def _fullest(self, context: int, batch: int) -> Layout:
        prefix = min(self.asked.workload.prefix, context)
        layouts = [layout_of(stage, self.asked.plan, context, batch, prefix) for stage in self.stages]
        return max(layouts, key=Layout.bytes)

    def _block(self) -> int:
        """How far apart the two may be: not at all in main memory, one segment of a tensor on a GPU."""
        if not self.device.rounds or self.axis == "batch":
            return 1
        rows = [tensor.row_bytes for stage in self.stages for _, tensors in stage for tensor in tensors]
        return max(1, SEGMENT_BYTES // min(rows, default=SEGMENT_BYTES))
