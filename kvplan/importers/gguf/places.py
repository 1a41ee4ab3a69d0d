"""Where stored weights belong, told from a tensor's name as llama.cpp spells it."""

from __future__ import annotations

import re

from kvplan.spec import WeightPlace

_BLOCK = re.compile(r"blk\.(\d{1,6})\.(.*)", re.DOTALL)
_EXPERTS = re.compile(r"(ffn_\w*?_(ch)?exps|ffn_(gate|up|down)\.\d+)\.")
_BEGINNINGS: tuple[tuple[str, WeightPlace], ...] = (
    ("token_embd", "embeddings"),
    ("position_embd", "embeddings"),
    ("token_types", "embeddings"),
    ("per_layer_token_embd", "embeddings"),
    ("output.", "head"),
    ("nextn", "mtp"),
    ("mtp", "mtp"),
    ("enc.", "encoder"),
    ("dec.blk.", "layers"),
    ("v.", "vision"),
    ("mm.a.", "audio"),
    ("mm.", "vision"),
    ("a.", "audio"),
)


def place(name: str, layers: int) -> WeightPlace:
    """Where a tensor belongs in a model of `layers` layers, drafts apart.

    >>> place("blk.3.ffn_up_exps.weight", 61), place("blk.61.attn_q.weight", 61), place("output_norm.weight", 61)
    ('experts', 'mtp', 'other')
    """
    match = _BLOCK.fullmatch(name)
    if match is None:
        return next((where for beginning, where in _BEGINNINGS if name.startswith(beginning)), "other")
    if int(match[1]) >= layers:
        return "mtp"
    return "experts" if _EXPERTS.match(match[2]) else "layers"
