"""What SGLang 0.5.23 itself sizes and allocates: its configurator and pool classes, fed the facts that they read.

`Model` carries what a Hugging Face configuration would; `sized` runs the profiling path from bytes to pool sizes and
`weighed` builds the pools of given sizes and adds up the tensors that SGLang reports.
"""

from __future__ import annotations

import sys
from pathlib import Path
from types import MethodType
from types import SimpleNamespace as Facts
from typing import Any
from unittest.mock import patch

import torch
from sglang_modules import always, folder, taken

GIB = 1 << 30
OWN_RULES = taken(folder() or Path(), "sglang.srt.configs.model_config", "get_num_kv_heads", "get_swa_num_kv_heads")
"""SGLang's rules for the heads of a rank."""
DTYPES = {
    "auto": torch.bfloat16, "bf16": torch.bfloat16, "fp8_e4m3": torch.float8_e4m3fn, "fp8_e5m2": torch.float8_e5m2,
    "mxfp8": torch.float8_e4m3fn, "nvfp4": torch.float4_e2m1fn_x2, "fp4_mx_block16": torch.float4_e2m1fn_x2,
}  # fmt: skip
STATE_DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


class Model:
    """One model and how it is served, as SGLang's sizing reads them.

    heads: (total KV heads, K width, V width) of full layers, `window` the same of windowed ones; latent: (lora, rope).
    states: linear-attention parameters as SGLang's own classes make them, `conv` and `temporal` shapes per rank.
    """

    def __init__(self, **facts: Any) -> None:
        given = {
            "full_layers": 0, "window_layers": 0, "heads": None, "window": None, "latent": None, "index": False,
            "sliding": None, "states": None, "state_layers": 0, "draft_layers": 0, "tp": 1, "dcp": 1, "page": 1,
            "dtype": "auto", "ratio": 0.8, "state_ratio": 0.9, "slots": None, "running": None, "radix": True,
            "overlap": True, "strategy": "no_buffer", "drafted": None, "steps": None, "topk": None, "tokens": None,
            "chunk": 8192, "backend": None, "native": True,
        }  # fmt: skip
        self.__dict__.update(given | facts)

    @property
    def layers(self) -> int:
        return self.full_layers + self.window_layers


def module(name: str) -> Any:
    return sys.modules[f"sglang.srt.{name}"]


def configurator(model: Model) -> Any:
    """SGLang's `KVCacheConfigurator` for `model`, and the settings that its modules read set to it."""
    contexts = _settings(model)
    for name in ("mem_cache.kv_cache_configurator", "model_executor.pool_configurator", "mem_cache.memory_pool",
                 "mem_cache.allocation_sizing", "mem_cache.swa_memory_pool", "mem_cache.index_key_cache", "configs.mamba_utils",
                 "layers.quantization.fp4_kv_cache_quant_method"):  # fmt: skip
        _point(module(name), contexts)
    backends = ("trtllm_mha" if model.native else "flashinfer", "trtllm_mha")
    if model.dtype == "fp4_mx_block16":
        backends = ("triton", "triton")
    module("arg_groups.overrides").attention_backends_of = always(backends)
    kvc = module("mem_cache.kv_cache_configurator")
    kvc.gc = Facts(collect=lambda: None)
    kvc.KVCacheConfigurator.fused_entry_bytes = always(None)
    kvc.KVCacheConfigurator._resolve_kv_pool_class = lambda _, kind, default: kind and default
    window = list(range(model.full_layers, model.layers))
    made = object.__new__(kvc.KVCacheConfigurator)
    facts = {
        "device": "meta", "gpu_id": 0, "attn_dp_size": 1, "pp_size": 1, "model": None, "model_config": _config(model),
        "server_args": Facts(enable_hisparse=False), "kv_cache_dtype": DTYPES[model.dtype],
        "model_dtype": torch.bfloat16, "page_size": model.page, "sliding_window_size": model.sliding,
        "spec_algorithm": _algorithm(model), "is_draft_worker": False, "post_capture_kv_active": False,
        "spec_aux_config": Facts(
            eagle_draft_num_layers=model.draft_layers or None, eagle_draft_swa_num_layers=None,
            dflash_draft_num_layers=None, draft_model_config=None,
        ),
        "is_hybrid_swa": bool(model.window_layers), "is_hybrid_swa_compress": bool(model.window_layers),
        "use_mla_backend": model.latent is not None, "kv_cache_dtype_str": model.dtype, "forward_stream": None,
        "layer_info": Facts(
            start_layer=0, end_layer=model.layers + model.state_layers, num_effective_layers=model.layers,
            full_attention_layer_ids=list(range(model.full_layers)), swa_attention_layer_ids=window,
            is_hybrid_swa_mtp_draft=False,
        ),
        "extra_mamba_cache_bytes_per_req": 0, "mambaish_config": _states(model), "hybrid_gdn_config": None,
        "hybrid_kda_config": None, "kv_shard_rank": None, "kv_shard_size": 1, "kv_shard_spec": None,
        "kv_shard_group": None, "is_hybrid_swa_mtp_draft": False, "draft_swa_full_capacity": False,
        "dflash_draft_cell_size_per_token": None, "req_to_token_pool": None, "token_to_kv_pool_allocator": None,
        "memory_pool_config": None, "draft_parallel_layout": None, "draft_model_idx": None, "pp_group": None,
    }  # fmt: skip
    for name, value in facts.items():
        setattr(made, name, value)
    return made


