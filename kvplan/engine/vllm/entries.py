"""Compressed attention (DeepSeek-V4) as vLLM's caches: entries, their window, the index, and the compressors' states.

| cache of a layer of ratio r | tokens of a block | bytes of a state | window |
| --- | --- | --- | --- |
| entries | 256, of which every r-th is stored | 584 | none |
| window of entries | 64 | 584 | the layer's |
| index (r = 4) | 256 | 132, or 68 in mxfp4 | none |
| compressor, in fp32 | 4 for r = 4, else 8 | 2 x coff x width x 4 | coff x r |

coff is 2 for r = 4, whose windows overlap, else 1. Pages are rounded up to 576 bytes.

Worked: 256 tokens at ratio 4 are 64 entries: 37,376 bytes, a page of 37,440; at ratio 128, 1,168 and 1,728.

Source: vLLM 0.33.0 vllm/models/deepseek_v4/attention.py, compressor.py and v1/attention/backends/mla/sparse_swa.py, executed.
"""

from __future__ import annotations

from kvplan.engine.vllm.caches import LATENT_WINDOW, MLA, Cache, Caches
from kvplan.engine.vllm.formats import index_bytes
from kvplan.errors import InputError, NotCountableError
from kvplan.formats import Format
from kvplan.growth import PerTokens, Window
from kvplan.record import Record
from kvplan.tensor import CacheTensor, Role

ENTRY_BYTES = 584
ENTRY_ROW = (512, 64)
"""The one entry that vLLM has a layout for: 448 in fp8 and 64 rotary in 16 bit, with their scales."""
ALIGNMENT = 576
BLOCK, WINDOW_BLOCK = 256, 64
STATE_BLOCKS = {4: 4, 128: 8}
STATE_BYTES = 4
FORMATS = ("fp8", "fp8_ds_mla")


class Entries(Record):
    """One layer of compressed attention: tokens of its window, its ratio where it compresses, and its index."""

    window: int
    ratio: int | None
    index: CacheTensor | None
    skipped: bool = False


def entries(tensors: tuple[CacheTensor, ...], place: str) -> Entries:
    """The compressed attention whose tensors these are.

    Raises: NotCountableError for entries or ratios that vLLM's DeepSeek-V4 layers do not have.
    """
    by_role = {role: [t for t in tensors if t.role is role] for role in (Role.ENTRY, Role.INDEX)}
    windows = [t.growth.tokens for t in by_role[Role.ENTRY] if isinstance(t.growth, Window)]
    ratios = [t.growth.ratio for t in by_role[Role.ENTRY] if isinstance(t.growth, PerTokens)]
    index = by_role[Role.INDEX]
    known = all((t.elements, t.rope) == ENTRY_ROW for t in by_role[Role.ENTRY]) and len(windows) == 1
    known = known and all(ratio in STATE_BLOCKS for ratio in ratios) and len(ratios) <= 1
    known = known and len(by_role[Role.ENTRY]) + len(index) == len(tensors)
    known = known and all(t.growth == PerTokens(4) and ratios == [4] for t in index) and bool(index) == (ratios == [4])
    if not known:
        raise NotCountableError(
            f"{place}: {tensors[0].name}: only DeepSeek-V4's layers of compressed entries are counted for vLLM",
            "--engine ideal counts what the architecture needs",
        )
    return Entries(windows[0], ratios[0] if ratios else None, index[0] if index else None)


def entry_caches(one: Entries, asked_format: str | None, index: Format, model_dtype: str) -> Caches:
    """The caches of one layer, in vLLM's order.

    Raises: InputError for a format of entries that its kernels do not take.
    """
    if asked_format not in (None, *FORMATS):
        raise InputError(
            f"--kv-dtype: found {asked_format}, vLLM stores compressed entries in fp8_ds_mla", "--kv-dtype fp8"
        )
    window = Cache(LATENT_WINDOW, WINDOW_BLOCK, ENTRY_BYTES, limit=one.window, mark=("entry",), alignment=ALIGNMENT)
    if one.ratio is None:
        return (window,)
    kept = Cache(MLA, BLOCK, ENTRY_BYTES, one.ratio, mark=("entry",), alignment=ALIGNMENT)
    main = (window, kept, _compressor(one.ratio, ENTRY_ROW[0]))
    if one.index is None:
        return main
    key = index_bytes(one.index, False, index, model_dtype)
    keys = Cache(MLA, BLOCK, key, one.ratio, mark=("index",), alignment=ALIGNMENT)
    return (keys, _compressor(one.ratio, one.index.elements), *main)


def _compressor(ratio: int, width: int) -> Cache:
    """The fp32 values and gates of tokens that wait for their entry, and of those before them where windows overlap."""
    overlap = 2 if ratio == 4 else 1
    cell = 2 * overlap * width * STATE_BYTES
    return Cache(
        LATENT_WINDOW,
        STATE_BLOCKS[ratio],
        cell,
        limit=overlap * ratio,
        mark=("compressor", width),
        alignment=ALIGNMENT,
    )
