"""A recurrent state gives what its unrolled, quadratic form gives, at constant size."""

from __future__ import annotations

from dense import fresh, relative_error, torch
from hypothesis import given, settings
from hypothesis import strategies as st

from kvplan.caches.interface import storage_bytes
from kvplan.caches.state import State, StateShape
from kvplan.footprint import cache_plan
from kvplan.spec import parse_spec
from kvplan.workload import Workload


@given(
    seed=st.integers(0, 2**31),
    tokens=st.integers(1, 30),
    heads=st.sampled_from([2, 4]),
    groups=st.sampled_from([1, 2]),
    kernel=st.integers(1, 4),
)
@settings(max_examples=25)
def test_stepping_equals_the_unrolled_sum(seed: int, tokens: int, heads: int, groups: int, kernel: int) -> None:
    """Convolution and decay over the whole text at once, in double precision."""
    generator = fresh(seed)
    shape = StateShape(heads, 8, groups, 5, kernel)
    columns = torch.randn(tokens, shape.channels, generator=generator, dtype=torch.float64)
    taps = torch.randn(shape.channels, kernel, generator=generator, dtype=torch.float64)
    decay = torch.rand(tokens, heads, generator=generator, dtype=torch.float64)
    padded = torch.cat((torch.zeros(kernel - 1, shape.channels, dtype=torch.float64), columns))
    mixed = torch.nn.functional.conv1d(padded.T[None], taps[:, None], groups=shape.channels)[0].T
    mixed = mixed * torch.sigmoid(mixed)
    x, b, c = mixed.split((heads * 8, groups * 5, groups * 5), dim=-1)
    x, b, c = x.view(tokens, heads, 8), b.view(tokens, groups, 5), c.view(tokens, groups, 5)
    expected = torch.zeros(tokens, heads, 8, dtype=torch.float64)
    for t in range(tokens):
        for s in range(t + 1):
            for h in range(heads):
                g = h * groups // heads
                expected[t, h] += decay[s + 1 : t + 1, h].prod() * (c[t, g] @ b[s, g]) * x[s, h]
    for dtype, bound in ((torch.float64, 1e-12), (torch.float32, 1e-5)):
        cache = State(shape, taps, dtype, dtype)
        output = torch.stack([cache.step(columns[t], decay[t]) for t in range(tokens)])
        assert relative_error(output, expected) <= bound


def test_its_bytes_are_the_formulas_at_any_length() -> None:
    """Nemotron-H-8B's layer: 4,255,744 bytes before the first token and after it."""
    numbers = {"heads": 128, "head_dim": 64, "groups": 8, "d_state": 128, "conv_kernel": 4}
    shape = StateShape(**numbers)
    cache = State(shape, torch.zeros(shape.channels, 4), torch.bfloat16)
    spec = parse_spec({"name": "layer", "layers": 1, "attention": {"type": "mamba2", **numbers}}, "layer.yaml")
    for _ in range(2):
        assert 4_255_744 == storage_bytes(cache.tensors()) == cache.used_bytes()
        cache.step(torch.zeros(shape.channels), torch.zeros(128))
    assert (
        4_255_744
        == cache_plan(spec, Workload(1)).total_bytes(1)
        == cache_plan(spec, Workload(10**6)).total_bytes(10**6)
    )
    assert [] == list(cache.bookkeeping())
