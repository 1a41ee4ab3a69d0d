"""Where tests get models from: the shipped specs, the facts beside them, and random specs for the laws.

Random specs are built as the YAML mappings a user writes, and go through the parser.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import yaml
from hypothesis import strategies as st

from kvplan.footprint import CachePlan, cache_plan
from kvplan.growth import PerEncoderToken
from kvplan.policy import policy_named
from kvplan.spec import ModelSpec, parse_spec
from kvplan.workload import Workload
from kvplan.yaml_text import load_yaml

REPOSITORY = Path(__file__).resolve().parent.parent
SPECS = REPOSITORY / "model_specs"
DATA = Path(__file__).resolve().parent / "data"
MOST_CONTEXT = 5_000


@cache
def data(name: str) -> Any:
    """The facts in `tests/data/name`, read by PyYAML itself and not by the parser under test."""
    return yaml.safe_load((DATA / name).read_text(encoding="utf-8"))


@cache
def shipped(name: str) -> ModelSpec:
    """The shipped spec called `name`."""
    path = SPECS / f"{name}.yaml"
    return parse_spec(load_yaml(path.read_text(encoding="utf-8"), path.name), path.name)


def model(attention: Any, layers: int = 1, **fields: Any) -> ModelSpec:
    """A spec written out in a test."""
    return parse_spec({"name": "model", "layers": layers, "attention": attention, **fields}, "model.yaml")


def plan(spec: ModelSpec, **workload: Any) -> CachePlan:
    """The cache of `spec`; `kv_dtype` and `policy` are spelled as on the command line."""
    kv_dtype = workload.pop("kv_dtype", None)
    if kv_dtype:
        workload.update(k_dtype=kv_dtype, v_dtype=kv_dtype)
    text = workload.pop("policy", "full")
    return cache_plan(
        spec, Workload(**{"context": MOST_CONTEXT, **workload}, policy=policy_named(text), policy_text=text)
    )


def keeps_encoder(spec: ModelSpec) -> bool:
    """True for a model that attends to an encoder."""
    return any(isinstance(t.growth, PerEncoderToken) for _, layer in spec.runs for t in layer.tensors())


def without_windows(spec: ModelSpec) -> ModelSpec:
    """The same model with full attention where it had windows or chunks."""
    runs = []
    for count, layer in spec.runs:
        kinds = []
        for kind in layer.kinds:
            bounds = {"window": None, "chunk": None} if hasattr(kind, "chunk") else {"window": None}
            kinds.append(kind.model_copy(update=bounds) if kind.type in WINDOWED else kind)
        runs.append((count, layer.replace(kinds=tuple(kinds))))
    return spec.replace(runs=tuple(runs))


WINDOWED = ("mha", "mqa", "gqa", "mla")
_heads = st.sampled_from([1, 2, 4, 8])
_width = st.sampled_from([32, 64, 128])
_window = st.integers(1, 600)
_bound = st.one_of(st.just({}), st.builds(lambda n: {"window": n}, _window), st.builds(lambda n: {"chunk": n}, _window))
_kernel = st.integers(1, 4)
_state = st.one_of(st.just({}), st.sampled_from([{"state_dtype": d} for d in ("fp32", "fp16", "bf16")]))


@st.composite
def grouped_heads(draw: st.DrawFn, bound: st.SearchStrategy[dict[str, int]] = _bound) -> dict[str, Any]:
    """GQA, MQA or MHA with any window or chunk."""
    kv_heads, groups = draw(_heads), draw(_heads)
    kind = "mha" if groups == 1 else "mqa" if kv_heads == 1 else "gqa"
    value = draw(st.one_of(st.just({}), st.builds(lambda w: {"v_head_dim": w}, _width)))
    return {
        "type": kind,
        "heads": kv_heads * groups,
        "kv_heads": kv_heads,
        "head_dim": draw(_width),
        **value,
        **draw(bound),
    }


latents = st.builds(
    lambda rank, rope, window: {"type": "mla", "heads": 16, "kv_lora_rank": rank, "qk_rope_head_dim": rope, **window},
    st.sampled_from([128, 256, 512]),
    st.sampled_from([0, 32, 64]),
    st.one_of(st.just({}), st.builds(lambda n: {"window": n}, _window)),
)
indexes = st.builds(lambda ratio: {"type": "index", "head_dim": 128, "ratio": ratio}, st.sampled_from([1, 4]))
entries = st.builds(
    lambda window, ratio: {"type": "compressed", "entry_dim": 512, "rope_dim": 64, "window": window, **ratio},
    _window,
    st.sampled_from([{}, {"ratio": 4}, {"ratio": 128}]),
)
states = st.one_of(
    st.builds(
        lambda d, k, s: {"type": "mamba1", "d_inner": d, "d_state": 16, "conv_kernel": k, **s},
        st.sampled_from([64, 128]),
        _kernel,
        _state,
    ),
    st.builds(
        lambda h, w, k, s: {
            "type": "mamba2",
            "heads": h,
            "head_dim": w,
            "groups": h,
            "d_state": 16,
            "conv_kernel": k,
            **s,
        },
        _heads,
        _width,
        _kernel,
        _state,
    ),
    st.builds(
        lambda h, w, k, s: {
            "type": "gated_deltanet",
            "k_heads": h,
            "v_heads": 2 * h,
            "k_head_dim": w,
            "v_head_dim": w,
            "conv_kernel": k,
            **s,
        },
        _heads,
        _width,
        _kernel,
        _state,
    ),
    st.builds(
        lambda h, w, k, s: {"type": "kda", "heads": h, "head_dim": w, "conv_kernel": k, **s},
        _heads,
        _width,
        _kernel,
        _state,
    ),
    st.builds(lambda h, w, s: {"type": "lightning", "heads": h, "head_dim": w, **s}, _heads, _width, _state),
    st.builds(lambda d, k: {"type": "short_conv", "dim": d, "conv_kernel": k}, st.sampled_from([64, 128]), _kernel),
    st.builds(lambda h, w, s: {"type": "rwkv7", "heads": h, "head_dim": w, **s}, _heads, _width, _state),
    st.builds(
        lambda w, k, s: {"type": "rg_lru", "width": w, "conv_kernel": k, **s},
        st.sampled_from([64, 128]),
        _kernel,
        _state,
    ),
    st.builds(
        lambda h, w, s: {"type": "mlstm", "heads": h, "qk_head_dim": w, "v_head_dim": 2 * w, **s},
        _heads,
        _width,
        _state,
    ),
)
nothing = st.sampled_from([{"type": "none"}, {"type": "shared"}])
crosses = st.builds(lambda h, w: {"type": "cross", "heads": h, "kv_heads": h, "head_dim": w}, _heads, _width)
heads = grouped_heads()
full_heads = grouped_heads(st.just({}))
attentions = st.one_of(
    heads,
    latents,
    entries,
    states,
    nothing,
    crosses,
    st.tuples(latents, indexes).map(list),
    st.tuples(heads, states).map(list),
)


@st.composite
def mappings(draw: st.DrawFn, attention: st.SearchStrategy[Any] = attentions) -> dict[str, Any]:
    """A whole spec as its YAML mapping: uniform, in groups, or in a pattern."""
    values: dict[str, Any] = {
        "name": "random",
        "dtype": draw(st.sampled_from(["bf16", "fp16", "fp32"])),
        "encoder_tokens": draw(st.integers(1, 300)),
    }
    shape = draw(st.sampled_from(["uniform", "groups", "pattern"]))
    if shape == "uniform":
        return {**values, "layers": draw(st.integers(1, 12)), "attention": draw(attention)}
    if shape == "groups":
        groups = draw(
            st.lists(
                st.builds(lambda n, a: {"count": n, "attention": a}, st.integers(1, 6), attention),
                min_size=1,
                max_size=3,
            )
        )
        return {**values, "layers": groups}
    names = draw(st.lists(st.sampled_from("abc"), min_size=1, max_size=6))
    named = {name: draw(attention) for name in sorted(set(names))}
    return {**values, "layers": draw(st.integers(len(names), 20)), "pattern": names, "attention": named}


def specs(attention: st.SearchStrategy[Any] = attentions) -> st.SearchStrategy[ModelSpec]:
    """Parsed random specs."""
    return mappings(attention).map(lambda values: parse_spec(values, "random.yaml"))


contexts = st.integers(1, MOST_CONTEXT)
batches = st.integers(1, 64)
formats = st.sampled_from([None, "fp32", "fp16", "fp8", "int4", "q8_0", "int4_g32", "int2_g32"])
head_formats = st.sampled_from(
    [None, "fp8", "q4_0", "nvfp4", "int8_per_token_head", "turboquant_4bit_nc", "kivi4", "kivi2"]
)
policies = st.sampled_from(
    ["full", "streaming:sinks=4,window=252", "h2o:budget=0.2", "h2o:budget=0.333", "snapkv:cap=64,generated=30"]
)
