"""The shell completes commands, models, GPUs and formats."""

from __future__ import annotations

import pytest

from .conftest import process


def completed(words: str) -> list[str]:
    """What bash is offered for the last word of `words`."""
    env = {"_KVPLAN_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(len(words.split()) - 1)}
    done = process(env=env)
    assert b"" == done.stderr
    return done.stdout.decode().split()


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("kvplan si", {"size"}),
        ("kvplan size llama-3.1-7", {"llama-3.1-70b", "llama-3.1-70b-instruct"}),
        ("kvplan size gpt-2 --draft smollm2-13", {"smollm2-135m"}),
        ("kvplan fit gpt-2 --gpu gb1", {"gb10", "gb10-dgx-spark", "gb10-128gb"}),
        ("kvplan size gpt-2 --kv-dtype kivi", {"kivi4", "kivi2"}),
        ("kvplan show gb10-1", {"gb10-128gb"}),
        ("kvplan show nvfp4_", {"nvfp4_ds_mla"}),
        ("kvplan show transf", {"transformers"}),
    ],
)
def test_bash_is_offered_the_names_that_begin_so(words: str, offered: set[str]) -> None:
    """Names and aliases alike."""
    assert offered == set(completed(words))


def test_completion_can_be_installed() -> None:
    """`kvplan --show-completion` and --install-completion are offered, and the script asks kvplan itself."""
    done = process(env={"_KVPLAN_COMPLETE": "source_bash"})
    assert b"_KVPLAN_COMPLETE=complete_bash" in done.stdout
    help_page = process("--help").stdout
    assert b"--show-completion" in help_page
    assert b"--install-completion" in help_page
