"""MLA on its latents equals attention over the keys and values that the latents stand for."""

from __future__ import annotations

import pytest
from dense import dense, fresh, relative_error, torch
from hypothesis import given, settings
from hypothesis import strategies as st

from kvplan.caches.interface import FullCacheError, storage_bytes
from kvplan.caches.latent import Latent
from kvplan.footprint import cache_plan
from kvplan.spec import parse_spec
from kvplan.workload import Workload


@given(
    seed=st.integers(0, 2**31),
    tokens=st.integers(1, 40),
    heads=st.integers(1, 6),
    rank=st.sampled_from([8, 32]),
    rope=st.sampled_from([0, 4, 16]),
)
@settings(max_examples=25)
def test_absorbed_equals_unabsorbed(seed: int, tokens: int, heads: int, rank: int, rope: int) -> None:
    """Below 1e-13 in double and 1e-5 in single precision; bytes are those of the formula."""
    generator = fresh(seed)
    key_up, value_up = (
        torch.randn(heads, n, rank, generator=generator, dtype=torch.float64) / rank**0.5 for n in (12, 10)
    )
    latents = torch.randn(tokens, rank + rope, generator=generator, dtype=torch.float64)
    query = torch.randn(heads, 12 + rope, generator=generator, dtype=torch.float64)
    compressed, position = latents.split((rank, rope), dim=-1)
    keys = torch.cat((compressed @ key_up.transpose(1, 2), position.expand(heads, -1, -1)), dim=-1)
    expected = dense(query, keys, compressed @ value_up.transpose(1, 2))
    for dtype, bound in ((torch.float64, 1e-13), (torch.float32, 1e-5)):
        cache = Latent(key_up, value_up, rope, tokens, dtype)
        cache.append(latents[: tokens // 2])
        cache.append(latents[tokens // 2 :])
        assert relative_error(cache.attend(query), expected) <= bound
    attention = {"type": "mla", "heads": heads, "kv_lora_rank": rank, "qk_rope_head_dim": rope}
    spec = parse_spec({"name": "layer", "dtype": "fp32", "layers": 1, "attention": attention}, "layer.yaml")
    assert (
        cache_plan(spec, Workload(tokens)).total_bytes(tokens) == storage_bytes(cache.tensors()) == cache.used_bytes()
    )
    assert [] == list(cache.bookkeeping())


def test_deepseek_v3_keeps_one_71st() -> None:
    """576 elements of a latent where 128 heads of 192 + 128 would be kept unabsorbed."""
    key_up, value_up = torch.zeros(128, 128, 512), torch.zeros(128, 128, 512)
    cache = Latent(key_up, value_up, 64, 1, torch.bfloat16)
    assert 576 * 2 == storage_bytes(cache.tensors())
    assert 40_960 == 128 * (128 + 64 + 128)
    cache.append(torch.zeros(1, 576))
    with pytest.raises(FullCacheError):
        cache.append(torch.zeros(1, 576))
