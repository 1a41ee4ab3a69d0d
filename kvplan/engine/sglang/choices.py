"""SGLang's options and their defaults, and what they mean for one workload.

- page_size is 1, 64 where layers keep index keys.
- Speculation (`--mtp`, or tokens drafted per step) drafts 4 tokens in 3 steps and runs at most 48 requests.
- State slots per request follow the radix cache's strategy: `extra_buffer` where states have convolutions over
  heads, `no_buffer` elsewhere, unless it is said.

Worked: compute_swa_request_cap for 16 requests of gpt-oss (window 127, page 1): 16 x (127 + 128 + 1 + 1) + 2 x 8,192 + 1
= 20,497 tokens.

Source: SGLang 0.5.23 srt/arg_groups (fields, hooks, overrides) and srt/model_executor/pool_configurator.py.
"""

from __future__ import annotations

from fractions import Fraction

from kvplan.engine import EngineOption, Options
from kvplan.engine.sglang.families import default_ratio, window_pool
from kvplan.engine.sglang.layers import Held, Ranks
from kvplan.engine.sglang.pools import Layout
from kvplan.engine.sglang.row_formats import DTYPES, ITEM
from kvplan.engine.sglang.sizing import Limits
from kvplan.engine.sglang.states import slots_per_request
from kvplan.errors import InputError
from kvplan.formats import format_named
from kvplan.spec import ModelSpec
from kvplan.units import ceil_div
from kvplan.workload import Workload

STRATEGIES = ("auto", "no_buffer", "extra_buffer", "extra_buffer_lazy")
SPARSE_BACKENDS = (
    "flashmla_sparse", "flashmla_sparse_q8", "flashmla_kv", "flashmla_auto", "flashinfer_sparse_mla",
    "triton_sparse_mla", "fa3", "tilelang", "triton", "aiter", "trtllm", "intel_xpu",
)  # fmt: skip
STATE_DTYPES = {"float32": "fp32", "bfloat16": "bf16", "float16": "fp16"}
SPEC_REQUESTS, SPEC_STEPS, SPEC_TOKENS, EVICTION_INTERVAL = 48, 3, 4, 128

OPTIONS: dict[str, EngineOption] = {
    "page_size": EngineOption("int", "1; 64 with index keys", "tokens of a page"),
    "kv_cache_dtype": EngineOption(DTYPES, "auto", "storage of keys, values and latents"),
    "mem_fraction_static": EngineOption("share", "by card", "share of a card for weights and pools"),
    "max_total_tokens": EngineOption("int", "as many as fit", "tokens of the pool"),
    "max_running_requests": EngineOption("int", "as many as fit; 48 with drafts", "requests that run at once"),
    "chunked_prefill_size": EngineOption("int", "8192", "tokens of a prefill chunk"),
    "swa_full_tokens_ratio": EngineOption("share", "0.8", "tokens of the window pool per token of the full pool"),
    "disable_hybrid_swa_memory": EngineOption("bool", "by model family", "windowed layers hold every token"),
    "disable_radix_cache": EngineOption("bool", "false", "no prefix cache"),
    "disable_overlap_schedule": EngineOption("bool", "false", "no overlap of scheduling with the model"),
    "mamba_full_memory_ratio": EngineOption("ratio", "0.9", "bytes of the state pool per byte of the token pool"),
    "max_mamba_cache_size": EngineOption("int", "as many as fit", "slots of the state pool"),
    "mamba_ssm_dtype": EngineOption(tuple(STATE_DTYPES), "the model's, else float32", "storage of states"),
    "mamba_radix_cache_strategy": EngineOption(STRATEGIES, "auto", "state slots that the prefix cache keeps"),
    "speculative_num_draft_tokens": EngineOption("int", "4 with --mtp", "tokens drafted per step"),
    "speculative_num_steps": EngineOption("int", "3", "draft steps"),
    "speculative_eagle_topk": EngineOption("int", "1", "drafts side by side"),
    "dsa_prefill_backend": EngineOption(SPARSE_BACKENDS, "by card", "sparse-attention kernel of prefills"),
    "dsa_decode_backend": EngineOption(SPARSE_BACKENDS, "by card", "sparse-attention kernel of decoding"),
    "prefill_kv_cache_dequant_dtype": EngineOption(
        ("auto", "fp8_e4m3", "nvfp4"), "nvfp4", "what prefills read of an nvfp4 cache"
    ),
    "enable_dp_attention": EngineOption("bool", "false", "groups of ranks hold different requests"),
    "dp_size": EngineOption("int", "1", "such groups"),
}


