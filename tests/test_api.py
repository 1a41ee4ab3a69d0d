"""The Python surface: light to import, whole in `__all__`, and the same answers as the commands."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from cli.conftest import REPOSITORY, run

import kvplan
from kvplan.results import plain


def loaded_by(statement: str) -> set[str]:
    """Modules in a fresh interpreter after `statement`."""
    code = f"import sys; {statement}; print(*sys.modules)"
    words = [sys.executable, "-c", code]
    done = subprocess.run(words, capture_output=True, text=True, cwd=REPOSITORY, timeout=60, check=True)
    return set(done.stdout.split())


@pytest.mark.parametrize("name", kvplan.__all__)
def test_every_public_name_can_be_imported_and_is_documented(name: str) -> None:
    """`from kvplan import name` works, and the thing says what it is."""
    thing = getattr(importlib.import_module("kvplan"), name)
    assert thing.__doc__
    assert name in dir(kvplan)


def test_star_import_gives_all_and_nothing_else() -> None:
    """`__all__` is the whole public surface."""
    space: dict[str, Any] = {}
    exec("from kvplan import *", space)  # what a user types
    assert set(kvplan.__all__) == set(space) - {"__builtins__"}
    assert sorted(kvplan.__all__) == kvplan.__all__


def test_an_unknown_name_is_an_attribute_error() -> None:
    """As for any module."""
    with pytest.raises(AttributeError, match="no attribute 'sise'"):
        kvplan.sise  # noqa: B018


@pytest.mark.parametrize(
    ("statement", "never"),
    [
        ("import kvplan", {"torch", "numpy", "pydantic", "yaml", "typer", "rich"}),
        ("import kvplan; kvplan.size('gpt-2')", {"torch", "numpy", "typer", "rich"}),
        ("import kvplan; kvplan.sweep('gpt-2', ctx=[1])", {"torch", "typer", "rich"}),
        ("import kvplan; kvplan.fit('gpt-2', gpu='t4')", {"torch", "numpy", "typer", "rich"}),
    ],
)
def test_heavy_libraries_stay_out(statement: str, never: set[str]) -> None:
    """torch never, numpy only for arrays, the terminal's libraries only for the terminal."""
    assert set() == never & loaded_by(statement)


def test_one_size_on_the_command_line_needs_no_numpy() -> None:
    """The command that people loop over stays light."""
    code = "import sys; sys.argv[1:]=['size','gpt-2']\nfrom kvplan.cli import main\ntry: main()\nexcept SystemExit: pass\nprint(*sys.modules)"
    words = [sys.executable, "-c", code]
    done = subprocess.run(words, capture_output=True, text=True, cwd=REPOSITORY, timeout=60, check=True)
    assert set() == {"torch", "numpy", "transformers"} & set(done.stdout.splitlines()[-1].split())


SAME: list[tuple[dict[str, Any], tuple[str, ...]]] = [
    ({"source": "llama-3.1-70b", "ctx": 128_000}, ("llama-3.1-70b", "--ctx", "128k")),
    ({"source": "llama-70b"}, ("llama-70b",)),
    (
        {"source": "gemma-3-27b", "ctx": "8k", "batch": 4, "kv_dtype": "q8_0", "tp": 2, "gpu": "h100"},
        ("gemma-3-27b", "--ctx", "8k", "--batch", "4", "--kv-dtype", "q8_0", "--tp", "2", "--gpu", "h100"),
    ),
    (
        {"source": "deepseek-v4-pro", "ctx": "max", "mtp": 1, "available_bytes": "80GiB", "policy": "full"},
        ("deepseek-v4-pro", "--ctx", "max", "--mtp", "1", "--available-bytes", "80GiB", "--policy", "full"),
    ),
    (
        {"source": "llama-3.1-8b", "ctx": 8000, "prefix": 100, "batch": 2, "engine": "ideal", "engine_options": {"block_size": 16}},
        ("llama-3.1-8b", "--ctx", "8k", "--prefix", "100", "--batch", "2", "--engine", "ideal", "-E", "block_size=16"),
    ),
    (
        {"source": "llama-3.1-8b", "ctx": 8000, "gpu": "80GiB", "reserve": 10**9, "utilization": 0.9, "weights": "fp8", "formula": True},
        ("llama-3.1-8b", "--ctx", "8k", "--gpu", "80GiB", "--reserve", "1GB", "--utilization", "0.9", "--weights", "fp8", "--formula"),
    ),
    (
        {"source": "llama-3.1-8b", "ctx": 8000, "gpu": "h200", "draft": "llama-3.2-1b", "count": 2, "tp": 2, "k_dtype": "fp8", "v_dtype": "int4_g64"},
        ("llama-3.1-8b", "--ctx", "8k", "--gpu", "h200", "--draft", "llama-3.2-1b", "--count", "2", "--tp", "2", "--k-dtype", "fp8", "--v-dtype", "int4_g64"),
    ),
]  # fmt: skip


