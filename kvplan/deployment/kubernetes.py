"""Kubernetes manifests: the containers of whatever holds a pod, with their variables, cards and kind of card.

A pod is found wherever a mapping has `containers`, so Deployments, StatefulSets, Jobs, CronJobs, LeaderWorkerSets,
KServe's predictors and the resources of other operators are read alike.

Source: Kubernetes API reference, PodSpec and Container (`$(NAME)` expansion); labels of NVIDIA's GPU feature
discovery and of GKE.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from kvplan.errors import InputError, printable
from kvplan.serving.launch import Launch, launch_of, started_by_image

MOST_PODS = 500
DEEPEST = 40
MOST_CHARACTERS = 65_536
GROUP = "kvplan/pods-of-a-group"
"""The key under which a pod carries how many pods of its kind work as one."""

_PLACE = re.compile(r"\$(\$|\(([A-Za-z_][A-Za-z0-9_.-]*)\))")
CARD_RESOURCES = ("nvidia.com/gpu", "amd.com/gpu", "gpu.intel.com/i915", "habana.ai/gaudi", "google.com/tpu")
PRODUCT_LABELS = ("nvidia.com/gpu.product", "cloud.google.com/gke-accelerator", "amd.com/gpu.product-name")
ACCELERATORS = {
    "nvidia-tesla-t4": "t4",
    "nvidia-tesla-v100": "v100-sxm2-16gb",
    "nvidia-tesla-a100": "a100-sxm-40gb",
    "nvidia-tesla-p100": "p100-16gb",
    "nvidia-a100-80gb": "a100-sxm-80gb",
    "nvidia-h100-80gb": "h100-sxm-80gb",
    "nvidia-h100-mega-80gb": "h100-sxm-80gb",
    "nvidia-h200-141gb": "h200-sxm",
    "nvidia-b200": "b200-sxm",
    "nvidia-rtx-pro-6000": "rtx-pro-6000-server",
}
"""GKE's names of accelerators -> GPUs of the catalogue, where the catalogue does not know the name itself."""


def workloads(documents: list[Any], name: str) -> list[Launch]:
    """The serve commands of every container of every pod.

    Raises: InputError for a container that cannot be read.
    """
    found: list[Launch] = []
    maps = _config_maps(documents)
    for document in documents:
        for item in _items(document):
            title = _title(item)
            pods = list(_pods(item, 0))
            if len(pods) > MOST_PODS:
                raise InputError(f"{name}: {title}: more than {MOST_PODS} pods", "split the file")
            for pod in pods:
                found += _pod(pod, f"{name}: {title}", maps)
    return found


def _config_maps(documents: list[Any]) -> dict[str, dict[str, str]]:
    """The data of the config maps that stand in the same file, by name."""
    found: dict[str, dict[str, str]] = {}
    for document in documents:
        for item in _items(document):
            metadata, data = item.get("metadata"), item.get("data")
            if item.get("kind") == "ConfigMap" and isinstance(metadata, dict) and isinstance(data, dict):
                found[str(metadata.get("name"))] = {str(key): str(value) for key, value in data.items()}
    return found


def _items(document: Any) -> Iterator[dict[str, Any]]:
    """The resources of a document: itself, or those of a List."""
    if not isinstance(document, dict):
        return
    if str(document.get("kind", "")).endswith("List") and isinstance(document.get("items"), list):
        yield from (item for item in document["items"] if isinstance(item, dict))
    else:
        yield document


def _title(item: dict[str, Any]) -> str:
    metadata = item.get("metadata")
    named = metadata.get("name", "?") if isinstance(metadata, dict) else "?"
    return f"{printable(item.get('kind', '?'))} {printable(named)}"


def _pods(node: Any, depth: int) -> Iterator[dict[str, Any]]:
    """Every mapping with containers, outermost first; KServe's `model` counts as a container."""
    if depth > DEEPEST:
        return
    if isinstance(node, dict):
        if isinstance(node.get("containers"), list):
            yield node
            return
        model = node.get("model")
        if isinstance(model, dict) and ("args" in model or "command" in model):
            yield {**node, "containers": [model]}
            return
        size = node.get("size") if "leaderTemplate" in node or "workerTemplate" in node else None
        for value in node.values():
            for pod in _pods(value, depth + 1):
                yield {**pod, GROUP: size} if isinstance(size, int) else pod
    elif isinstance(node, list):
        for value in node:
            yield from _pods(value, depth + 1)


