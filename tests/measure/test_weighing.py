"""What `size` predicts is what the tensors weigh: every kind, format and policy, allocated on the CPU."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from stand_ins import Small, asked
from strategies import contexts, data, keeps_encoder, model, policies, shipped, specs

from kvplan.attention import KINDS
from kvplan.errors import InputError, MissingError, NotCountableError
from kvplan.formats import FORMATS, INDEX_FORMATS
from kvplan.measure.device import FullError, LostError
from kvplan.measure.weighing import measure_answer
from kvplan.policy import POLICIES
from kvplan.sizing import size_answer
from kvplan.spec import parse_spec

GOLDENS = data("goldens.yaml")
GQA = {"type": "gqa", "heads": 4, "kv_heads": 2, "head_dim": 128}
MLA = {"type": "mla", "heads": 4, "kv_lora_rank": 512, "qk_rope_head_dim": 64}
ENTRY = {"type": "compressed", "entry_dim": 512, "rope_dim": 64, "window": 128, "ratio": 4}
BOUNDARIES = (1, 2, 31, 32, 33, 127, 128, 129, 255, 256, 257, 383, 384, 385)


def weighed(question: Any, **options: Any) -> Any:
    """The measurement, after checking that it is of what `size` prints, to the byte."""
    answer = measure_answer(question, Small(), **options)
    assert answer.whole_bytes == size_answer(question).per_rank_bytes
    assert (answer.predicted_bytes, 0) == (answer.measured_bytes, answer.difference_bytes)
    assert (True, True) == (answer.freed, answer.agrees)
    return answer


@pytest.mark.parametrize("kind", KINDS)
def test_a_cache_of_every_kind_weighs_what_its_source_says(kind: str) -> None:
    """The published bytes of one layer, and as many again for each further sequence and layer."""
    entry = GOLDENS["kinds"][kind]
    encoder = {"encoder_tokens": entry["encoder_tokens"]} if "encoder_tokens" in entry else {}
    formats = {"kv_dtype": entry["kv_dtype"]} if "kv_dtype" in entry else {}
    attention = [GQA, {"type": "shared"}] if kind == "shared" else entry["attention"]
    one = weighed(asked(model(attention), entry["context"], **encoder, **formats))
    three = weighed(asked(model(attention, layers=3), entry["context"], batch=2, **encoder, **formats))
    if kind != "shared":
        assert entry["bytes"] == one.measured_bytes
    assert one.measured_bytes * 6 == three.measured_bytes


@pytest.mark.parametrize("format_", FORMATS)
def test_a_cache_in_every_format_weighs_what_is_predicted(format_: str) -> None:
    """At the boundaries of groups and residuals, for one sequence and for three."""
    attention = ENTRY if format_ == "fp8_ds_mla" else MLA if format_.endswith("ds_mla") else GQA
    for context in BOUNDARIES:
        weighed(asked(model(attention), context, kv_dtype=format_, batch=1 + 2 * (context % 2)))


@pytest.mark.parametrize("format_", INDEX_FORMATS)
def test_index_keys_in_every_format_weigh_what_is_predicted(format_: str) -> None:
    """Beside the latent, as DeepSeek keeps them."""
    attention = [MLA, {"type": "index", "head_dim": 128}]
    for context in (1, 64, 65):
        weighed(asked(model(attention, layers=2), context, index_dtype=format_, kv_dtype="fp8_ds_mla"))


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("format_", ["bf16", "int4_g32", "kivi2"])
def test_a_cache_under_every_policy_weighs_what_is_predicted(policy: str, format_: str) -> None:
    """Below, at and past what the policy keeps."""
    text = {"streaming": "streaming:sinks=4,window=252", "h2o": "h2o:budget=0.333"}.get(policy, policy)
    text = "snapkv:cap=64,generated=30" if policy == "snapkv" else text
    for context in (31, 93, 94, 95, 255, 256, 257, 385):
        weighed(asked(model(GQA), context, policy=text, kv_dtype=format_))


@given(
    spec=specs(),
    context=contexts,
    batch=st.integers(1, 3),
    policy=policies,
    prefix=st.integers(0, 300),
    ranks=st.sampled_from([(1, 1, 1), (2, 1, 1), (4, 1, 2), (1, 2, 1), (8, 2, 4)]),
)
@settings(max_examples=25)
def test_a_random_model_weighs_what_is_predicted(
    spec: Any, context: int, batch: int, policy: str, prefix: int, ranks: tuple[int, int, int]
) -> None:
    """Hybrids, prefixes and ranks included; the rank that is weighed is the fullest."""
    tp, pp, dcp = ranks
    context = max(context // 10, 60)
    layers = sum(count for count, _ in spec.runs)
    encoder = {"encoder_tokens": 7} if keeps_encoder(spec) else {}
    options = {"batch": batch, "policy": policy, "prefix": min(prefix, context), **encoder}
    weighed(asked(spec, context, tp=tp, pp=min(pp, layers), dcp=dcp, **options))


def test_draft_layers_and_a_pipeline_are_allocated_where_they_live() -> None:
    """The last stage holds the draft layers, and is then the fullest."""
    answer = weighed(asked(model(GQA, layers=4), 100, pp=2, mtp=3))
    assert (5, 5) == (answer.measured_layers, answer.of_layers)


def test_a_model_without_a_cache_weighs_nothing() -> None:
    """And that agrees."""
    assert 0 == weighed(asked(model({"type": "none"}, layers=2), 100)).measured_bytes


def test_a_cache_larger_than_the_limit_is_measured_in_part_and_says_so() -> None:
    """On the layers that fit, without scaling."""
    question = asked(shipped("smollm2-135m"), 1000)
    layer = size_answer(question).total_bytes // 30
    answer = measure_answer(question, Small(), limit_bytes=7 * layer + layer // 2)
    assert (7, 30) == (answer.measured_layers, answer.of_layers)
    assert (7 * layer, 7 * layer, 30 * layer) == (answer.predicted_bytes, answer.measured_bytes, answer.whole_bytes)
    assert answer.agrees
    assert "measured 7 of 30 layers" in answer.notes[0]


def test_a_model_of_unlike_layers_is_measured_from_its_first_layer_on() -> None:
    """As many as fit in their order, and a layer that keeps nothing costs nothing."""
    layers = [
        {"count": 1, "attention": GQA},
        {"count": 1, "attention": {"type": "none"}},
        {"count": 2, "attention": MLA},
    ]
    spec = parse_spec({"name": "mixed", "layers": layers}, "mixed.yaml")
    first = 10 * 2 * 2 * 128 * 2
    answer = measure_answer(asked(spec, 10), Small(), limit_bytes=first + 10 * 576 * 2)
    assert (3, 4, first + 10 * 576 * 2) == (answer.measured_layers, answer.of_layers, answer.measured_bytes)


def test_no_room_for_one_layer_is_a_no() -> None:
    """Nothing was measured, so nothing agrees."""
    answer = measure_answer(asked(model(GQA), 1000), Small(), limit_bytes=100)
    assert (0, 1, False) == (answer.measured_layers, answer.of_layers, answer.agrees)
    assert "not one of 1 layers fits" in answer.notes[0]


def test_at_most_nine_tenths_of_what_is_free_is_taken() -> None:
    """Unless the user names the bytes; and never more than is free."""
    question = asked(model(GQA, layers=10), 100)
    layer = 100 * 2 * 2 * 128 * 2
    answer = measure_answer(question, Small(free=10 * layer))
    assert (9, 9 * layer) == (answer.measured_layers, answer.limit_bytes)
    assert "90 % of what is free" in answer.notes[0]
    assert 10 == measure_answer(question, Small(free=10 * layer), limit_bytes=10 * layer).measured_layers
    with pytest.raises(InputError, match=r"--limit-bytes: found 1,024,001, but only 1,024,000 bytes are free"):
        measure_answer(question, Small(free=10 * layer), limit_bytes=10 * layer + 1)


def test_a_system_that_does_not_say_what_is_free_is_told() -> None:
    """A limit has to be named then, and is taken at its word."""
    device = Small()
    device.free_bytes = lambda: None  # type: ignore[method-assign,assignment]
    with pytest.raises(InputError, match="does not say how much memory is free"):
        measure_answer(asked(model(GQA), 10), device)
    assert measure_answer(asked(model(GQA), 10), device, limit_bytes=10**6).agrees


def test_a_device_that_fills_up_half_way_keeps_what_it_measured() -> None:
    """Somebody else took the memory in between: whole layers count, the half one does not."""
    answer = measure_answer(asked(model(GQA, layers=4), 100), Small(fails_at=5))
    assert (2, 4, True) == (answer.measured_layers, answer.of_layers, answer.agrees)
    assert answer.measured_bytes == answer.predicted_bytes == 2 * 100 * 2 * 2 * 128 * 2


def test_a_lost_device_is_something_missing() -> None:
    """Exit code 4, in the device's own words."""
    with pytest.raises(MissingError, match="unspecified launch failure"):
        measure_answer(asked(model(GQA), 100), Small(fails_at=1, error=LostError("unspecified launch failure")))


