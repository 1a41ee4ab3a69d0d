"""What Ollama decides before it starts llama-server: the context of a sequence, how many at once, and the batch.

    num_ctx       what is asked, or a default by the memory of all GPUs, cut to the trained context, at least 4
    num_parallel  what is asked, but 1 for some families
    num_batch     512 up to 4,096 tokens of all sequences together, 1,024 up to 32,768, 2,048 beyond

Worked: GPUs of 24 GiB together make num_ctx 32,768; two sequences of it are 65,536 tokens, so the batch is 2,048.

Source: ollama main after v0.33.0-rc2, server/routes.go (defaultNumCtx) and server/sched.go (families, automatic batch).
"""

from __future__ import annotations

from kvplan.engine import Options
from kvplan.errors import InputError
from kvplan.record import Record
from kvplan.spec import ModelSpec
from kvplan.workload import Workload

GIB = 2**30
DEFAULT_CONTEXTS = ((47 * GIB, 262_144), (23 * GIB, 32_768), (0, 4_096))
"""num_ctx where nobody says, by the memory of all GPUs."""

LEAST_CONTEXT = 4
BATCHES = ((32_768, 2_048), (4_096, 1_024), (0, 512))
"""num_batch where nobody says, by the tokens of all sequences that it must exceed; less where memory is short."""

ONE_AT_A_TIME = (
    "mllama",
    "qwen3vl",
    "qwen3vlmoe",
    "qwen35",
    "qwen35moe",
    "qwen3next",
    "lfm2",
    "lfm2moe",
    "nemotron_h",
    "nemotron_h_moe",
    "nemotron_h_omni",
)
"""Families that Ollama serves one sequence at a time, whatever OLLAMA_NUM_PARALLEL says."""

FAMILIES = (
    ("qwen3-vl", "qwen3vl"),
    ("qwen3.5-", "qwen35"),
    ("qwen3.6-", "qwen35"),
    ("qwen3-next", "qwen3next"),
    ("qwen3-coder-next", "qwen3next"),
    ("lfm2-", "lfm2"),
    ("nemotron-h", "nemotron_h"),
    ("nemotron-nano", "nemotron_h"),
    ("nemotron-3", "nemotron_h_moe"),
    ("llama-3.2-11b-vision", "mllama"),
    ("llama-3.2-90b-vision", "mllama"),
)
"""How the name of a spec begins, and the family that Ollama's manifest gives such a model."""


class Launch(Record):
    """The decisions, and phrases for those that differ from what was asked."""

    num_ctx: int
    num_parallel: int
    num_batch: int
    reasons: tuple[str, ...]


def launch_of(spec: ModelSpec, workload: Workload, options: Options) -> Launch:
    """What Ollama decides for `workload`.

    Raises: InputError for more sequences at once than the model's family allows, or longer ones than it was trained on.
    """
    reasons = []
    num_parallel = int(options.get("num_parallel", workload.batch))
    family = str(options.get("model_family", family_of(spec.name)))
    if family in ONE_AT_A_TIME:
        if workload.batch > 1:
            raise InputError(
                f"--batch: found {workload.batch:,}, but ollama serves the family {family} one sequence at a time",
                "--batch 1, or --engine llama.cpp",
            )
        if num_parallel > 1:
            reasons.append(f"the family {family} is served one sequence at a time, whatever num_parallel says")
        num_parallel = 1
    num_ctx, trained = _asked_context(workload, options), spec.fields.max_context
    if trained is not None and workload.context > trained:
        raise InputError(
            f"--ctx: found {workload.context:,} tokens, but ollama cuts every context to the trained {trained:,}",
            "--ctx max, or --engine llama.cpp",
        )
    if trained is not None and num_ctx > trained:
        reasons.append(f"num_ctx is cut from {num_ctx:,} to the trained context of {trained:,}")
        num_ctx = trained
    num_ctx = max(num_ctx, LEAST_CONTEXT)
    return Launch(num_ctx, num_parallel, _batch(num_ctx * num_parallel, options), tuple(reasons))


def family_of(name: str) -> str:
    """The family of a model that Ollama treats apart, nothing for the others.

    >>> family_of("qwen3.5-27b"), family_of("llama-3.1-8b")
    ('qwen35', '')
    """
    return next((family for start, family in FAMILIES if name.startswith(start)), "")


def _asked_context(workload: Workload, options: Options) -> int:
    """Tokens of one sequence, before they are cut."""
    for option in ("num_ctx", "context_length"):
        if option in options:
            return int(options[option])
    if "total_vram" not in options:
        return workload.context
    memory = int(options["total_vram"]) - int(options.get("gpu_overhead", 0)) * workload.pp
    return next(context for least, context in DEFAULT_CONTEXTS if memory >= least or not least)


def _batch(tokens: int, options: Options) -> int:
    """Tokens of a batch, when there is memory for it."""
    if "num_batch" in options:
        return int(options["num_batch"])
    if options.get("flash_attention", True) is False:
        return BATCHES[-1][1]
    return next(batch for least, batch in BATCHES if tokens > least)