def attention_groups(workload: Workload, options: Options) -> int:
    """Groups of tensor-parallel ranks that hold different requests.

    Raises: InputError where they do not divide the ranks.
    """
    groups = int(options.get("dp_size", 1)) if options.get("enable_dp_attention") else 1
    if "dp_size" in options and not options.get("enable_dp_attention"):
        raise InputError(
            "-E dp_size: counts with enable_dp_attention; whole replicas are --dp", "-E enable_dp_attention=true"
        )
    if workload.tp % (groups * workload.dcp):
        allowed = f"divisors of --tp {workload.tp}" + (f" / --dcp {workload.dcp}" if workload.dcp > 1 else "")
        raise InputError(f"-E dp_size: found {groups}, allowed {allowed}", "-E dp_size=1")
    return groups


def ranks(spec: ModelSpec, workload: Workload, options: Options) -> Ranks:
    """How ranks divide the model."""
    over = workload.tp // attention_groups(workload, options)
    pooled = window_pool(spec.name)
    off = bool(options.get("disable_hybrid_swa_memory", pooled is False))
    if pooled is False and not off:
        raise InputError(
            f"-E disable_hybrid_swa_memory=false: SGLang stores every token of {spec.name} in every layer",
            "leave the option out",
        )
    dtype = options.get("mamba_ssm_dtype")
    return Ranks(
        over, workload.pp, workload.dcp, not off, raw_latents(options), STATE_DTYPES[str(dtype)] if dtype else None
    )


def layout(spec: ModelSpec, workload: Workload, options: Options, held: Held) -> Layout:
    """What pool bytes depend on besides their sizes.

    Raises: InputError for a page size or storage format that SGLang refuses.
    """
    page = int(options.get("page_size", 64 if held.indexed else 1))
    if held.indexed and page != 64:
        raise InputError(f"-E page_size: found {page}, and index keys need pages of 64", "-E page_size=64")
    dtype = _dtype(spec, workload, options)
    if dtype in ("nvfp4", "fp4_mx_block16") and held.window is not None:
        raise InputError(
            f"-E kv_cache_dtype={dtype}: SGLang has no window pool in four bits", "-E kv_cache_dtype=fp8_e4m3"
        )
    if held.latent and (dtype == "mxfp8" or (held.indexed and dtype not in ("auto", "bf16", "bfloat16", "fp8_e4m3"))):
        raise InputError(
            f"-E kv_cache_dtype: found {dtype}, and SGLang has no such latents", "-E kv_cache_dtype=fp8_e4m3"
        )
    drafted = int(options.get("speculative_num_draft_tokens", SPEC_TOKENS if workload.mtp else 0))
    dequantised = options.get("prefill_kv_cache_dequant_dtype") == "fp8_e4m3"
    return Layout(dtype, page, workload.dcp, dequantised, drafted, int(options.get("speculative_eagle_topk", 1)) > 1)


def raw_latents(options: Options) -> bool:
    """True where the chosen kernels read latents as plain rows, so that fp8 is not packed."""
    chosen = [options.get("dsa_prefill_backend"), options.get("dsa_decode_backend")]
    return "trtllm" in chosen or chosen == ["tilelang", "tilelang"]


