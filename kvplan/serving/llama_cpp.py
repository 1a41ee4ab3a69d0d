"""`llama-server` and `llama-cli`: llama.cpp's flags, and the environment variables behind them, as a question.

`-c` is for all slots together: with a unified cache one sequence may take it all, else each slot gets its part.

Source: llama.cpp as of llama-cpp-python 0.3.36, `common/arg.cpp` and `tools/server/server.cpp`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, ClassVar

from kvplan.serving import Asked
from kvplan.serving import llama_cpp_flags as f
from kvplan.serving.flags import Arguments, Table, table
from kvplan.serving.launch import Launch
from kvplan.serving.python_module import module_arguments
from kvplan.serving.values import whole

PROGRAMS = frozenset({"llama-server", "llama-cli", "llama-completion"})
CACHE_TYPES = {"f32": "fp32", "f16": "fp16", "bf16": "bf16"}
AUTOMATIC_SLOTS = 4
VARIABLES = {
    "LLAMA_ARG_MODEL": "--model",
    "LLAMA_ARG_HF_REPO": "--hf-repo",
    "LLAMA_ARG_CTX_SIZE": "--ctx-size",
    "LLAMA_ARG_N_PARALLEL": "--parallel",
    "LLAMA_ARG_CACHE_TYPE_K": "--cache-type-k",
    "LLAMA_ARG_CACHE_TYPE_V": "--cache-type-v",
    "LLAMA_ARG_UBATCH": "--ubatch-size",
    "LLAMA_ARG_BATCH": "--batch-size",
    "LLAMA_ARG_N_GPU_LAYERS": "--n-gpu-layers",
    "LLAMA_ARG_FLASH_ATTN": "--flash-attn",
    "LLAMA_ARG_KV_UNIFIED": "--kv-unified",
    "LLAMA_ARG_SPLIT_MODE": "--split-mode",
    "LLAMA_ARG_TENSOR_SPLIT": "--tensor-split",
}
"""Environment variables that stand for flags that are not given."""

UNCOUNTED = ("-ot", "-cmoe", "-ncmoe", "-ncffn", "--override-kv", "--lora", "-mm", "-gan", "--control-vector", "--rpc")
_QUANT = re.compile(r"(?:^|[-_.:])(bf16|f16|f32|mxfp4|(?:i?q)[1-8](?:_[a-z0-9]+)*)(?=$|[-.])", re.IGNORECASE)


class LlamaCpp:
    """llama.cpp's server and command line."""

    NAME: ClassVar[str] = "llama.cpp"
    FLAGS: ClassVar[Table] = table(
        {
            "value": [f.VALUES, f.EARLIER_VALUES],
            "switch": [f.SWITCHES, f.EARLIER_SWITCHES],
            "optional": [f.OPTIONALS],
            "two": [f.PAIRS],
        },
        prefixes=False,
        dashes=True,
        equals=False,
    )
    WHEN_SHORT: ClassVar[str] = "spills"
    CHANGES: ClassVar[Mapping[str, str]] = {"ctx": "-c {}", "cache": "-ctk {0} -ctv {0}", "batch": "-np {0} -c {1}"}

    def arguments_of(self, words: tuple[str, ...]) -> tuple[str, ...] | None:
        """What stands behind one of the tools."""
        if words[0] in PROGRAMS:
            return words[1:]
        if words[0] == "llama":
            return words[2:] if words[1:2] in (("serve",), ("server",), ("cli",)) else None
        return module_arguments(words, ())

    def asked(self, arguments: Arguments, launch: Launch) -> Asked:
        """The question behind llama.cpp's flags."""
        arguments = _with_environment(arguments, launch.environment)
        notes: list[str] = []
        server = "cli" not in launch.words[0] and "completion" not in launch.words[0]
        total = whole(arguments, "-c", least=0)
        slots, unified = _slots(arguments, server, notes)
        fields: dict[str, Any] = {"ctx": _length(total, slots, unified, notes), "batch": 1 if unified else slots}
        for flag, field in (("-ctk", "k_dtype"), ("-ctv", "v_dtype")):
            kind = arguments.text(flag)
            if kind is not None:
                fields[field] = CACHE_TYPES.get(kind, kind)
        options = _options(arguments, slots, unified)
        model, weights = _model(arguments)
        if weights is not None:
            fields["weights"] = weights
        draft = arguments.text("--spec-draft-model") or arguments.text("--spec-draft-hf")
        if draft is not None:
            fields["draft"] = draft
        uncounted = tuple(arguments.typed[flag] for flag in UNCOUNTED if flag in arguments.typed)
        return Asked(model, fields, options, READ, tuple(notes), uncounted, slots)


