"""The repository's own capacity table is what `kvplan table --check` says it is: up to date."""

from __future__ import annotations

from pages import DOCS, run


def test_the_committed_capacity_table_is_up_to_date() -> None:
    """`kvplan table docs/capacity.yaml --check docs/capacity-table.md --update` writes it anew."""
    code, text = run("kvplan table capacity.yaml --check capacity-table.md", DOCS)
    assert code == 0, text
