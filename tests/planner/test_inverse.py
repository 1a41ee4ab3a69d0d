"""`fit` turns `size` around exactly: what it names fits; one token, one sequence or one GPU less room does not."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kvplan
from kvplan.errors import InputError, KvplanError
from kvplan.results import FitResult

MODELS = [
    "llama-3.1-70b",
    "llama-3.1-8b",
    "gemma-3-27b",
    "gpt-oss-20b",
    "deepseek-v2-lite",
    "deepseek-v4-flash",
    "qwen3-next-80b-a3b",
    "falcon-h1-7b",
    "jamba-v0.1-52b",
    "mistral-7b-v0.1",
    "recurrentgemma-2b",
    "gemma-3n-e4b",
    "whisper-large-v3",
    "smollm2-135m",
]
HEADS = ["llama-3.1-8b", "gemma-3-27b", "gpt-oss-20b", "mistral-7b-v0.1", "smollm2-135m"]
GPUS = ["h100-sxm-80gb", "h200-sxm", "rtx-4090", "mi300x", "gb10", "24GiB", "160GB"]
common = {
    "ctx": st.integers(100, 60_000),
    "batch": st.sampled_from([1, 2, 7, 32]),
    "tp": st.sampled_from([1, 2, 3, 8]),
}


def inverted(model: str, **options: object) -> FitResult:
    """The fit of one question, after checking it from both sides with `size`."""
    answer = kvplan.fit(model, **options)  # type: ignore[arg-type]

    def fits(**changed: object) -> bool:
        return kvplan.size(model, **{**options, **changed}).fits  # type: ignore[arg-type]

    assert fits() == answer.fits
    if answer.max_context is None:
        assert fits(ctx=10**9)
    else:
        least = 1 if not str(options.get("policy", "")).startswith("snapkv") else 31
        if answer.max_context >= least and int(options.get("prefix", 0)) <= answer.max_context:  # type: ignore[call-overload]
            assert fits(ctx=answer.max_context)
        if int(options.get("prefix", 0)) <= answer.max_context + 1 and answer.max_context + 1 >= least:  # type: ignore[call-overload]
            assert not fits(ctx=answer.max_context + 1)
    if answer.max_batch is None:
        assert fits(batch=10**9)
    else:
        assert answer.max_batch == 0 or fits(batch=answer.max_batch)
        assert not fits(batch=answer.max_batch + 1)
    return answer


@settings(max_examples=60)
@given(
    model=st.sampled_from(MODELS),
    gpu=st.sampled_from(GPUS),
    kv_dtype=st.sampled_from(["bf16", "fp8", "fp32"]),
    **common,  # type: ignore[arg-type]
)
def test_fit_inverts_size_over_models_gpus_and_ranks(
    model: str, gpu: str, kv_dtype: str, ctx: int, batch: int, tp: int
) -> None:
    """Dense, windowed, latent, compressed and recurrent models, on cards of every size."""
    inverted(model, gpu=gpu, kv_dtype=kv_dtype, ctx=ctx, batch=batch, tp=tp)


@settings(max_examples=40)
@given(
    model=st.sampled_from(HEADS),
    kv_dtype=st.sampled_from(["int4_g32", "q4_0", "int8_per_token_head", "kivi4", "kivi2"]),
    policy=st.sampled_from(["full", "streaming:sinks=4,window=2044", "h2o:budget=0.2", "snapkv:cap=512,generated=30"]),
    budget=st.integers(10**6, 10**10),
    **common,  # type: ignore[arg-type]
)
def test_fit_inverts_size_over_formats_and_policies(
    model: str, kv_dtype: str, policy: str, budget: int, ctx: int, batch: int, tp: int
) -> None:
    """Packed formats, residuals and evicted rows, against a budget given outright."""
    inverted(model, available_bytes=budget, kv_dtype=kv_dtype, policy=policy, ctx=ctx, batch=batch, tp=tp)


@settings(max_examples=30)
@given(
    model=st.sampled_from(MODELS),
    budget=st.integers(10**6, 10**11),
    prefix=st.integers(0, 100),
    block=st.sampled_from([None, 1, 16, 64]),
    **common,  # type: ignore[arg-type]
)
def test_fit_inverts_size_with_a_shared_prefix(
    model: str, budget: int, prefix: int, block: int | None, ctx: int, batch: int, tp: int
) -> None:
    """Tokens held once, in whole blocks where a block size is given."""
    engine = {"engine": "ideal", "engine_options": {"block_size": block}} if block else {}
    inverted(model, available_bytes=budget, prefix=prefix, ctx=ctx, batch=batch, tp=tp, **engine)


@settings(max_examples=25)
@given(
    model=st.sampled_from(["llama-3.1-8b", "gemma-3-27b", "mistral-7b-v0.1", "qwen3-next-80b-a3b"]),
    engine=st.sampled_from(["ideal", "transformers"]),
    budget=st.integers(10**7, 10**10),
    ctx=st.integers(100, 20_000),
    batch=st.sampled_from([1, 3]),
)
def test_fit_inverts_size_for_an_engines_reservation(
    model: str, engine: str, budget: int, ctx: int, batch: int
) -> None:
    """What an engine reserves decides, not the architecture's need."""
    inverted(model, engine=engine, available_bytes=budget, ctx=ctx, batch=batch)


