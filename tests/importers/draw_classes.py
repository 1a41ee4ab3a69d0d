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
import logging
import re
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from recorder.configs import architectures

from kvplan.importers import config as reader
from kvplan.importers.config import decoder, heads, layers, passes, states
from kvplan.importers.config.classes import TABLE
from kvplan.importers.config.layers import by_rule

DEPTHS = (1, 2, 3, 4, 5, 6, 7, 9, 12, 13, 16, 24, 30, 31, 36, 48)
CONV_STATES = "its convolution states are not described by any attention kind"
REFUSED = {
    "cpmant": "it caches prompt_length tokens of its own beside the context",
    "dots3_note_text": "its indexer keys are kept in fp32",
    "glm5_next_text": "its pooled indexer keeps keys by a rule of its own",
    "inkling_text": CONV_STATES,
    "inkling2_text": CONV_STATES,
    "inkling2_loop_text": CONV_STATES,
    "minimax_m3_vl_text": "its sparse layers keep index keys by a rule of its own",
    "mistral_large4_text": "no_rope_layers and kv_source_layers change the latent of single layers",
    "musicgen_melody": "it keeps what it is told first among its own tokens",
    "openai-gpt": "it keeps no cache",
    "qwen4_exp_text": CONV_STATES,
    "reformer": "its hashed attention keeps buckets",
    "rwkv": "RWKV-4 keeps states no attention kind describes",
    "unlimited_ocr_text": "its reference window keeps the whole prompt beside a window",
    "xlm": "its cache is not a KV cache of the library",
    "xlnet": "its memory is not a KV cache",
    "zaya": CONV_STATES,
}
CROSSING = ("canary", "encoder-decoder", "musicgen", "pix2struct", "pp_formulanet", "speech-encoder-decoder", "t5gemma", "t5gemma2", "vision-encoder-decoder")  # fmt: skip
ENCODER_DECODER_TOO = ("dia_decoder", "udop")
GLOBAL_HEADS = {"defaults_too": {"global_head_dim": 512}}
MORE: dict[str, dict[str, Any]] = {
    "cohere2_moe": {"layers": {"period": ["sliding_attention"] * 3 + ["full_attention"], "dense_first": True}},
    "diffusion_gemma_text": GLOBAL_HEADS,
    "gemma4_text": GLOBAL_HEADS,
    "gemma4_unified_text": GLOBAL_HEADS,
    "longcat_flash": {"attentions_per_layer": 2, "aliases": {"num_hidden_layers": "num_layers"}},
    "dory": {
        "defaults_too": {"num_hidden_layers": 36, "n_input_layers": 8, "n_output_layers": 8}
    },  # saved as twice that
    "hrm_text": {"defaults_too": {"num_hidden_layers": 16}},  # of one stack; the class multiplies it
    "mimo_v2_flash": {"sliding_kv_factor": 2, "defaults_too": {"_window_size_leaves_out": 1}},
    "moonshine": {"heads_of_encoder": True},
    "mamba2": {"requires": ["num_heads"]},
    "whisper": {"frames": True},
    "zamba": {"defaults_too": {"_attention_widens": 2}},
    "zamba2": {"defaults_too": {"_attention_widens": 2}},
    "xlstm": {"layers": {"period": ["linear_attention"]}},
}
IGNORED = {
    "cohere_compass_text": {"sliding_window_pattern"},  # asked for where the list is there already
    "gpt_neox": {"head_dim"},  # its code asks for it where it turns positions only
}
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
WELL_KNOWN = """
add_bias_linear add_qkv_bias apply_query_key_layer_scaling apply_residual_connection_post_layernorm
attention_softmax_in_fp32 bias_dropout_fusion classifier_dropout ffn_hidden_size fp32_residual_connection
interleaved_qkv kv_channels layernorm_epsilon multi_query_attention multi_query_group_num num_layers original_rope
padded_vocab_size post_layer_norm quantization_bit rmsnorm rope_ratio seq_length
attn_dropout_prob bf16 emb_dropout_prob fp16 fp32 no_bias rotary_emb_base rotary_pct scale_attn_weights tokenizer_type
use_dynamic_ntk use_flash_attn use_logn_attn
_from_model_config attn_implementation bias model_max_length z_loss_weight
add_classification_head cla_share_factor class_num moe_topk num_shared_expert use_cla use_mixed_mlp_moe
use_qk_norm
block_configs num_key_value_heads_per_layer
activation_fn_name ffn_dim_divisor ffn_multipliers ffn_with_glu max_context_length model_dim normalization_layer_name
normalize_qk_projections num_gqa_groups num_kv_heads num_query_heads num_transformer_layers qkv_multipliers
rope_freq_constant rope_max_length share_input_output_layers
attn_type_list layernorm_full_attention_alpha layernorm_full_attention_beta layernorm_linear_attention_alpha
layernorm_linear_attention_beta layernorm_mlp_alpha layernorm_mlp_beta num_local_experts postnorm rotary_dim
shared_intermediate_size shared_moe_mode
""".split()  # of ChatGLM; Qwen; Baichuan and InternLM 2; Hunyuan; searched Nemotrons and DeciLM; OpenELM; MiniMax: understood on any type


