"""The techniques that `--compare` runs: how each is made, what it is given, and what the formula says it holds.

Predictions come from growth laws and storage formats, as those of `kvplan size` do; the running
caches know neither.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import torch

from kvplan.caches import COMPARED
from kvplan.caches.block_pool import BlockPool
from kvplan.caches.chunk import Chunk
from kvplan.caches.contiguous import Contiguous
from kvplan.caches.dynamic import Dynamic
from kvplan.caches.grouped import Grouped
from kvplan.caches.h2o import H2o
from kvplan.caches.interface import RunningCache, Shape
from kvplan.caches.kivi import Kivi
from kvplan.caches.paged import Paged
from kvplan.caches.prefix_tree import PrefixTree
from kvplan.caches.quantised import Quantised
from kvplan.caches.recompute import Recompute
from kvplan.caches.rotary import rotated
from kvplan.caches.streaming import Streaming
from kvplan.caches.window import Window
from kvplan.errors import InputError, did_you_mean, quoted
from kvplan.formats import format_named
from kvplan.growth import Constant, PerToken, RowLaw, Share
from kvplan.measure.device import DTYPES
from kvplan.record import Record
from kvplan.tensor import CacheTensor, Role

BLOCK_SIZE = 16
SINKS = 4
BUDGET = Fraction(1, 5)


class Setting(Record):
    """One run: the layer's shape, the model's dtype, the longest text, and the rows a bounded cache keeps.

    room_tokens: rows that a contiguous cache reserves from the first token on.
    """

    shape: Shape
    dtype: str
    most_tokens: int
    bound: int
    room_tokens: int

    @property
    def stored(self) -> torch.dtype:
        """The model's dtype as torch names it."""
        return DTYPES[self.dtype]

    def predicted(self, law: RowLaw, format: str | None, tokens: int) -> int:
        """Bytes of keys and values under a growth law in a storage format, by the formula."""
        s, chosen = self.shape, format_named(format or self.dtype)
        k = CacheTensor("k", Role.K, (s.kv_heads, s.head_dim), law, s.kv_heads)
        v = CacheTensor("v", Role.V, (s.kv_heads, s.v_head_dim), law, s.kv_heads)
        stored = (*chosen.stored(k, None, law, self.dtype), *chosen.stored(v, k, law, self.dtype))
        return sum(int(tensor.bytes(tokens)) for tensor in stored)


class Rows(Record):
    """A text of random rows in single precision, keys before and after rotation.

    queries: [heads, span, head_dim], used again after `span` tokens. keys, turned: [kv_heads, n, head_dim].
    """

    queries: torch.Tensor
    keys: torch.Tensor
    turned: torch.Tensor
    values: torch.Tensor

    def query(self, token: int, turn: bool = True) -> torch.Tensor:
        """The query [heads, head_dim] of a token, turned to its position or plain."""
        plain = self.queries[:, token % self.queries.shape[1]]
        return rotated(plain[:, None], torch.tensor([token]))[:, 0] if turn else plain


Make = Callable[[Setting, Rows], RunningCache]


class Contestant(Record):
    """One technique.

    make: its cache. predicted: what it holds after so many tokens. what: its settings in words.
    turns: it rotates keys itself. scored: every token of the prompt has to be attended to.
    recomputes: a step works on all pairs, so that shorter texts are run.
    """

    name: str
    make: Make
    predicted: Callable[[Setting, int], int]
    what: Callable[[Setting], str]
    turns: bool = False
    scored: bool = False
    recomputes: bool = False


