"""A hub id is read from the local hub cache, or fetched where --online says so, and never else.

Nothing here leaves the machine: the hub is a server on the loopback interface, and any other connection fails.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from threading import Event
from typing import Any

import pytest
import yaml
from cli.conftest import Answer, refused, row, run
from hub_server import COMMIT, CONFIG, INDEX, OTHER, PER_TOKEN, REPOSITORY, Handler, Loopback, in_cache, shard, tiny

import kvplan
from kvplan.importers.hub import client, fetched
from kvplan.importers.hub.cached import hub_cache
from kvplan.importers.source import hub_id

ONLINE = ("--online", "--ctx", "1000")
WEIGHTS = 2 * 2 * 1000 * 2
PROXIES = ["http_proxy", "https_proxy", "all_proxy", "no_proxy"]
VARIABLES = ["HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "HF_HUB_CACHE"]


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """An empty hub cache, no token, no proxy, and no way off this machine."""
    for name in (*VARIABLES, "HUGGINGFACE_HUB_CACHE", *PROXIES, *(name.upper() for name in PROXIES)):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HF_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    connect = socket.socket.connect

    def here(self: socket.socket, address: Any) -> None:
        if address[0] != "127.0.0.1":
            pytest.fail(f"a connection to {address}")
        connect(self, address)

    monkeypatch.setattr(socket.socket, "connect", here)
    fetched._fetched.cache_clear()
    yield
    hub = sys.modules.get("huggingface_hub.utils")
    if hub is not None and hasattr(hub, "close_session"):
        hub.close_session()


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    """The local hub cache."""
    return tmp_path / "home" / "hub"


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[Loopback]:
    """A hub that holds the tiny model."""
    pytest.importorskip("huggingface_hub")
    server = Loopback(tiny())
    server.start()
    monkeypatch.setenv("HF_ENDPOINT", server.address)
    yield server
    server.shutdown()
    server.server_close()


def no_sockets(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fail at the first socket."""

    def refuse(*_: Any, **__: Any) -> None:
        pytest.fail("a socket was opened")

    monkeypatch.setattr(socket, "socket", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)


def online(*options: str, repository: str = REPOSITORY) -> Answer:
    """`kvplan size` with the network."""
    return run("size", repository, *ONLINE, *options, "--quiet")


# --- the local cache


