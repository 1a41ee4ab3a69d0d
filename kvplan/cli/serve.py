"""What `--serve` does to `size` and `fit`: one command read once, answered for every combination beside it."""

from __future__ import annotations

from typing import Any

from kvplan.planner.inverse import fit_answer
from kvplan.planner.serve import command_of, serve_answer
from kvplan.results import FitResult, SizeResult
from kvplan.serving import one_launch

UNTYPED: dict[str, Any] = {
    "index_dtype": "fp8",
    "policy": "full",
    "ep": 1,
    "dcp": 1,
    "mtp": 0,
    "prefix": 0,
    "reserve_bytes": 0,
    "online": False,
    "engine_options": (),
    "formula": False,
}
"""What an option says where nobody typed it."""


def served_sizes(
    text: str, combinations: list[dict[str, Any]], fixed: dict[str, Any], formula: bool, hints: list[str]
) -> list[SizeResult]:
    """The size of a serve command beside each combination of options.

    Raises: InputError as `serve_answer` does.
    """
    launch = one_launch(text)
    results = [serve_answer(launch, beside(row, {**fixed, "formula": formula})) for row in combinations]
    if any(result.gpu is None for result in results):
        hints.append("no GPU is named: add --gpu to learn whether it starts")
    return results


def served_fits(
    text: str, combinations: list[dict[str, Any]], fixed: dict[str, Any], hints: list[str]
) -> list[FitResult]:
    """What fits of a serve command's model, beside each combination of options.

    Raises: InputError as `serve_answer` does.
    """
    launch = one_launch(text)
    results = []
    for row in combinations:
        command = command_of(launch, beside(row, fixed))
        hints += [f"unknown to {command.served.engine}: {flag}" for flag in command.served.unknown]
        answer = fit_answer(command.question)
        results.append(answer.replace(notes=(*answer.notes, *command.notes)))
    return results


def beside(row: dict[str, Any], fixed: dict[str, Any]) -> dict[str, Any]:
    """The fields of a question that somebody typed beside the command."""
    k_dtype, v_dtype = row["dtypes"]
    name, pairs = row["engine"]
    typed = {
        **fixed,
        **{key: value for key, value in row.items() if key not in ("dtypes", "engine")},
        "k_dtype": k_dtype,
        "v_dtype": v_dtype,
        "engine": name,
    }
    if pairs is not None:
        typed["engine_options"] = pairs
    return {key: value for key, value in typed.items() if value is not None and UNTYPED.get(key) != value}
