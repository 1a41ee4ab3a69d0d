"""What stays in the cache when it is bounded: the roster of eviction policies.

A policy is one file: a class whose annotated fields are its options, and `kept()`, which maps the
growth law of a full-attention tensor to the law of the rows that stay. Windows, chunks, states and
compressed entries are bounded already and keep their own law. A new policy adds its file and one
line to `POLICIES`.
"""

from __future__ import annotations

from fractions import Fraction
from importlib import import_module
from typing import Any, Protocol

from kvplan.errors import InputError, did_you_mean, quoted
from kvplan.growth import PerToken, RowLaw

FINEST_SHARE = 10**6  # so that share x context stays within 64 bits in integer arrays
POLICIES = {
    "full": "full",
    "streaming": "streaming",
    "h2o": "h2o",
    "snapkv": "snapkv",
}


class Policy(Protocol):
    """Which rows of a full-attention tensor stay."""

    def kept(self) -> RowLaw:
        """The law that replaces one row per token."""
        ...

    def least_context(self) -> int:
        """The shortest context the policy's options make sense for."""
        ...


def law_kept(policy: Policy, law: RowLaw) -> RowLaw:
    """The law of a tensor that grows by `law` once `policy` has evicted what it evicts."""
    return policy.kept() if isinstance(law, PerToken) else law


def policy_named(text: str) -> Policy:
    """The policy written as `name` or `name:option=value,option=value`.

    >>> policy_named("streaming:sinks=4,window=2044").kept()
    SinksAndWindow(sinks=4, window=2044)

    Raises: InputError for an unknown policy, an unknown or missing option, or a bad value.
    """
    name, _, rest = text.strip().partition(":")
    if name not in POLICIES:
        raise InputError(
            f"--policy: found {quoted(name)}, allowed {', '.join(POLICIES)}",
            did_you_mean(name, POLICIES, "for example --policy streaming:sinks=4,window=2044"),
        )
    policy: Any = import_module(f"kvplan.policy.{POLICIES[name]}").POLICY
    options: dict[str, int | Fraction] = {}
    for pair in filter(None, rest.split(",")):
        key, _, value = pair.partition("=")
        if key not in policy.OPTIONS:
            allowed = ", ".join(policy.OPTIONS) or "no options"
            raise InputError(f"--policy {name}: found option {quoted(key)}, allowed {allowed}", policy.EXAMPLE)
        options[key] = _number(name, key, value, policy.OPTIONS[key], policy.EXAMPLE)
    missing = [key for key in policy.REQUIRED if key not in options]
    if missing:
        raise InputError(f"--policy {name}: needs {', '.join(missing)}", policy.EXAMPLE)
    made: Policy = policy(**options)
    return made


def _number(name: str, key: str, value: str, kind: str, example: str) -> int | Fraction:
    """`value` as rows (a whole number) or as a share (a decimal above 0 and at most 1)."""
    try:
        number = Fraction(value) if len(value) <= 30 and "/" not in value and "e" not in value.lower() else None
    except ValueError:
        number = None
    if number is not None and kind == "share" and 0 < number <= 1 and number.denominator <= FINEST_SHARE:
        return number
    if number is not None and kind == "rows" and number.denominator == 1 and 0 <= number <= 10**12:
        return int(number)
    allowed = "a share above 0 and at most 1, of six decimals" if kind == "share" else "a whole number of rows"
    raise InputError(f"--policy {name}: {key}: found {quoted(value)}, allowed {allowed}", example)
