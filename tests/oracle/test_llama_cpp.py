"""The llama.cpp engine against the real one: random models of many architectures, random contexts, to its last digit.

KVPLAN_SEED=… draws other models and contexts; KVPLAN_DRAWS=… says how many contexts for each model.
"""

from __future__ import annotations

import os
import random
import re
from importlib.metadata import version
from pathlib import Path

import pytest

numpy = pytest.importorskip("numpy")
pytest.importorskip("xllamacpp")
pytest.importorskip("gguf")

from llama_cpp_engine import KV, RS, Engine, build
from llama_cpp_models import MODELS
from llama_cpp_shapes import Dice

from kvplan.engine import engine_named
from kvplan.engine.llama_cpp import ENGINE
from kvplan.errors import InputError
from kvplan.spec import parse_spec
from kvplan.tensor import Role
from kvplan.workload import Workload

pytestmark = pytest.mark.oracle

SEED = os.environ.get("KVPLAN_SEED", "1")
DRAWS = int(os.environ.get("KVPLAN_DRAWS", "12"))
TYPES = ("f32", "f16", "bf16", "q8_0", "q4_0", "q4_1", "iq4_nl", "q5_0", "q5_1")
N_CTX = re.compile(r"llama_context: n_ctx +=\s*(\d+)")


@pytest.fixture(scope="module")
def engine(tmp_path_factory):
    started = Engine(tmp_path_factory.mktemp("llama_cpp"))
    yield started
    started.close()


def mib(count: int) -> str:
    """As the log prints it: a 32-bit float with two decimals."""
    return f"{numpy.float32(count) / numpy.float32(2**20):.2f}"


def drawn(dice: random.Random) -> dict:
    """A context's settings, by the server's names."""
    k = dice.choice(TYPES)
    return {
        "n_ctx": dice.choice((64, 255, 256, 257, dice.randint(64, 6000), dice.randint(64, 6000))),
        "n_parallel": dice.choice((1, 1, 2, 3, 4, 7)),
        "kv_unified": dice.random() < 0.5,
        "swa_full": dice.random() < 0.2,
        "n_batch": dice.choice((2048, 2048, 2048, 300, 64)),
        "n_ubatch": dice.choice((512, 512, 512, 64, 128, 1000)),
        "cache_type_k": k,
        "cache_type_v": dice.choice((k, k, dice.choice(TYPES))),
        "flash_attn_type": dice.choice(("auto", "on", "on", "off")),
    }


def counted(spec, settings: dict):
    """kvplan's reservation for these settings, None where it refuses them."""
    names = {name.replace("flash_attn_type", "flash_attn"): value for name, value in settings.items()}
    pairs = tuple(f"{name}={str(value).lower()}" for name, value in names.items())
    try:
        return engine_named("llama.cpp", pairs).reserve(spec, Workload(settings["n_ctx"], settings["n_parallel"]))
    except InputError:
        return None


def of_log(log: str) -> tuple[list, list]:
    """(caches of keys and values, recurrent rows) as printed."""
    kv = [(int(m[1]), int(m[2]), m[6], m[8]) for m in KV.findall(log)]
    return kv, [(int(m[1]), m[6], m[8]) for m in RS.findall(log)]


def of_figures(figures: dict) -> tuple[list, list]:
    """The same, as kvplan counts them. The log tells all layers of a recurrent cache, so layers are left out."""
    caches = figures["caches"]
    kv = [(c["cells"], c["layers"], mib(c["k_bytes"]), mib(c["v_bytes"])) for c in caches if "k_bytes" in c]
    return kv, [(c["cells"], mib(c["r_bytes"]), mib(c["s_bytes"])) for c in caches if "r_bytes" in c]


def test_the_wheel_is_the_build_that_the_engine_describes() -> None:
    assert version("xllamacpp").endswith(ENGINE.VERSIONS[-1].removeprefix("b"))


@pytest.mark.parametrize("name", MODELS)
def test_every_cache_is_what_the_engine_prints(engine, tmp_path: Path, name: str) -> None:
    model = MODELS[name](Dice(f"{SEED} {name}"))
    spec = parse_spec({"name": "tiny", "max_context": 4096, **model.spec}, name)
    path = build(engine, tmp_path / "model.gguf", model.architecture, model.metadata, list(model.sorts), model.optional)
    dice = random.Random(f"{SEED} {name} contexts")
    latent = any(tensor.role is Role.LATENT for _, layer in spec.layers() for tensor in layer.tensors())
    started = 0
    for _ in range(DRAWS):
        settings = drawn(dice) | ({"n_parallel": 1} if model.alone else {})
        if latent and dice.random() < 0.8:  # one type for both, or there is little to compare
            settings["cache_type_v"] = settings["cache_type_k"]
        found = counted(spec, settings)
        said, log = engine.start(path, **settings)
        case = f"{name}, KVPLAN_SEED={SEED}, {settings}: {said}: {log[-3000:]}"
        if said == "died" and found is not None:
            continue  # some graphs of this build trip over some contexts, after the caches are made
        assert (found is None) == (said != "started"), case
        if found is None:
            continue
        started += 1
        assert of_figures(found.figures) == of_log(log), case
        assert int(N_CTX.findall(log)[-1]) == found.figures["n_ctx"], case
    assert started >= DRAWS // 8