def sized(model: Model, budget_bytes: int) -> dict[str, int]:
    """Pool sizes that SGLang derives from `budget_bytes`; it raises where it would not start."""
    made = configurator(model)
    kvc = module("mem_cache.kv_cache_configurator")
    kvc.get_available_gpu_memory = always(budget_bytes / GIB)
    config = made.config_from_budget(made._profile_available_bytes(budget_bytes / GIB))
    schedule = kvc.get_schedule()
    config.max_running_requests = made.resolve_max_num_reqs(config.max_total_num_tokens)
    return {
        "max_total_num_tokens": config.max_total_num_tokens,
        "full": config.max_total_num_tokens if not model.window_layers else config.full_max_total_num_tokens,
        "window": config.swa_max_total_num_tokens or 0,
        "slots": schedule.max_mamba_cache_size or 0,
        "requests": config.max_running_requests,
    }


def weighed(model: Model, sizes: dict[str, int]) -> dict[str, int]:
    """Bytes of the pools that SGLang builds for these sizes, as `get_kv_size_bytes` reports them."""
    made = configurator(model)
    states = _state_pool(model, sizes) if model.states else None
    module("mem_cache.memory_pool").MHATokenToKVPool._init_kv_copy_and_warmup = always(None)
    with patch.object(torch, "get_device_module", always(None)):
        pool = _pool(made, model, sizes, states)
    found = pool.get_kv_size_bytes()
    k, v = found if isinstance(found, tuple) else (found, 0)
    # The size that SGLang reports for four-bit latents leaves their scales out.
    k += sum(t.nbytes for t in getattr(pool, "kv_scale_buffer", None) or ())
    k += sum(t.nbytes for t in getattr(getattr(pool, "full_kv_pool", None), "kv_scale_buffer", None) or ())
    answer = {"k": int(k), "v": int(v)}
    if states is not None:
        cache = states.mamba_cache
        answer["conv"] = sum(t.nbytes for t in cache.conv)
        answer["ssm"] = cache.temporal.nbytes
        if model.drafted:
            answer["drafted_ssm"] = cache.intermediate_ssm.nbytes
            answer["drafted_conv"] = sum(t.nbytes for t in states._intermediate_conv_window_phys)
    return answer


def _pool(made: Any, model: Model, sizes: dict[str, int], states: Any) -> Any:
    return made._build_token_to_kv_pool(
        sizes=Facts(
            max_total_num_tokens=sizes["full"], full_max_total_num_tokens=sizes["full"],
            swa_max_total_num_tokens=sizes["window"], max_running_requests=sizes["requests"],
        ),
        is_dsa_model=model.index,
        is_dsv4_model=False,
        req_to_token_pool=Facts(mamba_pool=states, req_to_token=torch.zeros(1, 1)),
    )  # fmt: skip


def _state_pool(model: Model, sizes: dict[str, int]) -> Any:
    return module("mem_cache.memory_pool").MambaPool(
        size=sizes["slots"],
        spec_state_size=sizes["requests"],
        cache_params=model.states,
        mamba_layer_ids=list(model.states.layers),
        device="meta",
        speculative_num_draft_tokens=model.drafted,
        speculative_eagle_topk=model.topk,
    )


def _config(model: Model) -> Any:
    heads, width, v_width = model.heads or (1, 0, 0)
    swa_heads, swa_width, swa_v_width = model.window or (1, 0, 0)
    lora, rope = model.latent or (0, 0)
    kinds = Facts(MLA="mla", MHA="mha")
    made = Facts(
        hf_config=Facts(dsa=model.index), hf_text_config=Facts(swa_num_key_value_heads=swa_heads),
        head_dim=width, v_head_dim=v_width, swa_head_dim=swa_width, swa_v_head_dim=swa_v_width, kv_lora_rank=lora,
        qk_rope_head_dim=rope, context_len=model.chunk, states=_states(model), quantization=None,
        attention_arch=kinds.MLA if model.latent else kinds.MHA, is_multimodal=False, num_hidden_layers=model.layers,
        is_draft_model=False, get_total_num_kv_heads=lambda: heads,
    )  # fmt: skip
    for name, own in OWN_RULES.items():
        setattr(made, name, MethodType(own, made))
    return made


def _states(model: Model) -> Any:
    if model.states is None:
        return None
    return Facts(mamba2_cache_params=model.states, full_attention_layer_ids=list(range(model.full_layers)))


