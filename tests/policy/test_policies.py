"""What each policy keeps, and how a policy is spelled."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvplan.errors import InputError
from kvplan.growth import Constant, PerToken, PerTokens, PromptCap, Share, SinksAndWindow, Window, rows
from kvplan.policy import law_kept, policy_named


@pytest.mark.parametrize(
    ("text", "law"),
    [
        ("full", PerToken()),
        ("full:", PerToken()),
        (" streaming:window=2044 ", SinksAndWindow(4, 2044)),
        ("streaming:sinks=8,window=2000", SinksAndWindow(8, 2000)),
        ("h2o:budget=0.2", Share(Fraction(1, 5))),
        ("h2o:budget=1", Share(Fraction(1))),
        ("snapkv:generated=500", PromptCap(2048, 500)),
        ("snapkv:cap=1024,window=64,generated=0", PromptCap(1024, 0)),
    ],
)
def test_a_policy_is_spelled_by_name_and_options(text: str, law: object) -> None:
    """Options in any order, defaults from the reference code."""
    assert law == policy_named(text).kept()


@pytest.mark.parametrize(
    ("text", "what", "fix"),
    [
        ("streming", "--policy: found 'streming', allowed full, streaming, h2o, snapkv", "did you mean streaming?"),
        (
            "zzz",
            "--policy: found 'zzz', allowed full, streaming, h2o, snapkv",
            "for example --policy streaming:sinks=4,window=2044",
        ),
        ("full:budget=1", "--policy full: found option 'budget', allowed no options", "--policy full"),
        ("h2o:share=0.2", "--policy h2o: found option 'share', allowed budget", "for example --policy h2o:budget=0.2"),
        ("h2o", "--policy h2o: needs budget", "for example --policy h2o:budget=0.2"),
        ("streaming:sinks=4", "--policy streaming: needs window", "for example --policy streaming:sinks=4,window=2044"),
        ("snapkv", "--policy snapkv: needs generated", "for example --policy snapkv:cap=2048,window=32,generated=500"),
    ],
)
def test_a_policy_misspelled_is_refused_in_two_lines(text: str, what: str, fix: str) -> None:
    """What was found, what is allowed, and an example."""
    with pytest.raises(InputError) as caught:
        policy_named(text)
    assert (what, fix) == (caught.value.what, caught.value.fix)


@pytest.mark.parametrize(
    "value", ["", "0", "1.01", "-0.2", "20%", "1/5", "2e-1", "x", "nan", "0." + "1" * 40, "0.1234567"]
)
def test_a_share_is_a_decimal_above_0_and_at_most_1(value: str) -> None:
    """Read in decimal, so 0.2 is one fifth; six decimals keep integer arrays within 64 bits."""
    with pytest.raises(
        InputError, match="^--policy h2o: budget: found '.*', allowed a share above 0 and at most 1, of six decimals$"
    ):
        policy_named(f"h2o:budget={value}")


@pytest.mark.parametrize("value", ["", "-1", "1.5", "2k", "x", "1000000000001"])
def test_rows_are_a_whole_number(value: str) -> None:
    """Sinks, windows and caps count rows."""
    with pytest.raises(InputError, match="^--policy streaming: window: found '.*', allowed a whole number of rows$"):
        policy_named(f"streaming:window={value}")


@pytest.mark.parametrize(
    ("text", "least"),
    [
        ("full", 1),
        ("streaming:window=9", 1),
        ("h2o:budget=0.5", 1),
        ("snapkv:generated=0", 1),
        ("snapkv:generated=70", 70),
    ],
)
def test_a_policy_knows_its_shortest_context(text: str, least: int) -> None:
    """SnapKV's context holds the tokens it generated."""
    assert least == policy_named(text).least_context()


@pytest.mark.parametrize("law", [Window(128), PerTokens(4), Constant(1)])
def test_a_policy_leaves_bounded_tensors_alone(law: Window | PerTokens | Constant) -> None:
    """Only rows kept per token are evicted."""
    assert law == law_kept(policy_named("h2o:budget=0.2"), law)
    assert Share(Fraction(1, 5)) == law_kept(policy_named("h2o:budget=0.2"), PerToken())


@given(n=st.integers(100, 10**7), cap=st.integers(1, 5000), generated=st.integers(0, 100))
def test_snapkv_keeps_the_capped_prompt_and_the_tail(n: int, cap: int, generated: int) -> None:
    """min(prompt, cap) + generated."""
    kept = rows(policy_named(f"snapkv:cap={cap},generated={generated}").kept(), n)
    assert min(n - generated, cap) + generated == kept


@given(n=st.integers(1, 10**7), percent=st.integers(1, 100))
def test_h2o_rounds_its_share_down(n: int, percent: int) -> None:
    """floor(budget x n), exactly."""
    assert n * percent // 100 == rows(policy_named(f"h2o:budget={percent / 100:.2f}").kept(), n)
