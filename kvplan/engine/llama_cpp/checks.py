"""What the engine does not do, and combinations it refuses: said before anything is counted.

Worked: K in q8_0 has blocks of 32 numbers, so heads of 80 are refused while flash attention may be used.

Source: llama.cpp build 11549, llama_init_from_model.
"""

from __future__ import annotations

from kvplan.engine.llama_cpp.context import Context
from kvplan.engine.llama_cpp.shape import Shape
from kvplan.errors import InputError
from kvplan.formats import INDEX_FORMATS, format_named
from kvplan.policy.full import Full
from kvplan.spec import ModelSpec
from kvplan.workload import Workload

BLOCK = 32
"""Numbers of a block in every quantized cache type."""


def check(spec: ModelSpec, shape: Shape, workload: Workload, context: Context) -> None:
    """Refuse what the engine refuses or has no notion of.

    Raises: InputError.
    """
    _check_workload(workload)
    if shape.latent and context.type_k != context.type_v:
        raise InputError(
            f"-E cache_type_v: found {context.type_v} beside {context.type_k}, but {spec.name} keeps one latent for both",
            f"--kv-dtype {context.type_k}",
        )
    heads_must_fit = context.flash_attn != "off"
    for layer in (layer for _, layer in shape.distinct if not layer.draft):
        for tensor, cache_type, head, row in (
            ("k", context.type_k, layer.k_head, layer.k),
            ("v", context.type_v, layer.v_head, layer.v),
        ):
            width = head if heads_must_fit else row
            if cache_type.startswith(("q", "iq")) and width % BLOCK:
                what = "a head" if heads_must_fit else "a row"
                raise InputError(
                    f"-E cache_type_{tensor}: found {cache_type}, whose blocks of {BLOCK} do not divide {what} of {width} numbers",
                    f"-E cache_type_{tensor}=f16",
                )
    _check_index(shape, workload, context)


def _check_workload(workload: Workload) -> None:
    for option, ranks, fix in (
        ("--tp", workload.tp, f"--pp {workload.tp} gives each of {workload.tp} devices some of the layers"),
        ("--dcp", workload.dcp, "leave out --dcp"),
        ("--ep", workload.ep, "leave out --ep"),
    ):
        if ranks > 1:
            raise InputError(f"{option}: found {ranks}, but llama.cpp is counted with whole layers on each device", fix)
    if not isinstance(workload.policy, Full):
        raise InputError(
            f"--policy: found {workload.policy_text}, but llama.cpp keeps every row", "--policy full, or --engine ideal"
        )
    if workload.prefix:
        raise InputError(
            f"--prefix: found {workload.prefix:,}, but llama.cpp reserves cells whatever sequences share",
            "leave out --prefix; -E n_ctx= says how many cells there are",
        )


def _check_index(shape: Shape, workload: Workload, context: Context) -> None:
    """Index keys have K's type; `--index-dtype` may only repeat it."""
    index = format_named(workload.index_dtype, "--index-dtype", INDEX_FORMATS).name
    keeps = any(layer.index for _, layer in shape.distinct)
    if keeps and index not in (
        "fp8",
        format_named(context.type_k).name,
    ):  # fp8 is what the option says when nobody sets it
        raise InputError(
            f"--index-dtype: found {index}, but llama.cpp caches index keys in K's type, {context.type_k}",
            "leave out --index-dtype",
        )
