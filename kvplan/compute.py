"""Why a cache at all: attention pairs, FLOPs and bytes read, with the cache and without it.

Generating N tokens without a cache attends t x t pairs at step t, N(N+1)(2N+1)/6 in all; with one
it attends t, N(N+1)/2 in all. A window bounds the second factor at its width.

Source: Vaswani et al. 2017 (complexity table); Shazeer 2019 (arXiv:1911.02150) for bytes read per token.
"""

from __future__ import annotations

from kvplan.attention import AttentionKind
from kvplan.growth import Chunk, Constant, RowLaw, Window
from kvplan.record import Record
from kvplan.spec import ModelSpec


class Work(Record):
    """What generating `tokens` tokens of one sequence costs, over all layers.

    pairs: query-row pairs per attending layer that keeps every row; FLOPs count attention alone
    and, where the parameters are known, 2 per active parameter and token processed.
    uncounted: kinds whose attention FLOPs the spec does not give.
    """

    tokens: int
    naive_pairs: int
    cached_pairs: int
    naive_attention_flops: int
    cached_attention_flops: int
    naive_linear_flops: int | None
    cached_linear_flops: int | None
    uncounted: tuple[str, ...]


def cached_pairs(tokens: int, limit: int | None = None) -> int:
    """Sum over t = 1..tokens of min(t, limit): one query per step against the rows kept.

    >>> cached_pairs(1000), cached_pairs(1000, limit=10)
    (500500, 9955)
    """
    if limit is None or tokens <= limit:
        return tokens * (tokens + 1) // 2
    return limit * (limit + 1) // 2 + limit * (tokens - limit)


def naive_pairs(tokens: int, limit: int | None = None) -> int:
    """Sum over t = 1..tokens of t x min(t, limit): the whole prefix is computed again at each step.

    >>> naive_pairs(1000), naive_pairs(3, limit=1)
    (333833500, 6)
    """

    def squares(n: int) -> int:
        return n * (n + 1) * (2 * n + 1) // 6

    if limit is None or tokens <= limit:
        return squares(tokens)
    return squares(limit) + limit * (cached_pairs(tokens) - cached_pairs(limit))


def attention_work(spec: ModelSpec, tokens: int) -> Work:
    """The work of generating `tokens` tokens of one sequence of `spec`."""
    naive = cached = 0
    uncounted: set[str] = set()
    for count, layer in spec.runs:
        for kind in layer.kinds:
            flops = kind.pair_flops()
            if not flops:
                if _attends(kind):
                    uncounted.add(kind.type)
                continue
            limit = _limit(kind)
            naive += count * flops * naive_pairs(tokens, limit)
            cached += count * flops * cached_pairs(tokens, limit)
    parameters = spec.fields.active_parameters or spec.fields.parameters
    processed = cached_pairs(tokens)
    return Work(
        tokens=tokens,
        naive_pairs=naive_pairs(tokens),
        cached_pairs=cached_pairs(tokens),
        naive_attention_flops=naive,
        cached_attention_flops=cached,
        naive_linear_flops=2 * parameters * processed if parameters else None,
        cached_linear_flops=2 * parameters * tokens if parameters else None,
        uncounted=tuple(sorted(uncounted)),
    )


def _limit(kind: AttentionKind) -> int | None:
    """Rows a query meets at most; None where it meets them all."""
    laws: list[RowLaw] = [tensor.growth for tensor in kind.cache_tensors()]
    limits = [law.tokens for law in laws if isinstance(law, Window | Chunk)]
    return limits[0] if limits else None


def _attends(kind: AttentionKind) -> bool:
    """True for a kind that keeps rows to attend to, or reads those of another layer."""
    tensors = kind.cache_tensors()
    if not tensors:
        return kind.type == "shared"
    return not all(isinstance(t.growth, Constant) for t in tensors) and not all(
        t.role.value == "index" for t in tensors
    )


def decode_pair_flops(spec: ModelSpec, context: int) -> int:
    """Attention FLOPs of one decoded token at `context` tokens of one sequence."""
    total = 0
    for count, layer in spec.runs:
        for kind in layer.kinds:
            limit = _limit(kind)
            total += count * kind.pair_flops() * (min(context, limit) if limit else context)
    return total
