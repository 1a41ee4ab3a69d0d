"""YAML from strangers is read within bounds: what a plain spec never holds is refused at once."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvplan import yaml_text
from kvplan.errors import InputError
from kvplan.spec import parse_spec
from kvplan.yaml_text import DEEPEST, MOST_BYTES, MOST_NODES, load_documents, load_yaml

MEGABYTE = 2**20


def refusal(text: str) -> str:
    """What is said of a text that is refused; it is short and printable."""
    with pytest.raises(InputError) as caught:
        load_yaml(text, "f.yaml")
    assert caught.value.fix
    assert caught.value.what.isprintable()
    assert len(caught.value.what) < 300
    return caught.value.what


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", None),
        ("# only a comment\n", None),
        ("a: 1", {"a": 1}),
        ("a: [1, -2, +3, 007, 1_000]", {"a": [1, -2, 3, 7, 1000]}),
        ("a: [0.5, .5, 5., 1e5, -1.5E-3]", {"a": [0.5, 0.5, 5.0, 1e5, -1.5e-3]}),
        ("a: [true, True, FALSE, null, Null, ~, ]", {"a": [True, True, False, None, None, None]}),
        ("a:", {"a": None}),
        (
            "a: [yes, no, on, off, tRUE, 12:30, 0o17, 0x1f, .inf, .nan, 1e, 2026-11-29]",
            {"a": ["yes", "no", "on", "off", "tRUE", "12:30", "0o17", "0x1f", ".inf", ".nan", "1e", "2026-11-29"]},
        ),
        ("a: ['1', \"true\", 'null']", {"a": ["1", "true", "null"]}),
        ("7: a\n2.5: b\ntrue: c", {7: "a", 2.5: "b", True: "c"}),
        ("- a\n- {b: [c, {d: e}]}", ["a", {"b": ["c", {"d": "e"}]}]),
        ("a: >-\n  folded\n  text\nb: |\n  kept\n", {"a": "folded text", "b": "kept\n"}),
        ("\ufeffa: 1", {"a": 1}),
        ("--- \na: 1\n...\n", {"a": 1}),
        ("<<: {a: 1}", {"<<": {"a": 1}}),
        ("name: llama-3.1-70b", {"name": "llama-3.1-70b"}),
    ],
)
def test_plain_yaml_is_read_by_the_core_rules(text: str, value: Any) -> None:
    """Numbers, words and text as YAML 1.2 has them: no dates, no sexagesimals, no merge keys."""
    assert value == load_yaml(text, "f.yaml")


@pytest.mark.parametrize("text", ["1e999", "-1e999", "9" * 50 + ".0"])
def test_a_number_beyond_floats_stays_text(text: str) -> None:
    """Infinity never enters by way of a large exponent."""
    assert {"a": text} == load_yaml(f"a: {text}", "f.yaml")


def bomb() -> str:
    """A billion words in nine lines."""
    lines = ['a: &a ["lol"]'] + [
        f"{b}: &{b} [{', '.join([f'*{a}'] * 9)}]" for a, b in zip("abcdefgh", "bcdefghi", strict=True)
    ]
    return "\n".join(lines)


@pytest.mark.parametrize(
    ("text", "what"),
    [
        (bomb(), "f.yaml: line 1: holds a YAML anchor or alias"),
        ("a: *b", "f.yaml: line 1: holds a YAML anchor or alias"),
        ("a: &b {c: 1}", "f.yaml: line 1: holds a YAML anchor or alias"),
        ("base: 1\na: &b [1]", "f.yaml: line 2: holds a YAML anchor or alias"),
        (
            "a: !!python/object/apply:os.system [id]",
            "f.yaml: line 1: holds the YAML tag 'tag:yaml.org,2002:python/object/apply:os.system'",
        ),
        ("a: !!str 1", "f.yaml: line 1: holds the YAML tag 'tag:yaml.org,2002:str'"),
        ("a: !own 1", "f.yaml: line 1: holds the YAML tag '!own'"),
        ("%TAG ! tag:x,2000:\n---\na: 1", "f.yaml: holds the YAML directive %TAG"),
        ("--- a\n--- b", "f.yaml: holds more than one document"),
        ("---\n---\n", "f.yaml: holds more than one document"),
        ("a: 1\nb: 2\na: 3", "f.yaml: line 3: the key 'a' stands twice"),
        ("1: a\ntrue: b", "f.yaml: line 2: the key 'True' stands twice"),
        ("? [a, b]\n: 1", "f.yaml: line 1: found a key that is not plain text"),
        ("? {a: b}\n: 1", "f.yaml: line 1: found a key that is not plain text"),
        ("~: 1", "f.yaml: line 1: found a key that is not plain text"),
        ("a: " + "9" * 5000, "f.yaml: line 1: found an integer of 5,000 digits"),
        ("a: [1, 2", "f.yaml: line 2, column 1: not YAML: 'did not find expected ',' or ']''"),
        ("a:\n\tb: 1", "f.yaml: line 2, column 1: not YAML: 'found character that cannot start any token'"),
        ("a: \x00", "f.yaml: not YAML: 'unreadable'"),
        ("a: \x1b[31m", "f.yaml: not YAML: 'unreadable'"),
        ("a: \ud800", "f.yaml: not Unicode text"),
        ('a: "\\ud800"', "f.yaml: line 1, column 7: not YAML: 'found invalid Unicode character escape code'"),
    ],
)
def test_what_a_spec_never_holds_is_refused(text: str, what: str) -> None:
    """Anchors, tags, directives, second documents, doubled keys and absurd numbers, each with its place."""
    assert what == refusal(text)


@pytest.mark.parametrize(
    "text",
    [
        "[" * 100_000,
        "{" * 100_000,
        "- " * 100_000,
        "? " * 100_000,
        "[{a: " * 100_000,
        "\n".join(" " * depth + "a:" for depth in range(1000)),
        "a: " + "[" * DEEPEST + "]" * DEEPEST,
    ],
    ids=["lists", "mappings", "dashes", "keys", "both", "indented", "one too deep"],
)
def test_deep_nesting_is_refused(text: str) -> None:
    """No recursion follows a stranger down."""
    refusal(text)


def test_a_spec_may_nest_as_deep_as_any_does() -> None:
    """The bound leaves room for everything a spec, capacity or workload file holds."""
    depth = DEEPEST - 1
    assert load_yaml("a: " + "[" * depth + "]" * depth, "f.yaml")


@pytest.mark.parametrize(
    "text",
    [
        "a: [" + "1," * 490_000 + "1]",
        "\n".join("- 1" for _ in range(260_000)),
        "\n".join(f"k{number}: 1" for number in range(80_000)),
        "[" + "[]," * 300_000 + "[]]",
    ],
    ids=["flow", "block", "keys", "lists"],
)
def test_half_a_million_values_are_refused(text: str) -> None:
    """Reading stops at the 50,000th."""
    assert f"more than {MOST_NODES:,} values" in refusal(text)


def test_as_many_values_as_allowed_are_read() -> None:
    """The 50,000th value is read, the list around them being the first."""
    assert MOST_NODES - 1 == len(load_yaml("- 1\n" * (MOST_NODES - 1), "f.yaml"))
    assert f"more than {MOST_NODES:,} values" in refusal("- 1\n" * MOST_NODES)


def test_a_million_values_are_refused() -> None:
    """They do not fit the longest text, which is refused before it is parsed."""
    assert f"f.yaml: larger than {MOST_BYTES:,} characters" == refusal("a: [" + "1," * 1_000_000 + "1]")


def test_many_tag_directives_are_refused() -> None:
    """Each would be compared with all before it."""
    assert "f.yaml: holds the YAML directive %TAG" == refusal(
        "\n".join(f"%TAG !a{i}! x" for i in range(40_000)) + "\n---\na: 1\n"
    )


@pytest.mark.parametrize(
    "text",
    [
        f"name: {'a' * 1_000_000}",
        f'name: "{"x" * 1_000_000}"',
        f"{'k' * 1_000_000}: 1",
        f"? {'k' * 1_000_000}\n: 1",
        'name: "' + "\\e[31m" * 100_000 + '"',
    ],
    ids=["name", "quoted", "key", "long key", "escapes"],
)
def test_a_megabyte_name_is_refused_in_one_short_line(text: str) -> None:
    """Whether the parser or the spec refuses it, nobody's terminal scrolls."""
    with pytest.raises(InputError) as caught:
        parse_spec(load_yaml(text, "f.yaml"), "f.yaml")
    assert caught.value.what.isprintable()
    assert len(caught.value.what) < 2000


