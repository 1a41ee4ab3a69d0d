"""Every figure of 125 public logs: predicted from the shipped spec, within its own rounding, or listed with the reason."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
import yaml

from kvplan import size
from kvplan.catalogue import SHIPPED_SPECS
from kvplan.explain import explain_answer, reading_of
from kvplan.explain.ask import profiles
from kvplan.explain.model import model_of
from kvplan.explain.predict import attempt
from kvplan.logs import UNITS, printed_bytes, with_option

DATA = Path(__file__).parents[1] / "data" / "engine_logs.yaml"
CASES: list[dict[str, Any]] = yaml.safe_load(DATA.read_text("utf-8"))
LOGGED = [case for case in CASES if "log" in case]
IDEAL = [case for case in CASES if "ideal" in case]


def name(case: dict[str, Any]) -> str:
    return str(case["id"])


def test_every_case_is_checked_or_carries_its_reason() -> None:
    assert len({case["id"] for case in CASES}) == len(CASES) == 125
    for case in CASES:
        kinds = {"log", "ideal", "unchecked"} & set(case)
        assert len(kinds) == 1, case["id"]
        assert case["source"]
        assert case["figures"]
        if "unchecked" in case:
            assert len(case["unchecked"]) > 20, case["id"]
        else:
            assert (SHIPPED_SPECS / f"{case['spec']}.yaml").is_file(), case["id"]
        if case.get("expect") == "differs":
            assert case["because"], case["id"]


def test_the_page_states_how_many() -> None:
    """docs/explain.md counts the cases."""
    page = (DATA.parents[2] / "docs" / "explain.md").read_text("utf-8")
    expected = Counter(case.get("expect") or ("ideal" if "ideal" in case else "unchecked") for case in CASES)
    for kind, words in {
        "agrees": "print the predicted figures to the last digit",
        "differs": "differ, and the reason stands beside each",
        "ideal": "of engines that kvplan does not read: the spec's own bytes print so",
        "unchecked": "cannot be checked, each with its reason",
    }.items():
        assert f"| {expected[kind]} | {words} |" in page, (kind, expected[kind])


@pytest.mark.parametrize("case", LOGGED, ids=name)
def test_a_log_is_predicted(case: dict[str, Any]) -> None:
    """Every figure that the lines print is compared, and none is left out."""
    answer = explain_answer(case["log"], case["spec"])
    assert answer.figures
    assert [figure.name for figure in answer.figures if figure.agrees is None] == []
    assert answer.agrees == (case["expect"] == "agrees"), [
        (f.name, f.printed_text, f.predicted_text, f.reason) for f in answer.figures if not f.agrees
    ]


@pytest.mark.parametrize("case", [case for case in LOGGED if "agrees_with" in case], ids=name)
def test_what_the_source_leaves_out_explains_a_difference(case: dict[str, Any]) -> None:
    """With that one option every figure agrees, and the answer says so itself."""
    reading = reading_of(case["log"])
    spec, _ = model_of(reading, case["spec"], None, online=False)
    changed = reading.replace(ask=reading.ask.replace(options=with_option(reading.ask.options, case["agrees_with"])))
    tried = [attempt(changed, spec, profile) for profile in profiles(reading)]
    assert any(all(figure.agrees for figure in one.figures) for one in tried)
    answer = explain_answer(case["log"], case["spec"])
    assert any(case["agrees_with"] in figure.reason for figure in answer.figures)


@pytest.mark.parametrize("case", IDEAL, ids=name)
def test_a_figure_of_another_engine_is_the_cache_of_the_spec(case: dict[str, Any]) -> None:
    """Printed bytes hold what the spec's cache takes for that many tokens; `windows: full` keeps every token of each layer."""
    ideal = case["ideal"]
    if "blocks" in ideal:
        one, four = (size(case["spec"], ctx=4096, tp=tp).per_rank_bytes for tp in (1, 4))
        assert ideal["blocks"]["tp 4"] * four // one == ideal["blocks"]["tp 1"]
        return
    dtype = ideal.get("dtype")
    found = size(case["spec"], ctx=ideal["tokens"], kv_dtype=dtype)
    held = found.bytes_per_token * ideal["tokens"] if ideal.get("windows") == "full" else found.total_bytes
    number, unit = ideal["printed"].split(" ")
    assert unit in UNITS
    printed = printed_bytes("", number, unit, "", 1)
    assert printed.low <= Fraction(held) <= printed.high


def test_the_pull_request_that_counted_the_index_measured_what_is_predicted() -> None:
    case = next(case for case in CASES if case["id"] == "sglang-11309-main")
    (figure,) = explain_answer(case["log"], case["spec"]).figures
    assert figure.predicted_text == case["figures"]["actual_including_index"]
