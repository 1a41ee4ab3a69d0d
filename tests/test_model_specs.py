"""Every shipped spec proves itself: it reproduces its own figures and agrees with facts kept apart from it."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from strategies import SPECS, data, keeps_encoder, plan, shipped

from kvplan.growth import Chunk, PerEncoderToken, Window, slope
from kvplan.spec import ModelSpec, parse_spec
from kvplan.spec_text import spec_yaml
from kvplan.tensor import Role
from kvplan.yaml_text import load_yaml

NAMES = sorted(path.stem for path in SPECS.glob("*.yaml"))
FACTS: dict[str, dict[str, Any]] = {entry["name"]: entry for entry in data("model_catalogue.yaml")}
DTYPES = {"bf16": "bfloat16", "fp16": "float16", "fp32": "float32"}
FIGURES = ("bytes_per_token", "bytes_per_token_full", "fixed_bytes_per_sequence")


def agree(name: str, field: str, found: object, expected: object) -> None:
    """One line that says which field of which file to mend."""
    assert found == expected, (
        f"model_specs/{name}.yaml: {field}: the spec gives {found}, its catalogue entry says {expected}"
    )


def figures(spec: ModelSpec) -> dict[str, Fraction | int]:
    """What kvplan computes for the keys of `expect`."""
    unknown_encoder = {"encoder_tokens": 1} if keeps_encoder(spec) and spec.fields.encoder_tokens is None else {}
    cache = plan(spec, context=1, **unknown_encoder)
    return dict(
        zip(
            FIGURES,
            (cache.marginal_bytes(full=False), cache.marginal_bytes(full=True), cache.fixed_bytes()),
            strict=True,
        )
    )


def values_per_token(spec: ModelSpec) -> dict[str, Fraction | int]:
    """Cached numbers, not bytes: those that grow with every token, those held in windows, and index keys."""
    found: dict[str, Fraction | int] = {"growing": 0, "windowed": 0, "indexer": 0}
    for count, layer in spec.runs:
        for tensor in layer.tensors():
            if tensor.role in (Role.CONV, Role.STATE) or isinstance(tensor.growth, PerEncoderToken):
                continue
            kind = (
                "indexer"
                if tensor.role is Role.INDEX
                else "windowed"
                if isinstance(tensor.growth, Window | Chunk)
                else "growing"
            )
            found[kind] += count * tensor.elements * (1 if kind == "windowed" else slope(tensor.growth, full=True))
    return found


def test_every_spec_has_its_facts_and_every_fact_its_spec() -> None:
    """model_specs/ and tests/data/model_catalogue.yaml list the same models."""
    assert sorted(FACTS) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_a_spec_is_called_like_its_file(name: str) -> None:
    """`name:` is the file's name, so that a spec is found by either."""
    assert shipped(name).name == name, f"model_specs/{name}.yaml: name: rename the file or the model"


@pytest.mark.parametrize("name", NAMES)
def test_a_spec_names_its_sources(name: str) -> None:
    """A spec without sources is hearsay."""
    assert shipped(name).fields.sources, f"model_specs/{name}.yaml: sources: add where the numbers are published"


@pytest.mark.parametrize("name", NAMES)
def test_a_spec_reproduces_what_it_expects(name: str) -> None:
    """The figures under `expect` follow from the layers."""
    spec = shipped(name)
    stated = {key: value for key in FIGURES if (value := getattr(spec.fields.expect, key)) is not None}
    found = {key: value for key, value in figures(spec).items() if key in stated}
    assert stated, f"model_specs/{name}.yaml: expect: add bytes_per_token"
    assert found == stated, f"model_specs/{name}.yaml: expect: says {stated}, the layers give {found}"


@pytest.mark.parametrize("name", NAMES)
def test_a_spec_caches_the_numbers_its_facts_give(name: str) -> None:
    """Values per token agree with the catalogue: full-length layers, windowed layers, index keys."""
    facts = FACTS[name]["kv_check"]
    expected = {kind: facts.get(f"{kind}_values_per_token", 0) for kind in ("growing", "windowed", "indexer")}
    agree(name, "attention", values_per_token(shipped(name)), expected)


@pytest.mark.parametrize("name", NAMES)
def test_a_spec_has_the_shape_its_facts_give(name: str) -> None:
    """Layers, context, dtype, hub id and parameters agree with the catalogue."""
    spec, facts = shipped(name), FACTS[name]
    agree(name, "layers", spec.layer_count, facts["num_layers"])
    agree(name, "max_context", spec.fields.max_context, facts.get("max_context"))
    agree(name, "dtype", DTYPES[spec.fields.dtype], facts["dtype"])
    agree(name, "hub", spec.fields.hub, facts.get("hf_repo"))


