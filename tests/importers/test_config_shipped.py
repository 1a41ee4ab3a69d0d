"""Where a class's own defaults are a released model, importing an empty config of that type is its shipped spec."""

from __future__ import annotations

import pytest

from kvplan.catalogue import model_named
from kvplan.importers.config import read_config
from kvplan.spec import ModelSpec

PAIRS = """
cohere command-r-v01-35b | deepseek_v3 deepseek-v3 | deepseek_v32 deepseek-v3.2
ernie4_5 ernie-4.5-0.3b | ernie4_5_moe ernie-4.5-21b-a3b | falcon falcon-7b | gemma gemma-7b | gemma2 gemma-2-2b
gemma3n_text gemma-3n-e4b | glm4 glm-4-9b | glm4_moe_lite glm-4.7-flash | glm_moe_dsa glm-5 | gpt2 gpt-2
gpt_neox gpt-neox-20b | gpt_oss gpt-oss-120b | gptj gpt-j-6b | granite_swa granite-swash-2b | hy_v3 hy3-295b-a21b
internlm3 internlm3-8b | jamba jamba-v0.1-52b | kolibri1 kolibri-1-78b | llama llama-2-7b | llama4_text llama-4-scout
longcat_flash longcat-flash-560b-a27b | mamba2 mamba-codestral-7b | minicpm3 minicpm3-4b | minimax_m2 minimax-m2
ministral3 ministral-3-8b | mistral mistral-7b-v0.1 | mistral4 mistral-small-4-119b | mixtral mixtral-8x7b
mllama_text_model llama-3.2-11b-vision | muse_glimmer_text muse-glimmer-30b | olmo olmo-7b | olmo3 olmo-3-7b
olmoe olmoe-1b-7b | opt opt-125m | phi phi-1.5 | phi3 phi-3-mini-128k | phimoe phi-3.5-moe
qwen2_5_vl_text qwen2.5-vl-72b | qwen2_moe qwen1.5-moe-a2.7b | sarvam_mla sarvam-105b | seed_oss seed-oss-36b
smollm3 smollm3-3b | solar_open solar-open-100b | stablelm stablelm-3b-4e1t | t5 t5-small | xlstm xlstm-7b
"""


def layers(spec: ModelSpec) -> list[tuple[object, ...]]:
    """What each layer keeps, in layer order, names and claims apart."""
    return [
        tuple((t.role, t.row, t.growth, t.shards, t.dtype) for t in layer.tensors())
        for count, layer in spec.runs
        for _ in range(count)
    ]


@pytest.mark.parametrize(("model_type", "name"), [pair.split() for pair in PAIRS.replace("\n", "|").split("|") if pair.strip()])  # fmt: skip
def test_the_class_defaults_import_as_the_shipped_spec(model_type: str, name: str) -> None:
    assert layers(model_named(name)[0]) == layers(read_config({"model_type": model_type}, "config.json").spec)
