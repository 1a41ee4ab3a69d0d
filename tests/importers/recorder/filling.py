"""Build the library's model of a config with random weights, run it on a CPU, and weigh the cache it leaves behind."""

from __future__ import annotations

import contextlib
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch
import transformers
from recorder.feeds import CACHE, ROWS, feed_of
from transformers import AutoConfig, PreTrainedConfig
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

sys.path.insert(0, str(Path(__file__).parents[2] / "oracle"))
from weighing import module_states, tensors_of

BATCHES_AND_STEPS = ((1, (9,)), (1, (40,)), (2, (24, 1, 1, 1)))
CACHES = ("cache", "past_key_values", "state", "cache_params", "mems", "past_buckets_states")
DTYPES = {"xlnet": "float32"}  # it mixes widths and fails in any other
SEED = 1


class NotFilledError(Exception):
    """Why the library's cache could not be filled."""


def made(model_type: str, written: dict[str, Any]) -> Any:
    """The library's config of written fields."""
    return CONFIG_MAPPING[model_type](**json.loads(json.dumps(written)))


def saved_and_read(config: Any, architecture: str) -> tuple[dict[str, Any], Any]:
    """What the library saves of a config, and the config that it makes of that file."""
    config.architectures = [architecture]
    config.dtype = getattr(torch, DTYPES.get(config.model_type, "bfloat16"))
    with tempfile.TemporaryDirectory() as folder:
        config.save_pretrained(folder)
        saved: dict[str, Any] = json.loads((Path(folder) / "config.json").read_text())
        return saved, AutoConfig.from_pretrained(folder)


def model_of(config: Any, architecture: str) -> Any:
    """The library's model of a config, ready to be called.

    Where the whole class does not build here, the text decoder stands in for it: it is the part with a cache.
    """
    torch.manual_seed(0)
    dtype = config.dtype
    cls = getattr(transformers, architecture)
    wanted = getattr(cls, "config_class", None)
    text = config.get_text_config(decoder=True)
    if wanted is not None and not isinstance(config, wanted) and isinstance(text, wanted):
        config = text
    try:
        return _built(cls._from_config, config, dtype).eval()
    except Exception:
        thinker = getattr(config, "thinker_config", None)
        if isinstance(thinker, PreTrainedConfig):
            return _built(transformers.AutoModelForMultimodalLM.from_config, thinker, dtype).eval()
        if text is config:
            raise
        with contextlib.suppress(Exception):
            return _built(transformers.AutoModelForCausalLM.from_config, text, dtype).eval()
        return _built(transformers.AutoModel.from_config, text, dtype).eval()


def _built(build: Any, config: Any, dtype: torch.dtype) -> Any:
    try:
        return build(config, dtype=dtype, attn_implementation="eager")
    except ValueError as error:  # a few classes have one attention only, and refuse to be told
        if "attn" not in str(error).lower():
            raise
        return build(config, dtype=dtype)


def runs_of(model: Any, model_type: str, plans: tuple[tuple[int, tuple[int, ...]], ...]) -> list[dict[str, Any]]:
    """What each run of (batch, steps) leaves in the cache: `bytes` of keys, values and states, counters left out.

    Raises: NotFilledError where the model returns no cache, and whatever else the library raises.
    """
    found = []
    for batch, steps in plans:
        torch.manual_seed(0)
        held, rows = filled(model, model_type, batch, steps)
        tensors = [t for t in tensors_of([held, module_states(model)]) if t.is_floating_point()]
        run = {"batch": batch, "length": sum(steps), "prefill": steps[0], "encoder": rows}
        found.append({**run, "bytes": sum(t.numel() * t.element_size() for t in tensors)})
    return found


@torch.no_grad()
def filled(
    model: Any, model_type: str, batch: int, steps: tuple[int, ...], hand_one_in: bool = False
) -> tuple[Any, int | None]:
    """The cache after updates of `steps` tokens each, and how many rows of an encoder's output it attends to.

    hand_one_in: give the model a cache, as `generate` does, since it makes none itself.
    """
    vocabulary = getattr(model.config.get_text_config(decoder=True), "vocab_size", None) or 100
    ids = torch.randint(5, min(vocabulary, 190), (batch, sum(steps)), generator=torch.Generator().manual_seed(SEED))
    held = transformers.DynamicCache(config=model.config) if hand_one_in else None
    kept: dict[str, Any] = {}
    done = 0
    for step in steps:
        call, given = feed_of(model_type)(model, ids[:, done : done + step], done, kept)
        if held is not None:
            given[CACHE] = held
        out = call(**given, use_cache=True)
        held = next((value for name in CACHES if (value := getattr(out, name, None)) is not None), given.get(CACHE))
        done += step
    if held is None and not hand_one_in:
        return filled(model, model_type, batch, steps, hand_one_in=True)
    if held is None or (hand_one_in and not tensors_of(held)):
        raise NotFilledError("the model returns no cache, and leaves one that it is given empty")
    return held, kept.get(ROWS) or encoded_rows(held)


def encoded_rows(held: Any) -> int | None:
    """Rows that the cache keeps of an encoder's output, None without any."""
    if not isinstance(held, transformers.EncoderDecoderCache):
        return None
    return next((t.shape[-2] for t in tensors_of(held.cross_attention_cache) if t.dim() == 4), None)
