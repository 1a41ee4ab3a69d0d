"""One layer's cache as vLLM specifies it: its kind, tokens per block, bytes per page, blocks per request.

    page = head slots x (block tokens / tokens per state) x bytes of one state's cell

| kind | blocks that a request of T tokens holds |
| --- | --- |
| full, mla | T / dcp / block, rounded up at both divisions |
| window W | min(W - 1 + extra + in flight, T) / block, rounded up, and one more |
| chunk C | min(C + in flight, T) / block, rounded up |
| state | what the layer says: 1 without prefix caching, else 2, and drafts and checkpoints |
| cross | encoder tokens / block, rounded up |

Worked: gpt-oss-20b, blocks of 16, 131,072 tokens: 8,192 full, and 127 + 16,384 in flight / 16 + 1 = 1,033 windowed.

Source: vLLM 0.33.0 vllm/v1/kv_cache_interface.py, executed.
"""

from __future__ import annotations

from kvplan.record import Record
from kvplan.units import ceil_div

FULL, MLA, WINDOW, LATENT_WINDOW = "full attention", "MLA", "sliding window", "sliding window MLA"
CHUNK, CROSS, STATE = "chunked", "cross attention", "state"
GROWING = (FULL, MLA)
WINDOWED = (WINDOW, LATENT_WINDOW)


class Request(Record):
    """One request of the model's length, as admission sees it.

    in_flight: tokens scheduled and not yet settled. extra: tokens kept below a window for drafting.
    """

    tokens: int
    dcp: int
    in_flight: int
    extra: int
    encoder_tokens: int


class Cache(Record):
    """The cache of one attention or mixer in one layer, on one rank.

    block: tokens of a block. cell_bytes: bytes of one stored state over all head slots (of the whole state, where
    kind is STATE). ratio: tokens per stored state. limit: tokens of the window or chunk. mark: what else tells two
    caches of equal bytes apart. padded: the page's bytes where they are raised. alignment: what pages are rounded
    up to. held: blocks of a state.
    """

    kind: str
    block: int
    cell_bytes: int
    ratio: int = 1
    limit: int = 0
    mark: tuple[object, ...] = ()
    padded: int | None = None
    alignment: int = 1
    held: int = 0

    @property
    def bare_bytes(self) -> int:
        """The page without padding."""
        return self.cell_bytes if self.kind == STATE else self.cell_bytes * (self.block // self.ratio)

    @property
    def page_bytes(self) -> int:
        """Bytes that one block takes in this layer."""
        if self.padded is not None:
            return self.padded
        return ceil_div(self.bare_bytes, self.alignment) * self.alignment

    def blocks(self, request: Request) -> int:
        """Blocks that `request` holds at most."""
        tokens = request.tokens
        match self.kind:
            case "full attention" | "MLA":
                return ceil_div(ceil_div(tokens, request.dcp), self.block)
            case "sliding window" | "sliding window MLA":
                reach = self.limit - 1 + request.extra + request.in_flight
                return ceil_div(min(reach, tokens), self.block) + 1
            case "chunked":
                return ceil_div(min(self.limit + request.in_flight, tokens), self.block)
            case "cross attention":
                return ceil_div(request.encoder_tokens, self.block)
            case _:
                return self.held


Caches = tuple[Cache, ...]


def mergeable(caches: Caches) -> bool:
    """Whether all are one specification; windows that only full allocation records do not count."""
    first = caches[0]
    if first.kind != FULL:
        return all(cache == first for cache in caches)
    limits = {cache.limit for cache in caches if cache.limit}
    return len(limits) <= 1 and all(cache.replace(limit=first.limit) == first for cache in caches)


def uniform(caches: Caches) -> bool:
    """Whether all need the same number of blocks, whatever their pages' bytes."""
    first = caches[0]
    if any(cache.block != first.block for cache in caches):
        return False
    match first.kind:
        case "full attention" | "MLA":
            return all(cache.kind in GROWING for cache in caches)
        case "sliding window":
            return all(cache.kind in WINDOWED and cache.limit == first.limit for cache in caches)
        case "sliding window MLA" | "chunked":
            return all(cache.kind == first.kind and cache.limit == first.limit for cache in caches)
        case "state":
            return all(
                cache.kind == STATE and cache.held == first.held and cache.page_bytes == first.page_bytes
                for cache in caches
            )
        case _:
            return all(cache.kind == first.kind for cache in caches)


class Group(Record):
    """Layers, by their place in the model, that share one block table; `caches` are theirs, in the same order.

    members: the distinct caches and how many layers have each, which follow from `caches`.
    """

    layers: tuple[int, ...]
    caches: Caches
    members: tuple[tuple[Cache, int], ...] = ()

    def check(self) -> None:
        """Count the distinct caches once: a group is asked at many lengths."""
        counts: dict[Cache, int] = {}
        for cache in self.caches:
            counts[cache] = counts.get(cache, 0) + 1
        self.__dict__["members"] = tuple(counts.items())

    def blocks(self, request: Request) -> int:
        """Blocks that `request` holds in this group."""
        return max(cache.blocks(request) for cache, _ in self.members)

    def bytes_in(self, layers: range) -> int:
        """Bytes of one block in those of its layers that lie in `layers`."""
        return sum(cache.page_bytes for layer, cache in zip(self.layers, self.caches, strict=True) if layer in layers)

    @property
    def width_bytes(self) -> int:
        """Bytes of one block in all of its layers."""
        return sum(cache.page_bytes * count for cache, count in self.members)
