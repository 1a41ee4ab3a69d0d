"""`--serve` on the command line: what is answered, what is refused, and what stands beside it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from .conftest import refused, run

LLAMA = "vllm serve meta-llama/Llama-3.1-70B --tensor-parallel-size 8 --max-model-len 32768 --kv-cache-dtype fp8"


def test_a_command_is_the_options_it_stands_for() -> None:
    """The same answer as the options typed by hand."""
    served = run("size", "--serve", LLAMA, "--gpu", "h100", "--format", "json").result
    typed = run(
        *("size", "meta-llama/Llama-3.1-70B", "--tp", "8", "--ctx", "32768", "--kv-dtype", "fp8"),
        *("--engine", "vllm", "--gpu", "h100", "--format", "json"),
    ).result
    serve = served.pop("serve")
    typed.pop("serve")
    assert typed == served
    assert (True, "vllm", []) == (serve["starts"], serve["engine"], serve["unknown"])


def test_an_unknown_flag_is_named_and_the_rest_is_answered() -> None:
    """Not dropped, not fatal."""
    answer = run("size", "--serve", f"{LLAMA} --frobnicate 3 --port 80", "--quiet")
    assert 0 == answer.code
    assert "unknown to it: --frobnicate" in answer.out
    assert "without effect on memory: --port" in answer.out


def test_without_a_gpu_nothing_is_judged() -> None:
    """The bytes of one sequence, and a hint."""
    answer = run("size", "--serve", LLAMA, "--format", "json")
    assert (0, None) == (answer.code, answer.result["serve"]["starts"])
    assert "--gpu" in answer.err


def test_a_command_that_does_not_start_exits_1_and_every_change_starts() -> None:
    """Each change typed into the command makes it start."""
    command = "vllm serve Qwen/Qwen3-32B"
    answer = run("size", "--serve", command, "--gpu", "h100", "--format", "json", "--quiet")
    assert (1, False) == (answer.code, answer.result["serve"]["starts"])
    changes = [change["change"] for change in answer.result["serve"]["changes"]]
    assert len(changes) >= 3
    for change in changes:
        flags = change.partition(" on ")[0]
        changed = run("size", "--serve", f"{command} {flags}", "--gpu", "h100", "--format", "json", "--quiet")
        assert (0, True) == (changed.code, changed.result["serve"]["starts"]), change


def test_the_longest_length_that_starts_is_the_longest() -> None:
    """One block more does not start."""
    command = "vllm serve Qwen/Qwen3-32B"
    answer = run("size", "--serve", command, "--gpu", "h100", "--format", "json", "--quiet").result
    longest = int(answer["serve"]["changes"][0]["change"].split()[-1])
    for length, code in ((longest, 0), (longest + 16, 1)):
        found = run("size", "--serve", f"{command} --max-model-len {length}", "--gpu", "h100", "--quiet")
        assert code == found.code, length


def test_more_sequences_than_fit_are_no_reason_not_to_start() -> None:
    """vLLM starts with room for one; that it does not hold 500 is still a no."""
    command = "vllm serve Qwen/Qwen3-8B --max-model-len 8192"
    answer = run("size", "--serve", command, "--gpu", "h100", "--batch", "500", "--format", "json", "--quiet")
    assert (1, True) == (answer.code, answer.result["serve"]["starts"])
    assert "does not hold 500 sequences" in run("size", "--serve", command, "--gpu", "h100", "--batch", "500").out


def test_a_length_left_to_vllm_is_the_longest_that_fits() -> None:
    """`--max-model-len auto`."""
    answer = run("size", "--serve", "vllm serve Qwen/Qwen3-32B --max-model-len auto", "--gpu", "h100", "--quiet")
    assert 0 == answer.code
    short = run("size", "--serve", "vllm serve Qwen/Qwen3-32B", "--gpu", "h100", "--format", "json", "--quiet").result
    longest = int(short["serve"]["changes"][0]["change"].split()[-1])
    assert f"{longest:,} tokens" in answer.out


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        ("vllm serve Qwen/Qwen3-8B -tp 3", "heads"),
        ("CUDA_VISIBLE_DEVICES=0 vllm serve Qwen/Qwen3-8B -tp 2", "it wants 2 cards and is given 1"),
        ("vllm serve meta-llama/Llama-3.1-8B --max-model-len 200000", "200,000 tokens are past the model's maximum"),
    ],
)
def test_what_the_engine_refuses_whatever_the_memory_does_not_start(command: str, reason: str) -> None:
    """Ranks, cards and lengths, named as a reason."""
    answer = run("size", "--serve", command, "--gpu", "h200", "--format", "json", "--quiet")
    assert (1, False) == (answer.code, answer.result["serve"]["starts"])
    assert any(reason in line for line in answer.result["serve"]["refusals"])


@pytest.mark.parametrize(
    ("command", "starts"),
    [
        ("CUDA_VISIBLE_DEVICES=0,1 vllm serve Qwen/Qwen3-8B -tp 2 -pp 2", False),
        ("CUDA_VISIBLE_DEVICES=0,1 vllm serve Qwen/Qwen3-8B -tp 2 -pp 2 --nnodes 2 --node-rank 0", True),
        ("CUDA_VISIBLE_DEVICES=0,1 vllm serve Qwen/Qwen3-8B -tp 2 -pp 2 --distributed-executor-backend ray", True),
        ("CUDA_VISIBLE_DEVICES=0,1 python -m sglang.launch_server --model Qwen/Qwen3-8B --tp 4 --nnodes 2", True),
        ("CUDA_VISIBLE_DEVICES=0,1 python -m sglang.launch_server --model Qwen/Qwen3-8B --tp 4", False),
    ],
)
def test_cards_are_counted_over_the_machines_of_the_command(command: str, starts: bool) -> None:
    """Two machines of two cards are four; Ray may bring any."""
    assert starts == run("size", "--serve", command, "--gpu", "h200", "--format", "json").result["serve"]["starts"]


def test_the_attention_backend_of_a_variable_is_taken() -> None:
    """FlashInfer's blocks, from the variable of earlier releases, the flag, and an unknown word."""
    for command, counted in (
        ("vllm serve Qwen/Qwen3-8B --attention-backend flashinfer", True),
        ("VLLM_ATTENTION_BACKEND=FLASHINFER vllm serve Qwen/Qwen3-8B", True),
        ("VLLM_ATTENTION_BACKEND=OWN_KERNELS vllm serve Qwen/Qwen3-8B", False),
    ):
        serve = run("size", "--serve", command, "--format", "json").result["serve"]
        assert counted == (serve["uncounted"] == [])