@pytest.mark.parametrize("name", [r"\e[31mred\e[0m", r"[red]x[/red]", r"\u202etxt", r"\x07", r"a\nb", r"\0"])
def test_escapes_and_markup_in_a_name_are_refused_and_spelled_out(name: str) -> None:
    """Quoted YAML can hold any character; a name cannot, and the error shows which without obeying it."""
    values = load_yaml(f'name: "{name}"\nlayers: 1\nattention: {{type: none}}', "f.yaml")
    with pytest.raises(InputError, match="^f.yaml: name: found ") as caught:
        parse_spec(values, "f.yaml")
    assert caught.value.what.isprintable()


@pytest.mark.parametrize("number", ["9" * 40, "-" + "9" * 39, "1e308", "99999999999999999999"])
def test_an_absurd_number_is_refused_by_its_field(number: str) -> None:
    """What the reader lets through, the field's bounds do not."""
    for field in ("layers", "max_context", "parameters"):
        values = {"name": "m", "layers": 1, "attention": {"type": "none"}, **load_yaml(f"{field}: {number}", "f.yaml")}
        with pytest.raises(InputError, match=f"^f.yaml: {field}: found "):
            parse_spec(values, "f.yaml")


@pytest.mark.parametrize("error", [RecursionError, MemoryError])
def test_a_parser_that_gives_up_is_no_traceback(error: type[Exception], monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the parser underneath runs out of."""

    def gives_up(text: str, source: str) -> None:
        raise error

    monkeypatch.setattr(yaml_text, "_fold", gives_up)
    assert "f.yaml: nested too deeply" == refusal("a: 1")


scalars = st.one_of(
    st.integers(-(10**30), 10**30),
    st.booleans(),
    st.none(),
    st.floats(-1e6, 1e6),
    st.text("abc :#-'\"[]{}yesno~.0", max_size=8),
)
documents = st.recursive(
    scalars,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text("abcxyz", min_size=1, max_size=4), inner, max_size=4)
    ),
    max_leaves=20,
)


@given(documents)
def test_reading_what_json_writes_is_the_identity(value: Any) -> None:
    """JSON is YAML, so a document survives the round trip."""
    assert value == load_yaml(json.dumps(value), "f.yaml")


def answer(text: str) -> str:
    """What is said of `text`; nothing where it is read."""
    try:
        load_yaml(text, "f.yaml")
    except InputError as error:
        return error.what
    return ""


@given(st.lists(st.integers(0, 0x10FFFF), max_size=100))
def test_no_text_is_a_traceback(characters: list[int]) -> None:
    """Any text, lone surrogates included, is a value or a printable error of ours."""
    assert answer("".join(map(chr, characters))).isprintable()


MARKS = [*"""- |? |: |a|1|[|]|{|}|,|\n|  |&a |*a |!t |'|\"|>|#|---|%|\t""".split("|"), "|"]


@given(st.lists(st.sampled_from(MARKS), max_size=40))
def test_no_mixture_of_marks_is_a_traceback(marks: list[str]) -> None:
    """The same for texts made of YAML's own marks."""
    assert answer("".join(marks)).isprintable()


@pytest.mark.parametrize(
    ("text", "documents"),
    [
        ("", []),
        ("a: 1", [{"a": 1}]),
        ("a: 1\n---\n- 2\n---\n", [{"a": 1}, [2], None]),
        ("a: &x {k: [1]}\nb: *x\nc: [*x, *x]\n", [{"a": {"k": [1]}, "b": {"k": [1]}, "c": [{"k": [1]}] * 2}]),
        ("a: &x text\nb: *x\n", [{"a": "text", "b": "text"}]),
        ("a: &x [1]\nb: &x [2]\nc: *x\n", [{"a": [1], "b": [2], "c": [2]}]),
        ("a: !!str 1\n", [{"a": "1"}]),
    ],
)
def test_other_people_s_documents_are_read_with_their_anchors(text: str, documents: list[Any]) -> None:
    """Several documents, aliases as what they stand for, the last anchor of a name."""
    assert documents == load_documents(text, "f.yaml")


BOMB = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]\n" for i in range(1, 12)
)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (BOMB, "more than 50,000 values"),
        ("a: &a [*a]", "the alias 'a' stands for nothing"),
        ("a: &a 1\n---\nb: *a", "the alias 'a' stands for nothing"),
        ("a: !!python/object:os.system x", "the YAML tag"),
        ("a: " + "[" * 30 + "]" * 30, "nested deeper"),
        ("- x\n" * 60_000, "more than 50,000 values"),
        ("a: 1\na: 2\n", "stands twice"),
        ("a: [", "not YAML"),
        ("x" * (MOST_BYTES + 1), "larger than"),
    ],
    ids=range(9),
)
def test_other_people_s_documents_have_the_same_bounds(text: str, says: str) -> None:
    """An alias counts as all that it stands for."""
    with pytest.raises(InputError, match=says) as caught:
        load_documents(text, "f.yaml")
    assert caught.value.what.isprintable()
    assert caught.value.fix
