"""`kvplan size`: the contract's own figures, every option's effect, one row per combination."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from .conftest import refused, row, run

KEYS = (
    "model",
    "workload",
    "total_bytes",
    "bytes_per_token",
    "bytes_per_token_full",
    "fixed_bytes_per_sequence",
    "per_rank_bytes",
    "parts",
    "engine",
    "gpu",
    "bounds",
    "confidence",
)
WORKLOAD = {
    "context": 128000,
    "batch": 1,
    "k_dtype": "bf16",
    "v_dtype": "bf16",
    "policy": "full",
    "tp": 1,
    "pp": 1,
    "dcp": 1,
}
GPU_KEYS = (
    "name",
    "count",
    "total_bytes",
    "usable_bytes",
    "weights_bytes",
    "overhead_bytes",
    "kv_budget_bytes",
    "kv_bytes",
    "headroom_bytes",
    "fits",
    "max_context",
    "max_batch",
)


def test_the_contracts_example_is_reproduced() -> None:
    """Llama-3.1-70B at 128,000 tokens: 2 x 80 layers x 8 heads x 128 x 2 bytes x 128,000 = 41,943,040,000."""
    found = row("size", "llama-3.1-70b", "--ctx", "128k")
    assert all(key in found for key in KEYS)
    assert {k: found["workload"][k] for k in WORKLOAD} == WORKLOAD
    assert 41943040000 == found["total_bytes"] == found["per_rank_bytes"]
    assert 327680 == found["bytes_per_token"] == found["bytes_per_token_full"]
    assert 0 == found["fixed_bytes_per_sequence"]
    part = {
        "layers": 80,
        "tensor": "k",
        "role": "k",
        "row": [8, 128],
        "rows": 128000,
        "bytes": 20971520000,
        "shards": 8,
    }
    assert part == {key: found["parts"][0][key] for key in part}
    assert {**part, "tensor": "v", "role": "v"} == {key: found["parts"][1][key] for key in part}


def test_the_gpu_part_has_the_contracts_keys() -> None:
    """Scripts rely on these names; bounds and confidence go by `gpu.` and the key."""
    found = row("size", "llama-3.1-8b", "--ctx", "8k", "--gpu", "h100")
    assert [] == [key for key in GPU_KEYS if key not in found["gpu"]]
    low, high = found["bounds"]["gpu.overhead_bytes"]
    assert low <= found["gpu"]["overhead_bytes"] <= high
    assert "assumed" == found["confidence"]["gpu.overhead_bytes"]
    assert {"exact", "measured", "assumed"} >= set(found["confidence"].values())


def test_the_textbook_model_by_its_numbers() -> None:
    """80 layers of 64 heads of 128 take 335.5 GB at 128,000 tokens, and the spec `mha-70b` is that model."""
    inline = row("size", "--layers", "80", "--kv-heads", "64", "--head-dim", "128", "--ctx", "128k")
    assert 335544320000 == inline["total_bytes"]
    assert inline["total_bytes"] == row("size", "mha-70b", "--ctx", "128k")["total_bytes"]


def test_a_model_by_its_numbers_takes_heads_window_and_dtype() -> None:
    """4 layers x K and V x 2 heads x 64 x 4 bytes x a window of 1,000 rows."""
    typed = (
        "--layers",
        "4",
        "--heads",
        "16",
        "--kv-heads",
        "2",
        "--head-dim",
        "64",
        "--window",
        "1k",
        "--dtype",
        "fp32",
    )
    assert 4 * 2 * 2 * 64 * 4 * 1000 == row("size", *typed, "--ctx", "8k")["total_bytes"]


@pytest.mark.parametrize(
    ("typed", "tokens"),
    [
        ("8192", 8192),
        ("8k", 8000),
        ("128k", 128000),
        ("1.5k", 1500),
        ("1m", 10**6),
        ("8K", 8192),
        ("128K", 131072),
        ("8Ki", 8192),
        ("1M", 2**20),
        ("1Mi", 2**20),
        ("max", 131072),
    ],
)
def test_a_token_count_is_read_as_the_contract_spells_it(typed: str, tokens: int) -> None:
    """Lower-case suffixes are powers of 1000, upper-case and `i` of 1024."""
    assert tokens == row("size", "llama-3.1-70b", "--ctx", typed, "-q")["workload"]["context"]


@pytest.mark.parametrize(
    ("typed", "count"),
    [("40GiB", 42949672960), ("42.9GB", 42900000000), ("42949672960", 42949672960), ("1MiB", 2**20), ("1kb", 1000)],
)
def test_bytes_are_read_in_iec_and_si(typed: str, count: int) -> None:
    """A bare number is bytes."""
    found = row("size", "llama-3.1-70b", "--ctx", "8k", "--available-bytes", typed, "-q")
    assert count == found["gpu"]["kv_budget_bytes"]


def test_the_answer_repeats_the_resolved_tokens_in_full() -> None:
    """Nobody has to know the suffix rule."""
    assert "128,000 tokens" in run("size", "llama-3.1-70b", "--ctx", "128k").out
    assert "131,072 tokens" in run("size", "llama-3.1-70b", "--ctx", "128K").out


def test_an_alias_says_which_spec_it_chose() -> None:
    """`llama-70b` is llama-3.1-70b, in the table and in JSON."""
    answer = run("size", "llama-70b", "--ctx", "8k")
    assert answer.out.startswith("llama-3.1-70b (alias llama-70b)")
    assert "alias llama-70b" == row("size", "llama-70b", "--ctx", "8k")["found_through"]
    assert row("size", "llama-3.1-70b", "--ctx", "8k")["found_through"] is None


def test_a_hub_id_in_the_catalogue_needs_no_network() -> None:
    """`meta-llama/Llama-3.1-70B` is found, whatever its case."""
    for typed in ("meta-llama/Llama-3.1-70B", "META-LLAMA/llama-3.1-70b"):
        found = row("size", typed, "--ctx", "8k")
        assert ("llama-3.1-70b", f"hub id {typed}") == (found["model"], found["found_through"])


def test_a_context_left_out_is_the_maximum_and_says_so() -> None:
    """The hint is on stderr, the tokens are in the report."""
    answer = run("size", "llama-3.1-70b")
    assert "131,072 tokens" in answer.out
    assert "hint: no --ctx given: counting the maximum of llama-3.1-70b, 131,072 tokens\n" == answer.err


def test_a_context_past_the_maximum_is_answered_with_a_hint() -> None:
    """The bytes are right even where the model is not."""
    answer = run("size", "llama-2-7b", "--ctx", "1m")
    assert (0, 1) == (answer.code, len(answer.err.splitlines()))
    assert "past the maximum of llama-2-7b, 4,096" in answer.err


@pytest.mark.parametrize(
    ("model", "typed", "hinted"),
    [
        ("llama-3.1-70b", "128k", True),
        ("llama-3.1-70b", "128000", True),
        ("llama-3.1-70b", "64k", False),
        ("llama-3.1-70b", "128K", False),
        ("llama-2-7b", "4k", True),
        ("llama-3-70b", "8k", True),
        ("llama-3-70b", "4k", False),
        ("deepseek-v4-pro", "1m", True),
    ],
)
def test_the_decimal_nickname_of_a_maximum_gets_a_hint(model: str, typed: str, hinted: bool) -> None:
    """`128k` is 128,000 tokens of the 131,072 that the model has, and one line says so."""
    assert hinted == ("--ctx max" in run("size", model, "--ctx", typed).err)


def test_quiet_drops_every_hint() -> None:
    """`--quiet` leaves stderr empty and stdout as it was."""
    loud, quiet = run("size", "llama-70b"), run("size", "llama-70b", "--quiet")
    assert ("", loud.out) == (quiet.err, quiet.out)
    assert loud.err


def test_lists_multiply_into_rows() -> None:
    """Contexts, batches, formats and models: every combination is one row, the model slowest."""
    arguments = ("--ctx", "8k,32k", "--batch", "1,2,4", "--kv-dtype", "bf16,fp8", "--format", "json")
    found = run("size", "llama-3.1-8b", "qwen3-32b", *arguments).document["results"]
    assert 2 * 2 * 3 * 2 == len(found)
    keys = [(r["model"], r["workload"]["context"], r["workload"]["batch"], r["workload"]["k_dtype"]) for r in found]
    assert len(set(keys)) == len(keys)
    assert ["llama-3.1-8b"] * 12 + ["qwen3-32b"] * 12 == [key[0] for key in keys]


def test_every_axis_takes_a_list() -> None:
    """tp, pp, engine, gpu and repeated policies multiply too."""
    lists = ("--tp", "1,2", "--pp", "1,2", "--engine", "ideal,transformers", "--gpu", "h100,h200")
    policies = ("--policy", "full", "--policy", "h2o:budget=0.5")
    found = run("size", "llama-3.1-8b", "--ctx", "8k", *lists[:4], *policies, "--format", "json").document["results"]
    assert 2 * 2 * 2 == len(found)
    found = run("size", "llama-3.1-8b", "--ctx", "8k", *lists[4:], "--format", "json").document["results"]
    assert [
        ("ideal", "h100-sxm-80gb"),
        ("ideal", "h200-sxm"),
        ("transformers", "h100-sxm-80gb"),
        ("transformers", "h200-sxm"),
    ] == [(r["engine"]["name"], r["gpu"]["name"]) for r in found]


def test_several_models_stand_side_by_side() -> None:
    """One table, one row each."""
    lines = run("size", "llama-3.1-70b", "mha-70b", "deepseek-v3", "--ctx", "128K", "-q").out.splitlines()
    assert [1, 1, 1] == [
        sum(line.startswith(name) for line in lines) for name in ("llama-3.1-70b", "mha-70b", "deepseek-v3")
    ]
    assert any("320.00" in line for line in lines), "reference (b), peers' figure: 320.000 GiB"


@pytest.mark.parametrize(
    ("typed", "rank"),
    [
        (("--tp", "8"), 5368709120),  # a published reference: 5.000 GiB on one rank of eight
        (("--tp", "16"), 5368709120),  # heads are copied past eight ranks
        (("--pp", "4"), 10737418240),  # 20 of 80 layers
        (("--pp", "3"), 42949672960 * 27 // 80),  # 27 layers on the fullest of three stages
        (("--tp", "8", "--dcp", "8"), 5368709120),  # tokens divided instead of heads
        (("--tp", "16", "--dcp", "2"), 2684354560),  # both: sixteen ways, no copies
        (("--dp", "4"), 42949672960),  # replicas never divide a request
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else None,
)
def test_ranks_divide_the_bytes(typed: tuple[str, ...], rank: int) -> None:
    """Llama-3.1-70B at 131,072 tokens, 42,949,672,960 bytes, on the fullest rank."""
    found = row("size", "llama-3.1-70b", "--ctx", "max", *typed)
    assert (42949672960, rank) == (found["total_bytes"], found["per_rank_bytes"])


def test_copies_on_ranks_are_said_in_words_with_their_cost() -> None:
    """16 ranks hold 8 heads twice: a second 40 GiB over the replica."""
    answer = run("size", "llama-3.1-70b", "--ctx", "max", "--tp", "16")
    assert "the copies take 40.00 GiB" in answer.out
    assert 42949672960 == row("size", "llama-3.1-70b", "--ctx", "max", "--tp", "16")["copied_bytes"]
    assert "copies" not in run("size", "llama-3.1-70b", "--ctx", "max", "--tp", "8").out


def test_draft_layers_of_a_uniform_model_repeat_its_own() -> None:
    """One more of 61 latent layers: 576 values x 2 bytes x 8,000 tokens."""
    with_one = row("size", "deepseek-v3", "--ctx", "8k", "--mtp", "1")
    without = row("size", "deepseek-v3", "--ctx", "8k")
    assert 576 * 2 * 8000 == with_one["total_bytes"] - without["total_bytes"]


def test_draft_layers_that_a_spec_describes_are_its_own() -> None:
    """DeepSeek-V4's draft layer keeps its window of 128 entries and nothing else: 512 values x 2 bytes x 128."""
    with_two = row("size", "deepseek-v4-pro", "--ctx", "8k", "--mtp", "2")
    without = row("size", "deepseek-v4-pro", "--ctx", "8k")
    assert 2 * 512 * 2 * 128 == with_two["total_bytes"] - without["total_bytes"]


