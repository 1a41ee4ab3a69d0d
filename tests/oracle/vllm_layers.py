"""VLLM's own layers say what they keep: methods cut out of its classes by name and run on plain stand-ins.

`get_kv_cache_spec` of its attention, latent, index, chunk, cross and state layers, the state shapes, the backends'
packing and block sizes, the platform's block alignment, the batches in flight and the pipeline split are all the
wheel's code; only the values they read (head counts, widths, options) come from the drawn model.
"""

from __future__ import annotations

import ast
import functools
import math
from contextlib import nullcontext
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import torch
from vllm_planner import Planner, constant, home

DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp32": torch.float32}
NAMES = {"bf16": "bfloat16", "fp16": "float16", "fp32": "float32"}
BLOCK = 16


def excerpt(path: str, name: str, methods: tuple[str, ...], bases: tuple[type, ...], around: dict[str, Any]) -> Any:
    """The class `name` of the wheel's file `path`, with only `methods`, over `bases`."""
    folder = home()
    assert folder is not None
    tree = ast.parse((folder / path).read_text(encoding="utf-8"))
    found = next(node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == name)
    kept = [node for node in found.body if isinstance(node, ast.FunctionDef) and node.name in methods]
    assert {node.name for node in kept} == set(methods), (path, name)
    placed = {f"_base_{place}": base for place, base in enumerate(bases)}
    found.bases = [ast.Name(id=base, ctx=ast.Load()) for base in placed]
    found.body, found.decorator_list, found.keywords = list(kept), [], []
    return _run(found, {**around, **placed})[name]


def function(path: str, name: str, around: dict[str, Any]) -> Any:
    """The module-level function `name` of the wheel's file `path`."""
    folder = home()
    assert folder is not None
    tree = ast.parse((folder / path).read_text(encoding="utf-8"))
    found = next(node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == name)
    return _run(found, dict(around))[name]


def _run(node: ast.stmt, names: dict[str, Any]) -> dict[str, Any]:
    future = ast.parse("from __future__ import annotations").body
    module = ast.fix_missing_locations(ast.Module(body=[*future, node], type_ignores=[]))
    exec(compile(module, "vllm", "exec"), names)  # noqa: S102 the engine's own code is what the oracle runs
    return names


class Everything(dict[str, Any]):
    """A dictionary that forgets: layers of the same name may be made again."""

    def __contains__(self, key: object) -> bool:
        return False


