"""`kvplan models|gpus|engines|formats` and `kvplan show`: everything is found, with sources."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from .conftest import REPOSITORY, refused, run

SPECS = sorted(path.stem for path in (REPOSITORY / "model_specs").glob("*.yaml"))
GPUS = sorted(path.stem for path in (REPOSITORY / "kvplan/gpus").glob("*.yaml"))


def names(*arguments: str, **options: dict[str, str]) -> list[str]:
    """Names in the JSON list of a command."""
    return [row["name"] for row in run(*arguments, "--format", "json", "-q", **options).document["results"]]


def test_every_shipped_model_and_gpu_is_listed_once() -> None:
    """The lists are the folders."""
    assert SPECS == sorted(names("models"))
    assert GPUS == sorted(names("gpus"))


def test_a_query_narrows_the_list_by_all_its_words() -> None:
    """Words are looked for in names, aliases, hub ids and attention kinds, in any order and case."""
    assert ["llama-3.1-70b"] == names("models", "70B", "llama-3.1")
    assert ["llama-3.1-70b"] == names("models", "meta-llama/Llama-3.1-70B")
    assert {"falcon-mamba-7b", "mamba-2.8b"} <= set(names("models", "mamba1"))
    assert ["h100-sxm-80gb"] == names("gpus", "h100 sxm")
    assert all("h200" in name for name in names("gpus", "h200"))


def test_a_query_without_an_answer_says_so_and_exits_1() -> None:
    """An empty list is a no, not an error."""
    answer = run("models", "no-such-thing")
    assert (1, "nothing answers to that; fewer words find more\n", "") == answer


def test_ones_own_specs_are_listed_and_shadow_the_shipped(tmp_path: Path) -> None:
    """`--specs` and $KVPLAN_SPECS add to the list."""
    text = "name: gpt-2\nlayers: 3\nattention: {type: mha, heads: 4, kv_heads: 4, head_dim: 64}\n"
    (tmp_path / "gpt-2.yaml").write_text(text)
    (tmp_path / "mine.yaml").write_text(text.replace("gpt-2", "mine"))
    for options in ({"env": {"KVPLAN_SPECS": str(tmp_path)}}, {}):
        typed = () if options else ("--specs", str(tmp_path))
        listed = run("models", "--format", "json", "-q", *typed, **options).document["results"]
        assert len(SPECS) + 1 == len(listed)
        assert 3 == next(row["layers"] for row in listed if row["name"] == "gpt-2")


def test_formats_print_bits_with_and_without_metadata() -> None:
    """q8_0 stores 32 codes of 8 bits in 34 bytes: 8 and 8.5 bits; grouped int4 adds 32 bits per group of 64: 4.5."""
    rows = {row["name"]: row for row in run("formats", "--format", "json", "-q").document["results"]}
    bits = {
        name: (rows[name]["bits"], rows[name]["bits_with_metadata"])
        for name in ("bf16", "q8_0", "q4_0", "int4_g64", "int4")
    }
    assert {"bf16": (16, 16), "q8_0": (8, 8.5), "q4_0": (4, 4.5), "int4_g64": (4, 4.5), "int4": (4, 4)} == bits
    assert 656 * 8 / 576 == pytest.approx(rows["fp8_ds_mla"]["bits_with_metadata"])


CONTRACT_FORMATS = """fp32 fp16 bf16 fp8 fp8_e5m2 int8 q8_0 q5_1 q5_0 q4_1 q4_0 iq4_nl nvfp4 fp8_ds_mla nvfp4_ds_mla
int8_per_token_head fp8_per_token_head int4_per_token_head int4_g32 int4_g64 int4_g128 int2_g32 kivi4 kivi2 int4"""


@pytest.mark.parametrize("name", CONTRACT_FORMATS.split())
def test_a_promised_format_is_listed(name: str) -> None:
    """The formats the documentation names all exist."""
    assert name in names("formats")


@pytest.mark.parametrize("name", ["llama-3.1-70b", "llama-70b", "meta-llama/Llama-3.1-70B"])
def test_show_finds_a_model_by_name_alias_and_hub_id(name: str) -> None:
    """Figures, layers, and each source of the file."""
    out = run("show", name).out
    sources = yaml.safe_load((REPOSITORY / "model_specs/llama-3.1-70b.yaml").read_text())["sources"]
    assert out.startswith("llama-3.1-70b\n")
    assert all(f"source: {source}" in out for source in sources)
    assert "70,553,706,496" in out
    assert "llama-3.1-70b.yaml" in out


@pytest.mark.parametrize("name", ["h100", "h100-sxm-80gb", "mi455x", "gb10"])
def test_show_finds_a_gpu_with_sources_and_dated_prices(name: str) -> None:
    """Memory with its source; a price with its date; what is not known is said."""
    answer = run("show", name)
    assert 0 == answer.code
    assert "memory source: " in answer.out
    assert ("not known" in answer.out) == (name == "mi455x")
    if name.startswith("h100"):
        assert "84,943,715,696 bytes" in answer.out
        assert "2026-05" in answer.out
    if name == "gb10":
        assert "108,447,924,224 bytes" in answer.out


@pytest.mark.parametrize(
    ("name", "holds"),
    [("q8_0", "8.5"), ("fp8_e4m3", "fp8"), ("transformers", "-E cache="), ("ideal", "-E block_size=")],
)
def test_show_finds_a_format_and_an_engine(name: str, holds: str) -> None:
    """Aliases of formats included; engines with their options."""
    answer = run("show", name)
    assert 0 == answer.code
    assert holds in answer.out
    assert "source" in answer.out


def test_show_reads_a_file_of_ones_own(tmp_path: Path) -> None:
    """A path to a spec, and a path to a GPU."""
    spec, gpu = tmp_path / "m.yaml", tmp_path / "g.yaml"
    spec.write_text("name: mine\nlayers: 2\nattention: {type: mqa, heads: 4, kv_heads: 1, head_dim: 64}\n")
    gpu.write_text("name: my-card\nmemory: {total_bytes: 1000}\n")
    assert run("show", str(spec)).out.startswith("mine\n")
    assert run("show", str(gpu)).out.startswith("my-card\n")


def test_show_complains_about_a_spec_of_ones_own_as_a_spec(tmp_path: Path) -> None:
    """A fault in a model file is told as that, not as a fault of a GPU file."""
    spec = tmp_path / "m.yaml"
    spec.write_text("name: mine\nlayers: 2\nattention: {type: mqa, heads: 4, kv_heads: 2, head_dim: 64}\n")
    assert "kv_heads" in refused(run("show", str(spec)), 2)


@pytest.mark.parametrize("name", ["json", "csv", "markdown", "html"])
@pytest.mark.parametrize("shown", ["llama-3.1-70b", "h100", "q8_0", "ideal"])
def test_show_has_every_format(shown: str, name: str) -> None:
    """Scripts read a spec or a card without parsing YAML."""
    answer = run("show", shown, "--format", name)
    assert (0, "") == (answer.code, answer.err)
    if name == "json":
        assert "kvplan.show/1" == answer.document["schema"]


def test_every_model_can_be_sized_at_once() -> None:
    """No shipped spec trips the command; those that attend to an encoder of any length need to be told of it."""
    crossing = [name for name in SPECS if "t5" in name or "vision" in name or "whisper" in name]
    mute = [name for name in crossing if "encoder_tokens: missing" in run("size", name, "--ctx", "1k").err]
    assert 0 == run("size", *[name for name in SPECS if name not in mute], "--ctx", "1k", "-q").code
    assert 0 == run("size", *mute, "--ctx", "1k", "--encoder-tokens", "100", "-q").code
