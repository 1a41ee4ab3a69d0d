"""A spec says which layer keeps what, and refuses what contradicts itself."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from strategies import mappings

from kvplan.errors import InputError, KvplanError, NotCountableError
from kvplan.spec import ModelSpec, inline_spec, parse_spec

LOCAL = {"type": "gqa", "heads": 8, "kv_heads": 2, "head_dim": 64, "window": 128}
GLOBAL = {"type": "gqa", "heads": 8, "kv_heads": 2, "head_dim": 64}
UNIFORM: dict[str, Any] = {"name": "m", "layers": 4, "attention": GLOBAL}
NAMED = {"local": LOCAL, "global": GLOBAL}
GROUP = {"count": 2, "attention": GLOBAL}


def parsed(**changes: Any) -> ModelSpec:
    """The uniform spec with `changes`; None removes a key."""
    return parse_spec({key: value for key, value in {**UNIFORM, **changes}.items() if value is not None}, "f.yaml")


def runs(spec: ModelSpec) -> list[tuple[int, str]]:
    """(count, name) of each run of layers."""
    return [(count, layer.name) for count, layer in spec.runs]


def test_a_uniform_model_is_one_run() -> None:
    """Every layer keeps the same, and a draft layer keeps what they keep."""
    spec = parsed()
    assert [(4, "layer")] == runs(spec)
    assert (4, "m") == (spec.layer_count, spec.name)
    assert spec.draft_layer().kinds == spec.runs[0][1].kinds


def test_groups_keep_their_order() -> None:
    """A list of groups is the order of the layers."""
    spec = parsed(attention=None, layers=[GROUP, {"count": 3, "attention": LOCAL}])
    assert [(2, "group 1"), (3, "group 2")] == runs(spec)


def test_a_pattern_repeats_and_is_cut_at_the_end() -> None:
    """Gemma's five locals and a global over eight layers end with two locals."""
    spec = parsed(layers=8, pattern=["local"] * 5 + ["global"], attention=NAMED)
    assert [(5, "local"), (1, "global"), (2, "local")] == runs(spec)
    assert spec.runs[0][1] is spec.runs[2][1]


def test_distinct_layers_are_counted_in_order_of_first_appearance() -> None:
    """However a pattern scatters them."""
    spec = parsed(layers=8, pattern=["local"] * 5 + ["global"], attention=NAMED)
    assert [(7, "local"), (1, "global")] == [(count, layer.name) for count, layer in spec.layers()]


def test_a_layer_may_hold_several_attentions() -> None:
    """Its tensors are those of each."""
    spec = parsed(attention=[GLOBAL, {"type": "index", "head_dim": 128}])
    assert ["k", "v", "index"] == [tensor.name for tensor in spec.runs[0][1].tensors()]


def test_mixed_layers_have_no_draft_of_their_own() -> None:
    """Nothing says which of them a draft layer is like, so asking is refused, never guessed."""
    mixed = parsed(pattern=["local", "global"], attention=NAMED)
    assert mixed.draft is None
    with pytest.raises(
        NotCountableError, match="^f.yaml: draft: the layers differ and the spec does not say"
    ) as caught:
        mixed.draft_layer()
    assert "add `draft: {attention: {...}}` to the spec, or leave out --mtp" == caught.value.fix


@pytest.mark.parametrize("draft", [{"attention": LOCAL}, {"count": 1, "attention": LOCAL}])
def test_a_draft_says_what_its_layer_keeps(draft: dict[str, Any]) -> None:
    """`draft` overrides what a uniform model would repeat."""
    assert 128 == parsed(draft=draft).draft_layer().kinds[0].window  # type: ignore[attr-defined]


def test_defaults_are_those_of_the_contract() -> None:
    """bf16, and nothing else assumed."""
    fields = parsed().fields
    assert ("bf16", None, None, [], []) == (
        fields.dtype,
        fields.parameters,
        fields.max_context,
        fields.aliases,
        fields.sources,
    )


def test_weights_that_add_up_are_taken() -> None:
    """Parts by format, which make the total."""
    parts = [
        {"part": "experts", "parameters": 7, "format": "mxfp4"},
        {"part": "rest", "parameters": 3, "format": "bf16"},
    ]
    assert 2 == len(parsed(weights=parts, parameters=10).fields.weights)
    assert 2 == len(parsed(weights=parts).fields.weights)


