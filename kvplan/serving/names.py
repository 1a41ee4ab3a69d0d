"""Names that stand for a model elsewhere: quantized copies, tuned copies, GGUF files and Ollama's tags.

Such a name is its family's name and a few known endings. What is left may be a model of the catalogue; the
answer then says which, since a copy has the same layers but may state another maximum length.
"""

from __future__ import annotations

import re

from kvplan.record import Record


class Candidate(Record):
    """A name to look for, and the weights' format that the longer name stated.

    dated: a later edition of the model, whose maximum length is its own.
    """

    name: str
    weights: str | None
    dated: bool = False


ENDINGS: tuple[tuple[str, str | None], ...] = (
    (r"-gguf", None),
    (r"-(unsloth-)?bnb-4bit", "int4"),
    (r"-awq(-int4|-4bit)?", "awq"),
    (r"-gptq(-int4|-4bit|-4b)?(-g?128g?)?", "gptq"),
    (r"-gptq-int8", "int8"),
    (r"-autoround(-gptq|-awq)?(-int4)?|-int4-(mixed-)?autoround", "gptq"),
    (r"-(fp8|w8a8-fp8)(-dynamic|-block|-kv|-static|-tensor|-hq)*", "fp8"),
    (r"-(nvfp4|fp4)(a16)?", "nvfp4"),
    (r"-mxfp4(-[a-z]+)?", "mxfp4"),
    (r"-quantized\.w4a16|-w4a16(-g128)?", "gptq"),
    (r"-quantized\.w8a8|-w8a8", "int8"),
    (r"-quantized\.w8a16|-w8a16", "int8"),
    (r"-int4", "int4"),
    (r"-(8bit|int8)(-mlx)?", "int8"),
    (r"-4bit(-mlx)?(-dwq)?", "int4_g64"),
    (r"-(bf16|fp16)", None),
    (r"-(mlx|hf|safetensors|text-only)", None),
    (r"-qat|-heretic|-abliterated", None),
    (r"-(it|instruct|chat|base|pt|thinking)(-v\d+(\.\d+)*)?", None),
    (r"-\d{4}", None),
)
"""Endings (patterns) that change no layer, with the format of the weights that they state."""

_ENDINGS = tuple((re.compile(rf"(?:{pattern})$"), weights) for pattern, weights in ENDINGS)
_GGUF = re.compile(r"[-_.](bf16|f16|f32|mxfp4|(?:ud-)?i?q[1-8](?:_[a-z0-9]+)*)$")
_PART = re.compile(r"-\d{5}-of-\d{5}$")
_TAG = re.compile(r"([a-z][a-z.-]*?)-?(\d+(?:\.\d+)*)?(-[a-z0-9.-]+)?:([a-z0-9._-]+)")
_SIZE = re.compile(r"(e?\d+(?:\.\d+)?[bm](?:-a\d+(?:\.\d+)?b)?)(?:-(.*))?")
_PREFIXES = ("meta-", "hf.co/", "nvidia-", "qwen_", "google_", "mistralai_")
LONGEST = 200


def candidates(text: str) -> list[Candidate]:
    """What `text` may be called in the catalogue, nearest first; its own name stands first.

    >>> [c.name for c in candidates("unsloth/Qwen3-32B-GGUF")]
    ['unsloth/Qwen3-32B-GGUF', 'qwen3-32b-gguf', 'qwen3-32b']
    >>> candidates("RedHatAI/Meta-Llama-3.1-70B-Instruct-FP8-dynamic")[-1]
    Candidate(name='llama-3.1-70b', weights='fp8', dated=False)
    """
    found = [Candidate(text, None)]
    if len(text) > LONGEST:
        return found
    lowered = text.strip().rstrip("/").lower().replace("\\", "/")
    if ":" in lowered and "/" not in lowered.partition(":")[2] and not lowered.startswith(("/", ".")):
        found += _of_tag(lowered.rsplit("/", 1)[-1])
        lowered = lowered.partition(":")[0]
    name = lowered.rsplit("/", 1)[-1].removesuffix(".gguf")
    name = _PART.sub("", name)
    weights: str | None = None
    dated = False
    if (match := _GGUF.search(name)) is not None:
        name, weights = name[: match.start()], match[1].removeprefix("ud-")
    for _ in range(8):
        found.append(Candidate(name, weights, dated))
        found += [Candidate(name.removeprefix(p), weights, dated) for p in _PREFIXES if name.startswith(p)]
        for pattern, stated in _ENDINGS:
            match = pattern.search(name)
            if match is not None and match.start():
                name, weights = name[: match.start()], weights or stated
                dated = dated or match[0][1:].isdigit()
                break
        else:
            break
    return list({c.name: c for c in reversed(found)}.values())[::-1]


def _of_tag(text: str) -> list[Candidate]:
    """Ollama's `family:size-variant-quant`, whose plain tags are published as Q4_K_M.

    >>> [c.name for c in candidates("llama3.1:70b")][:3]
    ['llama3.1:70b', 'llama3.1-70b', 'llama-3.1-70b']
    """
    match = _TAG.fullmatch(text)
    if match is None:
        return []
    family, number, more, tag = match.groups()
    size = _SIZE.fullmatch(tag)
    if size is None:
        return []
    rest = size[2] or ""
    quant = re.search(r"(?:^|-)(fp16|bf16|mxfp4|q[2-8](?:_[a-z0-9]+)*)$", rest)
    stem = f"{family}{number or ''}{more or ''}"
    weights = quant[1] if quant else "mxfp4" if stem.startswith("gpt-oss") else "q4_k_m"
    dashed = f"{family}-{number}{more or ''}" if number else stem
    return [Candidate(f"{name}-{size[1]}", weights) for name in dict.fromkeys((stem, dashed))]
