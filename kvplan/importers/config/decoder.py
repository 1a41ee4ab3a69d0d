"""The layers of a decoder: which word each gets, and what a layer of that word holds."""

from __future__ import annotations

import re
from typing import Any

from kvplan.importers.config.fields import Fields
from kvplan.importers.config.heads import (
    HEADS,
    KV_HEADS,
    LAYERS,
    Kind,
    head_dim,
    head_kind,
    index_kind,
    is_latent,
    latent_kind,
    query_heads,
    sized_kind,
)
from kvplan.importers.config.layers import RATES, layer_words
from kvplan.importers.config.states import state_kind


def decoder_spec(fields: Fields, known: dict[str, Any]) -> dict[str, Any]:
    """Layers of a decoder: one attention mapping, or a pattern of named ones."""
    blocks = fields.values.get("block_configs")
    if isinstance(blocks, list):
        return _blocks(fields, blocks)
    _check_spellings(fields, LAYERS)
    _check_spellings(fields, HEADS)
    count = fields.number(*LAYERS)
    if count is None and isinstance(fields.values.get("layers_block_type"), list):
        count = len(fields.values["layers_block_type"])
    if count is None and isinstance(fields.values.get("hybrid_override_pattern"), str):
        count = len(fields.values["hybrid_override_pattern"])
    if not count:
        count = fields.need(*LAYERS)
    words = layer_words(fields, count, {**known.get("layers", {}), "windows": known.get("windows")})
    words = _indexers(fields, words)
    overrides = _overrides(fields, count)
    for index, override in overrides.items():
        if override.get("sliding_window") and words[index] == "full":
            words[index] = "sliding"
    if "sliding" in words and fields.find("use_bidirectional_attention") in (True, "all"):
        raise fields.refuse("use_bidirectional_attention", True, "which changes how far its windows reach")
    kinds: dict[str, Any] = {}
    names: dict[str, str] = {}
    pattern = []
    for index, word in enumerate(words):
        own = overrides.get(index)
        told_apart = word if own is None else f"{word} {sorted(own.items())}"
        key = names.setdefault(told_apart, word if own is None else f"{word}-{len(names) + 1}")
        if key not in kinds:
            kinds[key] = _kinds(_with(fields, overrides.get(index, {})), word, known)
        pattern.append(key)
    if len(kinds) == 1:
        return {"layers": count, "attention": next(iter(kinds.values()))}
    return {"layers": count, "pattern": pattern, "attention": kinds}


def _check_spellings(fields: Fields, names: tuple[str, ...]) -> None:
    """Refuse two spellings of one field that say different things: which of them wins differs by class."""
    given = {name: fields.values[name] for name in names if fields.values.get(name) is not None}
    if len({str(value) for value in given.values()}) > 1:
        raise fields.refuse(" and ".join(given), list(given.values()), "two spellings that say different things")


def _with(fields: Fields, override: dict[str, Any]) -> Fields:
    """The fields of one layer: the model's, with its own laid over them."""
    if not override:
        return fields
    own = Fields({**fields.values, **override}, fields.defaults, fields.source, fields.heeded)
    own.read = fields.read
    return own


def _overrides(fields: Fields, count: int) -> dict[int, dict[str, Any]]:
    """Per-layer mappings, such as `per_layer_config`, by layer index.

    Raises: NotCountableError for a key whose meaning is not known.
    """
    given = fields.find("per_layer_config")
    if not isinstance(given, dict):
        return {}
    found: dict[int, dict[str, Any]] = {}
    for index, override in given.items():
        if not re.fullmatch(r"[0-9]{1,5}", str(index)) or not isinstance(override, dict):
            raise fields.refuse("per_layer_config", index)
        unknown = set(override) - PER_LAYER
        if unknown:
            raise fields.refuse(f"per_layer_config.{index}", min(unknown))
        if int(index) < count:
            found[int(index)] = {key: value for key, value in override.items() if key in PER_LAYER_READ}
    return found


PER_LAYER_READ = frozenset(
    {
        "head_dim",
        "num_key_value_heads",
        "num_attention_heads",
        "v_head_dim",
        "kv_lora_rank",
        "qk_rope_head_dim",
        "sliding_window",
    }
)
PER_LAYER = PER_LAYER_READ | {"q_lora_rank", "qk_nope_head_dim", "intermediate_size"}


def _indexers(fields: Fields, words: list[str]) -> list[str]:
    """Sparse-attention layers that own an indexer, and those that borrow another's choice."""
    owners = fields.words("indexer_types") if "indexed" in words else None
    if owners is None:
        return words
    unknown = set(owners) - {"full", "shared"}
    if unknown or len(owners) != len(words):
        raise fields.refuse("indexer_types", min(unknown) if unknown else f"{len(owners)} entries")
    return [
        "plain" if word == "indexed" and owner == "shared" else word for word, owner in zip(words, owners, strict=True)
    ]


def _kinds(fields: Fields, word: str, known: dict[str, Any]) -> Any:
    """What a layer of this word holds: one kind, or the list of several."""
    match word:
        case "shared":
            return {"type": "shared"}
        case "none":
            return {"type": "none"}
        case "cross":
            kind = head_kind(fields)
            return {"type": "cross", "heads": kind["heads"], "kv_heads": kind["kv_heads"], "head_dim": kind["head_dim"]}
        case "recurrent" | "conv":
            return state_kind(fields)
        case "both":
            return [_attention(fields), state_kind(fields)]
        case "indexed":
            return [_attention(fields), index_kind(fields)]
        case "csa" | "hca" | "entries":
            return _compressed(fields, word)
        case "sliding":
            return _attention(
                _sliding(fields, known),
                window=_window(fields),
            )
        case "chunked":
            return _attention(fields, chunk=fields.need("attention_chunk_size"))
        case "full" | "plain":
            kind = _attention(fields if "per_layer_config" in fields.values else _global(fields))
            return [kind, dict(kind)] if known.get("attentions_per_layer") == 2 else kind
        case _:
            raise fields.refuse("layer_types", word)


