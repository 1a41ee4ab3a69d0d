"""Random models and servers, and what kvplan is asked about them; `drawn_servers` asks vLLM the same."""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import Any

Layer = dict[str, Any]
STATES = ("mamba1", "mamba2", "gated_deltanet", "kda", "lightning", "short_conv")
QUANTISED = ("fp8", "fp8_e5m2", "int8_per_token_head", "fp8_per_token_head", "int4_per_token_head", "nvfp4")
TURBO = ("turboquant_k8v4", "turboquant_4bit_nc", "turboquant_k3v4_nc", "turboquant_3bit_nc")


class Drawn(SimpleNamespace):
    """One model on one server.

    layers, draft: what each layer keeps. state: sizes of the one mixer of a hybrid. cache, index: formats. options:
    kvplan's `-E`. The rest are workload values and the budget.
    """

    layers: list[Layer]
    draft: Layer | None
    state: dict[str, int]
    dtype: str
    cache: str | None
    index: str
    options: dict[str, Any]
    tp: int
    pp: int
    dcp: int
    mtp: int
    context: int
    budget: int
    encoder_tokens: int | None


def drawn(seed: int) -> Drawn:
    """The model and server of a seed."""
    r = random.Random(seed)
    tp = r.choice((1, 1, 1, 2, 4, 8))
    family = r.choice(FAMILIES)
    layers, state = family(r, tp)
    state = state if any(layer.get("state") for layer in layers) else {}
    d = Drawn(layers=layers, state=state, tp=tp, draft=None, mtp=0, dcp=1, options={}, encoder_tokens=None, seed=seed)
    d.dtype = r.choice(("bf16", "bf16", "fp16", "fp32"))
    d.pp = r.choice((1, 1, 1, 2, 3)) if len(layers) >= 3 else 1
    if r.random() < 0.3:
        d.draft = r.choice([layer for layer in layers if not layer.get("state")] or [None])
        d.mtp = r.choice((1, 1, 2, 3)) if d.draft else 0
    d.context = r.choice((r.randint(1, 300), r.randint(300, 9000), r.randint(9000, 300_000)))
    _formats(r, d)
    _options(r, d)
    windows = any(layer.get("window") for layer in [*layers, d.draft or {}])
    heads = [layer["heads"] for layer in [*layers, d.draft or {}] if layer.get("heads")]
    divisors = [n for n in (2, 4, 8) if tp % n == 0 and all(n <= tp // h for h in heads)]
    windows = windows or any(layer.get("compressed") for layer in layers)
    if divisors and not windows and r.random() < 0.5:
        d.dcp = r.choice(divisors)
    d.budget = r.choice((r.randint(1, 2**28), r.randint(2**28, 2**36)))
    return d


def _heads(r: random.Random, tp: int, **more: Any) -> Layer:
    count = r.choice([n for n in (1, 2, 4, 5, 8, 10, 16, 24) if n % tp == 0 or tp % n == 0])
    k = r.choice((32, 64, 80, 96, 128, 192, 256))
    v = k if r.random() < 0.8 else r.choice((32, 64, 128))
    return {"heads": count, "k": k, "v": v, **more}


def _latent(r: random.Random, **more: Any) -> Layer:
    rank, rope = r.choice(((512, 64), (512, 64), (256, 64), (384, 32), (512, 0)))
    return {"rank": rank, "rope": rope, **more}


def _mixed(r: random.Random, kinds: list[Layer]) -> list[Layer]:
    """A repeated pattern, a shuffle, or few of one among many of another."""
    count = r.randint(len(kinds), 40)
    way = r.random()
    if way < 0.5:
        pattern = [r.choice(kinds) for _ in range(r.randint(1, 6))] + kinds
        return [pattern[i % len(pattern)] for i in range(count)]
    if way < 0.8:
        return [r.choice(kinds) for _ in range(count)]
    return [kinds[0]] * count + [r.choice(kinds)] * r.randint(1, 4)


def dense(r: random.Random, tp: int) -> Any:
    return _mixed(r, [_heads(r, tp) for _ in range(r.choice((1, 1, 2, 3)))]), {}


def windowed(r: random.Random, tp: int) -> Any:
    full = _heads(r, tp)
    window = r.choice((16, 128, 511, 512, 1024, 4096))
    local = {**(full if r.random() < 0.6 else _heads(r, tp)), "window": window}
    kinds = [local] if r.random() < 0.15 else [full, local]
    if r.random() < 0.2:
        kinds.append({**r.choice((full, local)), "window": r.choice((64, 2048))})
    return _mixed(r, kinds), {}


def chunked(r: random.Random, tp: int) -> Any:
    full = {**_heads(r, tp)}
    full["v"] = full["k"]
    return _mixed(r, [{**full, "chunk": r.choice((128, 1000, 8192))}, full]), {}


def latent(r: random.Random, tp: int) -> Any:
    full = _latent(r, index=r.random() < 0.5)
    kinds = [full]
    if r.random() < 0.3:
        kinds.append({**full, "index": not full["index"]})
    if r.random() < 0.2:
        kinds.append(_latent(r, window=r.choice((128, 512))))
    if r.random() < 0.2:
        kinds.append({**_heads(r, tp), "window": 1024})
    return _mixed(r, kinds), {}


def side_indexed(r: random.Random, tp: int) -> Any:
    full = _heads(r, tp)
    return _mixed(r, [{**full, "side": r.choice((64, 128))}, full]), {}


def crossed(r: random.Random, tp: int) -> Any:
    full = _heads(r, tp)
    full["v"] = full["k"]
    return [{**full, "crosses": True}] * r.randint(1, 32), {}


def recurrent(r: random.Random, tp: int) -> Any:
    kind = r.choice(STATES)
    n = tp * r.choice((1, 2, 4))
    state = {
        "n": n,
        "d": r.choice((32, 64, 128)),
        "s": r.choice((16, 64, 128)),
        "groups": r.choice([1, 2, 8] if tp == 8 else [1, tp, 8]),
        "kernel": r.choice((2, 3, 4)),
        "qk": tp * r.choice((1, 2)),
        "dtype": r.choice((None, "fp32")) if kind in ("mamba2", "gated_deltanet") else None,
    }
    if kind == "mamba2" and state["groups"] > tp and state["groups"] % tp:
        state["groups"] = tp
    way = r.random()
    if way < 0.1:
        return [{"state": kind}] * r.randint(1, 20), state
    attention = _latent(r) if way < 0.35 else _heads(r, tp)
    if "k" in attention:
        attention["v"] = attention["k"]
    kinds = [{"state": kind}, attention]
    if way > 0.9:
        kinds = [{"state": kind, **attention}]
    elif way > 0.8 and "k" in attention:
        kinds.append({**attention, "window": r.choice((512, 2048))})
    return _mixed(r, kinds), state


def compressed(r: random.Random, tp: int) -> Any:
    ratios: list[int | None] = r.choice(([None, 4, 128], [4, 128], [4], [128], [None], [None, 4], [None, 128]))
    window = r.choice((64, 128, 512))
    kinds = [{"compressed": window, "ratio": ratio} for ratio in ratios]
    layers = _mixed(r, kinds)
    return (layers, {}) if r.random() < 0.7 else ([{"compressed": window, "ratio": None}] * 2 + layers, {})


FAMILIES = (
    dense,
    windowed,
    windowed,
    chunked,
    latent,
    latent,
    side_indexed,
    crossed,
    recurrent,
    recurrent,
    recurrent,
    compressed,
)


def _formats(r: random.Random, d: Drawn) -> None:
    """A cache format that the layers' kernels take, half of the time."""
    every = [*d.layers, d.draft or {}]
    d.cache, d.index = None, r.choice(("fp8", "mxfp4"))
    if any(layer.get("side") for layer in every):
        d.index = "fp8"
    if r.random() < 0.5:
        return
    if any(layer.get("compressed") for layer in every):
        d.cache = r.choice(("fp8", "fp8_ds_mla"))
        return
    latents = [layer for layer in every if layer.get("rank")]
    heads = [layer for layer in every if layer.get("heads")]
    sparse = any(layer.get("index") for layer in every)
    packable = all((layer["rank"], layer["rope"]) == (512, 64) for layer in latents)
    if sparse and not packable:
        return
    choices = ["fp8"] if latents else ["fp8", "fp8_e5m2"]
    if latents and not heads and all((layer["rank"], layer["rope"]) == (512, 64) for layer in latents):
        choices += ["fp8_ds_mla", "nvfp4_ds_mla"]
    even = all(layer["k"] == layer["v"] and layer["k"] % 16 == 0 for layer in heads)
    simple = heads and not latents and not any(layer.get("chunk") or layer.get("crosses") for layer in heads)
    simple = simple and not any(layer.get("side") for layer in heads)
    if simple:
        choices += [name for name in QUANTISED if name != "nvfp4" or even]
        if not any(layer.get("window") for layer in heads):
            choices += TURBO
    d.cache = r.choice(choices)
    if simple and not d.cache.startswith("turbo") and r.random() < 0.4:
        words = ["0", str(len(d.layers) - 1), str(r.randrange(len(d.layers)))]
        if any(layer.get("window") for layer in heads):
            words.append("sliding_window")
        d.options["kv_cache_dtype_skip_layers"] = ",".join(r.sample(words, r.randint(1, len(words))))


def _options(r: random.Random, d: Drawn) -> None:
    every = [*d.layers, d.draft or {}]
    latents, indexed = any(x.get("rank") for x in every), any(x.get("index") for x in every)
    mixed = latents and any(x.get("heads") for x in every)
    sizes = (128, 256) if any(x.get("side") for x in every) else (64, 128, 192) if latents else (16, 32, 48, 64, 128)
    if r.random() < 0.3 and not any(x.get("compressed") for x in every):
        d.options["block_size"] = r.choice(sizes)
    if latents and not mixed and r.random() < 0.5:
        dense = ("FLASHINFER_MLA", "FLASHMLA") if d.cache else ("FLASH_ATTN_MLA", "FLASHINFER_MLA", "FLASHMLA")
        sparse = ("FLASHMLA_SPARSE", "FLASHINFER_MLA_SPARSE")
        d.options["attention_backend"] = r.choice(sparse if indexed else dense)
    if r.random() < 0.4:
        d.options["max_num_batched_tokens"] = r.choice((256, 2048, 16_384))
    if r.random() < 0.3:
        d.options["async_scheduling"] = r.random() < 0.5
    if r.random() < 0.3:
        d.options["enable_prefix_caching"] = r.random() < 0.5
    if r.random() < 0.15:
        d.options["disable_hybrid_kv_cache_manager"] = True
    if d.mtp and r.random() < 0.5:
        d.options["num_speculative_tokens"] = r.randint(1, 5)
    if d.state and r.random() < 0.4:
        d.options["mamba_ssm_cache_dtype"] = r.choice(("float32", "bfloat16"))
        d.options["gdn_prefill_backend"] = r.choice(("triton", "flashinfer"))
    if any(x.get("crosses") for x in every) and r.random() < 0.7:
        d.encoder_tokens = r.randint(1, 5000)
    if r.random() < 0.1:
        d.options["num_gpu_blocks_override"] = r.randint(1, 20_000)


def spec_values(d: Drawn) -> dict[str, Any]:
    """The drawn model as a spec's YAML values."""
    layers = [{"count": 1, "attention": _attentions(layer, d)} for layer in d.layers]
    values = {"name": "drawn", "dtype": d.dtype, "encoder_tokens": 1500, "layers": layers}
    if d.draft:
        values["draft"] = {"attention": _attentions(d.draft, d)}
    return values


def _attentions(layer: Layer, d: Drawn) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    s = d.state
    if layer.get("state"):
        stated = {"state_dtype": s["dtype"]} if s["dtype"] else {}
        found.append(
            {
                "mamba1": {"d_inner": s["n"] * s["d"], "d_state": s["s"], "conv_kernel": s["kernel"]},
                "mamba2": {
                    "heads": s["n"], "head_dim": s["d"], "groups": s["groups"], "d_state": s["s"],
                    "conv_kernel": s["kernel"], **stated,
                },
                "gated_deltanet": {
                    "k_heads": s["qk"], "v_heads": s["n"], "k_head_dim": s["s"], "v_head_dim": s["d"],
                    "conv_kernel": s["kernel"], **stated,
                },
                "kda": {"heads": s["n"], "head_dim": s["d"], "conv_kernel": s["kernel"]},
                "lightning": {"heads": s["n"], "head_dim": s["d"]},
                "short_conv": {"dim": s["n"] * s["d"], "conv_kernel": s["kernel"]},
            }[layer["state"]]
            | {"type": layer["state"]}
        )  # fmt: skip
    if layer.get("heads"):
        bounds = {key: layer[key] for key in ("window", "chunk") if layer.get(key)}
        shape = {
            "heads": layer["heads"] * 2,
            "kv_heads": layer["heads"],
            "head_dim": layer["k"],
            "v_head_dim": layer["v"],
        }
        found.append({"type": "gqa", **shape, **bounds})
        if layer.get("crosses"):
            found.append({"type": "cross", **shape})
    if layer.get("rank"):
        bounds = {"window": layer["window"]} if layer.get("window") else {}
        found.append(
            {"type": "mla", "heads": 16, "kv_lora_rank": layer["rank"], "qk_rope_head_dim": layer["rope"], **bounds}
        )
    if layer.get("compressed"):
        ratio = {"ratio": layer["ratio"]} if layer["ratio"] else {}
        found.append({"type": "compressed", "entry_dim": 512, "rope_dim": 64, "window": layer["compressed"], **ratio})
        if layer["ratio"] == 4:
            found.append({"type": "index", "head_dim": 128, "ratio": 4})
    if layer.get("index") or layer.get("side"):
        found.append({"type": "index", "head_dim": layer.get("side") or 128})
    return found
