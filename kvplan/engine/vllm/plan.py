"""The plan of one server: its layers' caches, their groups, and the bytes of a block on each pipeline stage.

Worked: Llama-3.1-8B, 32 layers of 4,096 bytes per token, blocks of 16: one group, 2,097,152 bytes per block.

Source: vLLM 0.33.0 vllm/v1/core/kv_cache_planning.py `get_global_kv_cache_groups`, `get_kv_cache_configs`, executed.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from itertools import accumulate, pairwise

from kvplan.engine.vllm.align import Blocks, blocks_of
from kvplan.engine.vllm.caches import (
    CHUNK,
    CROSS,
    FULL,
    LATENT_WINDOW,
    MLA,
    STATE,
    WINDOW,
    Cache,
    Caches,
    Group,
)
from kvplan.engine.vllm.entries import Entries, entry_caches
from kvplan.engine.vllm.formats import Formats, formats, heads_bytes, index_bytes, latent_bytes
from kvplan.engine.vllm.groups import CannotGroupError, grouped
from kvplan.engine.vllm.layers import Asked, Attention, Heads, asked_by
from kvplan.engine.vllm.settings import Settings
from kvplan.engine.vllm.states import State
from kvplan.engine.vllm.versions import PROFILES
from kvplan.errors import InputError, NotCountableError
from kvplan.footprint import pipeline_stages
from kvplan.formats import format_named
from kvplan.growth import Chunk, PerEncoderToken, Window
from kvplan.record import Record
from kvplan.spec import Layer, ModelSpec
from kvplan.tensor import Role
from kvplan.workload import Workload

BOUNDARY_LAYERS = 2
PACKED = format_named("fp8_ds_mla")
NEWEST = next(reversed(PROFILES))


class Plan(Record):
    """What every length and batch has in common.

    block_size: as vLLM sets it. group_bytes: bytes of a block in each group, over all layers. stage_bytes: bytes of
    a block on each pipeline stage. alone: bytes of a block without padding of groups, over all layers.
    """

    block_size: int
    groups: tuple[Group, ...]
    stage_bytes: tuple[int, ...]
    prefix_caching: bool

    @property
    def bytes_per_block(self) -> int:
        """Bytes of a block on the fullest stage, which decides how many there are."""
        return max(self.stage_bytes)


class ByIdentity:
    """A spec as a key of a cache: itself, and no other."""

    def __init__(self, spec: ModelSpec) -> None:
        self.spec = spec

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ByIdentity) and other.spec is self.spec

    def __hash__(self) -> int:
        return id(self.spec)


def plan(spec: ModelSpec, workload: Workload, chosen: Settings) -> Plan:
    """The plan for `workload`, whatever its lengths.

    Raises: InputError for what vLLM refuses; NotCountableError for a tensor that it has no cache for.
    """
    key = workload.replace(context=1, batch=1, prefix=0, prefix_block=1, encoder_tokens=None)
    return _plan(ByIdentity(spec), key, chosen)


@lru_cache(maxsize=64)
def _plan(of: ByIdentity, workload: Workload, chosen: Settings) -> Plan:
    spec = of.spec
    stored = formats(workload, spec.fields.kv_dtype, spec.fields.dtype)
    skipping = _Skipping(spec, chosen, stored)
    stages = _stages(spec, workload, skipping)
    asked = tuple(one for stage in stages for one in stage)
    keeps = _caches_prefixes(asked, chosen.profile.caches_hybrids)
    _check_counted(spec, chosen, bool(skipping.words), any(isinstance(one, Entries) for one in asked))
    caching = chosen.caching(keeps)
    states = any(isinstance(one, State) for one in asked)
    mode = chosen.state_mode(keeps) if states else "none"
    blocks = blocks_of(asked, chosen, stored, mode == "align", bool(skipping.words))
    made = {id(one): _caches(one, blocks, stored, chosen, mode) for one in {id(one): one for one in asked}.values()}
    by_stage = [[cache for one in stage for cache in made[id(one)]] for stage in stages]
    caches = tuple(cache for stage in by_stage for cache in stage)
    beside = any(isinstance(one, Entries) for one in asked)
    try:
        groups = grouped(caches, chosen.profile, not _allocates_fully(caches, workload, chosen), beside)
    except CannotGroupError as error:
        if not error.always:
            raise NotCountableError(
                f"{spec.source}: layers: {error}, unless the attention backend reads padded ones",
                f"--engine vllm@{NEWEST} counts them",
            ) from None
        raise InputError(
            f"{spec.source}: vLLM does not start: {error}", "-E disable_hybrid_kv_cache_manager=false"
        ) from None
    ends = [0, *accumulate(map(len, by_stage))]
    shares = [range(start, end) for start, end in pairwise(ends)]
    stage_bytes = tuple(max((group.bytes_in(share) for group in groups), default=0) for share in shares)
    return Plan(blocks.tokens, tuple(groups), stage_bytes, caching)


def _check_counted(spec: ModelSpec, chosen: Settings, skipping: bool, entries: bool) -> None:
    """Refuse what was compared with the newest release only."""
    if chosen.profile.newest or not (skipping or entries):
        return
    what = "compressed entries" if entries else "layers left in the model's dtype beside a quantised cache"
    raise NotCountableError(
        f"{spec.source}: layers: {what} are counted for vLLM {NEWEST} only, not {chosen.profile.name}",
        f"--engine vllm@{NEWEST}",
    )


def _stages(spec: ModelSpec, workload: Workload, skipping: _Skipping) -> list[list[Asked]]:
    """What each pipeline stage's layers ask for; draft layers are on the last."""
    stages = [list(stage) for stage in pipeline_stages(spec.runs, workload.pp, spec.source)]
    if workload.mtp:
        stages[-1].append((workload.mtp, spec.draft_layer()))
    found: list[list[Asked]] = []
    place = 0
    for stage in stages:
        asked: list[Asked] = []
        for count, layer in stage:
            for index in range(place, place + count):
                asked.extend(skipping.asked(layer, index))
            place += count
        found.append(asked)
    return found


