"""What the real llama.cpp logs, read back whole: the model from its metadata lines, every cache from its own rules.

No model is named: the log alone must tell it. KVPLAN_SEED=… draws other models and contexts.
"""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

pytest.importorskip("numpy")
pytest.importorskip("xllamacpp")
pytest.importorskip("gguf")

from llama_cpp_engine import Engine, build
from llama_cpp_models import MODELS, Dice
from test_llama_cpp import drawn

from kvplan.explain import explain_answer

pytestmark = pytest.mark.oracle

SEED = os.environ.get("KVPLAN_SEED", "1")
NAMES = os.environ.get(
    "KVPLAN_MODELS", "llama gemma3-period gpt-oss deepseek2 nemotron-h qwen35 lfm2 falcon-h1"
).split()
CONTEXTS = 4


@pytest.fixture(scope="module")
def engine(tmp_path_factory):
    started = Engine(tmp_path_factory.mktemp("explained"))
    yield started
    started.close()


@pytest.mark.parametrize("name", NAMES)
def test_every_figure_of_a_real_log_agrees(engine, tmp_path: Path, name: str) -> None:
    """Metadata, context and caches as the engine writes them at full verbosity."""
    made = MODELS[name](Dice(f"{SEED} {name}"))
    model = build(engine, tmp_path / f"{name}.gguf", made.architecture, made.metadata, list(made.sorts), made.optional)
    dice = random.Random(f"{SEED} {name} explained")
    compared = 0
    for _ in range(CONTEXTS):
        said, log = engine.start(model, **drawn(dice))
        if said != "started":
            continue
        answer = explain_answer(log)
        assert answer.engine == "llama.cpp"
        assert answer.figures
        for figure in answer.figures:
            assert figure.agrees, (figure, answer.settings)
        compared += len(answer.figures)
    assert compared
