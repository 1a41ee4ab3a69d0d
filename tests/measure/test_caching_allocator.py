"""The replayed rounding of CUDA's caching allocator, on sizes worked out by hand from its documented rules."""

from __future__ import annotations

import pytest

from kvplan.measure.caching_allocator import allocated, reserved

MIB = 2**20


@pytest.mark.parametrize(
    ("sizes", "blocks", "segments", "why"),
    [
        ([], 0, 0, "nothing"),
        ([0, 0], 0, 0, "an empty tensor has no block"),
        ([1], 512, 2 * MIB, "512 bytes of a small segment"),
        ([513], 1024, 2 * MIB, "rounded up to the next 512"),
        ([MIB, MIB], 2 * MIB, 2 * MIB, "two blocks of 1 MiB fill a small segment"),
        ([MIB, MIB, 1], 2 * MIB + 512, 4 * MIB, "and the third opens another"),
        ([MIB + 1], MIB + 512, 20 * MIB, "above 1 MiB: a segment of 20 MiB"),
        ([9 * MIB, 9 * MIB], 18 * MIB, 20 * MIB, "which two of 9 MiB share"),
        ([9 * MIB, 9 * MIB, 2 * MIB], 20 * MIB, 20 * MIB, "with a third in their rest"),
        ([10 * MIB - 512, 10 * MIB - 512], 20 * MIB - 1024, 20 * MIB, "a rest of more than 1 MiB is kept and used"),
        ([19 * MIB + 1], 19 * MIB + 512, 20 * MIB, "from 10 MiB on a segment of its own, in steps of 2 MiB"),
        ([10 * MIB], 10 * MIB, 10 * MIB, "which may be exact"),
        ([11 * MIB, 512], 11 * MIB + 512, 14 * MIB, "a small block never lies in a large segment"),
        ([12 * MIB + 1, MIB + 1], 13 * MIB + 1024, 14 * MIB, "a rest of more than 1 MiB of it is used too"),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_segments_are_counted(sizes: list[int], blocks: int, segments: int, why: str) -> None:
    """Blocks of 512 bytes in segments of 2 and 20 MiB, larger ones on their own."""
    assert (blocks, segments) == (allocated(sizes), reserved(sizes)), why


def test_expandable_segments_grow_in_steps() -> None:
    """Of 2 MiB for small blocks and 20 MiB for large ones, back to back."""
    assert 22 * MIB == reserved([1, 5 * MIB, 12 * MIB], expandable=True)
    assert 40 * MIB == reserved([21 * MIB], expandable=True)