class _Skipping:
    """Which layers stay in the model's dtype, and what each layer asks for, worked out once per distinct layer."""

    def __init__(self, spec: ModelSpec, chosen: Settings, stored: Formats) -> None:
        self.spec, self.chosen, self.stored = spec, chosen, stored
        self.seen: dict[tuple[int, bool], tuple[Asked, ...]] = {}
        words = str(chosen.options.get("kv_cache_dtype_skip_layers", "")).split(",")
        self.words = {word for word in words if word}
        bad = [word for word in self.words if word != "sliding_window" and not (word.isascii() and word.isdigit())]
        if bad:
            raise InputError(
                f"-E kv_cache_dtype_skip_layers: found {bad[0]}, vLLM takes layer numbers and sliding_window",
                "-E kv_cache_dtype_skip_layers=0,1",
            )
        states = any(t.role is Role.STATE or t.role is Role.CONV for _, layer in spec.runs for t in layer.tensors())
        if stored.cache.name.startswith("turboquant") and not states:
            count = spec.layer_count
            outer = min(BOUNDARY_LAYERS, count // 2)
            self.words |= {str(index) for index in (*range(outer), *range(count - outer, count))}
        if not stored.quantised:
            self.words = set()

    def asked(self, layer: Layer, index: int) -> tuple[Asked, ...]:
        """What layer number `index` asks for."""
        window = "sliding_window" in self.words and any(isinstance(t.growth, Window) for t in layer.tensors())
        key = id(layer), str(index) in self.words or window
        if key not in self.seen:
            self.seen[key] = asked_by(layer, key[1], self.spec.fields.dtype, self.chosen, self.spec.source)
        return self.seen[key]


def _caches_prefixes(asked: tuple[Asked, ...], beside_states: bool) -> bool:
    """The default of vLLM: prefixes are kept, but beside an encoder, without attention, and once beside states."""
    growing = [one for one in asked if not isinstance(one, State)]
    crosses = any(isinstance(one, Heads) and isinstance(one.k.growth, PerEncoderToken) for one in asked)
    return bool(growing) and not crosses and (beside_states or len(growing) == len(asked))


def _allocates_fully(caches: Caches, workload: Workload, chosen: Settings) -> bool:
    chunks_beside_drafts = bool(workload.mtp) and any(cache.kind == CHUNK for cache in caches)
    return bool(chosen.options.get("disable_hybrid_kv_cache_manager", chunks_beside_drafts))


def _caches(one: Asked, blocks: Blocks, stored: Formats, chosen: Settings, mode: str) -> Caches:
    """The caches of what one layer asks for, in blocks of the server's size."""
    if isinstance(one, Entries):
        return entry_caches(one, stored.asked, stored.index, stored.model.name)
    return (_cache(one, blocks, stored, chosen, mode),)


def _cache(one: Attention | State, blocks: Blocks, stored: Formats, chosen: Settings, mode: str) -> Cache:
    """The cache of one attention or mixer, in blocks of the server's size."""
    if isinstance(one, State):
        checkpoints = one.checkpoints if chosen.profile.checkpoints else 0
        held = (2 + checkpoints if mode == "align" else 1) + chosen.drafts
        return Cache(STATE, 1, one.page_bytes, padded=blocks.state_bytes, held=held, mark=(one.mixer,))
    used = stored.model if one.skipped else stored.cache
    dtype = stored.model.name
    if isinstance(one, Heads):
        return _heads_cache(
            one, heads_bytes(one.k, one.v, used, dtype), blocks, used.name, chosen.profile.window_blocks
        )
    if one.row.role is Role.INDEX:
        cell, used = index_bytes(one.row, one.beside_heads, stored.index, dtype), stored.index
    else:
        used = PACKED if blocks.packs and used.name == "fp8" else used
        cell = latent_bytes(one.row, used, dtype)
    mark = (one.row.role.value, one.row.row, used.name, one.leads)
    if isinstance(one.row.growth, Window):
        return Cache(LATENT_WINDOW, blocks.tokens, cell, limit=one.row.growth.tokens, mark=mark)
    return Cache(MLA, blocks.tokens, cell, mark=mark)


def _heads_cache(one: Heads, cell: int, blocks: Blocks, used: str, window_blocks: str) -> Cache:
    mark = (one.k.row, one.v.row, used)
    match one.k.growth:
        case Window(tokens):
            return Cache(
                WINDOW,
                _window_block(cell, blocks, window_blocks),
                cell,
                limit=tokens,
                mark=mark,
                padded=blocks.skipped_bytes,
            )
        case Chunk(tokens):
            return Cache(CHUNK, blocks.tokens, cell, limit=tokens, mark=mark)
        case PerEncoderToken():
            return Cache(CROSS, blocks.tokens, cell, mark=mark)
        case _:
            return Cache(FULL, blocks.tokens, cell, mark=mark)


def _window_block(cell: int, blocks: Blocks, rule: str) -> int:
    """Tokens of a window's block: the longest that the backend takes and whose page fits the room, or an older rule."""
    if rule != "longest":
        return blocks.tokens if rule == "server" else min(blocks.heads.sizes)
    room = blocks.tokens if blocks.skipped_bytes is None else blocks.skipped_bytes // cell
    return max(_fitting(blocks, room), default=min(blocks.heads.sizes))


def _fitting(blocks: Blocks, room: int) -> Iterator[int]:
    for size in blocks.heads.sizes:
        longest = room // size * size if blocks.heads.multiples else size
        if 0 < longest <= room:
            yield longest
