"""From the options of a server to cells: how long a stream is, how many streams there are, what a window holds.

    n_ctx      padded to 256
    unified:   one stream of n_ctx cells for all sequences
    split:     n_parallel streams of n_ctx / n_parallel cells, padded to 256 again
    a window:  min(cells, W x (n_parallel where unified) + n_ubatch), padded to 256

Worked: n_ctx 1,000 over 3 sequences is 512 cells each and n_ctx 1,536; a window of 1,024 in 8,192 cells
holds 1,536, and 4,608 in a unified cache of four sequences.

Source: llama.cpp build 11549, src/llama-context.cpp and src/llama-kv-cache-iswa.cpp, executed.
"""

from __future__ import annotations

from kvplan.engine import Options
from kvplan.errors import InputError
from kvplan.record import Record
from kvplan.units import ceil_div
from kvplan.workload import Workload

CELL_STEP = 256
MOST_SEQUENCES = 256
MOST_CONTEXT = 2**31 - 1
N_BATCH, N_UBATCH = 2048, 512
KV_TYPES = ("f32", "f16", "bf16", "q8_0", "q4_0", "q4_1", "iq4_nl", "q5_0", "q5_1")
"""Cache types that the engine's command line takes."""

NAMES = {"fp32": "f32", "fp16": "f16"}
"""What kvplan calls a format, and what the engine calls it."""


def padded(count: int, step: int = CELL_STEP) -> int:
    """`count` rounded up to a multiple of `step`.

    >>> padded(1000), padded(1024)
    (1024, 1024)
    """
    return ceil_div(count, step) * step


class Context(Record):
    """A context of the engine: its cells and what decides the bytes of one.

    n_ctx_seq: cells of one stream. n_ubatch: tokens of one physical batch. n_rs_seq: snapshots of each
    recurrent state.
    """

    n_ctx: int
    n_ctx_seq: int
    n_parallel: int
    kv_unified: bool
    n_ubatch: int
    swa_full: bool
    flash_attn: str
    type_k: str
    type_v: str
    n_rs_seq: int = 0

    @property
    def states(self) -> int:
        """Rows of every recurrent layer: one per sequence and one more for each snapshot of it."""
        return self.n_parallel * (1 + self.n_rs_seq)

    @property
    def streams(self) -> int:
        """Streams of a cache of keys and values."""
        return 1 if self.kv_unified else self.n_parallel

    def window_cells(self, window: int, unified: bool | None = None) -> int:
        """Cells of one stream under a window of that many tokens.

        >>> two = Context(16384, 8192, 2, False, 512, False, "auto", "f16", "f16")
        >>> two.window_cells(1024), two.replace(swa_full=True).window_cells(1024)
        (1536, 8192)
        """
        if self.swa_full:
            return self.n_ctx_seq
        shared = self.kv_unified if unified is None else unified
        return padded(min(self.n_ctx_seq, window * (self.n_parallel if shared else 1) + self.n_ubatch))


def context_of(workload: Workload, options: Options) -> Context:
    """The context that the engine makes for `workload`.

    Raises: InputError for a number of sequences or a cache type that the engine refuses.
    """
    n_parallel = int(options.get("n_parallel", workload.batch))
    if n_parallel > MOST_SEQUENCES:
        option = "-E n_parallel" if "n_parallel" in options else "--batch"
        raise InputError(
            f"{option}: found {n_parallel:,}, but llama.cpp serves at most {MOST_SEQUENCES} sequences at once",
            "several servers, or --engine vllm",
        )
    asked = int(options.get("n_ctx", workload.context * workload.batch))
    if asked > MOST_CONTEXT:
        option = "-E n_ctx" if "n_ctx" in options else "--ctx x --batch"
        raise InputError(
            f"{option}: found {asked:,}, but llama.cpp counts a context in 32 bits, {MOST_CONTEXT:,} at most",
            "fewer tokens, fewer sequences, or several servers",
        )
    n_batch = min(asked, int(options.get("n_batch", N_BATCH)))
    n_ubatch = min(n_batch, int(options.get("n_ubatch", N_UBATCH)) or n_batch)
    unified = bool(options.get("kv_unified", False))
    n_ctx = n_ctx_seq = padded(asked)
    if not unified:
        n_ctx_seq = padded(n_ctx // n_parallel)
        n_ctx = n_ctx_seq * n_parallel
    type_k = cache_type("k", workload.k_dtype, options.get("cache_type_k"), "-E cache_type_k")
    type_v = cache_type("v", workload.v_dtype, options.get("cache_type_v"), "-E cache_type_v")
    flash = str(options.get("flash_attn", "auto"))
    if flash == "off" and type_v.startswith(("q", "iq")):
        raise InputError(
            f"-E flash_attn: found off with V in {type_v}, but llama.cpp needs flash attention for a quantized V",
            "-E flash_attn=on, or -E cache_type_v=f16",
        )
    swa_full = bool(options.get("swa_full", False))
    snapshots = int(options.get("n_rs_seq", 0))
    return Context(n_ctx, n_ctx_seq, n_parallel, unified, n_ubatch, swa_full, flash, type_k, type_v, snapshots)


def cache_type(tensor: str, dtype: str | None, named: object, option: str) -> str:
    """The cache type of K or V: what `option` names, else kvplan's format, else f16 whatever the model is in.

    Raises: InputError for a format that the cache does not have, or one that contradicts the option.
    """
    if dtype is None:
        return str(named or "f16")
    found = NAMES.get(_plain(dtype), _plain(dtype))
    if found not in KV_TYPES:
        raise InputError(
            f"--{tensor}-dtype: found {dtype}, but llama.cpp's cache takes {', '.join(KV_TYPES)}",
            "--kv-dtype q8_0 is the nearest to 8 bits, q4_0 to 4",
        )
    if named is not None and named != found:
        raise InputError(f"--{tensor}-dtype: found {dtype}, but {option} says {named}", "give one of them")
    return found


def _plain(dtype: str) -> str:
    """The format's own name behind an alias such as f16 or bfloat16."""
    from kvplan.formats import format_named

    return format_named(dtype).name
