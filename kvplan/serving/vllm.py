"""`vllm serve` and the modules that start the same server: vLLM's flags as a question.

Source: vLLM 0.33.0, `vllm/engine/arg_utils.py` and `vllm/utils/argparse_utils.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from kvplan.errors import InputError, quoted
from kvplan.serving import Asked
from kvplan.serving import vllm_flags as f
from kvplan.serving.flags import Arguments, Table, table
from kvplan.serving.launch import Launch
from kvplan.serving.python_module import module_arguments
from kvplan.serving.values import human, share, whole

MODULES = (
    "vllm.entrypoints.openai.api_server",
    "vllm.entrypoints.api_server",
    "vllm.entrypoints.cli.main",
    "vllm.entrypoints.grpc_server",
)
QUANTIZED = {
    "fp8": "fp8",
    "fp8_per_tensor": "fp8",
    "fp8_per_channel": "fp8",
    "fp8_per_block": "fp8_block128",
    "fbgemm_fp8": "fp8",
    "deepspeedfp": "fp8",
    "mxfp8": "fp8",
    "int8_per_channel_weight_only": "int8",
    "experts_int8": "int8",
    "awq": "awq",
    "auto_awq": "awq",
    "awq_marlin": "awq",
    "gptq": "gptq",
    "auto_gptq": "gptq",
    "gptq_marlin": "gptq",
    "mxfp4": "mxfp4",
    "gpt_oss_mxfp4": "mxfp4",
    "nvfp4_per_token": "nvfp4",
    "modelopt_fp4": "nvfp4",
    "bitsandbytes": "int4",
}
"""`--quantization` -> the stored format of the weights; the other words leave it to the checkpoint."""

CACHE_FORMATS = {"bfloat16": "bf16", "float16": "fp16", "half": "fp16", "float32": "fp32", "fp8_inc": "fp8"}
UNCOUNTED = (
    "--cpu-offload-gb",
    "--hf-overrides",
    "--rope-scaling",
    "--enable-lora",
    "--enable-prompt-adapter",
    "--kv-transfer-config",
    "--enable-eplb",
    "--disable-sliding-window",
    "--prefill-context-parallel-size",
    "--offload-backend",
)
DRAFTLESS = frozenset({"ngram", "ngram_gpu", "suffix", "custom_class", "[ngram]"})


class Vllm:
    """vLLM's server."""

    NAME: ClassVar[str] = "vllm"
    FLAGS: ClassVar[Table] = table(
        {
            "value": [f.VALUES, f.EARLIER_VALUES],
            "switch": [f.SWITCHES, f.EARLIER_SWITCHES],
            "list": [f.LISTS, f.EARLIER_LISTS],
            "optional": [f.OPTIONALS, f.EARLIER_OPTIONALS, "-O"],
        },
        dashes=True,
        attached=("-O",),
    )
    WHEN_SHORT: ClassVar[str] = "refuses"
    CHANGES: ClassVar[Mapping[str, str]] = {
        "ctx": "--max-model-len {}",
        "cache": "--kv-cache-dtype {}",
        "tp": "--tensor-parallel-size {}",
        "utilization": "--gpu-memory-utilization {}",
        "weights": "--quantization {}",
    }

    def arguments_of(self, words: tuple[str, ...]) -> tuple[str, ...] | None:
        """What stands behind `vllm serve` or the module of a server."""
        if words[0] == "vllm":
            return words[2:] if words[1:2] == ("serve",) else None
        found = module_arguments(words, MODULES)
        return found[1:] if found is not None and found[:1] == ("serve",) else found

    def asked(self, arguments: Arguments, launch: Launch) -> Asked:
        """The question behind vLLM's flags."""
        notes: list[str] = []
        fields: dict[str, Any] = {
            "ctx": self._length(arguments, notes),
            "tp": whole(arguments, "--tensor-parallel-size") or 1,
            "pp": whole(arguments, "--pipeline-parallel-size") or 1,
            "dp": whole(arguments, "--data-parallel-size") or 1,
            "dcp": whole(arguments, "--decode-context-parallel-size") or 1,
            "utilization": share(arguments, "--gpu-memory-utilization"),
            "available_bytes": human(arguments, "--kv-cache-memory-bytes"),
        }
        if arguments.switch("--enable-expert-parallel"):
            fields["ep"] = fields["tp"] * fields["dp"]
        cache = arguments.text("--kv-cache-dtype")
        if cache not in (None, "auto"):
            fields["k_dtype"] = CACHE_FORMATS.get(cache or "", cache)
        _weights(arguments, fields)
        options = _speculation(arguments, fields, notes)
        batched = human(arguments, "--max-num-batched-tokens")
        if batched is not None:
            options["max_num_batched_tokens"] = str(batched)
        backend = arguments.text("--attention-backend") or launch.environment.get("VLLM_ATTENTION_BACKEND")
        if backend:
            options["attention_backend"] = backend.upper().removesuffix("_VLLM_V1")
        if (config := arguments.text("--config")) is not None:
            notes.append(f"--config {config}: not read; what it sets is not in this answer")
        uncounted = tuple(
            arguments.typed[flag] for flag in UNCOUNTED if flag in arguments.typed and arguments.values.get(flag, True)
        )
        return Asked(
            model=arguments.text("--model") or (arguments.positional[0] if arguments.positional else None),
            fields=fields,
            options=options,
            read=READ,
            notes=tuple(notes),
            uncounted=uncounted,
            parallel=whole(arguments, "--max-num-seqs"),
            nodes=_nodes(arguments),
        )

    @staticmethod
    def _length(arguments: Arguments, notes: list[str]) -> int | str:
        text = arguments.text("--max-model-len")
        if text is None:
            notes.append("no --max-model-len: vLLM takes the model's maximum")
            return "max"
        return "auto" if text.strip().lower() in ("-1", "auto") else human(arguments, "--max-model-len") or 1


