"""Tiny random models of many architectures, each beside the kvplan spec of the same shape.

The library builds and runs them on a CPU; the spec is what kvplan reads. Nothing of the library is copied:
settings go in, a cache object comes out.
"""

from __future__ import annotations

from tiny_attention import DENSE, LATENTS, WINDOWS
from tiny_recurrent import ENCODERS, RECURRENT

MODELS = (*DENSE, *WINDOWS, *LATENTS, *RECURRENT, *ENCODERS)
NAMED = {tiny.name: tiny for tiny in MODELS}
