"""A tiny config of any model type of the library that keeps what shapes its cache.

The sizes of its class's own defaults are shrunk by the rules of `sizes`; what those rules do not know stands in
`configs.yaml`. The result holds only the fields that were written, so a class's own rules fill in the rest.
"""

from __future__ import annotations

import copy
import json
import re
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from recorder.sizes import VOCABULARY, Around, depth, smaller
from transformers import PreTrainedConfig
from transformers.models.auto import modeling_auto as auto
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

ABSENT = "<absent>"  # in a change: leave the field out
DECODERS = """text_config decoder generator language_config llm_config decoder_config vlm_config semantic_config
coarse_acoustics_config fine_acoustics_config thinker_config depth_decoder_config""".split()
BOOKKEEPING = {"layer_types", "mlp_layer_types", "id2label", "label2id", "transformers_version", "_name_or_path"}
NAMES_A_TOKEN = re.compile(r".*(token_id|token_index|_id|_index|_token)")


@cache
def by_hand() -> dict[str, Any]:
    """`configs.yaml`: `changes` and `starts` by model type, `classes` by model class, `whole` configs."""
    loaded: dict[str, Any] = yaml.safe_load((Path(__file__).parent / "configs.yaml").read_text())
    return loaded


def architectures() -> dict[str, list[str]]:
    """The classes that generate text, by model type."""
    found: dict[str, list[str]] = {}
    for kind in ("CAUSAL_LM", "SEQ_TO_SEQ_CAUSAL_LM", "IMAGE_TEXT_TO_TEXT", "MULTIMODAL_LM", "SPEECH_SEQ_2_SEQ", "TEXT_TO_WAVEFORM"):  # fmt: skip
        for model_type, classes in getattr(auto, f"MODEL_FOR_{kind}_MAPPING_NAMES").items():
            known = found.setdefault(model_type, [])
            for name in classes if isinstance(classes, list | tuple) else [classes]:
                if name not in known:
                    known.append(name)
    return dict(sorted(found.items()))


def tiny(model_type: str, architecture: str) -> dict[str, Any]:
    """The written fields of a tiny config, without its model type."""
    hand = by_hand()
    if model_type in hand["whole"]:
        written = copy.deepcopy(hand["whole"][model_type])
    else:
        made = CONFIG_MAPPING[model_type](**copy.deepcopy(hand["starts"].get(model_type, {})))
        decodes = made.is_encoder_decoder or made.get_text_config(decoder=True) is made
        written = _written(made, None, decodes)
    for change in (hand["changes"].get(model_type), hand["classes"].get(architecture)):
        written = changed(written, change or {})
    return written


def changed(written: dict[str, Any], change: dict[str, Any]) -> dict[str, Any]:
    """`written` with a change laid over it, mapping by mapping; `=NAME` puts a mapping in place of the old one."""
    new = dict(written)
    for name, value in change.items():
        if value == ABSENT:
            new.pop(name, None)
        elif isinstance(value, dict) and isinstance(new.get(name), dict) and name[0] != "=":
            new[name] = changed(new[name], value)
        else:
            new[name.removeprefix("=")] = copy.deepcopy(value)
    return new


def all_fields(config: Any) -> dict[str, Any]:
    """Every field of a config, as JSON holds it."""
    loaded: dict[str, Any] = json.loads(config.to_json_string(use_diff=False))
    return loaded


def parts(config: Any) -> dict[str, Any]:
    """The configs nested in a config, by field name."""
    return {name: value for name, value in vars(config).items() if isinstance(value, PreTrainedConfig)}


def text_path(config: Any) -> list[str]:
    """The fields that lead from a config to that of its text decoder."""
    text = config.get_text_config(decoder=True)
    if text is config:
        return []
    nested = parts(config)
    near = [[name] for name, value in nested.items() if value is text]
    far = [[name, inner] for name, value in nested.items() for inner, other in parts(value).items() if other is text]
    return next(iter(near + far), [])


def _written(config: Any, default: Any, decodes: bool) -> dict[str, Any]:
    """The tiny fields of one config and of those nested in it.

    default: what its class alone would hold, None for the outermost; decodes: whether it is the text decoder's.
    """
    nested = parts(config)
    fields = {name: value for name, value in all_fields(config).items() if name not in nested}
    layers = (3 if config.is_encoder_decoder else depth(fields)) if decodes else None
    written: dict[str, Any] = {}
    if default is not None:
        plain = all_fields(default)
        written = {n: v for n, v in fields.items() if n not in BOOKKEEPING and (n not in plain or plain[n] != v)}
    written |= _shrunk(fields, Around(fields, layers))
    text = config.get_text_config(decoder=True)
    for name, inner in nested.items():
        try:
            plain_inner = type(inner)()
        except Exception:  # noqa: BLE001  # a class that cannot be made from nothing says so in many ways
            plain_inner = None
        written[name] = _written(inner, plain_inner, inner is text or name in DECODERS)
        written[name]["model_type"] = all_fields(inner).get("model_type")
    return written


def _shrunk(fields: dict[str, Any], around: Around) -> dict[str, Any]:
    small: dict[str, Any] = {}
    tokens = 0
    for name, value in fields.items():
        if type(value) is int:
            size = smaller(name, value, around)
            if size is not None:
                small[name] = size
            if NAMES_A_TOKEN.fullmatch(name) and value >= VOCABULARY:
                small[name] = VOCABULARY - 1 - tokens % 100
                tokens += 1
        elif isinstance(value, list) and value and all(isinstance(n, int) for n in value):
            if name == "attention_window":
                small[name] = [16] * len(value)
            elif name.endswith("token_id") and max(value) >= VOCABULARY:
                small[name] = [VOCABULARY - 1 - (tokens + i) % 100 for i in range(len(value))]
                tokens += len(value)
    turned = fields.get("rope_parameters")
    if isinstance(turned, dict) and "mrope_section" in turned:
        small["rope_parameters"] = _sections(turned, small.get("head_dim") or 16, fields.get("partial_rotary_factor"))
    return small


def _sections(turned: dict[str, Any], width: int, share: float | None) -> dict[str, Any]:
    """The parts of a head that turn by time, height and width, for a head of `width`."""
    half = int(width * (turned.get("partial_rotary_factor") or share or 1) / 2)
    count = len(turned["mrope_section"])
    each = half // count
    return {**turned, "mrope_section": [half - each * (count - 1), *[each] * (count - 1)]}
