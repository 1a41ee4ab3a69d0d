"""The roster of engines: every file is listed, every member explains itself, every option is documented."""

from __future__ import annotations

import doctest
import pkgutil
import re
from importlib import import_module
from pathlib import Path

import pytest

import kvplan.engine
from kvplan.engine import ENGINES, EngineOption, engine_class

ROOT = Path(__file__).parents[2]
MODULES = sorted(m.name for m in pkgutil.walk_packages(kvplan.engine.__path__, "kvplan.engine."))


def test_every_file_or_folder_is_listed() -> None:
    assert sorted(ENGINES.values()) == sorted(m.name for m in pkgutil.iter_modules(kvplan.engine.__path__))


@pytest.mark.parametrize("name", ENGINES)
def test_a_member_has_every_field_of_the_protocol(name: str) -> None:
    engine = engine_class(name)
    assert engine.NAME == name
    assert engine.VERSIONS
    assert engine.SUMMARY
    assert engine.SOURCE
    assert all(
        isinstance(option, EngineOption) and option.meaning and option.default for option in engine.OPTIONS.values()
    )


@pytest.mark.parametrize("name", ENGINES)
def test_a_member_says_its_idea_a_worked_number_and_its_source(name: str) -> None:
    text = import_module(f"kvplan.engine.{ENGINES[name]}").__doc__ or ""
    assert "\nWorked: " in text
    assert "\nSource: " in text
    assert re.search(r"Worked: .*\d", text)


@pytest.mark.parametrize("name", ENGINES)
def test_a_member_has_a_page_that_documents_its_options(name: str) -> None:
    page = (ROOT / "docs" / "engines" / f"{name}.md").read_text(encoding="utf-8")
    missing = [option for option in engine_class(name).OPTIONS if f"`-E {option}=" not in page]
    assert not missing
    assert "$ kvplan size " in page


@pytest.mark.parametrize("module", MODULES)
def test_the_examples_in_the_docstrings_hold(module: str) -> None:
    assert doctest.testmod(import_module(module)).failed == 0


@pytest.mark.parametrize("module", MODULES)
def test_engines_know_tensors_and_never_kinds(module: str) -> None:
    source = Path(import_module(module).__file__ or "").read_text(encoding="utf-8")
    assert "kvplan.attention" not in source
    assert ".kinds" not in source
