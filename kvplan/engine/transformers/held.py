"""What a cache layer of the library holds: bytes its tensors show, bytes their storages occupy, counters, reasons.

A tensor can be a view: it shows fewer rows than its storage keeps alive. Both figures include the int64
counters that some layers hold, since those are tensors too.

Worked: 100 bytes shown of 120 stored, with one counter: 108 and 128 bytes.

Source: the definition of the two figures; no rule of the library's is in this file.
"""

from __future__ import annotations

from collections.abc import Iterable

from kvplan.errors import NotCountableError
from kvplan.growth import Chunk, PerEncoderToken, PerToken, Window
from kvplan.record import Record
from kvplan.spec import Layer
from kvplan.tensor import CacheTensor, Role

Tensors = tuple[CacheTensor, ...]
COUNTER_BYTES = 8
ATTENTION = frozenset({Role.K, Role.V, Role.LATENT})
LEADS = frozenset({Role.K, Role.LATENT})
"""Roles that stand for one attention of a layer: a V shares the counter of its K."""


class Held(Record):
    """Bytes of some layers: logical (what tensors show), storage (what stays allocated), counters among them."""

    logical_bytes: int = 0
    storage_bytes: int = 0
    counters: int = 0
    reasons: tuple[str, ...] = ()


class Updates(Record):
    """The run that fills a cache, and the dtype the model computes in.

    first: tokens of the first update; the rest come one by one. rows: a static cache's own length, else the
    context. place: what errors name.
    """

    batch: int
    context: int
    first: int
    rows: int
    item_bytes: int
    dtype: str
    encoder_tokens: int
    place: str

    @property
    def at_once(self) -> bool:
        """True when one update brings every token."""
        return self.first == self.context

    def row_bytes(self, tensor: CacheTensor) -> int:
        """Bytes of one row of `tensor` over the batch, in the model's dtype."""
        return self.batch * tensor.elements * self.item_bytes


def held(logical: int, storage: int | None = None, counters: int = 0, reasons: tuple[str, ...] = ()) -> Held:
    """`logical` bytes of data in `storage` bytes (the same unless given), and `counters` beside them.

    >>> held(100, 120, counters=1).logical_bytes, held(100, 120, counters=1).storage_bytes
    (108, 128)
    """
    beside = counters * COUNTER_BYTES
    why = (*reasons, "layers with counters hold 8 bytes each") if counters else reasons
    return Held(logical + beside, (logical if storage is None else storage) + beside, counters, why)


def together(items: Iterable[tuple[int, Held]]) -> Held:
    """The sum of (times, bytes); each reason once."""
    logical = storage = counters = 0
    reasons: dict[str, None] = {}
    for times, item in items:
        logical += times * item.logical_bytes
        storage += times * item.storage_bytes
        counters += times * item.counters
        reasons.update(dict.fromkeys(item.reasons))
    return Held(logical, storage, counters, tuple(reasons))


def distinct(layers: Iterable[tuple[int, Layer]]) -> list[tuple[int, Tensors]]:
    """The tensors of each distinct layer, with its count over the whole model."""
    counts: dict[int, tuple[int, Layer]] = {}
    for count, layer in layers:
        seen = counts.get(id(layer), (0, layer))[0]
        counts[id(layer)] = (seen + count, layer)
    return [(count, layer.tensors()) for count, layer in counts.values()]


def window_of(tensor: CacheTensor) -> int | None:
    """Tokens of the window or chunk that bounds `tensor`, None where nothing does; the library treats both alike."""
    return tensor.growth.tokens if isinstance(tensor.growth, Window | Chunk) else None


def crosses(tensor: CacheTensor) -> bool:
    """True for keys and values over an encoder's output."""
    return isinstance(tensor.growth, PerEncoderToken)


def check_attention(tensor: CacheTensor, updates: Updates) -> None:
    """Refuse keys, values or latents that neither grow per token nor are bounded by a window.

    Raises: NotCountableError naming the tensor.
    """
    if not isinstance(tensor.growth, PerToken | Window | Chunk | PerEncoderToken):
        raise not_countable(
            updates, tensor, f"rows by {type(tensor.growth).__name__} were never seen in transformers 5.24"
        )


def check_index(tensor: CacheTensor, layer: Tensors, updates: Updates) -> tuple[str, ...]:
    """The reasons an index brings; it must have one key per token, beside full attention.

    Raises: NotCountableError for a pooled index, or one beside a window.
    """
    if not isinstance(tensor.growth, PerToken):
        raise not_countable(
            updates, tensor, "an index of fewer keys than tokens was never weighed in transformers 5.24"
        )
    if any(window_of(t) is not None for t in layer):
        raise not_countable(updates, tensor, "an index beside a window was never weighed in transformers 5.24")
    return ("index keys are in the model's dtype, without scales",)


def not_countable(updates: Updates, tensor: CacheTensor, why: str) -> NotCountableError:
    """The error for a tensor whose bytes in the library nobody has weighed."""
    return NotCountableError(
        f"{updates.place}: {tensor.name}: {why}", "--engine ideal counts what the architecture needs"
    )
