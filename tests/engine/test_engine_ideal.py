"""The ideal engine: the footprint of the fullest rank, and whole blocks of a shared prefix."""

from __future__ import annotations

import pytest

from kvplan.engine import engine_named
from kvplan.engine.ideal import ENGINE
from kvplan.footprint import cache_plan
from kvplan.spec import inline_spec
from kvplan.workload import Workload

SPEC = inline_spec(layers=2, kv_heads=8, head_dim=64)
TOKEN_BYTES = 2 * 2 * 8 * 64 * 2


@pytest.mark.parametrize(("tp", "pp"), [(1, 1), (2, 1), (8, 1), (16, 1), (1, 2)])
def test_it_reserves_the_fullest_rank_of_the_footprint(tp: int, pp: int) -> None:
    workload = Workload(1000, 3, tp=tp, pp=pp)
    expected = cache_plan(SPEC, workload).rank_bytes(1000, 3)
    assert ENGINE.reserve(SPEC, workload, {}, "1").reserved_bytes == expected
    assert expected == 3000 * TOKEN_BYTES // min(tp * pp, 8 * pp)


@pytest.mark.parametrize(
    ("block_size", "shared"), [(1, 100), (16, 96), (32, 96), (64, 64), (100, 100), (101, 0), (1000, 0)]
)
def test_a_prefix_is_shared_in_whole_blocks(block_size: int, shared: int) -> None:
    reservation = engine_named("ideal", (f"block_size={block_size}",)).reserve(SPEC, Workload(200, 4, prefix=100))
    assert reservation.reserved_bytes == (4 * 200 - 3 * shared) * TOKEN_BYTES
    assert reservation.figures["block_size"] == block_size
    assert reservation.reasons == ()


def test_without_the_option_the_workloads_own_block_counts() -> None:
    workload = Workload(200, 4, prefix=100, prefix_block=64)
    assert ENGINE.reserve(SPEC, workload, {}, "1").reserved_bytes == (4 * 200 - 3 * 64) * TOKEN_BYTES


def test_it_dips_where_the_footprint_does() -> None:
    kivi = Workload(1000, k_dtype="kivi4", v_dtype="kivi4")
    assert ENGINE.dip_tokens(SPEC, Workload(1000), {}) == 0
    assert ENGINE.dip_tokens(SPEC, kivi, {}) == cache_plan(SPEC, kivi).dip_tokens() > 0