def test_draft_layers_of_a_mixed_model_are_refused() -> None:
    """Nobody can know which of its layers a draft layer is like."""
    assert "gemma-3-27b" in refused(run("size", "gemma-3-27b", "--ctx", "8k", "--mtp", "1"), 3)


def test_encoder_tokens_lengthen_cross_attention_alone() -> None:
    """Whisper large-v3 keeps 163,840 bytes per encoder frame (vLLM's own planner), 1,500 frames by default."""
    default = row("size", "whisper-large-v3", "--ctx", "400")
    assert (1500, 245760000) == (default["workload"]["encoder_tokens"], default["fixed_bytes_per_sequence"])
    shorter = row("size", "whisper-large-v3", "--ctx", "400", "--encoder-tokens", "100")
    assert 1400 * 163840 == default["total_bytes"] - shorter["total_bytes"]


def test_a_shared_prefix_is_held_once() -> None:
    """Eight sequences of 10,000 tokens that share 4,000: 8 x 6,000 + 4,000 rows of 327,680 bytes."""
    found = row("size", "llama-3.1-70b", "--ctx", "10000", "--batch", "8", "--prefix", "4000")
    assert (8 * 6000 + 4000) * 327680 == found["total_bytes"]


def test_a_block_size_rounds_the_shared_prefix_down() -> None:
    """Blocks of 64 share 3,968 of 4,000 tokens."""
    typed = ("--ctx", "10000", "--batch", "8", "--prefix", "4000", "--engine", "ideal", "-E", "block_size=64")
    found = row("size", "llama-3.1-70b", *typed)
    assert 3968 == found["workload"]["prefix"]
    assert (8 * 6032 + 3968) * 327680 == found["total_bytes"] == found["engine"]["reserved_bytes"]


