"""Configs from strangers: whatever they hold, the answer is a spec or a two-line refusal, in bounded time and memory."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvplan.errors import InputError, KvplanError
from kvplan.importers.config import read_config
from kvplan.importers.config.classes import known_classes
from kvplan.importers.source import MOST_JSON_BYTES, read_source

CLASSES = known_classes()
TYPES = sorted(name for name in CLASSES if name != "_plain")
NAMES = sorted({field for entry in CLASSES.values() for field in (*entry.get("heeds", []), *entry.get("defaults", {}))})
SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(-(2**70), 2**70), st.integers(0, 64), st.floats(allow_nan=True), st.text(max_size=20)
)  # fmt: skip
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(NAMES) | st.text(max_size=8), inner, max_size=4),
    max_leaves=8,
)  # fmt: skip


def refusal(values: Any) -> str:
    """What reading `values` refuses, or nothing."""
    try:
        read_config(values, "config.json")
    except KvplanError as error:
        return error.what
    return ""


@given(st.sampled_from(TYPES), st.dictionaries(st.sampled_from(NAMES), VALUES, max_size=8))
def test_any_fields_give_a_spec_or_a_refusal(model_type: str, fields: dict[str, Any]) -> None:
    what = refusal({"model_type": model_type, **fields})
    assert what.startswith("config.json") or not what
    assert what.isprintable()


@given(VALUES)
def test_anything_at_all_gives_a_spec_or_a_refusal(values: Any) -> None:
    assert refusal(values).isprintable()


@pytest.mark.parametrize(
    "text",
    ["", "[", "[" * 100_000, '{"model_type": ' * 50_000, "nul", "\x00", '{"a": 1' + "0" * 5000 + "}", "[1, 2]", '"text"', "NaN"],
    ids=["empty", "open", "deep list", "deep mapping", "word", "nul", "huge number", "list", "text", "nan"],
)  # fmt: skip
def test_broken_json_is_refused_in_two_lines(text: str, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(text)
    with pytest.raises(InputError) as caught:
        read_source(str(tmp_path / "config.json"))
    assert caught.value.fix


def test_a_config_larger_than_any_is_not_read(tmp_path: Path) -> None:
    file = tmp_path / "config.json"
    with file.open("wb") as out:
        out.truncate(MOST_JSON_BYTES + 1)
    with pytest.raises(InputError, match="larger than"):
        read_source(str(file))


def test_escapes_in_a_config_do_not_reach_the_terminal(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "x\x1b[31m[red]", "hidden_size": 1}))
    with pytest.raises(KvplanError) as caught:
        read_source(str(tmp_path))
    assert "\x1b" not in caught.value.what


@pytest.mark.parametrize("kind", ["folder", "missing", "fifo"])
def test_what_is_no_file_is_refused(kind: str, tmp_path: Path) -> None:
    import os

    path = tmp_path / "config.json"
    if kind == "folder":
        path.mkdir()
    elif kind == "fifo":
        os.mkfifo(path)
    with pytest.raises(InputError):
        read_source(str(path) if kind != "folder" else str(tmp_path))


def test_layers_that_differ_in_one_field_of_many_stay_apart() -> None:
    """However long what a layer is told apart by, two windows are two kinds."""
    alike = {"head_dim": 128, "num_attention_heads": 64, "num_key_value_heads": 8, "qk_rope_head_dim": 64}
    windows = [1024, 2048, 4096, 2048]
    config = {
        "model_type": "gemma4_text",
        "architectures": ["Gemma4ForCausalLM"],
        "num_hidden_layers": 4,
        "layer_types": ["sliding_attention", "sliding_attention", "sliding_attention", "full_attention"],
        "per_layer_config": {str(i): {**alike, "sliding_window": window} for i, window in enumerate(windows)},
    }
    runs = read_config(config, "config.json").spec.runs
    assert [kind.window for count, layer in runs for kind in layer.kinds for _ in range(count)] == windows


@pytest.mark.parametrize(
    ("model_type", "field"),
    [("llama", "num_key_value_heads"), ("bart", "decoder_layers"), ("whisper", "decoder_layers"), ("t5", "num_decoder_layers")],
)  # fmt: skip
def test_a_count_of_nothing_is_not_taken_for_another_count(model_type: str, field: str) -> None:
    with pytest.raises(InputError, match="found 0"):
        read_config({"model_type": model_type, field: 0}, "config.json")
