"""TensorRT-LLM: blocks of 32 tokens over all layers, as the PyTorch backend's KVCacheManager counts them.

The workload decides how many blocks are needed; pools of that many are what the engine takes. A budget, or
`max_tokens`, is turned into blocks as the engine does it. States of recurrent layers are a fixed cost beside.

Worked: Llama-3.1-8B at 8,192 tokens: 256 blocks of 32 x 131,072 = 4,194,304 bytes, 1,073,741,824 in all.

Source: TensorRT-LLM 1.2, tensorrt_llm/_torch/pyexecutor/resource_manager.py, its block counting executed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from kvplan.account import Account, Device
from kvplan.engine import EngineOption, Options, Reservation
from kvplan.engine.trtllm.blocks import Layout, Pool, blocks_of_request, counted, layers_of_windows, pools_of
from kvplan.engine.trtllm.budget import account
from kvplan.engine.trtllm.layers import Held, Stage, held
from kvplan.errors import InputError
from kvplan.formats import format_named
from kvplan.growth import Chunk, Window
from kvplan.policy.full import Full
from kvplan.record import Record
from kvplan.spec import ModelSpec
from kvplan.tensor import Role
from kvplan.units import ceil_div
from kvplan.workload import Workload

STATE_DTYPES = {"float32": "fp32", "bfloat16": "bf16", "float16": "fp16"}


class Asked(Record):
    """A workload's question, resolved. slots: requests whose states have room; shared: blocks of the prefix."""

    held: Held
    layout: Layout
    context: int
    batch: int
    shared: int
    slots: int
    max_tokens: int | None

    def needed_blocks(self, window: int) -> int:
        """Blocks that all requests hold in the pool of `window`."""
        own = blocks_of_request(self.context, window, self.layout)
        shared = self.shared if window >= self.context else 0
        return self.batch * (own - shared) + shared

    def state_bytes(self, stage: Stage) -> int:
        """Bytes of the states of one rank."""
        return self.slots * stage.state_bytes

    def counted(self, stage: Stage, budget_bytes: int) -> tuple[Pool, ...]:
        """One rank's pools in a budget."""
        return counted(self.held, stage, self.layout, max(0, budget_bytes - self.state_bytes(stage)), self.max_tokens)

    def least(self, stage: Stage) -> int:
        """The smallest budget of one rank whose pools have the needed blocks."""
        pools = pools_of(self.held, stage, self.layout, layers_of_windows(stage, self.layout))
        size = self.layout.tokens_per_block
        wanted = {pool.window: self.needed_blocks(pool.window) for pool in pools}
        shares = len(pools) if self.layout.varied else 1
        least = max((wanted[pool.window] * size * pool.priced_bytes * shares for pool in pools), default=0)
        if self.layout.varied:
            least = max(least, sum(pool.window * pool.token_bytes for pool in pools) + 1)
        states = self.state_bytes(stage)
        unbound = self.replace(max_tokens=None)
        while any(pool.blocks < wanted[pool.window] for pool in unbound.counted(stage, states + least)):
            least += 1 + (least >> 50)
        return states + least

    def taken(self, stage: Stage, pools: tuple[Pool, ...]) -> int:
        """Bytes of one rank's pools and states."""
        return self.state_bytes(stage) + sum(_bytes(pool, self.layout) for pool in pools)