def _window(fields: Fields) -> int:
    """Tokens a sliding layer looks at; ModernBERT's `local_attention` spans both sides of a token."""
    if fields.values.get("local_attention") and not fields.values.get("sliding_window"):
        return fields.need("local_attention") // 2
    return fields.need("sliding_window", "sliding_window_size", "attention_window_size")


def _attention(fields: Fields, **bound: int) -> Kind:
    return latent_kind(fields, **bound) if is_latent(fields) else head_kind(fields, **bound)


def _sliding(fields: Fields, known: dict[str, Any]) -> Fields:
    """Sliding layers with head counts of their own (MiMo)."""
    factor = known.get("sliding_kv_factor")
    own = {
        "num_key_value_heads": fields.number("swa_num_key_value_heads") or (factor and factor * fields.need(*KV_HEADS)),
        "num_attention_heads": fields.number("swa_num_attention_heads", "num_sliding_attention_heads"),
        "head_dim": fields.number("swa_head_dim"),
        "v_head_dim": fields.number("swa_v_head_dim"),
    }
    return _with(fields, {key: value for key, value in own.items() if value is not None})


def _global(fields: Fields) -> Fields:
    """Full layers with head counts of their own (Gemma 4, whose keys and values are then the same numbers)."""
    switched = fields.heeded is not None and "attention_k_eq_v" in fields.heeded
    own = {
        "num_key_value_heads": fields.number("num_global_key_value_heads")
        if not switched or fields.flag("attention_k_eq_v")
        else None,
        "head_dim": fields.number("global_head_dim"),
    }
    return _with(fields, {key: value for key, value in own.items() if value is not None})


def _compressed(fields: Fields, word: str) -> Any:
    """DeepSeek-V4: a window of entries, compressed entries, and an index on the sparse ones."""
    heads = query_heads(fields)
    entry = {
        "type": "compressed",
        "entry_dim": head_dim(fields, heads),
        "rope_dim": fields.need("qk_rope_head_dim"),
        "window": fields.need("sliding_window"),
        "heads": heads,
    }
    if word == "entries":
        return entry
    ratio = fields.inner("compress_rates").need(RATES[word])
    entry["ratio"] = ratio
    return [entry, {**index_kind(fields), "ratio": ratio}] if word == "csa" else entry


def _blocks(fields: Fields, blocks: list[Any]) -> dict[str, Any]:
    """Nemotron's searched blocks: each has its own grouping of query heads, or no attention at all."""
    heads = query_heads(fields)
    width = head_dim(fields, heads)
    kinds: dict[str, Any] = {}
    pattern = []
    fields.read["block_configs"] = f"{len(blocks)} blocks"
    for index, block in enumerate(blocks):
        attention = block.get("attention") if isinstance(block, dict) else None
        if not isinstance(attention, dict):
            raise fields.refuse(f"block_configs.{index}.attention", attention)
        if attention.get("no_op") or attention.get("replace_with_linear"):
            key, kind = "none", Kind(type="none")
        else:
            group = attention.get("n_heads_in_group")
            kv = heads // group if isinstance(group, int) and group > 0 else attention.get("num_key_value_heads")
            if not isinstance(kv, int):
                raise fields.refuse(f"block_configs.{index}.attention.n_heads_in_group", group)
            key = f"kv{kv}"
            kind = sized_kind(heads, kv, width)
        kinds.setdefault(key, kind)
        pattern.append(key)
    if len(kinds) == 1:
        return {"layers": len(blocks), "attention": kinds[pattern[0]]}
    return {"layers": len(blocks), "pattern": pattern, "attention": kinds}


DECODER_LAYERS = ("decoder_layers", "num_decoder_layers", "decoder_num_hidden_layers")
DECODER_HEADS = ("decoder_attention_heads", "num_decoder_attention_heads", "decoder_num_attention_heads")


def encoder_decoder_spec(fields: Fields, known: dict[str, Any]) -> dict[str, Any]:
    """Decoder layers with self-attention and attention over the encoder's output."""
    heeds = set(known.get("heeds", ()))
    layers = fields.need(*(LAYERS if fields.number(*DECODER_LAYERS) is None else DECODER_LAYERS))
    heads = fields.need(*(DECODER_HEADS if heeds & set(DECODER_HEADS) else HEADS))
    own_kv = fields.number("decoder_num_key_value_heads")
    kv = heads if own_kv is None else fields.need("decoder_num_key_value_heads")
    width = fields.number("head_dim", "d_kv") or fields.need("d_model", "hidden_size") // heads
    own = sized_kind(heads, kv, width)
    cross = {"type": "cross", "heads": heads, "kv_heads": kv, "head_dim": width}
    spec: dict[str, Any] = {"layers": layers, "attention": [own, cross]}
    frames = fields.number("max_source_positions") if known.get("frames") else None
    return {**spec, "encoder_tokens": frames} if frames else spec


def with_crossing(attention: Any) -> Any:
    """Every layer attends to the encoder's output too, with heads of the same number and width."""
    if "type" not in attention:
        return {name: with_crossing(kind) for name, kind in attention.items()}
    return [attention, {"type": "cross", **{key: attention[key] for key in ("heads", "kv_heads", "head_dim")}}]
