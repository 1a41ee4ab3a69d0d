"""How each model is fed: from token ids alone, beside an encoder's output, or in a way of its own.

A feed takes the model, a piece of token ids [batch, tokens], where the piece begins and a mapping that lasts for one run;
it answers the model to call and its arguments. `CACHE` among the arguments is a cache made by the caller, as
`generate` makes it for models that make none; `ROWS` in the mapping says how many rows of an encoder's output are
attended to where the cache does not tell.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

import torch
import transformers
from transformers.modeling_outputs import BaseModelOutput, BaseModelOutputWithPooling

ENCODED = 24
CACHE = "cache"
ROWS = "rows"
Fed = tuple[Any, dict[str, Any]]
Feed = Callable[[Any, torch.Tensor, int, dict[str, Any]], Fed]


def feed_of(model_type: str) -> Feed:
    """The feed of a model type."""
    return OWN.get(model_type, encoded_or_plain)


def encoded_or_plain(model: Any, piece: torch.Tensor, begin: int, kept: dict[str, Any]) -> Fed:
    """Token ids; beside a made-up encoder's output where the model has an encoder."""
    if not model.config.is_encoder_decoder:
        return model, {"input_ids": piece}
    if not kept:
        states = torch.randn(piece.shape[0], ENCODED, encoder_width(model.config), dtype=model.dtype)
        output = BaseModelOutput(last_hidden_state=states)
        for name in ("router_logits", "router_probs"):  # models with experts look for them
            object.__setattr__(output, name, None)
        object.__setattr__(output, "attention_mask", torch.ones(piece.shape[0], ENCODED, dtype=torch.long))
        kept["encoded"] = output
    return model, {"encoder_outputs": kept["encoded"], "decoder_input_ids": piece}


def encoder_width(config: Any) -> int:
    """Width of the encoder's output."""
    inner = ("encoder_config", "encoder", "text_encoder", "text_config", "audio_config", "vision_config")
    places = [config, *(getattr(config, name, None) for name in inner)]
    places.append(getattr(getattr(config, "encoder", None), "text_config", None))
    found = (getattr(place, name, None) for place in places if place is not None for name in ("d_model", "hidden_size"))
    return next(width for width in found if isinstance(width, int))


def through(*paths: str) -> Feed:
    """The feed of a model whose decoder stands at one of `paths` and is called itself."""

    def feed(model: Any, piece: torch.Tensor, begin: int, kept: dict[str, Any]) -> Fed:
        for path in paths:
            try:
                return reduce(getattr, path.split("."), model), {"input_ids": piece}
            except AttributeError:
                continue
        return model, {"input_ids": piece}

    return feed


def with_picture(model: Any, piece: torch.Tensor, begin: int, kept: dict[str, Any]) -> Fed:
    """IDEFICS: gated layers look at a picture's states."""
    batch = piece.shape[0]
    if not kept:
        kept["picture"] = torch.randn(batch, 1, 5, model.config.vision_config.embed_dim, dtype=model.dtype)
    mask = torch.ones(batch, piece.shape[1], 1, dtype=torch.long)
    return model, {"input_ids": piece, "image_encoder_embeddings": kept["picture"], "image_attention_mask": mask}


def with_crossing_states(model: Any, piece: torch.Tensor, begin: int, kept: dict[str, Any]) -> Fed:
    """Mllama: some layers attend to a picture's states, which come with the first piece."""
    if begin:
        return model, {"input_ids": piece}
    width = model.config.get_text_config(decoder=True).hidden_size
    kept[ROWS] = ENCODED
    states = torch.randn(piece.shape[0], ENCODED, width, dtype=model.dtype)
    return model, {"input_ids": piece, "cross_attention_states": states}