def test_a_device_too_busy_to_begin_is_something_missing() -> None:
    """A GPU whose memory others hold to the last byte has no room for a context."""
    device = Small()
    device.begin = lambda: (_ for _ in ()).throw(FullError("out of memory"))  # type: ignore[method-assign]
    with pytest.raises(MissingError, match="no room even to begin: out of memory"):
        measure_answer(asked(model(GQA), 100), device)


def test_an_interrupt_frees_everything() -> None:
    """Ctrl-C between two layers leaves no tensor behind."""
    import gc
    import weakref

    device, watched = Small(fails_at=3, error=KeyboardInterrupt()), []
    plain = Small.allocate

    def seen(shape: tuple[int, ...], dtype: str) -> Any:
        tensor = plain(device, shape, dtype)
        watched.append(weakref.ref(tensor))
        return tensor

    device.allocate = seen  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        measure_answer(asked(model(GQA, layers=4), 100), device)
    gc.collect()
    assert 3 == len(watched)
    assert [] == [ref for ref in watched if ref() is not None]


def test_a_leak_is_seen() -> None:
    """A tensor that somebody still refers to is not given back, and the answer is no."""
    device, kept = Small(), []
    plain = Small.allocate
    device.allocate = lambda shape, dtype: kept.append(plain(device, shape, dtype)) or kept[-1]  # type: ignore[method-assign,func-returns-value]
    answer = measure_answer(asked(model(GQA), 100), device)
    assert (False, False) == (answer.freed, answer.agrees)


