"""Fill the caches behind `tests/data/config_oracle.jsonl` again, with whatever transformers is installed.

Run it from the checkout: `python tests/importers/refill.py [MODEL_TYPE ...]`. Every config of a text model is built
with random weights and run on a CPU at the lengths and batches of its case; what its cache then holds is put beside
the recorded bytes. The last lines count what is the same, what differs and what was not run, and why. Models that
want pictures, sound or a forward of their own are not run.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import torch
import transformers
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

sys.path.insert(0, str(Path(__file__).parents[1] / "oracle"))
from weighing import module_states, tensors_of

CASES = Path(__file__).parent.parent / "data" / "config_oracle.jsonl"
OUTSIDE = ("vision", "audio", "image", "speech", "thinker", "codec", "qformer", "vq_config", "encoder_config")
OF_LAYERS = ("attn_config", "ffn_config")
RANDOM = 1


class NotRunError(Exception):
    """Why a case cannot be run here."""


def model_of(case: dict[str, Any]) -> Any:
    """The library's model of a case, with random weights.

    Raises: NotRunError for a model that needs more than token ids.
    """
    written = {key: value for key, value in case["written"].items() if key not in ("model_type", "architectures")}
    parts = [
        key
        for key, value in case["saved"].items()
        if key not in OF_LAYERS and isinstance(value, dict) and "model_type" in value
    ]
    if parts or any(word in key for key in case["saved"] for word in OUTSIDE):
        raise NotRunError("needs more than token ids")
    dtype = getattr(torch, str(written.pop("dtype")))
    config = CONFIG_MAPPING[case["saved"]["model_type"]](**written)
    for name in ("pad_token_id", "bos_token_id", "eos_token_id"):  # class defaults lie outside a tiny vocabulary
        if hasattr(config, name):
            setattr(config, name, None)
    torch.manual_seed(RANDOM)
    return getattr(transformers, case["architecture"])._from_config(config, dtype=dtype, attn_implementation="eager")


@torch.no_grad()
def cached(model: Any, run: dict[str, Any]) -> int:
    """Bytes of the keys, values and states that one run of a case leaves behind; counters left out.

    Raises: NotRunError where the model returns no cache.
    """
    batch, length = run["batch"], run["length"]
    ids = torch.randint(5, 100, (batch, length))
    more: dict[str, Any] = {}
    if model.config.is_encoder_decoder:
        width = next(size for name in ("d_model", "hidden_size") if (size := getattr(model.config, name, None)))
        states = torch.randn(batch, run["encoder"], width, dtype=model.dtype)
        more["encoder_outputs"] = transformers.modeling_outputs.BaseModelOutput(last_hidden_state=states)
    held, done = None, 0
    for step in [run["prefill"]] + [1] * (length - run["prefill"]):
        piece = {"decoder_input_ids" if more else "input_ids": ids[:, done : done + step]}
        held = model(**piece, **more, cache=held, use_cache=True).cache
        done += step
    if held is None:
        raise NotRunError("the model returns no cache")
    found = tensors_of([held, module_states(model)])
    return sum(t.numel() * t.element_size() for t in found if t.is_floating_point())


def refilled(case: dict[str, Any]) -> tuple[str, list[int]]:
    """`same`, `differs` or why the case was not run; and the bytes found."""
    try:
        model = model_of(case).eval()
        found = [cached(model, run) for run in case["runs"]]
    except NotRunError as error:
        return str(error), []
    except Exception as error:  # noqa: BLE001  # hundreds of classes, each with its own way of saying no
        return f"not built or run from token ids alone: {type(error).__name__}", []
    return ("same" if found == [run["bytes"] for run in case["runs"]] else "differs"), found


def main(wanted: list[str]) -> int:
    """Run the cases of `wanted` model types, or all; 1 when one of them differs."""
    transformers.logging.set_verbosity_error()
    counts: Counter[str] = Counter()
    types: dict[str, set[str]] = {}
    for number, line in enumerate(CASES.read_text().splitlines()):
        case = json.loads(line)
        kind = case["saved"]["model_type"]
        if wanted and kind not in wanted:
            continue
        verdict, found = refilled(case)
        counts[verdict] += 1
        types.setdefault(verdict, set()).add(kind)
        if verdict == "differs":
            print(f"{kind} {case['architecture']} {case['variant']}: {[r['bytes'] for r in case['runs']]} now {found}")
        elif number % 100 == 0:
            print(f"{number:,} cases read", file=sys.stderr, flush=True)
    for verdict, count in counts.most_common():
        print(f"{count:5,} configs of {len(types[verdict]):3} model types: {verdict}")
    return int(counts["differs"] > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
