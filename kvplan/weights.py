"""What the weights take: parameters x stored width, divided over the ranks that hold them."""

from __future__ import annotations

from fractions import Fraction

from kvplan.errors import InputError, did_you_mean, quoted
from kvplan.record import Record
from kvplan.spec import ModelSpec
from kvplan.units import byte_count, ceil_div
from kvplan.workload import Workload

MIXED_MARGIN = Fraction(3, 100)


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
    exact = True
    for part, parameters, format_ in parts:
        ranks = _ranks_of(part, workload)
        used = width or _width(format_)
        exact = exact and used.exact
        held += Fraction(parameters) * used.bits / 8 / ranks
    best = -(-held.numerator // held.denominator)
    high = best if exact else int(best * (1 + MIXED_MARGIN)) + 1
    source = f"{spec.fields.parameters:,} parameters x {given or 'their released width'}"
    return Weights(best, best, high, "exact" if exact else "assumed", source)


def _stored(spec: ModelSpec, workload: Workload) -> Weights:
    """The bytes a checkpoint stores, part by part; draft layers only where they are held."""
    held = Fraction(0)
    for place, count in spec.fields.weight_bytes.items():
        if place == "mtp" and not workload.mtp:
            continue
        held += Fraction(count, _ranks_of(place, workload))
    share = -(-held.numerator // held.denominator)
    return Weights(share, share, share, "exact", "bytes stored in the checkpoint")


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
