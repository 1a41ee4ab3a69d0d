"""Random models for SGLang, each twice: as a kvplan spec with its options, and as the facts SGLang reads.

The two are written side by side from the same drawn numbers; neither is derived from the other.
"""

from __future__ import annotations

from random import Random
from typing import Any

from sglang_pools import STATE_DTYPES, Model, module

from kvplan.record import Record


class Drawn(Record):
    """layers: groups of a kvplan spec. draft: what a draft layer keeps. workload, options: of the question."""

    layers: tuple[tuple[int, Any], ...]
    draft: dict[str, Any] | None
    workload: dict[str, Any]
    options: tuple[str, ...]
    model: Model


def drawn(dice: Random) -> Drawn:
    """One model: dense, latent, sparse, windowed or with states, and how it is served."""
    kind = dice.choice(
        ("dense", "latent", "sparse", "windowed", "windowed", "capped", "stateful", "stateful", "latent states")
    )
    return {
        "dense": _dense, "latent": _latent, "sparse": _sparse, "windowed": _windowed, "capped": _capped,
        "stateful": _stateful, "latent states": _latent_states,
    }[kind](dice)  # fmt: skip


def _heads(dice: Random, widths: tuple[int, ...] = (64, 96, 128, 192, 256)) -> tuple[int, int, int]:
    width = dice.choice(widths)
    return 2 ** dice.randint(0, 5), width, dice.choice((width, width, dice.choice(widths)))


def _gqa(heads: tuple[int, int, int], **more: Any) -> dict[str, Any]:
    count, width, v_width = heads
    found = {"type": "gqa", "heads": count * 2, "kv_heads": count, "head_dim": width, **more}
    return found if width == v_width else found | {"v_head_dim": v_width}


def _served(dice: Random, model: dict[str, Any], page: int | None = None) -> tuple[dict[str, Any], list[str]]:
    """Ranks, a page size, a batch and a length."""
    page = page or dice.choice((1, 1, 16, 64, 128))
    model["page"] = page
    workload = {"context": dice.randint(1, 60_000), "batch": dice.randint(1, 48)}
    return workload, [f"page_size={page}"]


def _drafts(dice: Random, model: dict[str, Any], workload: dict[str, Any], options: list[str]) -> None:
    """Speculation: draft layers, tokens per step, and how many requests run."""
    layers, tokens, steps, topk = dice.randint(1, 3), dice.randint(2, 8), dice.randint(1, 5), dice.choice((1, 1, 4))
    running = dice.randint(workload["batch"], 200)
    model |= {"draft_layers": layers, "drafted": tokens, "steps": steps, "topk": topk, "running": running}
    workload["mtp"] = layers
    options += [
        f"speculative_num_draft_tokens={tokens}", f"speculative_num_steps={steps}", f"speculative_eagle_topk={topk}",
        f"max_running_requests={running}",
    ]  # fmt: skip