def test_k_and_v_take_formats_of_their_own() -> None:
    """K in q8_0 (34 bytes per 32) and V in q4_0 (18 bytes per 32): 80 x 8 x 128 / 32 x (34 + 18) per token."""
    found = row("size", "llama-3.1-70b", "--ctx", "1k", "--k-dtype", "q8_0", "--v-dtype", "q4_0")
    assert 80 * 8 * 128 // 32 * (34 + 18) == found["bytes_per_token"]


def test_an_index_takes_a_format_of_its_own() -> None:
    """DeepSeek-V3.2: 61 x (656 + 132) with fp8 index keys, 61 x (656 + 68) with mxfp4 ones."""
    typed = ("deepseek-v3.2", "--ctx", "1k", "--kv-dtype", "fp8_ds_mla")
    assert 61 * (656 + 132) == row("size", *typed)["bytes_per_token"]
    assert 61 * (656 + 68) == row("size", *typed, "--index-dtype", "mxfp4")["bytes_per_token"]


def test_a_policy_keeps_its_rows() -> None:
    """A fifth of 128,000 rows, half heavy hitters and half recent."""
    found = row("size", "llama-3.1-70b", "--ctx", "128k", "--policy", "h2o:budget=0.2")
    assert 25600 * 327680 == found["total_bytes"]
    assert "h2o:budget=0.2" == found["workload"]["policy"]


