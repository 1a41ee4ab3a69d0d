"""SGLang: pools of token rows with a padding page each, a window pool beside the full one, a pool of state slots.

The workload decides how many tokens and slots the pools must have; the pools of that size are what the engine
takes. `max_total_tokens` states the pool outright, a budget is turned into tokens as SGLang's profiling does it.

Worked: Llama-3.1-8B, 1,000 tokens at page 1: 32 layers x 1,001 rows x 4,096 bytes = 131,203,072 bytes.

Source: SGLang 0.5.23, its own pool and sizing classes executed on a CPU and compared byte for byte.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from kvplan.account import Account, Device
from kvplan.engine import EngineOption, Options, Reservation
from kvplan.engine.sglang.budget import account
from kvplan.engine.sglang.choices import OPTIONS, attention_groups, layout, limits, ranks
from kvplan.engine.sglang.demand import Demand, demand, reasons
from kvplan.engine.sglang.layers import Held, held
from kvplan.engine.sglang.pools import Bytes, Layout, Sizes, pool_bytes
from kvplan.engine.sglang.sizing import Limits, cell_bytes, least_budget, sizes_of_budget, sizes_of_tokens
from kvplan.errors import InputError
from kvplan.policy.full import Full
from kvplan.record import Record
from kvplan.spec import ModelSpec
from kvplan.workload import Workload


class Asked(Record):
    """A workload's question, resolved: the model on its ranks, how pools are laid out, what the options fix."""

    held: Held
    layout: Layout
    limits: Limits
    demand: Demand

    def pools(self, sizes: Sizes) -> Bytes:
        """The pools of the fullest stage."""
        return max((pool_bytes(self.held, stage, self.layout, sizes) for stage in self.held.stages), key=_total)

    def stated(self) -> Sizes | None:
        """The sizes that `max_total_tokens` states, with the slots that are stated or needed; None without it."""
        if self.limits.tokens is None:
            return None
        slots = self.limits.slots if self.limits.slots is not None else self.demand.sizes.slots
        return sizes_of_tokens(self.held, self.layout, self.limits, self.limits.tokens, slots)


def _total(pools: Bytes) -> int:
    return pools.total


class SGLang:
    """The SGLang server."""

    NAME: ClassVar[str] = "sglang"
    VERSIONS: ClassVar[tuple[str, ...]] = ("0.5.23",)
    SUMMARY: ClassVar[str] = "pools of token rows and state slots, as the SGLang server allocates them"
    SOURCE: ClassVar[str] = "SGLang 0.5.23 srt/mem_cache and srt/model_executor, executed on a CPU"
    OPTIONS: ClassVar[Mapping[str, EngineOption]] = OPTIONS

    def reserve(
        self, spec: ModelSpec, workload: Workload, options: Options, version: str, budget_bytes: int | None = None
    ) -> Reservation:
        """The pools on the fullest rank."""
        asked = _asked(spec, workload, options)
        wanted = asked.demand.sizes
        sizes = asked.stated() or wanted
        pools = asked.pools(sizes)
        needed = self._needed(asked, sizes, wanted)
        figures = _figures(asked, sizes, pools)
        if budget_bytes is not None or asked.limits.tokens is not None:
            given = sizes if budget_bytes is None else _sized(asked, budget_bytes)
            figures |= _sized_figures(asked, given, budget_bytes is not None)
        why = reasons(spec, asked.held, asked.layout, asked.demand, sizes)
        return Reservation(self.NAME, version, pools.total, figures, why, needed)

    def _needed(self, asked: Asked, sizes: Sizes, wanted: Sizes) -> int:
        """The smallest budget that is enough; where the pools are stated, their bytes, or those of larger ones."""
        pools = asked.pools(wanted)
        if asked.limits.tokens is None:
            return least_budget(asked.held, asked.layout, asked.limits, wanted, pools.total)
        enough = sizes.full >= wanted.full and sizes.window >= wanted.window and sizes.slots >= wanted.slots
        return asked.pools(sizes).total if enough else max(pools.total, asked.pools(sizes).total + 1)

    def given_budget(self, spec: ModelSpec, workload: Workload, options: Options, version: str) -> int | None:
        """The bytes of the pools where `max_total_tokens` states them; None where states still share a budget."""
        asked = _asked(spec, workload, options)
        sizes = asked.stated()
        if sizes is None or (asked.held.has_states and asked.limits.slots is None):
            return None
        return asked.pools(sizes).total

    def account(self, spec: ModelSpec, workload: Workload, options: Options, version: str, device: Device) -> Account:
        """A share of what is free before the weights, less the weights."""
        return account(spec, workload, options, device)

    def dip_tokens(self, spec: ModelSpec, workload: Workload, options: Options) -> int:
        """0: pages and pools never shrink with the context."""
        return 0


