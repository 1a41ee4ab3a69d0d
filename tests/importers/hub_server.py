"""A hub on the loopback interface: the endpoints that kvplan asks, and ways to answer them badly."""

from __future__ import annotations

import json
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import unquote, urlsplit

COMMIT = "0123456789abcdef0123456789abcdef01234567"
OTHER = "fedcba9876543210fedcba9876543210fedcba98"
REPOSITORY = "example-org/Tiny-Model"
CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "head_dim": 32,
    "hidden_size": 256,
    "intermediate_size": 512,
    "num_attention_heads": 8,
    "num_hidden_layers": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 4096,
    "torch_dtype": "bfloat16",
    "vocab_size": 1000,
}
PER_TOKEN = 4 * 2 * 2 * 32 * 2
INDEX = "model.safetensors.index.json"


def shard(names: list[str], elements: int = 1000) -> bytes:
    """A whole .safetensors file of bf16 tensors."""
    header = {
        name: {"dtype": "BF16", "shape": [elements], "data_offsets": [i * elements * 2, (i + 1) * elements * 2]}
        for i, name in enumerate(names)
    }
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + b"\xff" * (len(names) * elements * 2)


def tiny(shards: int = 2) -> dict[str, bytes]:
    """The files of a small model: config, index, shards, a pickle and a page."""
    files = {"config.json": json.dumps(CONFIG).encode(), "README.md": b"# tiny", ".gitattributes": b""}
    held = {
        f"model-{n:05}-of-{shards:05}.safetensors": [f"model.layers.{n % 4}.{part}.weight" for part in ("q", f"x{n}")]
        for n in range(1, shards + 1)
    }
    files |= {name: shard(tensors) for name, tensors in held.items()}
    weight_map = {tensor: name for name, tensors in held.items() for tensor in tensors}
    files[INDEX] = json.dumps({"metadata": {}, "weight_map": weight_map}).encode()
    files["pytorch_model.bin"] = b"never to be opened"
    return files


def in_cache(cache: Path, files: dict[str, bytes], commit: str = COMMIT, refs: tuple[str, ...] = ("main",)) -> Path:
    """Lay `files` out as the hub's client does: blobs, links to them in a snapshot, references to its commit."""
    folder = cache / f"models--{REPOSITORY.replace('/', '--')}"
    snapshot = folder / "snapshots" / commit
    snapshot.mkdir(parents=True)
    (folder / "blobs").mkdir(exist_ok=True)
    for number, (name, data) in enumerate(files.items()):
        blob = folder / "blobs" / f"{commit[:8]}{number}"
        blob.write_bytes(data)
        (snapshot / name).symlink_to(Path("../../blobs") / blob.name)
    for ref in refs:
        (folder / "refs" / ref).parent.mkdir(parents=True, exist_ok=True)
        (folder / "refs" / ref).write_text(commit)
    return snapshot


class Asked:
    """One request as it came in."""

    def __init__(self, path: str, headers: Any) -> None:
        self.path = path
        self.range = headers.get("Range")
        self.token = headers.get("Authorization")


class Loopback(ThreadingHTTPServer):
    """A hub that holds `files` at COMMIT, which `main` and `v1/beta` mean.

    special: by the end of a path, what answers in place of the hub.
    """

    daemon_threads = True

    def __init__(self, files: dict[str, bytes]) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.files = files
        self.asked: list[Asked] = []
        self.sent = 0
        self.revisions = {"main": COMMIT, "v1/beta": COMMIT, COMMIT: COMMIT}
        self.special: dict[str, Callable[[Handler], None]] = {}

    @property
    def address(self) -> str:
        """What $HF_ENDPOINT says."""
        return f"http://127.0.0.1:{self.server_address[1]}"

    def start(self) -> None:
        """Answer until it is closed."""
        Thread(target=self.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that goes away is no news."""


class Handler(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"
    timeout = 5
    server: Loopback

    def log_message(self, format: str, *args: Any) -> None:
        """The log is `asked`."""

    def do_GET(self) -> None:  # noqa: N802
        """Answer as the hub does, or as `special` wants."""
        path = unquote(urlsplit(self.path).path)
        self.server.asked.append(Asked(path, self.headers))
        for end, answer in self.server.special.items():
            if path.endswith(end):
                answer(self)
                return
        api, resolve = f"/api/models/{REPOSITORY}/revision/", f"/{REPOSITORY}/resolve/{COMMIT}/"
        if path.startswith(api):
            revision = self.server.revisions.get(path[len(api) :])
            if revision is None:
                self.answer(404, b"{}", {"X-Error-Code": "RevisionNotFound"})
            else:
                told = {"id": REPOSITORY, "sha": revision, "siblings": [{"rfilename": f} for f in self.server.files]}
                self.answer(200, json.dumps(told).encode())
        elif path.startswith(resolve) and path[len(resolve) :] in self.server.files:
            self.stored(self.server.files[path[len(resolve) :]])
        elif path.startswith(f"/{REPOSITORY}/"):
            self.answer(404, b"", {"X-Error-Code": "EntryNotFound"})
        else:
            self.answer(401, b"", {"X-Error-Code": "RepoNotFound"})

    def stored(self, data: bytes) -> None:
        """A file, or the range of it that is asked for."""
        span = self.headers.get("Range")
        if span is None:
            self.answer(200, data)
            return
        first, last = (int(n) for n in span.removeprefix("bytes=").split("-"))
        part = data[first : last + 1]
        self.answer(206, part, {"Content-Range": f"bytes {first}-{first + len(part) - 1}/{len(data)}"})

    def answer(self, status: int, body: bytes = b"", headers: dict[str, str] | None = None) -> None:
        """A whole answer; `headers` may contradict it."""
        given = {"Content-Length": str(len(body)), **(headers or {})}
        self.send_response(status)
        for name, value in given.items():
            self.send_header(name, value)
        self.end_headers()
        self.server.sent += len(body)
        self.wfile.write(body)

    def endless(self, status: int = 200) -> None:
        """A body that never ends."""
        self.send_response(status)
        self.send_header("Connection", "close")
        self.end_headers()
        self.close_connection = True
        while True:
            self.wfile.write(b" " * 65536)
            self.server.sent += 65536