def _algorithm(model: Model) -> Any:
    on = bool(model.draft_layers or model.drafted)
    return Facts(
        is_eagle=lambda: on, is_standalone=lambda: False, is_dflash_family=lambda: False, is_none=lambda: not on
    )


def _settings(model: Model) -> dict[str, Any]:
    schedule = Facts(
        page_size=model.page, max_total_tokens=model.tokens, swa_full_tokens_ratio=model.ratio,
        mamba_full_memory_ratio=model.state_ratio, max_mamba_cache_size=model.slots, max_running_requests=model.running,
        mem_fraction_static=1.0, disable_overlap_schedule=not model.overlap, chunked_prefill_size=model.chunk,
        prefill_max_requests=None, prefill_only_disable_kv_cache=False,
    )  # fmt: skip

    def override(name: str, **changes: Any) -> None:
        schedule.__dict__.update(changes)

    drafting = model.draft_layers or model.drafted
    return {
        "schedule": schedule,
        "memory": Facts(
            disable_radix_cache=not model.radix, enable_unified_memory=False, enable_hisparse=False,
            enable_hierarchical_cache=False, enable_page_major_kv_layout=False, enable_unified_cache_external_linker=False,
        ),
        "parallel": Facts(attn_tp_size=model.tp, attn_dcp_size=model.dcp, pp_size=1, launch_world_size=1,
                          world_group=Facts(cpu_group=None)),
        "spec": Facts(
            speculative_algorithm="EAGLE" if drafting else None, speculative_num_draft_tokens=model.drafted,
            speculative_num_steps=model.steps, speculative_eagle_topk=model.topk,
        ),
        "exec": Facts(
            features=Facts(enable_memory_saver=False),
            kernel=Facts(attention_backend=None, dsa_prefill_backend=model.backend, dsa_decode_backend=model.backend),
            graph=Facts(cuda_graph_config=Facts(prefill=Facts(full_prefill_max_req=None, backend=None))),
            mamba=Facts(
                enable_linear_replayssm_spec=False, linear_replayssm_cache_len=16,
                enable_mamba_extra_buffer=model.strategy != "no_buffer",
                enable_mamba_extra_buffer_lazy=model.strategy == "extra_buffer_lazy",
            ),
        ),
        "disagg": Facts(disaggregation_mode="null", enable_pd_role_switch=False, enable_pdmux=False),
        "context": Facts(override=override),
        "model": Facts(qsa_indexer_dtype="auto"),
        "mm": Facts(mm_feature_transport=None),
        "platform": Facts(is_sm100=model.native),
    }  # fmt: skip


def _setting(default: Any) -> Any:
    return Facts(get=lambda: default)


ENVS = Facts(
    SGLANG_SWA_EVICTION_INTERVAL=_setting(128), SGLANG_OPT_MAMBA_SKIP_DECODE_LOCK=_setting(False),
    SGLANG_MAMBA_CONV_DTYPE=_setting("bfloat16"), SGLANG_MAMBA_SSM_DTYPE=_setting(None),
    SGLANG_NPU_ENABLE_SPARSE_KV_OFFLOAD=_setting(False), SGLANG_USE_HND_KVCACHE=_setting(False),
    SGLANG_NATIVE_MOVE_KV_CACHE=_setting(False), SGLANG_DEBUG_MEMORY_POOL=_setting(False),
    SGLANG_USE_AITER=_setting(False),
)  # fmt: skip


def _point(target: Any, contexts: dict[str, Any]) -> None:
    """Give one module of SGLang's the settings and the small facts that the rest of the server would hand it."""
    for name, value in contexts.items():
        setattr(target, f"get_{name}", lambda value=value: value)
    for name, value in {
        "envs": ENVS,
        "max_speculative_num_draft_tokens": lambda: contexts["spec"].speculative_num_draft_tokens,
        "is_deepseek_dsa": lambda config: config.dsa,
        "is_deepseek_v4": always(False),
        "is_minimax_sparse": always(False),
        "get_dsa_index_head_dim": always(128),
        "get_dsa_index_kpool": always(1),
        "get_dsa_index_kpool_compress": always(False),
        "dsa_layer_skips_topk": always(False),
        "mambaish_config": lambda config: config.states,
        "AttentionArch": Facts(MLA="mla", MHA="mha"),
        "is_float4_e2m1fn_x2": lambda dtype: dtype == torch.float4_e2m1fn_x2,
        "compute_page_shard_scratch_bytes": always(0),
        "maybe_init_custom_mem_pool": always((False, None, None)),
        "mm_runtime_reservation_gb": always(0.0),
        "get_available_gpu_memory": None,
        "TorchMemorySaverAdapter": Facts(create=always(Facts(region=always(_Region())))),
    }.items():
        if hasattr(target, name):
            setattr(target, name, value)


class _Region:
    def __enter__(self) -> None:
        return None

    def __exit__(self, *args: object) -> None:
        return None
