"""Any published model without writing a spec: sources that people hold, read into a `ModelSpec`.

A source is one room here: `config`, `safetensors_header` (checkpoint weights), `gguf`; `source` tells them apart. A reader never
runs code from the source, never reads tensor data, and refuses what it does not understand.
"""

from __future__ import annotations

from kvplan.record import Record
from kvplan.spec import ModelSpec


class Imported(Record):
    """A spec that was read from a source.

    read: (field of the source, value) pairs the spec was read from, in order, for comments and answers.
    notes: what the reader must know, such as weights that were not opened.
    """

    spec: ModelSpec
    read: tuple[tuple[str, str], ...]
    notes: tuple[str, ...] = ()
