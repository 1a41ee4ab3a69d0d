"""vLLM's options with its defaults, as one server sees them.

Worked: 8,192 batched tokens and asynchronous scheduling without pipeline stages: 2 x 8,192 = 16,384 in flight.

Source: vLLM 0.33.0 vllm/config/vllm.py, vllm/config/cache.py, vllm/engine/arg_utils.py, and the attention backends'
`get_supported_kernel_block_sizes`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from kvplan.engine import EngineOption, Options
from kvplan.engine.vllm.versions import Profile
from kvplan.errors import InputError, NotCountableError
from kvplan.record import Record
from kvplan.workload import Workload

BATCHED = 8192
"""Tokens of a step by default: an API server's on cards of 70 to 160 GiB, A100 apart."""
BATCHED_ON_CARD = "batched tokens on this card"
"""The key of the default that a named card brings; not an option of its own."""
DTYPES = {"auto": None, "float32": "fp32", "float16": "fp16", "bfloat16": "bf16"}


class Backend(Record):
    """An attention backend's kernel blocks: the sizes it takes, whether also their multiples, the one it prefers.

    quantised: it reads caches in fp8. packs: it keeps latents in fp8 as fp8_ds_mla.
    """

    sizes: tuple[int, ...]
    multiples: bool
    preferred: int
    quantised: bool = True
    packs: bool = False


BACKENDS = {
    "FLASH_ATTN": Backend((16,), True, 16),
    "TRITON_ATTN": Backend((16,), True, 16),
    "FLEX_ATTENTION": Backend((16,), True, 16),
    "FLASHINFER": Backend((16, 32, 64), False, 16),
    "TURBOQUANT": Backend((16, 32, 64, 128), False, 16),
    "FLASHMLA": Backend((64,), False, 64),
    "FLASH_ATTN_MLA": Backend((16,), True, 16, quantised=False),
    "TRITON_MLA": Backend((16,), True, 16),
    "FLASHINFER_MLA": Backend((32, 64), False, 32),
    "CUTLASS_MLA": Backend((128,), False, 128),
    "FLASHMLA_SPARSE": Backend((64,), True, 64, packs=True),
    "FLASH_ATTN_MLA_SPARSE": Backend((64,), True, 64, quantised=False),
    "FLASHINFER_MLA_SPARSE": Backend((32,), True, 64),
    "MINIMAX_M3_SPARSE": Backend((128,), False, 128),
    "CPU_ATTN": Backend((32,), True, 32),
}

OPTIONS: Mapping[str, EngineOption] = {
    "block_size": EngineOption("int", "what the attention backend prefers", "tokens of a block"),
    "attention_backend": EngineOption(
        tuple(BACKENDS),
        "FLASH_ATTN; FLASHMLA for latents, FLASHMLA_SPARSE with an index, TURBOQUANT and FLASHINFER for their formats",
        "kernels that read the cache; they decide which block sizes there are",
    ),
    "max_num_batched_tokens": EngineOption("int", "8192", "tokens of one scheduler step"),
    "max_num_seqs": EngineOption("int", "1024", "sequences of one scheduler step; they take no cache of their own"),
    "async_scheduling": EngineOption("bool", "true", "schedule a step while another runs: one more batch in flight"),
    "num_speculative_tokens": EngineOption("count", "--mtp", "tokens drafted per step"),
    "enable_prefix_caching": EngineOption(
        "bool", "true, false beside an encoder or without attention", "keep blocks of finished prompts for reuse"
    ),
    "disable_hybrid_kv_cache_manager": EngineOption(
        "bool", "false, true for chunks beside drafts", "allocate windows and chunks in full"
    ),
    "mamba_cache_mode": EngineOption(
        ("align", "none"), "align with prefix caching, else none", "states kept per request"
    ),
    "mamba_cache_dtype": EngineOption(tuple(DTYPES), "auto: the model's", "dtype of convolutions and states"),
    "mamba_ssm_cache_dtype": EngineOption(
        tuple(DTYPES), "auto: the spec's state_dtype, fp32 for KDA, else mamba_cache_dtype", "dtype of states"
    ),
    "gdn_prefill_backend": EngineOption(
        ("triton", "flashinfer"), "triton", "kernel of gated DeltaNet; flashinfer (Hopper's default) adds a checkpoint"
    ),
    "kv_cache_dtype_skip_layers": EngineOption(
        "text",
        "none; the outer two at each end for turboquant",
        "layers left in the model's dtype: 0,1 or sliding_window",
    ),
    "max_num_encoder_input_tokens": EngineOption(
        "int", "--encoder-tokens, else max_num_batched_tokens", "encoder tokens of a request"
    ),
    "num_gpu_blocks_override": EngineOption("int", "none", "blocks, whatever the memory"),
    "kv_cache_memory_bytes": EngineOption("bytes", "none", "memory for the cache on one rank, taken as it is"),
    "enforce_eager": EngineOption("bool", "false", "no CUDA graphs, whose memory the cache then gets"),
    "gpu_memory_utilization": EngineOption("share", "0.92; 0.9 before 0.21", "share of the card that vLLM may use"),
}


