"""ideal: the architecture's own need, nothing rounded up; what every engine is compared with.

Reserved bytes are the footprint of the fullest rank. Its one option, `block_size`, says in which
whole blocks a shared prefix is shared.

Worked: llama-3.1-70b at 131,072 tokens reserves 42,949,672,960 bytes on one rank, 5,368,709,120 at TP 8.

Source: the growth laws and shapes of the attention kinds.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from kvplan.account import Account, Device, general_account
from kvplan.engine import EngineOption, Options, Reservation
from kvplan.footprint import cache_plan
from kvplan.spec import ModelSpec
from kvplan.workload import Workload


class Ideal:
    """An allocator that wastes nothing."""

    NAME: ClassVar[str] = "ideal"
    VERSIONS: ClassVar[tuple[str, ...]] = ("1",)
    SUMMARY: ClassVar[str] = "the architecture's own need, nothing rounded up"
    SOURCE: ClassVar[str] = "arithmetic on the model spec"
    OPTIONS: ClassVar[Mapping[str, EngineOption]] = {
        "block_size": EngineOption("int", "1", "tokens of the whole blocks in which a prefix is shared"),
    }

    def reserve(
        self, spec: ModelSpec, workload: Workload, options: Options, version: str, budget_bytes: int | None = None
    ) -> Reservation:
        """The footprint of the fullest rank."""
        block = int(options.get("block_size", workload.prefix_block))
        shared = workload.prefix // block * block
        plan = cache_plan(spec, workload.replace(prefix_block=block))
        reserved = int(plan.rank_bytes(workload.context, workload.batch, shared))
        return Reservation(self.NAME, version, reserved, {"block_size": block})

    def given_budget(self, spec: ModelSpec, workload: Workload, options: Options, version: str) -> int | None:
        """None: no option of its own states a budget."""
        return None

    def account(self, spec: ModelSpec, workload: Workload, options: Options, version: str, device: Device) -> Account:
        """The general account: a share of the card, less weights and known overheads."""
        return general_account(device)

    def dip_tokens(self, spec: ModelSpec, workload: Workload, options: Options) -> int:
        """As the footprint's own: formats with a residual fall back when it is flushed."""
        return cache_plan(spec, workload).dip_tokens()


ENGINE = Ideal()