def _dense(dice: Random) -> Drawn:
    dtype = dice.choice(("auto", "fp8_e4m3", "fp8_e5m2", "mxfp8", "nvfp4", "fp4_mx_block16"))
    heads = _heads(dice)
    if dtype in ("nvfp4", "fp4_mx_block16"):
        heads = (heads[0], heads[1] // 64 * 64, heads[1] // 64 * 64)
    model: dict[str, Any] = {"full_layers": dice.randint(1, 100), "heads": heads, "dtype": dtype}
    workload, options = _served(dice, model, 64 if dtype in ("nvfp4", "fp4_mx_block16") else None)
    model["tp"] = workload["tp"] = dice.choice((1, 2, 8, 64))
    options.append(f"kv_cache_dtype={dtype}")
    if dtype == "nvfp4" and dice.random() < 0.5:
        model["native"] = False
        options.append("prefill_kv_cache_dequant_dtype=fp8_e4m3")
    if dice.random() < 0.3:
        _drafts(dice, model, workload, options)
    elif model["tp"] > 1 and dice.random() < 0.4:
        model["dcp"] = workload["dcp"] = 2
    return Drawn(((model["full_layers"], _gqa(heads)),), None, workload, tuple(options), Model(**model))


def _mla(latent: tuple[int, int]) -> dict[str, Any]:
    return {"type": "mla", "heads": 16, "kv_lora_rank": latent[0], "qk_rope_head_dim": latent[1]}


def _latent(dice: Random) -> Drawn:
    latent = dice.choice(((512, 64), (256, 32), (384, 64)))
    dtype = dice.choice(("auto", "fp8_e4m3", "fp4_mx_block16"))
    model: dict[str, Any] = {"full_layers": dice.randint(1, 80), "latent": latent, "dtype": dtype}
    workload, options = _served(dice, model)
    model["tp"] = workload["tp"] = dice.choice((1, 8))
    options.append(f"kv_cache_dtype={dtype}")
    if dice.random() < 0.3:
        _drafts(dice, model, workload, options)
    elif model["tp"] > 1:
        model["dcp"] = workload["dcp"] = dice.choice((1, 2, 8))
    return Drawn(((model["full_layers"], _mla(latent)),), None, workload, tuple(options), Model(**model))


def _sparse(dice: Random) -> Drawn:
    latent, dtype = (512, 64), dice.choice(("auto", "fp8_e4m3", "fp8_e4m3"))
    backend = dice.choice((None, "trtllm", "tilelang", "flashmla_kv"))
    model: dict[str, Any] = {
        "full_layers": dice.randint(1, 80),
        "latent": latent,
        "index": True,
        "dtype": dtype,
        "backend": backend,
    }
    workload, options = _served(dice, model, 64)
    model["tp"] = workload["tp"] = dice.choice((1, 8))
    options.append(f"kv_cache_dtype={dtype}")
    if backend:
        options += [f"dsa_prefill_backend={backend}", f"dsa_decode_backend={backend}"]
    if dice.random() < 0.3:
        _drafts(dice, model, workload, options)
    elif model["tp"] > 1:
        model["dcp"] = workload["dcp"] = dice.choice((1, 2, 8))
    layer = [_mla(latent), {"type": "index", "head_dim": 128}]
    return Drawn(((model["full_layers"], layer),), None, workload, tuple(options), Model(**model))


def _windowed(dice: Random) -> Drawn:
    heads, window, tokens = _heads(dice), _heads(dice), dice.choice((128, 512, 1024, 4096))
    if dice.random() < 0.5:
        window = heads
    model: dict[str, Any] = {
        "full_layers": dice.choice((0, *range(1, 40))), "window_layers": dice.randint(1, 60), "heads": heads,
        "window": window, "dtype": dice.choice(("auto", "fp8_e4m3")), "sliding": tokens - 1,
    }  # fmt: skip
    workload, options = _served(dice, model)
    model["tp"] = workload["tp"] = dice.choice((1, 2, 4))
    model["ratio"] = ratio = dice.choice((0.8, 0.8, 0.1, 0.25, 1.0))
    options += [f"kv_cache_dtype={model['dtype']}", f"swa_full_tokens_ratio={ratio}", "disable_hybrid_swa_memory=false"]
    draft = None
    if model["full_layers"] and dice.random() < 0.3:
        _drafts(dice, model, workload, options)
        draft = _gqa(heads)
    windowed = _gqa(window, window=tokens)
    layers = [(model["window_layers"], windowed)]
    if model["full_layers"]:
        layers.append((model["full_layers"], _gqa(heads)))
    return Drawn(tuple(layers), draft, workload, tuple(options), Model(**model))


def _capped(dice: Random) -> Drawn:
    while True:
        found = _windowed(dice)
        model = found.model
        if model.full_layers:
            break
    running = model.running or dice.randint(found.workload["batch"], 200)
    model.__dict__ |= {
        "running": running,
        "radix": False,
        "overlap": dice.random() < 0.5,
        "chunk": dice.choice((2048, 8192)),
    }
    options = [option for option in found.options if not option.startswith("max_running")] + [
        f"max_running_requests={running}", "disable_radix_cache=true", f"chunked_prefill_size={model.chunk}",
        f"disable_overlap_schedule={'false' if model.overlap else 'true'}",
    ]  # fmt: skip
    return found.replace(options=tuple(options))


def _states(dice: Random, tp: int, layers: int) -> tuple[dict[str, Any], Any, str]:
    """(a kvplan attention, SGLang's own parameters, the strategy that `auto` means)."""
    shapes, kernel = module("configs.mamba_utils"), dice.randint(2, 5)
    dtype = dice.choice(("fp32", "fp32", "bf16"))
    made = shapes.Mamba2StateDType(conv=STATE_DTYPES["bf16"], temporal=STATE_DTYPES[dtype])
    ids, heads, width, size = (
        list(range(layers)),
        8 * dice.randint(1, 8),
        dice.choice((32, 64, 128)),
        dice.choice((16, 64, 128)),
    )
    kind = dice.choice(("mamba2", "gated_deltanet", "kda", "lightning", "short_conv", "mamba1"))
    common: dict[str, Any] = {"tp_world_size": tp, "conv_kernel": kernel}
    strategy = "extra_buffer"
    if kind == "mamba2":
        groups = dice.choice((1, 8))
        spec = {"heads": heads, "head_dim": width, "groups": groups, "d_state": size, "conv_kernel": kernel}
        shape = shapes.Mamba2StateShape.create(
            **common, intermediate_size=heads * width, n_groups=groups, num_heads=heads, head_dim=width, state_size=size
        )
    elif kind == "gated_deltanet":
        keys = dice.choice((8, 16))
        spec = {"k_heads": keys, "v_heads": heads, "k_head_dim": size, "v_head_dim": width, "conv_kernel": kernel}
        shape = shapes.Mamba2StateShape.create(
            **common, intermediate_size=heads * width, n_groups=keys, num_heads=heads, head_dim=width, state_size=size
        )
    elif kind == "kda":
        spec = {"heads": heads, "head_dim": width, "conv_kernel": kernel}
        shape = shapes.KimiLinearStateShape.create(
            tp_world_size=tp, num_heads=heads, head_dim=width, conv_kernel_size=kernel
        )
        return _typed(kind, spec, dtype), shapes.KimiLinearCacheParams(shape=shape, layers=ids, dtype=made), strategy
    elif kind == "lightning":
        spec = {"heads": heads, "head_dim": width}
        shape = shapes.Mamba2StateShape.create(
            tp_world_size=tp,
            conv_kernel=1,
            intermediate_size=0,
            n_groups=0,
            num_heads=heads,
            head_dim=width,
            state_size=width,
        )
    elif kind == "short_conv":
        spec, strategy = {"dim": heads * width, "conv_kernel": kernel}, "no_buffer"
        shape = shapes.Mamba2StateShape.create(
            **common, intermediate_size=heads * width, n_groups=1, num_heads=tp, head_dim=heads * width, state_size=0
        )
    else:
        spec, strategy = {"d_inner": heads * width, "d_state": size, "conv_kernel": kernel}, "no_buffer"
        shape = shapes.Mamba2StateShape.create_full_rank(**common, intermediate_size=heads * width, state_size=size)
    return _typed(kind, spec, dtype), shapes.Mamba2CacheParams(shape=shape, layers=ids, dtype=made), strategy


def _typed(kind: str, spec: dict[str, Any], dtype: str) -> dict[str, Any]:
    return {"type": kind, **spec} | ({} if kind == "short_conv" else {"state_dtype": dtype})


def _stateful(dice: Random) -> Drawn:
    heads, dtype = _heads(dice), dice.choice(("auto", "fp8_e4m3", "mxfp8"))
    return _with_states(dice, {"heads": heads, "dtype": dtype}, _gqa(heads))


def _latent_states(dice: Random) -> Drawn:
    return _with_states(dice, {"latent": (512, 64), "dtype": dice.choice(("auto", "fp8_e4m3"))}, _mla((512, 64)))


def _with_states(dice: Random, model: dict[str, Any], attention: dict[str, Any]) -> Drawn:
    model |= {"full_layers": dice.randint(1, 40), "state_layers": dice.randint(1, 60)}
    workload, options = _served(dice, model)
    model["tp"] = workload["tp"] = dice.choice((1, 2, 8))
    mixer, model["states"], model["strategy"] = _states(dice, model["tp"], model["state_layers"])
    options.append(f"kv_cache_dtype={model['dtype']}")
    if dice.random() < 0.4:
        _drafts(dice, model, workload, options)
    draft = attention if "mtp" in workload else None
    if dice.random() < 0.3:
        model["strategy"] = dice.choice(("no_buffer", "extra_buffer", "extra_buffer_lazy"))
        options.append(f"mamba_radix_cache_strategy={model['strategy']}")
    if dice.random() < 0.3:
        model["slots"] = dice.randint(workload["batch"] * 5, 2000)
        options.append(f"max_mamba_cache_size={model['slots']}")
    elif dice.random() < 0.3:
        model |= {"radix": False, "running": model.get("running") or dice.randint(workload["batch"], 200)}
        options = [option for option in options if not option.startswith("max_running")]
        options += ["disable_radix_cache=true", f"max_running_requests={model['running']}"]
    if dice.random() < 0.3:
        model["state_ratio"] = dice.choice((0.1, 0.5, 2.0))
        options.append(f"mamba_full_memory_ratio={model['state_ratio']}")
    layers = ((model["state_layers"], mixer), (model["full_layers"], attention))
    return Drawn(layers, draft, workload, tuple(options), Model(**model))
