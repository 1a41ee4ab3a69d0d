"""`sglang serve` and `python -m sglang.launch_server`: SGLang's flags as a question.

Source: SGLang 0.5.23, `sglang/srt/server_args.py` and `sglang/srt/arg_groups/fields`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from fractions import Fraction
from typing import Any, ClassVar

from kvplan.errors import InputError, quoted
from kvplan.serving import Asked
from kvplan.serving import sglang_flags as f
from kvplan.serving.flags import Arguments, Table, table
from kvplan.serving.launch import Launch
from kvplan.serving.python_module import module_arguments
from kvplan.serving.values import share, whole

MODULES = ("sglang.launch_server", "sglang.srt.entrypoints.http_server")
QUANTIZED = {
    "fp8": "fp8",
    "w8a8_fp8": "fp8",
    "modelopt_fp8": "fp8",
    "mxfp8": "fp8",
    "awq": "awq",
    "awq_marlin": "awq",
    "gptq": "gptq",
    "gptq_marlin": "gptq",
    "mxfp4": "mxfp4",
    "modelopt_fp4": "nvfp4",
    "petit_nvfp4": "nvfp4",
    "w8a8_int8": "int8",
    "bitsandbytes": "int4",
}
CACHE_FORMATS = {"bfloat16": "bf16", "float16": "fp16", "fp8_e4m3fn": "fp8_e4m3"}
UNCOUNTED = (
    "--cpu-offload-gb",
    "--json-model-override-args",
    "--enable-lora",
    "--lora-paths",
    "--enable-hierarchical-cache",
    "--attn-cp-size",
    "--disaggregation-mode",
    "--dllm-algorithm",
)
_SIZED = re.compile(r"(\d{1,15})(\.\d{1,9})?(Ki|Mi|Gi|Ti|k|M|G|T)?")
_SCALES = {"k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40}


class Sglang:
    """SGLang's server."""

    NAME: ClassVar[str] = "sglang"
    FLAGS: ClassVar[Table] = table(
        {
            "value": [f.VALUES, f.EARLIER_VALUES],
            "switch": [f.SWITCHES, f.EARLIER_SWITCHES],
            "list": [f.LISTS, f.EARLIER_LISTS],
            "optional": [f.OPTIONALS, f.EARLIER_OPTIONALS],
        }
    )
    WHEN_SHORT: ClassVar[str] = "shortens"
    CHANGES: ClassVar[Mapping[str, str]] = {
        "ctx": "--context-length {}",
        "cache": "--kv-cache-dtype {}",
        "tp": "--tp-size {}",
        "utilization": "--mem-fraction-static {}",
        "weights": "--quantization {}",
    }

    def arguments_of(self, words: tuple[str, ...]) -> tuple[str, ...] | None:
        """What stands behind `sglang serve` or the module of the server."""
        if words[0] == "sglang":
            return words[2:] if words[1:2] == ("serve",) else None
        return module_arguments(words, MODULES)

    def asked(self, arguments: Arguments, launch: Launch) -> Asked:
        """The question behind SGLang's flags."""
        notes: list[str] = []
        length = sized(arguments, "--context-length")
        if length is None:
            notes.append("no --context-length: SGLang takes the model's maximum")
        tp, dp = whole(arguments, "--tp-size") or 1, whole(arguments, "--dp-size") or 1
        shared = bool(arguments.switch("--enable-dp-attention"))
        fields: dict[str, Any] = {
            "ctx": length or "max",
            "tp": tp,
            "pp": whole(arguments, "--pp-size") or 1,
            "dp": 1 if shared else dp,
            "dcp": whole(arguments, "--dcp-size") or 1,
            "utilization": share(arguments, "--mem-fraction-static"),
        }
        if (ep := whole(arguments, "--ep-size")) is not None:
            fields["ep"] = ep
        cache = arguments.text("--kv-cache-dtype")
        if cache not in (None, "auto"):
            fields["k_dtype"] = CACHE_FORMATS.get(cache or "", cache)
        method = arguments.text("--quantization")
        if method in QUANTIZED:
            fields["weights"] = QUANTIZED[method]
        options = {"dp_size": str(dp), "enable_dp_attention": "true"} if shared else {}
        if (most := sized(arguments, "--max-total-tokens")) is not None:
            options["max_total_tokens"] = str(most)
        _speculation(arguments, fields, notes)
        if (config := arguments.text("--config")) is not None:
            notes.append(f"--config {config}: not read; what it sets is not in this answer")
        return Asked(
            model=arguments.text("--model-path") or (arguments.positional[0] if arguments.positional else None),
            fields=fields,
            options=options,
            read=READ,
            notes=tuple(notes),
            uncounted=tuple(
                arguments.typed[flag]
                for flag in UNCOUNTED
                if flag in arguments.typed and arguments.values.get(flag) not in (False, "1", "null")
            ),
            parallel=whole(arguments, "--max-running-requests"),
            nodes=None if arguments.switch("--use-ray") else whole(arguments, "--nnodes") or 1,
        )


READ = frozenset(
    """--model-path --context-length --tp-size --dp-size --pp-size --dcp-size --ep-size --mem-fraction-static
    --kv-cache-dtype --quantization --max-total-tokens --speculative-algorithm --speculative-draft-model-path
    --enable-dp-attention --config""".split()
)


def sized(arguments: Arguments, flag: str) -> int | None:
    """A whole number as SGLang reads it: `32k` is 32,000, `32Ki` is 32,768, and `K` is refused.

    Source: SGLang 0.5.23, `sglang/srt/utils/common.py`, `human_readable_int`.
    """
    text = arguments.text(flag)
    if text is None:
        return None
    match = _SIZED.fullmatch(text.strip())
    if match is None or (match[2] and (match[3] or "i").endswith("i")):
        raise InputError(
            f"{arguments.typed.get(flag, flag)}: found {quoted(text)}, allowed whole numbers such as 32768, 32k or 32Ki",
            f"for example {flag} 32Ki",
        )
    return int(Fraction(match[1] + (match[2] or "")) * _SCALES.get(match[3] or "", 1)) or None


def _speculation(arguments: Arguments, fields: dict[str, Any], notes: list[str]) -> None:
    """Draft layers of the model itself, an EAGLE head, or a model of its own."""
    algorithm = (arguments.text("--speculative-algorithm") or "").upper()
    model = arguments.text("--speculative-draft-model-path")
    if not algorithm or algorithm == "NGRAM":
        return
    if algorithm == "STANDALONE":
        if model is not None:
            fields["draft"] = model
        return
    fields["mtp"] = 1
    if model is not None:
        notes.append("the draft head is counted as one more layer like the model's last")


SERVER = Sglang()
