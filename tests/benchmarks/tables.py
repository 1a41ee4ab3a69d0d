"""CPU time of a capacity matrix of ten thousand cells, beside asking `size` for each cell.

Run it from the checkout: `python tests/benchmarks/tables.py`. Both answer the same questions in one process;
`size` is timed on every hundredth cell and scaled up, and each of those cells is compared.
"""

from __future__ import annotations

import time

from kvplan.capacity import parse_capacity
from kvplan.planner.matrix import matrix_rows
from kvplan.sizing import size_answer

MATRIX = {
    "models": [
        "llama-3.1-70b",
        "qwen3-32b",
        "llama-3.1-8b",
        "gemma-3-27b",
        "mistral-7b-v0.3",
        "deepseek-v3",
        "qwen3-next-80b-a3b",
        "gpt-oss-120b",
        "glm-4.5",
        "mixtral-8x7b",
    ],
    "ctx": ["4k", "8k", "16k", "32k", "128k"],
    "batch": [1, 4, 16, 64, 256],
    "kv_dtype": ["bf16", "fp8"],
    "gpu": ["h100-sxm-80gb", "h200-sxm", "a100-sxm-80gb", "mi300x", "b200"],
    "tp": [1, 2, 4, 8],
}


def main() -> None:
    """Print the Markdown table that docs/benchmarks.md shows."""
    capacity = parse_capacity(MATRIX, "matrix")
    start = time.process_time()
    cells = matrix_rows(capacity)
    matrix = time.process_time() - start
    sample = capacity.questions()[::100]
    rows = dict(zip((str(place) for place, _ in cells), (row for _, row in cells), strict=True))
    start = time.process_time()
    answers = [(place, size_answer(question)) for place, question in sample]
    alone = (time.process_time() - start) * len(cells) / len(sample)
    agree = all(
        answer.gpu is not None
        and (answer.total_bytes, answer.gpu.fits, answer.gpu.max_batch, answer.gpu.max_context)
        == (row.total_bytes, row.fits, row.max_batch, row.max_context)
        for place, answer in answers
        for row in [rows[str(place)]]
    )
    print("| cells | matrix, CPU s | `size` each, CPU s | ratio | agree |")
    print("| --- | --- | --- | --- | --- |")
    print(f"| {len(cells):,} | {matrix:.2f} | {alone:.1f} | {alone / matrix:.0f} | {'yes' if agree else 'NO'} |")


if __name__ == "__main__":
    main()
