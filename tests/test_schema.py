"""A mapping becomes strict fields, or an error that says field, found and allowed."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel, ConfigDict, model_validator

from kvplan.errors import InputError, KvplanError, MissingError, NotCountableError
from kvplan.schema import at, validated


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class Inner(Strict):
    cap: int = 1
    window: int = 1


class Outer(Strict):
    name: str
    size: int = 1
    inner: Inner | None = None
    early: None | Inner = None  # noqa: RUF036  # the class is found behind another kind too
    several: list[Inner] = []

    @model_validator(mode="after")
    def _agree(self) -> Outer:
        if self.size == 13:
            raise ValueError("size 13 contradicts name")
        return self


def refusal(values: Any, beside: tuple[str, ...] = ()) -> tuple[str, str]:
    """What and fix of the error that `values` meet."""
    with pytest.raises(InputError) as caught:
        validated(Outer, values, "f.yaml", beside)
    return caught.value.what, caught.value.fix


def test_good_values_become_fields() -> None:
    """A mapping that fits is returned as its class."""
    assert Outer(name="a", inner=Inner(cap=2)) == validated(Outer, {"name": "a", "inner": {"cap": 2}}, "f.yaml")


@pytest.mark.parametrize(
    ("values", "what", "fix"),
    [
        ([1], "f.yaml: found 'a list of 1 items', allowed a mapping of keys", "start with `name:`"),
        (None, "f.yaml: found 'None', allowed a mapping of keys", "start with `name:`"),
        ({}, "f.yaml: name: missing", "add `name:`; `kvplan show llama-3.1-70b` prints a whole spec"),
        ({"name": "a", "siz": 1}, "f.yaml: siz: unknown key", "did you mean size?"),
        ({"name": "a", "zzzz": 1}, "f.yaml: zzzz: unknown key", "known keys: name, size, inner, early, several"),
        ({"name": "a", "inner": {"windw": 1}}, "f.yaml: inner.windw: unknown key", "did you mean window?"),
        ({"name": "a", "early": {"windw": 1}}, "f.yaml: early.windw: unknown key", "did you mean window?"),
        (
            {"name": "a", "several": [{"cap": 1}, {"windw": 1}]},
            "f.yaml: several.1.windw: unknown key",
            "did you mean window?",
        ),
        ({"name": "a", "size": "1"}, "f.yaml: size: found '1', allowed a valid integer", "write a value of that kind"),
        ({"name": "a", "size": 13}, "f.yaml: size 13 contradicts name", "mend one of the two"),
    ],
)
def test_a_bad_value_is_named_with_its_fix(values: Any, what: str, fix: str) -> None:
    """Two lines: where and what, then the likeliest fix."""
    assert (what, fix) == refusal(values)


def test_a_mistyped_key_comes_before_the_key_it_misses() -> None:
    """`nmae:` explains why `name:` is missing."""
    assert ("f.yaml: nmae: unknown key", "did you mean name?") == refusal({"nmae": "a"})


def test_keys_read_elsewhere_are_known_words() -> None:
    """A mistyped key finds its neighbour among those that another part of the parser reads, at the top only."""
    assert "did you mean layers?" == refusal({"name": "a", "layer": 1}, beside=("layers",))[1]
    assert "did you mean layers?" != refusal({"name": "a", "inner": {"layer": 1}}, beside=("layers",))[1]


def test_a_key_that_is_no_word_is_refused() -> None:
    """A number as a key is found out, not crashed on."""
    assert refusal({"name": "a", 5: 1})[0].startswith("f.yaml: 5: found '5'")


def test_a_hostile_key_is_printed_safely() -> None:
    """Escape sequences are spelled out and a megabyte is cut."""
    what, _ = refusal({"name": "a", "\x1b[31m" + "k" * 2**20: 1})
    assert "\x1b" not in what
    assert len(what) < 200


@pytest.mark.parametrize(
    ("error", "kind"), [(InputError, InputError), (NotCountableError, NotCountableError), (MissingError, InputError)]
)
def test_a_place_is_put_before_an_error(error: type[KvplanError], kind: type[KvplanError]) -> None:
    """What it says and its fix are kept, and so is an uncountable field's exit code."""
    placed = at("f.yaml", error("type: found 'x'", "fix"))
    assert (kind, "f.yaml: type: found 'x'", "fix") == (type(placed), placed.what, placed.fix)
