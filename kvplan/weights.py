"""What the weights take: parameters x stored width, divided over the ranks that hold them.

Formats that quantize a released model leave its embeddings and head as they were. A rank of several also holds
what is not divided (norms, routers, a latent's down-projections, heads fewer than ranks) and a stage of the pipeline
its layers rounded up, so a share is the least that the fullest rank can hold.

Worked: Llama-3.1-8B in fp8: 6,979,588,096 parameters of 1 byte and 2 x 128,256 x 4,096 of 2: 9,080,934,400 bytes,
8.46 GiB, which is what TensorRT-LLM prints for it.

Source: the checkpoints' formats; ranks: vLLM's logs, docs/reference/logged-budgets.md.
"""

from __future__ import annotations

from fractions import Fraction

from kvplan.errors import InputError, did_you_mean, quoted
from kvplan.record import Record
from kvplan.spec import ModelSpec
from kvplan.tensor import ITEM_BYTES
from kvplan.units import byte_count, ceil_div
from kvplan.workload import Workload

MIXED_MARGIN = Fraction(3, 100)
"""What scales and parts left wide may add."""

PADDED_MARGINS = {"mxfp4": Fraction(7, 100)}
"""The same for formats whose kernels pad: vLLM holds 5 to 6 % more of gpt-oss, 2,880 columns as 3,072."""

RANK_MARGIN = Fraction(2, 100)
"""What ranks may hold twice: 0.1 % of Llama-3.3-70B on 2, 1.1 % of DeepSeek-V3 on 8 (its down-projections)."""

KEEPS_EMBEDDINGS = frozenset({"fp8", "fp8_block128", "int8", "int4", "int4_g32", "awq", "gptq", "mxfp4", "nvfp4"})
"""Formats whose checkpoints leave embeddings and head in the released width."""


class Width(Record):
    """Bits per parameter of a stored format; exact where every parameter takes the same."""

    bits: Fraction
    exact: bool
    source: str


def _bits(text: str) -> Fraction:
    return Fraction(text)


WIDTHS: dict[str, Width] = {
    "fp32": Width(_bits("32"), True, "4 bytes"),
    "bf16": Width(_bits("16"), True, "2 bytes"),
    "fp16": Width(_bits("16"), True, "2 bytes"),
    "fp8": Width(_bits("8"), False, "1 byte; norms and embeddings often stay wider"),
    "fp8_block128": Width(8 + Fraction(32, 128 * 128), False, "1 byte and one fp32 scale per 128 x 128 block"),
    "int8": Width(_bits("8"), False, "1 byte; scales are small beside it"),
    "int4": Width(_bits("4"), False, "half a byte; scales left out"),
    "int4_g32": Width(_bits("4.5"), False, "half a byte and a 16-bit scale per 32"),
    "int4_g64": Width(_bits("4.5"), False, "half a byte, a 16-bit scale and a 16-bit bias per 64 (MLX)"),
    "awq": Width(4 + Fraction(20, 128), False, "4 bit, 16-bit scale and 4-bit zero per 128"),
    "gptq": Width(4 + Fraction(20, 128), False, "4 bit, 16-bit scale and 4-bit zero per 128"),
    "mxfp4": Width(_bits("4.25"), False, "4 bit and an 8-bit scale per 32"),
    "nvfp4": Width(_bits("4.5"), False, "4 bit and an 8-bit scale per 16"),
    "q8_0": Width(_bits("8.5"), False, "ggml: 34 bytes per 32"),
    "q6_k": Width(_bits("6.5625"), False, "ggml: 210 bytes per 256"),
    "q5_k_m": Width(_bits("5.70"), False, "llama.cpp's quantize table, Llama-3.1-8B"),
    "q4_k_m": Width(_bits("4.89"), False, "llama.cpp's quantize table, Llama-3.1-8B"),
    "q4_0": Width(_bits("4.5"), False, "ggml: 18 bytes per 32"),
}


class Weights(Record):
    """Weight bytes on one rank, the best estimate and its bounds; equal where they are exact."""

    rank_bytes: int
    low_bytes: int
    high_bytes: int
    confidence: str
    source: str