def _asked(spec: ModelSpec, workload: Workload, options: Options) -> Asked:
    _check(spec, workload)
    model = held(spec, ranks(spec, workload, options), workload.mtp)
    shape = layout(spec, workload, options, model)
    fixed = limits(spec, workload, options, model, shape)
    groups = attention_groups(workload, options)
    return Asked(model, shape, fixed, demand(spec, workload, model, shape, fixed, groups))


def _sized(asked: Asked, budget_bytes: int) -> Sizes:
    return sizes_of_budget(asked.held, asked.layout, asked.limits, budget_bytes)


def _check(spec: ModelSpec, workload: Workload) -> None:
    """Refuse what SGLang's pools do not do."""
    if not isinstance(workload.policy, Full):
        raise InputError(
            f"--policy: found {workload.policy_text}, but SGLang's pools keep every row",
            "--policy full, or --engine ideal",
        )
    if workload.index_dtype not in ("fp8", "fp8_e4m3"):
        raise InputError(
            f"--index-dtype: found {workload.index_dtype}, and SGLang stores index keys in fp8", "--index-dtype fp8"
        )


def _figures(asked: Asked, sizes: Sizes, pools: Bytes) -> dict[str, Any]:
    """The figures that follow from the workload and the options alone."""
    model, shape = asked.held, asked.layout
    found: dict[str, Any] = {
        "cell_bytes": max(cell_bytes(model, stage, shape, asked.limits) for stage in model.stages),
        "page_size": shape.page_size,
    }
    if model.window is not None:
        found |= {"full_layer_tokens": sizes.full, "swa_layer_tokens": sizes.window}
    elif model.full is not None:
        found["tokens"] = sizes.full
    if model.latent:
        found["kv_bytes"] = pools.k
    elif model.full is not None or model.window is not None:
        found |= {"k_bytes": pools.k, "v_bytes": pools.v}
    if model.window is not None:
        found |= {"swa_k_bytes": pools.window_k, "swa_v_bytes": pools.window_v}
    if model.draft is not None:
        found["draft_kv_bytes"] = pools.draft
    if model.has_states:
        found |= {"state_slots": sizes.slots + 1, "conv_state_bytes": pools.conv, "ssm_state_bytes": pools.ssm}
        if shape.drafted:
            found |= {"intermediate_ssm_bytes": pools.drafted_ssm, "intermediate_conv_bytes": pools.drafted_conv}
    return found


def _sized_figures(asked: Asked, sizes: Sizes, profiled: bool) -> dict[str, Any]:
    """The figures that follow from a budget, or from the pool that is stated."""
    model = asked.held
    pooled = model.full is not None or model.window is not None
    found: dict[str, Any] = {}
    if pooled:
        found["max_total_num_tokens"] = max(0, sizes.window if model.full is None else sizes.full)
    if model.window is not None:
        found |= {"full_max_total_num_tokens": max(0, sizes.full), "swa_max_total_num_tokens": max(0, sizes.window)}
    if model.has_states and (profiled or asked.limits.slots is not None):
        found["max_mamba_cache_size"] = max(0, sizes.slots)
    return found


ENGINE = SGLang()
