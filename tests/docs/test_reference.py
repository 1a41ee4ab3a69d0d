"""The reference pages say what the code says, and every roster member is written about."""

from __future__ import annotations

import json

import generate
import jsonschema
import pytest
from pages import DOCS, REPOSITORY, rewriting

from kvplan.attention import KINDS
from kvplan.catalogue import SHIPPED_GPUS, SHIPPED_SPECS
from kvplan.engine import ENGINES
from kvplan.policy import POLICIES
from kvplan.report import FORMATS


def test_the_reference_is_what_the_code_says() -> None:
    """`python tests/docs/generate.py`, or KVPLAN_REWRITE_DOCS=1, writes it anew."""
    if rewriting():
        generate.write()
    assert list(generate.stale()) == []


def test_every_kind_and_policy_has_a_section_with_a_number_and_a_source() -> None:
    """The roster's docstrings are the pages, so a member without one has no page."""
    sections = [*_sections("kinds.md"), *_sections("policies.md")]
    assert len(sections) == len(KINDS) + len(POLICIES)
    assert [s.splitlines()[0] for s in sections if "Worked:" not in s or "Source:" not in s] == []


@pytest.mark.parametrize("command", generate.RESULTS)
def test_a_published_schema_is_a_schema(command: str) -> None:
    """The draft's own meta-schema accepts it."""
    jsonschema.Draft202012Validator.check_schema(
        json.loads((DOCS / "reference" / "schemas" / f"{command}.json").read_text("utf-8"))
    )


def test_the_readme_counts_what_ships() -> None:
    """As many models and GPUs as the lists have."""
    shipped = (
        f"{len(list(SHIPPED_SPECS.glob('*.yaml')))} models and {len(list(SHIPPED_GPUS.glob('*.yaml')))} accelerators"
    )
    assert shipped in (REPOSITORY / "README.md").read_text("utf-8")


@pytest.mark.parametrize("engine", ENGINES)
def test_an_engine_has_its_page(engine: str) -> None:
    """docs/engines/NAME.md says what it reserves and why."""
    assert (DOCS / "engines" / f"{engine}.md").is_file()


@pytest.mark.parametrize("format_", FORMATS)
def test_an_output_format_is_named_in_the_readme(format_: str) -> None:
    """Whoever reads the README knows what `--format` takes."""
    assert f"`{format_}`" in (REPOSITORY / "README.md").read_text("utf-8")


def _sections(page: str) -> list[str]:
    return (DOCS / "reference" / page).read_text("utf-8").split("\n## ")[1:]
