"""What the library really cached, for every architecture it could build, against what importing that config says.

`tests/data/config_oracle.jsonl` holds tiny configs as transformers 5.24.0 saves them (vision and audio parts and
token ids left out) and the bytes its caches held after real forwards on a CPU, at several lengths and batches.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kvplan.engine import engine_named
from kvplan.errors import NotCountableError
from kvplan.importers.config import read_config
from kvplan.spec import parse_spec
from kvplan.spec_text import spec_yaml
from kvplan.workload import Workload
from kvplan.yaml_text import load_yaml

CASES = [
    json.loads(line)
    for line in (Path(__file__).parent.parent / "data" / "config_oracle.jsonl").read_text().splitlines()
]
REFUSED = {
    "bark", "blt", "cpmant", "csm", "dia", "dory", "dots3_note", "dots3_note_text", "fastspeech2_conformer_with_hifigan",
    "glm5_next", "gradium_phonon_tts", "higgs_audio_v2", "inkling2", "inkling2_loop", "inkling2_loop_text", "inkling2_text",
    "inkling_mm_model", "inkling_text", "mistral_large4", "musicgen", "musicgen_melody", "pi0", "pocket_tts", "qwen4_exp", "qwen4_exp_text",
    "reformer", "rwkv", "unlimited_ocr", "xlm", "xlnet", "zaya",
}  # fmt: skip
IMAGE_LAYERS_STAYED_EMPTY = {"mllama"}  # the forward had text alone, so the cross-attention layers cached nothing


def name(case: dict[str, Any]) -> str:
    return f"{case['config']['model_type']}-{case['architecture']}-{case['variant']}"


def held(case: dict[str, Any], run: dict[str, Any]) -> int:
    spec = read_config(case["config"], "config.json").spec
    workload = Workload(run["length"], batch=run["batch"], encoder_tokens=run["encoder"])
    engine = engine_named("transformers", (f"prefill={run['prefill']}",))
    return int(engine.reserve(spec, workload).figures["logical_bytes"])


@pytest.mark.parametrize(
    "case",
    [c for c in CASES if c["config"]["model_type"] not in REFUSED | IMAGE_LAYERS_STAYED_EMPTY],
    ids=name,
)
def test_the_import_counts_what_the_library_cached(case: dict[str, Any]) -> None:
    assert [run["logical_bytes"] for run in case["runs"]] == [held(case, run) for run in case["runs"]]


@pytest.mark.parametrize("case", [c for c in CASES if c["config"]["model_type"] in REFUSED], ids=name)
def test_what_cannot_be_told_is_refused_by_name(case: dict[str, Any]) -> None:
    with pytest.raises(NotCountableError) as caught:
        read_config(case["config"], "config.json")
    assert "config.json: " in caught.value.what
    assert caught.value.fix


@pytest.mark.parametrize("case", [c for c in CASES if c["config"]["model_type"] not in REFUSED], ids=name)
def test_an_import_written_as_yaml_reads_back_the_same(case: dict[str, Any]) -> None:
    spec = read_config(case["config"], "config.json").spec
    again = parse_spec(load_yaml(spec_yaml(spec), "yaml"), "yaml")
    assert (spec.fields, [(n, layer.kinds) for n, layer in spec.runs]) == (
        again.fields,
        [(n, layer.kinds) for n, layer in again.runs],
    )


def test_most_architectures_of_the_library_are_right() -> None:
    types = {case["config"]["model_type"] for case in CASES}
    assert len(types - REFUSED) > 250
