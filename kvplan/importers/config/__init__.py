"""config.json of the transformers library, read into a model spec by families of fields.

A published config leaves out what its class assumes, so `classes.json` holds those defaults and layer rules
per model type, drawn from the library itself. Each family of fields has one reader: `heads`, `layers`,
`states`. A field that changes the cache and is not understood is refused by name.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from kvplan.errors import InputError, NotCountableError, printable, quoted
from kvplan.importers import Imported
from kvplan.importers.config.fields import Fields
from kvplan.importers.config.heads import (
    HEADS,
    KV_HEADS,
    LAYERS,
    WIDTH,
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
from kvplan.spec import parse_spec

NESTED = ("text_config", "llm_config", "language_config", "thinker_config", "decoder_config", "decoder")
ENCODERS = (
    "ForMaskedLM",
    "ForSequenceClassification",
    "ForTokenClassification",
    "ForQuestionAnswering",
    "ForImageClassification",
    "EncoderModel",
)
ALWAYS_HEEDED = frozenset(
    {
        "attention_chunk_size",
        "attn_type_list",
        "block_configs",
        "cla_share_factor",
        "dtype",
        "hybrid_override_pattern",
        "layer_types",
        "linear_attn_config",
        "per_layer_config",
        "sliding_window",
        "torch_dtype",
        "use_cla",
    }
)
SOUNDS_OF_A_CACHE = re.compile(r"kv|cache|window|shar|cla$|cla_|compress|latent|recur|state|chunk|loop|memory")
DTYPES = {
    "float32": "fp32",
    "float16": "fp16",
    "bfloat16": "bf16",
    "torch.float32": "fp32",
    "torch.float16": "fp16",
    "torch.bfloat16": "bf16",
}
CONTEXT = (
    "max_position_embeddings",
    "n_positions",
    "max_seq_len",
    "seq_length",
    "max_sequence_length",
    "model_max_length",
    "max_target_positions",
)


def read_config(values: Any, source: str, name: str = "imported") -> Imported:
    """The spec that a config.json describes.

    values: the parsed JSON. source: what errors call it. name: the spec's name.

    Raises: InputError for what is not a config; NotCountableError naming the field that changes the cache
    and is not understood.
    """
    if not isinstance(values, dict):
        raise InputError(
            f"{source}: found {quoted(values)}, allowed the mapping of a config.json", "give a transformers config"
        )
    classes = known_classes()
    text, model_type = _text_config(values, source, classes)
    notes: list[str] = []
    known = classes.get(model_type)
    if known is None:
        _only_plain(text, model_type, source, classes)
        known = {}
        notes.append(f"model_type {model_type} is not known: read by its field names alone")
    heeded = frozenset(known["heeds"]) | ALWAYS_HEEDED if "heeds" in known else None
    fields = Fields(text, known.get("defaults", {}), source, heeded)
    spec: dict[str, Any] = {"name": name, **_facts(values, fields, notes)}
    for needed in (*known.get("requires", ()), *classes.get(str(values.get("model_type")), {}).get("requires", ())):
        if needed not in text and any(name in text for name in WIDTH):
            raise fields.refuse(needed, None, "and its class works it out from the width in a way of its own")
    if isinstance(built := values.get("architectures"), list) and any(str(n).endswith(ENCODERS) for n in built[:8]):
        raise fields.refuse("architectures", built[0], "which generates nothing and keeps no cache")
    _check_strays(fields, text, known)
    _check_remote_code(values, text, known, source, classes)
    outer = classes.get(str(values.get("model_type")), {})
    if outer.get("refuse"):
        known, model_type = outer, str(values["model_type"])
    if known.get("refuse"):
        raise fields.refuse("model_type", model_type, f"which kvplan does not count: {known['refuse']}")
    alone = isinstance(built, list) and any(str(name).endswith("ForCausalLM") for name in built[:8])
    if known.get("encoder_decoder") and not alone:
        spec |= _encoder_decoder(fields, known)
    else:
        spec |= _decoder(fields, known)
        if outer.get("crosses") and not alone:
            spec["attention"] = _crossing(spec["attention"])
    spec |= _cache_scheme(values, source, notes)
    read = {"model_type": model_type, **fields.read}
    return Imported(parse_spec(spec, source), tuple((key, _shown(value)) for key, value in read.items()), tuple(notes))


def _only_plain(text: dict[str, Any], model_type: str, source: str, classes: dict[str, Any]) -> None:
    """Let an unknown architecture through when every field is one that plain architectures share.

    Raises: NotCountableError naming the first other field.
    """
    plain = set(classes["_plain"]["fields"])
    strange = [key for key, value in text.items() if key not in plain and value is not None]
    if text.get("use_sliding_window") is not False and text.get("sliding_window") is not None:
        strange.append("sliding_window")
    strange += [key for key in ("is_encoder_decoder", "add_cross_attention") if text.get(key)]
    if strange:
        raise NotCountableError(
            f"{source}: {quoted(strange[0])[1:-1]}: a field of the unknown architecture {quoted(model_type)}, which may change the cache",
            "write a spec by hand: docs/spec.md",
        )


def _check_strays(fields: Fields, text: dict[str, Any], known: dict[str, Any]) -> None:
    """Refuse what lays out windows or layers where the class itself never asks for it.

    The library's cache then does one thing and its model another.
    """
    if "heeds" not in known:
        return
    for name in ("sliding_window", "attention_chunk_size", "layer_types", "per_layer_config", "attn_type_list"):
        if text.get(name) is not None and name not in known["heeds"]:
            raise fields.refuse(name, text[name], "which its class does not ask for")
    for name, other in known.get("aliases", {}).items():
        unread = name not in known["heeds"]
        if text.get(name) is not None and text.get(other) != text[name] and (other in text or unread):
            raise fields.refuse(name, text[name], f"which its class takes for {other}")


def _check_remote_code(
    values: dict[str, Any], text: dict[str, Any], known: dict[str, Any], source: str, classes: dict[str, Any]
) -> None:
    """Where a release brings code of its own, refuse fields that its class does not know and that sound of a cache.

    Raises: NotCountableError naming the first such field.
    """
    if not (values.get("auto_map") or text.get("auto_map")) or not known:
        return
    understood = {*classes["_plain"]["fields"], *known.get("heeds", ()), *known.get("knows", ()), *ALWAYS_HEEDED}
    for field, value in text.items():
        if field not in understood and value not in (None, False, 0) and SOUNDS_OF_A_CACHE.search(str(field)):
            raise NotCountableError(
                f"{source}: {printable(field)}: found {quoted(value)}, a field of the release's own code that may change the cache",
                "write a spec by hand: docs/spec.md",
            )


def known_classes() -> dict[str, Any]:
    """Class defaults and layer rules by model type, drawn from the library."""
    loaded: dict[str, Any] = json.loads((Path(__file__).parent / "classes.json").read_bytes())
    return loaded


def _text_config(values: dict[str, Any], source: str, classes: dict[str, Any]) -> tuple[dict[str, Any], str]:
    """The config of the text decoder, however deeply a multimodal one nests it, and its model type."""
    model_type = values.get("model_type")
    for _ in range(4):
        key = next((key for key in NESTED if isinstance(values.get(key), dict)), None)
        inner = classes.get(str(model_type), {}).get("nested")
        if key is None:
            model_type = inner or model_type  # older releases lay the decoder's fields out flat
            break
        nested = values[key]
        model_type = nested.get("model_type", inner or model_type)
        values = nested
    if not isinstance(model_type, str):
        raise InputError(
            f"{source}: model_type: found {quoted(model_type)}, allowed the name of an architecture",
            "give a transformers config.json",
        )
    return values, model_type


def _facts(outer: dict[str, Any], fields: Fields, notes: list[str]) -> dict[str, Any]:
    """Name, dtype and maximum context."""
    facts: dict[str, Any] = {}
    dtype = next(
        (v for c in (fields.values, outer) for k in ("dtype", "torch_dtype") if isinstance(v := c.get(k), str)), None
    )
    if dtype in DTYPES:
        facts["dtype"] = DTYPES[dtype]
        fields.read["dtype"] = dtype
    elif dtype is None:
        notes.append("the config does not say its dtype: counted as bf16, --kv-dtype says otherwise")
    else:
        notes.append(f"dtype {dtype}: the cache is counted as bf16, --kv-dtype says otherwise")
    context = fields.number(*CONTEXT)
    if context:
        facts["max_context"] = context
    return facts


def _decoder(fields: Fields, known: dict[str, Any]) -> dict[str, Any]:
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
    passes = fields.number("num_layers_per_stack") and known.get("passes")
    if passes:
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
    pattern = []
    for index, word in enumerate(words):
        key = (
            word
            if index not in overrides
            else f"{word}-{'-'.join(f'{k}{v}' for k, v in sorted(overrides[index].items()))}"[:90]
        )
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


def _encoder_decoder(fields: Fields, known: dict[str, Any]) -> dict[str, Any]:
    """Decoder layers with self-attention and attention over the encoder's output."""
    heeds = set(known.get("heeds", ()))
    layers = fields.number(*DECODER_LAYERS) or fields.need(*LAYERS)
    heads = fields.need(*(DECODER_HEADS if heeds & set(DECODER_HEADS) else HEADS))
    kv = fields.number("decoder_num_key_value_heads") or heads
    width = fields.number("head_dim", "d_kv") or fields.need("d_model", "hidden_size") // heads
    own = sized_kind(heads, kv, width)
    cross = {"type": "cross", "heads": heads, "kv_heads": kv, "head_dim": width}
    spec: dict[str, Any] = {"layers": layers, "attention": [own, cross]}
    frames = fields.number("max_source_positions") if known.get("frames") else None
    return {**spec, "encoder_tokens": frames} if frames else spec