@settings(max_examples=20)
@given(
    pair=st.sampled_from(
        [("llama-3.1-8b", "llama-3.2-1b"), ("gemma-3-27b", "gemma-3-270m"), ("mistral-7b-v0.1", "smollm2-135m")]
    ),
    gpu=st.sampled_from(["h100-sxm-80gb", "24GiB", "48GiB"]),
    kv_dtype=st.sampled_from(["bf16", "fp8"]),
    reserve=st.sampled_from([0, 10**9, 5 * 10**9]),
    ctx=st.integers(100, 20_000),
    batch=st.sampled_from([1, 4]),
)
def test_fit_inverts_size_beside_a_draft_model_and_other_tenants(
    pair: tuple[str, str], gpu: str, kv_dtype: str, reserve: int, ctx: int, batch: int
) -> None:
    """The draft's cache grows along with the target's."""
    inverted(pair[0], draft=pair[1], gpu=gpu, kv_dtype=kv_dtype, reserve=reserve, ctx=ctx, batch=batch)


@settings(max_examples=15)
@given(
    model=st.sampled_from(["llama-3.1-70b", "llama-3.1-405b", "qwen3-next-80b-a3b", "gpt-oss-120b", "llama-3.1-8b"]),
    gpu=st.sampled_from(["h100-sxm-80gb", "rtx-4090", "mi300x"]),
    ctx=st.integers(1000, 200_000),
    batch=st.sampled_from([1, 16]),
    pp=st.sampled_from([1, 2]),
)
def test_one_gpu_less_does_not_fit(model: str, gpu: str, ctx: int, batch: int, pp: int) -> None:
    """The fewest GPUs hold context and batch both; every smaller number of ranks does not, or cannot be."""
    options = {"gpu": gpu, "ctx": ctx, "batch": batch, "pp": pp}
    fewest = kvplan.fit(model, **options).min_gpus  # type: ignore[arg-type]

    def fits(tp: int) -> bool:
        try:
            return kvplan.size(model, tp=tp, **options).fits  # type: ignore[arg-type]
        except KvplanError:
            return False

    if fewest is None:
        assert not any(fits(tp) for tp in range(1, 64 // pp + 1))
        return
    assert 0 == fewest % pp
    assert fits(fewest // pp)
    assert not any(fits(tp) for tp in range(1, fewest // pp))
    assert fewest <= 64


@pytest.mark.parametrize(("kv_dtype", "budget"), [("kivi2", 20_000_000), ("kivi4", 20_000_000), ("kivi2", 3_000_000)])
def test_every_length_up_to_the_answer_fits_where_a_residual_is_flushed(kv_dtype: str, budget: int) -> None:
    """Bytes fall each time 128 tokens are packed, so a length may fit although a shorter one did not."""
    longest = kvplan.fit("smollm2-135m", ctx=100, kv_dtype=kv_dtype, available_bytes=budget).max_context
    assert longest is not None
    sizes = kvplan.sweep("smollm2-135m", ctx=range(1, longest + 2), kv_dtype=kv_dtype)
    assert (True, False) == (bool((sizes[:-1] <= budget).all()), bool(sizes[-1] <= budget))


def test_kivi_really_dips_where_fit_must_look() -> None:
    """At some budget a length fits while a shorter one does not; fit stops before the first that does not."""
    sizes = kvplan.sweep("smollm2-135m", ctx=range(1000, 1400), kv_dtype="kivi2").tolist()
    fall = next(n for n in range(1, 400) if sizes[n] < sizes[n - 1])
    budget = sizes[fall - 1] - 1  # one byte too few for the length before the fall, enough for the one after
    assert sizes[fall] <= budget
    found = kvplan.fit("smollm2-135m", ctx=100, kv_dtype="kivi2", available_bytes=budget)
    assert 1000 + fall - 2 == found.max_context


def test_a_windowed_model_beside_a_dense_draft_passes_every_peak() -> None:
    """Full windows stay as they are, the draft still grows: no length up to the answer fails, and the next does."""
    options = {"kv_dtype": "kivi2", "gpu": "24GiB", "draft": "smollm2-135m", "utilization": "1", "batch": 8}
    both = [
        kvplan.sweep(m, ctx=range(1, 20001), batch=8, kv_dtype="kivi2") for m in ("mistral-7b-v0.1", "smollm2-135m")
    ]
    for reserve in ("0", "3GB", "4GB"):
        found = kvplan.fit("mistral-7b-v0.1", ctx=100, reserve=reserve, **options)  # type: ignore[arg-type]
        fits = (both[0] + both[1]) <= found.kv_budget_bytes
        first_failure = 20001 if fits.all() else int(fits.argmin()) + 1
        assert found.max_context is not None
        assert min(found.max_context, 20000) == first_failure - 1


@pytest.mark.parametrize("budget", ["0.333", "0.123", "0.25"])
def test_a_share_in_three_decimals_can_be_turned_around_with_residuals(budget: str) -> None:
    """KIVI keeps runs of the rows that H2O keeps: the answer still passes every peak."""
    policy = f"h2o:budget={budget}"
    sizes = kvplan.sweep("smollm2-135m", ctx=range(1, 20001), kv_dtype="kivi2", policy=policy)
    for held in (5_000_000, 10_000_000):
        found = kvplan.fit("smollm2-135m", ctx=100, kv_dtype="kivi2", policy=policy, available_bytes=held)
        assert int((sizes <= held).argmin()) == found.max_context


def test_constant_state_has_no_longest_context() -> None:
    """A model of states alone takes the same at any length: null, and in words `without limit`."""
    answer = kvplan.fit("xlstm-7b", ctx=1000, gpu="h100")
    assert answer.max_context is None
    assert answer.max_batch is not None
    assert answer.fits


def test_a_cache_too_large_for_one_sequence_names_zero() -> None:
    """Not an error: none fits."""
    answer = kvplan.fit("llama-3.1-70b", ctx="128k", available_bytes=327679)
    assert (0, 0, False) == (answer.max_context, answer.max_batch, answer.fits)


def test_the_textbook_arithmetic_turned_around() -> None:
    """40 GiB hold 131,072 tokens of 327,680 bytes exactly, or 16 sequences of 8,192."""
    assert 131072 == kvplan.fit("llama-3.1-70b", ctx="8K", available_bytes="40GiB").max_context
    assert 16 == kvplan.fit("llama-3.1-70b", ctx="8K", available_bytes="40GiB").max_batch
    assert 131071 == kvplan.fit("llama-3.1-70b", ctx="8K", available_bytes=40 * 2**30 - 1).max_context


def test_an_enormous_budget_still_has_its_limit() -> None:
    """10^18 bytes hold 10^18 / 23,040 tokens of SmolLM2-135M and no more: a limit, however far."""
    answer = kvplan.fit("smollm2-135m", ctx=1, available_bytes=10**18)
    assert (10**18 // 23040, 10**18 // 23040) == (answer.max_context, answer.max_batch)


def test_a_budget_alone_names_no_gpus() -> None:
    """Without a card there is no fewest number of them."""
    assert kvplan.fit("llama-3.1-8b", ctx=8000, available_bytes="8GiB").min_gpus is None


def test_fit_needs_something_to_fit_into() -> None:
    """Neither a GPU nor a budget: an error that says so."""
    with pytest.raises(InputError, match="--gpu or --available-bytes"):
        kvplan.fit("llama-3.1-8b", ctx=8000)


def test_a_replica_never_has_more_than_64_gpus() -> None:
    """With four stages the ranks of one stage end at sixteen."""
    answer = kvplan.fit("qwen3.8-2.4t-a95b", ctx=1000, gpu="rtx-4090", pp=4)
    assert answer.min_gpus is None or answer.min_gpus <= 64
