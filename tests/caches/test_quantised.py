"""Quantised caches hold the bytes of their format, tensor by tensor, and stay within their stated error."""

from __future__ import annotations

from typing import Any

import pytest
from dense import dense, fresh, relative_error, stream, torch
from hypothesis import given, settings
from hypothesis import strategies as st

from kvplan.caches.interface import Shape, storage_bytes
from kvplan.caches.kivi import Kivi
from kvplan.caches.packing import asymmetric, packed, restored, unpacked
from kvplan.caches.quantised import Quantised, codec_named
from kvplan.errors import InputError
from kvplan.footprint import cache_plan
from kvplan.spec import parse_spec
from kvplan.workload import Workload

SHAPE = Shape(heads=4, kv_heads=2, head_dim=128, v_head_dim=128)
ERRORS = {
    "fp8_per_token_head": 0.07,
    "int8_per_token_head": 0.035,
    "int8_g32": 0.02,
    "int8_g64": 0.025,
    "int8_g128": 0.035,
    "int4_g32": 0.3,
    "int4_g64": 0.35,
    "int4_g128": 0.45,
    "int2_g32": 1.8,
    "int2_g64": 2.7,
    "int2_g128": 4.5,
    "kivi4": 0.2,
    "kivi2": 1.0,
}
"""The largest relative error of the output that a format may make on random rows with a few large key channels."""


def stored_parts(format_: str, tokens: int) -> list[tuple[str, str, int]]:
    """(tensor, content, bytes) that kvplan counts for one layer."""
    heads = {"heads": SHAPE.heads, "kv_heads": SHAPE.kv_heads, "head_dim": SHAPE.head_dim}
    spec = parse_spec({"name": "layer", "layers": 1, "attention": {"type": "gqa", **heads}}, "layer.yaml")
    plan = cache_plan(spec, Workload(tokens, k_dtype=format_, v_dtype=format_))
    return [(part.tensor, one.content, one.bytes) for part in plan.parts(tokens) for one in part.stored]


def error_of(cache: Any, queries: Any, keys: Any, values: Any) -> float:
    """The relative error over 16 queries together, each over all rows."""
    asked = torch.randn(16, *queries[:, -1].shape, generator=fresh(queries.shape[1]), dtype=torch.float64)
    found = torch.stack([cache.attend(query.float()) for query in asked])
    return relative_error(found, torch.stack([dense(query, keys, values) for query in asked]))


def made(format_: str) -> Any:
    """The running cache of a format; what waits in full precision is bf16, as the model."""
    return Kivi(SHAPE, int(format_[-1]), torch.bfloat16) if format_.startswith("kivi") else Quantised(SHAPE, format_)


@pytest.mark.parametrize("format_", ERRORS)
@given(seed=st.integers(0, 2**31), tokens=st.integers(1, 300), first=st.integers(1, 300))
@settings(max_examples=6)
def test_a_quantised_cache_stays_within_its_error(format_: str, seed: int, tokens: int, first: int) -> None:
    """Against dense attention over the rows in full precision; and the bytes are the format's, part by part."""
    queries, keys, values = stream(tokens, fresh(seed), SHAPE)
    first = min(first, tokens)
    cache = made(format_)
    cache.append(keys[:, :first], values[:, :first])
    for at in range(first, min(first + 3, tokens)):
        cache.append(keys[:, at : at + 1], values[:, at : at + 1])
    if first + 3 < tokens:
        cache.append(keys[:, first + 3 :], values[:, first + 3 :])
    assert error_of(cache, queries, keys, values) <= ERRORS[format_]
    assert [size for _, _, size in stored_parts(format_, tokens)] == [
        t.numel() * t.element_size() for t in cache.tensors()
    ]
    assert (
        storage_bytes(cache.tensors()) == cache.used_bytes() == sum(size for *_, size in stored_parts(format_, tokens))
    )


