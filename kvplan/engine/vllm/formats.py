"""Bytes that one token takes in one layer, by storage format, and which formats vLLM's kernels take.

Worked: 8 heads of 128 and 128: 4,096 bytes in bf16, 2,048 in fp8, 2,112 in int8_per_token_head, 1,152 in nvfp4.

Source: vLLM 0.33.0 vllm/config/cache.py `CacheDType` and the backends' `customize_spec`, executed.
"""

from __future__ import annotations

from kvplan.errors import InputError, NotCountableError
from kvplan.formats import INDEX_FORMATS, Format, format_named
from kvplan.growth import PerToken
from kvplan.record import Record
from kvplan.tensor import CacheTensor, Role
from kvplan.workload import Workload

QUANTISED = (
    "fp8",
    "fp8_e5m2",
    "int8_per_token_head",
    "fp8_per_token_head",
    "int4_per_token_head",
    "nvfp4",
    "turboquant_k8v4",
    "turboquant_4bit_nc",
    "turboquant_k3v4_nc",
    "turboquant_3bit_nc",
)
PACKED_LATENTS = ("fp8_ds_mla", "nvfp4_ds_mla")
LATENTS = ("fp8", *PACKED_LATENTS)
PACKED_ROW = (576, 64)
"""The only latent that the packed formats have a layout for: 512 and 64 rotary."""


class Formats(Record):
    """The formats of one server: of keys, values and latents, of index keys, and the model's own.

    asked: the cache's where somebody asked for one.
    """

    cache: Format
    index: Format
    model: Format
    asked: str | None

    @property
    def quantised(self) -> bool:
        """True where the cache is not in the model's dtype."""
        return self.cache.name != self.model.name


def formats(workload: Workload, kv_dtype: str | None, model_dtype: str) -> Formats:
    """The formats that `workload` asks for.

    Raises: InputError for one that vLLM does not take.
    """
    model = format_named(model_dtype)
    k = format_named(workload.k_dtype or kv_dtype or model_dtype, "--k-dtype")
    v = format_named(workload.v_dtype or kv_dtype or model_dtype, "--v-dtype")
    if k is not v:
        raise InputError(
            f"--v-dtype: found {v.name} beside --k-dtype {k.name}, but vLLM stores K and V alike",
            f"--kv-dtype {k.name}",
        )
    if k.name not in (model.name, *QUANTISED, *PACKED_LATENTS):
        raise InputError(
            f"--kv-dtype: found {k.name}, vLLM takes the model's {model.name}, {', '.join((*QUANTISED, *PACKED_LATENTS))}",
            "--kv-dtype fp8",
        )
    return Formats(
        k,
        format_named(workload.index_dtype, "--index-dtype", INDEX_FORMATS),
        model,
        k.name if workload.k_dtype or kv_dtype else None,
    )


def heads_bytes(k: CacheTensor, v: CacheTensor, chosen: Format, model_dtype: str) -> int:
    """Bytes of one token's keys and values.

    Raises: InputError for a format of latents.
    """
    if chosen.name in PACKED_LATENTS:
        raise InputError(f"--kv-dtype: found {chosen.name}, which vLLM has for latents", "--kv-dtype fp8")
    if chosen.name == "nvfp4" and k.row[1] != v.row[1]:
        raise NotCountableError(
            f"--kv-dtype: {k.name}: vLLM has no nvfp4 for keys of {k.row[1]} beside values of {v.row[1]}",
            "--kv-dtype fp8",
        )
    if chosen.name.startswith("turboquant"):
        v = v.replace(row=k.row)  # its slot is sized by the keys' width alone
    return _row_bytes(k, None, chosen, model_dtype) + _row_bytes(v, k, chosen, model_dtype)


def latent_bytes(row: CacheTensor, chosen: Format, model_dtype: str) -> int:
    """Bytes of one latent.

    Raises: InputError for a format that vLLM does not have for latents, or not for this one.
    """
    if chosen.name not in (model_dtype, *LATENTS):
        raise InputError(
            f"--kv-dtype: found {chosen.name}, vLLM stores latents in {', '.join((model_dtype, *LATENTS))}",
            "--kv-dtype fp8",
        )
    if chosen.name in PACKED_LATENTS and (row.elements, row.rope) != PACKED_ROW:
        raise InputError(
            f"--kv-dtype: found {chosen.name}, which vLLM has for latents of 512 and 64, not {row.elements - row.rope} and {row.rope}",
            "--kv-dtype fp8",
        )
    return _row_bytes(row, None, chosen, model_dtype)


def index_bytes(row: CacheTensor, beside_heads: bool, chosen: Format, model_dtype: str) -> int:
    """Bytes of one index key: with its scales, or beside keys and values in 16 bit without any.

    Raises: InputError for a format that its kernels do not take.
    """
    if beside_heads:
        if chosen.name not in ("fp8", "bf16"):  # fp8 is what the option says when nobody sets it
            raise InputError(f"--index-dtype: found {chosen.name}, vLLM keeps this index in bf16", "--index-dtype bf16")
        return 2 * row.elements
    if chosen.name not in ("fp8", "mxfp4"):
        raise InputError(f"--index-dtype: found {chosen.name}, vLLM takes fp8 and mxfp4", "--index-dtype fp8")
    return _row_bytes(row, None, chosen, model_dtype)


def _row_bytes(tensor: CacheTensor, partner: CacheTensor | None, chosen: Format, model_dtype: str) -> int:
    plain = tensor.replace(growth=PerToken())
    key = None if partner is None else partner.replace(growth=PerToken())
    return sum(
        part.row_bytes for part in chosen.stored(plain, key if tensor.role is Role.V else None, PerToken(), model_dtype)
    )