class TensorRtLlm:
    """The PyTorch backend of TensorRT-LLM."""

    NAME: ClassVar[str] = "trtllm"
    VERSIONS: ClassVar[tuple[str, ...]] = ("1.2",)
    SUMMARY: ClassVar[str] = "blocks of tokens, as TensorRT-LLM's PyTorch backend allocates them"
    SOURCE: ClassVar[str] = "TensorRT-LLM 1.2 _torch/pyexecutor/resource_manager.py, its block counting executed"
    OPTIONS: ClassVar[Mapping[str, EngineOption]] = {
        "tokens_per_block": EngineOption("int", "32", "tokens of a block"),
        "max_tokens": EngineOption("int", "as many as fit", "tokens of the pool"),
        "free_gpu_memory_fraction": EngineOption("share", "0.9", "share of what weights and activations leave"),
        "max_gpu_total_bytes": EngineOption("bytes", "no limit", "bytes of all pools"),
        "max_attention_window": EngineOption(
            "text", "the context", "windows such as 1024,1024,32768, repeated over layers"
        ),
        "dtype": EngineOption(("auto", "fp8", "nvfp4"), "auto", "storage of keys, values and latents"),
        "enable_attention_dp": EngineOption("bool", "false", "each rank holds other requests, and whole heads"),
        "max_batch_size": EngineOption("int", "the batch", "requests whose states have room"),
        "mamba_ssm_cache_dtype": EngineOption(tuple(STATE_DTYPES), "the model's own", "storage of states"),
    }

    def reserve(
        self, spec: ModelSpec, workload: Workload, options: Options, version: str, budget_bytes: int | None = None
    ) -> Reservation:
        """The blocks on the fullest rank."""
        asked = _asked(spec, workload, options)
        stages = asked.held.stages
        needed = max(asked.least(stage) for stage in stages)
        stated = _stated(asked)
        enough = stated is None or needed <= stated
        pools = [asked.counted(stage, stated or asked.least(stage)) for stage in stages]
        taken = max(asked.taken(stage, found) for stage, found in zip(stages, pools, strict=True))
        if not enough:
            needed = max(needed, taken + 1)
        fullest = max(stages, key=lambda stage: sum(stage.heads))
        found = _figures(asked, fullest)
        if budget_bytes is not None or stated is not None:
            found |= _budget_figures(asked, budget_bytes if budget_bytes is not None else stated or 0)
        return Reservation(self.NAME, version, taken, found, _reasons(spec, asked), needed)

    def given_budget(self, spec: ModelSpec, workload: Workload, options: Options, version: str) -> int | None:
        """The bytes that `max_tokens` or `max_gpu_total_bytes` states; the smaller of the two."""
        asked = _asked(spec, workload, options)
        limits = [_stated(asked)]
        if "max_gpu_total_bytes" in options:
            limits.append(int(options["max_gpu_total_bytes"]))
        return min((limit for limit in limits if limit is not None), default=None)

    def account(self, spec: ModelSpec, workload: Workload, options: Options, version: str, device: Device) -> Account:
        """A fraction of what weights, activations and everything else leave."""
        return account(spec, workload, options, device)

    def dip_tokens(self, spec: ModelSpec, workload: Workload, options: Options) -> int:
        """0: blocks never fall with the context."""
        return 0


def _asked(spec: ModelSpec, workload: Workload, options: Options) -> Asked:
    _check(workload)
    alone = bool(options.get("enable_attention_dp", False))
    ssm = options.get("mamba_ssm_cache_dtype")
    model = held(spec, 1 if alone else workload.tp, workload.pp, workload.mtp, STATE_DTYPES[str(ssm)] if ssm else None)
    size = int(options.get("tokens_per_block", 32))
    layout = Layout(_dtype(spec, workload, options), size, _windows(options, workload.context))
    if layout.dtype == "nvfp4" and model.width % 16:
        raise InputError(f"-E dtype=nvfp4: found {model.width} numbers, allowed multiples of 16", "-E dtype=fp8")
    if layout.varied and "max_tokens" in options:
        raise InputError("-E max_tokens: TensorRT-LLM ignores it where windows differ", "-E max_gpu_total_bytes=")
    batch = ceil_div(workload.batch, workload.tp) if alone else workload.batch
    slots = int(options.get("max_batch_size", batch))
    if slots < batch:
        raise InputError(
            f"-E max_batch_size: found {slots:,}, and the batch has {batch:,}", f"-E max_batch_size={batch}"
        )
    tokens = options.get("max_tokens")
    return Asked(
        model, layout, workload.context, batch, workload.prefix // size, slots, int(tokens) if tokens else None
    )


def _check(workload: Workload) -> None:
    if not isinstance(workload.policy, Full):
        raise InputError(
            f"--policy: found {workload.policy_text}, but TensorRT-LLM's blocks keep every row",
            "--policy full, or --engine ideal",
        )
    if workload.dcp > 1:
        raise InputError(f"--dcp: found {workload.dcp}, which is not counted for TensorRT-LLM", "leave out --dcp")
    if workload.index_dtype not in ("fp8", "fp8_e4m3"):
        raise InputError(f"--index-dtype: found {workload.index_dtype}, and index keys are fp8", "--index-dtype fp8")


def _windows(options: Options, context: int) -> tuple[int, ...]:
    text = str(options.get("max_attention_window", ""))
    if not text:
        return (context,)
    parts = text.split(",")
    if not all(part.isascii() and part.isdigit() and int(part) > 0 for part in parts):
        raise InputError(
            f"-E max_attention_window: found {text}, allowed whole numbers above 0",
            "-E max_attention_window=1024,32768",
        )
    return tuple(min(context, int(part)) for part in parts)


