"""How an engine is named: NAME or NAME@VERSION, and its options as key=value."""

from __future__ import annotations

import pytest

from kvplan.engine import ENGINES, engine_named
from kvplan.errors import InputError


def test_a_name_alone_takes_the_newest_version_and_no_options() -> None:
    choice = engine_named("transformers")
    assert (choice.engine.NAME, choice.version, choice.options) == ("transformers", "5.24", {})


def test_a_version_can_be_named() -> None:
    assert engine_named("transformers@5.24").version == "5.24"


def test_options_are_read_by_their_kind() -> None:
    choice = engine_named("transformers", ("cache=quantized", "nbits=2", "backend=hqq"))
    assert choice.options == {"cache": "quantized", "nbits": 2, "backend": "hqq"}


@pytest.mark.parametrize(
    ("name", "pairs", "what", "fix"),
    [
        ("transfomers", (), "--engine: found 'transfomers'", "transformers"),
        ("", (), "--engine: found ''", "kvplan engines"),
        ("x" * 10_000, (), "--engine: found 'xxx", "kvplan engines"),
        ("transformers@4", (), "found version '4', allowed 5.24", "--engine transformers"),
        ("transformers", ("cach=static",), "-E: found 'cach=static'", "cache"),
        ("transformers", ("cache",), "-E: found 'cache'", "cache"),
        ("transformers", ("cache=paged",), "-E cache: found 'paged'", "default: dynamic"),
        ("transformers", ("cache=Static",), "-E cache: found 'Static'", "default: dynamic"),
        ("transformers", ("prefill=0",), "-E prefill: found '0'", "default: the context"),
        ("transformers", ("prefill=-1",), "-E prefill: found '-1'", "default: the context"),
        ("transformers", ("prefill=8k",), "-E prefill: found '8k'", "default: the context"),
        ("transformers", ("prefill=" + "9" * 5000,), "-E prefill: found '999", "default: the context"),
        ("transformers", ("prefill=\u0663",), "-E prefill: found", "default: the context"),
        ("ideal", ("cache=static",), "ideal takes block_size=", "kvplan show ideal"),
    ],
)
def test_what_cannot_be_read_is_exit_2_and_says_what_is_allowed(
    name: str, pairs: tuple[str, ...], what: str, fix: str
) -> None:
    with pytest.raises(InputError) as caught:
        engine_named(name, pairs)
    assert caught.value.exit_code == 2
    assert what in caught.value.what
    assert fix in caught.value.fix
    assert len(caught.value.what) < 400


def test_an_unknown_name_lists_every_engine() -> None:
    with pytest.raises(InputError) as caught:
        engine_named("nothing-like-it")
    assert all(name in caught.value.what for name in ENGINES)
