"""vLLM's batched tokens follow the card that is named, and windows reserve for the tokens in flight."""

from __future__ import annotations

from typing import Any

import pytest

import kvplan


def blocks(**options: Any) -> int:
    engine: Any = kvplan.size("gpt-oss-20b", ctx=32_768, engine="vllm", **options).engine
    return int(engine["blocks_per_request"])


@pytest.mark.parametrize(("gpu", "batched"), [("l40s", 2048), ("a100-sxm-80gb", 2048), ("h100", 8192), ("b200", 16384)])
def test_a_card_brings_the_default_that_the_engine_takes_on_it(gpu: str, batched: int) -> None:
    """`EngineArgs` of vLLM 0.33: 16,384 from 160 GiB, 8,192 from 70 GiB but not on an A100, else 2,048."""
    assert blocks(gpu=gpu) == blocks(engine_options={"max_num_batched_tokens": batched})


def test_an_option_stays_above_the_cards_default() -> None:
    assert blocks(gpu="b200", engine_options={"max_num_batched_tokens": 2048}) == blocks(gpu="l40s")


def test_without_a_card_it_is_8192() -> None:
    assert blocks() == blocks(gpu="h100")
