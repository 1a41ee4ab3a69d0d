"""The documentation is true: every command, every Python example and every spec in it is run."""

from __future__ import annotations

import doctest
from pathlib import Path

import pytest
import yaml
from pages import PAGES, REPOSITORY, blocks, executed, rewriting, runs_commands

from kvplan.spec import parse_spec
from kvplan.yaml_text import load_yaml

NAMES = [str(page.relative_to(REPOSITORY)) for page in PAGES]


@pytest.mark.parametrize("name", NAMES)
def test_the_commands_of_a_page_print_what_it_shows(name: str, tmp_path: Path) -> None:
    """KVPLAN_REWRITE_DOCS=1 writes what they print now into the page."""
    page = REPOSITORY / name
    before = page.read_text(encoding="utf-8")
    after, end = "", 0
    for block in blocks(before):
        if block.file:
            (tmp_path / block.file).write_text(block.text, encoding="utf-8")
        if runs_commands(block):
            after += before[end : block.start] + executed(block, tmp_path)
            end = block.start + len(block.text)
    after += before[end:]
    if rewriting():
        page.write_text(after, encoding="utf-8")
    else:
        assert after == before, "stale: KVPLAN_REWRITE_DOCS=1 pytest tests/docs writes it anew"


@pytest.mark.parametrize("name", NAMES)
def test_the_python_of_a_page_answers_what_it_shows(name: str) -> None:
    """Blocks of one page share their names, top to bottom."""
    text = "\n".join(block.text for block in blocks((REPOSITORY / name).read_text("utf-8")) if block.kind == "python")
    result = doctest.DocTestRunner().run(doctest.DocTestParser().get_doctest(text, {}, name, name, 0))
    assert result.failed == 0
    assert (">>>" in text) == (result.attempted > 0)


@pytest.mark.parametrize("name", NAMES)
def test_the_yaml_of_a_page_is_read_as_kvplan_reads_it(name: str) -> None:
    """A block that begins with a comment or `name:` and has layers is a whole spec; others are at least YAML."""
    for block in blocks((REPOSITORY / name).read_text("utf-8")):
        if block.kind != "yaml":
            continue
        values = yaml.safe_load(block.text)
        if isinstance(values, dict) and {"name", "layers"} <= set(values):
            parse_spec(load_yaml(block.text, name), name)


@pytest.mark.parametrize("name", NAMES)
def test_the_links_of_a_page_lead_somewhere(name: str) -> None:
    """Every relative link names a file of the repository."""
    import re

    page = REPOSITORY / name
    links = re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text("utf-8"))
    missing = [link for link in links if "://" not in link and not (page.parent / link).exists()]
    assert missing == []


@pytest.mark.parametrize("name", NAMES)
def test_a_page_has_one_sentence_per_line(name: str) -> None:
    """So that a change shows the sentence it changed."""
    import re

    prose = re.sub(r"^```.*?^```$", "", (REPOSITORY / name).read_text("utf-8"), flags=re.MULTILINE | re.DOTALL)
    lines = [line for line in prose.splitlines() if line and not line.startswith(("|", "    ", "- ", "<!--"))]
    several = [
        line for line in lines if re.search(r"[a-z0-9)`][.!?] [A-Z`]", re.sub(r"\b(e\.g|i\.e|v|vs)\. ", "", line))
    ]
    assert several == []
