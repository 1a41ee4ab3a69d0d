"""vLLM: blocks of a fixed number of tokens in groups of layers, to the byte.

    blocks per request = sum over groups of what one request of the model's length holds at most
    bytes per request = blocks per request x bytes per block, the largest group's over all of its layers
    blocks = budget / bytes per block, rounded down, the fewest of any pipeline stage; block 0 is never used

`--ctx` is the model length, and `reserved_bytes` is the batch times `bytes_per_request`. The engine starts when one
request and the null block fit.

Worked: Llama-3.1-8B at 131,072 tokens: 8,192 blocks of 2,097,152 bytes, 17,179,869,184 bytes per request; 60 GiB are
30,720 blocks and print 491,520 tokens, 3.75x.

Source: vLLM 0.33.0, its planner executed (tests/oracle/test_vllm_planner.py); older profiles: see `versions`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from kvplan.account import Account, Device
from kvplan.engine import EngineOption, Options, Reservation
from kvplan.engine.vllm.budget import account, scheduler_defaults
from kvplan.engine.vllm.caches import CROSS, Request
from kvplan.engine.vllm.figures import capacity_figures, figures, reasons, shared_blocks
from kvplan.engine.vllm.plan import Plan, plan
from kvplan.engine.vllm.settings import BATCHED_ON_CARD, OPTIONS, Settings, settings
from kvplan.engine.vllm.versions import PROFILES
from kvplan.errors import InputError
from kvplan.policy.full import Full
from kvplan.spec import ModelSpec
from kvplan.workload import Workload


class Vllm:
    """One vLLM server, as its V1 engine plans the cache."""

    NAME: ClassVar[str] = "vllm"
    VERSIONS: ClassVar[tuple[str, ...]] = tuple(PROFILES)
    SUMMARY: ClassVar[str] = "blocks of a fixed number of tokens, shared by groups of layers"
    SOURCE: ClassVar[str] = "vLLM 0.33.0 kv_cache_planning.py and kv_cache_interface.py, executed"
    OPTIONS: ClassVar[Mapping[str, EngineOption]] = OPTIONS

    def reserve(
        self, spec: ModelSpec, workload: Workload, options: Options, version: str, budget_bytes: int | None = None
    ) -> Reservation:
        """What the workload's sequences take at the model length."""
        _check(workload)
        chosen = settings(workload, options, PROFILES[version])
        planned = plan(spec, workload, chosen)
        request = _request(workload, planned, chosen)
        blocks = sum(group.blocks(request) for group in planned.groups)
        taken = workload.batch * blocks - shared_blocks(planned, workload)
        found = figures(planned, request, blocks)
        if budget_bytes is not None:
            found.update(capacity_figures(planned, request, blocks, budget_bytes, chosen))
        return Reservation(
            self.NAME,
            version,
            taken * planned.bytes_per_block,
            found,
            reasons(planned, request),
            (taken + 1) * planned.bytes_per_block,
        )

    def given_budget(self, spec: ModelSpec, workload: Workload, options: Options, version: str) -> int | None:
        """`num_gpu_blocks_override` in bytes, else `kv_cache_memory_bytes`."""
        override = options.get("num_gpu_blocks_override")
        if override is not None:
            return int(override) * self._plan(spec, workload, options, version).bytes_per_block
        memory = options.get("kv_cache_memory_bytes")
        return None if memory is None else int(memory)

    def account(self, spec: ModelSpec, workload: Workload, options: Options, version: str, device: Device) -> Account:
        """A share of the card, less what the profile run finds in use."""
        return account(spec, workload, options, PROFILES[version], device)

    def on_card(self, options: Options, name: str, total_bytes: int) -> Options:
        """The batched tokens that the API server takes on this card, unless they are said."""
        return {BATCHED_ON_CARD: scheduler_defaults(name, total_bytes)[0], **options}

    def dip_tokens(self, spec: ModelSpec, workload: Workload, options: Options) -> int:
        """0: more tokens never take fewer blocks."""
        return 0

    def _plan(self, spec: ModelSpec, workload: Workload, options: Options, version: str) -> Plan:
        return plan(spec, workload, settings(workload, options, PROFILES[version]))


def _check(workload: Workload) -> None:
    """Refuse what vLLM does not do."""
    if not isinstance(workload.policy, Full):
        raise InputError(
            f"--policy: found {workload.policy_text}, but vLLM keeps every row that a layer asks for",
            "--policy full, or --engine ideal",
        )


def _request(workload: Workload, planned: Plan, chosen: Settings) -> Request:
    crosses = any(cache.kind == CROSS for group in planned.groups for cache, _ in group.members)
    batched = chosen.batched_tokens(workload.context, crosses)
    encoder = int(chosen.options.get("max_num_encoder_input_tokens", workload.encoder_tokens or batched))
    in_flight = chosen.in_flight(batched, workload.pp)
    return Request(workload.context, workload.dcp, in_flight, chosen.extra_tokens, encoder)


ENGINE = Vllm()
