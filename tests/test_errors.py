"""Errors are two lines fit for any terminal, and each knows its exit code."""

from __future__ import annotations

import pytest

from kvplan.errors import (
    InputError,
    KvplanError,
    MissingError,
    NotCountableError,
    did_you_mean,
    nearest,
    printable,
    quoted,
)


@pytest.mark.parametrize(("error", "code"), [(InputError, 2), (NotCountableError, 3), (MissingError, 4)])
def test_an_error_knows_its_exit_code(error: type[KvplanError], code: int) -> None:
    """Wrong input is 2, uncountable 3, missing 4."""
    assert code == error("what", "fix").exit_code


def test_an_error_has_two_parts() -> None:
    """What is wrong, and the likeliest fix."""
    error = InputError("ctx: found 'x'", "--ctx 8k")
    assert ("ctx: found 'x'", "--ctx 8k") == (error.what, error.fix)
    assert "ctx: found 'x'" == str(error)


def test_a_fix_may_be_unknown() -> None:
    """No fix is better than a made-up one."""
    assert "" == InputError("what").fix


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("plain", "plain"),
        ("a\x1b[31mred", "a\\x1b[31mred"),
        ("two\nlines", "two\\nlines"),
        ("right\u202eto left", "right\\u202eto left"),
        (None, "None"),
        (True, "True"),
        (8.5, "8.5"),
        (10**39, "1" + "0" * 39),
        (10**40, "an integer of about 133 bits"),
        pytest.param(-(10**5000), "an integer of about 16610 bits", id="negative"),
        ([1, 2, 3], "a list of 3 items"),
        ({"a": 1}, "a dict of 1 items"),
    ],
)
def test_a_strangers_value_is_one_printable_line(value: object, shown: str) -> None:
    """Control, escape and direction characters are spelled out; long numbers and containers are named."""
    assert shown == printable(value)


def test_a_long_value_is_cut() -> None:
    """A megabyte becomes 120 characters and an ellipsis."""
    assert "x" * 120 + "…" == printable("x" * 2**20)


def test_a_quoted_value_stands_in_quotes() -> None:
    """The reader sees where the value begins and ends."""
    assert "' a '" == quoted(" a ")


def test_the_nearest_words_come_best_first() -> None:
    """Neighbours are found whatever the case, and none are made up."""
    assert ["gqa", "mqa"] == nearest("GQA", ["mqa", "gqa", "lightning"])
    assert [] == nearest("zzz", ["mqa", "gqa"])


def test_a_suggestion_falls_back() -> None:
    """Without a neighbour the fix says something else that helps."""
    assert "did you mean mamba1?" == did_you_mean("mamba", ["mamba1", "x"], "list")
    assert "list" == did_you_mean("zzz", ["mamba1"], "list")
