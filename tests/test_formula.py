"""The formula in words evaluates to the bytes it claims."""

from __future__ import annotations

import re
from math import prod

import pytest
from hypothesis import given
from hypothesis import strategies as st
from strategies import head_formats, heads, keeps_encoder, plan, policies, specs

import kvplan
from kvplan.formula import formula_text
from kvplan.spec import ModelSpec

LINE = re.compile(
    r"(?P<name>.+): (?P<layers>[\d,]+) layers x \[(?P<row>[\d, x]+)\] x (?P<width>[\d/.]+) B x (?:.* = )?(?P<rows>[\d,]+) rows"
    r"(?: x (?P<many>[\d,]+) sequences)?(?: \((?P<shared>[\d,]+) of them shared: (?P<sum>[\d, x+]+)\))? = (?P<bytes>[\d,]+) B"
)


def evaluated(text: str) -> int:
    """The sum of the formula's lines, each multiplied out by hand and compared with what it claims."""
    first, *lines, last = text.split("\n")
    batch = int(re.search(r"([\d,]+) sequence", first)[1].replace(",", ""))  # type: ignore[index]
    total = 0
    for line in lines:
        found = LINE.fullmatch(line)
        assert found, line
        number = {
            k: int(v.replace(",", ""))
            for k, v in found.groupdict().items()
            if v and k in ("layers", "width", "rows", "many", "bytes")
        }
        shape = prod(int(size.replace(",", "")) for size in found["row"].split(" x "))
        held = number["rows"] * number.get("many", 1)
        if found["sum"]:
            held = sum(prod(int(n.replace(",", "")) for n in part.split(" x ")) for part in found["sum"].split(" + "))
        else:
            assert batch == number.get("many", 1)
        assert number["bytes"] == number["layers"] * shape * number["width"] * held, line
        total += number["bytes"]
    assert f"total = {total:,} B" == last
    return total


@given(
    spec=specs(heads),
    kv_dtype=head_formats,
    policy=policies,
    context=st.integers(31, 10_000),
    batch=st.integers(1, 9),
    prefix=st.integers(0, 31),
)
def test_every_line_multiplies_out_and_all_add_up(
    spec: ModelSpec, kv_dtype: str | None, policy: str, context: int, batch: int, prefix: int
) -> None:
    """Each line is a product anybody can check, and their sum is the total."""
    cache = plan(spec, kv_dtype=kv_dtype, policy=policy)
    assert cache.total_bytes(context, batch, prefix) == evaluated(formula_text(cache, context, batch, prefix))


@given(spec=specs(), context=st.integers(1, 10_000))
def test_the_formula_covers_every_kind(spec: ModelSpec, context: int) -> None:
    """States, latents, entries, encoders; nothing at all is `total = 0 B`."""
    cache = plan(spec, **({"encoder_tokens": 9} if keeps_encoder(spec) else {}))
    assert cache.total_bytes(context) == evaluated(formula_text(cache, context, 1, 0))


@pytest.mark.parametrize(
    ("model", "options", "words"),
    [
        ("gemma-3-27b", {}, "min(n, 1,024)"),
        ("deepseek-v4-pro", {}, "floor(n / 128)"),
        ("llama-3.1-8b", {"policy": "streaming:sinks=4,window=2044"}, "min(n, 4 + 2,044)"),
        ("llama-3.1-8b", {"policy": "h2o:budget=0.2"}, "floor(0.2 n)"),
        ("llama-3.1-8b", {"policy": "snapkv:cap=2048,generated=500"}, "min(n - 500, 2,048) + 500"),
        ("llama-3.1-8b", {"kv_dtype": "kivi2"}, "n mod 128"),
    ],
)
def test_growth_is_written_in_symbols(model: str, options: dict[str, str], words: str) -> None:
    """The reader sees the law, not only the number."""
    assert words in str(kvplan.size(model, ctx=8000, formula=True, **options).formula)  # type: ignore[arg-type]
