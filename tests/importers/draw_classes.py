"""Draw `kvplan/importers/config/classes.json` from the transformers library itself.

Run it with the library installed: `python tests/importers/draw_classes.py`; `--check` only compares. For every
model type with a language model it notes the class defaults of the fields that kvplan reads, the type a
multimodal config nests, and the rule by which the class lays out layers when a config gives no list, found by
asking the class at several depths. What kvplan refuses, and why, stands in `REFUSED` here.
"""

from __future__ import annotations

import contextlib
import inspect
import io
import json
import re
import sys
from pathlib import Path
from typing import Any

from kvplan.importers import config as reader
from kvplan.importers.config import decoder, heads, layers, states

TARGET = Path(reader.__file__).parent / "classes.json"
DEPTHS = (4, 5, 7, 12, 13, 24, 30, 31, 36)
CONV_STATES = "its convolution states are not described by any attention kind"
REFUSED = {
    "cpmant": "it caches prompt_length tokens of its own beside the context",
    "dia_decoder": "its cross-attention has heads of its own",
    "dory": "its recurrent loops give a layer several caches",
    "dots3_note_text": "its indexer keys are kept in fp32",
    "glm5_next_text": "its pooled indexer keeps keys by a rule of its own",
    "hrm_text": "its layers are passed several times, each pass with a cache of its own",
    "inkling_text": CONV_STATES,
    "inkling2_text": CONV_STATES,
    "inkling2_loop_text": CONV_STATES,
    "minimax_m3_vl_text": "its sparse layers keep index keys by a rule of its own",
    "mistral_large4_text": "no_rope_layers and kv_source_layers change the latent of single layers",
    "moonshine": "its decoder takes head counts from its encoder",
    "musicgen": "its decoder crosses a text encoder by heads of its own",
    "musicgen_melody": "its decoder crosses a text encoder by heads of its own",
    "openai-gpt": "it keeps no cache",
    "qwen4_exp_text": CONV_STATES,
    "reformer": "its hashed attention keeps buckets",
    "rwkv": "RWKV-4 keeps states no attention kind describes",
    "unlimited_ocr_text": "its reference window keeps the whole prompt beside a window",
    "xlm": "its cache is not a KV cache of the library",
    "xlnet": "its memory is not a KV cache",
    "zaya": CONV_STATES,
}
CROSSING = ("canary", "encoder-decoder", "pix2struct", "pp_formulanet", "speech-encoder-decoder", "t5gemma", "t5gemma2", "vision-encoder-decoder")  # fmt: skip
ENCODER_DECODER_TOO = ("udop",)
GLOBAL_HEADS = {"defaults_too": {"global_head_dim": 512}}
MORE: dict[str, dict[str, Any]] = {
    "cohere2_moe": {"requires": ["layer_types"]},
    "cohere_compass_text": {"requires": ["layer_types"]},
    "diffusion_gemma_text": GLOBAL_HEADS,
    "gemma4_text": GLOBAL_HEADS,
    "gemma4_unified_text": GLOBAL_HEADS,
    "olmo_hybrid": {"requires": ["layer_types"]},
    "stablelm": {"requires": ["num_key_value_heads"]},
    "switch_transformers": {"requires": ["num_decoder_layers"]},
    "voxtral": {"requires": ["head_dim"]},
    "voxtral_realtime": {"requires": ["head_dim"]},
    "longcat_flash": {"attentions_per_layer": 2, "aliases": {"num_hidden_layers": "num_layers"}},
    "mimo_v2_flash": {"sliding_kv_factor": 2},
    "mamba2": {"requires": ["num_heads"]},
    "whisper": {"frames": True},
    "zamba": {"requires": ["attention_head_dim"]},
    "zamba2": {"requires": ["attention_head_dim", "mamba_headdim"]},
    "xlstm": {"layers": {"period": ["linear_attention"]}},
}
IGNORED = {"gpt_neox": {"head_dim"}}  # its code asks for it where it turns positions only
PLAIN = """llama qwen2 qwen3 phi olmo olmo2 gpt_neox granite cohere gemma mixtral qwen2_moe qwen3_moe olmoe starcoder2
stablelm glm glm4 persimmon seed_oss nemotron helium ernie4_5 arcee smollm3 internlm3 exaone apertus hyperclovax""".split()
SHAPES_A_CACHE = re.compile(
    r"window|layer_types|pattern|shared|chunk_size$|no_rope|multi_query|lora|state|conv|ssm|mamba|block|index|compress"
    r"|linear|recur|loop|cross|encoder"
)
PLAIN_TOO = """architectures auto_map torch_dtype dtype transformers_version _name_or_path use_cache chunk_size_feed_forward
encoder_no_repeat_ngram_size rope_scaling rope_theta n_embd n_head n_layer quantization_config max_position_embeddings
sliding_window use_sliding_window max_window_layers cross_attention_hidden_size add_cross_attention tie_encoder_decoder
is_encoder_decoder is_decoder""".split()