def test_a_wrong_prediction_is_seen() -> None:
    """One that stores each element in twice the bytes disagrees by as much."""
    device = Small()
    plain = Small.allocate
    device.allocate = lambda shape, dtype: plain(device, (*shape, 2), dtype)  # type: ignore[method-assign]
    answer = measure_answer(asked(model(GQA), 100), device)
    assert (answer.predicted_bytes, False) == (answer.difference_bytes, answer.agrees)


def test_shared_storage_counts_once() -> None:
    """Two tensors over one storage weigh as one, so the prediction of two is not met."""
    device, made = Small(), []
    plain = Small.allocate

    def shared(shape: tuple[int, ...], dtype: str) -> Any:
        made.append(made[0][:] if made else plain(device, shape, dtype))
        return made[-1]

    device.allocate = shared  # type: ignore[method-assign]
    answer = measure_answer(asked(model(GQA), 100), device)
    assert answer.predicted_bytes == 2 * answer.measured_bytes
    made.clear()


def test_an_engine_that_lists_no_tensors_is_refused() -> None:
    """Its bytes are known, the tensors behind them are not."""
    with pytest.raises(NotCountableError, match="transformers reserves bytes"):
        measure_answer(asked(model(GQA), 100, engine="transformers"), Small())
    assert measure_answer(asked(model(GQA), 100, engine="ideal"), Small()).agrees


def test_millions_of_tensors_are_refused() -> None:
    """A layer count that no device meets."""
    spec = model({"type": "gqa", "heads": 1, "kv_heads": 1, "head_dim": 1}, layers=10_000)
    spec = spec.replace(runs=((2_000_000, spec.runs[0][1]),))
    with pytest.raises(InputError, match="4,000,000 tensors"):
        measure_answer(asked(spec, 1), Small())
