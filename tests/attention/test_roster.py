"""The roster of attention kinds is complete, and every kind is written down, worked through and golden."""

from __future__ import annotations

import doctest
from importlib import import_module
from pathlib import Path

import pytest
from strategies import data

from kvplan import attention
from kvplan.attention import KINDS, kind_class
from kvplan.attention.fields import Fields
from kvplan.errors import NotCountableError

SHARED = {"__init__", "fields", "heads"}
FILES = sorted(path.stem for path in Path(attention.__file__).parent.glob("*.py") if path.stem not in SHARED)


def test_every_file_is_on_the_roster() -> None:
    """A kind that is not listed can be named by no spec."""
    assert FILES == sorted(KINDS.values()), "add one line to KINDS in kvplan/attention/__init__.py"


@pytest.mark.parametrize("kind", KINDS)
def test_a_kind_answers_to_its_name(kind: str) -> None:
    """`type:` in a spec is the kind's own name, and its fields are strict."""
    cls = kind_class(kind)
    assert issubclass(cls, Fields)
    assert f"typing.Literal['{kind}']" == str(cls.model_fields["type"].annotation)


@pytest.mark.parametrize("name", FILES)
def test_a_kind_is_worked_through(name: str) -> None:
    """Its docstring has the bytes, a worked example and a source, and its example runs."""
    module = import_module(f"kvplan.attention.{name}")
    text = module.__doc__ or ""
    missing = [word for word in ("Worked:", "Source:", ">>> ") if word not in text]
    assert missing == [], f"kvplan/attention/{name}.py: the docstring lacks these"
    result = doctest.testmod(module)
    assert result.attempted > 0
    assert result.failed == 0


@pytest.mark.parametrize("kind", KINDS)
def test_a_kind_is_golden(kind: str) -> None:
    """A number from outside the project stands for it."""
    entry = data("goldens.yaml")["kinds"].get(kind)
    assert entry, f"add {kind} to `kinds` in tests/data/goldens.yaml: one layer's bytes, with a source"
    assert entry["source"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_kind_names_its_tensors_apart(kind: str) -> None:
    """Parts of one layer can be told from each other, and each divides into whole shards."""
    tensors = kind_class(kind).model_validate(data("goldens.yaml")["kinds"][kind]["attention"]).cache_tensors()
    assert len({tensor.name for tensor in tensors}) == len(tensors)
    assert [tensor.row[0] % tensor.shards for tensor in tensors] == [0] * len(tensors)


@pytest.mark.parametrize("name", ["gqaa", "", "GQA", None, 5, ["gqa"], "__init__", "fields", "../mha"])
def test_a_name_off_the_roster_is_uncountable(name: object) -> None:
    """Nothing outside the list is imported, and the error names the field."""
    with pytest.raises(
        NotCountableError, match="^type: found '.*', which kvplan does not know how to count$"
    ) as caught:
        kind_class(name)
    assert caught.value.fix


def test_the_rosters_own_example_runs() -> None:
    """The package's docstrings are executed too."""
    assert (1, 0) == (doctest.testmod(attention).attempted, doctest.testmod(attention).failed)
