"""Which layer keeps what: layer lists, letter patterns, periods, windows and sharing, in all their spellings.

The answer is one word per layer: full, sliding, chunked, recurrent, conv, both (attention and state in one
layer), indexed, plain (indexed elsewhere, not here), csa, hca, cross, shared or none.
"""

from __future__ import annotations

from typing import Any

from kvplan.importers.config.fields import Fields

WORDS = {
    "full_attention": "full",
    "attention": "full",
    "full": "full",
    "global": "full",
    "sliding_attention": "sliding",
    "sliding": "sliding",
    "local": "sliding",
    "chunked_attention": "chunked",
    "linear_attention": "recurrent",
    "linear": "recurrent",
    "mamba": "recurrent",
    "mamba2": "recurrent",
    "recurrent": "recurrent",
    "conv": "conv",
    "hybrid": "both",
    "moe": "none",
    "mlp": "none",
    "indexed_attention": "indexed",
    "deepseek_sparse_attention": "indexed",
    "compressed_sparse_attention": "csa",
    "heavily_compressed_attention": "hca",
}
RATES = {
    "csa": ("compressed_sparse_attention", "compress_rate_csa"),
    "hca": ("heavily_compressed_attention", "compress_rate_hca"),
}
LETTERS = {"M": "recurrent", "*": "full", "-": "none", "E": "none"}


def layer_words(fields: Fields, count: int, rule: dict[str, Any]) -> list[str]:
    """One word per layer.

    count: layers of the model. rule: what the class does where the config gives no list: `period`, the
    words that repeat from the first layer (or, `from_end`, up to the last), `first`, those of the first layers
    in their place, `last`, the word it gives the last layer, `forced`, that it does so in a given list too,
    `cuts`, that it cuts a given list at its depth, `somewhere`, the word it gives the last layer when no layer
    has it, `list`, the only list known, `dense_first`, when its dense layers have a period of their own, and
    `windows`, which layers its switch makes slide when those are not the ones from `max_window_layers` on.

    Raises: NotCountableError for a word or pattern that is not understood.
    """
    words = (
        _listed(fields, count, rule)
        or _by_position(fields, count, rule)
        or _by_window(fields, count, rule)
        or _by_class(fields, count, rule)
    )
    if len(words) != count:
        raise fields.refuse("layer_types", f"{len(words)} layers", f"but the model has {count}")
    words = _without_unused_windows(fields, words)
    crossing = set(fields.numbers("cross_attention_layers") or [])
    words = ["cross" if i in crossing else word for i, word in enumerate(words)]
    if fields.find("use_cla"):
        every = fields.need("cla_share_factor")
        words = [word if i % every == 0 else "shared" for i, word in enumerate(words)]
    shared = fields.number("num_kv_shared_layers") or 0
    if shared:
        words = words[: max(0, count - shared)] + ["shared"] * min(shared, count)
    return words


def _listed(fields: Fields, count: int, rule: dict[str, Any]) -> list[str] | None:
    """A list or string in the config itself, one entry per layer."""
    letters = fields.values.get("hybrid_override_pattern")
    listed = any(isinstance(fields.values.get(name), list) for name in ("layer_types", "layers_block_type"))
    if isinstance(letters, str) and letters and not listed:
        fields.read["hybrid_override_pattern"] = letters
        unknown = set(letters) - set(LETTERS)
        if unknown:
            raise fields.refuse("hybrid_override_pattern", min(unknown))
        return [LETTERS[letter] for letter in letters]
    for name in ("layer_types", "layers_block_type", "block_types"):
        if isinstance(fields.values.get(name), list):
            words = fields.words(name) or []
            known = [_word(fields, name, word) for word in words]
            if rule.get("period") == ["indexed_attention"] and "full" in known:
                raise fields.refuse(name, "full_attention", "but its class indexes every layer")
            if known and rule.get("forced") and known[-1] != WORDS[rule["forced"]]:
                raise fields.refuse(name, words[-1], f"but its class makes the last layer {rule['forced']}")
            if name != "block_types":
                return known[:count] if rule.get("cuts") else known
            bounded = ["sliding" if word == "full" else word for word in known]  # Griffin's attention is local
            return [bounded[i % len(bounded)] for i in range(count)] if bounded else None
    ratios = fields.numbers("compress_ratios") if fields.values.get("compress_ratios") is not None else None
    return None if ratios is None else _by_ratio(fields, ratios, count)


