"""What weights take on one rank: parameters times stored width, experts divided apart."""

from __future__ import annotations

import pytest
from strategies import model, shipped

from kvplan.errors import InputError
from kvplan.spec import ModelSpec
from kvplan.weights import WIDTHS, Weights, check_given, weights_on_rank
from kvplan.workload import Workload

MHA = {"type": "mha", "heads": 1, "kv_heads": 1, "head_dim": 64}


def held(spec: ModelSpec, given: str | None = None, **ranks: int) -> Weights:
    """Weights on one rank of a model whose weights are known."""
    found = weights_on_rank(spec, Workload(1, **ranks), given)
    assert found is not None
    return found


def test_bf16_weights_are_exact() -> None:
    """Llama-3.1-70B: 70,553,706,496 parameters of 2 bytes, low and high alike."""
    found = held(shipped("llama-3.1-70b"))
    assert (141107412992,) * 3 == (found.rank_bytes, found.low_bytes, found.high_bytes)
    assert "exact" == found.confidence


@pytest.mark.parametrize(("ranks", "share"), [({"tp": 8}, 8), ({"pp": 4}, 4), ({"tp": 4, "pp": 4}, 16), ({"dp": 4}, 1)])
def test_ranks_divide_the_weights_and_replicas_do_not(ranks: dict[str, int], share: int) -> None:
    """tp x pp ranks hold a share each; each replica holds all."""
    assert -(-141107412992 // share) == held(shipped("llama-3.1-70b"), **ranks).rank_bytes


def test_a_share_is_rounded_up() -> None:
    """Ten bytes over three ranks are four on the fullest."""
    spec = model(MHA, parameters=5)
    assert 4 == held(spec, tp=3).rank_bytes


def test_mixed_weights_add_up_and_have_an_error_bar() -> None:
    """gpt-oss-120b: 114,661,785,600 expert parameters of 4.25 bits and 2,167,371,072 others of 16."""
    found = held(shipped("gpt-oss-120b"))
    assert 114661785600 * 17 // 32 + 2167371072 * 2 == found.rank_bytes == found.low_bytes
    assert "assumed" == found.confidence
    assert found.rank_bytes < found.high_bytes <= found.rank_bytes * 107 // 100 + 1


LOGGED = [  # (model, --weights, tp, GiB that an engine's log prints for one rank): tests/data/logged_budgets.yaml
    ("llama-3.1-8b", None, 1, 14.99),
    ("llama-3.1-8b", "fp8", 1, 8.46),  # TensorRT-LLM issue 6294
    ("llama-3.3-70b", "fp8", 1, 67.72),
    ("llama-3.3-70b", "fp8", 2, 33.88),
    ("qwen3-0.6b", None, 1, 1.12),
    ("qwen3-32b", None, 1, 61.03),
    ("qwen2.5-7b", None, 1, 14.29),
]


@pytest.mark.parametrize(("name", "given", "tp", "logged"), LOGGED)
def test_weights_are_what_engines_print(name: str, given: str | None, tp: int, logged: float) -> None:
    """Within 1 %, of which buffers beside the weights are the most."""
    found = held(shipped(name), given, tp=tp)
    assert abs(found.rank_bytes / 2**30 - logged) < 0.01 * logged


@pytest.mark.parametrize(("name", "logged"), [("gpt-oss-20b", 13.47), ("gpt-oss-120b", 64.38)])
def test_padded_experts_are_within_the_bounds(name: str, logged: float) -> None:
    """vLLM pads the experts of gpt-oss."""
    found = held(shipped(name))
    assert found.low_bytes < logged * 2**30 < found.high_bytes


def test_a_quantized_model_keeps_its_embeddings_wide() -> None:
    """8,030,261,248 parameters, of which 2 x 128,256 x 4,096 stay bf16; the least is everything in 8 bit."""
    found = held(shipped("llama-3.1-8b"), "fp8")
    assert 8030261248 + 2 * 128256 * 4096 == found.rank_bytes
    assert 8030261248 == found.low_bytes
    assert 8030261248 * 17 // 16 == held(shipped("llama-3.1-8b"), "q8_0").rank_bytes, "ggml quantizes them too"
    assert 3212749824 + 128256 * 3072 == held(shipped("llama-3.2-3b"), "fp8").rank_bytes, "tied: one matrix"


def test_ranks_may_hold_more_than_their_share() -> None:
    """Copies on tensor-parallel ranks, whole layers on stages, the head on the last."""
    alone, two = held(shipped("llama-3.1-70b")), held(shipped("llama-3.1-70b"), tp=2)
    assert (alone.confidence, two.confidence) == ("exact", "assumed")
    assert two.low_bytes == two.rank_bytes < two.high_bytes <= two.rank_bytes * 102 // 100 + 1
    staged = held(shipped("llama-3.1-70b"), pp=3)
    assert staged.high_bytes > staged.rank_bytes * 27 * 3 // 80


def test_released_checkpoints_are_within_the_bounds() -> None:
    """DeepSeek-V3 stores 684,531,386,000 parameters of 1 byte and a fp32 scale per 128 x 128 block."""
    found = held(shipped("deepseek-v3"))
    assert 684531386000 + -(-684531386000 * 4 // (128 * 128)) == found.rank_bytes


def test_expert_ranks_divide_the_experts_alone() -> None:
    """Eight ways experts, two ways the rest: gpt-oss-120b on eight ranks, as tp 2 and dp 4 with ep 8."""
    found = held(shipped("gpt-oss-120b"), tp=2, dp=4, ep=8)
    assert 114661785600 * 17 // 32 // 8 + 2167371072 * 2 // 2 == found.rank_bytes


def test_tensor_parallelism_divides_what_fewer_expert_ranks_hold() -> None:
    """ep 2 within tp 8: every expert is held by four ranks, a quarter each."""
    assert held(shipped("gpt-oss-120b"), tp=8, ep=2) == held(shipped("gpt-oss-120b"), tp=8)


@pytest.mark.parametrize("ranks", [{"ep": 8}, {"tp": 2, "ep": 8}, {"tp": 8, "ep": 3}, {"pp": 8, "ep": 8}])
def test_expert_ranks_come_out_of_the_ranks_there_are(ranks: dict[str, int]) -> None:
    """ep does not make cards: it divides tp x dp."""
    with pytest.raises(InputError, match="--ep: found"):
        held(shipped("gpt-oss-120b"), **ranks)


def test_one_expert_rank_changes_nothing() -> None:
    """ep 1 is tensor parallelism for all parts."""
    assert held(shipped("gpt-oss-120b"), tp=4) == held(shipped("gpt-oss-120b"), tp=4, ep=1)


def test_a_dense_model_has_no_experts_to_divide() -> None:
    """ep of a model without experts is an error that says so."""
    with pytest.raises(InputError, match="lists no expert parameters"):
        held(shipped("llama-3.1-70b"), tp=8, ep=8)


BITS = {
    "fp32": 32,
    "bf16": 16,
    "fp16": 16,
    "fp8": 8,
    "int8": 8,
    "int4": 4,
    "mxfp4": 4.25,  # OCP: 32 codes of 4 bits and one 8-bit scale
    "nvfp4": 4.5,  # 16 codes of 4 bits and one 8-bit scale
    "q8_0": 8.5,  # ggml: 34 bytes per 32
    "q6_k": 6.5625,  # ggml: 210 bytes per 256
    "q4_0": 4.5,  # ggml: 18 bytes per 32
    "awq": 4.15625,  # 16-bit scale and 4-bit zero per 128
    "gptq": 4.15625,
}


@pytest.mark.parametrize(("name", "bits"), BITS.items())
def test_a_weight_format_takes_its_bits(name: str, bits: float) -> None:
    """A million parameters in each format."""
    spec = model(MHA, parameters=1_024_000)
    assert bits * 1_024_000 / 8 == held(spec, name).rank_bytes


def test_the_formats_that_the_documentation_names_all_exist() -> None:
    """bf16 fp16 fp8 int8 int4 awq gptq mxfp4 nvfp4 q8_0 q6_k q5_k_m q4_k_m q4_0."""
    named = "bf16 fp16 fp8 int8 int4 awq gptq mxfp4 nvfp4 q8_0 q6_k q5_k_m q4_k_m q4_0"
    assert set(named.split()) <= set(WIDTHS)


def test_given_bytes_are_exact_and_divided() -> None:
    """38 GiB over four ranks."""
    found = held(shipped("llama-3.1-70b"), "38GiB", tp=4)
    assert (38 * 2**30 // 4, "exact") == (found.rank_bytes, found.confidence)


def test_a_given_format_replaces_the_released_one_in_every_part() -> None:
    """gpt-oss-120b as bf16 takes 2 bytes for each parameter, exactly."""
    found = held(shipped("gpt-oss-120b"), "bf16")
    assert (116829156672 * 2, "exact") == (found.rank_bytes, found.confidence)


def test_unknown_parameters_are_not_guessed() -> None:
    """Without parameters and without bytes nothing is known; with bytes all is."""
    spec = model(MHA)
    assert weights_on_rank(spec, Workload(1), None) is None
    assert weights_on_rank(spec, Workload(1), "fp8") is None
    assert 1000 == held(spec, "1000").rank_bytes


@pytest.mark.parametrize("text", ["bf61", "", "8bit", "-1GiB", "1e9", "fp8 ", "q4_K_X"])
def test_what_is_neither_a_format_nor_bytes_is_refused(text: str) -> None:
    """With or without a GPU to put them on."""
    with pytest.raises(InputError, match="--weights"):
        check_given(text)


def test_a_format_is_read_in_any_case() -> None:
    """llama.cpp writes Q4_K_M."""
    assert held(shipped("llama-3.1-8b"), "Q4_K_M") == held(shipped("llama-3.1-8b"), "q4_k_m").replace(
        source="8,030,261,248 parameters x Q4_K_M"
    )
