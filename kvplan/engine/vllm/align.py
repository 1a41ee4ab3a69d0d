"""Tokens of a block: what the attention backend prefers, raised until an attention page covers a state page.

    a = max(smallest kernel block, block size), 128 at least for latents, on the grid of prefill checkpoints
    B = a x ceil(state page / (a x attention bytes per token)), a multiple of the backend's smallest kernel block

State pages are then padded to B x attention bytes per token. Where some layers stay in the model's dtype beside a
quantised cache, B is also raised until a quantised page covers one of theirs.

Worked: Qwen3-Next, 2,048 bytes per token and a state of 1,097,728: 16 x 34 = 544 tokens, pages of 1,114,112.

Source: vLLM 0.33.0 vllm/platforms/interface.py `_align_hybrid_block_size`, `_align_heterogeneous_kv_block_size`, executed.
"""

from __future__ import annotations

from math import lcm

from kvplan.engine.vllm.entries import BLOCK, Entries
from kvplan.engine.vllm.formats import PACKED_LATENTS, Formats, heads_bytes, latent_bytes
from kvplan.engine.vllm.layers import Asked, Attention, Heads, Latent
from kvplan.engine.vllm.settings import BACKENDS, Backend, Settings
from kvplan.engine.vllm.states import State
from kvplan.engine.vllm.versions import Profile
from kvplan.errors import InputError, NotCountableError
from kvplan.growth import PerEncoderToken
from kvplan.record import Record
from kvplan.tensor import ITEM_BYTES, Role
from kvplan.units import ceil_div

BESIDE_HEADS = "MINIMAX_M3_SPARSE"
"""The one backend of an index beside keys and values."""


class Blocks(Record):
    """The block size of one server, and the pages that states and unquantised windows are padded to.

    heads: the backend of keys and values. packs: latents in fp8 are kept as fp8_ds_mla.
    """

    tokens: int
    heads: Backend
    state_bytes: int | None = None
    skipped_bytes: int | None = None
    packs: bool = False


def blocks_of(
    asked: tuple[Asked, ...], chosen: Settings, stored: Formats, aligned_states: bool, skipping: bool
) -> Blocks:
    """The block size that vLLM settles on for a model whose layers ask for `asked`.

    aligned_states: states are checkpointed at block boundaries. skipping: the server names layers, of any kind, that
    stay in the model's dtype.

    Raises: InputError for a block size that the backend does not take.
    """
    if any(isinstance(one, Entries) for one in asked):
        return _entry_blocks(chosen)
    name, backend = _backend(asked, chosen, stored)
    tokens = int(chosen.options.get("block_size", backend.preferred))
    smallest = min(backend.sizes)
    if tokens % smallest:
        raise InputError(
            f"-E block_size: found {tokens}, {name} takes multiples of {smallest}", f"-E block_size={smallest}"
        )
    attention = [one for one in asked if isinstance(one, Heads | Latent) and not _crosses(one)]
    states = [one for one in asked if isinstance(one, State)]
    state_bytes = None
    heads = BACKENDS["FLASH_ATTN"] if "MLA" in name else backend
    if attention and states:
        tokens, state_bytes = _raised(
            tokens, smallest, attention, states, stored, aligned_states, skipping, chosen.profile
        )
    if not (skipping and attention):
        return Blocks(tokens, heads, state_bytes, packs=backend.packs)
    return _covering(tokens, smallest, attention, stored, Blocks(tokens, heads, state_bytes, packs=backend.packs))


def _entry_blocks(chosen: Settings) -> Blocks:
    """Compressed entries come in one block size."""
    for option in ("attention_backend", "kv_cache_dtype_skip_layers"):
        if option in chosen.options:
            raise InputError(
                f"-E {option}: found {chosen.options[option]} beside compressed entries, which have kernels of their own",
                f"leave out -E {option}",
            )
    if chosen.options.get("block_size", BLOCK) != BLOCK:
        raise InputError(
            f"-E block_size: found {chosen.options['block_size']}, compressed entries come in blocks of {BLOCK}",
            f"-E block_size={BLOCK}",
        )
    return Blocks(BLOCK, BACKENDS["FLASHMLA_SPARSE"])