class Layers:
    """VLLM's layer classes, backends and platform, as far as the cache goes."""

    def __init__(self, planner: Planner) -> None:
        import vllm.model_executor.layers.quantization.turboquant.config as turboquant
        from vllm.utils import math_utils
        from vllm.v1.attention import backend

        interface = planner.interface
        self.planner, self.interface, self.backend = planner, interface, backend
        names: dict[str, Any] = {
            **vars(interface),
            **vars(math_utils),
            "math": math,
            "torch": torch,
            "replace": replace,
            "functools": functools,
            "MultipleOf": backend.MultipleOf,
            "AttentionType": backend.AttentionType,
            "current_platform": SimpleNamespace(
                is_xpu=constant(False), is_rocm=constant(False), is_device_capability_family=constant(False)
            ),
            "get_dtype_size": lambda dtype: dtype.itemsize,
            "get_current_vllm_config_or_none": constant(None),
            "nvfp4_kv_cache_full_dim": function("vllm/utils/torch_utils.py", "nvfp4_kv_cache_full_dim", {}),
            "logger": SimpleNamespace(info=constant(None), info_once=constant(None)),
            "envs": SimpleNamespace(VLLM_PP_LAYER_PARTITION=None),
            "SparseCacheRole": interface.SparseCacheRole,
        }
        attention = "vllm/model_executor/layers/attention"
        names["_largest_kernel_block_within"] = function(
            f"{attention}/attention.py", "_largest_kernel_block_within", names
        )
        names["kv_cache_dtype_str_to_dtype"] = lambda name, config: stored_dtype(name, config.dtype)
        spec = ("get_kv_cache_spec",)
        self.attention = excerpt(f"{attention}/attention.py", "Attention", spec, (), names)
        self.latent = excerpt(f"{attention}/mla_attention.py", "MLAAttention", spec, (), names)
        self.canonical = function(f"{attention}/mla_attention.py", "_canonicalize_sparse_mla_kv_cache_dtype", names)
        self.chunked = excerpt(f"{attention}/chunked_local_attention.py", "ChunkedLocalAttention", spec, (), names)
        self.cross = excerpt(f"{attention}/cross_attention.py", "CrossAttention", spec, (), names)
        self.index = excerpt("vllm/model_executor/models/deepseek_v2.py", "DeepseekV32IndexerCache", spec, (), names)
        self.side_index = excerpt("vllm/models/minimax_m3/common/indexer.py", "MiniMaxM3IndexerCache", spec, (), names)
        mamba = "vllm/model_executor/layers/mamba"
        self.state = excerpt(f"{mamba}/abstract.py", "MambaBase", spec, (), names)
        self.mamba2 = excerpt(f"{mamba}/mamba_mixer2.py", "MambaMixer2", spec, (self.state,), names)
        names["get_mamba_prefill_checkpoint_grid"] = lambda config: config.cache_config.mamba_block_size
        self.gated = excerpt(
            f"{mamba}/gdn/qwen_gdn_linear_attn.py", "QwenGatedDeltaNetAttention", spec, (self.state,), names
        )
        context = SimpleNamespace(compilation_config=SimpleNamespace(static_forward_context=Everything()))
        names["get_current_vllm_config"] = constant(context)
        names["DeepseekSparseSWABackend"] = None
        made = ("__init__", *spec)
        v4 = "vllm/models/deepseek_v4"
        self.v4 = excerpt(f"{v4}/attention.py", "DeepseekV4Attention", spec, (), names)
        self.v4_index = excerpt(f"{v4}/attention.py", "DeepseekV4IndexerCache", made, (), names)
        self.v4_state = excerpt(f"{v4}/compressor.py", "CompressorStateCache", made, (), names)
        swa = "vllm/v1/attention/backends/mla/sparse_swa.py"
        self.v4_window = excerpt(swa, "DeepseekV4SWACache", made, (), names)
        self.customized = function("vllm/v1/worker/utils.py", "customize_attention_spec", names)
        self.stage = function("vllm/distributed/utils.py", "get_pp_indices", names)
        config = ("max_concurrent_batches", "max_in_flight_tokens", "num_prefill_lookahead_tokens")
        self.config = excerpt("vllm/config/vllm.py", "VllmConfig", config, (), names)
        self.speculative = excerpt(
            "vllm/config/speculative.py", "SpeculativeConfig", ("use_multi_module_mtp",), (), names
        )
        self.model = excerpt("vllm/config/model.py", "ModelConfig", ("get_num_kv_heads",), (), names)
        self.turboquant = turboquant.TurboQuantConfig
        self.backends = {
            "FLASH_ATTN": self._backend([backend.MultipleOf(BLOCK)]),
            "FLASHMLA": self._backend([64], mla=True),
            "FLASHMLA_SPARSE": self._backend([backend.MultipleOf(64)], mla=True, name="FLASHMLA_SPARSE"),
            "FLASHINFER_MLA_SPARSE": self._backend([backend.MultipleOf(32)], mla=True),
            "FLASH_ATTN_MLA": self._backend([backend.MultipleOf(BLOCK)], mla=True),
            "FLASHINFER_MLA": self._backend([32, 64], mla=True),
            "INDEXER": self._backend([64], mla=True),
            "MINIMAX_M3_SPARSE": self._backend([128]),
            **{
                name: self._cut_backend(file, cls, names)
                for name, file, cls in (
                    ("TURBOQUANT", "turboquant_attn", "TurboQuantAttentionBackend"),
                    ("FLASHINFER", "flashinfer", "FlashInferBackend"),
                    ("TRITON_ATTN", "triton_attn", "TritonAttentionBackend"),
                )
            },
        }

    def _backend(self, sizes: list[Any], mla: bool = False, name: str = "DRAWN") -> Any:
        return type(
            "Backend",
            (self.backend.AttentionBackend,),
            {
                "get_supported_kernel_block_sizes": staticmethod(constant(sizes)),
                "is_mla": classmethod(constant(mla)),
                "is_ssm": classmethod(constant(False)),
                "get_name": staticmethod(constant(name)),
            },
        )

    def _cut_backend(self, file: str, cls: str, names: dict[str, Any]) -> Any:
        wanted = ("customize_spec", "get_supported_kernel_block_sizes", "get_name")
        return excerpt(f"vllm/v1/attention/backends/{file}.py", cls, wanted, (self.backend.AttentionBackend,), names)

    def platform(self, backends: list[Any], checkpoint: int | None) -> Any:
        """The platform whose block alignment runs, over the backends of the drawn layers, in layer order."""
        import vllm.config.vllm as config
        from vllm.model_executor import models
        from vllm.model_executor.layers.mamba import abstract
        from vllm.platforms import interface
        from vllm.utils import torch_utils

        config.set_current_vllm_config = constant(nullcontext())
        config.get_current_vllm_config_or_none = constant(None)
        abstract.get_mamba_prefill_checkpoint_alignment = constant(checkpoint)
        models.ModelRegistry = SimpleNamespace(
            resolve_model_cls=lambda name, model_config: (model_config.model_cls, name)
        )
        torch_utils.STR_DTYPE_TO_TORCH_DTYPE.update(STORED)
        from vllm.config import cache

        cache.CacheConfig = SimpleNamespace(DEFAULT_BLOCK_SIZE=BLOCK)
        import vllm.v1.attention.backends as folder
        import vllm.v1.attention.backends.turboquant_attn as packed

        packed.TurboQuantAttentionBackend = self.backends["TURBOQUANT"]
        folder.turboquant_attn = packed
        distinct = list(dict.fromkeys(backends))
        return type("Drawn", (interface.Platform,), {"_find_non_ssm_backends": classmethod(constant(distinct))})


STORED = {
    "auto": None,
    "bfloat16": torch.bfloat16,
    "float16": torch.float16,
    "float32": torch.float32,
    "fp8": torch.uint8,
    "fp8_e5m2": torch.uint8,
    "fp8_ds_mla": torch.uint8,
    "nvfp4_ds_mla": torch.uint8,
    "int8_per_token_head": torch.int8,
    "fp8_per_token_head": torch.uint8,
    "int4_per_token_head": torch.uint8,
    "nvfp4": torch.uint8,
    "turboquant_k8v4": torch.uint8,
    "turboquant_4bit_nc": torch.uint8,
    "turboquant_k3v4_nc": torch.uint8,
    "turboquant_3bit_nc": torch.uint8,
}
"""The bytes behind each cache dtype: vllm/utils/torch_utils.py `STR_DTYPE_TO_TORCH_DTYPE`."""


def stored_dtype(name: str, model_dtype: Any) -> Any:
    return STORED[name] or model_dtype