READ = frozenset(
    """--model --max-model-len --tensor-parallel-size --pipeline-parallel-size --data-parallel-size
    --decode-context-parallel-size --gpu-memory-utilization --kv-cache-memory-bytes --enable-expert-parallel
    --kv-cache-dtype --quantization --dtype --speculative-config --speculative-model --num-speculative-tokens
    --max-num-batched-tokens --max-num-seqs --config""".split()
)


def _nodes(arguments: Arguments) -> int | None:
    """Machines that share the ranks; None where Ray or other processes bring more."""
    elsewhere = ("--data-parallel-size-local", "--data-parallel-rank", "--data-parallel-start-rank")
    if arguments.text("--distributed-executor-backend") == "ray" or any(flag in arguments.typed for flag in elsewhere):
        return None
    return whole(arguments, "--nnodes") or 1


def _weights(arguments: Arguments, fields: dict[str, Any]) -> None:
    """The stored format of the weights, and the cache of a model that runs in fp32."""
    method = arguments.text("--quantization")
    if method in QUANTIZED:
        fields["weights"] = QUANTIZED[method]
    if arguments.text("--dtype") in ("float", "float32"):
        fields.setdefault("k_dtype", "fp32")
        fields.setdefault("weights", "fp32")


def _speculation(arguments: Arguments, fields: dict[str, Any], notes: list[str]) -> dict[str, str]:
    """Draft layers or a draft model, and the tokens drafted per step as an engine option."""
    config = arguments.document("--speculative-config")
    if not config and (earlier := arguments.text("--speculative-model")) is not None:
        config = {"model": earlier, "num_speculative_tokens": whole(arguments, "--num-speculative-tokens")}
    if not config:
        return {}
    method, model = str(config.get("method") or ""), config.get("model")
    if model is not None and not isinstance(model, str):
        what = f"--speculative-config: model: found {quoted(model)}, allowed a name"
        raise InputError(what, 'for example {"model": "Qwen/Qwen3-0.6B", "num_speculative_tokens": 3}')
    drafted = config.get("num_speculative_tokens")
    options = {"num_speculative_tokens": str(drafted)} if type(drafted) is int and 0 <= drafted < 10**4 else {}
    if method in DRAFTLESS or model in DRAFTLESS:
        notes.append(f"speculative decoding by {method or model} keeps no cache of its own")
        return {}
    if method in ("eagle", "eagle3", "dflash", "dspark") or "eagle" in str(model).lower():
        fields["mtp"] = 1
        notes.append("the draft head is counted as one more layer like the model's last")
    elif method.endswith("mtp") or (not method and model is None):
        fields["mtp"] = 1
    elif isinstance(model, str):
        fields["draft"] = model
    return options


SERVER = Vllm()
