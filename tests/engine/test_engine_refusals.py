"""What the transformers engine refuses: the error, its exit code, and the way out."""

from __future__ import annotations

from typing import Any

import pytest
from tiny_specs import CROSS, ENTRY, GQA, LATENT, LOCAL, figures, spec_of

from kvplan.engine.transformers.dynamic import dynamic_layer
from kvplan.engine.transformers.held import Updates
from kvplan.errors import InputError, KvplanError, NotCountableError
from kvplan.growth import PerToken, PerTokens
from kvplan.policy import policy_named
from kvplan.tensor import CacheTensor, Role

INDEX = {"type": "index", "head_dim": 16}
STREAMING = "streaming:sinks=1,window=4"
LIGHTNING = {"type": "lightning", "heads": 4, "head_dim": 8}
MLSTM = {"type": "mlstm", "heads": 4, "qk_head_dim": 8, "v_head_dim": 8}
RWKV7 = {"type": "rwkv7", "heads": 4, "head_dim": 8}


@pytest.mark.parametrize(
    ("layers", "options", "workload", "error", "what", "fix"),
    [
        ([GQA], (), {"tp": 2}, InputError, "--tp: found 2", "leave out --tp"),
        ([GQA, GQA], (), {"pp": 2}, InputError, "--pp: found 2", "leave out --pp"),
        ([GQA], (), {"tp": 2, "dcp": 2}, InputError, "--tp: found 2", "leave out --tp"),
        (
            [GQA],
            (),
            {"policy": policy_named(STREAMING), "policy_text": STREAMING},
            InputError,
            "--policy: found streaming",
            "--policy full",
        ),
        ([GQA], (), {"prefix": 10}, InputError, "--prefix: found 10", "leave out --prefix"),
        ([GQA], (), {"mtp": 1}, InputError, "--mtp: found 1", "leave out --mtp"),
        ([GQA], (), {"k_dtype": "fp8", "v_dtype": "fp8"}, InputError, "--k-dtype: found fp8", "-E cache=quantized"),
        ([GQA], (), {"v_dtype": "fp32"}, InputError, "--v-dtype: found fp32", "leave out --kv-dtype"),
        ([GQA], ("cache=quantized",), {"k_dtype": "int4"}, InputError, "--k-dtype: found int4", "-E nbits="),
        (
            [[LATENT, INDEX]],
            (),
            {"index_dtype": "mxfp4"},
            InputError,
            "--index-dtype: found mxfp4",
            "--index-dtype bf16",
        ),
        ([GQA], ("nbits=4",), {}, InputError, "-E nbits: belongs to cache=quantized", "-E cache=quantized"),
        ([GQA], ("max_cache_len=50",), {}, InputError, "-E max_cache_len: belongs to cache=static", "-E cache=static"),
        (
            [GQA],
            ("cache=static", "max_cache_len=39"),
            {},
            InputError,
            "-E max_cache_len: found 39",
            "-E max_cache_len=40",
        ),
        ([CROSS], (), {}, InputError, "encoder_tokens: missing", "--encoder-tokens"),
        (
            [CROSS],
            ("cache=static",),
            {"encoder_tokens": 41},
            InputError,
            "41 encoder tokens do not fit",
            "-E max_cache_len=41",
        ),
        ([LIGHTNING], ("cache=static",), {}, InputError, "cache class of its own", "-E cache=dynamic"),
        ([MLSTM], ("cache=static",), {}, InputError, "cache class of its own", "-E cache=dynamic"),
        ([ENTRY], ("cache=static",), {}, InputError, "compressed entries", "-E cache=dynamic"),
        ([GQA, LOCAL], ("cache=quantized",), {}, InputError, "full attention", "-E cache=dynamic"),
        ([GQA, {"type": "shared"}], ("cache=quantized",), {}, InputError, "full attention", "-E cache=dynamic"),
        ([[LATENT, INDEX]], ("cache=quantized",), {}, InputError, "full attention", "-E cache=dynamic"),
        ([GQA], ("cache=quantized", "nbits=3"), {}, InputError, "-E nbits: found 3", "-E backend=hqq"),
        ([GQA], ("cache=quantized", "nbits=16"), {}, InputError, "-E nbits: found 16", "-E nbits=4"),
        (
            [GQA],
            ("cache=quantized", "backend=hqq", "q_group_size=3"),
            {},
            InputError,
            "-E q_group_size: found 3",
            "-E q_group_size=64",
        ),
        ([RWKV7], (), {}, NotCountableError, "token_shift", "--engine ideal"),
        (
            [[LATENT, {**INDEX, "ratio": 16}]],
            (),
            {},
            NotCountableError,
            "index: an index of fewer keys",
            "--engine ideal",
        ),
        ([[LOCAL, INDEX]], (), {}, NotCountableError, "index: an index beside a window", "--engine ideal"),
        ([[GQA, ENTRY]], (), {}, NotCountableError, "k: beside compressed entries", "--engine ideal"),
    ],
)
def test_what_the_library_does_not_do_is_refused_with_a_way_out(
    layers: list[Any], options: tuple[str, ...], workload: dict[str, Any], error: type[KvplanError], what: str, fix: str
) -> None:
    with pytest.raises(error) as caught:
        figures(spec_of(*layers), 40, *options, **workload)
    assert caught.value.exit_code == {InputError: 2, NotCountableError: 3}[error]
    assert what in caught.value.what
    assert fix in caught.value.fix


@pytest.mark.parametrize(
    ("tensor", "what"),
    [
        (CacheTensor("k", Role.K, (2, 8), PerTokens(4), 2), "k: rows by PerTokens"),
        (CacheTensor("state", Role.STATE, (2, 8), PerToken(), 2), "state: a state that grows"),
    ],
)
def test_laws_the_library_was_never_seen_to_follow_are_refused(tensor: CacheTensor, what: str) -> None:
    updates = Updates(1, 40, 40, 40, 2, "bf16", 0, "tiny.yaml")
    with pytest.raises(NotCountableError, match=f"tiny.yaml: {what}"):
        dynamic_layer((tensor,), updates)