@pytest.mark.parametrize("name", NAMES)
def test_a_spec_has_the_parameters_its_facts_give(name: str) -> None:
    """The parameters are the published total, or what the dimensions imply where the total was found to be off."""
    found, facts = shipped(name).fields.parameters, FACTS[name]
    total = facts.get("params_total")
    if facts.get("params_check") == "off" and found == facts["params_computed"]:
        return
    if facts["confidence"] == "medium" and total is not None and total % 10**6 == 0:
        return  # a figure rounded to millions names the model and counts nothing
    agree(name, "parameters", found, total)


RECURRENT = [name for name in NAMES if name in FACTS and "recurrent" in FACTS[name]]


@pytest.mark.parametrize("name", RECURRENT)
def test_a_spec_keeps_the_states_its_facts_give(name: str) -> None:
    """Layers that hold a state, and the numbers in its convolution and matrix, agree with the catalogue."""
    facts = FACTS[name]["recurrent"]
    layers = [
        (count, [t for t in layer.tensors() if t.role in (Role.CONV, Role.STATE)])
        for count, layer in shipped(name).runs
    ]
    kept = {
        tuple(
            sum(t.elements * constant_rows(t.growth) for t in tensors if t.role is role)
            for role in (Role.CONV, Role.STATE)
        )
        for _, tensors in layers
        if tensors
    }
    agree(name, "layers that hold a state", sum(count for count, tensors in layers if tensors), facts["layers"])
    columns = sum(_product(facts.get(key)) for key in ("conv_state_shape", "token_shift_state_shape"))
    matrix = sum(_product(facts.get(key)) for key in ("ssm_state_shape", "state_shape", "normalizer_shape"))
    if facts["kind"] == "mlstm":
        matrix += facts["state_shape"][0]  # one running maximum per head
    if columns or matrix:  # some entries count layers only
        agree(name, "state", kept, {(columns, matrix)})
    if facts.get("ssm_state_dtype", facts.get("state_dtype", "")).startswith("float32"):
        dtypes = {t.dtype or "fp32" for _, tensors in layers for t in tensors if t.role is Role.STATE}
        agree(name, "state_dtype", dtypes, {"fp32"})


def constant_rows(growth: Any) -> int:
    """Rows of a tensor whose size no token changes."""
    return int(growth.rows)


def _product(shape: list[int] | None) -> int:
    total = 1 if shape else 0
    for size in shape or ():
        total *= size
    return total


ADDED_UP = [name for name in NAMES if name in FACTS and FACTS[name].get("params_check", "").startswith("ok")]


@pytest.mark.parametrize("name", ADDED_UP)
def test_the_parameters_follow_from_the_dimensions(name: str) -> None:
    """Parameters implied by the model's dimensions are those stated, towers for other senses apart, within 1 %."""
    facts = FACTS[name]
    gap = Fraction(
        facts["params_total"] - facts.get("params_non_text", 0) - facts["params_computed"], facts["params_total"]
    )
    unlisted = facts["params_check"] == "ok_minus_extras" and "params_non_text" not in facts
    least, most = (0, Fraction(2, 100)) if unlisted else (Fraction(-1, 100), Fraction(1, 100))
    assert least <= gap <= most, (
        f"model_specs/{name}.yaml: parameters: {float(gap):.2%} away from what the dimensions imply"
    )


@pytest.mark.parametrize("name", NAMES)
def test_a_spec_reads_back_as_it_is_written(name: str) -> None:
    """Printing a shipped spec and reading it again changes nothing."""
    spec = shipped(name)
    again = parse_spec(load_yaml(spec_yaml(spec), name), name)
    assert (spec.fields, kinds_of(spec)) == (again.fields, kinds_of(again))


def kinds_of(spec: ModelSpec) -> list[Any]:
    """What each layer keeps, in order."""
    return [layer.kinds for count, layer in spec.runs for _ in range(count)]


def test_no_two_specs_answer_to_one_word() -> None:
    """A name, alias or hub id leads to one spec."""
    owners: dict[str, list[str]] = {}
    for name in NAMES:
        fields = shipped(name).fields
        for word in {fields.name, *fields.aliases, *([fields.hub.lower()] if fields.hub else [])}:
            owners.setdefault(word, []).append(name)
    assert {word: names for word, names in owners.items() if len(names) > 1} == {}, (
        "give each of these words to one spec"
    )


def test_an_alias_stands_once_in_its_spec() -> None:
    """A list of aliases holds no word twice and not the name itself."""
    assert [n for n in NAMES if len({n, *shipped(n).fields.aliases}) != 1 + len(shipped(n).fields.aliases)] == []