def _dtype(spec: ModelSpec, workload: Workload, options: Options) -> str:
    """The `kv_cache_dtype` that the options or the workload's formats ask for."""
    asked = str(options.get("kv_cache_dtype", "auto"))
    stated = spec.fields.kv_dtype
    if workload.k_dtype is None and workload.v_dtype is None and (stated is None or asked != "auto"):
        return asked
    k, v = (format_named(name or stated or spec.fields.dtype).name for name in (workload.k_dtype, workload.v_dtype))
    plain = {"fp8": "fp8_e4m3", "fp8_e5m2": "fp8_e5m2", "nvfp4": "nvfp4", "bf16": "bf16"}
    if k == spec.fields.dtype != "fp32":
        plain[k] = plain.get(k, "auto")
    if k != v or k not in plain:
        wrong = v if k in plain else k
        raise InputError(
            f"--kv-dtype: found {wrong}, allowed the model's {spec.fields.dtype}, bf16, fp8, fp8_e5m2 and nvfp4, for K and V alike",
            "--kv-dtype fp8, or -E kv_cache_dtype= for SGLang's other formats",
        )
    if asked not in ("auto", plain[k]) and ITEM.get(asked) != 2:
        raise InputError(f"-E kv_cache_dtype={asked}: --kv-dtype says {k}", "give one of them")
    return plain[k]


def limits(spec: ModelSpec, workload: Workload, options: Options, held: Held, shape: Layout) -> Limits:
    """What the options fix of the sizes, per group of attention ranks."""
    groups = attention_groups(workload, options)
    state_ratio = float(Fraction(options.get("mamba_full_memory_ratio", default_ratio(spec.name, "0.9"))))
    if not state_ratio:
        raise InputError(
            "-E mamba_full_memory_ratio: found 0, and states need a share", "-E mamba_full_memory_ratio=0.9"
        )
    radix = not options.get("disable_radix_cache", False)
    overlap = not options.get("disable_overlap_schedule", False)
    running = options.get("max_running_requests", SPEC_REQUESTS if shape.drafted else None)
    requests = None if running is None else max(1, int(running) // groups)
    slots = options.get("max_mamba_cache_size")
    if slots is not None:
        slots = int(slots) // groups
    elif not radix and requests is not None:
        slots = requests
    window_cap = None
    if held.window is not None and held.full is not None and not radix and requests is not None:
        window_cap = _window_cap(held, shape, options, requests, overlap)
    return Limits(
        float(Fraction(options.get("swa_full_tokens_ratio", default_ratio(spec.name, "0.8")))),
        window_cap,
        state_ratio,
        slots,
        slots_per_request(radix, _strategy(options, held, overlap), overlap),
        requests,
        int(options["max_total_tokens"]) if "max_total_tokens" in options else None,
    )


def _strategy(options: Options, held: Held, overlap: bool) -> str:
    asked = str(options.get("mamba_radix_cache_strategy", "auto"))
    if asked != "auto":
        return asked
    buffered = any(state.numbers and state.per_head for stage in held.stages for _, state in stage.states)
    return "extra_buffer" if overlap and buffered else "no_buffer"


def _window_cap(held: Held, shape: Layout, options: Options, requests: int, overlap: bool) -> int:
    """Tokens of a window pool that holds what `requests` requests keep alive at worst."""
    page, drafted = shape.page_size, shape.drafted or 1
    steps = int(options.get("speculative_num_steps", SPEC_STEPS if shape.drafted else 1))
    topk = int(options.get("speculative_eagle_topk", 1))
    if not shape.drafted:
        decode = page
    elif overlap:
        decode = 2 * _overlapped(page, steps, topk, drafted)
    else:
        decode = _stepwise(page, steps, topk, drafted)
    each = (held.window_tokens or 0) + EVICTION_INTERVAL * drafted + page + decode
    chunks = (2 if overlap else 1) * int(options.get("chunked_prefill_size", 8192))
    return ceil_div(each * requests + chunks + page, page) * page


def _overlapped(page: int, steps: int, topk: int, drafted: int) -> int:
    if page == 1 or topk == 1:
        return max(steps * topk, drafted)
    return max(ceil_div(page - 1 + steps, page) * page * topk, drafted)


def _stepwise(page: int, steps: int, topk: int, drafted: int) -> int:
    if page > 1 and topk > 1:
        steps += page
    return max(ceil_div(steps, page) * page * topk, ceil_div(drafted, page) * page)