def _crossing(attention: Any) -> Any:
    """Every layer attends to the encoder's output too, with heads of the same number and width."""
    if "type" not in attention:
        return {name: _crossing(kind) for name, kind in attention.items()}
    return [attention, {"type": "cross", **{key: attention[key] for key in ("heads", "kv_heads", "head_dim")}}]


def _cache_scheme(values: dict[str, Any], source: str, notes: list[str]) -> dict[str, Any]:
    """The cache's own format where a quantised release states one; the weights' width never is."""
    scheme = (
        (values.get("quantization_config") or {}).get("kv_cache_scheme")
        if isinstance(values.get("quantization_config"), dict)
        else None
    )
    if not isinstance(scheme, dict):
        return {}
    if scheme.get("num_bits") == 8 and scheme.get("type") in ("float", "int"):
        kind = "fp8" if scheme["type"] == "float" else "int8"
        notes.append(f"quantization_config.kv_cache_scheme: the release states a cache in {kind}")
        return {"kv_dtype": kind}
    raise NotCountableError(
        f"{source}: quantization_config.kv_cache_scheme: found {quoted(scheme)}, which kvplan does not know how to count",
        "give --kv-dtype with a spec of your own",
    )


def _shown(value: Any) -> str:
    return quoted(value)[1:-1]
