"""A record is an immutable value with named fields."""

from __future__ import annotations

import copy
from typing import Any, ClassVar

import pytest

from kvplan.record import Record


class Point(Record):
    KIND: ClassVar[str] = "point"
    x: int
    y: int = 0


class Even(Record):
    number: int

    def check(self) -> None:
        if self.number % 2:
            raise ValueError("odd")


class Other(Record):
    x: int
    y: int = 0


def test_fields_are_given_by_place_or_by_name() -> None:
    """Annotated names in order, defaults for the rest, class variables apart."""
    assert Point(1, 2) == Point(1, y=2) == Point(y=2, x=1)
    assert (1, 0, "point") == (Point(1).x, Point(1).y, Point(1).KIND)
    assert ("x", "y") == Point.__match_args__


@pytest.mark.parametrize(
    ("args", "kwargs", "message"),
    [
        ((1, 2, 3), {}, "Point takes 2 values, 3 given"),
        ((), {"y": 1}, "Point needs x"),
        ((1,), {"z": 1}, "Point has no field z"),
        ((1,), {"x": 1}, "Point has no field x"),
    ],
)
def test_wrong_fields_are_named(args: tuple[Any, ...], kwargs: dict[str, Any], message: str) -> None:
    """Too many, missing and unknown ones."""
    with pytest.raises(TypeError, match=f"^{message}$"):
        Point(*args, **kwargs)


def test_a_record_never_changes() -> None:
    """Fields can be neither set nor deleted."""
    point = Point(1)
    with pytest.raises(AttributeError, match="^Point is immutable$"):
        point.x = 2  # type: ignore[misc]
    with pytest.raises(AttributeError, match="^Point is immutable$"):
        del point.x
    assert Point(1) == point


def test_a_changed_copy_leaves_the_original() -> None:
    """`replace` makes another value and checks it."""
    point = Point(1)
    assert (Point(1, 5), Point(1)) == (point.replace(y=5), point)
    with pytest.raises(ValueError, match="odd"):
        Even(2).replace(number=3)


def test_a_record_checks_itself() -> None:
    """Values that contradict each other are never made."""
    with pytest.raises(ValueError, match="odd"):
        Even(3)


def test_equality_and_hash_are_by_class_and_value() -> None:
    """Two kinds of record with the same numbers differ."""
    assert Point(1) != Other(1)
    assert Point(1) != (1, 0)
    assert {Point(1), Point(1, 0), Point(2)} == {Point(2), Point(1)}
    assert copy.deepcopy(Point(1, 2)) == Point(1, 2)


def test_a_record_prints_as_it_is_written() -> None:
    """Its class and its fields by name."""
    assert "Point(x=1, y=0)" == repr(Point(1))


def test_a_record_can_be_matched() -> None:
    """Positional patterns follow the order of the fields."""
    match Point(1, 2):
        case Point(x, y):
            assert (1, 2) == (x, y)