@pytest.mark.parametrize("bits", [2, 4])
def test_packed_kivi_arrays_equal_the_formula_at_every_boundary(bits: int) -> None:
    """Data, scale, zero and residual of keys and of values, at every length around every run, and in between."""
    _, keys, values = stream(645, fresh(bits), SHAPE)
    cache = made(f"kivi{bits}")
    compared = 0
    for tokens in range(1, 646):
        cache.append(keys[:, tokens - 1 : tokens], values[:, tokens - 1 : tokens])
        if tokens % 128 in {0, 1, 2, 31, 32, 33, 63, 64, 65, 126, 127}:
            expected = [size for _, _, size in stored_parts(f"kivi{bits}", tokens)]
            assert expected == [t.numel() * t.element_size() for t in cache.tensors()], tokens
            assert sum(expected) == storage_bytes(cache.tensors())
            compared += 1
    assert 57 == compared


def test_the_worked_example_of_kivi() -> None:
    """300 tokens: 256 keys as codes and 44 whole, 172 values as codes and 128 whole."""
    _, keys, values = stream(300, fresh(1), SHAPE)
    cache = made("kivi2")
    cache.append(keys, values)
    assert [256, 8, 8, 44, 172, 172, 172, 128] == [t.shape[1] for t in cache.tensors()]
    assert [] == list(cache.bookkeeping())
    assert [] == list(made("int4_g32").bookkeeping())


@pytest.mark.parametrize("bits", [2, 4])
def test_what_waits_is_not_touched(bits: int) -> None:
    """Up to the residual a KIVI cache is exact but for the model's own dtype."""
    queries, keys, values = stream(100, fresh(bits), SHAPE)
    cache = Kivi(SHAPE, bits, torch.float32)
    cache.append(keys, values)
    assert relative_error(cache.attend(queries[:, -1].float()), dense(queries[:, -1], keys, values)) <= 3e-6


def test_key_channels_are_why_kivi_quantises_them_so() -> None:
    """Beside a few large channels the small ones survive 2 bits per channel, and are lost per token."""
    _, keys, values = stream(512, fresh(4), SHAPE)
    large = torch.arange(128) % 32 == 0
    keys = keys * (1 + 50 * large)
    kivi, plain = made("kivi2"), made("int2_g32")
    for cache in (kivi, plain):
        cache.append(keys, values)
    small = {"kivi": kivi.rows()[0], "plain": plain.codec.load(plain.keys)}
    errors = {name: relative_error(rows[..., ~large], keys[..., ~large]) for name, rows in small.items()}
    assert errors["kivi"] < 0.5
    assert errors["plain"] > 1, "an error larger than the rows themselves"


@given(seed=st.integers(0, 2**31), bits=st.sampled_from([2, 4, 8]), width=st.sampled_from([8, 32, 128]))
@settings(max_examples=20)
def test_packing_loses_nothing(seed: int, bits: int, width: int) -> None:
    """Codes come back as they were, from as many bytes as they have bits."""
    codes = torch.randint(2**bits, (3, 5, width), generator=fresh(seed), dtype=torch.uint8)
    stored = packed(codes, bits)
    assert (3, 5, width * bits // 8) == stored.shape
    assert torch.equal(codes, unpacked(stored, bits))


@given(seed=st.integers(0, 2**31), bits=st.sampled_from([2, 4, 8]))
@settings(max_examples=20)
def test_a_code_is_at_most_half_a_step_off(seed: int, bits: int) -> None:
    """But for the rounding of scale and zero to fp16; a constant group comes back whole."""
    rows = torch.randn(4, 32, generator=fresh(seed))
    codes, scale, zero = asymmetric(rows, bits, -1)
    slack = 2**-10 * (rows.abs().amax(-1, keepdim=True) + scale.float() * 2**bits)
    assert ((restored(codes, scale, zero) - rows).abs() <= scale.float() / 2 + slack).all()
    same = torch.full((1, 32), 0.5)
    assert torch.equal(same, restored(*asymmetric(same, bits, -1)))


def test_a_format_without_a_running_codec_is_refused() -> None:
    """With those that have one."""
    with pytest.raises(InputError, match="no running codec for the format 'q4_0'"):
        codec_named("q4_0")