def test_a_cached_model_is_read_without_a_flag_or_a_socket(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    in_cache(cache, tiny())
    no_sockets(monkeypatch)
    found = row("size", REPOSITORY, "--ctx", "1000")
    assert (found["model"], found["total_bytes"]) == ("tiny-model", 1000 * PER_TOKEN)
    assert any(COMMIT in note and "local hub cache" in note for note in found["notes"])


def test_the_weights_of_a_cached_model_are_exact(cache: Path) -> None:
    in_cache(cache, tiny())
    assert kvplan.model(REPOSITORY).fields.weight_bytes == {"layers": WEIGHTS}


def test_the_local_cache_needs_no_hub_client(cache: Path) -> None:
    in_cache(cache, tiny())
    program = (
        "import sys, kvplan\n"
        f"kvplan.size({REPOSITORY!r}, ctx=1000)\n"
        "print({'huggingface_hub', 'http', 'kvplan.importers.hub.client'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == "set()"


@pytest.mark.parametrize("arguments", [("size", "llama-70b", "--ctx", "128k"), ("show", "meta-llama/Llama-3.1-70B")])
def test_a_shipped_model_never_meets_the_hub(arguments: tuple[str, ...], cache: Path) -> None:
    in_cache(cache, tiny())
    program = (
        f"import sys; sys.argv = {['kvplan', *arguments, '--online']!r}\n"
        "from kvplan.cli import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "sys.stderr.write(str([m for m in sys.modules if 'hub' in m]))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert done.stderr.splitlines()[-1] == "[]"


@pytest.mark.parametrize("revision", ["main", "v2", "refs/pr/1", OTHER, OTHER[:7]])
def test_a_revision_is_a_branch_a_tag_a_commit_or_its_beginning(cache: Path, revision: str) -> None:
    in_cache(cache, tiny())
    in_cache(
        cache, {"config.json": json.dumps({**CONFIG, "num_hidden_layers": 8}).encode()}, OTHER, ("v2", "refs/pr/1")
    )
    layers = kvplan.model(f"{REPOSITORY}@{revision}").layer_count
    assert layers == (4 if revision == "main" else 8)


def test_the_cache_is_where_the_client_keeps_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert hub_cache() == tmp_path / "home" / "hub"
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "own"))
    assert hub_cache() == tmp_path / "own"
    for name in ("HF_HUB_CACHE", "HF_HOME"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert hub_cache() == tmp_path / "xdg" / "huggingface" / "hub"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert hub_cache() == tmp_path / ".cache" / "huggingface" / "hub"


def test_what_is_nowhere_is_refused_without_a_socket(monkeypatch: pytest.MonkeyPatch) -> None:
    no_sockets(monkeypatch)
    said = refused(run("size", "example-org/llama-3.1-80b", "--ctx", "1k"), 2)
    assert "neither in the catalogue nor in the local hub cache" in said
    assert "--online" in said
    assert "llama-3.1-70b" in said
    for command in ("show", "import"):
        assert "--online" in refused(run(command, REPOSITORY), 2)
    assert "--online" in refused(run("fit", REPOSITORY, "--gpu", "h100"), 2)


def test_a_revision_that_is_not_cached_names_those_that_are(cache: Path) -> None:
    in_cache(cache, tiny(), refs=())
    assert f"{REPOSITORY}@{COMMIT}" in refused(run("size", REPOSITORY, "--ctx", "1k"), 2)
    assert "--online" in refused(run("size", f"{REPOSITORY}@v9", "--ctx", "1k"), 2)


def test_a_reference_that_holds_no_commit_is_not_followed(cache: Path, tmp_path: Path) -> None:
    snapshot = in_cache(cache, tiny())
    (snapshot.parents[1] / "refs" / "main").write_text("../../../../etc")
    refused(run("size", REPOSITORY, "--ctx", "1k"), 2)
    (snapshot.parents[1] / "refs" / "main").unlink()
    os.mkfifo(snapshot.parents[1] / "refs" / "main")
    refused(run("size", REPOSITORY, "--ctx", "1k"), 2)


def test_a_snapshot_without_a_config_says_so(cache: Path) -> None:
    in_cache(cache, {"tokenizer.json": b"{}"})
    assert "no config.json in the local hub cache" in refused(run("size", REPOSITORY, "--ctx", "1k"), 2)


def test_a_snapshot_with_a_shard_missing_is_sized_without_weights(cache: Path) -> None:
    files = tiny()
    files.pop("model-00002-of-00002.safetensors")
    in_cache(cache, files)
    found = row("size", REPOSITORY, "--ctx", "1000")
    assert found["total_bytes"] == 1000 * PER_TOKEN
    assert any("weights are not known" in note for note in found["notes"])


@pytest.mark.parametrize(
    "text",
    [
        "llama-70b",
        "a/b/c",
        "./a/b",
        "/a/b",
        "~/a",
        "../x",
        "a/..",
        "-a/b",
        "a/b.yaml",
        "a/b@",
        "a/b@-x",
        "a/b\n",
        "é/b",
        "a--b/c",
    ],
)
def test_what_can_be_no_hub_id(text: str) -> None:
    assert hub_id(text) is None


def test_a_revision_cannot_climb_out_of_the_cache(cache: Path) -> None:
    in_cache(cache, tiny())
    for revision in ("a/../../x", "a/../main"):
        refused(run("size", f"{REPOSITORY}@{revision}", "--ctx", "1k"), 2)


# --- fetched


def test_a_model_is_fetched_by_its_headers_alone(hub: Loopback) -> None:
    found = row("size", REPOSITORY, *ONLINE, "--gpu", "h100", "--tp", "1")
    assert found["total_bytes"] == 1000 * PER_TOKEN
    assert found["gpu"]["weights_bytes"] == WEIGHTS
    assert any(COMMIT in note and hub.address in note for note in found["notes"])
    paths = [asked.path.rpartition("/")[2] for asked in hub.asked]
    assert sorted(set(paths)) == sorted(
        {"main", "config.json", INDEX, *(n for n in hub.files if n.endswith(".safetensors"))}
    )
    for asked in hub.asked:
        if asked.path.endswith(".safetensors"):
            last = int(asked.range.rpartition("-")[2])
            data = hub.files[asked.path.rpartition("/")[2]]
            assert last < 8 + int.from_bytes(data[:8], "little"), "a tensor was asked for"
    assert hub.sent < sum(len(data) for data in hub.files.values())


def test_many_rows_are_one_fetch(hub: Loopback) -> None:
    assert (
        len(
            run("size", REPOSITORY, "--online", "--ctx", "1k,2k", "--batch", "1,2", "--format", "json").document[
                "results"
            ]
        )
        == 4
    )
    assert sum("/api/models/" in asked.path for asked in hub.asked) == 1


def test_import_pins_the_commit_and_reads_back(hub: Loopback, tmp_path: Path) -> None:
    answer = run("import", REPOSITORY, "--online")
    assert answer.code == 0
    lines = answer.out.splitlines()
    assert lines[0] == f"# read from {REPOSITORY}@{COMMIT}"
    assert f"#   revision: {COMMIT}" in lines
    written = yaml.safe_load(answer.out)
    assert (written["hub"], written["weight_bytes"]) == (REPOSITORY, {"layers": WEIGHTS})
    assert written["sources"] == [f"{hub.address}/{REPOSITORY}/tree/{COMMIT}"]
    (tmp_path / "mine.yaml").write_text(answer.out)
    assert row("size", str(tmp_path / "mine.yaml"), "--ctx", "1000")["total_bytes"] == 1000 * PER_TOKEN


def test_show_and_fit_and_python_fetch_too(hub: Loopback) -> None:
    assert COMMIT in run("show", REPOSITORY, "--online").out
    assert run("fit", REPOSITORY, "--online", "--gpu", "h100", "--ctx", "1k").code == 0
    assert kvplan.size(REPOSITORY, ctx=1000, online=True).total_bytes == 1000 * PER_TOKEN
    assert kvplan.fit(REPOSITORY, ctx=1000, gpu="h100", online=True).max_batch
    assert kvplan.model(REPOSITORY, online=True).layer_count == 4
    with pytest.raises(kvplan.InputError, match="online"):
        kvplan.size(REPOSITORY, ctx=1000, online="yes")


def test_a_revision_is_resolved_to_its_commit(hub: Loopback) -> None:
    answer = online(repository=f"{REPOSITORY}@v1/beta")
    assert answer.code == 0
    assert f"v1/beta, commit {COMMIT}" in " ".join(answer.out.split())
    assert "no revision 'v9'" in refused(online(repository=f"{REPOSITORY}@v9"), 2)


def test_a_shipped_model_wins_until_a_revision_is_given(hub: Loopback) -> None:
    assert run("size", "meta-llama/Llama-3.1-70B", *ONLINE).code == 0
    assert hub.asked == []
    refused(run("size", "meta-llama/Llama-3.1-70B@main", *ONLINE), 2)
    assert len(hub.asked) == 1


def test_one_file_needs_no_index(hub: Loopback) -> None:
    hub.files = {
        "config.json": hub.files["config.json"],
        "model.safetensors": shard(["lm_head.weight", "model.layers.0.a"]),
    }
    assert kvplan.model(REPOSITORY, online=True).fields.weight_bytes == {"head": 2000, "layers": 2000}


def test_pickles_are_never_fetched(hub: Loopback) -> None:
    hub.files = {name: hub.files[name] for name in ("config.json", "pytorch_model.bin")}
    notes = " ".join(row("size", REPOSITORY, *ONLINE)["notes"])
    assert "pickled weights, never fetched" in notes
    assert not any(asked.path.endswith(".bin") for asked in hub.asked)


def test_files_of_other_names_are_left_where_they_are(hub: Loopback) -> None:
    hub.files |= {
        "../../escape.safetensors": b"",
        "sub/model.safetensors": b"x",
        "a\0b.safetensors": b"",
        ".x.safetensors": b"",
    }
    assert online().code == 0


def test_the_token_goes_to_the_hub_and_to_nobody_else(hub: Loopback, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    elsewhere = Loopback(hub.files)
    elsewhere.start()
    name = "model-00001-of-00002.safetensors"
    hub.special[name] = lambda h: h.answer(302, b"", {"Location": f"{elsewhere.address}/blob/{name}"})
    elsewhere.special[name] = lambda h: h.stored(hub.files[name])
    try:
        assert online().code == 0
    finally:
        elsewhere.shutdown()
        elsewhere.server_close()
    assert {asked.token for asked in hub.asked} == {"Bearer hf_secret"}
    assert [asked.token for asked in elsewhere.asked] == [None, None]


# --- the hub says no


@pytest.mark.parametrize(
    ("end", "status", "headers", "words"),
    [
        ("config.json", 403, {"X-Error-Code": "GatedRepo"}, ("gated", "accept the licence", "hf auth login")),
        ("config.json", 401, {"X-Error-Code": "GatedRepo"}, ("gated", "accept the licence", "HF_TOKEN")),
        ("config.json", 403, {}, ("closed", "accept the licence", "hf auth login")),
        ("/main", 401, {"X-Error-Code": "RepoNotFound"}, ("no such repository", "private")),
        ("/main", 404, {}, ("no such repository",)),
        ("/main", 404, {"X-Error-Code": "RevisionNotFound"}, ("no revision 'main'",)),
        ("config.json", 404, {"X-Error-Code": "EntryNotFound"}, ("a file that the hub lists is refused (404)",)),
        ("00002.safetensors", 416, {}, ("refused (416)",)),
        ("/main", 429, {"Retry-After": "37"}, ("429", "in 37 seconds", "logged in")),
        ("00001-of-00002.safetensors", 429, {"Retry-After": "Wed, 21 Oct"}, ("429", "in some minutes")),
        ("/main", 503, {}, ("answered 503", "try again later")),
        ("/main", 302, {}, ("redirected to ''",)),
        ("/main", 204, {}, ("answered 204",)),
    ],
)
def test_each_no_has_its_own_words(
    hub: Loopback, end: str, status: int, headers: dict[str, str], words: tuple[str, ...]
) -> None:
    hub.special[end] = lambda h: h.answer(status, b"", headers)
    said = refused(online(), 2)
    assert all(word in said for word in words), said


def test_a_refused_hub_is_asked_twice_at_most(hub: Loopback) -> None:
    hub.special["/main"] = lambda h: h.answer(503)
    refused(online(), 2)
    assert len(hub.asked) == client.TRIES


def test_an_unknown_repository_is_missing_or_private(hub: Loopback) -> None:
    assert "no such repository" in refused(online(repository="nobody/nothing"), 2)


def test_a_repository_without_a_config_says_what_it_holds(hub: Loopback) -> None:
    hub.files = {"tiny-q4_0.gguf": b"GGUF"}
    assert "tiny-q4_0.gguf" in refused(online(), 2)
    fetched._fetched.cache_clear()
    hub.files = {"README.md": b""}
    assert "holds no config.json" in refused(online(), 2)


def test_an_unreachable_hub_is_two_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("huggingface_hub")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{free.getsockname()[1]}")
        assert "cannot be reached" in refused(online(), 2)


def test_a_token_that_cannot_be_renewed_is_two_lines(hub: Loopback, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise RuntimeError("the exchange failed")

    monkeypatch.setattr("huggingface_hub.get_token", fail)
    assert "the exchange failed" in refused(online(), 2)
    assert hub.asked == []


@pytest.mark.parametrize("name", ["HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"])
def test_the_environment_can_forbid_the_network(hub: Loopback, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv(name, "1")
    assert f"{name}=1 forbids the network" in refused(online(), 2)
    assert hub.asked == []


def test_without_the_client_the_install_line_is_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    assert "pip install 'kvplan[hub]'" in refused(online(), 4)


@pytest.mark.parametrize(
    "address", ["ftp://127.0.0.1", "127.0.0.1", "http://", "http://[", "http://a:b", "file:///etc", "http://u:p@h"]
)
def test_an_endpoint_that_is_no_web_address_is_refused(monkeypatch: pytest.MonkeyPatch, address: str) -> None:
    monkeypatch.setenv("HF_ENDPOINT", address)
    assert "HF_ENDPOINT" in refused(online(), 2)


# --- the hub lies


def broken_span(h: Handler, first: bytes = b"", **headers: str) -> None:
    """A 206 whose range or length is not what was asked for."""
    h.answer(206, first, {name.replace("_", "-"): value for name, value in headers.items()})


LIES: dict[str, tuple[str, Any]] = {
    "endless listing": ("/main", lambda h: h.endless()),
    "endless config": ("config.json", lambda h: h.endless()),
    "endless index": (INDEX, lambda h: h.endless()),
    "endless range": ("00001-of-00002.safetensors", lambda h: h.endless(206)),
    "no range": (
        "00001-of-00002.safetensors",
        lambda h: h.answer(200, h.server.files["model-00001-of-00002.safetensors"]),
    ),
    "listing is no JSON": ("/main", lambda h: h.answer(200, b"<html>")),
    "listing is a list": ("/main", lambda h: h.answer(200, b"[]")),
    "listing nests": ("/main", lambda h: h.answer(200, b"[" * 2_000_000)),
    "listing has no commit": ("/main", lambda h: h.answer(200, b'{"sha": "../../x", "siblings": []}')),
    "listing has no files": ("/main", lambda h: h.answer(200, b'{"sha": "%s", "siblings": 7}' % COMMIT.encode())),
    "config is no JSON": ("config.json", lambda h: h.answer(200, b"\xff\xfe")),
    "config is a number": ("config.json", lambda h: h.answer(200, b"7")),
    "config is too large": ("config.json", lambda h: h.answer(200, b" " * (2**22 + 1))),
    "index is no index": (INDEX, lambda h: h.answer(200, b"{}")),
    "index leads out": (INDEX, lambda h: h.answer(200, b'{"weight_map": {"a": "../../x.safetensors"}}')),
    "index names a pickle": (INDEX, lambda h: h.answer(200, b'{"weight_map": {"a": "pytorch_model.bin"}}')),
    "index of folders in files": (
        INDEX,
        lambda h: h.answer(200, b'{"weight_map": {"a": "config.json/x.safetensors"}}'),
    ),
    "index of long names": (INDEX, lambda h: h.answer(200, b'{"weight_map": {"a": "%s.safetensors"}}' % (b"x" * 900))),
    "short body": ("config.json", lambda h: h.answer(200, b"{}", {"Content-Length": "99", "Connection": "close"})),
    "negative length": ("config.json", lambda h: h.answer(200, b"{}", {"Content-Length": "-5"})),
    "another range": (
        "00001-of-00002.safetensors",
        lambda h: broken_span(h, b"12345678", Content_Range="bytes 8-15/99"),
    ),
    "range of terabytes": (
        "00001-of-00002.safetensors",
        lambda h: broken_span(h, b"\x10" + b"\0" * 7, Content_Range=f"bytes 0-7/{10**18 - 1}"),
    ),
    "range of more digits": (
        "00001-of-00002.safetensors",
        lambda h: broken_span(h, b"12345678", Content_Range="bytes 0-7/" + "9" * 5000),
    ),
    "range without a total": (
        "00001-of-00002.safetensors",
        lambda h: broken_span(h, b"12345678", Content_Range="bytes 0-7/*"),
    ),
    "range without its bytes": (
        "00001-of-00002.safetensors",
        lambda h: broken_span(h, b"123", Content_Range="bytes 0-7/99"),
    ),
    "header of terabytes": (
        "00001-of-00002.safetensors",
        lambda h: broken_span(h, (2**43).to_bytes(8, "little"), Content_Range="bytes 0-7/99"),
    ),
    "header longer than allowed": (
        "00001-of-00002.safetensors",
        lambda h: broken_span(h, (2**25).to_bytes(8, "little"), Content_Range=f"bytes 0-7/{2**30}"),
    ),
    "header of garbage": ("00001-of-00002.safetensors", lambda h: h.stored((20).to_bytes(8, "little") + b"x" * 40)),
    "no header": ("00001-of-00002.safetensors", lambda h: h.stored(b"\0" * 100)),
    "another shard": ("00001-of-00002.safetensors", lambda h: h.stored(shard(["model.layers.0.other"]))),
    "redirects in a circle": ("config.json", lambda h: h.answer(302, b"", {"Location": h.path})),
    "redirect to a file": ("config.json", lambda h: h.answer(302, b"", {"Location": "file:///etc/passwd"})),
    "redirect to no address": ("config.json", lambda h: h.answer(302, b"", {"Location": "http://[bad"})),
    "redirect of the listing": ("/main", lambda h: h.answer(302, b"", {"Location": "http://localhost:1/x"})),
    "no HTTP": ("/main", lambda h: h.wfile.write(b"\0" * 100_000)),
    "endless header": ("/main", lambda h: h.wfile.write(b"HTTP/1.1 200 OK\r\nX: " + b"x" * 2_000_000)),
    "compressed": ("config.json", lambda h: h.answer(200, b"\x1f\x8b" + b"\0" * 99, {"Content-Encoding": "gzip"})),
    "control characters": ("config.json", lambda h: h.answer(302, b"", {"Location": "ftp://\x1b[31m\x07"})),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_lying_hub_is_two_lines(hub: Loopback, lie: str) -> None:
    end, answer = LIES[lie]
    hub.special[end] = answer
    said = refused(online(), 2)
    assert "kvplan-" not in said, "the errors name the repository, not a folder that is gone"
    assert hub.sent < 2**28


def test_a_dripping_hub_is_left_at_the_deadline(hub: Loopback, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "SECONDS_IN_ALL", 0.5)

    released, ran_out = Event(), Event()

    def drip(h: Handler) -> None:
        h.wfile.write(b"HTTP/1.1 200 OK\r\nX: ")
        for _ in range(600):
            if released.wait(0.1):
                return
            h.wfile.write(b"x")
        ran_out.set()

    hub.special["config.json"] = drip
    assert "did not answer within 0.5 seconds" in refused(online(), 2)
    assert not ran_out.is_set(), "the refusal comes while the hub still drips"
    released.set()


def test_a_silent_hub_is_left_after_some_seconds(hub: Loopback, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "SECONDS_TO_ANSWER", 0.2)
    hub.special["/main"] = lambda _: time.sleep(0.6)
    assert "cannot be reached" in refused(online(), 2)


def test_too_many_shards_are_refused(hub: Loopback, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetched, "MOST_SHARDS", 1)
    assert "2 shards, allowed at most 1" in refused(online(), 2)


def test_too_many_bytes_of_headers_are_refused(hub: Loopback, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetched, "MOST_HEADERS_BYTES", 100)
    assert "headers of more than 100 bytes" in refused(online(), 2)


def test_two_hundred_shards_are_read(hub: Loopback) -> None:
    hub.files = tiny(200)
    assert sum(kvplan.model(REPOSITORY, online=True).fields.weight_bytes.values()) == 200 * 2 * 1000 * 2
