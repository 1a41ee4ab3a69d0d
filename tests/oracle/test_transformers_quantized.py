"""The transformers engine's quantized cache against the library with its real backends, where they are installed.

They are not part of the `test` extra: `pip install optimum-quanto hqq`. What they gave is kept in
`tests/data/transformers_quantized.yaml`, which every run compares with.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

pytest.importorskip("torch")
pytest.importorskip("transformers")

from tiny_models import NAMED
from weighing import filled, weighed

pytestmark = [
    pytest.mark.oracle,
    pytest.mark.filterwarnings(
        "ignore"
    ),  # the backends warn of compilers, kernels and deprecated torch calls of their own
]
GOLDEN: dict[str, Any] = yaml.safe_load(
    (Path(__file__).parents[1] / "data" / "transformers_quantized.yaml").read_text(encoding="utf-8")
)
MODULES = {"quanto": "optimum.quanto", "hqq": "hqq"}
OPTIONS = ("backend", "nbits", "q_group_size", "residual_length")


def rows(of: str, backend: str, model: str) -> list[dict[str, Any]]:
    """The runs of one backend and model, by column name."""
    named = [dict(zip(GOLDEN["columns"], row, strict=False)) for row in GOLDEN[of]]
    return [run for run in named if (run["backend"], run["model"]) == (backend, model)]


def held(run: dict[str, Any]) -> tuple[int, int]:
    """What the library holds after `run`."""
    options = {key: run[key] for key in OPTIONS}
    cache = filled(
        NAMED[run["model"]], run["dtype"], run["batch"], run["context"], run["prefill"], "quantized", **options
    )
    return weighed(cache)


@pytest.mark.parametrize("backend", MODULES)
@pytest.mark.parametrize("model", GOLDEN["models"])
def test_the_golden_bytes_are_what_the_library_holds(model: str, backend: str) -> None:
    pytest.importorskip(MODULES[backend])
    for run in rows("runs", backend, model):
        assert held(run) == (run["bytes"], run["bytes"]), run


@pytest.mark.parametrize("backend", MODULES)
@pytest.mark.parametrize("model", GOLDEN["models"])
def test_the_library_refuses_groups_that_do_not_divide(model: str, backend: str) -> None:
    pytest.importorskip(MODULES[backend])
    for run in rows("refused", backend, model):
        with pytest.raises((ValueError, AssertionError)):
            held(run)


@pytest.mark.parametrize("name", ["mistral", "qwen3-next", "deepseek-v3.2", "gemma4", "nemotron-h"])
def test_the_library_quantizes_full_attention_alone(name: str) -> None:
    pytest.importorskip(MODULES["quanto"])
    with pytest.raises(ValueError, match="only full attention layers"):
        filled(NAMED[name], "bf16", 1, 4, 4, "quantized", backend="quanto")
