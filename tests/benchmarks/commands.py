"""CPU time of everyday commands, as a ratio to the smallest program on the same libraries.

Run it from the checkout: `python tests/benchmarks/commands.py`. Each command runs in turn with the
smallest program, so that both see the same machine; the ratio is of medians of CPU seconds (user and
system, children included), the interpreter's start included. Bytecode is compiled beforehand for both.
"""

from __future__ import annotations

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


def cpu_seconds(command: list[str], environment: dict[str, str]) -> float:
    """CPU seconds of one run of `command`."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment, cwd=HERE, check=False
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main(rounds: int) -> None:
    """Print one line per command: its median, the smallest program's, and their ratio."""
    with tempfile.TemporaryDirectory() as cache:
        environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
        environment["PYTHONPYCACHEPREFIX"] = cache
        print(f"{'command':52}{'CPU s':>8}{'smallest':>10}{'ratio':>8}")
        for name, arguments in COMMANDS.items():
            ours, smallest = [], []
            command = [sys.executable, "-m", "kvplan", *arguments]
            for warm in range(rounds + 2):
                pair = cpu_seconds(SMALLEST, environment), cpu_seconds(command, environment)
                if warm >= 2:
                    smallest.append(pair[0])
                    ours.append(pair[1])
            mine, base = statistics.median(ours), statistics.median(smallest)
            print(f"{name:52}{mine:8.3f}{base:10.3f}{mine / base:8.2f}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 15)
