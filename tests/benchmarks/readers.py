"""CPU time of reading large checkpoints, beside the least anyone could do with the same files.

Run it from the checkout: `python tests/benchmarks/readers.py`. 200 safetensors shards of 180 tensors are read beside
`json.loads` of their headers; a sparse GGUF of more than 100 GB with 760,000 texts of vocabulary beside finding the
end of each of its texts. Medians over 5 rounds of CPU seconds; then the peak memory of a process that reads both.
"""

from __future__ import annotations

import contextlib
import io
import json
import re
import statistics
import struct
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "importers"))
from gguf_models import attention, base
from gguf_writer import head, metadata, text, write

from kvplan.importers.gguf import read_gguf
from kvplan.importers.safetensors_header import checkpoint

SHARDS, TENSORS = 200, 180
TEXTS = 760_000


def shards(folder: Path) -> Path:
    """A folder of safetensors shards with true headers and no data to speak of."""
    where: dict[str, str] = {}
    for number in range(1, SHARDS + 1):
        name = f"model-{number:05d}-of-{SHARDS:05d}.safetensors"
        size = 2048 * 7168 * 2
        header = {
            f"model.layers.{number}.mlp.experts.{i}.up_proj.weight": {
                "dtype": "BF16",
                "shape": [2048, 7168],
                "data_offsets": [i * size, (i + 1) * size],
            }
            for i in range(TENSORS)
        }
        written = json.dumps(header).encode()
        with (folder / name).open("wb") as file:
            file.write(struct.pack("<Q", len(written)) + written)
            file.truncate(8 + len(written) + TENSORS * size)
        where |= dict.fromkeys(header, name)
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": where}))
    return folder


def gguf(folder: Path) -> Path:
    """A sparse GGUF of more than 100 GB with a large vocabulary."""
    values = metadata("llama", **base(80, 8192, 131072), **attention(64, 8)) | {
        "tokenizer.ggml.tokens": ("raw", struct.pack("<IIQ", 9, 8, TEXTS) + text("token") * TEXTS)
    }
    return write(folder / "m.gguf", values, {f"blk.{i}.ffn_up.weight": (1, (8192, 28672 * 3)) for i in range(80)})


def headers_alone(folder: Path) -> None:
    """The least: parse each header as JSON."""
    for path in sorted(folder.glob("*.safetensors")):
        with path.open("rb") as file:
            json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))


def texts_alone(path: Path) -> None:
    """The least: step over each text of the vocabulary."""
    with path.open("rb") as file:
        data = file.read(TEXTS * 13 + len(head({}, 0)) + 4096)
    at = data.index(text("token"))
    for _ in range(TEXTS):
        at += 8 + int.from_bytes(data[at : at + 8], "little")


def median(act: Callable[[Path], object], path: Path) -> float:
    """Median CPU seconds of five rounds."""
    taken = []
    for _ in range(5):
        started = time.process_time()
        with contextlib.redirect_stdout(io.StringIO()):
            act(path)
        taken.append(time.process_time() - started)
    return statistics.median(taken)


def main() -> None:
    """Print one line per file kind."""
    with tempfile.TemporaryDirectory() as folder:
        here = Path(folder)
        print(f"{'read':40}{'CPU s':>8}{'least':>8}{'ratio':>8}")
        for name, act, least, path in (
            ("200 safetensors shards, 36,000 tensors", checkpoint, headers_alone, shards(here)),
            ("a GGUF of 112 GB, 760,000 texts", read_gguf, texts_alone, gguf(here)),
        ):
            ours = median(act, path)
            mark = re.search(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text())
            base_seconds = median(least, path)
            print(f"{name:40}{ours:8.3f}{base_seconds:8.3f}{ours / base_seconds:8.1f}")
            print(f"{'  peak MiB so far':40}{int(mark[1]) / 1024 if mark else 0:8.0f}")


if __name__ == "__main__":
    main()
