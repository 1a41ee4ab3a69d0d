"""A tensor knows its elements, its bytes and the shard that the fullest rank holds."""

from __future__ import annotations

import numpy
import pytest

from kvplan.growth import PerEncoderToken, PerToken, Window
from kvplan.tensor import ITEM_BYTES, CacheTensor, Role, StoredTensor

K = CacheTensor("k", Role.K, (8, 128), PerToken(), shards=8)
LATENT = CacheTensor("latent", Role.LATENT, (576,), PerToken(), shards=1, rope=64)


def test_a_row_has_the_product_of_its_shape() -> None:
    """Elements are counted over every dimension."""
    assert (1024, 576) == (K.elements, LATENT.elements)


@pytest.mark.parametrize(("tp", "row"), [(1, (8, 128)), (2, (4, 128)), (3, (3, 128)), (8, (1, 128)), (16, (1, 128))])
def test_the_fullest_rank_holds_the_heads_rounded_up(tp: int, row: tuple[int, int]) -> None:
    """vLLM 0.33 gives one head at TP 8 and copies it at TP 16."""
    assert row == K.shard(tp).row
    assert K.shard(tp).shards == row[0]


def test_a_latent_is_whole_on_every_rank() -> None:
    """Every head reads the whole latent, so TP cannot divide it."""
    assert LATENT == LATENT.shard(8)


def test_a_shard_spans_several_rows_of_the_first_dimension() -> None:
    """Two shards of eight channels are four channels each."""
    assert (4, 16) == CacheTensor("state", Role.STATE, (8, 16), PerToken(), shards=2).shard(2).row


@pytest.mark.parametrize(
    ("dtype", "size"), [("fp32", 4), ("fp16", 2), ("bf16", 2), ("fp8_e4m3", 1), ("uint8", 1), ("ue8m0", 1)]
)
def test_an_item_takes_its_width(dtype: str, size: int) -> None:
    """Stored numbers have the width of their type."""
    assert size == ITEM_BYTES[dtype] == StoredTensor("data", (1,), dtype, PerToken()).row_bytes


def test_bytes_are_rows_times_row_bytes() -> None:
    """At one length, over an array of lengths, and over an encoder's output."""
    stored = StoredTensor("data", (8, 128), "bf16", Window(100))
    assert (2048, 100 * 2048, 100 * 2048) == (stored.bytes(1), stored.bytes(100), stored.bytes(5000))
    assert [2048, 204800] == stored.bytes(numpy.array([1, 5000])).tolist()
    assert 1500 * 8 == StoredTensor("data", (4,), "bf16", PerEncoderToken()).bytes(1, encoder_tokens=1500)
