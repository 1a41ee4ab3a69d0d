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

from kvplan.engine.vllm.formats import PACKED_LATENTS, Formats, heads_bytes, latent_bytes
from kvplan.engine.vllm.layers import Asked, Attention, Heads, Latent
from kvplan.engine.vllm.settings import BACKENDS, Backend, Settings
from kvplan.engine.vllm.states import State
from kvplan.errors import InputError, NotCountableError
from kvplan.growth import PerEncoderToken
from kvplan.record import Record
from kvplan.tensor import ITEM_BYTES, Role
from kvplan.units import ceil_div

LATENT_BLOCK = 128
"""Tokens that blocks of latents beside states are a multiple of: what their decode kernels want."""


class Blocks(Record):
    """The block size of one server, and the pages that states and unquantised windows are padded to."""

    tokens: int
    backend: Backend
    state_bytes: int | None = None
    skipped_bytes: int | None = None


def blocks_of(asked: tuple[Asked, ...], chosen: Settings, stored: Formats, aligned_states: bool) -> Blocks:
    """The block size that vLLM settles on for a model whose layers ask for `asked`.

    Raises: InputError for a block size that the backend does not take.
    """
    name, backend = _backend(asked, chosen, stored)
    tokens = int(chosen.options.get("block_size", backend.preferred))
    smallest = min(backend.sizes)
    if tokens % smallest:
        raise InputError(
            f"-E block_size: found {tokens}, {name} takes multiples of {smallest}", f"-E block_size={smallest}"
        )
    attention = [one for one in asked if not isinstance(one, State) and not _crosses(one)]
    states = [one for one in asked if isinstance(one, State)]
    state_bytes = None
    if attention and states:
        tokens, state_bytes = _raised(tokens, smallest, attention, states, stored, aligned_states)
    if not any(one.skipped for one in attention):
        return Blocks(tokens, backend, state_bytes)
    return _covering(tokens, smallest, attention, stored, Blocks(tokens, backend, state_bytes))


def _backend(asked: tuple[Asked, ...], chosen: Settings, stored: Formats) -> tuple[str, Backend]:
    """The kernels that read the cache: those asked for, else the ones that take these layers and this format."""
    latents = [one for one in asked if isinstance(one, Latent)]
    indexed = any(one.row.role is Role.INDEX for one in latents)
    kind = stored.cache.name.partition("_")[0]
    default = "FLASHMLA_SPARSE" if indexed else "FLASHMLA" if latents else "FLASH_ATTN"
    if not latents:
        default = {"turboquant": "TURBOQUANT", "nvfp4": "FLASHINFER"}.get(kind, default)
        default = "TRITON_ATTN" if stored.cache.name.endswith("_per_token_head") else default
    name = str(chosen.options.get("attention_backend", default))
    if bool(latents) != ("MLA" in name) and not (indexed and not any(one.leads for one in latents)):
        fits = [each for each in BACKENDS if ("MLA" in each) == bool(latents)]
        raise InputError(
            f"-E attention_backend: found {name}, which {'needs' if 'MLA' in name else 'does not read'} latents",
            f"for this model: {', '.join(fits)}",
        )
    return name, BACKENDS[name]


def _crosses(one: Asked) -> bool:
    return isinstance(one, Heads) and isinstance(one.k.growth, PerEncoderToken)


def _raised(
    tokens: int, smallest: int, attention: list[Attention], states: list[State], stored: Formats, aligned: bool
) -> tuple[int, int | None]:
    """(block size, padded state page) of a model with both attention and states."""
    page = max(one.page_bytes for one in states)
    per_token = _token_bytes(attention, stored)
    grid = max(smallest, tokens)
    if any(isinstance(one, Latent) for one in attention):
        grid = max(grid, LATENT_BLOCK)
    if aligned and all(one.checkpoints and one.alignment > 1 for one in states):
        grid = lcm(grid, *(one.alignment for one in states))
    wanted = grid * ceil_div(page, grid * per_token)
    tokens = max(tokens, smallest * ceil_div(wanted, smallest))
    return tokens, tokens * per_token if tokens * per_token != page else None


def _token_bytes(attention: list[Attention], stored: Formats) -> int:
    """Bytes of one token in the model's own attention: its latent, or heads with values as wide as keys."""
    for one in attention:
        if isinstance(one, Latent) and one.row.role is Role.LATENT:
            return latent_bytes(one.row, stored.cache, stored.model.name)
    heads = next(one for one in attention if isinstance(one, Heads))
    value = heads.v.replace(row=heads.k.row)
    packed = heads_bytes(heads.k, value, stored.cache, stored.model.name)
    if stored.cache.name.startswith("turboquant") and any(isinstance(one, Heads) and one.skipped for one in attention):
        return lcm(packed, heads_bytes(heads.k, value, stored.model, stored.model.name))
    return packed


def _covering(tokens: int, smallest: int, attention: list[Attention], stored: Formats, blocks: Blocks) -> Blocks:
    """Blocks so long that a quantised page covers the smallest page of a layer in the model's dtype."""
    first = attention[0]
    if not isinstance(first, Heads) or stored.cache.name in PACKED_LATENTS:
        raise NotCountableError(
            "-E kv_cache_dtype_skip_layers: latents left in the model's dtype are not counted for vLLM",
            "leave out -E kv_cache_dtype_skip_layers",
        )
    value = first.v.replace(row=first.k.row)
    plain = heads_bytes(first.k, value, stored.model, stored.model.name)
    quantised = heads_bytes(first.k, value, stored.cache, stored.model.name)
    packed = stored.cache.name.startswith("turboquant") or stored.cache.name.endswith("_per_token_head")
    if packed and first.skipped:
        quantised = plain // ITEM_BYTES[stored.model.name]  # the first layer's backend does not know the packing
    if plain == quantised:
        return blocks
    grid = max(smallest, tokens)
    needed = max(plain * smallest, blocks.state_bytes or 0)
    tokens = max(tokens, grid * ceil_div(needed, grid * quantised))
    page = tokens * quantised
    return Blocks(tokens, blocks.backend, None if blocks.state_bytes is None else page, page)