LISTS = {"layer_types", "layers_block_type", "block_types"}


def fields_read() -> set[str]:
    """Every field name that the readers look for, taken from their own sources."""
    names: set[str] = set(reader.CONTEXT)
    for module in (reader, decoder, heads, layers, states):
        names |= set(re.findall(r'"([a-z_][a-zA-Z0-9_]*)"', inspect.getsource(module)))
    return names - LISTS - {"text_config", "decoder", "quantization_config"}


def quietly(make: Any, **options: Any) -> Any:
    """`make(**options)` without the library's talk; None where it refuses."""
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            return make(**options)
    except Exception:  # noqa: BLE001  # a class that cannot be made from this alone says so in many ways
        return None


def language_model_types() -> list[str]:
    """Model types that have a class which generates text."""
    from transformers.models.auto import modeling_auto as auto

    found: set[str] = set()
    for kind in ("CAUSAL_LM", "SEQ_TO_SEQ_CAUSAL_LM", "IMAGE_TEXT_TO_TEXT", "MULTIMODAL_LM", "SPEECH_SEQ_2_SEQ", "AUDIO_TEXT_TO_TEXT"):  # fmt: skip
        found |= set(getattr(auto, f"MODEL_FOR_{kind}_MAPPING_NAMES", {}))
    return sorted(found)


def layer_list(make: Any, depth: int, **options: Any) -> list[str] | None:
    """The words the class itself gives `depth` layers."""
    made = quietly(make, num_hidden_layers=depth, **options)
    words = getattr(made, "layer_types", None) or getattr(made, "layers_block_type", None)
    return words if isinstance(words, list) and len(words) == depth else None


def laid_out(rule: dict[str, Any], depth: int) -> list[str]:
    """What `rule` says of `depth` layers."""
    period = rule["period"]
    start = -depth if rule.get("from_end") else 0
    words = [period[(start + i) % len(period)] for i in range(depth)]
    return [*words[:-1], rule["last"]] if rule.get("last") else words


def layer_rule(make: Any, default: dict[str, Any]) -> dict[str, Any]:
    """The rule that gives the class's own words at every depth asked; else its only known list."""
    lists = {depth: words for depth in DEPTHS if (words := layer_list(make, depth))}
    own = default.get("layer_types") or default.get("layers_block_type")
    if len(lists) < 5:  # the class wants more than a depth
        return (_rule_of({len(own): own}) or {"list": own}) if isinstance(own, list) and own else {}
    rule = _rule_of(lists)
    if not rule:
        return {"list": own}
    return {} if rule == {"period": ["full_attention"]} and "sliding_window" not in default else rule


