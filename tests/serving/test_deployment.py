"""Deployment files of every kind start what Docker, compose, Kubernetes and systemd would start."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from kvplan.catalogue import SHIPPED_GPUS, find
from kvplan.deployment import deployed
from kvplan.deployment.kubernetes import ACCELERATORS
from kvplan.errors import InputError

CASES = yaml.safe_load((Path(__file__).parents[1] / "data" / "deployments.yaml").read_text("utf-8"))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["title"])
def test_a_deployment_starts_its_commands(case: dict[str, Any]) -> None:
    """Words, image, cards, card and environment of each."""
    found = deployed(case["text"], case["name"], case.get("env", {}))
    assert [start["words"] for start in case["starts"]] == [list(launch.words) for launch in found]
    for start, launch in zip(case["starts"], found, strict=True):
        for key in ("image", "cards", "gpu", "place"):
            if key in start:
                assert start[key] == getattr(launch, key), key
        assert start.get("environment", {}).items() <= launch.environment.items()
        assert launch.place.startswith(case["name"])


def test_every_accelerator_is_in_the_catalogue() -> None:
    """GKE's names lead to GPUs that ship."""
    assert [] == [name for name in ACCELERATORS.values() if find(name, [SHIPPED_GPUS]) is None]


@pytest.mark.parametrize(
    "label",
    """NVIDIA-H100-80GB-HBM3 NVIDIA-A100-SXM4-80GB NVIDIA-A100-SXM4-40GB NVIDIA-A100-PCIE-40GB NVIDIA-L4 NVIDIA-L40S
    NVIDIA-H200 NVIDIA-B200 NVIDIA-A10G NVIDIA-A10 Tesla-T4 NVIDIA-H100-NVL NVIDIA-H100-PCIe NVIDIA-GeForce-RTX-4090
    NVIDIA-RTX-A6000""".split(),
)
def test_the_labels_of_gpu_feature_discovery_name_cards(label: str) -> None:
    """The product label as nodes carry it."""
    assert find(label, [SHIPPED_GPUS]) is not None


BOMB = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]\n" for i in range(1, 12)
)
REFUSED = [
    ("Dockerfile", "", "no FROM"),
    ("Dockerfile", "CMD vllm serve x\n", "before FROM"),
    ("Dockerfile", "FROM\n", "allowed an instruction"),
    ("Dockerfile", "FROM x\n\x1b[31m\n", "allowed an instruction"),
    ("Dockerfile", "FROM x\nENTRYPOINT ['unclosed\n", "does not close"),
    ("Dockerfile", 'FROM python\nCMD ["python", "app.py"]\n', "starts no engine"),
    ("Dockerfile", "FROM x\n" * 30_000, "lines, allowed"),
    ("c.yaml", "services: {a: 3}\n", "services.a"),
    ("c.yaml", "services: {a: {image: b, command: {c: d}}}\n", "text or a list"),
    ("c.yaml", "services: {db: {image: postgres}}\n", "starts no engine"),
    ("c.yaml", "services: {a: {image: my/own, command: --model x}}\n", "name no program"),
    ("c.yaml", f"services: {{{', '.join(f's{i}: {{}}' for i in range(600))}}}\n", "services, allowed"),
    ("c.yaml", BOMB, "more than 50,000 values"),
    ("c.yaml", "services: &a {b: *a}\n", "stands for nothing"),
    ("c.yaml", "services: !!python/object:os.system x\n", "the YAML tag"),
    ("k.yaml", "kind: Pod\nspec: {containers: [3]}\n", "a container is a mapping"),
    ("k.yaml", "kind: Pod\nspec: {containers: [{image: a, command: vllm}]}\n", "are lists"),
    ("k.yaml", "kind: ConfigMap\n", "starts no engine"),
    ("k.yaml", "kind: Pod\nspec: " + "{a: " * 200 + "1" + "}" * 200, "nested"),
    ("k.yaml", "replicas: {{ .Values.replicas }}\n", "a template"),
    ("k.yaml", "just text\n", "neither a Dockerfile"),
    ("k.yaml", "a: [\n", "not YAML"),
    ("what", "x\n", "neither a Dockerfile"),
    ("u.service", "[Service]\nExecStart=/usr/bin/true\n", "starts no engine"),
    ("s.sh", "#!/bin/sh\necho 'unclosed\n", "does not close"),
    ("s.sh", "vllm serve x\n" * 300, "more than 200 serve commands"),
]


@pytest.mark.parametrize(("name", "text", "says"), REFUSED, ids=range(len(REFUSED)))
def test_what_cannot_be_read_is_refused_with_its_place(name: str, text: str, says: str) -> None:
    """Wrong, hostile and foreign files: what and where, then a fix."""
    with pytest.raises(InputError, match=says) as refused:
        deployed(text, name, {})
    assert refused.value.what.startswith(name)
    assert refused.value.fix
