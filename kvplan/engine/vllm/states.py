"""The page of a recurrent state: every convolution and state of a layer, on one rank, in vLLM's shapes.

| mixer, told by its tensors | convolution, elements on one rank | state, elements on one rank |
| --- | --- | --- |
| Mamba-1 | (K - 1) d_inner / tp | d_inner / tp x d_state |
| Mamba-2 | (K - 1 + k)(heads head_dim + 2 G d_state) / tp | heads / tp x head_dim x d_state |
| gated DeltaNet | (K - 1 + k)(2 D_k n_k + D_v n_v) / tp | n_v / tp x D_v x D_k |
| KDA | (K - 1 + k) 3 n D / tp | n / tp x D x D |
| lightning | none | n / tp x D x D |
| short convolution | (K - 1 + k) dim / tp | none |

k is the tokens drafted per step; G is the groups, raised to tp where they are fewer.

Worked: Qwen3-Next, K 4, 16 and 32 heads of 128: 24,576 + 524,288 elements, 1,097,728 bytes in bf16.

Source: vLLM 0.33.0 vllm/model_executor/layers/mamba/mamba_utils.py, executed.
"""

from __future__ import annotations

from kvplan.engine.vllm.settings import DTYPES, Settings
from kvplan.errors import InputError, NotCountableError
from kvplan.growth import Constant
from kvplan.record import Record
from kvplan.tensor import ITEM_BYTES, CacheTensor, Role

MAMBA1, MAMBA2, GATED_DELTANET, KDA = "Mamba-1", "Mamba-2", "gated DeltaNet", "KDA"
LIGHTNING, SHORT_CONV = "lightning", "short convolution"
FLASHINFER_ALIGNMENT = 64


class State(Record):
    """One layer's state: which mixer, bytes of its page, and the checkpoints that prefills export."""

    mixer: str
    page_bytes: int
    checkpoints: int
    alignment: int


def state(tensors: tuple[CacheTensor, ...], model_dtype: str, chosen: Settings, place: str) -> State:
    """The state that the convolutions and states in `tensors` make.

    Raises: NotCountableError for a mixer vLLM does not have; InputError for ranks that do not divide it.
    """
    mixer = _mixer(tensors)
    if mixer is None:
        raise NotCountableError(
            f"{place}: {tensors[0].name}: vLLM has no mixer that keeps {', '.join(t.name for t in tensors)}",
            "--engine ideal counts what the architecture needs",
        )
    conv_dtype = _dtype(chosen, "mamba_cache_dtype") or model_dtype
    conv = [t for t in tensors if t.role is Role.CONV]
    drafted = 0 if mixer == MAMBA1 else chosen.drafts
    total = sum(_on_rank(t, chosen, place) * (_columns(t) + drafted) for t in conv) * ITEM_BYTES[conv_dtype]
    for tensor in tensors:
        if tensor.role is Role.STATE:
            total += _on_rank(tensor, chosen, place) * ITEM_BYTES[_state_dtype(mixer, tensor, conv_dtype, chosen)]
    flashinfer = mixer == GATED_DELTANET and chosen.options.get("gdn_prefill_backend") == "flashinfer"
    return State(mixer, total, int(mixer == MAMBA2 or flashinfer), FLASHINFER_ALIGNMENT if flashinfer else 1)


def _mixer(tensors: tuple[CacheTensor, ...]) -> str | None:
    """The mixer whose tensors these are; None for those of no mixer that vLLM has."""
    conv = [t for t in tensors if t.role is Role.CONV]
    states = [t for t in tensors if t.role is Role.STATE]
    match [t.name for t in tensors], [len(t.row) for t in states]:
        case ["conv_x", "conv_bc", "state"], [3]:
            return MAMBA2
        case ["conv_qk", "conv_v", "state"], [3]:
            return GATED_DELTANET
        case ["conv", "state"], [3] if conv[0].row == (states[0].row[0], 3 * states[0].row[2]):
            return KDA
        case ["conv", "state"], [2] if conv[0].row == states[0].row[:1]:
            return MAMBA1
        case ["state"], [3] if states[0].row[1] == states[0].row[2]:
            return LIGHTNING
        case ["conv"], [] if len(conv[0].row) == 1:
            return SHORT_CONV
    return None


def _columns(tensor: CacheTensor) -> int:
    assert isinstance(tensor.growth, Constant)
    return tensor.growth.rows


def _on_rank(tensor: CacheTensor, chosen: Settings, place: str) -> int:
    """Elements of one row on one rank; fewer groups than ranks are raised to one group per rank."""
    tp = chosen.tp
    if tensor.shards % tp == 0:
        return tensor.elements // tp
    if tensor.name == "conv_bc" and tensor.shards < tp:
        return tensor.elements // tensor.shards
    raise InputError(
        f"--tp: found {tp}, but vLLM divides the {tensor.shards:,} shards of {tensor.name} evenly",
        f"{place}: choose a divisor of {tensor.shards:,}",
    )


def _state_dtype(mixer: str, tensor: CacheTensor, conv_dtype: str, chosen: Settings) -> str:
    stated = None if mixer == LIGHTNING else _dtype(chosen, "mamba_ssm_cache_dtype")
    if stated == "fp16" and mixer == KDA:
        raise InputError(
            "-E mamba_ssm_cache_dtype: found float16, vLLM keeps KDA states in float32 or bfloat16",
            "-E mamba_ssm_cache_dtype=bfloat16",
        )
    return stated or tensor.dtype or ("fp32" if mixer == KDA else conv_dtype)


def _dtype(chosen: Settings, option: str) -> str | None:
    return DTYPES[str(chosen.options.get(option, "auto"))]
