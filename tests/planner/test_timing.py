"""Predicted times: what the command answers, the laws they obey, and how near they are to published figures."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from cli.conftest import refused, row, run
from hypothesis import given, settings
from hypothesis import strategies as st

import kvplan
from kvplan.catalogue import gpu_named
from kvplan.planner.machine import machine_of, shipped
from kvplan.planner.timing import Load, predicted
from kvplan.planner.work import shape_of
from kvplan.question import Question, subject
from kvplan.roofline import pass_seconds, soft_maximum

sys.path.insert(0, str(Path(__file__).parents[1] / "timing"))
SPANS = ("decode_step_seconds", "prefill_seconds", "ttft_seconds", "tpot_seconds", "request_seconds", "tokens_per_second")  # fmt: skip
MODELS = ["llama-3.1-8b", "llama-3.1-70b", "gemma-3-27b", "deepseek-v3", "gpt-oss-120b", "qwen3-next-80b-a3b"]


def timed(*arguments: str) -> Any:
    return row("size", *arguments, "--time")


def test_the_answer_has_the_contracts_keys() -> None:
    time = timed("llama-3.1-70b", "--gpu", "h100", "--tp", "8", "--ctx", "8k", "--batch", "16", "--output-tokens", "1000")["time"]  # fmt: skip
    for key in SPANS:
        assert 0 < time[key]["low"] < time[key]["best"] < time[key]["high"], key
        assert time[key]["high"] / time[key]["low"] < 12, key
    assert time["batch"] == 16
    assert time["bound"] in ("memory", "compute", "latency", "link")
    assert time["confidence"] == "measured"
    assert "queueing" in time["not_modelled"]


def test_a_card_without_a_kernel_table_is_assumed_and_wider() -> None:
    arguments = ("llama-3.1-8b", "--ctx", "4k", "--batch", "8")
    own, other = (timed(*arguments, "--gpu", gpu)["time"] for gpu in ("h100", "b200"))
    assert (own["confidence"], other["confidence"]) == ("measured", "assumed")
    widths = [time["tpot_seconds"]["high"] / time["tpot_seconds"]["low"] for time in (own, other)]
    assert widths[0] < widths[1]


def test_what_fits_counts_prompt_and_output() -> None:
    found = timed("llama-3.1-8b", "--gpu", "h100", "--ctx", "8k", "--output-tokens", "2k", "--batch", "4")
    assert found["workload"]["context"] == 10_000
    assert found["gpu"]["kv_bytes"] == 4 * 10_000 * 131072
    assert found["time"]["prompt_tokens"] == 8000


def test_max_is_as_many_sequences_as_fit() -> None:
    found = timed("llama-3.1-8b", "--gpu", "h100", "--ctx", "8k", "--output-tokens", "2k", "--batch", "max")
    assert found["time"]["batch"] == found["workload"]["batch"] == found["gpu"]["max_batch"]
    assert found["gpu"]["fits"]
    one_more = str(found["time"]["batch"] + 1)
    answer = run("size", "llama-3.1-8b", "--gpu", "h100", "--ctx", "10k", "--batch", one_more)
    assert answer.code == 1


def test_a_time_is_given_even_where_it_does_not_fit() -> None:
    answer = run("size", "llama-3.1-70b", "--gpu", "h100", "--ctx", "8k", "--time", "--format", "json")
    assert answer.code == 1
    assert answer.result["time"]["tpot_seconds"]["best"] > 0


@pytest.mark.parametrize(
    ("arguments", "code", "what"),
    [
        (("--ctx", "8k", "--time"), 2, "--time: needs --gpu"),
        (("--ctx", "8k", "--output-tokens", "5"), 2, "--output-tokens: belongs to --time"),
        (("--ctx", "8k", "--load", "static"), 2, "--load: belongs to --time"),
        (("--ctx", "8k", "--gpu", "h100", "--time", "--load", "open"), 2, "--load: found 'open'"),
        (("--ctx", "8k", "--gpu", "h100", "--time", "--output-tokens", "0"), 2, "--output-tokens"),
        (("--ctx", "8k", "--batch", "max"), 2, "--batch max: needs --gpu"),
        (("--ctx", "8k", "--gpu", "80GiB", "--time"), 3, "bandwidth.gb_per_second: not known"),
    ],
)
def test_what_cannot_be_timed_says_why(arguments: tuple[str, ...], code: int, what: str) -> None:
    assert what in refused(run("size", "llama-3.1-8b", *arguments), code)


def test_a_model_without_active_parameters_among_experts_is_refused() -> None:
    spec = {
        "name": "mixed",
        "layers": 10,
        "attention": {"type": "gqa", "heads": 8, "kv_heads": 2, "head_dim": 64},
        "parameters": 1000,
        "weights": [
            {"part": "experts", "parameters": 900, "format": "bf16"},
            {"part": "rest", "parameters": 100, "format": "bf16"},
        ],
    }
    asked = subject(Question(model=kvplan.model(spec), ctx=100))
    with pytest.raises(kvplan.NotCountableError, match="active_parameters: missing"):
        shape_of(asked, None)


def test_every_shipped_model_with_known_weights_has_a_shape_or_says_why_not() -> None:
    from kvplan.catalogue import all_models

    for spec in all_models():
        asked = subject(
            Question(model=spec, ctx=16, encoder_tokens=None if spec.fields.encoder_tokens else encoder(spec))
        )
        if spec.fields.parameters is None:
            with pytest.raises(kvplan.NotCountableError, match="parameters: missing"):
                shape_of(asked, None)
        elif spec.fields.active_parameters is None and any(part.part == "experts" for part in spec.fields.weights):
            with pytest.raises(kvplan.NotCountableError, match="active_parameters: missing"):
                shape_of(asked, None)
        else:
            assert shape_of(asked, None).body > 0, spec.name


def encoder(spec: Any) -> int | None:
    crosses = any(kind.type == "cross" for _, layer in spec.layers() for kind in layer.kinds)
    return 10 if crosses else None


def best(model: str, gpu: str, tp: int, prompt: int, output: int, batch: int, closed: bool = True) -> Any:
    asked = subject(Question(model=model, ctx=prompt + output, batch=batch, tp=tp, gpu=gpu))
    machine = machine_of(gpu_named(gpu))
    return predicted(asked, shape_of(asked, None), machine, shipped().laws, Load(prompt, output, batch, closed))


@settings(max_examples=60, deadline=None)
@given(
    model=st.sampled_from(MODELS),
    gpu=st.sampled_from(["h100", "h200", "a100-sxm-80gb", "b200", "mi300x", "l40s"]),
    tp=st.sampled_from([1, 2, 8]),
    prompt=st.integers(1, 30_000),
    output=st.integers(1, 4_000),
    batch=st.integers(1, 300),
)
def test_more_work_never_takes_less_time(model: str, gpu: str, tp: int, prompt: int, output: int, batch: int) -> None:
    base = best(model, gpu, tp, prompt, output, batch)
    more = best(model, gpu, tp, prompt, output, batch + 7)
    longer = best(model, gpu, tp, prompt + 500, output, batch)
    assert more.step >= base.step
    assert longer.step >= base.step
    assert longer.prefill > base.prefill
    assert base.per_token >= base.step, "closed: a step is shared with the prompts that replace others"
    assert base.first > 0
    static = best(model, gpu, tp, prompt, output, batch, closed=False)
    assert static.per_token == static.step == base.step
    assert static.first > base.prefill / batch


@given(a=st.floats(1e-9, 1e3), b=st.floats(1e-9, 1e3))
def test_the_soft_maximum_lies_between_the_larger_and_a_fifth_more(a: float, b: float) -> None:
    assert max(a, b) * (1 - 1e-12) <= soft_maximum(a, b) <= max(a, b) * 2**0.25 * (1 + 1e-12)


def test_a_faster_card_is_never_slower() -> None:
    asked = subject(Question(model="llama-3.1-70b", ctx=4000, batch=8, tp=4))
    shape, laws = shape_of(asked, None), shipped().laws
    from kvplan.planner.work import decode_work

    work = decode_work(asked, shape, 4000, 8)
    machine = machine_of(gpu_named("h100"))
    faster = [
        machine.replace(bandwidth=machine.bandwidth * 2),
        machine.replace(flops={key: 2 * value for key, value in machine.flops.items()}),
        machine.replace(link=machine.link * 2),
    ]
    base = pass_seconds(work, machine, laws).total
    assert all(pass_seconds(work, quicker, laws).total < base for quicker in faster)


def test_something_else_binds_from_the_batch_that_is_named() -> None:
    arguments = ("llama-3.1-8b", "--gpu", "h100", "--ctx", "100")
    time = timed(*arguments, "--batch", "1")["time"]
    flip = time["bound_changes_at"]
    below, at = (timed(*arguments, "--batch", str(n))["time"]["bound"] for n in (flip - 1, flip))
    assert below == time["bound"] != at


@pytest.mark.filterwarnings("ignore")
def test_figures_that_were_not_fitted_lie_as_near_as_the_docs_say() -> None:
    from accuracy import compared, summary

    bands = shipped().bands
    found = compared()
    held = [item for item in found if not item[0].fitted and item[0].values["metric"] != "ttft_ms"]
    count, error, inside, width = summary(held, bands)
    assert count > 120
    assert error <= 0.17, "median absolute error"
    assert inside >= 0.80, "share of published figures inside the interval"
    assert width <= 3, "median high over low"


def test_the_table_of_the_docs_is_what_the_script_prints() -> None:
    from accuracy import report

    page = (Path(__file__).parents[2] / "docs" / "time.md").read_text(encoding="utf-8")
    assert report() in page, "python tests/timing/accuracy.py prints it anew"
