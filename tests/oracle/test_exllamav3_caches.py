"""exllamav3's own cache layers, allocated on a CPU: drawn shapes and bits, to the byte."""

from __future__ import annotations

import importlib
import os
import random
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from kvplan.engine import engine_named
from kvplan.spec import parse_spec
from kvplan.workload import Workload

pytestmark = pytest.mark.oracle

SEED = int(os.environ.get("KVPLAN_ORACLE_SEED", "20261129"))


@pytest.fixture(scope="module")
def layers() -> Any:
    """The library's cache modules; its kernels, which need a GPU to build, are never called."""
    home = os.environ.get("KVPLAN_ORACLES")
    if home is None:
        pytest.skip("KVPLAN_ORACLES is not set: `.ci/oracles DIR` lays exllamav3")
    root = Path(home) / "exllamav3-exllamav3==1.6.5" / "exllamav3"
    for name, folder in (("exllamav3", root), ("exllamav3.cache", root / "cache")):
        package = ModuleType(name)
        package.__path__ = [str(folder)]  # type: ignore[attr-defined]
        sys.modules[name] = package
    sys.modules["exllamav3.ext"] = SimpleNamespace(exllamav3_ext=None)  # type: ignore[assignment]
    sys.modules["exllamav3.model"] = SimpleNamespace(Config=object)  # type: ignore[assignment]
    found = {name: importlib.import_module(f"exllamav3.cache.{name}") for name in ("fp16", "quant", "mla")}
    yield SimpleNamespace(**found)
    for name in [name for name in sys.modules if name.split(".")[0] == "exllamav3"]:
        del sys.modules[name]


def weighed(layer: Any) -> int:
    layer.alloc(torch.device("cpu"))
    return sum(tensor.nbytes for tensor in layer.get_tensors())


def reserved(attention: dict[str, Any], tokens: int, *options: str) -> int:
    spec = parse_spec({"name": "tiny", "dtype": "fp16", "layers": 1, "attention": attention}, "tiny.yaml")
    return engine_named("exllamav3", options).reserve(spec, Workload(tokens)).reserved_bytes


@pytest.mark.parametrize("number", range(40))
def test_layers_hold_what_the_engine_says(layers: Any, number: int) -> None:
    draw = random.Random(f"{SEED} {number}")
    tokens = draw.randint(1, 2000)
    length = -(-tokens // 256) * 256
    heads, width = draw.choice([1, 2, 4, 8]), draw.choice([32, 64, 96, 128, 256])
    rank, rope = 32 * draw.randint(1, 16), draw.choice([32, 64])
    k_bits, v_bits = draw.randint(2, 8), draw.randint(2, 8)
    shape = SimpleNamespace(num_kv_heads=heads, head_dim=width, kv_lora_rank=rank, qk_rope_head_dim=rope)
    gqa = {"type": "gqa", "heads": 8, "kv_heads": heads, "head_dim": width}
    if heads == 1:
        gqa["type"] = "mqa"
    if heads == 8:
        gqa["type"] = "mha"
    mla = {"type": "mla", "heads": 8, "kv_lora_rank": rank, "qk_rope_head_dim": rope}
    bits = f"k_bits={k_bits}", f"v_bits={v_bits}"
    assert weighed(layers.fp16.CacheLayer_fp16(None, shape, 0, length)) == reserved(gqa, tokens)
    assert weighed(layers.quant.CacheLayer_quant(None, shape, 0, length, k_bits, v_bits)) == reserved(
        gqa, tokens, *bits
    )
    assert weighed(layers.mla.CacheLayer_MLA_fp16(None, shape, 0, length)) == reserved(mla, tokens)
    assert weighed(layers.mla.CacheLayer_MLA_quant(None, shape, 0, length, k_bits)) == reserved(mla, tokens, *bits)
