"""`mlx_lm.server`: MLX-LM's flags as a question.

Source: MLX-LM 0.32.2, `mlx_lm/server.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from kvplan.serving import Asked
from kvplan.serving.flags import Arguments, Table, table
from kvplan.serving.launch import Launch
from kvplan.serving.python_module import module_arguments
from kvplan.serving.values import whole

VALUES = """
--adapter-path --allowed-origins --chat-template --chat-template-args --decode-concurrency --draft-model --host
--kv-bits --kv-group-size --log-level --max-tokens --min-p --model --num-draft-tokens --port --prefill-step-size
--prompt-cache-bytes --prompt-cache-size --prompt-concurrency --quantized-kv-start --temp --top-k --top-p
--prompt --max-kv-size --seed
"""
SWITCHES = "--pipeline --trust-remote-code --use-default-chat-template --help|-h"
MODULES = ("mlx_lm.server", "mlx_lm.generate", "mlx_lm.chat", "mlx_lm")


class Mlx:
    """MLX-LM's server."""

    NAME: ClassVar[str] = "mlx"
    FLAGS: ClassVar[Table] = table({"value": [VALUES], "switch": [SWITCHES]})
    WHEN_SHORT: ClassVar[str] = "spills"
    CHANGES: ClassVar[Mapping[str, str]] = {"kv_bits": "--kv-bits {}"}

    def arguments_of(self, words: tuple[str, ...]) -> tuple[str, ...] | None:
        """What stands behind `mlx_lm.server`, `mlx_lm server` or the module."""
        found = words[1:] if words[0] in ("mlx_lm.server", "mlx_lm") else module_arguments(words, MODULES)
        return found[1:] if found is not None and found[:1] in (("server",), ("generate",), ("chat",)) else found

    def asked(self, arguments: Arguments, launch: Launch) -> Asked:
        """The question behind mlx_lm.server's flags."""
        fields = {}
        draft = arguments.text("--draft-model")
        if draft is not None:
            fields["draft"] = draft
        notes = ("mlx_lm.server bounds no length: --ctx says how long a conversation gets",)
        parallel = whole(arguments, "--decode-concurrency")
        return Asked(
            arguments.text("--model"), fields, {}, frozenset({"--model", "--draft-model"}), notes, (), parallel
        )


SERVER = Mlx()
