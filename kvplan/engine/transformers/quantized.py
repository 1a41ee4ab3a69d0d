"""QuantizedCache: whole tensors in groups of codes with a scale and a shift, and a residual of recent tokens.

The first update of P tokens is quantized whole. The tokens after it wait in the model's dtype until R of them
are there; then all that is kept is quantized again. So of n tokens q = P + R floor((n - P) / R) are codes.
For a tensor of w numbers per token and sequence, E = b w q numbers are G = E / g groups:

- quanto (2 or 4 bit): ceil(G / (8 / bits)) x g bytes of codes, and 2 G numbers of the model's dtype; a single
  group gets a scale and a shift per number;
- hqq: G x g x bits / 8 bytes (3 bit: G x 4 ceil(g / 10)), and 2 G numbers of the model's dtype.

A latent is two tensors, its compressed part and its rotary part. q w must be a multiple of g at every flush
(of one sequence for quanto, of the batch for hqq). Only full attention can be quantized.

Worked: 2 layers, 2 heads of 64, 16 bit, 4 bit quanto in groups of 64: 128 tokens of which one at first:
1 x 128 numbers are 2 groups (64 + 8 B), 127 wait (32,512 B), so 4 tensors x 32,584 = 130,336 bytes.

Source: transformers 5.24.0 cache_utils.py (QuantizedLayer), with optimum-quanto 0.2.7 and hqq 0.2.8.post1, executed.

>>> quanto_bytes(1, 64, 4, 2), quanto_bytes(2, 64, 4, 2), hqq_bytes(3, 64, 3, 2)
(320, 72, 96)
"""

from __future__ import annotations

from kvplan.engine import Options
from kvplan.engine.transformers.held import ATTENTION, Held, Tensors, Updates, crosses, held, together, window_of
from kvplan.errors import InputError
from kvplan.record import Record
from kvplan.tensor import CacheTensor, Role
from kvplan.units import ceil_div

BITS = {"quanto": (2, 4), "hqq": (1, 2, 3, 4, 8)}
REASONS = (
    "the first update is quantized whole, the tokens after it wait for their flush",
    "groups carry a scale and a shift in the model's dtype",
)


class Quantization(Record):
    """The options of a quantized cache, spelled as the library spells them."""

    backend: str
    nbits: int
    q_group_size: int
    residual_length: int

    def group_bytes(self, groups: int, item_bytes: int) -> int:
        """Bytes of `groups` groups with their scales and shifts."""
        rule = quanto_bytes if self.backend == "quanto" else hqq_bytes
        return rule(groups, self.q_group_size, self.nbits, item_bytes)


def quantization(options: Options) -> Quantization:
    """The options as given, the library's defaults for the rest.

    Raises: InputError for bits that the backend cannot store.
    """
    backend, nbits = str(options.get("backend", "quanto")), int(options.get("nbits", 4))
    if nbits not in BITS[backend]:
        allowed = ", ".join(map(str, BITS[backend]))
        fix = "-E backend=hqq" if nbits in BITS["hqq"] else "-E nbits=4"
        raise InputError(f"-E nbits: found {nbits}, {backend} takes {allowed}", fix)
    group = int(options.get("q_group_size", 64))
    if backend == "hqq" and nbits != 3 and group * nbits % 8:
        raise InputError(
            f"-E q_group_size: found {group}, hqq packs {nbits}-bit codes in multiples of {8 // nbits}",
            "-E q_group_size=64",
        )
    return Quantization(backend, nbits, group, int(options.get("residual_length", 128)))


def quanto_bytes(groups: int, group: int, bits: int, item_bytes: int) -> int:
    """Codes packed over groups, then a scale and a shift each (per number where there is one group)."""
    return ceil_div(groups, 8 // bits) * group + 2 * item_bytes * (group if groups == 1 else groups)


def hqq_bytes(groups: int, group: int, bits: int, item_bytes: int) -> int:
    """Codes packed within each group (ten 3-bit codes to an int32), then a scale and a shift each."""
    codes = 4 * ceil_div(group, 10) if bits == 3 else group * bits // 8
    return groups * (codes + 2 * item_bytes)


def split(updates: Updates, residual_length: int) -> tuple[int, int]:
    """(tokens quantized, tokens waiting)."""
    waiting = (updates.context - updates.first) % residual_length
    return updates.context - waiting, waiting


def quantized_layer(layer: Tensors, updates: Updates, chosen: Quantization) -> Held:
    """What one layer holds.

    Raises: InputError for a layer that the library cannot quantize, or a group that does not divide.
    """
    if not layer or any(t.role not in ATTENTION or crosses(t) or window_of(t) is not None for t in layer):
        what = f"not every layer of {updates.place} is full attention, and transformers quantizes nothing else"
        raise InputError(f"-E cache=quantized: {what}", "-E cache=dynamic")
    return together((1, _numbers(width, updates, chosen)) for tensor in layer for width in _widths(tensor))


def _widths(tensor: CacheTensor) -> tuple[int, ...]:
    if tensor.role is Role.LATENT:
        return tuple(width for width in (tensor.elements - tensor.rope, tensor.rope) if width)
    return (tensor.elements,)


def _numbers(width: int, updates: Updates, chosen: Quantization) -> Held:
    """One tensor of `width` numbers per token and sequence."""
    quantized, waiting = split(updates, chosen.residual_length)
    per_token = width if chosen.backend == "quanto" else width * updates.batch
    _check_divides(per_token * updates.first, chosen)
    if quantized > updates.first:
        _check_divides(per_token * (updates.first + chosen.residual_length), chosen)
    groups = updates.batch * width * quantized // chosen.q_group_size
    codes = chosen.group_bytes(groups, updates.item_bytes)
    return held(codes + updates.batch * width * waiting * updates.item_bytes, reasons=REASONS)


def _check_divides(numbers: int, chosen: Quantization) -> None:
    if numbers % chosen.q_group_size:
        raise InputError(
            f"-E q_group_size: found {chosen.q_group_size}, but {numbers:,} numbers at a flush are no multiple of it",
            "choose -E prefill=, -E residual_length= or -E q_group_size= so that they are",
        )
