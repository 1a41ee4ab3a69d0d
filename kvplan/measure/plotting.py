"""The comparison as a picture: bytes and time against length, a line for each technique."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from kvplan.errors import InputError, MissingError, quoted
from kvplan.results import TechniqueResult

SUFFIXES = (".svg", ".png")


def checked_plot(file: str) -> None:
    """Refuse what could not be drawn, before anything is measured.

    Raises: InputError for another kind of file; MissingError without matplotlib.
    """
    if not file.endswith(SUFFIXES):
        raise InputError(f"--plot: found {quoted(file)}, allowed files that end in .svg or .png", "--plot caches.svg")
    if not Path(file).absolute().parent.is_dir():
        raise InputError(f"--plot: {quoted(file)} lies in no folder that exists", "make the folder first")
    try:
        import_module("matplotlib")
    except ImportError:
        raise MissingError("--plot: matplotlib is not installed", "pip install 'kvplan[plot]'") from None


def draw(techniques: Sequence[TechniqueResult], file: str) -> None:
    """Both panels, logarithmic, into `file`.

    Raises: InputError where it cannot be written.
    """
    figure: Any = import_module("matplotlib.figure").Figure(figsize=(11, 5), layout="constrained")
    left, right = figure.subplots(1, 2)
    for number, one in enumerate(techniques):
        tokens = [point.tokens for point in one.points]
        style = {"marker": "o", "markersize": 3, "color": f"C{number % 10}", "linestyle": "-" if number < 10 else "--"}
        held = [point.bytes for point in one.points]
        if any(held):
            left.plot(tokens, held, label=one.name, **style)
        right.plot(tokens, [point.seconds_per_token * 1000 for point in one.points], label=one.name, **style)
    for panel, what in ((left, "bytes of one layer"), (right, "milliseconds per token")):
        panel.set(xscale="log", yscale="log", xlabel="tokens", ylabel=what)
        panel.grid(visible=True, which="both", alpha=0.2)
    figure.legend(*right.get_legend_handles_labels(), loc="outside right upper", fontsize="small")
    try:
        figure.savefig(file)
    except OSError as error:
        raise InputError(f"--plot: {quoted(file)} cannot be written: {error.strerror}", "check the folder") from None