LAYER_LISTS = ("layer_types", "layers_block_type")
LISTS = {*LAYER_LISTS, "block_types"}


def fields_read() -> set[str]:
    """Every field name that the readers look for, taken from their own sources."""
    names: set[str] = set(reader.CONTEXT)
    for module in (reader, decoder, heads, layers, passes, states):
        names |= set(re.findall(r'"([a-zA-Z_][a-zA-Z0-9_]*)"', inspect.getsource(module)))
    return names - LISTS - {*reader.NESTED, "quantization_config"}


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


def layer_list(make: Any, depth: int, names: tuple[str, ...] = LAYER_LISTS, **options: Any) -> list[str] | None:
    """The words the class itself gives `depth` layers, under the first of `names` that it has."""
    made = quietly(make, num_hidden_layers=depth, **options)
    words = next((listed for name in names if (listed := getattr(made, name, None))), None)
    return words if isinstance(words, list) and len(words) == depth else None


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
    """The shortest rule that gives every list: a period from the first layer or up to the last, and its exceptions."""
    longest = lists[max(lists)]
    depth = len(longest)
    for first in range(4):
        for length in range(1, depth // 2 + 1):
            period = [longest[first + (i - first) % length] for i in range(length)]
            candidates: list[dict[str, Any]] = [
                {"period": period},
                {"period": period, "last": longest[-1]},
                {"period": period, "somewhere": longest[-1]},
            ]
            if not first:
                candidates.append({"period": longest[-length:], "from_end": True})
            for rule in candidates:
                whole = {**rule, "first": longest[:first]} if first else rule
                if all(by_rule(whole, depth) == words for depth, words in lists.items()):
                    return whole
    return {}


def window_rule(make: Any) -> str | None:
    """Which layers `use_sliding_window` makes slide: None for those from `max_window_layers` on, `refuse` if unknown."""
    on = {"use_sliding_window": True, "sliding_window": 16, "max_window_layers": 3}
    lists = [words for depth in (7, 12) if (words := layer_list(make, depth, **on))]
    rules: dict[str | None, Any] = {
        None: lambda i: i >= 3,
        "every_other_below": lambda i: i % 2 == 0 and i < 3,
        "without_rope": lambda i: i % 4 == 3,
    }
    for name, slides in rules.items():
        if all(words == ["sliding_attention" if slides(i) else "full_attention" for i in range(len(words))] for words in lists):  # fmt: skip
            return name
    return "refuse"


def of_given_lists(make: Any, rule: dict[str, Any]) -> dict[str, Any]:
    """What the class does to a list that a config gives: `forced`, the last word it puts there, and whether it `cuts`."""
    found: dict[str, Any] = {}
    words = by_rule(rule, 12) if "period" in rule else rule.get("list", ["full_attention"] * 12)
    if "last" in rule:
        other = next(word for word in rule["period"] if word != rule["last"])
        kept = quietly(make, num_hidden_layers=len(words), layer_types=[*words[:-1], other])
        if kept is not None and kept.layer_types[-1] == rule["last"]:
            found["forced"] = rule["last"]
    longer = quietly(make, num_hidden_layers=len(words), layer_types=[*words, words[-1]], num_nextn_predict_layers=1)
    if longer is not None and getattr(longer, "layer_types", None) == words:
        found["cuts"] = True
    return found


def drawn() -> dict[str, Any]:
    """The whole table."""
    import transformers
    from transformers.models.auto import modeling_auto as auto
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    transformers.logging.set_verbosity(logging.CRITICAL)
    read = fields_read()
    speaks = set(auto.MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES) | set(auto.MODEL_FOR_SPEECH_SEQ_2_SEQ_MAPPING_NAMES)
    table: dict[str, Any] = {}
    waiting: list[tuple[str, Any]] = [
        (name, CONFIG_MAPPING[name]) for name in language_model_types() if name in CONFIG_MAPPING
    ]
    plain: set[str] = {*PLAIN_TOO, *WELL_KNOWN}
    while waiting:
        name, make = waiting.pop()
        made = quietly(make)
        if made is None or name in table:
            continue
        default = made.to_dict()
        if name in PLAIN:
            plain |= {field for field in default if not SHAPES_A_CACHE.search(field)}
        text = made.get_text_config(decoder=True)
        text = made.vlm_config.text_config if text is made and hasattr(made, "vlm_config") else text
        if text is not made and text.model_type != name:
            table[name] = {"nested": text.model_type, **of_nested(make, made, text, read), **MORE.get(name, {})}
            waiting.append((text.model_type, type(text)))
            if "thinker_config" in default:
                waiting.append((f"{name}_thinker", CONFIG_MAPPING[f"{name}_thinker"]))
            continue
        table[name] = entry_of(name, make, made, read)
        if (default.get("is_encoder_decoder") and name in speaks) or name in ENCODER_DECODER_TOO:
            table[name]["encoder_decoder"] = True
    builders = Counter(cls for classes in architectures().values() for cls in classes)
    for name, classes in architectures().items():
        own = [c for c in classes if builders[c] == 1 or getattr(transformers, c).config_class.model_type == name]
        if name in table and own:
            table[name]["builds"] = own
    for name in CROSSING:
        table.setdefault(name, {})["crosses"] = True
    table |= {name: {"refuse": why} for name, why in REFUSED.items()}
    table["_plain"] = {"fields": sorted(plain)}
    return table


def entry_of(name: str, make: Any, made: Any, read: set[str]) -> dict[str, Any]:
    """What the table says of one class that holds a decoder's fields itself."""
    default = made.to_dict()
    moving = derived(make, default) | {"indexer_types"}
    kept = sorted(field for field in read if plain_value(default.get(field)) and field not in moving)
    more = dict(MORE.get(name, {}))
    entry: dict[str, Any] = {
        "defaults": {**{field: default[field] for field in kept}, **more.pop("defaults_too", {})},
        "knows": sorted(name for name in default if SOUNDS.search(name)),
        "heeds": sorted((read | LISTS) & heeded(make, default) - IGNORED.get(name, set())),
        "aliases": {
            alias: other
            for alias, other in getattr(make, "attribute_map", {}).items()
            if alias in read and other in read and alias not in default
        },
        **of_layers(make, made, default),
        **more,
    }
    return {name: value for name, value in entry.items() if value or name in ("defaults", "knows", "heeds")}


def of_layers(make: Any, made: Any, default: dict[str, Any]) -> dict[str, Any]:
    """How a class lays out its layers, their windows and their indexers."""
    rule = layer_rule(make, default)
    found: dict[str, Any] = {"layers": {**rule, **of_given_lists(make, rule)}}
    owners = {depth: words for depth in DEPTHS if (words := layer_list(make, depth, ("indexer_types",)))}
    if owners:
        found["indexers"] = _rule_of(owners)
    if any(isinstance(getattr(made, name, None), list) for name in LAYER_LISTS):
        found["lists"] = True
        short = quietly(make, num_hidden_layers=3)
        if short is not None and short.num_hidden_layers == made.num_hidden_layers != 3:
            found |= {"depth_by_list": True, "layers": {"list": made.layer_types}}
    if "use_sliding_window" in default or "max_window_layers" in default:
        found["windows"] = window_rule(make)
    return found


def of_nested(make: Any, made: Any, text: Any, read: set[str]) -> dict[str, Any]:
    """What a multimodal class makes of a config that leaves out its text decoder's, or part of it.

    `unsaid`: fields of the decoder where its config is left out whole; `partly`: fields that a partial one leaves
    out, where the class puts in others than the decoder's own class; `flat`: whether it takes them from the outside.
    """
    names = read | set(LAYER_LISTS)
    plain = quietly(type(text))
    key = next((name for name in reader.NESTED if getattr(made, name, None) is text), None)
    found: dict[str, Any] = {}
    if plain is not None:
        own = plain.to_dict()
        moving = derived(type(text), own)
        whole = {n: v for n, v in text.to_dict().items() if n in names and (v != own.get(n) or n in moving)}
        found["unsaid"] = {n: v for n, v in whole.items() if plain_value(v) or own.get(n) is not None}
        found["partly"] = {}
        for given in ({"vocab_size": 320}, {"hidden_size": 512, "num_attention_heads": 8}) if key else ():
            partial, alone = quietly(make, **{key: given}), quietly(type(text), **given)
            if partial is not None and alone is not None:
                theirs, own = getattr(partial, key).to_dict(), alone.to_dict()
                found["partly"] |= {n: v for n, v in theirs.items() if n in names and v != own.get(n)}
    flat = quietly(make, num_hidden_layers=5, num_attention_heads=8, hidden_size=512)
    sizes = ("num_hidden_layers", "num_attention_heads", "hidden_size")
    if flat is not None:
        found["flat"] = [getattr(flat.get_text_config(decoder=True), name, None) for name in sizes] == [5, 8, 512]
    return {name: value for name, value in found.items() if value}


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
        *({name: default[name] * 2} for name in heads.HEAD_DIM if isinstance(default.get(name), int)),
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
        sys.exit(0 if text == TABLE.read_text() else "classes.json is stale: run tests/importers/draw_classes.py")
    TABLE.write_text(text)