def _backend(asked: tuple[Asked, ...], chosen: Settings, stored: Formats) -> tuple[str, Backend]:
    """The kernels that read the cache: those asked for, else the ones that take these layers and this format."""
    latents = [one for one in asked if isinstance(one, Latent)]
    indexed = any(one.row.role is Role.INDEX for one in latents)
    besides = any(one.beside_heads for one in latents)
    mla = bool(latents) and not besides
    name = str(chosen.options.get("attention_backend", _default_backend(mla, indexed, stored.cache.name)))
    if mla != ("MLA" in name) or besides != (name == BESIDE_HEADS):
        fits = [each for each in BACKENDS if ("MLA" in each) == mla and besides == (each == BESIDE_HEADS)]
        raise InputError(
            f"-E attention_backend: found {name}, which does not read this model's rows", f"it takes {', '.join(fits)}"
        )
    backend = BACKENDS[name]
    if stored.quantised and not backend.quantised:
        raise InputError(
            f"--kv-dtype: found {stored.cache.name}, which {name} does not read",
            f"-E attention_backend={_default_backend(mla, indexed, stored.cache.name)}",
        )
    return name, backend


def _default_backend(mla: bool, indexed: bool, cache: str) -> str:
    if indexed:
        return "FLASHMLA_SPARSE" if mla else BESIDE_HEADS
    if mla:
        return "FLASHMLA"
    if cache.endswith("_per_token_head"):
        return "TRITON_ATTN"
    return {"turboquant": "TURBOQUANT", "nvfp4": "FLASHINFER"}.get(cache.partition("_")[0], "FLASH_ATTN")


def _crosses(one: Asked) -> bool:
    return isinstance(one, Heads) and isinstance(one.k.growth, PerEncoderToken)


def _raised(
    tokens: int,
    smallest: int,
    attention: list[Attention],
    states: list[State],
    stored: Formats,
    aligned: bool,
    skipping: bool,
    profile: Profile,
) -> tuple[int, int | None]:
    """(block size, padded state page) of a model with both attention and states."""
    page = max(one.page_bytes for one in states)
    per_token = _token_bytes(attention, stored, skipping)
    grid = max(smallest, tokens)
    if any(isinstance(one, Latent) for one in attention):
        grid = max(grid, profile.latent_grid)
    if aligned and profile.checkpoints and all(one.checkpoints and one.alignment > 1 for one in states):
        grid = lcm(grid, *(one.alignment for one in states))
    wanted = grid * ceil_div(page, grid * per_token)
    tokens = max(tokens, smallest * ceil_div(wanted, smallest))
    return tokens, tokens * per_token if tokens * per_token != page else None


def _token_bytes(attention: list[Attention], stored: Formats, skipping: bool) -> int:
    """Bytes of one token in the model's own attention: its latent, or heads with values as wide as keys."""
    for one in attention:
        if isinstance(one, Latent) and one.row.role is Role.LATENT:
            if stored.cache.name in PACKED_LATENTS:
                return one.row.elements  # the alignment takes the packed formats for one byte per number
            return latent_bytes(one.row, stored.cache, stored.model.name)
    heads = next(one for one in attention if isinstance(one, Heads))
    plain, quantised = _plain_and_quantised(heads, stored)
    if not stored.cache.name.startswith("turboquant"):
        return quantised
    packed = heads_bytes(heads.k, heads.v, stored.cache, stored.model.name)
    return lcm(packed, plain) if skipping else packed


def _plain_and_quantised(heads: Heads, stored: Formats) -> tuple[int, int]:
    """Bytes of one token in the model's dtype and in the cache's, as the first layer's backend counts them.

    Values count as wide as keys, and where that layer is skipped its backend does not know the packing of the others.
    """
    value = heads.v.replace(row=heads.k.row)
    plain = heads_bytes(heads.k, value, stored.model, stored.model.name)
    packs = stored.cache.name.startswith("turboquant") or stored.cache.name.endswith("_per_token_head")
    if packs and heads.skipped:
        return plain, plain // ITEM_BYTES[stored.model.name]
    return plain, heads_bytes(heads.k, value, stored.cache, stored.model.name)


def _covering(tokens: int, smallest: int, attention: list[Attention], stored: Formats, blocks: Blocks) -> Blocks:
    """Blocks so long that a quantised page covers the smallest page of a layer in the model's dtype."""
    first = attention[0]
    if not isinstance(first, Heads) or stored.cache.name in PACKED_LATENTS:
        raise NotCountableError(
            "-E kv_cache_dtype_skip_layers: latents left in the model's dtype are not counted for vLLM",
            "leave out -E kv_cache_dtype_skip_layers",
        )
    plain, quantised = _plain_and_quantised(first, stored)
    if plain == quantised:
        return blocks
    grid = max(smallest, tokens)
    needed = max(plain * smallest, blocks.state_bytes or 0)
    tokens = max(tokens, grid * ceil_div(needed, grid * quantised))
    page = tokens * quantised
    return blocks.replace(tokens=tokens, state_bytes=None if blocks.state_bytes is None else page, skipped_bytes=page)
