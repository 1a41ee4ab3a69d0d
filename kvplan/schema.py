"""From plain YAML values to strict pydantic objects, with two-line errors instead of tracebacks."""

from __future__ import annotations

import re
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from kvplan.errors import InputError, KvplanError, NotCountableError, did_you_mean, printable, quoted

M = TypeVar("M", bound=BaseModel)


def validated(cls: type[M], values: Any, source: str, beside: tuple[str, ...] = ()) -> M:
    """`values` as a `cls`; `source` is the file (and field) that errors name.

    beside: keys the caller reads itself, known words for whoever mistypes one.

    Raises: InputError that says field, found and allowed; NotCountableError as kinds raise it.
    """
    if not isinstance(values, dict):
        raise InputError(
            f"{source}: found {quoted(values)}, allowed a mapping of keys",
            f"start with `{_first_key(cls)}:`",
        )
    try:
        return cls.model_validate(values)
    except ValidationError as error:
        raise _first_problem(error, cls, source, beside) from None


_BRANCH = re.compile(r"constrained-|list\[|dict\[|literal\[|function-|(str|int|float|bool)$")
"""Names that pydantic gives the branches of a union: no key of a file is called so."""


def _order(problem: Any) -> tuple[bool, bool, bool]:
    """Missing keys last, and of a union's branches the one that takes what was found: a list or a single value."""
    branches = [part for part in map(str, problem["loc"]) if _BRANCH.match(part)]
    of_a_list = any(part.startswith("list[") for part in branches)
    found_a_list = isinstance(problem.get("input"), list) or any(isinstance(part, int) for part in problem["loc"])
    return problem["type"] == "missing", bool(branches) and of_a_list != found_a_list, len(problem["loc"]) == 0


def _first_key(cls: type[BaseModel]) -> str:
    return next(iter(cls.model_fields))


def _first_problem(error: ValidationError, cls: type[BaseModel], source: str, beside: tuple[str, ...]) -> InputError:
    problem = min(error.errors(include_url=False), key=_order)
    place = ".".join(printable(part) for part in problem["loc"] if not _BRANCH.match(str(part)))
    where = f"{source}: {place}" if place else source
    kind, found = problem["type"], problem.get("input")
    if kind == "extra_forbidden":
        known = [*_keys_at(cls, problem["loc"]), *(beside if len(problem["loc"]) == 1 else ())]
        fix = did_you_mean(str(problem["loc"][-1]), known, f"known keys: {', '.join(known)}")
        return InputError(f"{where}: unknown key", fix)
    if kind == "missing":
        return InputError(
            f"{where}: missing",
            f"add `{place.rsplit('.', 1)[-1]}:`; `kvplan show llama-3.1-70b` prints a whole spec",
        )
    message = problem["msg"].removeprefix("Value error, ").removeprefix("Input should be ")
    message = message.removeprefix("List should have ").split(" after validation")[0]
    if kind == "value_error":
        return InputError(f"{where}: {message}", "mend one of the two")
    return InputError(f"{where}: found {quoted(found)}, allowed {message}", "write a value of that kind")


def _keys_at(cls: type[BaseModel], loc: tuple[int | str, ...]) -> list[str]:
    """The keys known beside an unknown one, as deep as nested models go."""
    here: Any = cls
    for part in loc[:-1]:
        field = here.model_fields.get(part) if isinstance(part, str) else None
        inner = _model_in(field.annotation) if field else None
        here = inner or here
    return [field.alias or name for name, field in here.model_fields.items()]


def _model_in(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    for part in getattr(annotation, "__args__", ()):
        found = _model_in(part)
        if found:
            return found
    return None


def at(place: str, error: KvplanError) -> KvplanError:
    """`error` with `place` put before what it says, its kind and its fix kept."""
    cls = NotCountableError if isinstance(error, NotCountableError) else InputError
    return cls(f"{place}: {error.what}", error.fix)
