"""`--compare` at small shapes: what each technique holds is what the formula says, and its figures mean what they say."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from stand_ins import asked, torch
from strategies import model, shipped

from kvplan.caches import COMPARED
from kvplan.errors import InputError, MissingError, NotCountableError
from kvplan.measure import comparing
from kvplan.measure.comparing import compared, usual
from kvplan.measure.contestants import contestants_named
from kvplan.question import subject
from kvplan.results import TechniquePoint, TechniqueResult

GQA = {"type": "gqa", "heads": 4, "kv_heads": 2, "head_dim": 64}
MLA = {"type": "mla", "heads": 4, "kv_lora_rank": 512, "qk_rope_head_dim": 64}


def run(spec: Any, tokens: int, names: str = "all", said: Any = str) -> Any:
    """The comparison, and its techniques by name."""
    found = compared(subject(asked(spec, tokens)), contestants_named(names), "cpu", said)
    return found, {one.name: one for one in found.techniques}


@pytest.mark.parametrize("tokens", [9, 16, 129, 170])
@pytest.mark.parametrize("dtype", ["fp32", "bf16"])
def test_every_technique_holds_what_the_formula_says(tokens: int, dtype: str) -> None:
    """To the byte, at lengths around blocks, groups and residuals; full caches miss nothing but the dtype's rounding."""
    found, by_name = run(model(GQA, dtype=dtype), tokens)
    assert tuple(by_name) == COMPARED
    assert [one.name for one in found.techniques if not one.agrees or one.difference_bytes] == []
    for name in ("none", "contiguous", "dynamic", "paged", "prefix-tree", "gqa"):
        assert by_name[name].relative_error < (1e-5 if dtype == "fp32" or name == "none" else 0.02), name
    assert 0 == by_name["none"].measured_bytes == by_name["dynamic"].waste_bytes
    width = 2 * 2 * 64 * (4 if dtype == "fp32" else 2)
    assert tokens * width == by_name["dynamic"].measured_bytes
    assert 3 * tokens * width == by_name["contiguous"].waste_bytes
    assert -tokens % 16 * width == by_name["paged"].waste_bytes
    assert -(-tokens // 16) * 4 == by_name["paged"].bookkeeping_bytes
    for one in found.techniques:
        assert one.points[-1] == TechniquePoint(one.tokens, one.measured_bytes, one.seconds_per_token)
        assert one.what


def test_time_is_measured_at_growing_lengths_and_its_growth_is_fitted() -> None:
    """How it grows is shown and not judged: it is the machine's answer."""
    spec = model({"type": "mha", "heads": 4, "kv_heads": 4, "head_dim": 32})
    _, by_name = run(spec, 512, "none,contiguous,window")
    for found in by_name.values():
        assert isinstance(found.time_exponent, float)
        assert found.seconds_per_token > 0


def test_an_exponent_is_one_more_than_the_slope() -> None:
    """Exact powers come back exactly; a single length has none; the longest three count."""
    for power in (0, 1, 2):
        points = [TechniquePoint(n, 0, 3.0 * n**power) for n in (64, 128, 256)]
        assert abs(comparing._exponent([TechniquePoint(32, 0, 99.0), *points]) - power - 1) < 1e-9
    assert comparing._exponent([TechniquePoint(1, 0, 1.0)]) is None


def test_a_shorter_text_is_said() -> None:
    """Where recomputing or scoring would take too long."""
    found, by_name = run(model(GQA, layers=3), 1500, "none,h2o,dynamic")
    assert "one layer of 3, one sequence of 1,500 tokens, none of 1,024, h2o of 1,024" in found.notes[0]
    assert 1024 == by_name["h2o"].tokens == by_name["none"].tokens < by_name["dynamic"].tokens


def test_a_format_that_cannot_hold_the_heads_is_left_out() -> None:
    """And the answer says why."""
    found, by_name = run(model({**GQA, "head_dim": 48}), 40, "dynamic,kivi2,int4_g32,fp8")
    assert {"dynamic", "fp8"} == set(by_name)
    assert ["kivi2", "int4_g32"] == [note.split()[0] for note in found.notes if "left out" in note]


def test_the_first_full_layer_gives_the_shape_and_a_window_its_bound() -> None:
    """Gemma 3: 16 KV heads, windows of 1,024; shorter texts take a quarter."""
    gemma = shipped("gemma-3-27b")
    shape, bound = comparing._shape(gemma)
    assert ((16, 128), 1024) == ((shape.kv_heads, shape.head_dim), bound)
    _, by_name = run(model([{**GQA, "window": 50}]), 100, "window,chunk,streaming")
    assert {50 * 2 * 2 * 64 * 2} == {one.measured_bytes for one in by_name.values()}
    _, by_name = run(model([{**GQA, "window": 500}]), 100, "window")
    assert "ring of 25" == by_name["window"].what


def test_a_model_without_heads_is_refused() -> None:
    """Its cache has no keys and values to compare techniques on."""
    with pytest.raises(NotCountableError, match="no layer of model has them"):
        run(model(MLA), 10)
    with pytest.raises(NotCountableError, match="found 63"):
        run(model({**GQA, "head_dim": 63}), 10)


def test_what_is_run_is_told() -> None:
    """One word each, for a progress line; threads are as before."""
    said: list[str] = []
    before = torch.get_num_threads()
    run(model(GQA), 8, "paged,h2o", said.append)
    assert ["paged", "h2o"] == said
    assert before == torch.get_num_threads()


def test_the_usual_length_is_quick() -> None:
    """4,096 tokens, or the model's maximum; what is asked for stays."""
    assert 4096 == usual(asked(shipped("llama-3.1-70b"), None)).ctx  # type: ignore[arg-type]
    assert 1024 == usual(asked(shipped("gpt-2"), None)).ctx  # type: ignore[arg-type]
    assert 77 == usual(asked(shipped("gpt-2"), 77)).ctx


def test_techniques_are_named() -> None:
    """All, or a list; each once."""
    assert ["paged", "h2o"] == [one.name for one in contestants_named("paged, h2o,paged")]
    with pytest.raises(InputError, match="--compare: found 'pages'") as wrong:
        contestants_named("pages")
    assert "paged" in wrong.value.fix


def result(name: str, held: int) -> TechniqueResult:
    """A technique at two lengths."""
    points = tuple(TechniquePoint(n, held * n, 0.001 * n) for n in (8, 16))
    return TechniqueResult(name, "", 16, 1, 1, 0, 0, 0, 0.0, 0.1, 2.0, True, points)


@pytest.mark.parametrize("name", ["caches.svg", "caches.png"])
def test_a_picture_is_drawn(name: str, tmp_path: Path) -> None:
    """Each technique by name, bytes and time against length."""
    pytest.importorskip("matplotlib", reason="the extra `plot` is not installed")
    from kvplan.measure.plotting import checked_plot, draw

    file = tmp_path / name
    checked_plot(str(file))
    draw([result("paged", 5), result("none", 0)], str(file))
    begins = file.read_bytes()[:300]
    assert b"<svg" in begins or begins.startswith(b"\x89PNG")


def test_a_picture_that_cannot_be_drawn_is_refused_first(tmp_path: Path) -> None:
    """Another kind of file, no such folder, no matplotlib."""
    from kvplan.measure.plotting import checked_plot

    with pytest.raises(InputError, match="end in .svg or .png"):
        checked_plot("caches.pdf")
    with pytest.raises(InputError, match="no folder that exists"):
        checked_plot(str(tmp_path / "no" / "caches.svg"))
    with patch.dict("sys.modules", {"matplotlib": None}), pytest.raises(MissingError) as missing:
        checked_plot(str(tmp_path / "caches.svg"))
    assert "pip install 'kvplan[plot]'" == missing.value.fix
