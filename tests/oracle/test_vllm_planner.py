"""Kvplan's vLLM engine against vLLM's own planner and layers, over random models.

The seeds are fixed; `KVPLAN_ORACLE_SEED=N` starts elsewhere, and `python tests/oracle/test_vllm_planner.py SEED COUNT`
compares COUNT models from SEED on and says every difference.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))
import drawn_models
import vllm_planner

from kvplan.engine import engine_named
from kvplan.errors import InputError
from kvplan.spec import parse_spec
from kvplan.workload import Workload

FIRST = int(os.environ.get("KVPLAN_ORACLE_SEED", "0"))
GROUPS = 15
IN_GROUP = 20
FIGURES = ("num_gpu_blocks", "allocated_bytes", "kv_cache_size_tokens", "max_concurrency")
REFUSALS = (ValueError, AssertionError, NotImplementedError, TypeError)

pytestmark = [
    pytest.mark.oracle,
    pytest.mark.skipif(vllm_planner.home() is None, reason="KVPLAN_ORACLES does not say where .ci/oracles laid vLLM"),
]


@cache
def layers() -> Any:
    import vllm_layers

    return vllm_layers.Layers(vllm_planner.planner())


def ours(d: drawn_models.Drawn, budget: int | None) -> Any:
    """What kvplan reserves for a drawn server; the error where it refuses."""
    spec = parse_spec(drawn_models.spec_values(d), "drawn.yaml")
    choice = engine_named("vllm", tuple(f"{key}={value}" for key, value in d.options.items()))
    workload = Workload(
        d.context, 1, d.cache, d.cache, d.index, tp=d.tp, pp=d.pp, dcp=d.dcp, mtp=d.mtp, encoder_tokens=d.encoder_tokens
    )
    try:
        given = choice.given_budget(spec, workload)
        return choice.reserve(spec, workload, budget if given is None else given)
    except InputError as error:
        return error


def theirs(d: drawn_models.Drawn, budget: int) -> Any:
    """What vLLM plans; the error where it does not start."""
    import drawn_servers

    server = drawn_servers.Server(d, layers())
    try:
        return server.of.planner.plan(server.config, server.ranks, [budget] * d.pp)
    except REFUSALS as error:
        return error


def too_small(answer: Any) -> bool:
    """Whether vLLM did not start for lack of memory."""
    return isinstance(answer, ValueError) and (
        "is larger than the available" in str(answer) or "No available memory" in str(answer)
    )


def differences(seed: int) -> list[str]:
    """What kvplan and vLLM say differently of the model of a seed."""
    d = drawn_models.drawn(seed)
    mine, other = ours(d, d.budget), theirs(d, d.budget)
    if isinstance(other, Exception) and not too_small(other):
        return (
            [] if isinstance(mine, Exception) else [f"vLLM refuses ({type(other).__name__}: {other}), kvplan does not"]
        )
    if isinstance(mine, Exception):
        return [f"kvplan refuses ({mine}), vLLM does not"]
    override = d.options.get("num_gpu_blocks_override")
    least, block = mine.least_budget_bytes, mine.figures["bytes_per_block"]
    found = []
    room = d.budget if override is None else override * block
    if too_small(other) != (least > room):
        found.append(f"starts: kvplan needs {least} of {room}, vLLM says {other}")
    if override is None:
        found += _boundary(d, mine)
    elif not too_small(other):
        found += _compared(mine.figures, other)
    with suppress(*REFUSALS):
        import drawn_servers

        server = drawn_servers.Server(d, layers())
        longest = server.of.planner.longest(server.config, server.ranks, [d.budget] * d.pp)
        if longest != mine.figures["max_model_len"]:
            found.append(f"max_model_len: kvplan {mine.figures['max_model_len']}, vLLM {longest}")
    return found


def _boundary(d: drawn_models.Drawn, mine: Any) -> list[str]:
    """The smallest budget that starts, one byte less, and a larger one."""
    least = mine.least_budget_bytes
    found = []
    if not too_small(theirs(d, least - 1)):
        found.append(f"vLLM starts with {least - 1} bytes")
    for budget in (least, max(least, d.budget)):
        other = theirs(d, budget)
        if isinstance(other, Exception):
            found.append(f"vLLM does not start with {budget} bytes: {other}")
        else:
            found += _compared(ours(d, budget).figures, other)
    return found


def _compared(figures: Any, other: dict[str, Any]) -> list[str]:
    found = [f"{key}: kvplan {figures[key]}, vLLM {other[key]}" for key in FIGURES if figures[key] != other[key]]
    dealt = sorted(group["layers"] for group in figures["groups"] for _ in range(group["count"]))
    if dealt != sorted(other["groups"]):
        found.append(f"groups: kvplan {dealt}, vLLM {sorted(other['groups'])}")
    return found


@pytest.mark.parametrize("group", range(GROUPS))
def test_vllms_planner_agrees_on_blocks_bytes_tokens_and_concurrency(group: int) -> None:
    for seed in range(FIRST + group * IN_GROUP, FIRST + (group + 1) * IN_GROUP):
        assert differences(seed) == [], f"seed {seed}: {vars(drawn_models.drawn(seed))}"


if __name__ == "__main__":
    start, count = int(sys.argv[1]), int(sys.argv[2])
    bad = 0
    for number in range(start, start + count):
        if told := differences(number):
            bad += 1
            print(number, told, vars(drawn_models.drawn(number)) if bad <= 5 else "")
    print(f"{count} models, {bad} with differences")
