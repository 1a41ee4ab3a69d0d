"""What the library really cached, for every architecture it could build, against what importing that config says.

`tests/data/config_oracle.jsonl` holds tiny configs and the bytes that caches of transformers 5.24.0 held after real
forwards on a CPU, at several lengths and batches. Each config is there in two forms: `saved`, as the library saves
it with every field, and `written`, the fields it was made from (vision and audio parts and token ids left out).
"""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
from draw_architectures import FORMS, PAGE, cases, counted, page, verdict

from kvplan.errors import NotCountableError
from kvplan.importers import Imported
from kvplan.importers.config import read_config
from kvplan.spec import ModelSpec, parse_spec
from kvplan.spec_text import spec_yaml
from kvplan.yaml_text import load_yaml

CASES = cases()
LIBRARY_KEEPS_MORE = "falcon"  # its new architecture repeats each KV head for its query heads before caching


@cache
def imports(model_type: str) -> list[tuple[str, dict[str, Any], Imported | NotCountableError]]:
    """Each config of a model type by form and variant, and its import or refusal."""
    found: list[tuple[str, dict[str, Any], Imported | NotCountableError]] = []
    for case in CASES[model_type]:
        for form in FORMS:
            try:
                answer: Imported | NotCountableError = read_config(case[form], "config.json")
            except NotCountableError as error:
                answer = error
            found.append((f"{form} {case['architecture']} {case['variant']}", case, answer))
    return found


@pytest.mark.parametrize("model_type", CASES)
def test_the_import_counts_what_the_library_cached(model_type: str) -> None:
    cached, told = {}, {}
    for name, case, read in imports(model_type):
        if isinstance(read, Imported):
            cached[name] = [run["bytes"] for run in case["runs"]]
            told[name] = [counted(read.spec, run) for run in case["runs"]]
    if model_type == LIBRARY_KEEPS_MORE:
        more = {name for name in cached if cached[name] != told[name]}
        assert more
        assert all(min(map(int.__gt__, cached[name], told[name])) for name in more)
        assert all(case["saved"]["new_decoder_architecture"] for name, case, _ in imports(model_type) if name in more)
    else:
        assert cached == told


@pytest.mark.parametrize("model_type", CASES)
def test_what_cannot_be_told_is_refused_by_its_field(model_type: str) -> None:
    for _, _, error in imports(model_type):
        if isinstance(error, NotCountableError):
            assert error.what.startswith("config.json: ")
            assert error.fix


DECOYS = {"window_extra_16": "sliding_window", "chunk_extra_16": "attention_chunk_size", "layer_types_all_full": "layer_types"}  # fmt: skip


@pytest.mark.parametrize("variant", DECOYS)
def test_a_field_that_nobody_heeds_is_left_out_with_a_word_about_it(variant: str) -> None:
    """Counted where the library's cache is the same without it, which the test above holds."""
    field, noted = DECOYS[variant], 0
    for model_type in CASES:
        for name, case, read in imports(model_type):
            nests = any(isinstance(value, dict) and "model_type" in value for value in case["written"].values())
            if isinstance(read, Imported) and name.endswith(f" {variant}") and not nests:
                told = [note for note in read.notes if note.startswith(f"{field}: left out, since the class of")]
                noted += len(told)
                assert told or field in dict(read.read), name
    assert noted


@pytest.mark.parametrize("model_type", CASES)
def test_an_import_written_as_yaml_reads_back_the_same(model_type: str) -> None:
    for name, _, read in imports(model_type):
        if isinstance(read, Imported) and name.endswith(" base"):
            spec = read.spec
            again: ModelSpec = parse_spec(load_yaml(spec_yaml(spec), "yaml"), "yaml")
            assert (spec.fields, [(n, layer.kinds) for n, layer in spec.runs]) == (
                again.fields,
                [(n, layer.kinds) for n, layer in again.runs],
            )


def test_nearly_all_architectures_of_the_library_are_right() -> None:
    """Equal to the byte in their first config, saved and written."""
    bases = [case for of_type in CASES.values() for case in of_type if case["variant"] == "base"]
    right = [case for case in bases if all(verdict(case, form)[0] == "right" for form in FORMS)]
    assert len(right) > 300
    assert len(right) > 10 * (len(bases) - len(right))


def test_the_page_of_architectures_is_drawn_from_these_cases() -> None:
    """`python tests/importers/draw_architectures.py` writes it again."""
    assert PAGE.read_text() == page()
