"""Which model a log is about: the one that was named, the facts of its own file, or a name it prints."""

from __future__ import annotations

import re

from kvplan.catalogue import find, model_named, names, spec_folders
from kvplan.errors import InputError, KvplanError, nearest, quoted
from kvplan.logs import Reading
from kvplan.spec import ModelSpec

LONGEST_NAME = 300
STORED = re.compile(
    r"[-_.](?:awq(?:-?\d?bit)?|gptq|fp8(?:-(?:dynamic|block))?|nvfp4|mxfp4|int[248]|w[248]a(?:4|8|16)|quantized|autoround|exl3|exl2|bnb(?:-4bit)?|[2348]bit"
    r"|g?gguf|i?q[2-8](?:_[a-z0-9]{1,3}){0,2}|iq[1-4]_[a-z]{1,3}|ud|bf16|fp16|f16|f32|qat|unsloth|turbo|hf|imat|dynamic|redhatai|mlx)$"
)
TUNED = re.compile(r"[-_](?:instruct|it|chat|base|pt|thinking|sft|dpo|rl|\d{4}|v\d(?:\.\d)?)$")


def model_of(reading: Reading, named: str | None, specs: str | None, online: bool) -> tuple[ModelSpec, str]:
    """(the spec, how it was found).

    Raises: InputError where the log names no model that is known; as the readers of specs do for `named`.
    """
    if named is not None:
        return model_named(named, specs, online)[0], f"--model {named}"
    why = ""
    if reading.metadata:
        from kvplan.importers.gguf import read_metadata

        try:
            return read_metadata(reading.metadata, "the log").spec, "the file's metadata in the log"
        except KvplanError as error:
            why = error.what
    for text in reading.models:
        found = _known(text, specs)
        if found is not None:
            return found, f"the log says {quoted(text)}{'; its metadata is not enough' if why else ''}"
    raise _unknown(reading, specs, why)


def _known(text: str, specs: str | None) -> ModelSpec | None:
    """The spec of a name as engines print it: a hub id, a path, a file, with what its weights are stored in."""
    folders = spec_folders(specs)
    for name in candidates(text):
        if find(name, folders) is not None:
            return model_named(name, specs)[0]
    return None


def candidates(text: str) -> list[str]:
    """Names to look for, the most literal first.

    >>> candidates("RedHatAI/Qwen3-32B-quantized.w4a16")[-1]
    'qwen3-32b'
    >>> "qwen3-8b" in candidates("/models/models--Qwen--Qwen3-8B/snapshots/0123abcd")
    True
    """
    text = text[:LONGEST_NAME].strip().rstrip("/")
    hub = re.search(r"models--([\w.-]{1,96})--([\w.-]{1,96})", text)
    found = [text.lower(), *([f"{hub[1]}/{hub[2]}".lower(), hub[2].lower()] if hub else [])]
    name = (hub[2] if hub else text.replace("\\", "/").rpartition("/")[2]).lower().replace(" ", "-")
    name = name.removesuffix(".gguf")
    name = re.sub(r"-\d{5}-of-\d{5}$", "", name)
    for _ in range(8):
        found.append(name)
        shorter = STORED.sub("", name)
        if shorter == name:
            break
        name = shorter
    for _ in range(4):
        shorter = TUNED.sub("", name)
        if shorter == name:
            break
        found.append(name := shorter)
    found += [name.removeprefix("meta-") for name in found if name.startswith("meta-")]
    return list(dict.fromkeys(name for name in found if name))


def _unknown(reading: Reading, specs: str | None, why: str) -> InputError:
    said = ", ".join(quoted(name) for name in reading.models[:2])
    what = f"the log's model is not known: it says {said}" if said else "the log names no model"
    if why:
        what += f"; its metadata: {why}"
    known = [name for name, _, _ in names(spec_folders(specs))]
    asked = [name for text in reading.models[:1] for name in candidates(text)]
    close = nearest(asked[-1], known, least=0.4) if asked else []
    fix = f"add --model, nearest: {', '.join(close)}" if close else "add --model NAME, for example --model llama-3.1-8b"
    return InputError(what, fix)