def _rule_of(lists: dict[int, list[str]]) -> dict[str, Any]:
    longest = lists[max(lists)]
    for length in range(1, len(longest) // 2 + 1):
        candidates: list[dict[str, Any]] = [
            {"period": longest[:length]},
            {"period": longest[:length], "last": longest[-1]},
            {"period": longest[-length:], "from_end": True},
        ]
        for rule in candidates:
            if all(laid_out(rule, depth) == words for depth, words in lists.items()):
                return rule
    return {}


def windows_by_a_rule_of_its_own(make: Any) -> bool:
    """True where `use_sliding_window` does not simply slide the layers from `max_window_layers` on."""
    for depth in (7, 12):
        words = layer_list(make, depth, use_sliding_window=True, sliding_window=16, max_window_layers=3)
        if words and words != ["full_attention" if i < 3 else "sliding_attention" for i in range(depth)]:
            return True
    return False


def drawn() -> dict[str, Any]:
    """The whole table."""
    import transformers
    from transformers.models.auto import modeling_auto as auto
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    transformers.logging.set_verbosity_error()
    read = fields_read()
    speaks = set(auto.MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES) | set(auto.MODEL_FOR_SPEECH_SEQ_2_SEQ_MAPPING_NAMES)
    table: dict[str, Any] = {}
    waiting: list[tuple[str, Any]] = [
        (name, CONFIG_MAPPING[name]) for name in language_model_types() if name in CONFIG_MAPPING
    ]
    plain: set[str] = set(PLAIN_TOO)
    while waiting:
        name, make = waiting.pop()
        made = quietly(make)
        if made is None or name in table:
            continue
        default = made.to_dict()
        if name in PLAIN:
            plain |= {field for field in default if not SHAPES_A_CACHE.search(field)}
        text = made.get_text_config(decoder=True)
        if text is not made and text.model_type != name:
            inner = f"{name}_thinker" if "thinker_config" in default else text.model_type
            table[name] = {"nested": inner, **MORE.get(name, {})}
            waiting.append((text.model_type, type(text)))
            if inner != text.model_type:
                waiting.append((inner, CONFIG_MAPPING[inner]))
            continue
        moving = derived(make, default)
        kept = sorted(field for field in read if plain_value(default.get(field)) and field not in moving)
        entry: dict[str, Any] = {"defaults": {field: default[field] for field in kept}}
        entry["knows"] = sorted(name for name in default if SOUNDS.search(name))
        entry["heeds"] = sorted((read | LISTS) & heeded(make, default) - IGNORED.get(name, set()))
        aliases = {
            name: other
            for name, other in getattr(make, "attribute_map", {}).items()
            if name in read and other in read and name not in default
        }
        if aliases:
            entry["aliases"] = aliases
        rule = layer_rule(make, default)
        if rule:
            entry["layers"] = rule
        switched = "use_sliding_window" in default or "max_window_layers" in default
        if switched and windows_by_a_rule_of_its_own(make):
            entry["windows"] = "refuse"
        if (default.get("is_encoder_decoder") and name in speaks) or name in ENCODER_DECODER_TOO:
            entry["encoder_decoder"] = True
        more = dict(MORE.get(name, {}))
        entry["defaults"] |= more.pop("defaults_too", {})
        table[name] = {**entry, **more}
    for name in CROSSING:
        table.setdefault(name, {})["crosses"] = True
    table |= {name: {"refuse": why} for name, why in REFUSED.items()}
    table["_plain"] = {"fields": sorted(plain)}
    return table


SOUNDS = reader.SOUNDS_OF_A_CACHE
SIZES = (*heads.HEADS, *heads.WIDTH, *heads.LAYERS)


def derived(make: Any, default: dict[str, Any]) -> set[str]:
    """Defaults that the class works out from heads, widths or depth: they hold for its own size alone."""
    moved: set[str] = set()
    sizes = {name: default[name] for name in SIZES if isinstance(default.get(name), int)}
    for factor in (
        {n: v * 2 for n, v in sizes.items() if n in heads.WIDTH},
        {n: v * 2 for n, v in sizes.items() if n not in heads.LAYERS},
        {n: v * 2 for n, v in sizes.items() if n in heads.HEADS},
        *({name: sizes[name] * 2} for name in heads.LAYERS if name in sizes),
    ):
        made = quietly(make, **factor)
        if made is not None:
            other = made.to_dict()
            lists = set() if set(factor) - set(heads.LAYERS) else {n for n, v in default.items() if isinstance(v, list)}
            moved |= {n for n in default if other.get(n) != default[n] and n not in factor} - lists
    return moved


def heeded(make: Any, default: dict[str, Any]) -> set[str]:
    """Every field the class takes notice of: its own, other names of those, and what its code or its model's asks for."""
    names = set(default) | set(getattr(make, "attribute_map", {}))
    for file in Path(inspect.getfile(make)).parent.glob("modeling_*.py"):
        code = file.read_text()
        names |= set(re.findall(r"config\.(\w+)", code)) | set(re.findall(r'config,\s*"(\w+)"', code))
    for cls in make.__mro__:
        if cls.__module__.startswith("transformers.models"):
            names |= set(re.findall(r'kwargs\.(?:pop|get)\(\s*"(\w+)"', inspect.getsource(cls)))
    return names


def plain_value(value: Any) -> bool:
    """True for a default that a reader can use: a number, a word, or a list or mapping of them."""
    return value is not None and value not in ({}, [])


def text_of(table: dict[str, Any]) -> str:
    """The table as the file holds it: one model type a line."""
    lines = [f"{json.dumps(name)}: {json.dumps(table[name], sort_keys=True)}" for name in sorted(table)]
    return "{\n" + ",\n".join(lines) + "\n}\n"


if __name__ == "__main__":
    text = text_of(drawn())
    if "--check" in sys.argv:
        sys.exit(0 if text == TARGET.read_text() else "classes.json is stale: run tests/importers/draw_classes.py")
    TARGET.write_text(text)
