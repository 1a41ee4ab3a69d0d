"""The model file as a log of llama.cpp shows it: metadata lines, and what `print_info` makes of them.

Values are cut at 40 characters, so that lists of layers come from `print_info`, which prints them whole.

Worked: `- kv  10: llama.block_count u32 = 32` is the key `llama.block_count` with the value 32.

Source: llama.cpp as vendored by llama-cpp-python 0.3.36: `src/llama-model-loader.cpp`, `src/llama-model.cpp`.
"""

from __future__ import annotations

import re
from typing import Any

from kvplan.logs import Log

KEY = re.compile(
    r"- kv {1,4}[0-9]{1,5}: {1,60}([\w.-]{1,100}) ([a-z0-9]{1,8}(?:\[[a-z0-9]{1,8},[0-9]{1,12}\])?) {1,20}= (.{0,200})"
)
INFO = re.compile(r"(?:print_info|llm_load_print_meta): ([\w .]{1,24}?) {0,24}= (.{1,20000})")
FACTS = {
    "n_ctx_train": "context_length",
    "n_embd": "embedding_length",
    "n_layer": "block_count",
    "n_layer_all": "block_count",
    "n_head": "attention.head_count",
    "n_head_kv": "attention.head_count_kv",
    "n_swa": "attention.sliding_window",
    "n_embd_head_k": "attention.key_length",
    "n_embd_head_v": "attention.value_length",
    "n_embd_head_k_swa": "attention.key_length_swa",
    "n_embd_head_v_swa": "attention.value_length_swa",
    "n_ff": "feed_forward_length",
    "n_lora_kv": "attention.kv_lora_rank",
    "n_rot": "rope.dimension_count",
    "n_embd_head_k_mla": "attention.key_length_mla",
    "n_embd_head_v_mla": "attention.value_length_mla",
    "ssm_d_conv": "ssm.conv_kernel",
    "ssm_d_inner": "ssm.inner_size",
    "ssm_d_state": "ssm.state_size",
    "ssm_dt_rank": "ssm.time_step_rank",
    "ssm_n_group": "ssm.group_count",
}
"""What `print_info` calls the keys of a GGUF."""


def metadata(log: Log, keeps_values: bool) -> tuple[dict[str, Any], tuple[str, ...]]:
    """(the keys of the file, what may name the model). keeps_values: a cache of the log holds values."""
    values: dict[str, Any] = {}
    for _, line in log.holding("- kv "):
        found = KEY.match(line)
        if found:
            value = _value(found[2], found[3].rstrip())
            if value is None and found[2].startswith("arr["):
                value = ()  # a list that the log cuts short: known to be there, and no use
            if value is not None and not found[1].startswith("tokenizer."):
                values.setdefault(found[1], value)
    facts = _facts(log)
    architecture = values.get("general.architecture") or facts.get("arch")
    if isinstance(architecture, str):
        _add_facts(values, facts, architecture)
        if keeps_values and _keeps_whole_heads(facts):
            values = _whole_heads(values, facts)
    names = [values.get("general.name"), facts.get("general.name"), values.get("general.basename")]
    names += [match[1] for _, match in log.found("tensors from ", r"\S{0,400}?([\w.+-]{1,150})\.gguf")]
    return values, tuple(dict.fromkeys(name for name in names if isinstance(name, str) and name))


def _keeps_whole_heads(facts: dict[str, str]) -> bool:
    """True where a model of latents is described as before they were cached: V is as wide as all heads."""
    latent, heads = _number(facts.get("n_lora_kv", "")), _number(facts.get("n_head_kv", ""))
    width, all_heads = _number(facts.get("n_embd_head_v", "")), _number(facts.get("n_embd_v_gqa", ""))
    if not (isinstance(latent, int) and isinstance(heads, int) and isinstance(width, int)):
        return False
    return latent > 0 and heads > 1 and all_heads == heads * width


def _whole_heads(values: dict[str, Any], facts: dict[str, str]) -> dict[str, Any]:
    """The same model as one of plain heads, which is what such a release caches."""
    kept = {key: value for key, value in values.items() if key.startswith("general.")}
    kept["general.architecture"] = "deepseek"
    for name in ("n_ctx_train", "n_embd", "n_layer", "n_head", "n_head_kv", "n_embd_head_k", "n_embd_head_v"):
        value = _number(facts.get(name, ""))
        if value is not None:
            kept[f"deepseek.{FACTS[name]}"] = value
    return kept


def _add_facts(values: dict[str, Any], facts: dict[str, str], architecture: str) -> None:
    """What `print_info` says, where the metadata is cut short or is not in the log."""
    dumped = "general.architecture" in values
    values["general.architecture"] = architecture
    for name, key in FACTS.items():
        value, full = _number(facts.get(name, "")), f"{architecture}.{key}"
        if value is not None and (values.get(full) == () if dumped else full not in values):
            values[full] = value
    if not dumped:
        _add_drafts(values, facts, architecture)


def _add_drafts(values: dict[str, Any], facts: dict[str, str], architecture: str) -> None:
    whole, own = _number(facts.get("n_layer_all", "")), _number(facts.get("n_layer", ""))
    if isinstance(whole, int) and isinstance(own, int) and whole > own:
        values[f"{architecture}.block_count"] = whole
        values.setdefault(f"{architecture}.nextn_predict_layers", whole - own)


def _facts(log: Log) -> dict[str, str]:
    """What `print_info` says, each name once."""
    facts: dict[str, str] = {}
    for word in ("print_info: ", "llm_load_print_meta: "):
        for _, line in log.holding(word):
            found = INFO.match(line)
            if found:
                facts.setdefault(found[1].strip(), found[2].strip())
    return facts


def _number(text: str) -> int | tuple[int, ...] | None:
    """A whole number, or a list of them, one for each layer."""
    if text.isascii() and text.isdigit() and len(text) < 16:
        return int(text)
    if text[:1] == "[" and text[-1:] == "]":
        items = [item.strip() for item in text[1:-1].split(",")]
        if all(item.isascii() and item.isdigit() and len(item) < 16 for item in items):
            return tuple(int(item) for item in items)
    return None


def _value(kind: str, text: str) -> Any:
    """A metadata value as the log writes it; None for texts cut short and lists that are."""
    if kind.startswith("arr["):
        return _bools(text) if "bool" in kind else _number(text)
    if kind == "str":
        return text
    if kind == "bool":
        return text == "true"
    return _number(text)


def _bools(text: str) -> tuple[int, ...] | None:
    if text[:1] == "[" and text[-1:] == "]":
        items = [item.strip() for item in text[1:-1].split(",")]
        if all(item in ("true", "false") for item in items):
            return tuple(int(item == "true") for item in items)
    return None
