"""Which families of windowed models SGLang gives a window pool, and which it stores whole.

SGLang decides by a list of architectures; a spec knows a model by its name, so this is that list by name.
Families outside both lists are assumed to be on SGLang's; `-E disable_hybrid_swa_memory=` decides for them.

Worked: gemma-3-27b is stored whole, 62 full layers; gpt-oss-20b gets a window pool for 12 of its 24.

Source: SGLang 0.5.23 srt/configs/model_config.py (is_hybrid_swa_model) and srt/arg_groups/model_overrides.

>>> window_pool("gemma-3-27b-it"), window_pool("gpt-oss-20b"), window_pool("my-model")
(False, True, None)
"""

from __future__ import annotations

POOLED = (
    "beam", "diffusiongemma", "embeddinggemma2", "gemma4", "gptoss", "graniteswa", "inkling", "iquestq1", "laguna",
    "llama4", "mellum", "mimov2", "museglimmer", "step35", "step37", "unlimitedocr",
)  # fmt: skip
WHOLE = (
    "afm", "baichuan", "c4ai", "command", "exaone", "gemma2", "gemma3", "gemma3n", "kexaone", "ministral", "mistral",
    "mixtral", "olmo", "phi3", "qwen", "starcoder2", "trinity", "voxtral",
)  # fmt: skip
SMALL_WINDOW_POOL = ("inkling",)
"""Families whose two ratios are 0.1 unless the user says otherwise."""


def window_pool(name: str) -> bool | None:
    """True where SGLang keeps windowed layers of the model called `name` in a pool of their own, None where unknown."""
    plain = _plain(name)
    if plain.startswith(POOLED):
        return True
    return False if plain.startswith(WHOLE) else None


def default_ratio(name: str, usual: str) -> str:
    """The default of `swa_full_tokens_ratio` and `mamba_full_memory_ratio`, `usual` for most families."""
    return "0.1" if _plain(name).startswith(SMALL_WINDOW_POOL) else usual


def _plain(name: str) -> str:
    return "".join(letter for letter in name.rsplit("/", 1)[-1].lower() if letter.isalnum())
