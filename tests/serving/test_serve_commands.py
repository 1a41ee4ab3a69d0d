"""Serve commands that people publish are read as their engines read them, and no real flag is unknown."""

from __future__ import annotations

import json
import shutil
import subprocess
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
import yaml

from kvplan.errors import InputError
from kvplan.serving import SERVERS, one_launch, served, server
from kvplan.serving.flags import read_flags
from kvplan.serving.shell import commands

DATA = Path(__file__).parents[1] / "data"
COMMANDS = [
    {**command, "engine": group["engine"]}
    for group in yaml.safe_load((DATA / "serve_commands.yaml").read_text("utf-8"))
    for command in group["commands"]
]
FLAGS = json.loads((DATA / "serve_flags.json").read_text("utf-8"))


@pytest.mark.parametrize("case", COMMANDS, ids=lambda case: case["run"][:60])
def test_a_published_command_is_read(case: dict[str, Any]) -> None:
    """Engine, model, fields and options are what its words say, and none of its flags is unknown."""
    launch = one_launch(case["run"])
    found = served(launch)
    assert (case["engine"], case["model"], ()) == (found.engine, found.model, found.unknown)
    for key, value in case.get("asks", {}).items():
        wanted = Fraction(str(value)) if isinstance(value, float) else value
        assert wanted == found.fields.get(key), key
    assert set(case.get("options", ())) <= set(found.options)
    assert tuple(case.get("uncounted", ())) == found.uncounted
    for key in ("parallel", "version"):
        if key in case:
            assert case[key] == getattr(found, key)
    if "cards" in case:
        assert case["cards"] == launch.cards


def test_there_are_commands_for_every_engine_of_the_roster() -> None:
    """Sixty commands and more, and each engine has some."""
    assert len(COMMANDS) >= 60
    assert set(SERVERS) == {case["engine"] for case in COMMANDS}


@pytest.mark.parametrize("engine", FLAGS)
def test_every_flag_of_the_engines_own_parser_is_known(engine: str) -> None:
    """Each spelling of `tests/data/serve_flags.json` names a flag that takes as many words."""
    known, kinds = server(engine.removeprefix("earlier:")).FLAGS, {"value", "switch", "list", "optional", "two"}
    for spellings, kind in FLAGS[engine]["flags"]:
        assert kind in kinds
        for spelling in spellings:
            name = known.named(spelling)
            assert name is not None, spelling
            if spelling not in ("-fa", "--flash-attn"):  # a switch in older releases
                assert kind == known.kinds[name], spelling


@pytest.mark.parametrize("engine", FLAGS)
def test_the_words_behind_a_flag_are_its_own(engine: str) -> None:
    """A word after each flag is its value or, behind a switch, the positional."""
    known = server(engine.removeprefix("earlier:")).FLAGS
    for spellings, kind in FLAGS[engine]["flags"]:
        for spelling in spellings:
            words = [spelling] + ["3"] * {"two": 2, "switch": 0}.get(kind, 1)
            found = read_flags([*words, *(["rest"] if kind != "list" else [])], known)
            assert ((), ("rest",) if kind != "list" else ()) == (found.unknown, found.positional), spelling


@pytest.mark.parametrize(
    ("typed", "on"),
    [
        ("--enable-prefix-caching", True),
        ("--no-enable-prefix-caching", False),
        ("--disable-prefix-caching", False),
        ("--no-disable-prefix-caching", True),
        ("--enable_prefix_caching", True),
    ],
)
def test_a_switch_is_on_or_off_as_vllm_has_it(typed: str, on: bool) -> None:
    """vLLM's `--enable-x`, `--disable-x`, `--no-enable-x` and `--no-disable-x`."""
    assert on == read_flags([typed], server("vllm").FLAGS).switch("--enable-prefix-caching")


@pytest.mark.parametrize(
    ("typed", "on"),
    [("-kvu", True), ("--no-kv-unified", False), ("-no-kvu", False), ("--kv_unified", True)],
)
def test_a_switch_is_on_or_off_as_llama_cpp_has_it(typed: str, on: bool) -> None:
    """llama.cpp's positive and negative spellings."""
    assert on == read_flags([typed], server("llama.cpp").FLAGS).switch("-kvu")


@pytest.mark.parametrize(
    ("text", "tokens"),
    [("32768", 32768), ("32k", 32000), ("32K", 32768), ("1.5k", 1500), ("1m", 10**6), ("1M", 2**20), ("25.6k", 25600)],
)
def test_vllm_s_lengths_are_vllm_s(text: str, tokens: int) -> None:
    """`human_readable_int` of vLLM 0.33.0: the examples of its docstring."""
    assert tokens == served(one_launch(f"vllm serve m --max-model-len {text}")).fields["ctx"]


@pytest.mark.parametrize(
    ("text", "tokens"), [("1k", 1000), ("1M", 10**6), ("25.6k", 25600), ("1Ki", 1024), ("1Mi", 2**20), ("32768", 32768)]
)
def test_sglang_s_lengths_are_sglang_s(text: str, tokens: int) -> None:
    """`human_readable_int` of SGLang 0.5.23: the examples of its docstring; K is none of its suffixes."""
    found = served(one_launch(f"python -m sglang.launch_server --model m --context-length {text}"))
    assert tokens == found.fields["ctx"]
    with pytest.raises(InputError, match="context-length"):
        served(one_launch("python -m sglang.launch_server --model m --context-length 32K"))


WORDS = [
    "x vllm serve a 'b c' \"d e\" f\\ g",
    'x "q\\"uote" \'$x\' "\\$x" "a\\\\b" \\"x',
    "x b#c # not this",
    "x '' \"\" b",
    "x --x='{\"k\": [1, 2]}' \\\n  --y",
    "x\tb   c",
    "x 'it'\\''s'",
]
EXPANDED = [
    *WORDS,
    'x $A "$A" ${A} ${NONE:-d} "${NONE:-d e}" ${A:+z} ${A:-q} ${E-unset} ${E:-empty} \'$A\' a$A$A',
    'x "${A}b" $B "$B" a${B}b ${NONE:-} end',
    'x "a\\$A" a\\$A "\\\\$A" $ "$" 50% $A/$B',
]


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash to compare with")
@pytest.mark.parametrize("text", EXPANDED)
def test_variables_expand_as_in_bash(text: str) -> None:
    """Bash's own words for the same text; the text is the test's own."""
    values = {"A": "one", "B": "two three", "E": ""}
    script = f"printf '%s\\0' {text}"
    done = subprocess.run(["bash", "-c", script], env=values, capture_output=True, text=True, check=True)
    assert done.stdout.split("\0")[:-1] == list(commands(text, values)[0].words)
