"""Many sizes of one model at once: whole arrays of contexts and batches through the same formula.

The integer path and this one are the same lines of `footprint.py`; arrays are of 64-bit integers,
and of Python integers where a byte count would not fit them, so that both agree exactly.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from kvplan.errors import InputError
from kvplan.footprint import cache_plan
from kvplan.policy import policy_named
from kvplan.units import MOST_TOKENS
from kvplan.workload import Workload

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from kvplan.api import Model

MOST_INT64 = 2**63 - 1


def sweep(
    source: Model,
    *,
    ctx: ArrayLike,
    batch: ArrayLike = 1,
    kv_dtype: str | tuple[str, ...] | None = None,
    policy: str = "full",
    tp: int = 1,
    pp: int = 1,
    dcp: int = 1,
    mtp: int = 0,
    prefix: int = 0,
    encoder_tokens: int | None = None,
    per_rank: bool = False,
) -> NDArray[Any]:
    """Bytes of every (context, batch) pair, and of every format where several are named.

    ctx, batch: integers that broadcast against each other. kv_dtype: one format, or a tuple of
    them, which adds a leading axis. per_rank: bytes on the fullest rank instead of the replica's.
    Returns an array of integers: shape of the broadcast, behind the formats' axis if there is one.

    Raises: InputError for values that are not whole numbers of at least 1, and as `size` does.

    >>> sweep("llama-3.1-8b", ctx=[1000, 2000], batch=[[1], [4]]).tolist()
    [[131072000, 262144000], [524288000, 1048576000]]
    """
    from kvplan.api import check_counts, model

    counts = {"tp": tp, "pp": pp, "dcp": dcp, "mtp": mtp, "prefix": prefix, "encoder_tokens": encoder_tokens}
    check_counts(counts)
    spec = model(source)
    contexts, batches = _counts(ctx, "ctx"), _counts(batch, "batch")
    try:
        shape = np.broadcast_shapes(contexts.shape, batches.shape)
    except ValueError:
        raise InputError(
            f"batch: shape {batches.shape} does not broadcast against that of ctx, {contexts.shape}",
            "for example ctx=[8192, 131072], batch=[[1], [16]]",
        ) from None
    if prefix > int(contexts.min()):
        raise InputError(
            f"prefix: found {prefix:,}, allowed at most the shortest context, {int(contexts.min()):,}",
            "lower the prefix",
        )
    formats = kv_dtype if isinstance(kv_dtype, tuple) else (kv_dtype,)
    if not formats:
        raise InputError("kv_dtype: found no format, allowed at least one", 'for example kv_dtype=("bf16", "fp8")')
    weighed = []
    for name in formats:
        chosen = policy_named(policy)
        lengths = Workload(
            int(contexts.min()),
            k_dtype=name,
            v_dtype=name,
            policy=chosen,
            policy_text=policy,
            tp=tp,
            pp=pp,
            dcp=dcp,
            mtp=mtp,
            prefix=prefix,
            encoder_tokens=encoder_tokens,
        )
        plan = cache_plan(spec, lengths)
        weigh: Any = plan.rank_bytes if per_rank else plan.total_bytes
        ceiling = int(plan.total_bytes(int(contexts.max()) + plan.dip_tokens(), int(batches.max())))
        kind: Any = np.int64 if ceiling * 4 < MOST_INT64 else object
        result = weigh(contexts.astype(kind), batches.astype(kind), prefix)
        weighed.append(np.broadcast_to(result, shape))
    return np.stack(weighed) if isinstance(kv_dtype, tuple) else np.array(weighed[0])


def _counts(values: ArrayLike, what: str) -> NDArray[Any]:
    """`values` as an array of whole numbers.

    Raises: InputError for anything that is not a whole number from 1.
    """
    try:
        array = np.asarray(values)
    except ValueError:  # rows of different lengths
        array = np.asarray([], dtype=object)
    if (
        array.size == 0
        or not np.issubdtype(array.dtype, np.integer)
        or int(array.min()) < 1
        or int(array.max()) > MOST_TOKENS
    ):
        raise InputError(
            f"{what}: allowed whole numbers from 1 to {MOST_TOKENS:,}",
            f"for example {what}=[8192, 131072]",
        )
    return array
