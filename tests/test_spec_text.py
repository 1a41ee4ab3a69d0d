"""A spec written back as YAML reads as the same spec."""

from __future__ import annotations

import pytest
from hypothesis import given
from strategies import SPECS, mappings, shipped, specs

from kvplan.spec import ModelSpec, parse_spec
from kvplan.spec_text import spec_values, spec_yaml
from kvplan.yaml_text import load_yaml

NAMES = sorted(path.stem for path in SPECS.glob("*.yaml"))


def reread(spec: ModelSpec) -> ModelSpec:
    """What the YAML text of `spec` says."""
    return parse_spec(load_yaml(spec_yaml(spec), "again"), spec.source)


def kept(spec: ModelSpec) -> object:
    """Everything a spec means, layer by layer, the names of its layers left out."""
    layers = [layer.kinds for count, layer in spec.runs for _ in range(count)]
    return spec.fields, layers, spec.draft and spec.draft.kinds


@pytest.mark.parametrize("name", NAMES)
def test_a_shipped_spec_survives_being_written_and_read(name: str) -> None:
    """Fields, layers in their order, draft layers; and what is written the second time is the same text."""
    again = reread(shipped(name))
    assert kept(shipped(name)) == kept(again)
    assert spec_yaml(again) == spec_yaml(reread(again))


@given(spec=specs())
def test_any_spec_survives_being_written_and_read(spec: ModelSpec) -> None:
    """Uniform, in groups or in a pattern, of every kind."""
    assert kept(spec) == kept(reread(spec))


@given(values=mappings())
def test_what_is_written_has_no_anchors_and_names_come_first(values: dict[str, object]) -> None:
    """The text is what a person would write: kvplan's own reader takes it."""
    text = spec_yaml(parse_spec(values, "random"))
    assert "&id" not in text
    assert text.startswith("name: random\n")


def test_defaults_are_left_out() -> None:
    """A simple model stays short: four lines."""
    values = {"name": "tiny", "layers": 2, "attention": {"type": "mha", "heads": 4, "kv_heads": 4, "head_dim": 8}}
    assert {**values, "dtype": "bf16"} == spec_values(parse_spec(values, "tiny"))
    assert 4 == len(spec_yaml(parse_spec(values, "tiny")).splitlines())