class Settings(Record):
    """One server's options, resolved as far as the model's layers do not matter.

    dcp: ranks that share the tokens of full attention. drafts: tokens drafted per step. pairs: the options as given.
    """

    tp: int
    dcp: int
    drafts: int
    mtp: int
    pairs: tuple[tuple[str, object], ...]
    profile: Profile

    @property
    def options(self) -> Options:
        """The options as given."""
        return cast("Options", dict(self.pairs))

    def batched_tokens(self, context: int, crosses: bool) -> int:
        """Tokens of one step; models with an encoder have no chunked prefill, so a whole request fits by default."""
        usual = int(self.options.get(BATCHED_ON_CARD, BATCHED))
        return int(self.options.get("max_num_batched_tokens", max(usual, context if crosses else 0)))

    def in_flight(self, batched: int, pp: int) -> int:
        """Tokens scheduled and not yet settled: one full batch for each one in flight."""
        if not self.profile.in_flight:
            return batched
        return batched * (pp + 1 if self.options.get("async_scheduling", True) else pp)

    @property
    def extra_tokens(self) -> int:
        """Tokens kept below a window: several draft modules in a row fill the last ones again."""
        if not self.profile.drafts_extend_windows:
            return 0
        return max(0, self.drafts - 1) if min(self.mtp, self.drafts) > 1 else 0

    def caching(self, default: bool) -> bool:
        """Whether prefixes are kept; a state mode of `none` says no unless the option itself says yes."""
        usual = default and self.options.get("mamba_cache_mode") != "none"
        return bool(self.options.get("enable_prefix_caching", usual))

    def state_mode(self, default: bool) -> str:
        """`align` keeps two states per request for the prefix cache, `none` one.

        Raises: InputError where the mode contradicts prefix caching.
        """
        caching = self.caching(default)
        if caching and not self.profile.caches_hybrids and "mamba_cache_mode" not in self.options:
            raise NotCountableError(
                f"-E enable_prefix_caching: state: vLLM {self.profile.name} keeps a state per block for some models only",
                "-E mamba_cache_mode=align",
            )
        mode = str(self.options.get("mamba_cache_mode", "align" if caching else "none"))
        if mode == "align" and not caching:
            raise InputError(
                "-E mamba_cache_mode: found align, but prefix caching is off", "-E enable_prefix_caching=true"
            )
        if mode == "none" and caching:
            raise InputError(
                "-E mamba_cache_mode: found none, but vLLM takes align while prefix caching is on",
                "-E enable_prefix_caching=false",
            )
        return mode


def settings(workload: Workload, options: Options, profile: Profile) -> Settings:
    """The options that hold for `workload`."""
    drafts = int(options.get("num_speculative_tokens", workload.mtp))
    if workload.mtp and not drafts:
        raise InputError("-E num_speculative_tokens: found 0 beside --mtp", "leave out --mtp")
    return Settings(workload.tp, workload.dcp, drafts, workload.mtp, tuple(sorted(options.items())), profile)
