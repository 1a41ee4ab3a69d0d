"""What each layer keeps, from an architecture's keys.

Source: `load_hparams` in llama.cpp's src/llama-model.cpp for the defaults; `n_embd_r` and `n_embd_s`
in src/llama-hparams.cpp for the shapes of states.
"""

from __future__ import annotations

from typing import Any

from kvplan.errors import InputError
from kvplan.importers.gguf.architectures import COMPRESSED, INDEXED, INTERVALS, MIXERS, PURE, UNWINDOWED, WINDOWED
from kvplan.importers.gguf.keys import Keys

MOST_LAYERS = 10_000
MOST_HEADS = 4096
Kind = dict[str, Any]
Kinds = list[Kind]


class Stack:
    """The layers of one file: `kept` for each layer, `draft` for a draft layer, and what must be said of them."""

    def __init__(self, keys: Keys) -> None:
        self.keys = keys
        self.architecture = keys.architecture
        self.notes: list[str] = []
        held = keys.whole("block_count", least=1, most=MOST_LAYERS)
        if self.architecture == "t5":
            held = keys.whole("decoder_block_count", held, least=1, most=MOST_LAYERS)
        drafts = keys.whole("nextn_predict_layers", 0, most=held - 1)
        self.held, self.count = held, held - drafts
        self.mixer = MIXERS.get(self.architecture)
        if self.architecture in PURE:
            self.kept: list[Kinds] = [[self._state()]] * held
        else:
            self._read_heads()
            self.kept = [self._layer(index) for index in range(held)]
        self.draft = self.kept[self.count] if drafts else None
        loops = keys.whole("num_loops", 1, least=1, most=64) if self.architecture == "nanbeige" else 1
        self.kept = self.kept[: self.count] * loops  # each pass keeps its own
        if len(self.kept) > MOST_LAYERS:
            raise keys.wrong("num_loops", len(self.kept), f"at most {MOST_LAYERS:,} layers in all")

    def _read_heads(self) -> None:
        keys, held = self.keys, self.held
        self.heads = keys.layered("attention.head_count", held, most=MOST_HEADS)
        self.kv_heads = (
            keys.layered("attention.head_count_kv", held, most=MOST_HEADS)
            if keys.value("attention.head_count_kv") is not None
            else self.heads
        )
        first = self.heads[0] or max(self.heads)
        given = keys.value("attention.key_length") is not None and keys.value("attention.value_length") is not None
        width = 0 if given or not first else keys.whole("embedding_length", least=1) // first
        self.key_width = keys.whole("attention.key_length", width)
        self.value_width = keys.whole("attention.value_length", width)
        self.windows, self.is_chunk = self._windows()
        if self.windows:
            self.key_width_window = keys.whole("attention.key_length_swa", self.key_width)
            self.value_width_window = keys.whole("attention.value_length_swa", self.value_width)
        self.own = self._own_layers()
        self.recurs = self._recurrent_layers()
        self.indexed = self._indexed_layers()
        self.latent = 0
        if keys.value("attention.kv_lora_rank") is not None:
            self.latent = keys.whole("attention.kv_lora_rank", least=1)
            self.rope = self._latent_rope()

    def _windows(self) -> tuple[list[int], bool]:
        """The window of each layer, 0 where it has none; no list at all where none has."""
        rule = WINDOWED.get(self.architecture)
        keys = self.keys
        if rule is None or (self.architecture == "exaone4" and self.count != 64 and not self._lists()):
            return [], False
        for name in ("key_length_swa", "value_length_swa", "sliding_window_pattern"):
            keys.value(f"attention.{name}")  # read, though a file without a window has no use for them
        name = (
            "attention.chunk_size" if rule.chunk and keys.value("attention.chunk_size") else "attention.sliding_window"
        )
        window = keys.whole(name, rule.window if rule.window or rule.needed else 0, most=2**40)
        if rule.chunk and window:
            window = keys.whole("attention.chunk_size", rule.window, least=1, most=2**40)
        if not window:
            return [], False
        if self.architecture in UNWINDOWED:
            self.notes.append("llama.cpp keeps every token of this architecture: it leaves its windows out")
        listed = keys.listed("attention.sliding_window_pattern", self.count, most=1)
        if listed is not None:
            slides = [*map(bool, listed), *[False] * self.held][: self.held]
        else:
            if rule.every is None:
                raise keys.wrong("attention.sliding_window_pattern", "nothing", "a list, one value for each layer")
            every = keys.whole("attention.sliding_window_pattern", rule.every, most=MOST_LAYERS)
            full = 0 if rule.full_first else every - 1
            slides = [i < self.count and (not every or i % every != full) for i in range(self.held)]
        return [window if slide else 0 for slide in slides], rule.chunk

    def _lists(self) -> bool:
        return self.keys.value("attention.sliding_window_pattern") is not None

    def _own_layers(self) -> int:
        """How many layers own a cache, from the first; the others read theirs."""
        if self.architecture == "gemma3n" and self.keys.value("attention.shared_kv_layers") is None:
            return min(20, self.held)  # what llama.cpp takes for both published sizes
        if self.architecture in {"gemma3n", "gemma4"}:
            return self.held - self.keys.whole("attention.shared_kv_layers", 0, most=self.held - 1)
        return self.held

    def _recurrent_layers(self) -> list[bool]:
        keys, held = self.keys, self.held
        if self.mixer is None:
            return [False] * held
        if self.architecture == "falcon-h1":
            return [True] * held
        if self.architecture in INTERVALS:
            listed = keys.listed("attention.recurrent_layers", held, most=1)
            every = keys.whole("full_attention_interval", INTERVALS[self.architecture], least=1, most=MOST_LAYERS)
            if listed is not None:
                return [bool(item) for item in listed]
            return [i < self.count and (i + 1) % every != 0 for i in range(held)]
        if self.architecture.startswith("nemotron_h"):
            self.wide = keys.layered("feed_forward_length", held, most=2**31)
            return [i < self.count and not (self.kv_heads[i] or self.wide[i]) for i in range(held)]
        return [i < self.count and self.kv_heads[i] == 0 for i in range(held)]

    def _indexed_layers(self) -> list[bool]:
        """The layers with indexer keys of their own."""
        if self.architecture not in INDEXED:
            return [False] * self.held
        keys = self.keys
        self.index_width = keys.whole("attention.indexer.key_length", least=1)
        if self.architecture == "minimax-m3":
            dense = keys.whole("leading_dense_block_count", 0, most=self.held)
            return [i >= dense for i in range(self.held)]
        listed = keys.listed("attention.indexer.types", self.count, most=1)
        if listed is not None:
            return [*map(bool, listed[: self.count]), *[True] * (self.held - self.count)]
        if self.architecture == "glm-dsa" and keys.whole("context_length", most=2**40) >= 2**20:
            return [i < 3 or i % 4 == 2 or i >= self.count for i in range(self.held)]
        return [True] * self.held

    def _latent_rope(self) -> int:
        """Elements of the latent that carry positions."""
        keys = self.keys
        if keys.value("attention.key_length_mla") is not None:
            rope = keys.whole("attention.key_length") - self.latent
            if rope < 0:
                raise keys.wrong("attention.key_length", self.key_width, f"kv_lora_rank {self.latent:,} and more")
            return rope
        if keys.value("attention.head_count_kv") is not None and self.kv_heads[0] > 1:
            self.notes.append(
                "an older conversion: llama.cpp keeps whole keys and values of this file, the count is of the latent"
            )
        return keys.whole("rope.dimension_count", least=0)

    def _layer(self, index: int) -> Kinds:
        if index >= self.own:
            return [{"type": "shared"}]
        if self.architecture in COMPRESSED:
            return self._compressed(index)
        if self.architecture == "falcon-h1":
            return [self._attention(index), self._state()]
        if self.recurs[index]:
            return [self._state()]
        if not self.kv_heads[index] or (self.architecture.startswith("nemotron_h") and self.wide[index]):
            return [{"type": "none"}]
        kinds = [self._attention(index)]
        if self.indexed[index]:
            index_kind: Kind = {"type": "index", "head_dim": self.index_width}
            if self.architecture == "glm5-next":
                index_kind["ratio"] = self.keys.whole("attention.indexer.kpool", least=2)
            kinds.append(index_kind)
        if self.architecture == "t5":
            kinds.append({**kinds[0], "type": "cross"})
        return kinds

    def _attention(self, index: int) -> Kind:
        heads, kv_heads = self.heads[index], self.kv_heads[index]
        window = self.windows[index] if self.windows else 0
        bound = {"chunk" if self.is_chunk else "window": window} if window else {}
        if self.latent:
            return {
                "type": "mla",
                "heads": heads,
                "kv_lora_rank": self.latent,
                "qk_rope_head_dim": self.rope,
                **bound,
            }
        if not heads or heads % kv_heads:
            raise self.keys.wrong(
                "attention.head_count", heads, f"a multiple of head_count_kv, {kv_heads:,} in layer {index:,}"
            )
        width = self.key_width_window if window else self.key_width
        value = self.value_width_window if window else self.value_width
        for name, found in (("attention.key_length", width), ("attention.value_length", value)):
            if not found:
                raise self.keys.wrong(name, found, "at least 1 where a layer attends")
        return {
            "type": "mha" if heads == kv_heads else "mqa" if kv_heads == 1 else "gqa",
            "heads": heads,
            "kv_heads": kv_heads,
            "head_dim": width,
            **({"v_head_dim": value} if value != width else {}),
            **bound,
        }

    def _compressed(self, index: int) -> Kinds:
        """DeepSeek-V4: a window of entries, compressed entries, and an index where 4 tokens make one."""
        keys = self.keys
        ratio = keys.layered("attention.compress_ratios", self.held)[index]
        if ratio not in {0, 4, 128}:
            raise keys.wrong("attention.compress_ratios", ratio, "0, 4 and 128")
        entry: Kind = {
            "type": "compressed",
            "entry_dim": self.key_width,
            "rope_dim": keys.whole("rope.dimension_count"),
            "window": keys.whole("attention.sliding_window", least=1, most=2**40),
            **({"ratio": ratio} if ratio else {}),
            "heads": self.heads[index],
        }
        width = keys.whole("attention.indexer.key_length", least=1)
        return [entry, {"type": "index", "head_dim": width, "ratio": ratio}] if ratio == 4 else [entry]

    def _state(self) -> Kind:
        """The recurrent mixer's kind."""
        keys = self.keys
        if self.mixer == "rwkv7":
            width, head = keys.whole("embedding_length", least=1), keys.whole("wkv.head_size", least=1)
            if keys.whole("token_shift_count", 2) != 2:
                raise keys.wrong("token_shift_count", keys.value("token_shift_count"), "2, which kvplan counts")
            if width % head:
                raise keys.wrong("wkv.head_size", head, f"a divisor of embedding_length {width:,}")
            return {"type": "rwkv7", "heads": width // head, "head_dim": head}
        if self.mixer == "short_conv":
            kernel = keys.whole("shortconv.l_cache", least=1, most=1024)
            return {"type": "short_conv", "dim": keys.whole("embedding_length", least=1), "conv_kernel": kernel}
        if self.mixer == "lightning":
            return {"type": "lightning", "heads": max(self.heads), "head_dim": self.key_width}
        kernel = keys.whole("ssm.conv_kernel", least=1, most=1024)
        if self.mixer == "kda":
            width = keys.whole("kda.head_dim", least=1)
            return {"type": "kda", "heads": self.heads[0], "head_dim": width, "conv_kernel": kernel}
        inner, state = keys.whole("ssm.inner_size", least=1), keys.whole("ssm.state_size", least=1)
        if self.mixer == "mamba1":
            groups = keys.whole("ssm.group_count", 0)
            if groups:
                raise keys.wrong("ssm.group_count", groups, "0 in this architecture")
            return {"type": "mamba1", "d_inner": inner, "d_state": state, "conv_kernel": kernel}
        heads = keys.whole("ssm.time_step_rank", least=1, most=MOST_HEADS)
        groups = keys.whole("ssm.group_count", least=1, most=MOST_HEADS)
        if inner % heads:
            raise keys.wrong("ssm.inner_size", inner, f"a multiple of time_step_rank {heads:,}")
        if self.mixer == "mamba2":
            return {
                "type": "mamba2",
                "heads": heads,
                "head_dim": inner // heads,
                "groups": groups,
                "d_state": state,
                "conv_kernel": kernel,
            }
        return {
            "type": "gated_deltanet",
            "k_heads": groups,
            "v_heads": heads,
            "k_head_dim": state,
            "v_head_dim": inner // heads,
            "conv_kernel": kernel,
        }


def layer_names(kept: list[Kinds]) -> tuple[list[str], dict[str, Kinds]]:
    """A name for each distinct layer: the pattern of names, and what each name keeps."""
    names: dict[str, Kinds] = {}
    known: dict[str, str] = {}
    pattern = []
    for kinds in kept:
        key = repr(kinds)
        if key not in known:
            base = _name(kinds)
            number = sum(name == base or name.startswith(f"{base}-") for name in names)
            known[key] = f"{base}-{number + 1}" if number else base
            names[known[key]] = kinds
        pattern.append(known[key])
    return pattern, names


def _name(kinds: Kinds) -> str:
    first = kinds[0]
    if len(kinds) > 1:
        return {"index": "indexed", "cross": "decoder"}.get(kinds[1]["type"], "parallel")
    if first["type"] in {"mha", "mqa", "gqa"}:
        return "sliding" if "window" in first else "chunked" if "chunk" in first else "full"
    return str(first["type"])


def check_latent(keys: Keys, kept: list[Kinds]) -> None:
    """Refuse an MLA architecture whose file does not give the latent's width."""
    if all(kind["type"] != "mla" for kinds in kept for kind in kinds):
        raise InputError(
            f"{keys.shown}: {keys.full('attention.kv_lora_rank')}: found nothing, allowed the latent's width",
            "convert the model again",
        )
