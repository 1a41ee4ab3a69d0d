"""config.json of the transformers library, read into a model spec by families of fields.

A published config leaves out what its class assumes, so `classes.json` holds those defaults and layer rules
per model type, drawn from the library itself. Each family of fields has one reader: `heads`, `layers`,
`states`; `decoder` puts their layers together. A field that changes the cache and is not understood is refused
by name.
"""

from __future__ import annotations

import re
from typing import Any

from kvplan.errors import InputError, NotCountableError, printable, quoted
from kvplan.importers import Imported
from kvplan.importers.config.classes import Classes, known_classes
from kvplan.importers.config.decoder import decoder_spec, encoder_decoder_spec, with_crossing
from kvplan.importers.config.fields import Fields
from kvplan.importers.config.heads import HEAD_DIM, HEADS, KV_HEADS, LAYERS, WIDTH
from kvplan.spec import parse_spec

NESTED = ("text_config", "llm_config", "language_config", "thinker_config", "decoder_config", "decoder", "vlm_config")
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
STRAYS = ("sliding_window", "attention_chunk_size", "layer_types")
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
    stands_for = None if known else _named_class(values, text, classes)
    if stands_for is not None:
        notes.append(f"model_type {model_type} is not known: read as {stands_for[0]}, which architectures names")
        model_type, known = stands_for[1], classes[stands_for[1]]
    elif known is None:
        _only_plain(text, model_type, source, classes)
        known = {}
        notes.append(f"model_type {model_type} is not known: read by its field names alone")
    heeded = frozenset(known["heeds"]) | ALWAYS_HEEDED if "heeds" in known else None
    decoys = _decoys(Fields(text, known.get("defaults", {}), source, heeded), known)
    notes += [f"{field}: left out, since the class of {model_type} does not heed it" for field in decoys]
    text = {field: value for field, value in text.items() if field not in decoys}
    fields = Fields(text, known.get("defaults", {}), source, heeded)
    spec: dict[str, Any] = {"name": name, **_facts(values, fields, notes)}
    for needed in (*known.get("requires", ()), *classes.get(str(values.get("model_type")), {}).get("requires", ())):
        if needed not in text and any(name in text for name in WIDTH):
            raise NotCountableError(
                f"{source}: {needed}: missing, and its class works it out in a way of its own",
                "write a spec by hand: docs/spec.md",
            )
    if isinstance(built := values.get("architectures"), list) and any(str(n).endswith(ENCODERS) for n in built[:8]):
        raise fields.refuse("architectures", built[0], "which generates nothing and keeps no cache")
    _check_strays(fields, text, known)
    if stands_for is not None or values.get("auto_map") or text.get("auto_map"):
        _check_remote_code(text, known, source, classes)
    outer = classes.get(str(values.get("model_type")), {})
    if outer.get("refuse"):
        known, model_type = outer, str(values["model_type"])
    if known.get("refuse"):
        raise fields.refuse("model_type", model_type, f"which kvplan does not count: {known['refuse']}")
    alone = isinstance(built, list) and any(str(name).endswith("ForCausalLM") for name in built[:8])
    if known.get("encoder_decoder") and not alone:
        spec |= encoder_decoder_spec(fields, known)
    else:
        spec |= decoder_spec(fields, known)
        if outer.get("crosses") and not alone:
            spec["attention"] = with_crossing(spec["attention"])
    if stands_for is not None:
        _check_nothing_assumed(fields, spec)
    spec |= _cache_scheme(values, source, notes)
    read = {"model_type": model_type, **fields.read}
    return Imported(parse_spec(spec, source), tuple((key, _shown(value)) for key, value in read.items()), tuple(notes))


def _only_plain(text: dict[str, Any], model_type: str, source: str, classes: Classes) -> None:
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


def _decoys(fields: Fields, known: dict[str, Any]) -> list[str]:
    """The fields of windows and layer lists that change nothing, since neither the class nor the library heeds them.

    The library's cache goes by a list of layers where the config or its class has one, else by a window, else by
    a chunk; so what stands behind another of them does nothing.
    """
    given = {name: fields.values[name] for name in STRAYS if fields.values.get(name) is not None}
    strays = given.keys() - set(known.get("heeds", STRAYS))
    if not strays or known.get("encoder_decoder"):
        return []
    laid = known.get("layers", {})
    words = {*laid.get("first", ()), *laid.get("period", ()), *laid.get("list", ()), laid.get("last")} - {None}
    decoys: set[str] = set()
    if known.get("lists") or words == {"linear_attention"}:
        decoys |= {"sliding_window", "attention_chunk_size"}
    if "sliding_window" in given.keys() - strays:
        decoys |= {"attention_chunk_size"}
    listed = given.get("layer_types")
    full = isinstance(listed, list) and set(map(str, listed)) == {"full_attention"}
    if full and fields.find("sliding_window") is None and not words and len(listed or []) == fields.number(*LAYERS):
        decoys |= {"layer_types", "attention_chunk_size"}
    return sorted(decoys & strays)


