"""Ollama: what the llama-server that it starts for one model allocates: num_ctx cells for each of num_parallel.

Ollama starts `llama-server -c <num_ctx x num_parallel> -np <num_parallel>`: split streams, so llama.cpp's rules
follow. Its own part is what stands in front: num_ctx is cut to the trained context, some families serve one sequence
whatever is asked, and the batch, which windows hold beyond their own, grows with the context.

Worked: Llama-3.1-8B with num_ctx 8,192 and num_parallel 4 is n_ctx 32,768: 4,294,967,296 bytes in f16.

Source: ollama main after v0.33.0-rc2, llm/llama_server.go, server/sched.go and server/routes.go, read; the caches as llama.cpp's.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from kvplan.account import Account, Device, Overhead, Range, left_of
from kvplan.engine import EngineOption, Options, Reservation
from kvplan.engine.llama_cpp import ENGINE as LLAMA_CPP
from kvplan.engine.llama_cpp.context import KV_TYPES, cache_type
from kvplan.engine.ollama.launch import Launch, launch_of
from kvplan.errors import InputError
from kvplan.spec import ModelSpec
from kvplan.workload import Workload


class Ollama:
    """Ollama's server, one model loaded."""

    NAME: ClassVar[str] = "ollama"
    VERSIONS: ClassVar[tuple[str, ...]] = ("0.33",)
    SUMMARY: ClassVar[str] = "the cells of the llama-server that Ollama starts: num_ctx for each of num_parallel"
    SOURCE: ClassVar[str] = "ollama main after v0.33.0-rc2, read; the caches as llama.cpp's, executed"
    OPTIONS: ClassVar[Mapping[str, EngineOption]] = {
        "num_ctx": EngineOption("int", "the context", "tokens of one sequence; cut to the trained context"),
        "context_length": EngineOption("int", "the context", "OLLAMA_CONTEXT_LENGTH; num_ctx comes before it"),
        "total_vram": EngineOption(
            "bytes", "unknown", "memory of all GPUs: num_ctx is then the default that Ollama has for it"
        ),
        "num_parallel": EngineOption("int", "the batch", "OLLAMA_NUM_PARALLEL; Ollama's own default is 1"),
        "kv_cache_type": EngineOption(KV_TYPES, "f16", "OLLAMA_KV_CACHE_TYPE, of K and V"),
        "flash_attention": EngineOption("bool", "where the GPU has it", "OLLAMA_FLASH_ATTENTION"),
        "gpu_overhead": EngineOption("bytes", "0", "OLLAMA_GPU_OVERHEAD: memory of each GPU left alone"),
        "num_batch": EngineOption("int", "by the context: 512, 1024 or 2048", "tokens of a batch"),
        "num_gpu": EngineOption("count", "all", "last layers that go to GPUs, the output among them"),
        "model_family": EngineOption("text", "by the spec's name", "family of the model, as its manifest says it"),
    }

    def reserve(
        self, spec: ModelSpec, workload: Workload, options: Options, version: str, budget_bytes: int | None = None
    ) -> Reservation:
        """What the llama-server reserves, with Ollama's own two figures in front."""
        launch = launch_of(spec, workload, options)
        kv_type = _kv_cache_type(workload, options)
        plain = workload.replace(k_dtype=None, v_dtype=None)
        server = _server_options(launch, kv_type, options)
        try:
            found = LLAMA_CPP.reserve(spec, plain, server, LLAMA_CPP.VERSIONS[-1])
        except InputError as error:
            raise InputError(_renamed(error.what), _renamed(error.fix)) from None
        figures = {"num_ctx": launch.num_ctx, "num_parallel": launch.num_parallel, **found.figures}
        reasons = (*found.reasons, *launch.reasons)
        return Reservation(self.NAME, version, found.reserved_bytes, figures, reasons, found.needed_bytes)

    def given_budget(self, spec: ModelSpec, workload: Workload, options: Options, version: str) -> int | None:
        """None: Ollama takes what its contexts need."""
        return None

    def account(self, spec: ModelSpec, workload: Workload, options: Options, version: str, device: Device) -> Account:
        """That of its llama-server, less what OLLAMA_GPU_OVERHEAD keeps back."""
        batch = int(options.get("num_batch", launch_of(spec, workload, options).num_batch))
        found = LLAMA_CPP.account(spec, workload, {"n_ubatch": batch}, LLAMA_CPP.VERSIONS[-1], device)
        if "gpu_overhead" not in options:
            return found
        note = "OLLAMA_GPU_OVERHEAD: memory of each GPU that is left alone."
        kept = Overhead("gpu_overhead", Range.exact(int(options["gpu_overhead"])), note, ("the option",))
        return Account(found.usable, (*found.overheads, kept), left_of(found.kv, [kept.bytes]))

    def dip_tokens(self, spec: ModelSpec, workload: Workload, options: Options) -> int:
        """0: more tokens never take fewer cells."""
        return 0


def _kv_cache_type(workload: Workload, options: Options) -> str:
    """The one type of K and V."""
    named = options.get("kv_cache_type")
    k = cache_type("k", workload.k_dtype, named, "-E kv_cache_type")
    v = cache_type("v", workload.v_dtype, named, "-E kv_cache_type")
    if k != v:
        raise InputError(
            f"--v-dtype: found {v} beside --k-dtype {k}, but ollama has one type for both", f"-E kv_cache_type={k}"
        )
    if k.startswith(("q", "iq")) and options.get("flash_attention", True) is False:
        raise InputError(
            f"-E flash_attention: found false with {k}, but llama-server needs flash attention for a quantized V",
            "-E flash_attention=true, or -E kv_cache_type=f16",
        )
    return k


def _server_options(launch: Launch, kv_type: str, options: Options) -> Options:
    """The flags that Ollama gives to llama-server, by the names of that engine's options."""
    flash = options.get("flash_attention")
    return {
        "n_ctx": launch.num_ctx * launch.num_parallel,
        "n_parallel": launch.num_parallel,
        "n_batch": launch.num_batch,
        "n_ubatch": launch.num_batch,
        "cache_type_k": kv_type,
        "cache_type_v": kv_type,
        "flash_attn": "auto" if flash is None else "on" if flash else "off",
        **({"n_gpu_layers": options["num_gpu"]} if "num_gpu" in options else {}),
    }


RENAMED = {"cache_type_k": "kv_cache_type", "cache_type_v": "kv_cache_type", "n_parallel": "num_parallel"}
"""Options of llama-server and what Ollama calls them."""


def _renamed(text: str) -> str:
    """A message of llama.cpp's engine with Ollama's names for its options."""
    for old, new in RENAMED.items():
        text = text.replace(f"-E {old}", f"-E {new}")
    return text


ENGINE = Ollama()
