"""A fixed sample of the recorded caches, drawn and filled again by the installed library: the records are what it does.

`python tests/importers/record.py --variants` draws them all.
"""

from __future__ import annotations

import warnings

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

import record
from recorder.configs import architectures, tiny

pytestmark = pytest.mark.oracle

SAMPLE = """bloom deepseek_v3 falcon_h1 flint gemma3_text gemma4_text gpt2 gpt_bigcode gpt_oss hrm_text idefics jamba
kimi_linear lfm2 llama llama4_text llava longcat_flash mamba2 mimo_v2_flash minimax mistral mpt nemotron_h olmo3
olmo_hybrid phi3 qwen2 qwen2_vl qwen3_next recurrent_gemma t5 whisper xlstm zamba""".split()
RECORDED = record.recorded()
BASES = [(model_type, name) for model_type in SAMPLE for name in architectures()[model_type]]


@pytest.mark.parametrize(("model_type", "architecture"), BASES, ids=["-".join(base) for base in BASES])
def test_the_library_fills_the_cache_that_was_recorded(model_type: str, architecture: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the library's own talk about its models
        now = record.filled(model_type, architecture, "base", tiny(model_type, architecture))
    assert now == RECORDED[model_type, architecture, "base"]


def test_every_model_type_that_generates_text_is_recorded_or_said_not_to_be() -> None:
    recorded = {model_type for model_type, _, _ in RECORDED}
    assert set(architectures()) == recorded | set(record.not_filled())
    assert not recorded & set(record.not_filled())
