"""Every technique is on its roster, says what it costs with a number and a source, and is proven here."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="the extra `measure` is not installed")

import kvplan.caches
from kvplan.caches import TECHNIQUES

FOLDER = Path(kvplan.caches.__file__).parent
SHARED = {"__init__", "interface", "attention", "rotary", "packing", "block_pool"}
PAGE = Path(__file__).parents[2] / "docs" / "measure.md"


def test_every_file_is_a_technique_or_shared() -> None:
    """One that is not listed can be named by nobody."""
    assert {path.stem for path in FOLDER.glob("*.py")} == SHARED | set(TECHNIQUES.values())


@pytest.mark.parametrize("name", TECHNIQUES)
def test_a_technique_says_what_it_costs(name: str) -> None:
    """Its bytes, a worked number, a source, a section in the docs, and a test that imports it."""
    module = f"kvplan.caches.{TECHNIQUES[name]}"
    text = importlib.import_module(module).__doc__ or ""
    assert text.startswith(f"{name}: ")
    assert "Worked: " in text
    assert "Source: " in text
    assert f"`{TECHNIQUES[name]}.py`" in PAGE.read_text("utf-8")
    tests = [
        path.read_text("utf-8") for path in Path(__file__).parent.glob("test_*.py") if path.name != Path(__file__).name
    ]
    assert any(f"from {module} import" in test for test in tests)
