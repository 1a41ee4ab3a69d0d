"""How many rows a sliding layer of DynamicCache shows, and how many its storage keeps alive.

A window of W keeps the newest W - 1 rows as a view (`[-W + 1:]`) of the last concatenation. That held all n
rows after a prefill of everything, and min(n, W) after a step of one token. A window of 1 is never cut, since
`[-0:]` is everything.

Worked: a window of 16 after 40 tokens at once shows 15 rows of 40; after one more token, 15 of 16.

Source: transformers 5.24.0 cache_utils.py (DynamicSlidingWindowLayer.update), executed.

>>> sliding_rows(40, 16, at_once=True), sliding_rows(41, 16, at_once=False), sliding_rows(41, 1, at_once=False)
((15, 40), (15, 16), (41, 41))
"""

from __future__ import annotations


def sliding_rows(context: int, window: int, at_once: bool) -> tuple[int, int]:
    """(rows shown, rows stored) of a window after `context` tokens."""
    if window == 1:
        return context, context
    return min(context, window - 1), context if at_once else min(context, window)


def sliding_reasons(context: int, window: int, at_once: bool) -> tuple[str, ...]:
    """Why those rows differ from min(n, W), in short phrases."""
    if context < window or (window == 1 and context == 1):
        return ()
    if window == 1:
        return ("a window of 1 is never cut",)
    view = (
        "a prefill at once stays allocated beneath the views"
        if at_once
        else "a view of W - 1 rows keeps W rows allocated"
    )
    return ("windows keep W - 1 rows", view)
