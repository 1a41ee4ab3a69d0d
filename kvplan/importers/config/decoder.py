"""The layers of a decoder: which word each gets, and what a layer of that word holds."""

from __future__ import annotations

import re
from typing import Any

from kvplan.errors import printable
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
from kvplan.importers.config.layers import by_rule, compress_rate, layer_words
from kvplan.importers.config.passes import depth_of_cycles, words_of_loops
from kvplan.importers.config.states import state_kind


def decoder_spec(fields: Fields, known: dict[str, Any]) -> dict[str, Any]:
    """Layers of a decoder: one attention mapping, or a pattern of named ones."""
    blocks = fields.values.get("block_configs")
    if isinstance(blocks, list):
        return _blocks(fields, blocks)
    for name in HEADS_PER_LAYER:
        if isinstance(fields.values.get(name), list):
            return _heads_per_layer(fields, name)
    _check_spellings(fields, LAYERS)
    _check_spellings(fields, HEADS)
    rule = {**known.get("layers", {}), "windows": known.get("windows")}
    count = _depth(fields, rule if known.get("depth_by_list") else {}) or fields.need(*LAYERS)
    words = layer_words(fields, count, rule)
    words = _indexers(fields, words, known.get("indexers"))
    _check_attention_types(fields, words)
    words = words_of_loops(fields, words)
    overrides = _overrides(fields, len(words))
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
        return {"layers": len(words), "attention": next(iter(kinds.values()))}
    return {"layers": len(words), "pattern": pattern, "attention": kinds}


def _check_attention_types(fields: Fields, words: list[str]) -> None:
    """Refuse MiniMax's list of layers that attend (1) or recur (0) where its class lays them out otherwise."""
    if fields.values.get("attn_type_list") is None:
        return
    attends = fields.numbers("attn_type_list")
    if attends != [int(word not in ("recurrent", "none")) for word in words]:
        raise fields.refuse("attn_type_list", attends, "but its class lays out its layers otherwise")


def _depth(fields: Fields, ruling: dict[str, Any]) -> int | None:
    """How many layers there are: stated, or as many as the list or letters of layers have.

    ruling: the layer rule of a class that goes by the list alone, whatever depth is stated beside it.
    """
    listed = [fields.values.get(name) for name in ("layers_block_type", "layer_types", "hybrid_override_pattern")]
    lengths = [len(value) for value in (*listed, ruling.get("list")) if isinstance(value, list | str) and value]
    if ruling and lengths:
        return lengths[0]
    return depth_of_cycles(fields, fields.number(*LAYERS)) or next(iter(lengths), None)


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


def _indexers(fields: Fields, words: list[str], rule: dict[str, Any] | None) -> list[str]:
    """Sparse-attention layers that own an indexer, and those that borrow another's choice.

    rule: how the class shares indexers where the config does not say it.
    """
    owners = (_indexer_owners(fields, len(words), rule) or []) if "indexed" in words else []
    if not owners:
        return words
    unknown = set(owners) - {"full", "shared"}
    if unknown or len(owners) != len(words):
        raise fields.refuse("indexer_types", min(unknown) if unknown else f"{len(owners)} entries")
    return [
        "plain" if word == "indexed" and owner == "shared" else word for word, owner in zip(words, owners, strict=True)
    ]


def _indexer_owners(fields: Fields, count: int, rule: dict[str, Any] | None) -> list[str] | None:
    """`full` for each layer with an indexer of its own, else `shared`: a list, letters, a period, or the class's rule."""
    owners = fields.words("indexer_types")
    if owners is not None:
        return owners
    pattern = fields.find("index_topk_pattern")
    if isinstance(pattern, str):
        strange = set(pattern) - {"F", "S"}
        if strange:
            raise fields.refuse("index_topk_pattern", min(strange))
        return ["full" if letter == "F" else "shared" for letter in pattern]
    if pattern is not None:
        return fields.words("index_topk_pattern")
    every = fields.number("index_topk_freq")
    if every is not None:
        skipped = fields.number("index_skip_topk_offset")
        begin = 2 if skipped is None else skipped
        return ["shared" if max(i - begin + 1, 0) % max(every, 1) else "full" for i in range(count)]
    return by_rule(rule, count) if rule else None


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
    """Tokens a sliding layer looks at; ModernBERT's `local_attention` spans both sides of a token, MiMo's size leaves it out."""
    beside = int(fields.defaults.get("_window_size_leaves_out", 0))
    if beside and fields.number("sliding_window_size"):
        return fields.need("sliding_window_size") + beside
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
        "rope_dim": _turned(fields, head_dim(fields, heads)),
        "window": fields.need("sliding_window"),
        "heads": heads,
    }
    if word == "entries":
        return entry
    ratio = compress_rate(fields, word)
    entry["ratio"] = ratio
    return [entry, {**index_kind(fields), "ratio": ratio}] if word == "csa" else entry


