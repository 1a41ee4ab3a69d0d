"""The real llama.cpp: synthetic models that it loads, and the cache figures that its log prints.

A model is metadata and a set of tensors full of zeros. Which tensors an architecture needs, and of which shape, the
engine says itself: it is asked to load what is there, names the first tensor that is missing or has another
shape, and is asked again. Layers of the same sort need the same tensors, so only one of each sort is asked for.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import sys
import threading
from pathlib import Path

import numpy
from gguf import GGUFWriter

SECONDS = 60
"""How long one server may take."""

CHILD = Path(__file__).with_name("llama_cpp_child.py")
MISSING = re.compile(r"tensor '([^']+)' not found")
SHAPE = re.compile(r"tensor '([^']+)' has wrong shape; expected ([0-9, ]+),? got")
KV = re.compile(
    r"llama_kv_cache: size = +([0-9.]+) MiB \( *(\d+) cells, +(\d+) layers, +(\d+)/(\d+) seqs\), "
    r"K \((\w+)\): +([0-9.]+) MiB, V \((\w+)\): +([0-9.]+) MiB"
)
RS = re.compile(
    r"llama_memory_recurrent: size = +([0-9.]+) MiB \( *(\d+) cells, +(\d+) layers, +(\d+) seqs +(\d+) rs_seq\), "
    r"R \((\w+)\): +([0-9.]+) MiB, S \((\w+)\): +([0-9.]+) MiB, P \((\w+)\): +([0-9.]+) MiB"
)
COMPRESSOR = re.compile(r"(\w+) ratio = (\d+), state = (\d+) x (\d+), streams = (\d+), .*size = +([0-9.]+) MiB")
TOKENS = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), "a", "b", "c"]


class Engine:
    """A child process that starts servers, restarted where the engine brings it down."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.child: subprocess.Popen[str] | None = None
        self.starts = 0

    def start(self, model: Path, **parameters) -> tuple[str, str]:
        """(`started`, `refused` or `died`, the log) of one server."""
        if self.child is None:
            self.child = subprocess.Popen(
                [sys.executable, str(CHILD)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1,
                stderr=subprocess.DEVNULL, env={**os.environ, "GGML_NO_BACKTRACE": "1", "OMP_NUM_THREADS": "1"},
            )  # fmt: skip
        log = self.folder / "log.txt"
        assert self.child.stdin is not None
        assert self.child.stdout is not None
        self.starts += 1
        self.child.stdin.write(json.dumps({"model": str(model), "log": str(log), **parameters}) + "\n")
        self.child.stdin.flush()
        late = threading.Timer(SECONDS, self.child.kill)
        late.start()
        said = self.child.stdout.readline().strip()
        late.cancel()
        if not said:
            self.close()
        return said or "died", log.read_text(errors="replace")

    def close(self) -> None:
        """End the child."""
        if self.child is not None:
            assert self.child.stdin is not None
            with contextlib.suppress(BrokenPipeError):  # it died
                self.child.stdin.close()
            assert self.child.stdout is not None
            self.child.stdout.close()
            self.child.wait(30)
            self.child = None


def write(path: Path, architecture: str, metadata: dict, tensors: dict[str, tuple[int, ...]]) -> None:
    """A GGUF file of zeros with a byte tokenizer."""
    writer = GGUFWriter(path, architecture)
    for key, value in metadata.items():
        name = f"{architecture}.{key}"
        if isinstance(value, bool):
            writer.add_bool(name, value)
        elif isinstance(value, int):
            writer.add_uint32(name, value)
        elif isinstance(value, float):
            writer.add_float32(name, value)
        elif isinstance(value, str):
            writer.add_string(name, value)
        else:
            writer.add_array(name, value)
    writer.add_tokenizer_model("llama")
    writer.add_token_list(TOKENS)
    writer.add_token_scores([0.0] * len(TOKENS))
    writer.add_token_types([2, 3, 3, *[6] * 256, 1, 1, 1])
    for name, shape in tensors.items():
        writer.add_tensor(name, numpy.zeros(tuple(reversed(shape)), dtype=numpy.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def build(
    engine: Engine, path: Path, architecture: str, metadata: dict, sorts: list[str], optional: tuple[str, ...] = ()
) -> Path:
    """A model with every tensor that the engine asks for; `sorts` names the sort of each layer.

    optional: tensors that the engine loads without, and then trips over.
    """
    width = metadata["embedding_length"]
    known: dict[str, tuple[int, ...]] = {}
    for name in ("token_embd.weight", *optional):
        known[name] = (1,)
    for _ in range(400):
        write(path, architecture, metadata, _every_layer(known, sorts))
        said, log = engine.start(path, n_ctx=256)
        if said == "started":
            return path
        wrong, missing = SHAPE.search(log), MISSING.search(log)
        if wrong:
            shape = [int(n) for n in wrong[2].replace(" ", "").split(",") if n]
            known[_sort_of(wrong[1], sorts)] = tuple(shape)
        elif missing:
            known[_sort_of(missing[1], sorts)] = (width,)
        else:
            raise AssertionError(f"{architecture}: {said}: {log[-1500:]}")
    raise AssertionError(f"{architecture}: still incomplete: {sorted(known)}")


def _sort_of(name: str, sorts: list[str]) -> str:
    """A tensor's name with its layer's sort in place of the number."""
    found = re.fullmatch(r"blk\.(\d+)\.(.+)", name)
    return f"blk.{sorts[int(found[1])]}.{found[2]}" if found else name


def _every_layer(known: dict[str, tuple[int, ...]], sorts: list[str]) -> dict[str, tuple[int, ...]]:
    tensors = {}
    for name, shape in known.items():
        if not name.startswith("blk."):
            tensors[name] = shape
            continue
        _, sort, rest = name.split(".", 2)
        for number, of in enumerate(sorts):
            if of == sort:
                tensors[f"blk.{number}.{rest}"] = shape
    return tensors