@pytest.mark.parametrize(
    ("changes", "what", "fix"),
    [
        (
            {"layers": None},
            "f.yaml: layers: found nothing, allowed whole numbers from 1 to 10,000",
            "for example layers: 80",
        ),
        ({"layers": 0}, "f.yaml: layers: found '0', allowed whole numbers from 1 to 10,000", "for example layers: 80"),
        (
            {"layers": 10_001},
            "f.yaml: layers: found '10001', allowed whole numbers from 1 to 10,000",
            "for example layers: 80",
        ),
        (
            {"layers": True},
            "f.yaml: layers: found 'True', allowed whole numbers from 1 to 10,000",
            "for example layers: 80",
        ),
        (
            {"layers": "4"},
            "f.yaml: layers: found '4', allowed whole numbers from 1 to 10,000",
            "for example layers: 80",
        ),
        (
            {"layers": [GROUP]},
            "f.yaml: layers: found a list of groups beside `attention` or `pattern`",
            "put the attention into the groups",
        ),
        (
            {"layers": [], "attention": None},
            "f.yaml: layers: found 0 groups, allowed 1 to 10,000",
            "list each group once, with its count",
        ),
        (
            {"layers": [{"count": 2}], "attention": None},
            "f.yaml: layers.0: found 'a dict of 1 items', allowed {count: N, attention: {...}}",
            "each group has count and attention",
        ),
        (
            {"layers": [7], "attention": None},
            "f.yaml: layers.0: found '7', allowed {count: N, attention: {...}}",
            "each group has count and attention",
        ),
        (
            {"layers": [GROUP, {"count": 0, "attention": GLOBAL}], "attention": None},
            "f.yaml: layers.1.count: found '0', allowed whole numbers from 1 to 10,000",
            "for example layers.1.count: 80",
        ),
        (
            {"layers": [{"count": 10_000, "attention": GLOBAL}, GROUP], "attention": None},
            "f.yaml: layers: more than 10,000 in all",
            "no model has so many layers",
        ),
        (
            {"attention": None},
            "f.yaml: attention: missing",
            "add `attention: {type: gqa, heads: 64, kv_heads: 8, head_dim: 128}`",
        ),
        (
            {"attention": []},
            "f.yaml: attention: found 0 attentions, allowed 1 to 8 in one layer",
            "list what one layer holds",
        ),
        (
            {"attention": [GLOBAL] * 9},
            "f.yaml: attention: found 9 attentions, allowed 1 to 8 in one layer",
            "list what one layer holds",
        ),
        (
            {"attention": 5},
            "f.yaml: attention: found '5', allowed a mapping with a `type`",
            "for example {type: gqa, heads: 64, kv_heads: 8, head_dim: 128}",
        ),
        (
            {"attention": {}},
            "f.yaml: attention: found 'a dict of 0 items', allowed a mapping with a `type`",
            "for example {type: gqa, heads: 64, kv_heads: 8, head_dim: 128}",
        ),
        (
            {"attention": NAMED},
            "f.yaml: attention: found 'a dict of 2 items', allowed a mapping with a `type`",
            "add `pattern:` to say which layer has which",
        ),
        (
            {"attention": [GLOBAL, {"type": "index"}]},
            "f.yaml: attention.1: head_dim: missing",
            "add `head_dim:`; `kvplan show llama-3.1-70b` prints a whole spec",
        ),
        (
            {"pattern": ["a"]},
            "f.yaml: attention: a pattern needs named attentions",
            "write `attention: {local: {...}, global: {...}}`",
        ),
        (
            {"pattern": ["a"], "attention": [GLOBAL]},
            "f.yaml: attention: a pattern needs named attentions",
            "write `attention: {local: {...}, global: {...}}`",
        ),
        (
            {"pattern": "local", "attention": NAMED},
            "f.yaml: pattern: found 'local', allowed a list of names from `attention`",
            "for example [local, local, global]",
        ),
        (
            {"pattern": [], "attention": NAMED},
            "f.yaml: pattern: found 'a list of 0 items', allowed a list of names from `attention`",
            "for example [local, local, global]",
        ),
        (
            {"pattern": ["local"] * 5, "attention": NAMED},
            "f.yaml: pattern: 5 names for 4 layers",
            "the pattern may not be longer than the model",
        ),
        (
            {"pattern": ["local", "gobal"], "attention": NAMED},
            "f.yaml: pattern: found 'gobal', allowed 'local', 'global'",
            "use the names in `attention`",
        ),
        (
            {"pattern": [["local"]], "attention": NAMED},
            "f.yaml: pattern: found 'a list of 1 items', allowed 'local', 'global'",
            "use the names in `attention`",
        ),
        (
            {"pattern": ["local"], "attention": NAMED},
            "f.yaml: attention: 'global' is not in the pattern",
            "use it or remove it",
        ),
        (
            {"draft": 1},
            "f.yaml: draft: found '1', allowed {count: 1, attention: {...}}",
            "say what one draft layer keeps",
        ),
        (
            {"draft": {"count": 1}},
            "f.yaml: draft: found 'a dict of 1 items', allowed {count: 1, attention: {...}}",
            "say what one draft layer keeps",
        ),
        (
            {"draft": {"count": -1, "attention": GLOBAL}},
            "f.yaml: draft.count: found '-1', allowed whole numbers from 1 to 10,000",
            "for example draft.count: 80",
        ),
        (
            {"weights": [{"part": "all", "parameters": 5, "format": "bf16"}], "parameters": 6},
            "f.yaml: weights: parts hold 5 parameters, `parameters` says 6",
            "make the parts add up",
        ),
        (
            {"dtype": "fp8"},
            "f.yaml: dtype: found 'fp8', allowed 'bf16', 'fp16' or 'fp32'",
            "write a value of that kind",
        ),
        ({"nmae": "x"}, "f.yaml: nmae: unknown key", "did you mean name?"),
        ({"atention": GLOBAL}, "f.yaml: atention: unknown key", "did you mean attention, dimensions, pattern?"),
        ({"layer": 4}, "f.yaml: layer: unknown key", "did you mean layers, pattern?"),
        (
            {"attention": {**GLOBAL, "hed_dim": 64}},
            "f.yaml: attention: hed_dim: unknown key",
            "did you mean head_dim, v_head_dim, heads?",
        ),
        (
            {"attention": {**GLOBAL, "heads": 8.0}},
            "f.yaml: attention: heads: found '8.0', allowed a valid integer",
            "write a value of that kind",
        ),
    ],
)
def test_a_faulty_spec_is_refused_in_two_lines(changes: dict[str, Any], what: str, fix: str) -> None:
    """File, field, found, allowed; then the likeliest fix. Every fault but an unknown type exits 2."""
    with pytest.raises(InputError) as caught:
        parsed(**changes)
    assert (what, fix, 2) == (caught.value.what, caught.value.fix, caught.value.exit_code)