def _dtype(spec: ModelSpec, workload: Workload, options: Options) -> str:
    """The storage that the options or the workload's formats ask for."""
    own, asked = spec.fields.dtype, str(options.get("dtype", "auto"))
    stated = spec.fields.kv_dtype if asked == "auto" else None
    names = {format_named(name or stated or own).name for name in (workload.k_dtype, workload.v_dtype)}
    if not names <= {own, "fp8", "nvfp4"} or len(names) > 1:
        wrong = next(iter(names - {own, "fp8", "nvfp4"}), "two formats")
        raise InputError(
            f"--kv-dtype: found {wrong}, allowed the model's {own}, fp8 and nvfp4, for K and V alike", "--kv-dtype fp8"
        )
    typed = names.pop() if workload.k_dtype or workload.v_dtype or stated else None
    if typed and asked not in ("auto", typed):
        raise InputError(f"-E dtype={asked}: --kv-dtype says {typed}", "give one of them")
    return typed or (own if asked == "auto" else asked)


def _stated(asked: Asked) -> int | None:
    """The bytes of the pools that `max_tokens` states, on the fullest rank."""
    if asked.max_tokens is None:
        return None
    size = asked.layout.tokens_per_block
    blocks = asked.max_tokens // size

    def of(stage: Stage) -> int:
        pools = pools_of(asked.held, stage, asked.layout, layers_of_windows(stage, asked.layout))
        return asked.taken(stage, tuple(pool.replace(blocks=blocks) for pool in pools))

    return max(of(stage) for stage in asked.held.stages)


def _bytes(pool: Pool, layout: Layout) -> int:
    return pool.blocks * layout.tokens_per_block * pool.token_bytes


def _figures(asked: Asked, stage: Stage) -> dict[str, Any]:
    pools = pools_of(asked.held, stage, asked.layout, layers_of_windows(stage, asked.layout))
    found: dict[str, Any] = {
        "tokens_per_block": asked.layout.tokens_per_block,
        "bytes_per_token": sum(pool.token_bytes for pool in pools),
        "blocks_per_request": sum(blocks_of_request(asked.context, pool.window, asked.layout) for pool in pools),
    }
    if asked.layout.varied:
        found["windows"] = [
            {"window": pool.window, "layers": len(pool.layers), "bytes_per_token": pool.token_bytes,
             "blocks": asked.needed_blocks(pool.window)}
            for pool in pools
        ]  # fmt: skip
    if stage.state_bytes:
        found["mamba_state_bytes"] = asked.state_bytes(stage)
    return found


def _budget_figures(asked: Asked, budget_bytes: int) -> dict[str, Any]:
    """Blocks and tokens of the whole model: the fewest that a rank has."""
    ranks = [asked.counted(stage, budget_bytes) for stage in asked.held.stages if stage.heads]
    if not ranks:
        return {}
    size = asked.layout.tokens_per_block
    if not asked.layout.varied:
        blocks = min(pool.blocks for pools in ranks for pool in pools)
        return {"num_blocks": blocks, "max_tokens": blocks * size}
    fewest = min(ranks, key=lambda pools: sum(pool.blocks for pool in pools))
    pools = [{"window": pool.window, "num_blocks": pool.blocks, "max_tokens": pool.blocks * size} for pool in fewest]
    return {"num_blocks": sum(pool.blocks for pool in fewest), "max_tokens": fewest[-1].blocks * size, "pools": pools}


def _reasons(spec: ModelSpec, asked: Asked) -> tuple[str, ...]:
    found = []
    bounded = any(
        isinstance(t.growth, Window | Chunk) and t.growth.tokens < asked.context
        for _, layer in spec.layers()
        for t in layer.tensors()
    )
    if bounded and asked.layout.windows == (asked.context,):
        found.append("windowed layers hold every token")
    if asked.layout.varied:
        found.append("each window gets an equal share of the memory")
    if any(window < asked.context for window in asked.layout.windows):
        found.append("a window holds one block more")
    if asked.slots > asked.batch and any(stage.state_bytes for stage in asked.held.stages):
        found.append(f"states of {asked.slots} requests")
    states = [t for _, layer in spec.layers() for t in layer.tensors() if t.role is Role.STATE]
    if any(t.dtype is None for t in states) and spec.fields.dtype != "fp32":
        found.append(f"states in the model's {spec.fields.dtype}")
    if asked.context % asked.layout.tokens_per_block:
        found.append(f"contexts rounded up to blocks of {asked.layout.tokens_per_block}")
    return tuple(found)


ENGINE = TensorRtLlm()
