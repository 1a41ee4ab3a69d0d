"""Storage formats: what a row of cache takes, metadata included, to the byte.

One entry per format. A format is a codec (a rule that turns logical tensors into stored ones)
and its parameters; a new format of a known family is one line of `FORMATS`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import prod

from kvplan.errors import InputError, did_you_mean, quoted
from kvplan.growth import Behind, Flushed, Grouped, Growth, Newest, RowLaw, Unflushed
from kvplan.record import Record
from kvplan.tensor import CacheTensor, Role, StoredTensor
from kvplan.units import ceil_div

Stored = tuple[StoredTensor, ...]
Codec = Callable[[CacheTensor, CacheTensor | None, RowLaw, str], Stored]
HEADS = frozenset({Role.K, Role.V})
ANY = frozenset(Role)
ROWS = frozenset({Role.K, Role.V, Role.LATENT, Role.ENTRY, Role.INDEX})


class Format(Record):
    """A storage format: its codec, the roles it can hold, and where its bytes are written down.

    bits: bits per element of the codes alone, without scales, zeros or residuals.
    codec: (tensor, its K partner where it is a V, rows kept, model dtype) -> stored tensors.
    paired: K and V must both use it.
    """

    name: str
    bits: float
    codec: Codec
    roles: frozenset[Role]
    summary: str
    source: str
    paired: bool = False

    def stored(self, tensor: CacheTensor, partner: CacheTensor | None, kept: RowLaw, model_dtype: str) -> Stored:
        """The stored tensors of one logical tensor, of which the policy keeps `kept` rows.

        Raises: InputError when the format cannot hold the tensor's role or width.
        """
        if tensor.role not in self.roles:
            fitting = [f.name for f in FORMATS.values() if tensor.role in f.roles]
            raise InputError(
                f"format {self.name} cannot hold the {tensor.role.value} rows of this model",
                f"formats that can: {', '.join(fitting[:12])}",
            )
        return self.codec(tensor, partner, kept, model_dtype)


def plain(dtype: str, tensor: CacheTensor, partner: CacheTensor | None, kept: RowLaw, model_dtype: str) -> Stored:
    """Every element as one `dtype` number, nothing beside it."""
    return (StoredTensor("data", tensor.row, dtype, kept),)


def packed(bits: int, tensor: CacheTensor, partner: CacheTensor | None, kept: RowLaw, model_dtype: str) -> Stored:
    """Codes packed into bytes along the row, no scales: what textbooks count."""
    return (StoredTensor("data", (ceil_div(tensor.elements * bits, 8),), "uint8", kept),)


def blocks(
    size: int,
    block_bytes: int,
    name: str,
    tensor: CacheTensor,
    partner: CacheTensor | None,
    kept: RowLaw,
    model_dtype: str,
) -> Stored:
    """Ggml blocks: `size` elements in `block_bytes`, running across the heads of a row."""
    _must_divide(name, tensor.elements, size, "elements of a row")
    return (StoredTensor("data", (tensor.elements // size, block_bytes), "uint8", kept),)


def per_head(
    bits: int,
    scale: str,
    tensor: CacheTensor,
    partner: CacheTensor | None,
    kept: RowLaw,
    model_dtype: str,
) -> Stored:
    """Codes packed per head with one `scale` beside each head of each row."""
    heads, width = _heads(tensor)
    return (
        StoredTensor("data", (heads, ceil_div(width * bits, 8)), "uint8", kept),
        StoredTensor("scale", (heads, 1), scale, kept),
    )


def grouped(
    bits: int,
    group: int,
    metadata: tuple[tuple[str, str], ...],
    name: str,
    tensor: CacheTensor,
    partner: CacheTensor | None,
    kept: RowLaw,
    model_dtype: str,
) -> Stored:
    """Codes packed per head; each group of `group` elements along the head carries `metadata` numbers."""
    heads, width = _heads(tensor)
    _must_divide(name, width, group, "elements of a head")
    data = StoredTensor("data", (heads, width * bits // 8), "uint8", kept)
    return (data, *(StoredTensor(content, (heads, width // group), dtype, kept) for content, dtype in metadata))


def turbo(
    k_bits: int,
    k_extra: int,
    v_bits: int,
    v_extra: int,
    tensor: CacheTensor,
    partner: CacheTensor | None,
    kept: RowLaw,
    model_dtype: str,
) -> Stored:
    """VLLM's TurboQuant slot: K and V of a head side by side, the sum rounded up to an even number."""
    heads, width = _heads(tensor)
    if tensor.role is Role.K:
        return (StoredTensor("data", (heads, ceil_div(width * k_bits, 8) + k_extra), "uint8", kept),)
    head_bytes = ceil_div(width * v_bits, 8) + v_extra
    k_width = _heads(partner)[1] if partner else width
    pad = (ceil_div(k_width * k_bits, 8) + k_extra + head_bytes) % 2
    return (StoredTensor("data", (heads, head_bytes + pad), "uint8", kept),)


