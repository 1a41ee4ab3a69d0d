"""What one forward pass of a model does on a rank: bytes, FLOPs and calls, of prompts and of decode steps."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

from kvplan.compute import attention_work, decode_pair_flops
from kvplan.errors import NotCountableError
from kvplan.formats import format_named
from kvplan.growth import Constant, PerEncoderToken
from kvplan.question import Subject
from kvplan.record import Record
from kvplan.roofline import Work
from kvplan.spec import ModelSpec
from kvplan.tensor import CacheTensor
from kvplan.weights import weight_shares

if TYPE_CHECKING:
    from kvplan.workload import Workload


class Shape(Record):
    """What of a model decides its times, on one rank of a layout.

    body: parameters of the layers beside experts; head: of the output head, computed for sampled tokens alone;
    the input's embeddings are looked up and not read. experts: parameters in experts, share: of them that one
    token touches. Bytes are those of one rank.
    """

    body: int
    head: int
    experts: int
    share: Fraction
    body_bytes: int
    head_bytes: int
    expert_bytes: int
    width: int
    arithmetic: str


def shape_of(asked: Subject, given: str | None) -> Shape:
    """The model's parameters, their bytes on a rank, and the width of its hidden state.

    Raises: NotCountableError for a model whose parameters, or active ones among experts, are not known.
    """
    spec, fields = asked.spec, asked.spec.fields
    if fields.parameters is None:
        raise NotCountableError(
            f"{spec.source}: parameters: missing, so no time can be told", "add `parameters:` to the spec"
        )
    experts = sum(part.parameters for part in fields.weights if part.part == "experts")
    rest = fields.parameters - experts
    share = Fraction(0)
    if experts:
        if fields.active_parameters is None:
            raise NotCountableError(
                f"{spec.source}: active_parameters: missing, so the experts a step touches are not known",
                "add `active_parameters:` to the spec",
            )
        share = Fraction(min(max(fields.active_parameters - rest, 0), experts), experts)
    rest_bytes, expert_bytes = weight_shares(spec, asked.workload, given)
    stored = Fraction((rest_bytes + expert_bytes) * 8 * asked.workload.ranks, fields.parameters)
    head, width = 0, _width(spec)
    dimensions = spec.fields.dimensions
    if dimensions is not None:
        head = dimensions.vocab_size * width
    body = rest - head * (1 if dimensions is None or dimensions.tie_word_embeddings else 2)
    if body < 0:
        raise NotCountableError(
            f"{spec.source}: dimensions: embeddings of {head:,} parameters do not fit into {rest:,}, so no time can be told",
            "mend vocab_size, hidden_size or tie_word_embeddings in the spec",
        )
    return Shape(
        body=body,
        head=head,
        experts=experts,
        share=share,
        body_bytes=rest_bytes * body // rest,
        head_bytes=head * HEAD_BYTES // asked.workload.tp,
        expert_bytes=expert_bytes,
        width=width,
        arithmetic=_arithmetic(spec, given, stored),
    )


HEAD_BYTES = 2
"""Engines keep the output head in 16 bit, whatever the layers' format."""


def _width(spec: ModelSpec) -> int:
    """The hidden width: as the spec says, else the width of all query heads."""
    if spec.fields.dimensions is not None:
        return spec.fields.dimensions.hidden_size
    widths = [
        (getattr(kind, "heads", None) or 1) * (getattr(kind, "head_dim", None) or 128)
        for _, layer in spec.layers()
        for kind in layer.kinds
    ]
    return max(widths, default=4096)


def _arithmetic(spec: ModelSpec, given: str | None, bits: Fraction) -> str:
    """What the products are computed in: the weights' own format where tensor cores take it."""
    name = given.lower() if given is not None and not given[:1].isdigit() else ""
    if not name:
        formats = {part.format for part in spec.fields.weights} or {spec.fields.dtype}
        name = next(iter(formats)) if len(formats) == 1 else "bf16"
    if name.startswith("fp8"):
        return "fp8"
    if name == "nvfp4":
        return "fp4"
    return "bf16"


def decode_work(asked: Subject, shape: Shape, context: int, batch: float) -> Work:
    """One step of `batch` sequences that each hold `context` tokens, on the fullest rank."""
    w = asked.workload
    held = Fraction(int(asked.plan.rank_bytes(context, 1, 0))) * w.pp
    heads = _kv_heads(asked.spec)
    return _work(
        asked,
        shape,
        tokens=batch,
        sampled=batch,
        attention_bytes=float(held) * batch,
        attention_flops=decode_pair_flops(asked.spec, context) * batch / w.tp,
        sequence_heads=batch * max(1.0, heads / w.tp) * asked.spec.layer_count,
        decode=True,
    )


def prefill_work(asked: Subject, shape: Shape, tokens: int, prompts: int = 1) -> Work:
    """A pass over the prompts of `prompts` sequences of `tokens` tokens."""
    flops = attention_work(asked.spec, tokens).cached_attention_flops * prompts / asked.workload.tp
    return _work(
        asked,
        shape,
        tokens=float(tokens) * prompts,
        sampled=prompts,
        attention_bytes=0.0,
        attention_flops=flops * _unabsorbed(asked.spec),
        sequence_heads=0.0,
        decode=False,
    )


def _work(
    asked: Subject,
    shape: Shape,
    tokens: float,
    sampled: float,
    attention_bytes: float,
    attention_flops: float,
    sequence_heads: float,
    decode: bool,
) -> Work:
    w = asked.workload
    touched = 1 - (1 - float(shape.share)) ** (tokens * w.dp if w.ep > w.tp else tokens)
    expert_ranks = max(w.ep, w.tp) / (w.dp if w.ep > w.tp else 1)
    moved = 2 * 2 * (w.tp - 1) / w.tp * tokens * shape.width * 2 * asked.spec.layer_count
    return Work(
        linear_bytes=float(shape.body_bytes) * w.pp + shape.head_bytes,
        linear_flops=2.0 * (shape.body * tokens + shape.head * sampled) / w.tp,
        expert_bytes=float(shape.expert_bytes) * w.pp * touched,
        expert_flops=2.0 * shape.experts * float(shape.share) * tokens / expert_ranks,
        attention_bytes=attention_bytes,
        attention_flops=attention_flops,
        sequence_heads=sequence_heads,
        layers=asked.spec.layer_count,
        ranks=w.tp,
        message_bytes=moved,
        arithmetic=shape.arithmetic,
        decode=decode,
        fp8_cache=_fp8(w, asked.spec),
    )


def _kv_heads(spec: ModelSpec) -> int:
    """KV heads of the widest attention; the calls of a decode kernel go one by one over them."""
    return max((tensor.shards for _, layer in spec.layers() for tensor in layer.tensors() if _grows(tensor)), default=1)


def _grows(tensor: CacheTensor) -> bool:
    return not isinstance(tensor.growth, Constant | PerEncoderToken)


def _fp8(workload: Workload, spec: ModelSpec) -> bool:
    stored = workload.k_dtype or spec.fields.kv_dtype or spec.fields.dtype
    return format_named(stored).name.startswith("fp8")


def _unabsorbed(spec: ModelSpec) -> float:
    """FLOPs of a latent's prefill per FLOP of its absorbed form: keys and values are expanded.

    A spec does not give the expanded widths; DeepSeek-V3's stand for all: 192 and 128, beside 576 and 512 absorbed.
    """
    latent = any(kind.type == "mla" for _, layer in spec.layers() for kind in layer.kinds)
    return (192 + 128) / (576 + 512) if latent else 1.0
