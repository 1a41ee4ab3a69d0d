"""A fixed sample of the recorded caches, filled again by the installed library: the records are what it does.

`python tests/importers/refill.py` fills all that token ids alone can fill.
"""

from __future__ import annotations

import json
import warnings

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

from refill import CASES, refilled

pytestmark = pytest.mark.oracle

SAMPLE = {
    "bloom", "deepseek_v3", "falcon_h1", "gemma3_text", "gemma4_text", "gpt2", "gpt_bigcode", "gpt_oss", "jamba",
    "kimi_linear", "lfm2", "llama", "llama4_text", "longcat_flash", "mamba2", "minimax", "mistral", "mpt", "olmo3",
    "phi3", "qwen2", "qwen3_next", "t5", "xlstm",
}  # fmt: skip
RECORDED = [
    case for line in CASES.read_text().splitlines() if (case := json.loads(line))["saved"]["model_type"] in SAMPLE
]
BASES = [case for case in RECORDED if case["variant"] == "base"]


def test_the_sample_is_recorded() -> None:
    assert {case["saved"]["model_type"] for case in BASES} == SAMPLE


@pytest.mark.parametrize("case", BASES, ids=lambda case: f"{case['saved']['model_type']}-{case['architecture']}")
def test_the_library_fills_the_cache_that_was_recorded(case: dict[str, object]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the library's own talk about its models
        assert refilled(case)[0] == "same"