def _turned(fields: Fields, width: int) -> int:
    """How many of an entry's numbers turn with the position: stated, or a share of its width."""
    share = fields.find("partial_rotary_factor")
    if fields.number("qk_rope_head_dim") is None and isinstance(share, float) and 0 <= share <= 1:
        return int(width * share)
    return fields.need("qk_rope_head_dim")


HEADS_PER_LAYER = ("num_key_value_heads_per_layer", "num_kv_heads")


def _heads_per_layer(fields: Fields, name: str) -> dict[str, Any]:
    """A list of key heads, one entry per layer (DeciLM), and perhaps one of query heads beside it (OpenELM)."""
    keys = fields.numbers(name) or []
    queries = fields.values.get("num_query_heads")
    heads = fields.numbers("num_query_heads") or [] if isinstance(queries, list) else [query_heads(fields)] * len(keys)
    count = fields.number(*LAYERS, "num_transformer_layers")
    if (
        len(heads) != len(keys)
        or count not in (None, len(keys))
        or not all(0 < n <= MOST_HEADS for n in (*keys, *heads))
    ):
        raise fields.refuse(name, f"{len(keys)} entries", "which are not one number of heads for each layer")
    kinds = {f"q{q}kv{kv}": sized_kind(q, kv, head_dim(fields, q)) for q, kv in zip(heads, keys, strict=True)}
    pattern = [f"q{q}kv{kv}" for q, kv in zip(heads, keys, strict=True)]
    if len(kinds) == 1:
        return {"layers": len(keys), "attention": kinds[pattern[0]]}
    return {"layers": len(keys), "pattern": pattern, "attention": kinds}


MOST_HEADS = 2**16
BLOCK_FIELDS = {"n_heads_in_group", "num_key_value_heads", "no_op", "replace_with_linear"}


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
        strange = [name for name, value in attention.items() if value not in (None, False) and name not in BLOCK_FIELDS]
        if strange:
            raise fields.refuse(f"block_configs.{index}.attention.{printable(strange[0])}", attention[strange[0]])
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
DECODER_KV_HEADS = ("decoder_num_key_value_heads", "num_key_value_heads")
DECODER_HEADS = ("decoder_attention_heads", "num_decoder_attention_heads", "decoder_num_attention_heads")


def encoder_decoder_spec(fields: Fields, known: dict[str, Any]) -> dict[str, Any]:
    """Decoder layers with self-attention and attention over the encoder's output."""
    heeds = set(known.get("heeds", ()))
    layers = fields.need(*(LAYERS if fields.number(*DECODER_LAYERS) is None else DECODER_LAYERS))
    heads = fields.need(*(DECODER_HEADS if heeds & set(DECODER_HEADS) else HEADS))
    kv = fields.number(*DECODER_KV_HEADS)
    kv = heads if kv is None else fields.need(*DECODER_KV_HEADS)
    if known.get("heads_of_encoder"):
        _check_same_heads(fields, heads, kv)
    width = fields.number("head_dim", "d_kv") or fields.need("d_model", "hidden_size") // heads
    own = sized_kind(heads, kv, width)
    cross = {
        "type": "cross",
        "heads": fields.number("cross_num_attention_heads") or heads,
        "kv_heads": fields.number("cross_num_key_value_heads") or kv,
        "head_dim": fields.number("cross_head_dim") or width,
    }
    spec: dict[str, Any] = {"layers": layers, "attention": [own, cross]}
    frames = fields.number("max_source_positions") if known.get("frames") else None
    return {**spec, "encoder_tokens": frames} if frames else spec


def _check_same_heads(fields: Fields, heads: int, kv: int) -> None:
    """Refuse a decoder whose heads are not its encoder's, where the library builds both with the encoder's."""
    theirs = fields.need("encoder_num_attention_heads")
    theirs_kv = fields.number("encoder_num_key_value_heads")
    if theirs != heads or (theirs if theirs_kv is None else theirs_kv) != kv:
        raise fields.refuse("decoder_num_attention_heads", heads, "and the library builds it with its encoder's heads")


def with_crossing(attention: Any) -> Any:
    """Every layer attends to the encoder's output too, with heads of the same number and width."""
    if "type" not in attention:
        return {name: with_crossing(kind) for name, kind in attention.items()}
    return [attention, {"type": "cross", **{key: attention[key] for key in ("heads", "kv_heads", "head_dim")}}]