def _by_ratio(fields: Fields, ratios: list[int], count: int) -> list[str]:
    """DeepSeek-V4's ratios, those of its draft layers behind them: 0 keeps a window of entries alone."""
    known = {0: "entries", **{compress_rate(fields, word): word for word in RATES}}
    strange = [ratio for ratio in ratios[:count] if ratio not in known]
    if strange or len(ratios) < count:
        raise fields.refuse("compress_ratios", strange[0] if strange else f"{len(ratios)} entries")
    return [known[ratio] for ratio in ratios[:count]]


def compress_rate(fields: Fields, word: str) -> int:
    """Tokens behind one compressed entry of such a layer; an older release's own field for it counts first."""
    name, older = RATES[word]
    rate = fields.number(older)
    return fields.inner("compress_rates").need(name) if rate is None else rate


def _word(fields: Fields, name: str, word: str) -> str:
    if word not in WORDS:
        raise fields.refuse(name, word)
    return WORDS[word]


def _by_position(fields: Fields, count: int, rule: dict[str, Any]) -> list[str] | None:
    """Positions of the attention layers among recurrent ones."""
    nested = fields.values.get("linear_attn_config")
    if isinstance(nested, dict) and isinstance(nested.get("full_attn_layers"), list):
        fields.read["linear_attn_config.full_attn_layers"] = nested["full_attn_layers"]
        full, others = nested["full_attn_layers"], nested.get("kda_layers", None)
        everything = (
            sorted([*full, *others])
            if isinstance(others, list) and all(type(i) is int for i in (*full, *others))
            else None
        )
        if everything != list(range(1, count + 1)):  # counted from one, and every layer is in one of the two
            raise fields.refuse(
                "linear_attn_config.full_attn_layers",
                full,
                f"and with kda_layers it does not name layers 1 to {count} once each",
            )
        return ["full" if i + 1 in full else "recurrent" for i in range(count)]
    if fields.heeded is None and fields.values.get("attn_type_list") is not None:
        return ["full" if attends else "recurrent" for attends in fields.numbers("attn_type_list") or []]
    for name, other in (("attn_layer_indices", "recurrent"), ("full_attn_idxs", "conv")):
        if isinstance(fields.values.get(name), list):
            full = set(fields.numbers(name) or [])
            return ["full" if i in full else other for i in range(count)]
    if "attn_layer_period" in fields.values or "attn_layer_offset" in fields.values:
        period, offset = fields.need("attn_layer_period"), fields.number("attn_layer_offset") or 0
        first = [_word(fields, "layer_types", word) for word in rule.get("first", [])]  # Zamba's lie before the period
        attends = "full" if fields.find("n_mamba_heads") is None else "both"
        return [*first, *(attends if i % period == offset else "recurrent" for i in range(count - len(first)))][:count]
    chunked = _by_positions_given(fields, count) if "chunked_attention" in (rule.get("period") or ()) else None
    if chunked is not None:
        return chunked
    group = fields.number("layer_group_size") if "layer_group_size" in fields.values else None
    if group:
        return ["recurrent" if (i + 1) % group else "full" for i in range(count)]
    interval = fields.number("full_attention_interval") if "full_attention_interval" in fields.values else None
    if interval:
        return ["recurrent" if (i + 1) % interval else "full" for i in range(count)]
    return None


def _by_positions_given(fields: Fields, count: int) -> list[str] | None:
    """Llama 4: layers without RoPE look at everything."""
    if fields.values.get("no_rope_layers"):
        return ["chunked" if switch else "full" for switch in fields.numbers("no_rope_layers") or []]
    every = fields.values.get("no_rope_layer_interval") and fields.need("no_rope_layer_interval")
    return ["chunked" if (i + 1) % every else "full" for i in range(count)] if every else None