def test_parts_add_up_in_every_row() -> None:
    """Over windows, latents, states and entries, the parts are the total."""
    names = ("gemma-3-27b", "deepseek-v4-pro", "qwen3-next-80b-a3b", "llama-4-scout", "falcon-h1-34b", "gemma-3n-e4b")
    for found in run("size", *names, "--ctx", "100k", "--batch", "3", "--format", "json").document["results"]:
        assert found["total_bytes"] == sum(part["bytes"] for part in found["parts"]), found["model"]


def test_fractions_of_a_byte_per_token_are_the_mean() -> None:
    """DeepSeek-V4-Pro keeps one entry per 4 or 128 tokens; the spec's `expect` was counted by hand."""
    found = row("size", "deepseek-v4-pro", "--ctx", "8k")
    csa = 30 * Fraction(512 * 2 + 132, 4)
    hca = 31 * Fraction(512 * 2, 128)
    assert csa + hca == Fraction(found["bytes_per_token_full"])


def test_int4_says_that_it_is_the_textbooks() -> None:
    """Half a byte per element, no scales, and a note that real formats take more."""
    answer = run("size", "llama-3.1-70b", "--ctx", "128k", "--kv-dtype", "int4", "-q")
    assert "10,485,760,000 bytes" in answer.out
    assert "note: int4 is the textbook's half byte" in answer.out