def _check_strays(fields: Fields, text: dict[str, Any], known: dict[str, Any]) -> None:
    """Refuse what lays out windows or layers where the class itself never asks for it.

    The library's cache then does one thing and its model another.
    """
    if "heeds" not in known:
        return
    for name in (*STRAYS, "interleaved_sliding_window", "per_layer_config"):
        if text.get(name) is not None and name not in known["heeds"]:
            raise fields.refuse(name, text[name], "which its class does not ask for")
    for name, other in known.get("aliases", {}).items():
        unread = name not in known["heeds"]
        if text.get(name) is not None and text.get(other) != text[name] and (other in text or unread):
            raise fields.refuse(name, text[name], f"which its class takes for {other}")


def _named_class(values: dict[str, Any], text: dict[str, Any], classes: Classes) -> tuple[str, str] | None:
    """A class of the library that an unknown model type is built of, by `architectures`, and the class's own type.

    Releases with code of their own often name the class that they copy, such as DeepseekV3ForCausalLM.
    """
    named = (text if text.get("architectures") else values).get("architectures")
    if not isinstance(named, list) or len(named) != 1 or (text is not values and not text.get("architectures")):
        return None
    types = [name for name, entry in classes.items() if named[0] in entry.get("builds", ()) and "nested" not in entry]
    return (str(named[0]), types[0]) if len(types) == 1 else None


def _check_nothing_assumed(fields: Fields, spec: dict[str, Any]) -> None:
    """Hold a release that copies a class to what it writes itself: its own defaults may be others than the class's.

    Raises: NotCountableError naming the first field that the cache follows from and the release leaves out.
    """
    assumed = {
        name: value for name, value in fields.read.items() if name in fields.defaults and name not in fields.values
    }
    if assumed.keys() & set(CONTEXT):
        spec.pop("max_context")
    missing = [name for name, value in assumed.items() if value is not False and name not in CONTEXT]
    if missing:
        raise NotCountableError(
            f"{fields.source}: {missing[0]}: missing, and the defaults of an unknown model type are not known",
            "write a spec by hand: docs/spec.md",
        )


def _check_remote_code(text: dict[str, Any], known: dict[str, Any], source: str, classes: Classes) -> None:
    """Where a release brings code of its own, refuse fields that its class does not know and that sound of a cache.

    Raises: NotCountableError naming the first such field.
    """
    if not known:
        return
    understood = {*classes["_plain"]["fields"], *known.get("heeds", ()), *known.get("knows", ()), *ALWAYS_HEEDED}
    for field, value in text.items():
        if field not in understood and value not in (None, False, 0) and SOUNDS_OF_A_CACHE.search(str(field)):
            raise NotCountableError(
                f"{source}: {printable(field)}: found {quoted(value)}, a field of the release's own code that may change the cache",
                "write a spec by hand: docs/spec.md",
            )


def _text_config(values: dict[str, Any], source: str, classes: Classes) -> tuple[dict[str, Any], str]:
    """The config of the text decoder, however deeply a multimodal one nests it, and its model type."""
    model_type = values.get("model_type")
    if model_type == "mistral" and "layer_types" in values:
        model_type = "ministral"  # what the library makes of it
    for _ in range(4):
        outer = classes.get(str(model_type), {})
        inner = outer.get("nested")
        key = next((key for key in NESTED if isinstance(values.get(key), dict)), None)
        if key is not None:
            nested = values[key]
            model_type = nested.get("model_type", inner or model_type)
            values = {**outer.get("partly", {}), **nested}
        elif inner is not None:
            model_type = inner
            values = _unsaid(values, outer, source)
        else:
            break
    if not isinstance(model_type, str):
        raise InputError(
            f"{source}: model_type: found {quoted(model_type)}, allowed the name of an architecture",
            "give a transformers config.json",
        )
    return values, model_type


def _unsaid(values: dict[str, Any], outer: dict[str, Any], source: str) -> dict[str, Any]:
    """The decoder's fields where its config is left out: what the class assumes, under those older releases lay out flat.

    Raises: NotCountableError for flat sizes that the class does not take for the decoder's.
    """
    sizes = [name for name in (*LAYERS, *HEADS, *KV_HEADS, *WIDTH, *HEAD_DIM) if values.get(name) is not None]
    if sizes and not outer.get("flat"):
        raise NotCountableError(
            f"{source}: {sizes[0]}: found {quoted(values[sizes[0]])}, which its class does not take for its text decoder's",
            "give the decoder's fields under text_config",
        )
    return {**outer.get("unsaid", {}), **values}


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
