"""How many rows each cache class of mlx-lm holds after a run: growth in steps of 256, rotation, chunks.

`generate_step` feeds all but the last token of the prompt in pieces of `prefill_step_size`, then that token
alone, then each generated token alone.

- `KVCache`: an update of s tokens that does not fit adds s rounded up to 256, first cutting what lies past the
  tokens held, unless these are a multiple of 256.
- `RotatingKVCache(W)`: the first piece is kept whole, a later one beside the last W - 1 rows; a token alone
  grows by 256 up to W, then overwrites.
- `ChunkedKVCache(C)`: as `KVCache`, but before each update whatever exceeds C rows is cut.

Worked: 300 tokens are 512 rows. A window of 1,024 after a piece of 2,048 and another one holds 1,023 + 2,048 =
3,071 rows, and 1,024 once a token came alone.

Source: mlx-lm 0.32.2 mlx_lm/models/cache.py and generate.py (generate_step), executed on a CPU.

>>> full_rows(Feed(300, 2048)), rotating_rows(Feed(5000, 2048), 1024), chunked_rows(Feed(9000, 2048), 8192)
(512, 1024, 8448)
"""

from __future__ import annotations

from functools import lru_cache

from kvplan.record import Record
from kvplan.units import ceil_div

STEP = 256


class Feed(Record):
    """What a cache was fed: `tokens` in all, the prompt's in pieces of `step`, the last `alone` one by one.

    alone: the prompt's last token and every generated one; 0 looks at a run in the middle of its prompt.
    """

    tokens: int
    step: int
    alone: int = 1

    @property
    def bulk(self) -> int:
        """Tokens that came in pieces."""
        return self.tokens - self.alone


def rounded(tokens: int) -> int:
    """`tokens` up to whole steps of 256."""
    return ceil_div(tokens, STEP) * STEP


@lru_cache(maxsize=4096)
def full_rows(feed: Feed) -> int:
    """Rows of a `KVCache`, quantized or not."""
    if feed.step % STEP == 0:
        return rounded(feed.tokens)
    held, rows = _pieces(feed.bulk, feed.step)
    return rows + rounded(max(0, held + feed.alone - rows))


def _pieces(bulk: int, step: int) -> tuple[int, int]:
    """(tokens, rows) after `bulk` tokens in pieces of `step`; a cycle of growths is walked once."""
    held = rows = 0
    seen: dict[tuple[int, int], tuple[int, int]] | None = {}
    while held < bulk:
        idle = min((rows - held) // step, (bulk - held) // step)
        if idle:
            held += idle * step
            continue
        piece = min(step, bulk - held)
        if seen is not None:
            state = held % STEP, rows - held
            if state in seen:
                before, cycle = seen[state][0], held - seen[state][0]
                times = max(0, (bulk - held - step) // cycle)
                held, rows = held + times * cycle, rows + times * (held - before)
                seen = None
                continue
            seen[state] = held, rows
        if held + piece > rows:
            rows = (held if held % STEP else rows) + rounded(piece)
        held += piece
    return held, rows


def rotating_rows(feed: Feed, window: int) -> int:
    """Rows of a `RotatingKVCache` of `window` rows."""
    bulk = feed.bulk - (feed.bulk if feed.step == 1 else feed.bulk % feed.step == 1)  # a piece of one comes alone
    if bulk < feed.tokens:
        return window if bulk >= window else min(window, bulk + rounded(feed.tokens - bulk))
    last = bulk % feed.step or min(feed.step, bulk)
    return last + min(bulk - last, window - 1)


@lru_cache(maxsize=4096)
def chunked_rows(feed: Feed, chunk: int) -> int:
    """Rows of a `ChunkedKVCache` of `chunk` rows."""
    held = rows = fed = 0
    while fed < feed.tokens:
        if held > chunk:
            return _past(feed, fed, chunk)
        piece = min(feed.step, feed.bulk - fed) if fed < feed.bulk else 1
        if held + piece > rows:
            rows = (held if held % STEP else rows) + rounded(piece)
        held += piece
        fed += piece
    return rows


def _past(feed: Feed, fed: int, chunk: int) -> int:
    """Rows at the end of a run whose cache exceeded its chunk after `fed` tokens: each update starts from the chunk."""
    if feed.alone:
        return chunk + STEP
    left = feed.bulk - fed
    return chunk + rounded(left % feed.step or feed.step)
