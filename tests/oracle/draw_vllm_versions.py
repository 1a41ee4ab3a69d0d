"""Older releases of vLLM plan the same models: prints the rows of tests/data/vllm_versions.yaml.

`VLLM_VERSIONS="0.16.0 0.19.1" .ci/oracles DIR`, then `KVPLAN_ORACLES=DIR python tests/oracle/draw_vllm_versions.py
VERSION` executes that release's planner over specifications written down here, and nothing of kvplan.
"""

from __future__ import annotations

import importlib
import os
import sys
import types
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
import torch
import vllm_planner

GIB = 2**30
BF16 = torch.bfloat16
BATCHED = 8192


def modules(version: str) -> tuple[Any, Any]:
    """(kv_cache_interface, kv_cache_utils) of a release, the rest stubbed."""
    folder = Path(os.environ["KVPLAN_ORACLES"]) / f"vllm-{version}"
    sys.meta_path.insert(0, vllm_planner.Finder(folder))
    interface = importlib.import_module("vllm.v1.kv_cache_interface")
    utils = importlib.import_module("vllm.v1.core.kv_cache_utils")
    managers = importlib.import_module("vllm.v1.core.single_type_kv_cache_manager")
    if hasattr(managers, "register_all_kvcache_specs"):
        managers.register_all_kvcache_specs(None)
    return interface, utils


def full(kind: Any, heads: int, width: int, block: int = 16) -> Any:
    return kind.FullAttentionSpec(block_size=block, num_kv_heads=heads, head_size=width, dtype=BF16)


def window(kind: Any, heads: int, width: int, tokens: int) -> Any:
    return kind.SlidingWindowSpec(block_size=16, num_kv_heads=heads, head_size=width, dtype=BF16, sliding_window=tokens)


def chunk(kind: Any, heads: int, width: int, tokens: int) -> Any:
    return kind.ChunkedLocalAttentionSpec(
        block_size=16, num_kv_heads=heads, head_size=width, dtype=BF16, attention_chunk_size=tokens
    )


def state(kind: Any, block: int, page: int, mode: str) -> Any:
    return kind.MambaSpec(
        block_size=block,
        shapes=((3, 8192), (32, 128, 128)),
        dtypes=(BF16, BF16),
        page_size_padded=page,
        mamba_cache_mode=mode,
    )


def models(kind: Any) -> dict[str, tuple[str, list[list[Any]], int, int, str, int]]:
    """By name: (kvplan's question, layers of each rank, length, GiB, state mode, dcp)."""
    latent = kind.MLAAttentionSpec(block_size=64, num_kv_heads=1, head_size=576, dtype=BF16)
    gemma = [full(kind, 16, 128) if i % 6 == 5 else window(kind, 16, 128, 1024) for i in range(62)]
    scout = [full(kind, 1, 128) if i % 4 == 3 else chunk(kind, 1, 128, 8192) for i in range(48)]
    oss = [window(kind, 8, 64, 128) if i % 2 == 0 else full(kind, 8, 64) for i in range(24)]
    uneven = [full(kind, 8, 128)] * 10 + [window(kind, 8, 128, 512)] * 13
    next_80b = {
        mode: [full(kind, 2, 256, 544) if i % 4 == 3 else state(kind, 544, 1_114_112, mode) for i in range(48)]
        for mode in ("none", "align")
    }
    eight = [full(kind, 8, 128)] * 32
    return {
        "llama-3.1-8b": ("llama-3.1-8b --ctx 131072", [eight], 131_072, 60, "none", 1),
        "llama-3.1-8b short": ("llama-3.1-8b --ctx 8001", [eight], 8001, 60, "none", 1),
        "llama-3.1-8b tight": ("llama-3.1-8b --ctx 8192", [eight], 8192, 1, "none", 1),
        "llama-3.1-8b pp": ("llama-3.1-8b --ctx 8192 --pp 2", [eight[:16], eight[16:]], 8192, 20, "none", 1),
        "deepseek-v3": ("deepseek-v3 --ctx 163840", [[latent] * 61], 163_840, 40, "none", 1),
        "deepseek-v3 dcp": ("deepseek-v3 --ctx 163840 --tp 8 --dcp 8", [[latent] * 61], 163_840, 40, "none", 8),
        "gemma-3-27b": ("gemma-3-27b --ctx 131072", [gemma], 131_072, 40, "none", 1),
        "gpt-oss-20b": ("gpt-oss-20b --ctx 131072", [oss], 131_072, 40, "none", 1),
        "llama-4-scout": ("llama-4-scout --ctx 32768 --tp 8", [scout], 32_768, 40, "none", 1),
        "uneven": ("10 full and 13 windowed", [uneven], 32_768, 40, "none", 1),
        "qwen3-next": ("qwen3-next-80b-a3b --ctx 32768 none", [next_80b["none"]], 32_768, 40, "none", 1),
        "qwen3-next align": ("qwen3-next-80b-a3b --ctx 32768 align", [next_80b["align"]], 32_768, 40, "align", 1),
    }