def test_the_formula_has_the_models_own_numbers() -> None:
    """--formula writes each tensor's product and the sum."""
    out = run("size", "llama-3.1-70b", "--ctx", "1k", "--formula", "-q").out
    assert "k: 80 layers x [8 x 128] x 2 B x n = 1,000 rows = 163,840,000 B" in out
    assert "total = 327,680,000 B" in out


def test_the_formula_counts_pairs_with_and_without_a_cache() -> None:
    """N = 1000: 1000 x 1001 x 2001 / 6 = 333,833,500 pairs against 1000 x 1001 / 2 = 500,500, 667 times as many."""
    out = run("size", "llama-3.1-70b", "--ctx", "1000", "--formula", "-q").out
    assert "333,833,500" in out
    assert "500,500" in out
    assert "without a cache 667 times the pairs" in out
    compute = row("size", "llama-3.1-70b", "--ctx", "1000", "--formula")["compute"]
    assert (1000, 333833500, 500500) == tuple(compute[k] for k in ("tokens", "naive_pairs", "cached_pairs"))
    per_pair = 4 * 128 * 64 * 80  # 4 d h l: QK and PV, 2 FLOPs per multiply-add
    assert per_pair * 500500 == compute["cached_attention_flops"]
    assert per_pair * 333833500 == compute["naive_attention_flops"]
    assert 327680000 == compute["cache_bytes_per_decoded_token"]


SPEC = (
    "name: {name}\nlayers: {layers}\nattention: {{type: mha, heads: 4, kv_heads: 4, head_dim: 64}}\nmax_context: 4096\n"
)


def folder(root: Path, **specs: int) -> str:
    """A folder of specs, each with its number of layers."""
    root.mkdir()
    for name, layers in specs.items():
        (root / f"{name.replace('_', '-')}.yaml").write_text(SPEC.format(name=name.replace("_", "-"), layers=layers))
    return str(root)


def layers_of(*typed: str, **options: Any) -> int:
    """Layers of the spec that an answer counted."""
    return int(row("size", *typed, "--ctx", "1k", "-q", **options)["parts"][0]["layers"])


def test_own_specs_come_before_the_shipped_ones(tmp_path: Path) -> None:
    """A file called like a shipped one takes its place, by option and by variable."""
    own = folder(tmp_path / "own", gpt_2=3)
    assert (12, 3) == (layers_of("gpt-2"), layers_of("gpt-2", "--specs", own))
    assert 3 == layers_of("gpt-2", env={"KVPLAN_SPECS": own})


def test_the_specs_option_beats_the_variable(tmp_path: Path) -> None:
    """What is typed wins over what is exported; several folders in the variable are searched in order."""
    one, two = folder(tmp_path / "one", mine=1), folder(tmp_path / "two", mine=2, other=5)
    assert 2 == layers_of("mine", "--specs", two, env={"KVPLAN_SPECS": one})
    assert (1, 5) == tuple(layers_of(name, env={"KVPLAN_SPECS": f"{one}:{two}"}) for name in ("mine", "other"))


def test_shipped_specs_are_still_found_beside_ones_own(tmp_path: Path) -> None:
    """A folder of one's own hides nothing else."""
    own = folder(tmp_path / "own", mine=1)
    assert 80 == layers_of("llama-3.1-70b", "--specs", own)


def test_a_path_is_read_before_any_name(tmp_path: Path) -> None:
    """A `.yaml` argument is a file."""
    own = folder(tmp_path / "own", gpt_2=3)
    found = row("size", f"{own}/gpt-2.yaml", "--ctx", "1k")
    assert (3, None) == (found["parts"][0]["layers"], found["found_through"])


@pytest.mark.parametrize(
    ("key", "nearest"),
    [("layer", "layers"), ("atention", "attention"), ("max_contxt", "max_context"), ("paramters", "parameters")],
)
def test_an_unknown_key_in_a_spec_names_the_nearest(tmp_path: Path, key: str, nearest: str) -> None:
    """A misspelt key is an error that says file and field."""
    (tmp_path / "a.yaml").write_text(SPEC.format(name="a", layers=2) + f"{key}: 7\n")
    error = refused(run("size", str(tmp_path / "a.yaml"), "--ctx", "1k"), 2)
    assert f"a.yaml: {key}: unknown key" in error
    assert nearest in error
