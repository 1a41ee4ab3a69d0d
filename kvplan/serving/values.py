"""Values of serve flags: whole numbers, shares and bytes as engines take them, with errors that name the flag."""

from __future__ import annotations

import re
from fractions import Fraction

from kvplan.errors import InputError, quoted
from kvplan.serving.flags import Arguments

MOST = 10**15
_HUMAN = re.compile(r"(\d{1,15})(?:\.(\d{1,9}))?([kKmMgGtT]?)")
_SHARE = re.compile(r"\d{0,3}\.?\d{0,15}")


def whole(arguments: Arguments, flag: str, least: int = 1) -> int | None:
    """A plain whole number; None where the flag is not given.

    Raises: InputError for anything else.
    """
    text = arguments.text(flag)
    if text is None:
        return None
    if not re.fullmatch(r"-?[0-9]{1,15}", text) or int(text) < least:
        raise _wrong(arguments, flag, text, f"whole numbers from {least}")
    return int(text)


def human(arguments: Arguments, flag: str, least: int = 1) -> int | None:
    """A whole number as vLLM and SGLang read it: `32k` is 32,000, `32K` is 32,768, `1.5k` is 1,500.

    Source: vLLM 0.33.0, `vllm/engine/arg_utils.py`, `human_readable_int`.
    """
    text = arguments.text(flag)
    if text is None:
        return None
    match = _HUMAN.fullmatch(text.strip())
    if match is None or (match[2] and not match[3]):
        raise _wrong(arguments, flag, text, "whole numbers such as 32768, 32k (32,000) or 32K (32,768)")
    number, fraction, suffix = match.groups()
    if suffix.isupper() and fraction:
        raise _wrong(arguments, flag, text, "decimals with a lower-case suffix only")
    scale = (1000 if suffix.islower() else 1024) ** " kmgt".index(suffix.lower() or " ")
    value = Fraction(f"{number}.{fraction or 0}") * scale
    if value.denominator != 1 or not least <= value <= MOST:
        raise _wrong(arguments, flag, text, f"whole numbers from {least}")
    return int(value)


def share(arguments: Arguments, flag: str) -> Fraction | None:
    """A share above 0 and at most 1; None where the flag is not given.

    Raises: InputError for anything else.
    """
    text = arguments.text(flag)
    if text is None:
        return None
    value = Fraction(text) if re.search(r"\d", text) and _SHARE.fullmatch(text) else Fraction(0)
    if not 0 < value <= 1:
        raise _wrong(arguments, flag, text, "a share above 0 and at most 1")
    return value


def environment_number(environment: dict[str, str], name: str, least: int = 0) -> int | None:
    """A whole number in an environment variable; None where it is missing or no number, as the programs that read it do."""
    text = environment.get(name, "").strip(" \"'")
    return int(text) if re.fullmatch(r"[0-9]{1,15}", text) and int(text) >= least else None


def _wrong(arguments: Arguments, flag: str, text: str, allowed: str) -> InputError:
    spelling = arguments.typed.get(flag, flag)
    return InputError(f"{spelling}: found {quoted(text)}, allowed {allowed}", f"for example {spelling} 8")