def kivi(
    bits: int,
    group: int,
    residual: int,
    name: str,
    tensor: CacheTensor,
    partner: CacheTensor | None,
    kept: RowLaw,
    model_dtype: str,
) -> Stored:
    """KIVI: keys per channel in runs of `residual` tokens, values per token behind the newest `residual`."""
    heads, width = _heads(tensor)
    _must_divide(name, width, group, "elements of a head")
    codes: Growth
    waiting: Growth
    scale: Growth
    if tensor.role is Role.K:
        codes, waiting = Flushed(residual, kept), Unflushed(residual, kept)
        scale, scale_row = Grouped(group, codes), (heads, width)
    else:
        codes, waiting = Behind(residual, kept), Newest(residual, kept)
        scale, scale_row = codes, (heads, width // group)
    return (
        StoredTensor("data", (heads, width * bits // 8), "uint8", codes),
        StoredTensor("scale", scale_row, "fp16", scale),
        StoredTensor("zero", scale_row, "fp16", scale),
        StoredTensor("residual", (heads, width), model_dtype, waiting),
    )


def ds_mla(
    data_bits: int,
    scale_group: int,
    scale: str,
    rope_dtype: str,
    name: str,
    tensor: CacheTensor,
    partner: CacheTensor | None,
    kept: RowLaw,
    model_dtype: str,
) -> Stored:
    """DeepSeek's packed latent: the compressed part narrow with scales, the RoPE part wider.

    DeepSeek-V4's entries follow the V4 layout of the same name: one ue8m0 scale per 64 elements
    and the scales padded to a multiple of 8 bytes.
    """
    narrow = tensor.elements - tensor.rope
    if tensor.role is Role.ENTRY:
        scale_group, scale = (64, "ue8m0") if tensor.rope else (32, "ue8m0")
    _must_divide(name, narrow, scale_group, "compressed elements of a row")
    scales = narrow // scale_group
    stored = [
        StoredTensor("data", (narrow * data_bits // 8,), "uint8", kept),
        StoredTensor("scale", (scales,), scale, kept),
    ]
    if tensor.rope:
        stored.append(StoredTensor("data", (tensor.rope,), rope_dtype, kept))
    if tensor.role is Role.ENTRY and scales % 8:
        stored.append(StoredTensor("pad", (-scales % 8,), "uint8", kept))
    return tuple(stored)


def _heads(tensor: CacheTensor) -> tuple[int, int]:
    """(heads, elements of one head) of a row; a latent is one head."""
    return (tensor.row[0], prod(tensor.row[1:])) if len(tensor.row) > 1 else (1, tensor.row[0])


def _must_divide(name: str, width: int, group: int, what: str) -> None:
    if width % group:
        raise InputError(
            f"format {name}: found {width} {what}, allowed multiples of {group}",
            "choose a format with a smaller group; `kvplan formats` lists them",
        )


VLLM = "vLLM 0.33.0, vllm/v1/kv_cache_interface.py"
GGML = "llama.cpp, ggml/src/ggml-common.h block sizes, executed through xllamacpp 2026.10"
TURBO = "vLLM 0.33.0, TurboQuant slot sizes"
GROUPED = "asymmetric group quantisation with fp16 scale and zero, as KIVI and MLX store it"
KIVI = "KIVI (arXiv:2402.02750) and its reference code: K flushed in runs of R, V keeps the newest min(n, R)"


def _grouped_integers(bits: int, group: int) -> Format:
    name = f"int{bits}_g{group}"
    codec = partial(grouped, bits, group, (("scale", "fp16"), ("zero", "fp16")), name)
    return Format(name, bits, codec, ROWS, f"int{bits}, fp16 scale and zero per {group}", GROUPED)


def _kivi(bits: int) -> Format:
    codec = partial(kivi, bits, 32, 128, f"kivi{bits}")
    return Format(
        f"kivi{bits}",
        bits,
        codec,
        HEADS,
        "K per channel, V per token, groups of 32, residual 128",
        KIVI,
        True,
    )


def _turbo(name: str, k_bits: int, k_extra: int, v_bits: int, v_extra: int) -> Format:
    bits = (k_bits + v_bits) / 2
    codec = partial(turbo, k_bits, k_extra, v_bits, v_extra)
    return Format(f"turboquant_{name}", bits, codec, HEADS, f"K {k_bits} bit, V {v_bits} bit, packed slot", TURBO, True)


def _ggml(name: str, bits: float, block_bytes: int) -> Format:
    codec = partial(blocks, 32, block_bytes, name)
    return Format(name, bits, codec, ROWS, f"{block_bytes} bytes per 32 elements", GGML)


FORMATS: dict[str, Format] = {
    f.name: f
    for f in (
        Format("fp32", 32, partial(plain, "fp32"), ANY, "IEEE single", "IEEE 754"),
        Format("fp16", 16, partial(plain, "fp16"), ANY, "IEEE half", "IEEE 754"),
        Format("bf16", 16, partial(plain, "bf16"), ANY, "bfloat16", "torch.bfloat16, 2 bytes"),
        Format("fp8", 8, partial(plain, "fp8_e4m3"), ROWS, "8-bit float, one scale per tensor outside the cache", VLLM),
        Format("fp8_e5m2", 8, partial(plain, "fp8_e5m2"), ROWS, "8-bit float, no scale", VLLM),
        Format(
            "int8",
            8,
            partial(plain, "int8"),
            ROWS,
            "8-bit codes alone, no scales",
            "arithmetic: 1 byte per element",
        ),
        Format(
            "int4",
            4,
            partial(packed, 4),
            ROWS,
            "the textbook's half byte: codes alone, no scales",
            "arithmetic: 0.5 byte per element",
        ),
        Format("int2", 2, partial(packed, 2), ROWS, "codes alone, no scales", "arithmetic: 0.25 byte per element"),
        _ggml("q8_0", 8, 34),
        _ggml("q5_1", 5, 24),
        _ggml("q5_0", 5, 22),
        _ggml("q4_1", 4, 20),
        _ggml("q4_0", 4, 18),
        _ggml("iq4_nl", 4, 18),
        Format(
            "nvfp4",
            4,
            partial(grouped, 4, 16, (("scale", "fp8_e4m3"),), "nvfp4"),
            HEADS,
            "e2m1 codes, one fp8 scale per 16",
            VLLM,
        ),
        Format(
            "int8_per_token_head",
            8,
            partial(per_head, 8, "fp32"),
            HEADS,
            "one fp32 scale per token and head",
            VLLM,
        ),
        Format("fp8_per_token_head", 8, partial(per_head, 8, "fp32"), HEADS, "one fp32 scale per token and head", VLLM),
        Format(
            "int4_per_token_head",
            4,
            partial(per_head, 4, "fp32"),
            HEADS,
            "one fp32 word (scale, packed zero) per token and head",
            VLLM,
        ),
        _turbo("k8v4", 8, 0, 4, 4),
        _turbo("4bit_nc", 4, 2, 4, 4),
        _turbo("k3v4_nc", 3, 2, 4, 4),
        _turbo("3bit_nc", 3, 2, 3, 4),
        *(_grouped_integers(bits, group) for bits in (8, 4, 2) for group in (32, 64, 128)),
        _kivi(4),
        _kivi(2),
        Format(
            "fp8_ds_mla",
            8,
            partial(ds_mla, 8, 128, "fp32", "bf16", "fp8_ds_mla"),
            frozenset({Role.LATENT, Role.ENTRY}),
            "fp8 latent, fp32 scale per 128, bf16 RoPE part; 656 B for 512 + 64",
            "FlashMLA README; " + VLLM,
        ),
        Format(
            "nvfp4_ds_mla",
            4,
            partial(ds_mla, 4, 16, "fp8_e4m3", "fp8_e4m3", "nvfp4_ds_mla"),
            frozenset({Role.LATENT}),
            "e2m1 latent, fp8 scale per 16, fp8 RoPE part; 352 B for 512 + 64",
            VLLM,
        ),
    )
}
ALIASES = {"fp8_e4m3": "fp8", "f16": "fp16", "f32": "fp32", "float16": "fp16", "float32": "fp32", "bfloat16": "bf16"}

INDEX = "vLLM 0.33.0 and DeepSeek-V3.2 inference code: 128 values and their scale"
INDEX_FORMATS: dict[str, Format] = {
    "fp8": Format(
        "fp8",
        8,
        partial(grouped, 8, 128, (("scale", "fp32"),), "index fp8"),
        frozenset({Role.INDEX}),
        "one fp32 scale per 128; 132 B for 128 values",
        INDEX,
    ),
    "mxfp4": Format(
        "mxfp4",
        4,
        partial(grouped, 4, 32, (("scale", "ue8m0"),), "index mxfp4"),
        frozenset({Role.INDEX}),
        "one ue8m0 scale per 32; 68 B for 128 values",
        INDEX,
    ),
    "bf16": FORMATS["bf16"],
    "fp16": FORMATS["fp16"],
    "fp32": FORMATS["fp32"],
}


def format_named(name: str, option: str = "--kv-dtype", known: dict[str, Format] | None = None) -> Format:
    """The format called `name`.

    >>> format_named("fp8_e4m3").name
    'fp8'

    Raises: InputError for an unknown name, with the nearest known ones.
    """
    known = FORMATS if known is None else known
    plain_name = name.strip().lower()
    found = known.get(plain_name) or known.get(ALIASES.get(plain_name, ""))
    if found is None:
        fix = did_you_mean(plain_name, [*known, *ALIASES], "`kvplan formats` lists them")
        raise InputError(f"{option}: found {quoted(name)}, allowed one of {len(known)} formats", fix)
    return found