READ = frozenset(
    """-c -np -kvu -ctk -ctv -m -hf -hff --spec-draft-model --spec-draft-hf -ub -b -fa --swa-full -kvo -ngl
    -sm -ts""".split()
)


def _with_environment(arguments: Arguments, environment: Mapping[str, str]) -> Arguments:
    """The arguments with the variables that stand for flags not given."""
    values, typed = dict(arguments.values), dict(arguments.typed)
    for variable, flag in VARIABLES.items():
        name = LlamaCpp.FLAGS.named(flag)
        if name is None or name in values or variable not in environment:
            continue
        text = environment[variable]
        switch = LlamaCpp.FLAGS.kinds[name] == "switch"
        values[name] = text.lower() in ("on", "enabled", "true", "1") if switch else text
        typed[name] = variable
    return arguments.replace(values=values, typed=typed)


def _slots(arguments: Arguments, server: bool, notes: list[str]) -> tuple[int, bool]:
    """(slots, whether they share one cache): a server without `-np` has four that do."""
    unified = arguments.switch("-kvu")
    given = whole(arguments, "-np", least=-1)
    if not server:
        return (given if given and given > 0 else 1), bool(unified)
    if given is None or given < 0:
        notes.append(f"no -np: llama-server opens {AUTOMATIC_SLOTS} slots that share one cache")
        return AUTOMATIC_SLOTS, unified is not False
    return max(given, 1), bool(unified)


def _length(total: int | None, slots: int, unified: bool, notes: list[str]) -> int | str:
    """Tokens that one sequence may take."""
    if not total:
        notes.append("no -c: llama.cpp starts from the model's maximum; --fit may shorten it")
        return "max"
    if unified or slots == 1:
        return total
    notes.append(f"-c {total:,} over {slots} slots: {total // slots:,} tokens each")
    return max(total // slots, 1)


def _options(arguments: Arguments, slots: int, unified: bool) -> dict[str, str]:
    options = {"kv_unified": "true", "n_parallel": str(slots)} if unified and slots > 1 else {}
    for flag, key in (("-ub", "n_ubatch"), ("-b", "n_batch"), ("-sm", "split_mode"), ("-ts", "tensor_split")):
        if (text := arguments.text(flag)) is not None:
            options[key] = text.replace("/", ",")
    layers = arguments.text("-ngl")
    if layers is not None and layers.isdigit():
        options["n_gpu_layers"] = layers
    attention = arguments.values.get("-fa")
    if attention in (True, "on", "1", "true", "enabled"):
        options["flash_attn"] = "on"
    elif attention in ("off", "0", "false", "disabled"):
        options["flash_attn"] = "off"
    if arguments.switch("--swa-full"):
        options["swa_full"] = "true"
    if arguments.switch("-kvo") is False:
        options["no_kv_offload"] = "true"
    return options


def _model(arguments: Arguments) -> tuple[str | None, str | None]:
    """(what names the model, the weights' format where the name states it)."""
    repository = arguments.text("-hf")
    if repository is not None:
        name, _, quant = repository.partition(":")
        named = quant or (arguments.text("-hff") or "")
        return name, format_in(named)
    path = arguments.text("-m")
    return path, None if path is None else format_in(path)


def format_in(name: str) -> str | None:
    """The stored format that a GGUF's name or tag states, in lower case; None where it states none.

    >>> format_in("Qwen3-32B-Q4_K_M.gguf"), format_in("BF16"), format_in("model.gguf")
    ('q4_k_m', 'bf16', None)
    """
    match = _QUANT.search(name.removesuffix(".gguf").split("-of-")[0].replace("-00001", "")[-200:])
    return {"f16": "fp16", "f32": "fp32"}.get(match[1].lower(), match[1].lower()) if match else None


SERVER = LlamaCpp()
