"""Arrays of contexts and batches give to the byte what single questions give."""

from __future__ import annotations

from typing import Any

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import head_formats, heads, keeps_encoder, policies, specs

import kvplan
from kvplan.errors import InputError
from kvplan.spec import ModelSpec

cells = st.lists(st.tuples(st.integers(31, 200_000), st.integers(1, 10_000)), min_size=1, max_size=6)


def single(model: Any, ctx: int, batch: int, per_rank: bool, **options: Any) -> int:
    """One question through the command's own path."""
    found = kvplan.size(model, ctx=ctx, batch=batch, **options)
    return found.per_rank_bytes if per_rank else found.total_bytes


@given(
    spec=specs(heads),
    kv_dtype=head_formats,
    policy=policies,
    ranks=st.sampled_from([(1, 1, 1), (2, 1, 1), (4, 1, 2), (8, 1, 8), (3, 1, 1), (2, 2, 1)]),
    prefix=st.integers(0, 31),
    per_rank=st.booleans(),
    cells=cells,
)
def test_a_sweep_is_many_single_sizes(
    spec: ModelSpec, kv_dtype: str | None, policy: str, ranks: tuple[int, int, int], prefix: int, per_rank: bool,
    cells: list[tuple[int, int]],
) -> None:  # fmt: skip
    """Every format, policy, rank and prefix."""
    tp, pp, dcp = ranks
    pp = min(pp, spec.layer_count)
    options = {"kv_dtype": kv_dtype, "policy": policy, "tp": tp, "pp": pp, "dcp": dcp, "prefix": prefix}
    contexts, batches = ([cell[i] for cell in cells] for i in (0, 1))
    found = kvplan.sweep(spec, ctx=contexts, batch=batches, per_rank=per_rank, **options)  # type: ignore[arg-type]
    assert [single(spec, c, b, per_rank, **options) for c, b in cells] == found.tolist()


@given(spec=specs(), tp=st.sampled_from([1, 4]), cells=cells)
def test_a_sweep_counts_every_kind_of_model(spec: ModelSpec, tp: int, cells: list[tuple[int, int]]) -> None:
    """States, latents, entries, encoders and layers that keep nothing."""
    encoder = {"encoder_tokens": 77} if keeps_encoder(spec) else {}
    contexts, batches = ([cell[i] for cell in cells] for i in (0, 1))
    found = kvplan.sweep(spec, ctx=contexts, batch=batches, tp=tp, per_rank=True, **encoder)
    assert [single(spec, c, b, True, tp=tp, **encoder) for c, b in cells] == found.tolist()


@pytest.mark.parametrize(
    "name", ["llama-3.1-70b", "gemma-3-27b", "deepseek-v4-pro", "qwen3-next-80b-a3b", "gemma-3n-e4b"]
)
def test_shipped_models_sweep_as_they_size(name: str) -> None:
    """At one token, around windows, and far out."""
    contexts = [1, 2, 127, 128, 129, 1023, 1024, 1025, 4096, 131_072, 1_000_003]
    found = kvplan.sweep(name, ctx=contexts, batch=3)
    assert [single(name, c, 3, False) for c in contexts] == found.tolist()


def test_numbers_past_64_bits_stay_exact() -> None:
    """10^12 tokens of a million sequences: 327,680 x 10^18 bytes, which no 64-bit integer holds."""
    found = kvplan.sweep("llama-3.1-70b", ctx=[1, 10**12], batch=10**6)
    assert [327680 * 10**6, 327680 * 10**18] == found.tolist()
    assert found.dtype == object
    assert kvplan.sweep("llama-3.1-70b", ctx=[1]).dtype == numpy.int64


def test_the_edge_of_64_bits_is_not_overrun() -> None:
    """Around 2^63 bytes every element is what whole Python integers give."""
    edge = 2**63 // 327680
    contexts = [edge // 10**6 + step for step in (-1, 0, 1)]
    batches = [10**6 - 1, 10**6, 10**6 + 1, 4 * 10**6]
    found = kvplan.sweep("llama-3.1-70b", ctx=[[c] for c in contexts], batch=batches)
    assert [[327680 * c * b for b in batches] for c in contexts] == found.tolist()


def test_shapes_broadcast_and_formats_lead() -> None:
    """Columns of batches against a row of contexts; several formats add an axis in front."""
    assert (2, 3) == kvplan.sweep("gpt-2", ctx=[100, 200, 300], batch=[[1], [2]]).shape
    assert (2, 2, 3) == kvplan.sweep("gpt-2", ctx=[100, 200, 300], batch=[[1], [2]], kv_dtype=("fp16", "fp8")).shape
    assert (1, 3) == kvplan.sweep("gpt-2", ctx=[100, 200, 300], kv_dtype=("fp8",)).shape
    assert () == kvplan.sweep("gpt-2", ctx=100).shape
    two = kvplan.sweep("gpt-2", ctx=[100], kv_dtype=("fp16", "fp8"))
    assert two[0].tolist() == (2 * two[1]).tolist()


def test_a_model_of_states_sweeps_to_its_shape() -> None:
    """A constant is repeated for every context."""
    found = kvplan.sweep("xlstm-7b", ctx=[1, 10, 100], batch=[[1], [2]])
    size = kvplan.size("xlstm-7b", ctx=1).total_bytes
    assert [[size] * 3, [2 * size] * 3] == found.tolist()


def test_a_result_can_be_written_to() -> None:
    """It is an array of its own, not a view of one number."""
    found = kvplan.sweep("xlstm-7b", ctx=[1, 10])
    found[0] = 0
    assert kvplan.size("xlstm-7b", ctx=1).total_bytes == found[1]


BAD = {
    "empty": [],
    "zero": [0],
    "negative": [-1],
    "fraction": [1.5],
    "whole float": [1.0],
    "text": ["8k"],
    "boolean": [True],
    "none": [None],
    "too large": [10**12 + 1],
    "past 64 bits": [10**30],
    "ragged": [[1], [1, 2]],
    "not a number": [float("nan")],
    "a mapping": {"ctx": 1},
    "nothing": None,
}


@pytest.mark.parametrize("what", ["ctx", "batch"])
@pytest.mark.parametrize("name", BAD)
def test_a_bad_array_is_refused(what: str, name: str) -> None:
    """Whole numbers from 1, and nothing else."""
    with pytest.raises(InputError, match=what):
        kvplan.sweep("gpt-2", **{"ctx": [1], what: BAD[name]})


def test_arrays_that_do_not_fit_each_other_are_refused() -> None:
    """Three contexts and two batches have no common shape."""
    with pytest.raises(InputError, match="batch"):
        kvplan.sweep("gpt-2", ctx=[1, 2, 3], batch=[1, 2])


@pytest.mark.parametrize(
    "options",
    [{"prefix": 11}, {"prefix": -1}, {"tp": 0}, {"pp": 99}, {"dcp": 2}, {"kv_dtype": "fp9"}, {"kv_dtype": ()}, {"policy": "x"}, {"mtp": -1},
     {"encoder_tokens": 5}, {"tp": 1.5}, {"policy": "snapkv:cap=5,generated=50"}],
    ids=str,
)  # fmt: skip
def test_a_bad_option_is_refused(options: dict[str, Any]) -> None:
    """As `size` refuses it."""
    with pytest.raises(InputError):
        kvplan.sweep("gpt-2", ctx=[10, 20], **options)