def _pod(pod: dict[str, Any], place: str, maps: dict[str, dict[str, str]]) -> list[Launch]:
    found: list[Launch] = []
    gpu, pods = _product(pod), pod.get(GROUP, 1)
    for container in pod["containers"]:
        if not isinstance(container, dict):
            raise InputError(f"{place}: a container is a mapping, found {printable(container)}", "image, command, args")
        named = f"{place}: {printable(container['name'])}" if container.get("name") else place
        environment = _environment(container, maps, named)
        cards = _cards(container)
        around = Launch((), environment, cards=cards * pods if cards else None, gpu=gpu, place=named)
        command = _words(container.get("command"), environment, named)
        arguments = _words(container.get("args"), environment, named) or []
        image = container.get("image")
        if isinstance(image, str):
            around = around.replace(image=image)
            found += started_by_image(image, command, arguments, around)
        else:
            found += launch_of([*(command or ()), *arguments], around)
    return found


def _environment(container: dict[str, Any], maps: dict[str, dict[str, str]], place: str) -> dict[str, str]:
    """The variables that stand in the file, config maps included; what a secret holds is not known.

    Raises: InputError when variables that hold variables grow without end.
    """
    found: dict[str, str] = {}
    room = MOST_CHARACTERS
    for item in _mappings(container.get("envFrom")):
        reference = item.get("configMapRef")
        if isinstance(reference, dict):
            prefix = str(item.get("prefix") or "")
            held = maps.get(str(reference.get("name")), {})
            room = _left(room, len(held), place)
            found |= {prefix + key: text for key, text in held.items()}
    for item in _mappings(container.get("env")):
        name, value = item.get("name"), item.get("value", "")
        if isinstance(item.get("valueFrom"), dict):
            reference = item["valueFrom"].get("configMapKeyRef")
            held = maps.get(str(reference.get("name")), {}) if isinstance(reference, dict) else {}
            value = held.get(str(reference.get("key"))) if isinstance(reference, dict) else None
        if isinstance(name, str) and value is not None:
            found[name] = expanded(str(value).lower() if isinstance(value, bool) else str(value), found, place)
            room = _left(room, len(found[name]), place)
    return found


def _left(room: int, taken: int, place: str) -> int:
    """The characters of variables that remain.

    Raises: InputError when there are none.
    """
    if taken > room:
        raise InputError(f"{place}: variables grow past {MOST_CHARACTERS:,} characters", "write the values out")
    return room - taken


def _mappings(value: Any) -> list[dict[str, Any]]:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def expanded(text: str, environment: Mapping[str, str], place: str) -> str:
    """`text` with `$(NAME)` filled in; an unknown name stays, and `$$(NAME)` is the text `$(NAME)`.

    >>> expanded("$(A)-$(B)-$$(A)", {"A": "1"}, "pod")
    '1-$(B)-$(A)'

    Raises: InputError when it grows without end.
    """
    room = MOST_CHARACTERS

    def filled(match: re.Match[str]) -> str:
        nonlocal room
        value = "$" if match[1] == "$" else environment.get(match[2], match[0])
        room = _left(room, len(value), place)
        return value

    return _PLACE.sub(filled, text)


def _words(value: Any, environment: Mapping[str, str], place: str) -> list[str] | None:
    if value is None:
        return None
    if not isinstance(value, list):
        raise InputError(f"{place}: command and args are lists, found {printable(value)}", "one item a word")
    found: list[str] = []
    room = MOST_CHARACTERS
    for item in value:
        if isinstance(item, str | int | float):
            found.append(expanded(str(item), environment, place))
            room = _left(room, len(found[-1]), place)
    return found


def _cards(container: dict[str, Any]) -> int | None:
    """GPUs that a container's limits, else its requests, ask for."""
    resources = container.get("resources")
    for part in ("limits", "requests"):
        listed = resources.get(part) if isinstance(resources, dict) else None
        for key in CARD_RESOURCES:
            text = str(listed.get(key, "")) if isinstance(listed, dict) else ""
            if text.isdigit() and len(text) < 6 and int(text):
                return int(text)
    return None


def _product(pod: dict[str, Any]) -> str | None:
    """The kind of card that a pod asks its node for, by label; None where it names none or several."""
    selector = pod.get("nodeSelector")
    for label in PRODUCT_LABELS:
        value = selector.get(label) if isinstance(selector, dict) else None
        if value is None:
            value = _required(pod.get("affinity"), label)
        if isinstance(value, str) and value:
            return ACCELERATORS.get(value.lower(), value)
    return None


def _required(affinity: Any, label: str) -> str | None:
    """The one value that a node affinity requires of a label."""
    for key in ("nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms"):
        affinity = affinity.get(key) if isinstance(affinity, dict) else None
    for term in affinity if isinstance(affinity, list) else ():
        listed = term.get("matchExpressions") if isinstance(term, dict) else None
        for rule in listed if isinstance(listed, list) else ():
            if not isinstance(rule, dict) or rule.get("key") != label or rule.get("operator") != "In":
                continue
            values = rule.get("values")
            if isinstance(values, list) and len(values) == 1:
                return str(values[0])
    return None
