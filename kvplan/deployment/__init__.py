"""Deployment files: the serve commands that a Dockerfile, a compose file or a Kubernetes manifest starts.

Nothing is built, pulled or executed, and no other file is read. A variable that only the cluster or the shell of
whoever deploys knows stays as it is written; the answer refuses it where it matters.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import PurePath

from kvplan.deployment import compose, dockerfile, kubernetes, unit
from kvplan.errors import InputError
from kvplan.serving.launch import Launch, launches
from kvplan.yaml_text import load_documents

Reader = Callable[[str, str, Mapping[str, str]], list[Launch]]


def deployed(text: str, name: str, environment: Mapping[str, str]) -> list[Launch]:
    """The serve commands of a deployment file, in order.

    name: what the file is called; errors begin with it. environment: what `--env` says, for variables that the
    file takes from outside.

    Raises: InputError for a file of another kind, or one that starts nothing that kvplan reads.
    """
    found = _reader(text, name)(text, name, environment)
    if not found:
        raise InputError(
            f"{name}: starts no engine that kvplan reads",
            "commands of vllm, sglang, llama.cpp, ollama, trtllm and mlx_lm are; give a script's own command with --serve",
        )
    return found


def _reader(text: str, name: str) -> Reader:
    """How to read a file, by its name and its first words."""
    file = PurePath(name).name.lower()
    if file.startswith(("dockerfile", "containerfile")) or file.endswith((".dockerfile", ".containerfile")):
        return dockerfile.read
    if file.endswith((".service", ".container")):
        return unit.read
    if file.endswith((".sh", ".bash")) or text.startswith("#!"):
        return _script
    if file.endswith((".yaml", ".yml", ".json")):
        return _yaml
    if dockerfile.begins(text):
        return dockerfile.read
    return _yaml


def _script(text: str, name: str, environment: Mapping[str, str]) -> list[Launch]:
    return launches(text, Launch((), environment=environment, place=name))


def _yaml(text: str, name: str, environment: Mapping[str, str]) -> list[Launch]:
    if "{{" in text and ("{{-" in text or ".Values" in text or "{{ ." in text):
        raise InputError(f"{name}: a template, not yet a manifest", "render it first: helm template … > rendered.yaml")
    documents = load_documents(text, name)
    first = next((document for document in documents if isinstance(document, dict)), {})
    if isinstance(first.get("services"), dict):
        return compose.services(first, name, environment)
    if any(isinstance(document, dict) and "kind" in document for document in documents):
        return kubernetes.workloads(documents, name)
    raise InputError(
        f"{name}: neither a Dockerfile, a compose file nor a Kubernetes manifest",
        "a compose file has `services`, a manifest has `kind`",
    )
