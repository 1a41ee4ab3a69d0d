"""The roster of policies is complete, and every policy is written down, worked through and golden."""

from __future__ import annotations

import doctest
from importlib import import_module
from pathlib import Path

import pytest
from strategies import data

from kvplan import policy
from kvplan.policy import POLICIES

FILES = sorted(path.stem for path in Path(policy.__file__).parent.glob("*.py") if path.stem != "__init__")


def test_every_file_is_on_the_roster() -> None:
    """A policy that is not listed can be named by nobody."""
    assert FILES == sorted(POLICIES.values()), "add one line to POLICIES in kvplan/policy/__init__.py"


@pytest.mark.parametrize("name", FILES)
def test_a_policy_is_worked_through(name: str) -> None:
    """Its docstring has the rows, a worked example and a source, and its example runs."""
    module = import_module(f"kvplan.policy.{name}")
    text = module.__doc__ or ""
    missing = [word for word in ("Rows:", "Worked:", "Source:", ">>> ") if word not in text]
    assert missing == [], f"kvplan/policy/{name}.py: the docstring lacks these"
    result = doctest.testmod(module)
    assert result.attempted > 0
    assert result.failed == 0


@pytest.mark.parametrize("name", POLICIES)
def test_a_policy_says_what_it_takes(name: str) -> None:
    """Required options are options, and the example names the policy."""
    made = import_module(f"kvplan.policy.{POLICIES[name]}").POLICY
    assert set(made.REQUIRED) <= set(made.OPTIONS)
    assert f"--policy {name}" in made.EXAMPLE


@pytest.mark.parametrize("name", POLICIES)
def test_a_policy_is_golden(name: str) -> None:
    """Rows from a paper or reference code stand for it."""
    entry = data("goldens.yaml")["policies"].get(name)
    assert entry, f"add {name} to `policies` in tests/data/goldens.yaml: rows kept, with a source"
    assert entry["source"]


def test_the_rosters_own_example_runs() -> None:
    """The package's docstrings are executed too."""
    assert (1, 0) == (doctest.testmod(policy).attempted, doctest.testmod(policy).failed)