@pytest.mark.parametrize(
    ("options", "typed"), SAME, ids=lambda value: " ".join(value) if isinstance(value, tuple) else ""
)
def test_python_and_the_command_answer_alike(options: dict[str, Any], typed: tuple[str, ...]) -> None:
    """`kvplan.size` is the row that `kvplan size --format json` prints."""
    options = dict(options)
    found = plain(kvplan.size(options.pop("source"), **options))
    assert run("size", *typed, "--format", "json", "-q").result == json.loads(json.dumps(found))


def test_fit_and_the_command_answer_alike() -> None:
    """The same for the inverse."""
    found = plain(kvplan.fit("llama-3.1-8b", gpu="h100", ctx=8000, batch=4))
    typed = ("fit", "llama-3.1-8b", "--gpu", "h100", "--ctx", "8k", "--batch", "4", "--format", "json", "-q")
    assert run(*typed).result == json.loads(json.dumps(found))


@pytest.mark.parametrize("name", ["model", "gpu", "format"])
def test_lists_and_the_command_answer_alike(name: str) -> None:
    """The same for the lists, with a query."""
    found = [plain(row) for row in getattr(kvplan, f"{name}_rows")("8")]
    assert run(f"{name}s", "8", "--format", "json").document["results"] == json.loads(json.dumps(found))
    assert found


def test_a_model_may_be_a_mapping_a_path_or_a_spec(tmp_path: Path) -> None:
    """Whatever describes it."""
    values = {"name": "mine", "layers": 2, "attention": {"type": "mqa", "heads": 4, "kv_heads": 1, "head_dim": 64}}
    file = tmp_path / "mine.yaml"
    file.write_text(json.dumps(values))
    sources: list[Any] = [values, file, str(file), kvplan.model(values)]
    assert [2 * 2 * 64 * 2 * 1000] * 4 == [kvplan.size(source, ctx=1000).total_bytes for source in sources]
    assert [128000, 256000] == kvplan.sweep(values, ctx=[250, 500]).tolist()


def test_a_spec_and_its_answer_never_change() -> None:
    """Records are immutable, so they can be shared and used as keys."""
    found = kvplan.size("gpt-2")
    with pytest.raises(AttributeError, match="immutable"):
        found.total_bytes = 0  # type: ignore[misc]
    assert found == kvplan.size("gpt-2")


BAD: list[dict[str, Any]] = [
    {"ctx": 1.5},
    {"ctx": True},
    {"ctx": [1]},
    {"ctx": -1},
    {"ctx": 10**13},
    {"ctx": "lots"},
    {"batch": 0},
    {"batch": "2"},
    {"batch": 2.0},
    {"batch": True},
    {"tp": 0},
    {"tp": "8"},
    {"mtp": -1},
    {"prefix": 2000},
    {"kv_dtype": 8},
    {"kv_dtype": "fp8", "k_dtype": "fp8"},
    {"k_dtype": ["fp8"]},
    {"index_dtype": None},
    {"policy": None},
    {"policy": 0.2},
    {"engine": 5},
    {"engine": "ideal", "engine_options": {"block": 1}},
    {"engine": "ideal", "engine_options": {"block_size": True}},
    {"engine": "ideal", "engine_options": ["block_size=1"]},
    {"gpu": 80},
    {"gpu": "h1000"},
    {"gpu": "h100", "utilization": 0},
    {"gpu": "h100", "utilization": 1.1},
    {"gpu": "h100", "utilization": float("nan")},
    {"gpu": "h100", "weights": 1.5},
    {"gpu": "h100", "weights": -1},
    {"gpu": "h100", "count": 0},
    {"available_bytes": -1},
    {"available_bytes": 1.5},
    {"available_bytes": [1]},
    {"reserve": -1},
    {"reserve": None},
    {"gpu": "h100", "draft": 7},
    {"specs": "/no/such/folder"},
    {"specs": 5},
    {"encoder_tokens": 0},
]


@pytest.mark.parametrize("options", BAD, ids=str)
def test_a_bad_value_is_an_input_error(options: dict[str, Any]) -> None:
    """Whatever its kind: the same error as on the command line, never a stray TypeError."""
    with pytest.raises(kvplan.InputError):
        kvplan.size("gpt-2", **{"ctx": 1000, **options})


def test_no_public_name_is_also_a_module() -> None:
    """Importing a module can then never take a public function's place."""
    modules = {path.stem for path in (REPOSITORY / "kvplan").iterdir()}
    assert not modules & set(kvplan.__all__)


@pytest.mark.parametrize(
    "source", [None, 5, 1.5, b"gpt-2", ["gpt-2"], {}, {"name": "x"}, "", " ", "no-such-model", True]
)
def test_a_bad_model_is_an_input_error(source: Any) -> None:
    """Nothing, numbers, bytes, lists, empty mappings."""
    for call in (kvplan.size, kvplan.model):
        with pytest.raises(kvplan.InputError):
            call(source)


def test_an_unknown_option_of_fit_is_named() -> None:
    """`fit` takes what `size` takes."""
    with pytest.raises(kvplan.InputError, match="batches"):
        kvplan.fit("gpt-2", gpu="t4", batches=2)


def test_errors_share_one_ancestor() -> None:
    """One except clause catches all of them."""
    for error in (kvplan.InputError, kvplan.MissingError, kvplan.NotCountableError):
        assert issubclass(error, kvplan.KvplanError)
