"""Every GPU file agrees with facts kept apart from it, and says how sure it is."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from strategies import data

from kvplan.gpu import Gpu, parse_gpu
from kvplan.yaml_text import load_yaml

FOLDER = Path(__file__).resolve().parent.parent / "kvplan/gpus"
FILES = sorted(FOLDER.glob("*.yaml"))
CATALOGUE = {entry["name"]: entry for entry in data("gpu_catalogue.yaml")}


def gpu(path: Path) -> Gpu:
    """The GPU in a file, through kvplan's own reader."""
    return parse_gpu(load_yaml(path.read_text(encoding="utf-8"), path.name), path.name)


def raw(path: Path) -> Any:
    """The same file through PyYAML alone."""
    return yaml.safe_load(path.read_text(encoding="utf-8"))


every = pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
listed = pytest.mark.parametrize("path", [p for p in FILES if p.stem in CATALOGUE], ids=lambda path: path.stem)
APPLE_128 = ["m3-max-128gb", "m4-max-128gb", "m5-max-128gb"]
RANK = {"low": 0, "medium": 1, "high": 2, None: 3}


@every
def test_a_file_is_named_like_its_gpu(path: Path) -> None:
    """It parses, and its name is the file's."""
    assert path.stem == gpu(path).name


@listed
def test_a_gpu_agrees_with_the_catalogue(path: Path) -> None:
    """The catalogue's id is the name or an alias, and the total is the one it plans with, or unknown in both."""
    found, entry = gpu(path), CATALOGUE[path.stem]
    assert entry["id"] in (found.name, *found.aliases)
    assert entry["plan_total_bytes"] == found.memory.total_bytes
    if entry["plan_conf"]:
        assert RANK[found.memory.confidence] <= RANK[entry["plan_conf"]], "no surer than the catalogue"


@listed
def test_a_total_lies_within_what_was_reported(path: Path) -> None:
    """No total is larger than any that a driver, a runtime or the kernel reported for the card."""
    found, entry = gpu(path), CATALOGUE[path.stem]
    if found.memory.total_bytes is None:
        return
    reported: list[float] = []
    for report in entry["reported"]:
        reported += [report[unit] * scale for unit, scale in (("bytes", 1), ("mib", 2**20)) if unit in report]
        reported += [gib * 2**30 for gib in report.get("gib", [])]
    rounding = 0.005 * 2**30 + 1  # figures in GiB are printed with two decimals
    assert min(reported) - rounding <= found.memory.total_bytes <= max(reported) + rounding
    low, high = found.memory.low_bytes, found.memory.high_bytes
    assert (low or 0) <= found.memory.total_bytes <= (high or found.memory.total_bytes)


@every
def test_a_total_has_its_source_and_its_confidence(path: Path) -> None:
    """Capacity is what a driver reports, and the file says who read it."""
    memory = gpu(path).memory
    assert memory.sources
    assert memory.confidence in ("high", "medium", "low")
    if memory.total_bytes is not None:
        assert memory.basis


@every
def test_a_figure_of_low_confidence_is_labelled(path: Path) -> None:
    """Bandwidth, FLOPS, links and nodes each say how sure they are, and where they were read."""
    values = raw(path)
    for block in ("bandwidth", "tflops", "links", "node", "tdp_watts"):
        if values.get(block):
            assert values[block].get("confidence") in ("high", "medium", "low"), block
            assert values[block].get("sources"), block
    assert values["confidence"]["overall"] in ("high", "medium", "low")


@every
def test_a_price_has_a_date_and_a_source(path: Path) -> None:
    """Prices go stale; each says when it was seen, in which year, and how far to trust it."""
    for price in gpu(path).prices:
        assert re.search(r"20\d\d", str(price["date"])), price
        assert price["sources"], price
        assert price["trust"] in ("high", "medium", "low"), price
        assert 0 < price["low_usd"] <= price["high_usd"], price


@every
def test_a_unified_memory_never_offers_more_than_it_has(path: Path) -> None:
    """What the GPU may use of a shared memory is at most what is reported, and less than what was sold."""
    memory = gpu(path).memory
    if memory.unified and memory.unified.usable_bytes and memory.total_bytes:
        assert memory.unified.usable_bytes <= memory.total_bytes
    for sold, usable in memory.configurations.items():
        assert 0 < usable < sold * 2**30


def test_every_device_of_the_catalogue_ships() -> None:
    """No device is left out; only the 128 GB Macs, one of several sizes of their entries, are files of their own."""
    assert sorted([*CATALOGUE, *APPLE_128]) == sorted(path.stem for path in FILES)


@pytest.mark.parametrize("name", APPLE_128)
def test_a_mac_of_128_gb_offers_its_metal_working_set(name: str) -> None:
    """Metal recommends 107.52 GiB of 128, read on two machines: 115,448,720,916 bytes."""
    assert int(107.52 * 2**30) == gpu(FOLDER / f"{name}.yaml").memory.total_bytes


def test_no_word_means_two_gpus() -> None:
    """Names and aliases are unique over all files."""
    words = [word for path in FILES for word in (gpu(path).name, *gpu(path).aliases)]
    assert sorted(set(words)) == sorted(words)


@pytest.mark.parametrize(
    ("typed", "name"),
    [
        ("h100", "h100-sxm-80gb"),
        ("h200", "h200-sxm"),
        ("4090", "rtx-4090"),
        ("3090", "rtx-3090"),
        ("5090", "rtx-5090"),
        ("a100", "a100-sxm-80gb"),
        ("mi300x", "mi300x"),
        ("b200", "b200-sxm"),
        ("dgx-spark", "gb10"),
        ("l40s", "l40s"),
        ("t4", "t4"),
        ("m3-ultra", "m3-ultra"),
    ],
)
def test_what_people_type_finds_the_card(typed: str, name: str) -> None:
    """The short name means the usual variant."""
    from kvplan.catalogue import gpu_named

    assert name == gpu_named(typed).name
