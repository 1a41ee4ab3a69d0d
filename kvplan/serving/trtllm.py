"""`trtllm-serve`: TensorRT-LLM's flags as a question.

Source: TensorRT-LLM, `tensorrt_llm/commands/serve.py` (commit 00209af149e7). `--kv_cache_dtype`,
`--enable_attention_dp` and the telemetry switch are not in it: taken for flags of later releases, not verified.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from kvplan.serving import Asked
from kvplan.serving.flags import Arguments, Table, table
from kvplan.serving.launch import Launch
from kvplan.serving.python_module import module_arguments
from kvplan.serving.values import share, whole

VALUES = """
--backend --chat_template --config|--extra_llm_api_options --context_parallel_size|--cp_size --custom_module_dirs
--custom_tokenizer --disagg_cluster_uri --free_gpu_memory_fraction|--kv_cache_free_gpu_memory_fraction
--gpus_per_node --host --log_level --max_batch_size --max_beam_width --max_num_tokens --max_seq_len
--media_io_kwargs --metadata_server_config_file --moe_cluster_parallel_size|--cluster_size
--moe_expert_parallel_size|--ep_size --num_postprocess_workers --otlp_traces_endpoint
--pipeline_parallel_size|--pp_size --port --reasoning_parser --revision --server_role
--tensor_parallel_size|--tp_size --tokenizer --tool_parser --kv_cache_dtype
"""
SWITCHES = """
--enable_chunked_prefill --fail_fast_on_attention_window_too_large --trust_remote_code --enable_attention_dp
--no-telemetry|--telemetry --help
"""
CACHE_FORMATS = {"bfloat16": "bf16", "float16": "fp16", "nvfp4": "nvfp4"}


class Trtllm:
    """TensorRT-LLM's server."""

    NAME: ClassVar[str] = "trtllm"
    FLAGS: ClassVar[Table] = table({"value": [VALUES], "switch": [SWITCHES]}, prefixes=False)
    WHEN_SHORT: ClassVar[str] = "shortens"
    CHANGES: ClassVar[Mapping[str, str]] = {
        "ctx": "--max_seq_len {}",
        "tp": "--tp_size {}",
        "utilization": "--kv_cache_free_gpu_memory_fraction {}",
        "cache": "kv_cache_config: {{dtype: {}}} in --config",
    }

    def arguments_of(self, words: tuple[str, ...]) -> tuple[str, ...] | None:
        """What stands behind `trtllm-serve`, whose verb `serve` may be left out."""
        found = words[1:] if words[0] == "trtllm-serve" else module_arguments(words, ("tensorrt_llm.commands.serve",))
        if found is None:
            return None
        if found[:1] in (("disaggregated",), ("disaggregated_mpi_worker",), ("mm_embedding_serve",)):
            return None
        return found[1:] if found[:1] in (("serve",), ("grpc",)) else found

    def asked(self, arguments: Arguments, launch: Launch) -> Asked:
        """The question behind trtllm-serve's flags."""
        notes: list[str] = []
        length = whole(arguments, "--max_seq_len")
        if length is None:
            notes.append("no --max_seq_len: TensorRT-LLM takes the model's maximum")
        fields: dict[str, Any] = {
            "ctx": length or "max",
            "tp": whole(arguments, "--tensor_parallel_size") or 1,
            "pp": whole(arguments, "--pipeline_parallel_size") or 1,
            "utilization": share(arguments, "--free_gpu_memory_fraction"),
        }
        if (ep := whole(arguments, "--moe_expert_parallel_size")) is not None:
            fields["ep"] = ep
        cache = arguments.text("--kv_cache_dtype")
        if cache not in (None, "auto"):
            fields["k_dtype"] = CACHE_FORMATS.get(cache or "", cache)
        if (config := arguments.text("--config")) is not None:
            notes.append(f"--config {config}: not read; what it sets is not in this answer")
        uncounted = tuple(arguments.typed[flag] for flag in ("--context_parallel_size",) if flag in arguments.typed)
        return Asked(
            model=arguments.positional[0] if arguments.positional else None,
            fields=fields,
            options={},
            read=READ,
            notes=tuple(notes),
            uncounted=uncounted,
            parallel=whole(arguments, "--max_batch_size"),
            nodes=None,  # MPI starts it once per rank, on as many machines as it is told
        )


READ = frozenset(
    """--max_seq_len --tensor_parallel_size --pipeline_parallel_size --moe_expert_parallel_size
    --free_gpu_memory_fraction --kv_cache_dtype --config --max_batch_size""".split()
)


SERVER = Trtllm()
