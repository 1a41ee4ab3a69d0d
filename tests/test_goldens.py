"""kvplan gives the numbers other people published, logged or allocated; each comes with its source."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from strategies import data, model, plan, shipped

from kvplan.attention import KINDS
from kvplan.footprint import CachePlan, pipeline_stages
from kvplan.formats import FORMATS, INDEX_FORMATS
from kvplan.growth import rows
from kvplan.policy import POLICIES, policy_named
from kvplan.spec import ModelSpec, parse_spec

GOLDENS = data("goldens.yaml")
WORKLOAD = ("k_dtype", "v_dtype", "index_dtype", "policy", "tp", "dcp", "mtp", "encoder_tokens", "kv_dtype")


def spec_of(entry: dict[str, Any]) -> ModelSpec:
    """The model an entry names or spells out."""
    if "model" in entry:
        return shipped(entry["model"])
    fields = {"dtype": entry["dtype"]} if "dtype" in entry else {}
    if "groups" in entry:
        groups = [{"count": count, "attention": attention} for count, attention in entry["groups"]]
        return parse_spec({"name": "groups", "layers": groups}, "groups.yaml")
    return model(entry["attention"], entry.get("layers", 1), **fields)


def plan_of(entry: dict[str, Any]) -> CachePlan:
    """The cache an entry describes."""
    context = {"context": entry["context"]} if "context" in entry else {}
    return plan(spec_of(entry), **context, **{key: entry[key] for key in WORKLOAD if key in entry})


def weight(entry: dict[str, Any]) -> tuple[Fraction | int, Fraction | int]:
    """(what kvplan gives, what the source says) for the one figure an entry holds."""
    cache, context, batch = plan_of(entry), entry.get("context", 1), entry.get("batch", 1)
    if "per_token" in entry:
        return cache.marginal_bytes(full=False), entry["per_token"]
    if "per_token_full" in entry:
        return cache.marginal_bytes(full=True), entry["per_token_full"]
    if "fixed" in entry:
        return cache.fixed_bytes(), entry["fixed"]
    if "rank" in entry:
        return cache.rank_bytes(context, batch), entry["rank"]
    if "growing" in entry:
        return cache.total_bytes(context, batch) - batch * cache.fixed_bytes(), entry["growing"]
    for tensor, figure in ((entry.get("tensor"), "bytes"), ("k", "k"), ("v", "v")):
        if tensor and figure in entry:
            return sum(part.bytes for part in cache.parts(context, batch) if part.tensor == tensor), entry[figure]
    return cache.total_bytes(context, batch), entry["total"]


@pytest.mark.parametrize("entry", GOLDENS["caches"], ids=lambda entry: entry["id"])
def test_a_cache_takes_the_bytes_its_source_gives(entry: dict[str, Any]) -> None:
    """A published, logged or allocated size is reproduced, exactly unless the source rounds it."""
    found, expected = weight(entry)
    assert abs(found - expected) <= entry.get("rounding", 0), (
        f"{entry['id']}: {found:,} is not {expected:,} ({entry['source']})"
    )


@pytest.mark.parametrize("entry", GOLDENS["ratios"], ids=lambda entry: entry["id"])
def test_two_caches_compare_as_their_source_says(entry: dict[str, Any]) -> None:
    """A published ratio of two caches is reproduced to its last printed digit."""
    first, second = (Fraction(plan_of(one).total_bytes(one["context"])) for one in (entry["of"], entry["to"]))
    ratio = first / second * Fraction(entry.get("scale", 1))
    found = 1 - ratio if entry.get("less") else ratio
    assert abs(found - Fraction(entry["value"])) <= Fraction(entry.get("rounding", 0)), f"{entry['id']}: {float(found)}"


@pytest.mark.parametrize(
    ("name", "context", "bits"),
    [(name, n, bits) for name in ("kivi2", "kivi4") for n, bits in GOLDENS["kivi_bits"][name].items()],
)
def test_kivi_takes_its_effective_bits(name: str, context: int, bits: str) -> None:
    """KIVI's scales and residual add to its codes what KVQuant's tables print."""
    cache = plan(model({"type": "mqa", "heads": 1, "kv_heads": 1, "head_dim": 128}), kv_dtype=name)
    found = Fraction(cache.total_bytes(context) * 8, 2 * 128 * context)
    last_digit = Fraction(1, 10 ** len(bits.partition(".")[2]))
    assert abs(found - Fraction(bits)) <= last_digit / 2


ROWS = {
    "head_128": {"type": "mha", "heads": 1, "kv_heads": 1, "head_dim": 128},
    "latent_576": {"type": "mla", "heads": 1, "kv_lora_rank": 512, "qk_rope_head_dim": 64},
    "entry_448_64": {"type": "compressed", "entry_dim": 512, "rope_dim": 64, "window": 1},
    "entry_512": {"type": "compressed", "entry_dim": 512, "rope_dim": 0, "window": 1},
    "index_128": {"type": "index", "head_dim": 128},
}


@pytest.mark.parametrize(("row", "name"), [(row, name) for row, cells in GOLDENS["cells"].items() for name in cells])
def test_a_row_takes_the_bytes_its_format_gives(row: str, name: str) -> None:
    """One stored row in one format takes what the engine that owns the format allocates."""
    option = {"index_dtype": name} if row == "index_128" else {"kv_dtype": name}
    expected = GOLDENS["cells"][row][name]["bytes"]
    assert expected == plan(model(ROWS[row]), **option).total_bytes(1)


def test_every_format_has_a_golden_row() -> None:
    """A format without a number from outside the project fails, with its name."""
    cells = GOLDENS["cells"]
    given = {name for row, names in cells.items() if row != "index_128" for name in names} | {"kivi2", "kivi4"}
    assert sorted(set(FORMATS) - given) == [], "add these to `cells` in tests/data/goldens.yaml, with a source"
    assert sorted(set(INDEX_FORMATS) - set(cells["index_128"])) == [], "add these to `cells.index_128`, with a source"


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_has_a_golden_layer(kind: str) -> None:
    """One layer of each attention kind takes what a released engine or code allocates for it."""
    assert kind in GOLDENS["kinds"], f"add {kind} to `kinds` in tests/data/goldens.yaml, with a source"
    entry = GOLDENS["kinds"][kind]
    assert kind == entry["attention"]["type"]
    assert entry["bytes"] == plan_of(entry).total_bytes(entry["context"])


@pytest.mark.parametrize("name", POLICIES)
def test_every_policy_has_golden_rows(name: str) -> None:
    """Each policy keeps the rows its paper or reference code keeps."""
    assert name in GOLDENS["policies"], f"add {name} to `policies` in tests/data/goldens.yaml, with a source"
    entry = GOLDENS["policies"][name]
    assert entry["rows"] == rows(policy_named(entry["text"]).kept(), entry["context"])


@pytest.mark.parametrize("entry", GOLDENS["stages"], ids=lambda entry: f"{entry['layers']}-over-{entry['pp']}")
def test_pipeline_stages_split_as_vllm_splits(entry: dict[str, Any]) -> None:
    """Layers per stage are those of vLLM's default split."""
    attention = {"type": "mha", "heads": 1, "kv_heads": 1, "head_dim": 32}
    stages = pipeline_stages(model(attention, entry["layers"]).runs, entry["pp"])
    assert entry["sizes"] == [sum(count for count, _ in stage) for stage in stages]


def all_entries() -> list[dict[str, Any]]:
    """Every golden in the file."""
    flat = [*GOLDENS["caches"], *GOLDENS["ratios"], *GOLDENS["stages"], GOLDENS["kivi_bits"]]
    flat += [cell for cells in GOLDENS["cells"].values() for cell in cells.values()]
    return [*flat, *GOLDENS["kinds"].values(), *GOLDENS["policies"].values()]


def test_every_golden_names_its_source() -> None:
    """A number without a source is not a golden."""
    assert [entry for entry in all_entries() if not entry.get("source")] == []


def test_golden_names_are_unique() -> None:
    """Each golden can be named in a failure."""
    names = [entry["id"] for entry in (*GOLDENS["caches"], *GOLDENS["ratios"])]
    assert sorted(set(names)) == sorted(names)
