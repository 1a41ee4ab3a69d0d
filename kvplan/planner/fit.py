"""The footprint turned around: the longest context, the most sequences, the fewest GPUs.

Bytes are not linear in the context (windows, compressed entries, residuals), so the answer is
searched for. It is exact: what it names fits, and one token, one sequence or one GPU less room
does not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from kvplan.errors import InputError, KvplanError

MOST_TOKENS = 10**18  # as many as the largest budget has bytes
MOST_SEQUENCES = 10**18
MOST_GPUS = 64
MOST_DIP = 100_000
MOST_DIP_AT_ONCE = 5_000_000
Weigh = Callable[[int, int], int]
WeighAll = Callable[[range], Iterable[int]]


def largest(fits: Callable[[int], bool], ceiling: int) -> int | None:
    """The largest n for which `fits` holds, if it holds below some n and fails above; None past `ceiling`.

    >>> largest(lambda n: n * n <= 200, 10**6), largest(lambda n: n < 0, 10**6), largest(lambda n: True, 10**6)
    (14, 0, None)
    """
    if not fits(1):
        return 0
    low, high = 1, 2
    while fits(high):
        low, high = high, high * 2
        if low > ceiling:
            return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def longest_context(
    weigh: Weigh,
    budget_bytes: int,
    batch: int,
    least: int = 1,
    dip_tokens: int = 0,
    filled_after: int = 1,
    weigh_all: WeighAll | None = None,
) -> int | None:
    """Tokens up to which `batch` sequences fit at every length on the way; None when they always do.

    least: the shortest context that can be weighed. dip_tokens: how far below a length that fits a
    shorter one may fail, where a residual is flushed now and then; a sequence has to pass that peak
    too. filled_after: the length past which a bounded cache no longer changes. weigh_all: the bytes of
    a whole range of lengths at once, where there is a faster way than one by one.

    Raises: InputError where bytes fall over more tokens than are worth searching one by one.
    """
    most = MOST_DIP if weigh_all is None else MOST_DIP_AT_ONCE
    if dip_tokens > most:
        raise InputError(
            f"bytes may fall over {dip_tokens:,} tokens, more than the {most:,} that are searched",
            "a larger h2o budget, or a shorter -E prefill",
        )
    found = largest(lambda context: weigh(max(context, least), batch) <= budget_bytes, MOST_TOKENS)
    if found is not None and found < least:
        return 0
    anchor = max(least, filled_after) if found is None else found
    lengths = range(max(least, anchor - dip_tokens), anchor)
    weights = weigh_all(lengths) if weigh_all is not None and lengths else (weigh(n, batch) for n in lengths)
    for context, held in zip(lengths, weights, strict=True):
        if held > budget_bytes:
            return context - 1 if context > least else 0
    return found


def most_sequences(weigh: Weigh, budget_bytes: int, context: int) -> int | None:
    """Sequences of `context` tokens that fit at once; None when the model keeps no cache."""
    return largest(lambda batch: weigh(context, batch) <= budget_bytes, MOST_SEQUENCES)


def fewest_gpus(fits_on: Callable[[int], bool], most_ranks: int = MOST_GPUS, per_step: int = 1) -> int | None:
    """The smallest number of GPUs, in steps of `per_step`, on which the workload fits; None past `most_ranks` steps.

    A count the model cannot be divided over does not fit.
    """
    for ranks in range(1, most_ranks + 1):
        try:
            if fits_on(ranks):
                return ranks * per_step
        except KvplanError:
            continue
    return None