def _by_window(fields: Fields, count: int, rule: dict[str, Any]) -> list[str] | None:
    """Periods of sliding layers, and layers past which all slide."""
    private = fields.values.get("_sliding_window_pattern")
    if private is not None and private != fields.defaults.get("_sliding_window_pattern"):
        raise fields.refuse("_sliding_window_pattern", private, "which its class does not take from a config")
    for name in ("sliding_window_pattern", "global_attn_every_n_layers"):
        pattern = fields.values.get(name)
        if isinstance(pattern, str) and pattern and set(pattern) <= {"L", "G"}:
            fields.read[name] = pattern
            return ["sliding" if pattern[i % len(pattern)] == "L" else "full" for i in range(count)]
        if isinstance(pattern, int) and not isinstance(pattern, bool) and pattern > 0 and rule.get("period"):
            fields.read[name] = pattern
            return _sliding_by_period(fields, count, pattern, rule)
    if rule.get("dense_first"):
        return _sliding_by_period(fields, count, len(rule["period"]), rule)
    switchless = fields.heeded is not None and "use_sliding_window" not in fields.heeded
    if switchless and fields.find("max_window_layers") is not None and fields.find("sliding_window") is not None:
        first = fields.need("max_window_layers")
        return ["sliding" if i >= first else "full" for i in range(count)]
    if fields.find("use_sliding_window") is not None:
        if not fields.flag("use_sliding_window") or fields.find("sliding_window") is None:
            return ["full"] * count
        if rule.get("windows") == "without_rope":
            return _sliding_without_rope(fields, count)
        if rule.get("windows") == "every_other_below":
            first = fields.number("max_window_layers") or 0
            return ["full" if i % 2 or i >= first else "sliding" for i in range(count)]
        if rule.get("windows"):
            raise fields.refuse(
                "use_sliding_window", True, "and the class has a rule of its own for which layers slide"
            )
        first = fields.number("max_window_layers") or 0
        return ["sliding" if i >= first else "full" for i in range(count)]
    return None


def _sliding_without_rope(fields: Fields, count: int) -> list[str]:
    """SmolLM 3: the layers without RoPE slide, which a list names by 0 or a period places last."""
    turned = fields.numbers("no_rope_layers")
    if turned is None:
        every = fields.need("no_rope_layer_interval")
        turned = [(i + 1) % every for i in range(count)]
    if len(turned) < count:
        raise fields.refuse("no_rope_layers", f"{len(turned)} entries")
    return ["full" if turn else "sliding" for turn in turned[:count]]


def _sliding_by_period(fields: Fields, count: int, period: int, rule: dict[str, Any]) -> list[str]:
    """A full layer at the end of every period; Cohere's dense layers come first and have a period of their own."""
    dense = min(fields.number("first_k_dense_replace") or 0, count) if rule.get("dense_first") else 0
    own = fields.need("prefix_dense_sliding_window_pattern") if dense else 1
    first = ["sliding" if (i + 1) % own else "full" for i in range(dense)]
    return [*first, *("sliding" if (i + 1) % period else "full" for i in range(count - dense))]


def _by_class(fields: Fields, count: int, rule: dict[str, Any]) -> list[str]:
    """What the class itself does where the config says nothing."""
    listed = rule.get("list")
    if listed:
        if len(listed) != count:
            raise fields.refuse(
                "layer_types", "nothing", f"and its class has a rule for {len(listed)} layers only, not {count}"
            )
        return [_word(fields, "layer_types", word) for word in listed]
    if rule.get("period"):
        return [_word(fields, "layer_types", word) for word in by_rule(rule, count)]
    if fields.find("sliding_window") is not None:
        return ["sliding"] * count
    if fields.find("attention_chunk_size") is not None:
        return ["chunked"] * count
    return ["full"] * count


def by_rule(rule: dict[str, Any], count: int) -> list[str]:
    """What a class's own rule says of `count` layers, in the class's words."""
    period, first = rule["period"], rule.get("first", [])
    start = -count if rule.get("from_end") else 0
    words = [*first, *(period[(start + i) % len(period)] for i in range(len(first), count))][:count]
    if rule.get("last") or rule.get("somewhere", words[0]) not in words:
        words[-1] = rule.get("last") or rule["somewhere"]
    return words


def _without_unused_windows(fields: Fields, words: list[str]) -> list[str]:
    """Sliding layers of a config whose window is null look at everything."""
    if "sliding" in words and fields.find("sliding_window", "sliding_window_size", "attention_window_size") is None:
        return ["full" if word == "sliding" else word for word in words]
    return words