def weights_on_rank(spec: ModelSpec, workload: Workload, given: str | None) -> Weights | None:
    """What the weights of `spec` take on one rank; None when neither spec nor user says.

    given: a weight format or bytes, in place of the released width.

    Raises: InputError for an unknown format, or an expert-parallel split the model cannot take.
    """
    if given is not None and given[:1].isdigit():
        share = ceil_div(byte_count(given, "--weights"), workload.ranks)
        return Weights(share, share, share, "exact", "given on the command line")
    if given is None and spec.fields.weight_bytes:
        return _stored(spec, workload)
    width = _width(given) if given is not None else None
    parts = _parts(spec)
    if parts is None:
        return None
    if workload.ep > 1 and not any(part == "experts" for part, _, _ in parts):
        raise InputError(
            f"--ep: found {workload.ep}, but {spec.name} lists no expert parameters",
            "leave --ep out, or add `weights:` parts to the spec",
        )
    held = Fraction(0)
    exact, margin = True, MIXED_MARGIN
    for part, parameters, format_ in parts:
        ranks = _ranks_of(part, workload)
        used = width or _width(format_)
        exact = exact and used.exact
        margin = max(margin, PADDED_MARGINS.get(given or format_, margin))
        held += Fraction(parameters) * used.bits / 8 / ranks
    wide = _embeddings(spec) if width and given in KEEPS_EMBEDDINGS else 0
    low = _whole(held)
    best = _whole(held + wide * (_width(spec.fields.dtype).bits - width.bits) / 8 / workload.ranks) if width else low
    high = best if exact else int(best * (1 + margin)) + 1
    source = f"{spec.fields.parameters:,} parameters x {given or 'their released width'}"
    return _on_rank(spec, workload, Weights(best, low, high, "exact" if exact else "assumed", source))


def _whole(count: Fraction) -> int:
    return -(-count.numerator // count.denominator)


def _embeddings(spec: ModelSpec) -> int:
    """Parameters of embeddings and head, 0 where the spec does not say."""
    found = spec.fields.dimensions
    if found is None or spec.fields.parameters is None:
        return 0
    matrices = 1 if found.tie_word_embeddings else 2
    return min(spec.fields.parameters, matrices * found.vocab_size * found.hidden_size)


def _on_rank(spec: ModelSpec, workload: Workload, share: Weights) -> Weights:
    """`share` with what a rank may hold beyond it: copies, and layers that the stages do not divide."""
    if workload.ranks == 1:
        return share
    layers = spec.layer_count
    rounded = Fraction(ceil_div(layers, workload.pp) * workload.pp, layers)
    head = 0
    if workload.pp > 1:
        head = ceil_div(_embeddings(spec) * ITEM_BYTES[spec.fields.dtype], workload.tp)
    high = int(share.high_bytes * (1 + RANK_MARGIN) * rounded) + head + 1
    return Weights(share.rank_bytes, share.low_bytes, high, "assumed", share.source)


def weight_shares(spec: ModelSpec, workload: Workload, given: str | None) -> tuple[int, int]:
    """(bytes beside experts, bytes of experts) on one rank; bytes given as a whole are split as parameters are.

    Raises: InputError where the weights are not known, and as `weights_on_rank` does.
    """
    whole = weights_on_rank(spec, workload, given)
    if whole is None:
        raise InputError(f"{spec.name}: its weights are not known", "add --weights BYTES, for example --weights 38GiB")
    if given is None and spec.fields.weight_bytes:
        places: dict[str, int] = {str(place): count for place, count in spec.fields.weight_bytes.items()}
        experts = Fraction(places.get("experts", 0), _ranks_of("experts", workload))
        return whole.rank_bytes - int(experts), int(experts)
    parts = _parts(spec) or []
    width = _width(given) if given is not None and not given[:1].isdigit() else None
    held = [
        (part, Fraction(parameters) * (width or _width(stored)).bits / 8 / _ranks_of(part, workload))
        for part, parameters, stored in parts
    ]
    total = sum((size for _, size in held), Fraction(0))
    experts = sum((size for part, size in held if part == "experts"), Fraction(0))
    share = int(whole.rank_bytes * experts / total) if total else 0
    return whole.rank_bytes - share, share


def _stored(spec: ModelSpec, workload: Workload) -> Weights:
    """The bytes a checkpoint stores, part by part; draft layers only where they are held."""
    held = Fraction(0)
    for place, count in spec.fields.weight_bytes.items():
        if place == "mtp" and not workload.mtp:
            continue
        held += Fraction(count, _ranks_of(place, workload))
    share = _whole(held)
    return _on_rank(spec, workload, Weights(share, share, share, "exact", "bytes stored in the checkpoint"))


def _ranks_of(part: str, workload: Workload) -> int:
    """Ranks that a part of the weights is divided over: tensor parallelism divides what fewer expert ranks hold."""
    return workload.pp * (max(workload.ep, workload.tp) if part == "experts" else workload.tp)


def check_given(text: str) -> None:
    """Refuse what is neither a weight format nor bytes, needed or not.

    Raises: InputError with the nearest formats.
    """
    if text[:1].isdigit():
        byte_count(text, "--weights")
    else:
        _width(text)


def _parts(spec: ModelSpec) -> list[tuple[str, int, str]] | None:
    if spec.fields.weights:
        return [(part.part, part.parameters, part.format) for part in spec.fields.weights]
    if spec.fields.parameters is None:
        return None
    return [("all", spec.fields.parameters, spec.fields.dtype)]


def _width(name: str) -> Width:
    found = WIDTHS.get(name.lower())
    if found is None:
        fix = did_you_mean(name, WIDTHS, f"formats: {', '.join(WIDTHS)}; or bytes such as 38GiB")
        raise InputError(f"--weights: found {quoted(name)}, allowed a weight format or bytes", fix)
    return found
