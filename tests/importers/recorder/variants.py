"""Configs beside the tiny one of a model type: each leaves a field out, gives one, or gives one that its class ignores.

The general ones follow from the fields of the type's own class; what single types are known for stands in
`variants.yaml`. Each is a change that is laid over the fields of the text decoder.
"""

from __future__ import annotations

import dataclasses
import inspect
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from recorder.configs import ABSENT, by_hand, changed, text_path, tiny
from recorder.filling import made

Change = dict[str, Any]
DEPTHS = (3, 7, 16)
OFTEN_LEFT_OUT = """sliding_window_pattern:3 _sliding_window_pattern:3 full_attention_interval:3 global_attn_every_n_layers:2
no_rope_layer_interval:3 first_k_dense_replace:2""".split()
ENCODER_LAYERS = ("encoder_layers", "num_layers", "num_encoder_layers", "encoder_num_hidden_layers")
DECODER_LAYERS = ("decoder_layers", "num_decoder_layers", "decoder_num_hidden_layers")
DECODER_HEADS = ("decoder_attention_heads", "num_decoder_attention_heads", "decoder_num_attention_heads")
PER_LAYER = {
    "per_layer_kv": {"per_layer_config": {"1": {"num_key_value_heads": 1}, "3": {"num_key_value_heads": 2}}},
    "per_layer_head_dim": {"per_layer_config": {"1": {"head_dim": 8}}},
    "per_layer_window": {"per_layer_config": {"1": {"sliding_window": 16}}, "sliding_window": None},
    "per_layer_skip": {"per_layer_config": {"2": {"skip": ["attention"]}}},
    "per_layer_skip2": {"per_layer_config": {"2": {"skip": ["self_attn"]}}},
}
FOR_THOROUGH_TYPES = """use_window_false_extra layer_types_chunked window_0 window_16 kv_absent_default_heads
first_k_dense_replace_absent""".split()
FOR_NESTED_TYPES = """head_dim_absent window_null window_extra_16 use_window_true layer_types_given kv_shared_2 depth_3
depth_7 depth_16 written_absent""".split()


@cache
def table() -> dict[str, Any]:
    """`variants.yaml`."""
    loaded: dict[str, Any] = yaml.safe_load((Path(__file__).parent / "variants.yaml").read_text())
    return loaded


def variants(model_type: str, architecture: str) -> dict[str, dict[str, Any]]:
    """The written fields of each variant of the tiny config, by the variant's name."""
    written = tiny(model_type, architecture)
    config = made(model_type, written)
    path = text_path(config)
    hand = table()["changes"].get(model_type, {})
    general = _general(model_type, architecture, config, _at(written, path))
    if path and not hand:
        general = {name: change for name, change in general.items() if name in FOR_NESTED_TYPES}
    if model_type not in table()["thorough"]:
        general = {name: change for name, change in general.items() if name not in FOR_THOROUGH_TYPES}
    if architecture.endswith("ForCausalLM") and any(word in architecture for word in ("Bert", "BERT", "Electra")):
        general = {name: change for name, change in general.items() if name == "is_decoder_absent"}
    return {name: changed(written, _under(path, change)) for name, change in {**general, **hand}.items()}


def _at(fields: dict[str, Any], path: list[str]) -> dict[str, Any]:
    for name in path:
        fields = fields.get(name, {})
    return fields


def _under(path: list[str], change: Change) -> Change:
    for name in reversed(path):
        change = {name: change}
    return change


def sliding(layers: int, period: int) -> list[str]:
    """A list of sliding layers with a full one at the end of each period."""
    return ["sliding_attention" if (i + 1) % period else "full_attention" for i in range(layers)]


def _general(model_type: str, architecture: str, config: Any, written: dict[str, Any]) -> dict[str, Change]:
    text = config.get_text_config(decoder=True)
    fields = {field.name: field.default for field in dataclasses.fields(type(text))}
    found: dict[str, Change] = {}
    names = {*fields, *type(text).attribute_map, "model_type"}
    beside = [name for name, value in written.items() if name not in names and not isinstance(value, dict)]
    if beside and model_type not in by_hand()["whole"]:
        found["written_absent"] = dict.fromkeys(beside, ABSENT)
    if config.is_encoder_decoder:
        found |= _of_encoder_and_decoder(fields)
    else:
        found |= _of_heads(fields) | _of_windows(fields, text, {*fields, *type(text).attribute_map})
        found |= _of_layers(model_type, fields, text, written)
    found |= _of_widths(fields)
    if "is_decoder" in fields:
        found |= {"is_decoder_false": {"is_decoder": False}, "is_decoder_absent": {"is_decoder": ABSENT}}
    own = inspect.getsource(type(text))
    for switch in OFTEN_LEFT_OUT:
        name, value = switch.split(":")
        if name in fields or f'"{name}"' in own:
            found |= {f"{name}_{value}": {name: int(value)}, f"{name}_absent": {name: ABSENT}}
    return found


