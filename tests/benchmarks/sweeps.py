"""A million evaluations over one model: the array path beside the integer path, in the same run.

Run it from the checkout: `python tests/benchmarks/sweeps.py`. Both evaluate (context, batch, format)
triples of the same model; the integer path is timed on a sample and scaled to a million.
"""

from __future__ import annotations

import sys
import time

import numpy as np

import kvplan
from kvplan.footprint import cache_plan
from kvplan.workload import Workload

FORMATS = ("bf16", "fp8", "q8_0", "int4_g64")
MODELS = ("llama-3.1-70b", "gemma-3-27b", "deepseek-v3.2", "qwen3-next-80b-a3b")
CONTEXTS = np.arange(512, 512 * 501, 512)
BATCHES = np.arange(1, 501)


def main() -> None:
    """Print seconds per million for both paths, and whether they agree."""
    print(f"{'model':22}{'arrays s':>10}{'integers s':>12}{'ratio':>8}  agree")
    for name in MODELS:
        started = time.process_time()
        swept = kvplan.sweep(name, ctx=CONTEXTS[:, None], batch=BATCHES[None, :], kv_dtype=FORMATS)
        arrays = (time.process_time() - started) * 1_000_000 / swept.size
        spec, agree, sample = kvplan.model(name), True, 0
        started = time.process_time()
        for index, dtype in enumerate(FORMATS):
            plan = cache_plan(spec, Workload(1, k_dtype=dtype, v_dtype=dtype))
            for i in range(0, len(CONTEXTS), 5):
                for j in range(0, len(BATCHES), 25):
                    agree = agree and plan.total_bytes(int(CONTEXTS[i]), int(BATCHES[j])) == swept[index, i, j]
                    sample += 1
        integers = (time.process_time() - started) * 1_000_000 / sample
        print(f"{name:22}{arrays:10.3f}{integers:12.2f}{integers / arrays:8.0f}  {'yes' if agree else 'NO'}")
        if not agree:
            sys.exit(1)


if __name__ == "__main__":
    main()