def _paged(setting: Setting, rows: Rows) -> Any:
    blocks = -(-setting.most_tokens // BLOCK_SIZE)
    return Paged(BlockPool(setting.shape, blocks, BLOCK_SIZE, setting.stored))


def _tree(setting: Setting, rows: Rows) -> Any:
    return PrefixTree(_paged(setting, rows).pool).begin([])


def _kept(law: Callable[[Setting], RowLaw]) -> Callable[[Setting, int], int]:
    return lambda setting, tokens: setting.predicted(law(setting), None, tokens)


def _whole_blocks(setting: Setting, tokens: int) -> int:
    return setting.predicted(PerToken(), None, -(-tokens // BLOCK_SIZE) * BLOCK_SIZE)


def _recompute(setting: Setting, rows: Rows) -> Any:
    queries = rotated(rows.queries, torch.arange(rows.queries.shape[1]))

    def project(tokens: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        return queries[:, :tokens], rows.turned[:, :tokens], rows.values[:, :tokens]

    return Recompute(project)


def _format(name: str, short: str | None = None) -> Contestant:
    def make(setting: Setting, rows: Rows) -> Any:
        if name.startswith("kivi"):
            return Kivi(setting.shape, int(name[-1]), setting.stored)
        return Quantised(setting.shape, name)

    return Contestant(
        short or name,
        make,
        lambda setting, tokens: setting.predicted(PerToken(), name, tokens),
        lambda setting: format_named(name).summary,
    )


def _streaming(setting: Setting, rows: Rows) -> Any:
    return Streaming(setting.shape, SINKS, setting.bound - SINKS, setting.stored)


CONTESTANTS = {
    one.name: one
    for one in (
        Contestant("none", _recompute, lambda setting, tokens: 0, lambda s: "every step anew", recomputes=True),
        Contestant(
            "contiguous",
            lambda s, rows: Contiguous(s.shape, s.room_tokens, s.stored),
            _kept(lambda s: Constant(s.room_tokens)),
            lambda s: f"room for {s.room_tokens:,}",
        ),
        Contestant(
            "dynamic", lambda s, rows: Dynamic(s.shape, s.stored), _kept(lambda s: PerToken()), lambda s: "joined"
        ),
        Contestant("paged", _paged, _whole_blocks, lambda s: f"blocks of {BLOCK_SIZE}"),
        Contestant("prefix-tree", _tree, _whole_blocks, lambda s: f"blocks of {BLOCK_SIZE}, first request"),
        Contestant(
            "gqa",
            lambda s, rows: Grouped(s.shape, s.most_tokens, s.stored),
            _kept(lambda s: Constant(s.most_tokens)),
            lambda s: f"{s.shape.heads:,} heads share {s.shape.kv_heads:,}",
        ),
        Contestant(
            "window",
            lambda s, rows: Window(s.shape, s.bound, s.stored),
            _kept(lambda s: Constant(s.bound)),
            lambda s: f"ring of {s.bound:,}",
        ),
        Contestant(
            "chunk",
            lambda s, rows: Chunk(s.shape, s.bound, s.stored),
            _kept(lambda s: Constant(s.bound)),
            lambda s: f"chunks of {s.bound:,}",
        ),
        Contestant(
            "streaming",
            _streaming,
            _kept(lambda s: Constant(s.bound)),
            lambda s: f"{SINKS} sinks, window of {s.bound - SINKS:,}",
            turns=True,
        ),
        Contestant(
            "h2o",
            lambda s, rows: H2o(s.shape, Share(BUDGET), s.stored),
            _kept(lambda s: Share(BUDGET)),
            lambda s: f"budget of {float(BUDGET):g}",
            scored=True,
        ),
        _format("fp8_per_token_head", "fp8"),
        *(_format(name) for name in ("int8_g32", "int4_g32", "int2_g32", "kivi4", "kivi2")),
    )
}
assert tuple(CONTESTANTS) == COMPARED
"""Techniques that run on keys and values of heads, by the name that `--compare` takes."""


def contestants_named(text: str) -> list[Contestant]:
    """The techniques of `--compare`: all, or a list of names.

    Raises: InputError for an unknown name.
    """
    if text == "all":
        return list(CONTESTANTS.values())
    names = [name.strip() for name in text.split(",")]
    for name in names:
        if name not in CONTESTANTS:
            raise InputError(
                f"--compare: found {quoted(name)}, allowed all or {', '.join(CONTESTANTS)}",
                did_you_mean(name, CONTESTANTS, "--compare all"),
            )
    return [CONTESTANTS[name] for name in dict.fromkeys(names)]