def layout() -> Any:
    return importlib.import_module("vllm.v1.kv_cache_layout").KVCacheLayout.LBNHC


def config(length: int, mode: str, dcp: int) -> Any:
    space = types.SimpleNamespace
    return space(
        model_config=space(max_model_len=length, original_max_model_len=length, supports_kv_cache_grouping=False),
        parallel_config=space(
            decode_context_parallel_size=dcp, prefill_context_parallel_size=1, tensor_parallel_size=dcp
        ),
        scheduler_config=space(
            disable_hybrid_kv_cache_manager=False, max_num_encoder_input_tokens=0, max_num_batched_tokens=BATCHED
        ),
        cache_config=space(
            num_gpu_blocks_override=None,
            mamba_cache_mode=mode,
            prefix_cache_retention_interval=0,
            kv_cache_size_tokens=None,
            kv_cache_max_concurrency=None,
            get_resolved_kv_cache_layout=layout,
        ),
        max_in_flight_tokens=2 * BATCHED,
        num_lookahead_tokens=0,
        kv_transfer_config=None,
        speculative_config=None,
        device_config=space(device_type="cuda"),
        attention_config=space(hisparse_config=None),
    )


def planned(interface: Any, utils: Any, ranks: list[list[Any]], length: int, gib: int, mode: str, dcp: int) -> str:
    asked, start = config(length, mode, dcp), 0
    asked.model_config.original_max_model_len = -1  # --max-model-len auto: the length given is the most
    specs = []
    for rank in ranks:
        specs.append({f"layers.{start + i}": spec for i, spec in enumerate(rank)})
        start += len(rank)
    vllm_planner.LOGGER.lines.clear()
    found = utils.get_kv_cache_configs(asked, specs, [gib * GIB] * len(specs))
    if hasattr(utils, "get_kv_cache_capacity"):
        tokens, concurrency = utils.get_kv_cache_capacity(asked, found[0])
    else:
        line = next(line for line in vllm_planner.LOGGER.lines if line.startswith("GPU KV cache size:"))
        tokens = int("".join(c for c in line.partition("size:")[2] if c.isdigit()))
        concurrency = utils.get_max_concurrency_for_kv_cache_config(asked, found[0])
    allocated = max(_bytes(one.kv_cache_tensors) for one in found)
    return f"blocks: {found[0].num_blocks}, tokens: {tokens}, concurrency: {concurrency!r}, allocated: {allocated}, length: {asked.model_config.max_model_len}"


def _bytes(tensors: list[Any]) -> int:
    """Newer releases lay all groups over one buffer, older ones give each row of layers its own."""
    together = hasattr(tensors[0], "layer_stride")
    return max(t.size for t in tensors) if together else sum(t.size for t in tensors)


if __name__ == "__main__":
    release = sys.argv[1]
    kinds, planner = modules(release)
    for name, (_, ranks, length, gib, mode, dcp) in models(kinds).items():
        row = planned(kinds, planner, ranks, length, gib, mode, dcp)
        print(f"  - {{vllm: {release!r}, case: {name}, {row}}}")
