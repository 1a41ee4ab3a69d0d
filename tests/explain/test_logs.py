"""Logs as lines: what is taken out, what bounds hold, and what a printed figure may stand for."""

from __future__ import annotations

import contextlib
import json
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import kvplan
from kvplan.errors import InputError, KvplanError
from kvplan.explain import READERS, explain_answer, reading_of
from kvplan.explain.model import candidates
from kvplan.logs import (
    LONGEST_LINE,
    MOST_BYTES,
    Log,
    decoded,
    printed_bytes,
    printed_count,
    printed_share,
    setting,
    written,
)

CACHE = "llama_kv_cache: size =  640.00 MiB (  8192 cells,  10 layers,  4/1 seqs), K (f16):  320.00 MiB, V (f16):  320.00 MiB"


def test_escapes_and_control_characters_are_taken_out() -> None:
    (line,) = Log("\x1b[32mINFO\x1b[0m GPU\x00 KV \u202ecache \x1b]0;title\x07size").lines
    assert line == "INFO GPU  KV ?cache size"


@pytest.mark.parametrize("mark", ["\n", "\r\n", "\r", "\u2028", "\x85"])
def test_every_line_break_breaks_a_line(mark: str) -> None:
    assert Log(f"one{mark}two").lines == ("one", "two")


def test_the_json_of_a_container_runtime_is_unwrapped() -> None:
    wrapped = json.dumps({"log": f"{CACHE}\n", "stream": "stderr"})
    assert reading_of(wrapped).printed == reading_of(CACHE).printed


def test_utf16_of_a_windows_redirect_is_read() -> None:
    assert decoded(CACHE.encode("utf-16")) == CACHE
    assert decoded(b"\xef\xbb\xbf" + CACHE.encode()) == CACHE
    assert decoded(b"\xff\xfe\xff") is not None


def test_lines_are_numbered_as_in_the_file() -> None:
    log = Log(f"one\n\r\n\nfour {CACHE}\n{CACHE}")
    assert [number for number, _ in log.holding("llama_kv_cache")] == [4, 5]
    assert [number for number, _ in log.found("llama_kv_cache: ", "size")] == [4, 5]
    assert log.first("four ", "size") is None
    assert reading_of(f"\n\n{CACHE}").printed[0].line == 3


def test_bytes_and_lines_are_bounded() -> None:
    assert len(decoded(b"x" * (MOST_BYTES + 10))) == MOST_BYTES
    assert len(Log("x" * (LONGEST_LINE * 2)).lines[0]) == LONGEST_LINE


@pytest.mark.parametrize(
    ("text", "key", "value"),
    [
        ("ServerArgs(model_path='org/m', tp_size=4)", "model_path", "org/m"),
        ('{"model": "org/m", "max_model_len": 32768}', "max_model_len", "32768"),
        ("{'model': None}", "model", "None"),
        ("vllm serve m --max-model-len=32k", "--max-model-len", "32k"),
        ("vllm serve m --tensor-parallel-size 8 --x", "--tensor-parallel-size", "8"),
        ("served_model_name=other", "model_name", None),
        ("served-model-name=a, model=b", "model", "b"),
        ("dtype=torch.bfloat16, max_seq_len=10", "dtype", "torch.bfloat16"),
        ("nothing here", "model", None),
    ],
)
def test_a_setting_is_found_in_mappings_calls_and_command_lines(text: str, key: str, value: str | None) -> None:
    assert setting(text, key) == value


def test_a_printed_figure_holds_what_rounds_to_it() -> None:
    gib = printed_bytes("room", "5.61", "GiB", "", 1)
    assert gib.holds(Fraction(round(5.605 * 2**30)) + 1, Fraction(round(5.605 * 2**30)) + 1)
    assert not gib.holds(Fraction(round(5.60 * 2**30)), Fraction(round(5.604 * 2**30)))
    short = printed_bytes("room", "5.6", "GiB", "", 1, least_places=2)
    assert short.high - short.low == Fraction(2**30, 100)
    assert written(Fraction(2**30), gib) == "1.00 GiB"
    assert written(Fraction(444080), printed_count("tokens", "1", "tokens", "", 1)) == "444,080 tokens"
    assert written(Fraction("3.394"), printed_share("many", "3.39", "x", "", 1)) == "3.39x"


