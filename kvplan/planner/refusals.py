"""What makes an engine refuse a serve command before memory matters: ranks, cards and lengths."""

from __future__ import annotations

from kvplan.question import Question, subject
from kvplan.results import SizeResult
from kvplan.serving import Served
from kvplan.serving.launch import Launch
from kvplan.spec import ModelSpec

EVEN_HEADS = frozenset({"vllm", "sglang", "trtllm"})
"""Engines that want the attention heads divided evenly over the tensor-parallel ranks."""

LONGER = {"vllm": "VLLM_ALLOW_LONG_MAX_MODEL_LEN", "sglang": "SGLANG_ALLOW_OVERWRITE_LONGER_CONTEXT_LEN"}
"""The variable without which an engine refuses a length past the model's maximum."""


def refusals(served: Served, launch: Launch, question: Question, answer: SizeResult) -> tuple[str, ...]:
    """Why the engine would refuse this command, whatever the memory; nothing where it would not."""
    spec, w = subject(question).spec, answer.workload
    found = []
    if answer.engine and "refused" in answer.engine:
        found.append(f"{answer.engine['refused']}")
    elif served.engine in EVEN_HEADS and not even_heads(spec, w.tp):
        listed = ", ".join(f"{count:,}" for count in head_counts(spec))
        found.append(f"{listed} attention heads do not divide evenly over {w.tp} ranks")
    ranks = w.tp * w.pp * w.dp
    given = launch.cards * served.nodes if launch.cards is not None and served.nodes is not None else None
    if given is not None and ranks > given:
        found.append(f"it wants {ranks:,} cards and is given {given:,}")
    most, variable = spec.fields.max_context, LONGER.get(served.engine)
    asked = served.fields.get("ctx")
    if variable and most is not None and isinstance(asked, int) and asked > most and w.context > most:
        allowed = launch.environment.get(variable, "").lower() in ("1", "true", "yes")
        scaled = any("rope" in flag or "override" in flag for flag in served.uncounted)
        if not allowed and not scaled and spec.name == answer.model:
            found.append(f"{asked:,} tokens are past the model's maximum of {most:,} ({variable}=1 allows it)")
    return tuple(found)


def head_counts(spec: ModelSpec) -> list[int]:
    """The numbers of query heads that layers of `spec` have."""
    named = (getattr(kind, "heads", None) for _, layer in spec.layers() for kind in layer.kinds)
    return sorted({count for count in named if count})


def even_heads(spec: ModelSpec, tp: int) -> bool:
    """Whether `tp` ranks share every layer's heads evenly."""
    return all(count % tp == 0 for count in head_counts(spec))
