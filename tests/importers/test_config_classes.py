"""The table of class defaults against the library that it was drawn from."""

from __future__ import annotations

import contextlib
import io
import logging
from typing import Any

import pytest

from kvplan.errors import NotCountableError
from kvplan.importers.config import read_config
from kvplan.importers.config.classes import known_classes
from kvplan.importers.config.fields import Fields
from kvplan.importers.config.layers import WORDS, layer_words

pytestmark = pytest.mark.oracle
SWITCHES: list[dict[str, Any]] = [
    {},
    {"use_sliding_window": True, "sliding_window": 16, "max_window_layers": 3},
    {"sliding_window": 32},
    {"sliding_window": None},
    {"sliding_window_pattern": 3},
]


def made(cls: Any, **options: Any) -> Any:
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        try:
            return cls(**options)
        except Exception:  # noqa: BLE001  # a class that cannot be made from this alone says so in many ways
            return None


def expected(config: Any, depth: int) -> list[str] | None:
    """The words the class itself gives, in kvplan's own."""
    words = getattr(config, "layer_types", None)
    if not isinstance(words, list) or len(words) != depth:
        return None
    own = [WORDS.get(word, word) for word in words]
    shared = min(getattr(config, "num_kv_shared_layers", 0) or 0, depth)
    own = own[: depth - shared] + ["shared"] * shared
    if getattr(config, "sliding_window", 1) is None and getattr(config, "sliding_window_size", None) is None:
        own = ["full" if word == "sliding" else word for word in own]
    return own


def test_classes_lay_out_their_layers_as_the_table_says() -> None:
    """At seven depths and under five spellings of the window; a refusal is allowed, another answer is not."""
    transformers = pytest.importorskip("transformers")
    transformers.logging.set_verbosity_error()
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    compared = 0
    for name, entry in known_classes().items():
        if "defaults" not in entry or entry.get("encoder_decoder") or name not in CONFIG_MAPPING:
            continue
        for depth in (4, 7, 12, 13, 24, 30, 31):
            for switch in SWITCHES:
                if any(key not in entry["defaults"] for key in switch):
                    continue
                config = made(CONFIG_MAPPING[name], num_hidden_layers=depth, **switch)
                own = expected(config, depth) if config is not None else None
                if own is None:
                    continue
                fields = Fields({"num_hidden_layers": depth, **switch}, entry["defaults"], name)
                rule = {**entry.get("layers", {}), "windows": entry.get("windows")}
                with contextlib.suppress(NotCountableError):
                    assert layer_words(fields, depth, rule) == own, (name, depth, switch)
                    compared += 1
    assert compared > 700


def kept(config: dict[str, Any]) -> list[tuple[object, ...]] | None:
    """What each layer keeps, in layer order; None where the config is refused."""
    try:
        spec = read_config(config, "config.json").spec
    except NotCountableError:
        return None
    return [
        tuple((t.role, t.row, t.growth, t.shards, t.dtype) for t in layer.tensors())
        for count, layer in spec.runs
        for _ in range(count)
    ]


def test_a_config_that_says_nothing_but_its_type_is_what_its_class_makes_of_it() -> None:
    """A multimodal class puts other sizes into its decoder than the decoder's own class would."""
    transformers = pytest.importorskip("transformers")
    transformers.logging.set_verbosity(logging.CRITICAL)
    from recorder.configs import all_fields, architectures
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    compared = 0
    for model_type in architectures():
        config = made(CONFIG_MAPPING[model_type])
        if config is not None:
            alone = kept({"model_type": model_type})
            assert alone == kept(all_fields(config)), model_type
            compared += alone is not None
    assert compared > 280


@pytest.mark.parametrize("field", ["num_hidden_layers", "num_attention_heads", "head_dim"])
def test_flat_sizes_that_a_multimodal_class_does_not_heed_are_refused(field: str) -> None:
    with pytest.raises(NotCountableError, match=f"{field}: found '5', which its class does not take"):
        read_config({"model_type": "llava", field: 5}, "config.json")