HOSTILE = {
    "spaces": ("llama_kv_cache: size =" + " " * 5000 + "\n") * 400,
    "nearly": ("llama_kv_cache: size = " + " " * 60 + " cells, ") * 2000,
    "a thousand caches": f"{CACHE}\n" * 20_000,
    "numbers without end": "print_info: n_head = [" + "1, " * 200_000 + "]",
    "escapes": "\x1b[" * 200_000,
    "titles": ("\x1b]" + "x" * 300) * 2000,
    "braces": '{"log": ' * 20_000,
    "nested": '{"log": ' + "[" * 60_000,
    "zeros": "\0" * 500_000,
    "arguments": "non-default args: {" + "'model': " * 5000 + "GPU KV cache size: 1 tokens",
    "a mapping without end": "Initializing a V1 LLM engine (v0.33.0) with config: model='" + "a" * 300_000,
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_hostile_text_is_answered_or_refused(text: str) -> None:
    """Either way it ends: a search that goes back and forth in such texts would not."""
    answer = None
    with contextlib.suppress(KvplanError):
        answer = explain_answer(text, "llama-3.1-8b")
    assert answer is None or all(figure.agrees in (True, False, None) for figure in answer.figures)


@given(st.text(max_size=300))
def test_any_text_is_an_answer_or_an_error_of_kvplan(text: str) -> None:
    with contextlib.suppress(KvplanError):
        explain_answer(text + CACHE[: len(text)], "llama-3.1-8b")


@given(st.lists(st.sampled_from(CACHE.split(" ")), max_size=30))
def test_words_of_a_line_in_any_order_are_an_answer_or_an_error(words: list[str]) -> None:
    with contextlib.suppress(KvplanError):
        explain_answer(" ".join(["llama_kv_cache:", *words]), "llama-3.1-8b")


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("meta-llama/Llama-3.1-8B-Instruct", "meta-llama/llama-3.1-8b-instruct"),
        ("RedHatAI/Qwen3-32B-quantized.w4a16", "qwen3-32b"),
        ("Qwen/Qwen2.5-32B-Instruct-AWQ", "qwen2.5-32b"),
        ("/root/.cache/huggingface/hub/models--Qwen--Qwen3-8B/snapshots/abc", "qwen3-8b"),
        ("C:\\models\\Meta-Llama-3.1-8B-Instruct-Q4_K_M.gguf", "llama-3.1-8b"),
        ("gemma-3-27b-it-UD-Q5_K_XL-00001-of-00002.gguf", "gemma-3-27b"),
    ],
)
def test_names_lose_what_weights_are_stored_in(name: str, wanted: str) -> None:
    assert wanted in candidates(name)


def test_every_reader_is_listed_and_has_a_sample() -> None:
    folder = Path(kvplan.__file__).parent / "engine"
    assert {path.parent.name for path in folder.glob("*/log.py")} == set(READERS.values())
    samples = Path(__file__).parents[1] / "data" / "logs"
    for name in READERS:
        logs = list(samples.glob(f"{name}-*.log"))
        assert logs, name
        assert all(reading_of(log.read_text("utf-8")).engine == name for log in logs)


def test_a_log_of_nothing_known_is_refused() -> None:
    with pytest.raises(InputError, match="no line of an engine"):
        explain_answer("hello\nworld\n")


def test_a_model_that_no_name_finds_is_asked_for() -> None:
    with pytest.raises(InputError, match="names no model") as found:
        explain_answer("INFO Available KV cache memory: 5.00 GiB")
    assert "--model" in found.value.fix
    with pytest.raises(InputError, match="it says 'private/thing'"):
        explain_answer("non-default args: {'model': 'private/thing'}\nAvailable KV cache memory: 5.00 GiB")
