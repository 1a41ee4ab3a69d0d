"""CPU time of everyday commands, as a ratio to the smallest program on the same libraries.

Run it from the checkout: `python tests/benchmarks/commands.py`. Each command runs in turn with the
smallest program (a config.json with the shipped spec of the same model), so that both see the same machine; the ratio is of medians of CPU seconds (user and
system, children included), the interpreter's start included. Bytecode is compiled beforehand for both.
"""

from __future__ import annotations

import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
SPEC = HERE.parent.parent / "model_specs" / "llama-3.1-70b.yaml"
SMALLEST = [sys.executable, "-m", "smallest", str(SPEC), "--ctx", "128000"]
COMMANDS = {
    "kvplan size llama-3.1-70b --ctx 128k": ["size", "llama-3.1-70b", "--ctx", "128k"],
    "kvplan size llama-70b --ctx 128k": ["size", "llama-70b", "--ctx", "128k"],
    "kvplan size llama-70b --ctx 128k --format json": ["size", "llama-70b", "--ctx", "128k", "--format", "json"],
    "kvplan size gemma-3-27b --ctx 128k": ["size", "gemma-3-27b", "--ctx", "128k"],
    "kvplan size llama-70b --ctx 128k --gpu h100 --tp 8": [
        "size",
        "llama-70b",
        "--ctx",
        "128k",
        "--gpu",
        "h100",
        "--tp",
        "8",
    ],
    "kvplan models": ["models"],
}

CONFIG = {  # Llama-3.1-70B as published
    "architectures": ["LlamaForCausalLM"],
    "hidden_size": 8192,
    "intermediate_size": 28672,
    "max_position_embeddings": 131072,
    "model_type": "llama",
    "num_attention_heads": 64,
    "num_hidden_layers": 80,
    "num_key_value_heads": 8,
    "torch_dtype": "bfloat16",
    "vocab_size": 128256,
}


def cpu_seconds(command: list[str], environment: dict[str, str]) -> float:
    """CPU seconds of one run of `command`."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment, cwd=HERE, check=False
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def medians(base: list[str], command: list[str], environment: dict[str, str], rounds: int) -> tuple[float, float]:
    """Median CPU seconds of `base` and of `command`, run in turn; the first two rounds only warm."""
    pairs = [(cpu_seconds(base, environment), cpu_seconds(command, environment)) for _ in range(rounds + 2)][2:]
    return statistics.median(pair[0] for pair in pairs), statistics.median(pair[1] for pair in pairs)


def main(rounds: int) -> None:
    """Print one line per command: its median, the smallest program's, and their ratio."""
    kvplan = [sys.executable, "-m", "kvplan"]
    with tempfile.TemporaryDirectory() as folder:
        environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
        environment["PYTHONPYCACHEPREFIX"] = folder
        print(f"{'command':52}{'CPU s':>8}{'smallest':>10}{'ratio':>8}")
        for name, arguments in COMMANDS.items():
            base, mine = medians(SMALLEST, [*kvplan, *arguments], environment, rounds)
            print(f"{name:52}{mine:8.3f}{base:10.3f}{mine / base:8.2f}")
        config = Path(folder) / "config.json"
        config.write_text(json.dumps(CONFIG))
        shipped = [*kvplan, "size", "llama-3.1-70b", "--ctx", "128k"]
        base, mine = medians(shipped, [*kvplan, "size", str(config), "--ctx", "128k"], environment, rounds)
        print(f"{'':52}{'CPU s':>8}{'shipped':>10}{'ratio':>8}")
        print(f"{'kvplan size config.json --ctx 128k':52}{mine:8.3f}{base:10.3f}{mine / base:8.2f}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 15)