def _of_widths(fields: dict[str, Any]) -> dict[str, Change]:
    if "head_dim" not in fields:
        return {"head_dim_extra_24": {"head_dim": 24}}
    return {f"head_dim_{name}": {"head_dim": value} for name, value in (("absent", ABSENT), ("null", None), ("40", 40))}


def _of_heads(fields: dict[str, Any]) -> dict[str, Change]:
    if "num_key_value_heads" not in fields:
        return {}
    default = fields.get("num_attention_heads")
    own: Change = {"num_key_value_heads": ABSENT}
    if isinstance(default, int):
        own["num_attention_heads"] = default
    if "head_dim" not in fields:
        own["hidden_size"] = default * 8 if isinstance(default, int) else 64
    given = {"kv_1": 1, "kv_null": None, "kv_absent": ABSENT}
    return {name: {"num_key_value_heads": value} for name, value in given.items()} | {"kv_absent_default_heads": own}


def _of_windows(fields: dict[str, Any], text: Any, names: set[str]) -> dict[str, Change]:
    found: dict[str, Change] = {}
    if "sliding_window" in names:
        for name, value in (("null", None), ("absent", ABSENT), ("16", 16), ("0", 0)):
            found[f"window_{name}"] = {"sliding_window": value}
    else:
        found["window_extra_16"] = {"sliding_window": 16}
    window = {"sliding_window": 16}
    if "use_sliding_window" in fields:
        on, off = {"use_sliding_window": True}, {"use_sliding_window": False}
        mixed = {"layer_types": sliding(text.num_hidden_layers, 2)}
        found["use_window_true"] = {**on, **window, "max_window_layers": 2}
        found["use_window_true_absent_mwl"] = {**on, **window, "max_window_layers": ABSENT}
        found["use_window_false_16"] = {**off, **window, "max_window_layers": 2}
        found["use_window_true_null"] = {**on, "sliding_window": None}
        found["use_window_false_layer_types"] = {**off, **window, **mixed}
        found["use_window_true_layer_types"] = {**on, **window, **mixed}
    else:
        found["use_window_false_extra"] = {"use_sliding_window": False, **window}
    if "attention_chunk_size" in fields:
        found |= {"chunk_null": {"attention_chunk_size": None}, "chunk_absent": {"attention_chunk_size": ABSENT}}
    return found


def _of_layers(model_type: str, fields: dict[str, Any], text: Any, written: dict[str, Any]) -> dict[str, Change]:
    layers = getattr(text, "num_hidden_layers", None)
    if not isinstance(layers, int) or not layers:
        return {}
    found: dict[str, Change] = {}
    listed = getattr(text, "layer_types", None)
    if listed is None or set(listed) <= {"full_attention", "sliding_attention"}:
        chunks = ["chunked_attention" if i % 2 else "full_attention" for i in range(layers)]
        mixed = sliding(layers, 2 if layers < 5 else 3)
        found["layer_types_given"] = {"layer_types": mixed, "sliding_window": 16}
        found["layer_types_all_full"] = {"layer_types": ["full_attention"] * layers}
        found["layer_types_chunked"] = {"layer_types": chunks, "attention_chunk_size": 16, "sliding_window": None}
    else:
        found["layer_types_reversed"] = {"layer_types": list(reversed(listed))}
    if "attention_chunk_size" not in fields:
        found["chunk_extra_16"] = {"attention_chunk_size": 16}
    if any(isinstance(value, list) and len(value) == layers for value in vars(text).values()):
        found |= {f"depth_{depth}": _of_depth(depth, layers, written) for depth in DEPTHS}
    if "num_kv_shared_layers" in fields:
        found |= {f"kv_shared_{count}": {"num_kv_shared_layers": count} for count in (0, 2)}
        found["kv_shared_absent_n20"] = {"num_kv_shared_layers": ABSENT, "num_hidden_layers": 20}
    if "cross_attention_layers" in fields:
        found["cross_layers_1_2"] = {"cross_attention_layers": [1, 2]}
    if model_type in table()["per_layer"] and (listed is None or set(listed) == {"full_attention"}):
        found |= PER_LAYER
    return found


def _of_depth(depth: int, layers: int, written: dict[str, Any]) -> Change:
    """Another depth, with the lists of the old one left out, so that the class lays them out."""
    lists = [name for name, value in written.items() if isinstance(value, list) and len(value) == layers]
    return {**dict.fromkeys(lists, ABSENT), "num_hidden_layers": depth}


def _of_encoder_and_decoder(fields: dict[str, Any]) -> dict[str, Change]:
    found = {
        "decoder_layers_2": {name: 2 for name in DECODER_LAYERS if name in fields},
        "encoder_deeper": {name: 5 for name in ENCODER_LAYERS if name in fields},
        "decoder_heads_2": {name: 2 for name in DECODER_HEADS if name in fields},
        "decoder_layers_absent": {name: ABSENT for name in ("num_decoder_layers",) if name in fields},
    }
    return {name: change for name, change in found.items() if change}