def four_books(model: Any, piece: torch.Tensor, begin: int, kept: dict[str, Any]) -> Fed:
    """MusicGen: each sequence is four rows of codes."""
    rows = piece.repeat_interleave(4, 0)
    if not model.config.is_encoder_decoder:
        return model, {"input_ids": rows}
    return model, {**encoded_or_plain(model, piece, begin, kept)[1], "decoder_input_ids": rows}


def melody(model: Any, piece: torch.Tensor, begin: int, kept: dict[str, Any]) -> Fed:
    """MusicGen Melody: what is encoded stands before the codes, once."""
    rows = piece.repeat_interleave(4, 0)
    if not model.config.is_encoder_decoder:
        return model, {"input_ids": rows}
    more = {} if begin else {"encoder_hidden_states": torch.randn(piece.shape[0], ENCODED, 64, dtype=model.dtype)}
    return model, {"decoder_input_ids": rows, **more}


def stacked(channels: int, name: str) -> Feed:
    """The feed of a model that takes `channels` codes per position under `name`."""

    def feed(model: Any, piece: torch.Tensor, begin: int, kept: dict[str, Any]) -> Fed:
        codes = piece[..., None].expand(-1, -1, channels).clone()
        given = encoded_or_plain(model, piece, begin, kept)[1]
        return model, {**{key: value for key, value in given.items() if key != "input_ids"}, name: codes}

    return feed


def from_bytes(model: Any, piece: torch.Tensor, begin: int, kept: dict[str, Any]) -> Fed:
    """BLT: the class cannot make the cache that it wants."""
    if not kept:
        kept["cache"] = transformers.EncoderDecoderCache(transformers.DynamicCache(), transformers.DynamicCache())
    return model, {"input_ids": piece, CACHE: kept["cache"]}


def with_positions(model: Any, piece: torch.Tensor, begin: int, kept: dict[str, Any]) -> Fed:
    """RecurrentGemma: it wants positions, and makes no cache."""
    if not kept:
        kept["cache"] = transformers.DynamicCache(config=model.config)
    positions = torch.arange(begin, begin + piece.shape[1])[None].expand(piece.shape[0], -1)
    return model, {"input_ids": piece, "position_ids": positions, CACHE: kept["cache"]}


def with_time(model: Any, piece: torch.Tensor, begin: int, kept: dict[str, Any]) -> Fed:
    """Voxtral in real time: the decoder is conditioned on a delay."""
    decoder, given = through("model.language_model", "language_model")(model, piece, begin, kept)
    width = model.config.get_text_config(decoder=True).hidden_size
    return decoder, {**given, "t_cond": torch.randn(piece.shape[0], 1, width, dtype=model.dtype)}


def pooled(model: Any, piece: torch.Tensor, begin: int, kept: dict[str, Any]) -> Fed:
    """PP-FormulaNet: the encoder's output comes with a pooled one."""
    if not kept:
        states = torch.randn(piece.shape[0], ENCODED, encoder_width(model.config), dtype=model.dtype)
        kept["encoded"] = BaseModelOutputWithPooling(last_hidden_state=states, pooler_output=states)
    return model, {"encoder_outputs": kept["encoded"], "decoder_input_ids": piece}


OWN: dict[str, Feed] = {
    "bark": through("semantic"),
    "blip": through("text_decoder"),
    "blip-2": through("language_model"),
    "blt": from_bytes,
    "dia": stacked(9, "decoder_input_ids"),
    "idefics": with_picture,
    "instructblip": through("language_model"),
    "instructblipvideo": through("language_model"),
    "kosmos-2": through("text_model"),
    "kyutai_speech_to_text": stacked(33, "input_ids"),
    "llama4": through("language_model"),
    "mllama": with_crossing_states,
    "musicgen": four_books,
    "musicgen_melody": melody,
    "pi0": through("model.vlm"),
    "pp_formulanet": pooled,
    "qwen2_5_omni": through("thinker"),
    "qwen3_omni_moe": through("thinker"),
    "recurrent_gemma": with_positions,
    "voxtral_realtime": with_time,
}
