"""Small specs and the two figures of the transformers engine, for its tests."""

from __future__ import annotations

from typing import Any

from kvplan.engine import engine_named
from kvplan.spec import ModelSpec, parse_spec
from kvplan.workload import Workload

HEADS = {"heads": 4, "kv_heads": 2, "head_dim": 8}
GQA = {"type": "gqa", **HEADS}
LOCAL = {**GQA, "window": 16}
LATENT = {"type": "mla", "heads": 4, "kv_lora_rank": 16, "qk_rope_head_dim": 8}
CROSS = {"type": "cross", **HEADS}
ENTRY = {"type": "compressed", "entry_dim": 16, "rope_dim": 8, "window": 16}


def spec_of(*layers: Any, dtype: str = "bf16", **fields: Any) -> ModelSpec:
    groups = [{"count": 1, "attention": attention} for attention in layers]
    return parse_spec({"name": "tiny", "dtype": dtype, "layers": groups, **fields}, "tiny.yaml")


def figures(spec: ModelSpec, context: int, *options: str, **workload: Any) -> tuple[int, int]:
    found = engine_named("transformers", options).reserve(spec, Workload(context, **workload))
    assert found.reserved_bytes == found.figures["storage_bytes"]
    return int(found.figures["logical_bytes"]), int(found.figures["storage_bytes"])
