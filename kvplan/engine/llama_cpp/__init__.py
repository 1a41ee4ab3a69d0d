"""llama.cpp: the cells that its context allocates at start, for every sequence, window and state, by device.

Nothing grows: a context of n_ctx tokens is reserved when the server starts. Cells come in steps of 256, a window
holds its tokens and one physical batch, K and V are f16 whatever the model's dtype, states are f32. What is
allocated on the fullest device is what the engine reserves.

Worked: Gemma-3-27B at 131,072 tokens: 10,240 MiB in 10 full layers and 624 MiB in 52 windows of 1,536 cells.

Source: llama.cpp build 11549, executed through xllamacpp 2026.10.11549 on synthetic models, to the log's last digit.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from kvplan.account import Account, Device
from kvplan.engine import EngineOption, Options, Reservation
from kvplan.engine.llama_cpp.budget import account
from kvplan.engine.llama_cpp.caches import Cache, caches_of
from kvplan.engine.llama_cpp.checks import check
from kvplan.engine.llama_cpp.context import KV_TYPES, Context, context_of
from kvplan.engine.llama_cpp.devices import CPU, devices_of
from kvplan.engine.llama_cpp.reasons import Why, reasons
from kvplan.engine.llama_cpp.shape import LayerShape, Shape, shape_of
from kvplan.spec import ModelSpec
from kvplan.workload import Workload


class LlamaCpp:
    """llama.cpp's library and server."""

    NAME: ClassVar[str] = "llama.cpp"
    VERSIONS: ClassVar[tuple[str, ...]] = ("b11549",)
    SUMMARY: ClassVar[str] = "the cells that llama.cpp allocates when its context starts, by device"
    SOURCE: ClassVar[str] = "llama.cpp build 11549, executed through xllamacpp 2026.10.11549"
    OPTIONS: ClassVar[Mapping[str, EngineOption]] = {
        "n_ctx": EngineOption("int", "the context x the batch", "tokens of all sequences together"),
        "n_parallel": EngineOption("int", "the batch", "sequences served at once, 256 at most"),
        "kv_unified": EngineOption("bool", "false", "one stream of cells for all sequences, not one each"),
        "n_batch": EngineOption("int", "2048", "tokens of a logical batch, which bounds the physical one"),
        "n_ubatch": EngineOption("count", "512", "tokens of a physical batch: what a window holds beyond its own"),
        "n_rs_seq": EngineOption("count", "0", "snapshots of each state that a draft can be rolled back to"),
        "swa_full": EngineOption("bool", "false", "windows get as many cells as full layers"),
        "flash_attn": EngineOption(("auto", "on", "off"), "auto", "off pads V where layers differ in width"),
        "cache_type_k": EngineOption(KV_TYPES, "f16", "type of K, latents and index keys"),
        "cache_type_v": EngineOption(KV_TYPES, "f16", "type of V"),
        "no_kv_offload": EngineOption("bool", "false", "the cache stays in host memory"),
        "n_gpu_layers": EngineOption("count", "all", "last layers that go to devices, the output among them"),
        "split_mode": EngineOption(("layer", "row", "none"), "layer", "how several devices (--pp) share the model"),
        "tensor_split": EngineOption("text", "equal", "shares of the devices, such as 3,1"),
    }

    def reserve(
        self, spec: ModelSpec, workload: Workload, options: Options, version: str, budget_bytes: int | None = None
    ) -> Reservation:
        """The caches of one context; what the fullest device holds of them is reserved."""
        shape, context = shape_of(spec, workload.mtp), context_of(workload, options)
        check(spec, shape, workload, context)
        caches = caches_of(shape, context)
        figures = _figures(shape, context, caches)
        placed = devices_of(spec.layer_count + workload.mtp, workload, options)
        held = _by_device(shape, caches, placed)
        reserved = max((value for device, value in held.items() if device != CPU), default=0)
        if set(placed) != {0}:
            figures["devices"] = [
                {
                    "name": "CPU" if device == CPU else f"{device}",
                    "layers": placed.count(device),
                    "kv_bytes": held[device],
                }
                for device in sorted(held)
            ]
        needed = None if _holds(context, workload) else self._needed(spec, workload, options, version, reserved)
        why = reasons(Why(spec, workload, shape, context), caches, set(placed) == {CPU})
        return Reservation(self.NAME, version, reserved, figures, why, needed)

    def _needed(self, spec: ModelSpec, workload: Workload, options: Options, version: str, reserved: int) -> int:
        """Bytes of the context in which the workload finds room: n_ctx as long as it takes."""
        slots = max(int(options.get("n_parallel", workload.batch)), workload.batch)
        tokens = workload.context * (workload.batch if options.get("kv_unified", False) else slots)
        enough = {**options, "n_parallel": slots, "n_ctx": tokens}
        return max(reserved, self.reserve(spec, workload, enough, version).reserved_bytes)

    def given_budget(self, spec: ModelSpec, workload: Workload, options: Options, version: str) -> int | None:
        """None: the engine takes what its context needs."""
        return None

    def account(self, spec: ModelSpec, workload: Workload, options: Options, version: str, device: Device) -> Account:
        """The card less the margin of `--fit`, the model and its buffers."""
        return account(spec, workload, options, device)

    def dip_tokens(self, spec: ModelSpec, workload: Workload, options: Options) -> int:
        """0: more tokens never take fewer cells."""
        return 0


def _holds(context: Context, workload: Workload) -> bool:
    """True when every sequence of the workload finds its cells at once."""
    if context.n_parallel < workload.batch:
        return False
    if context.kv_unified:
        return context.n_ctx >= workload.context * workload.batch
    return context.n_ctx_seq >= workload.context


def _figures(shape: Shape, context: Context, caches: list[Cache]) -> dict[str, Any]:
    listed = [cache.figures(shape) for cache in caches]
    return {
        "n_ctx": context.n_ctx,
        "n_ctx_seq": context.n_ctx_seq,
        "n_parallel": context.n_parallel,
        "kv_unified": context.kv_unified,
        "n_ubatch": context.n_ubatch,
        "cache_type_k": context.type_k,
        "cache_type_v": context.type_v,
        "kv_bytes": sum(int(value) for cache in listed for key, value in cache.items() if key.endswith("_bytes")),
        "caches": listed,
    }


def _by_device(shape: Shape, caches: list[Cache], placed: list[int]) -> dict[int, int]:
    """Bytes by device."""
    sizes = {id(layer): _layer_bytes(layer, caches) for _, layer in shape.distinct}
    held = dict.fromkeys(placed, 0)
    start = 0
    for count, layer in shape.runs:
        for device in placed[start : start + count]:
            held[device] += sizes[id(layer)]
        start += count
    return held


def _layer_bytes(layer: LayerShape, caches: list[Cache]) -> int:
    """What one layer holds in all its caches."""
    found = [part for cache in caches if (part := cache.layer(layer)) is not None]
    return sum(part.first + part.second for part in found)


ENGINE = LlamaCpp()
