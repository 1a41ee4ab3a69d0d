"""Where stored weights belong, told from a tensor's name as Hugging Face checkpoints spell it."""

from __future__ import annotations

import re
from functools import lru_cache

from kvplan.spec import WeightPlace

_LAYER = re.compile(r"(?:^|\.)(?:layers|layer|h|blocks|block)\.(\d{1,5})\.")
_VISION = ("vision", "visual", "image", "img", "multi_modal", "mm_projector", "patch_merger")
_AUDIO = ("audio", "speech", "whisper")
_DRAFT_MARKS = ("eh_proj.", "enorm.", "hnorm.", "nextn.")
_EMBEDDINGS = frozenset(
    (
        "embed_tokens",
        "wte",
        "wpe",
        "word_embeddings",
        "tok_embeddings",
        "embeddings",
        "embed_in",
        "shared",
        "embed_positions",
        "embedding",
        "position_embeddings",
        "embed_tokens_per_layer",
        "word_embeddings_layernorm",
        "embed",
    )
)
_HEADS = frozenset(("lm_head", "output", "embed_out", "output_layer", "head"))


def place(name: str, layers: int | None = None) -> WeightPlace:
    """Where a stored tensor belongs, told from its name.

    >>> place("model.layers.3.mlp.experts.17.up_proj.weight"), place("lm_head.weight"), place("mtp.fc.weight")
    ('experts', 'head', 'mtp')
    >>> place("model.layers.61.self_attn.o_proj.weight", layers=61), place("visual.blocks.0.attn.qkv.weight")
    ('mtp', 'vision')
    """
    where, layer, draft = place_and_layer(name)
    return "mtp" if draft or (layers is not None and layer >= layers) else where


def place_and_layer(name: str) -> tuple[WeightPlace, int, bool]:
    """(place, number of the decoder layer or -1, whether the name marks a draft layer)."""
    match = _LAYER.search(name)
    if match is None:
        return _outside(name), -1, False
    where = _before(name[: match.start()])
    if where != "layers":
        return where, -1, False
    within = name[match.end() :]
    return _within(within), int(match[1]), within.startswith(_DRAFT_MARKS)


@lru_cache(maxsize=4096)
def _before(prefix: str) -> WeightPlace:
    """What a stack of layers is, from the words before it."""
    if prefix == "transformer.encoder":  # ChatGLM calls its decoder so
        return "layers"
    where = _outside(prefix)
    return where if where in ("vision", "audio", "encoder", "mtp") else "layers"


@lru_cache(maxsize=16384)
def _within(suffix: str) -> WeightPlace:
    """`experts` for the routed experts of a layer; shared experts and routers stay with the layer."""
    words = suffix.split(".")
    fused = words[0] == "block_sparse_moe" and len(words) > 1 and words[1] in ("input_linear", "output_linear")
    stacked = words[0] == "moe" and len(words) > 1 and words[1] in ("gate_proj", "up_proj", "down_proj")
    return "experts" if "experts" in words or fused or stacked else "layers"


@lru_cache(maxsize=4096)
def _outside(name: str) -> WeightPlace:
    """The place of a tensor that is in no numbered layer."""
    words = name.lower().split(".")
    if any(part in word for word in words for part in _AUDIO):
        return "audio"
    if any(part in word for word in words for part in _VISION) or not {"vit", "mlp1", "projector"}.isdisjoint(words):
        return "vision"
    if any(word.startswith(("mtp", "nextn")) for word in words):
        return "mtp"
    if "encoder" in words:
        return "encoder"
    if not _HEADS.isdisjoint(words):
        return "head"
    return "embeddings" if not _EMBEDDINGS.isdisjoint(words) else "other"