def test_the_variable_that_allows_a_longer_length_allows_it() -> None:
    """`VLLM_ALLOW_LONG_MAX_MODEL_LEN=1`."""
    command = "VLLM_ALLOW_LONG_MAX_MODEL_LEN=1 vllm serve meta-llama/Llama-3.1-8B --max-model-len 200000"
    assert 0 == run("size", "--serve", command, "--gpu", "h200", "--quiet").code


@pytest.mark.parametrize(
    ("command", "name", "weights"),
    [
        ("vllm serve meta-llama/Llama-3.1-70B-Instruct", "llama-3.1-70b", None),
        ("vllm serve Qwen/Qwen3-32B-AWQ --max-model-len 8192", "qwen3-32b", "awq"),
        ("OLLAMA_CONTEXT_LENGTH=8192 ollama run gemma3:27b", "gemma-3-27b", "q4_k_m"),
        ("llama-server -m /models/Qwen3-32B-Q4_K_M.gguf -c 8192", "qwen3-32b", "q4_k_m"),
    ],
)
def test_a_copy_is_counted_as_its_model_and_says_so(command: str, name: str, weights: str | None) -> None:
    """The layers of the catalogue's model, the weights of the copy's name."""
    answer = run("size", "--serve", command, "--gpu", "h200", "--format", "json", "--quiet").result
    assert (name, name) == (answer["model"], answer["serve"]["counted_as"])
    assert any(f"counted as {name}" in note for note in answer["serve"]["notes"])
    plain = run(
        "size", name, "--gpu", "h200", "--format", "json", "--quiet", *(["--weights", weights] if weights else [])
    )
    assert plain.result["gpu"]["weights_bytes"] == answer["gpu"]["weights_bytes"]


