"""`ollama serve` and `ollama run`: Ollama's environment variables as a question.

Ollama's settings are variables of its server; `run` names the model.

Source: Ollama v0.33.0-rc2, `envconfig/config.go` and `cmd/cmd.go`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from kvplan.serving import Asked
from kvplan.serving.flags import Arguments, Table, table
from kvplan.serving.launch import Launch
from kvplan.serving.values import environment_number

VERBS = frozenset({"serve", "start", "run"})
CACHE_TYPES = {"f16": "fp16", "f32": "fp32"}
IDLE_VARIABLES = frozenset(
    """OLLAMA_DEBUG OLLAMA_HOST OLLAMA_KEEP_ALIVE OLLAMA_LLM_LIBRARY OLLAMA_LOAD_TIMEOUT
    OLLAMA_MAX_QUEUE OLLAMA_MODELS OLLAMA_NOHISTORY OLLAMA_NOPRUNE OLLAMA_ORIGINS OLLAMA_SCHED_SPREAD
    OLLAMA_MULTIUSER_CACHE OLLAMA_INTEL_GPU OLLAMA_NEW_ENGINE OLLAMA_AUTH OLLAMA_REMOTES OLLAMA_VULKAN
    OLLAMA_EDITOR OLLAMA_NO_CLOUD OLLAMA_MAX_TRANSFER_STREAMS OLLAMA_DEBUG_LOG_REQUESTS OLLAMA_RUNNERS_DIR
    OLLAMA_TMPDIR OLLAMA_MAX_VRAM OLLAMA_MODEL OLLAMA_API_KEY""".split()
)
READ_VARIABLES = (
    "OLLAMA_CONTEXT_LENGTH",
    "OLLAMA_NUM_PARALLEL",
    "OLLAMA_KV_CACHE_TYPE",
    "OLLAMA_GPU_OVERHEAD",
    "OLLAMA_MAX_LOADED_MODELS",
    "OLLAMA_FLASH_ATTENTION",
)
FALSE = frozenset({"0", "f", "F", "false", "FALSE", "False"})
"""What Go reads as false; anything else that is set counts as true."""


class Ollama:
    """Ollama's server, and the command that loads a model into it."""

    NAME: ClassVar[str] = "ollama"
    FLAGS: ClassVar[Table] = table(
        {
            "value": [
                "--format --keepalive --think --truncate --dimensions --width --height --steps --seed --negative"
            ],
            "switch": ["--verbose --insecure --nowordwrap --hidethinking --experimental --experimental-yolo --help|-h"],
        },
        prefixes=False,
    )
    WHEN_SHORT: ClassVar[str] = "spills"
    CHANGES: ClassVar[Mapping[str, str]] = {
        "ctx": "OLLAMA_CONTEXT_LENGTH={}",
        "cache": "OLLAMA_KV_CACHE_TYPE={}",
        "batch": "OLLAMA_NUM_PARALLEL={}",
    }

    def arguments_of(self, words: tuple[str, ...]) -> tuple[str, ...] | None:
        """What stands behind `ollama serve` or `ollama run`."""
        return words[1:] if words[0] == "ollama" and words[1:2] and words[1] in VERBS else None

    def asked(self, arguments: Arguments, launch: Launch) -> Asked:
        """The question behind Ollama's variables."""
        environment = dict(launch.environment)
        notes: list[str] = []
        fields: dict[str, Any] = {"batch": environment_number(environment, "OLLAMA_NUM_PARALLEL", 1) or 1}
        length = environment_number(environment, "OLLAMA_CONTEXT_LENGTH", 1)
        if length is not None:
            fields["ctx"] = length
        kind = environment.get("OLLAMA_KV_CACHE_TYPE", "").strip(" \"'").lower()
        if kind:
            fields["k_dtype"] = CACHE_TYPES.get(kind, kind)
        held = environment_number(environment, "OLLAMA_GPU_OVERHEAD")
        if held:
            fields["reserve_bytes"] = held
        model = arguments.positional[1] if arguments.positional[:1] == ("run",) and arguments.positional[1:] else None
        if (environment_number(environment, "OLLAMA_MAX_LOADED_MODELS") or 0) > 1:
            notes.append("OLLAMA_MAX_LOADED_MODELS: one model is counted, on a card of its own")
        uncounted = [
            name
            for name in environment
            if name.startswith("OLLAMA_") and name not in IDLE_VARIABLES and name not in READ_VARIABLES
        ]
        notes += [f"{name}: no variable of Ollama that kvplan knows" for name in uncounted[:5]]
        flash = environment.get("OLLAMA_FLASH_ATTENTION", "").strip(" \"'")
        options = {"flash_attention": "false" if flash in FALSE else "true"} if flash else {}
        return Asked(model, fields, options, frozenset(), tuple(notes), (), fields["batch"])


LENGTHS = ((47 * 2**30, 262_144), (23 * 2**30, 32_768))
"""Memory from which on Ollama takes a length by itself, largest first; below them 4,096 tokens."""


def default_length(memory_bytes: int) -> int:
    """Tokens of a context where no variable and no model sets them, by the card's memory.

    >>> default_length(80 * 2**30), default_length(24 * 2**30), default_length(8 * 2**30)
    (262144, 32768, 4096)
    """
    return next((length for least, length in LENGTHS if memory_bytes >= least), 4_096)


SERVER = Ollama()