@pytest.mark.parametrize("values", [None, [], "text", 5])
def test_a_spec_is_a_mapping(values: Any) -> None:
    """Anything else is refused before it is looked into."""
    with pytest.raises(
        InputError, match="^f.yaml: found '.*', allowed a mapping with name, layers and attention$"
    ) as caught:
        parse_spec(values, "f.yaml")
    assert "start with `name:`" == caught.value.fix


@pytest.mark.parametrize(
    ("kind", "fix"),
    [
        ("gqaa", "did you mean gqa, mqa?"),
        ("retnet_v2", "kinds kvplan counts: mha, mqa"),
        (["gqa"], "did you mean gqa?"),
        (7, "kinds kvplan counts: "),
    ],
)
def test_an_unknown_attention_type_is_uncountable(kind: Any, fix: str) -> None:
    """Exit 3, the field named, nothing guessed."""
    with pytest.raises(
        NotCountableError, match="^f.yaml: attention: type: found '.*', which kvplan does not know how to count$"
    ) as caught:
        parsed(attention={**GLOBAL, "type": kind})
    assert 3 == caught.value.exit_code
    assert caught.value.fix.startswith(fix)


@pytest.mark.parametrize(
    "name", ["", "Upper", "[red]x[/red]", "a\x1b[31m", "a b", "../x", "x" * 101, "ä", "-x", 5, None, "x\n"]
)
def test_a_name_is_fit_for_files_and_terminals(name: Any) -> None:
    """Lower-case letters, digits, dots, dashes, pluses, underscores; markup and escapes are shown without harm."""
    with pytest.raises(InputError) as caught:
        parse_spec({**UNIFORM, "name": name}, "f.yaml")
    assert caught.value.what.startswith("f.yaml: name: found ")
    assert "\x1b" not in caught.value.what


@pytest.mark.parametrize("number", [10**16, -1, pytest.param(10**5000, id="huge"), 1.5, "7b", True])
def test_parameters_are_a_whole_number_in_reach(number: Any) -> None:
    """Absurd and fractional counts are refused."""
    with pytest.raises(InputError, match="^f.yaml: parameters: found "):
        parsed(parameters=number)


def test_the_order_of_keys_does_not_matter() -> None:
    """YAML mappings have no order."""
    assert parsed().runs == parse_spec(dict(reversed(UNIFORM.items())), "f.yaml").runs


@given(mappings())
def test_a_pattern_covers_every_layer(values: dict[str, Any]) -> None:
    """However a spec is written, it has the layers it says."""
    layers = values["layers"]
    expected = layers if isinstance(layers, int) else sum(group["count"] for group in layers)
    assert expected == parse_spec(values, "f.yaml").layer_count


@pytest.mark.parametrize(
    ("numbers", "kind"),
    [
        ({"kv_heads": 8}, "mha"),
        ({"kv_heads": 8, "heads": 64}, "gqa"),
        ({"kv_heads": 1, "heads": 64}, "mqa"),
        ({"kv_heads": 1}, "mha"),
        ({"kv_heads": 8, "window": 128}, "mha"),
    ],
)
def test_a_model_given_inline_gets_the_kind_its_heads_imply(numbers: dict[str, int], kind: str) -> None:
    """Numbers alone make a spec."""
    spec = inline_spec(layers=80, head_dim=128, **numbers)
    assert (kind, 80, "inline") == (spec.runs[0][1].kinds[0].type, spec.layer_count, spec.source)


@pytest.mark.parametrize(("heads", "kv_heads"), [(8, 3), (4, 8)])
def test_inline_numbers_that_contradict_are_refused(heads: int, kv_heads: int) -> None:
    """Query heads come in groups."""
    with pytest.raises(
        KvplanError,
        match=f"^inline: attention: heads must be a multiple of kv_heads: {heads} is not a multiple of {kv_heads}$",
    ):
        inline_spec(layers=80, head_dim=128, heads=heads, kv_heads=kv_heads)
