"""The SGLang engine against SGLang's own sizing and pool classes, over models drawn at random, equal to the byte.

KVPLAN_ORACLE_SEED=N draws other models, KVPLAN_ORACLE_CASES=N another number of them.
"""

from __future__ import annotations

import os
from random import Random
from typing import Any

import pytest
import sglang_modules

pytest.importorskip("torch")
AT = sglang_modules.folder()
pytestmark = [
    pytest.mark.oracle,
    pytest.mark.skipif(AT is None, reason="KVPLAN_ORACLES holds no SGLang: `.ci/oracles DIR` lays it in DIR"),
]

from kvplan.engine import Reservation, engine_named
from kvplan.spec import parse_spec
from kvplan.workload import Workload

if AT is not None:
    sglang_modules.load(AT)
    from sglang_draws import Drawn, drawn
    from sglang_pools import Model, sized, weighed

SEED = int(os.environ.get("KVPLAN_ORACLE_SEED", "20261129"))
CASES = int(os.environ.get("KVPLAN_ORACLE_CASES", "400"))


def reserved(case: Drawn, *more: str, budget: int | None = None) -> Reservation:
    values: dict[str, Any] = {
        "name": "drawn", "layers": [{"count": count, "attention": attention} for count, attention in case.layers],
    }  # fmt: skip
    if case.draft:
        values["draft"] = {"attention": case.draft}
    choice = engine_named("sglang", (*case.options, *more))
    return choice.reserve(parse_spec(values, "drawn"), Workload(**case.workload), budget)


def wanted(found: Reservation, model: Model) -> dict[str, int]:
    """The sizes that kvplan says the pools must have."""
    figures = found.figures
    window = figures.get("swa_layer_tokens", 0)
    slots = figures["state_slots"] - 1 if model.states else 0
    full = figures.get("full_layer_tokens", figures.get("tokens", 0))
    return {"full": full, "window": window, "slots": slots}


def running(model: Model, sizes: dict[str, int]) -> int:
    """Requests that run at once, by SGLang's own rule, as the state pool's scratch needs them."""
    from sglang_pools import configurator

    made = configurator(model)
    return (
        int(made.resolve_max_num_reqs(sizes["full"] or sizes["window"])) if not model.states else _capped(model, sizes)
    )


def _capped(model: Model, sizes: dict[str, int]) -> int:
    from sglang_pools import configurator

    shown = Model(**{**model.__dict__, "slots": sizes["slots"]})
    return int(configurator(shown).resolve_max_num_reqs(sizes["full"]))


@pytest.mark.parametrize("number", range(CASES))
def test_sizes_and_bytes_are_those_of_sglangs_own_classes(number: int) -> None:
    dice = Random(f"{SEED} {number}")
    case = drawn(dice)
    found = reserved(case)
    check_bytes(case, found)
    check_needed(case, found)
    for _ in range(3):
        check_sizes(
            case, int(found.least_budget_bytes * dice.choice((0.3, 0.9, 1.0, 1.7, 5.0))) + dice.randint(0, 10**9)
        )


def check_bytes(case: Drawn, found: Reservation) -> None:
    sizes = wanted(found, case.model)
    sizes["requests"] = running(case.model, sizes) if case.model.states else 1
    pools, figures = weighed(case.model, sizes), found.figures
    if case.model.latent:
        assert figures["kv_bytes"] == pools["k"]
    else:
        assert (figures["k_bytes"], figures["v_bytes"]) == (pools["k"], pools["v"])
    total = pools["k"] + pools["v"] + figures.get("draft_kv_bytes", 0)
    if case.model.states:
        assert (figures["conv_state_bytes"], figures["ssm_state_bytes"]) == (pools["conv"], pools["ssm"])
        total += pools["conv"] + pools["ssm"]
        if case.model.drafted:
            assert figures["intermediate_ssm_bytes"] == pools["drafted_ssm"]
            assert figures["intermediate_conv_bytes"] == pools["drafted_conv"]
            total += pools["drafted_ssm"] + pools["drafted_conv"]
    assert found.reserved_bytes == total
    if case.model.draft_layers:
        shadow = Model(
            **{
                **case.model.__dict__,
                "full_layers": case.model.draft_layers,
                "window_layers": 0,
                "states": None,
                "state_layers": 0,
            }
        )
        own = weighed(shadow, sizes)
        assert figures["draft_kv_bytes"] == own["k"] + own["v"]


def check_needed(case: Drawn, found: Reservation) -> None:
    sizes, least = wanted(found, case.model), found.least_budget_bytes
    assert holds(sized(case.model, least), sizes)
    shares = case.model.states and case.model.slots is None and (case.model.radix or case.model.running is None)
    if not shares:
        assert not started(case.model, least - 1) or not holds(sized(case.model, least - 1), sizes)
    assert holds(sized(case.model, least + least // 7), sizes)


def holds(got: dict[str, int], needed: dict[str, int]) -> bool:
    return got["full"] >= needed["full"] and got["window"] >= needed["window"] and got["slots"] >= needed["slots"]


def started(model: Model, budget: int) -> bool:
    try:
        return sized(model, budget)["max_total_num_tokens"] > 0
    except (RuntimeError, ValueError, AssertionError):
        return False


def check_sizes(case: Drawn, budget: int) -> None:
    found = reserved(case, budget=budget)
    if not started(case.model, budget):
        assert found.least_budget_bytes > budget
        return
    own, figures = sized(case.model, budget), found.figures
    assert figures["max_total_num_tokens"] == own["max_total_num_tokens"]
    if case.model.window_layers:
        assert figures["swa_max_total_num_tokens"] == own["window"]
    if case.model.states:
        assert figures["max_mamba_cache_size"] == own["slots"]


@pytest.mark.parametrize("stages", [1, 2, 3, 4, 7])
def test_stages_are_those_of_sglangs_own_split(stages: int) -> None:
    import sys

    from kvplan.engine.sglang.layers import Ranks, held

    spec = parse_spec(
        {"name": "split", "layers": 30, "attention": {"type": "mqa", "heads": 1, "kv_heads": 1, "head_dim": 8}}, "s"
    )
    split = sys.modules["sglang.srt.distributed.utils"].get_pp_indices
    own = [stage.full_layers for stage in held(spec, Ranks(1, stages, 1, hybrid=False, raw=False), 0).stages]
    assert own == [end - start for start, end in (split(30, rank, stages) for rank in range(stages))]