def test_a_model_that_is_here_is_read_and_not_looked_up(tmp_path: Path) -> None:
    """A folder named like a copy of a model of the catalogue holds another model."""
    folder = tmp_path / "Qwen3-8B-Instruct"
    folder.mkdir()
    config = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 256, "num_hidden_layers": 3}
    config |= {"num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 100, "intermediate_size": 512}
    config |= {"max_position_embeddings": 4096, "torch_dtype": "bfloat16"}
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    answer = run("size", "--serve", f"vllm serve {folder}", "--format", "json").result
    assert (3, None) == (answer["parts"][0]["layers"], answer["serve"]["counted_as"])


def test_a_draft_is_found_by_its_copy_s_name() -> None:
    """As the model itself is."""
    command = "mlx_lm.server --model mlx-community/Qwen3-8B-4bit --draft-model mlx-community/Qwen3-0.6B-4bit"
    answer = run("size", "--serve", command, "--ctx", "8k", "--gpu", "64GiB", "--format", "json")
    assert "qwen3-0.6b" == answer.result["draft"]["model"], answer.err


def test_the_tag_of_an_image_chooses_the_rules() -> None:
    """v0.19.1 is counted as vLLM 0.19 is."""
    for tag, version in (("v0.33.0", "0.33"), ("v0.19.1", "0.19"), ("latest", "0.33")):
        command = f"docker run --gpus all vllm/vllm-openai:{tag} --model Qwen/Qwen3-8B"
        assert version == run("size", "--serve", command, "--format", "json").result["engine"]["version"]


@pytest.mark.parametrize(
    ("command", "context", "batch", "n_ctx"),
    [
        ("ollama run llama3.1:8b", 131_072, 1, 131_072),
        ("OLLAMA_CONTEXT_LENGTH=262144 ollama run llama3.1:8b", 131_072, 1, 131_072),
        ("OLLAMA_CONTEXT_LENGTH=8192 OLLAMA_NUM_PARALLEL=4 ollama run llama3.1:8b", 8192, 4, 32_768),
        ("OLLAMA_CONTEXT_LENGTH=8192 OLLAMA_NUM_PARALLEL=4 ollama run qwen3.5:9b", 8192, 1, 8192),
    ],
)
def test_what_ollama_cuts_is_counted_as_cut(command: str, context: int, batch: int, n_ctx: int) -> None:
    """The length at the model's maximum, and one sequence at a time for some families."""
    answer = run("size", "--serve", command, "--gpu", "h100", "--format", "json", "--quiet").result
    assert (context, batch) == (answer["workload"]["context"], answer["workload"]["batch"])
    assert n_ctx == answer["engine"]["n_ctx"]
    assert answer["serve"]["starts"]


def test_a_quantized_cache_needs_the_flash_attention_that_ollama_is_told_to_leave_out() -> None:
    """`OLLAMA_FLASH_ATTENTION=0` does not start with `OLLAMA_KV_CACHE_TYPE=q8_0`, and 1 does."""
    command = "OLLAMA_CONTEXT_LENGTH=8192 OLLAMA_KV_CACHE_TYPE=q8_0 OLLAMA_FLASH_ATTENTION={} ollama run llama3.1:8b"
    assert 0 == run("size", "--serve", command.format(1), "--gpu", "h100", "--quiet").code
    answer = run("size", "--serve", command.format(0), "--gpu", "h100", "--format", "json", "--quiet")
    assert (1, False) == (answer.code, answer.result["serve"]["starts"])
    assert any("flash attention" in line for line in answer.result["serve"]["refusals"])


def test_a_matrix_stands_beside_a_command() -> None:
    """Lists of `--gpu` and `--ctx` give a row each."""
    answer = run("size", "--serve", LLAMA, "--gpu", "h100,h200", "--ctx", "8k,32k", "--format", "json", "--quiet")
    assert 4 == len(answer.document["results"])
    assert "starts" in run("size", "--serve", LLAMA, "--gpu", "h100,h200", "--quiet").out


def test_a_length_past_the_command_s_own_is_told() -> None:
    """The server would refuse such a sequence, so the answer says what it counted."""
    command = "vllm serve Qwen/Qwen3-8B --max-model-len 8k"
    note = "note: --ctx 16,000 is past the 8,000 tokens of the command"
    assert note in run("size", "--serve", command, "--gpu", "h100", "--ctx", "16k").out
    assert note not in run("size", "--serve", command, "--gpu", "h100", "--ctx", "4k").out


def test_fit_takes_a_command() -> None:
    """The same figures as the options typed by hand."""
    served = run("fit", "--serve", LLAMA, "--gpu", "h100", "--format", "json").result
    typed = run(
        *("fit", "meta-llama/Llama-3.1-70B", "--tp", "8", "--ctx", "32768", "--kv-dtype", "fp8"),
        *("--engine", "vllm", "--gpu", "h100", "--format", "json"),
    ).result
    for key in ("max_context", "max_batch", "min_gpus", "fits"):
        assert typed[key] == served[key]


@pytest.mark.parametrize("name", ["json", "csv", "markdown", "html", "table"])
def test_every_format_shows_the_command(name: str) -> None:
    """The words of the command are in the report."""
    assert "Llama-3.1-70B" in run("size", "--serve", LLAMA, "--gpu", "h100", "--format", name, "--quiet").out


@pytest.mark.parametrize(
    ("command", "more"),
    [
        ("", ()),
        ("   ", ()),
        ("echo hello", ()),
        ("rm -rf /", ()),
        ("vllm bench throughput --model x", ()),
        ("vllm serve", ()),
        ("vllm serve no-such/Model-At-All", ()),
        ("vllm serve /models/llama", ()),
        ("vllm serve Qwen/Qwen3-8B --max-model-len lots", ()),
        ("vllm serve Qwen/Qwen3-8B --max-model-len", ()),
        ("vllm serve Qwen/Qwen3-8B --max-model-len $LEN", ()),
        ("vllm serve Qwen/Qwen3-8B --gpu-memory-utilization 90", ()),
        ("vllm serve Qwen/Qwen3-8B -tp 0", ()),
        ("vllm serve Qwen/Qwen3-8B --kv-cache-dtype fp9", ()),
        ("vllm serve Qwen/Qwen3-8B --block-size x --speculative-config nonsense", ()),
        ('vllm serve Qwen/Qwen3-8B --speculative-config \'{"model": ["Qwen/Qwen3-0.6B"]}\'', ()),
        ("vllm serve Qwen/Qwen3-8B 'unclosed", ()),
        ("vllm serve Qwen/Qwen3-8B; vllm serve Qwen/Qwen3-4B", ()),
        ("docker run", ()),
        ("docker run some/image --model x", ()),
        ("ollama serve", ()),
        ("ollama run llama3.1:70b", ()),
        ("vllm serve Qwen/Qwen3-8B -tp 2", ("--tp", "4")),
        ("vllm serve Qwen/Qwen3-8B", ("--engine", "sglang")),
        ("vllm serve Qwen/Qwen3-8B --block-size 16", ("-E", "block_size=32")),
        ("vllm serve Qwen/Qwen3-8B --kv-cache-dtype fp8", ("--kv-dtype", "bf16")),
        ("vllm serve Qwen/Qwen3-235B-A22B-Instruct-2507", ()),
    ],
    ids=str,
)
def test_a_command_that_cannot_be_answered_exits_2_with_two_lines(command: str, more: tuple[str, ...]) -> None:
    """What is wrong, then the likeliest fix."""
    refused(run("size", "--serve", command, *more), 2)


HOSTILE = [
    "vllm serve \x1b[31mred\x1b[0m",
    "vllm serve 'a\x07b' --max-model-len 1\x00",
    "vllm serve " + "a" * 100_000,
    "vllm serve x " + "--a b " * 20_000,
    "bash -c " * 500 + "x",
    'bash -c "bash -c \'bash -c \\"bash -c x\\"\'"',
    "env " * 5_000 + "vllm serve x",
    "A=x; " + "A=$A$A; " * 60 + "vllm serve $A",
    "A=x; " + 'A="$A$A"; ' * 60 + 'vllm serve "$A"',
    "vllm serve x --speculative-config '" + "[" * 10_000 + "'",
    "vllm serve x --speculative-config '" + '{"a":' * 500 + "1" + "}" * 500 + "'",
    "vllm serve x --speculative-config." + "a." * 5_000 + "b 1",
    "vllm serve x --max-model-len " + "9" * 5_000,
    "vllm serve x --gpu-memory-utilization 1e999",
    "vllm serve $(rm -rf ~) `id`",
    "vllm serve ../../../../etc/passwd",
    "docker run " + "-e A=B " * 3_000 + "vllm/vllm-openai --model x",
    "docker run " + "x" * 10_000,
    "\u202evllm serve x",
    "vllm serve 'Qwen/Qwen3-8B\n\n--tp 2'",
    "$" * 60_000,
    "${" * 20_000,
    "(" * 60_000,
    "'" * 60_001,
]


@pytest.mark.parametrize("command", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_text_gets_two_lines_and_no_escape(command: str) -> None:
    """Bounded in time and size, no traceback, nothing that a terminal would obey."""
    answer = run("size", "--serve", command)
    assert answer.code in (2, 3), answer.err
    refused(answer, answer.code)
    assert all(c.isprintable() or c == "\n" for c in answer.err)
    assert len(answer.err) < 5_000


def test_hostile_words_in_an_answer_are_shown_harmlessly() -> None:
    """Unknown flags with escape codes stay text."""
    command = "vllm serve Qwen/Qwen3-8B --\x1b[31m 3 '--x\u202e'"
    for name in ("table", "csv", "markdown", "html"):
        answer = run("size", "--serve", command, "--gpu", "h100", "--format", name, "--quiet")
        assert 0 == answer.code
        assert "\x1b" not in answer.out
        assert "\u202e" not in answer.out
    assert json.loads(run("size", "--serve", command, "--format", "json").out)
