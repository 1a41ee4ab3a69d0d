"""The YAML description of a capacity matrix: models x lengths x formats x cards, and the budgets they must keep.

Every axis takes one value or a list; every combination is one cell. The other keys are the options of
`kvplan size`, the same in all cells. Worked: two models, three lengths and two cards are 12 cells.
"""

from __future__ import annotations

import re
from fractions import Fraction
from itertools import product
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from kvplan.errors import InputError, quoted
from kvplan.question import Question
from kvplan.schema import validated
from kvplan.units import byte_count, tokens

MOST_CELLS = 20_000
Word = Annotated[str, Field(min_length=1, max_length=300)]
Length = Annotated[str, Field(min_length=1, max_length=40)] | Annotated[int, Field(ge=1, le=10**12)]
Whole = Annotated[int, Field(ge=1, le=10**9)]
Bytes = Annotated[str, Field(min_length=1, max_length=40)] | Annotated[int, Field(ge=0, le=10**18)]
Share = Annotated[float, Field(gt=0, le=1)]
Scalar = bool | int | float | Word
Shown = Literal["bytes", "reserved", "fits", "max_batch", "max_context"]
AXES = ("models", "gpu", "tp", "pp", "batch", "kv_dtype", "policy", "engine", "ctx")
"""The keys that take lists, the slowest first."""


class Fields(BaseModel):
    """Strict, frozen YAML fields."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Layout(Fields):
    """How the tables read: what stands across, what is shown, what gets a table of its own, what sorts the rows."""

    across: Literal["ctx", "batch", "tp", "pp", "gpu", "kv_dtype", "policy", "engine"] = "ctx"
    down: Literal["models", "gpu", "engine", "kv_dtype", "tp", "policy"] = "models"
    show: Annotated[list[Shown], Field(min_length=1, max_length=5)] | None = None
    sort: Literal["as written", "name", "bytes"] = "as written"


class Budget(Fields):
    """What must hold of the cells it names: the keys of an axis narrow it, the limits say what must be kept."""

    models: Word | Annotated[list[Word], Field(min_length=1, max_length=500)] | None = Field(
        default=None, alias="model"
    )
    gpu: Word | None = None
    tp: Whole | None = None
    pp: Whole | None = None
    batch: Whole | None = None
    kv_dtype: Word | None = None
    policy: Word | None = None
    engine: Word | None = None
    ctx: Length | None = None
    must: Literal["fit"] | None = None
    min_batch: Whole | None = None
    min_ctx: Length | None = None
    max_bytes: Bytes | None = None
    max_cost_per_month: Annotated[float, Field(gt=0, le=1e12)] | Whole | None = None
    max_tpot: Word | None = None


LIMITS = ("must", "min_batch", "min_ctx", "max_bytes", "max_cost_per_month", "max_tpot")


class CapacityFields(Fields):
    """Every key of a capacity file."""

    title: Word | None = None
    models: Word | Annotated[list[Word], Field(min_length=1, max_length=500)]
    ctx: Length | Annotated[list[Length], Field(min_length=1, max_length=500)]
    batch: Whole | Annotated[list[Whole], Field(min_length=1, max_length=500)] = 1
    kv_dtype: Word | Annotated[list[Word], Field(min_length=1, max_length=50)] | None = None
    gpu: Word | Annotated[list[Word], Field(min_length=1, max_length=200)] | None = None
    tp: Whole | Annotated[list[Whole], Field(min_length=1, max_length=50)] = 1
    pp: Whole | Annotated[list[Whole], Field(min_length=1, max_length=50)] = 1
    policy: Word | Annotated[list[Word], Field(min_length=1, max_length=50)] = "full"
    engine: Word | Annotated[list[Word], Field(min_length=1, max_length=20)] | None = None
    engine_options: dict[Word, Scalar] = {}
    k_dtype: Word | None = None
    v_dtype: Word | None = None
    index_dtype: Word = "fp8"
    ep: Whole = 1
    dp: Whole = 1
    dcp: Whole = 1
    mtp: Annotated[int, Field(ge=0, le=10_000)] = 0
    prefix: Length | None = None
    encoder_tokens: Length | None = None
    weights: Word | None = None
    utilization: Share | None = None
    available_bytes: Bytes | None = None
    reserve: Bytes | None = None
    price: dict[Word, Annotated[float, Field(gt=0, le=1e6)] | Annotated[int, Field(ge=1, le=10**6)]] = {}
    layout: Layout = Layout()
    budgets: Annotated[list[Budget], Field(max_length=5_000)] = []


class Capacity(BaseModel):
    """A capacity file: its fields, and the name that errors give it."""

    fields: CapacityFields
    source: str

    def axes(self) -> dict[str, list[Any]]:
        """The values of every axis, in the order of `AXES`; lengths as whole tokens or `max`."""
        found: dict[str, list[Any]] = {}
        for name in AXES:
            value = getattr(self.fields, name)
            found[name] = list(value) if isinstance(value, list) else [value]
        found["ctx"] = [length(item, f"{self.source}: ctx") for item in found["ctx"]]
        return found

    def fixed(self) -> dict[str, Any]:
        """The options that are the same in every cell, as `Question` takes them."""
        f, place = self.fields, self.source
        return {
            "index_dtype": f.index_dtype,
            "ep": f.ep,
            "dp": f.dp,
            "dcp": f.dcp,
            "mtp": f.mtp,
            "prefix": 0 if f.prefix is None else tokens(str(f.prefix), f"{place}: prefix"),
            "encoder_tokens": None
            if f.encoder_tokens is None
            else tokens(str(f.encoder_tokens), f"{place}: encoder_tokens"),
            "weights": f.weights,
            "utilization": None if f.utilization is None else Fraction(str(f.utilization)),
            "available_bytes": None
            if f.available_bytes is None
            else count(f.available_bytes, f"{place}: available_bytes"),
            "reserve_bytes": 0 if f.reserve is None else count(f.reserve, f"{place}: reserve"),
            "engine_options": tuple(
                f"{key}={str(value).lower() if isinstance(value, bool) else value}"
                for key, value in f.engine_options.items()
            ),
        }

    def questions(self) -> list[tuple[dict[str, Any], Question]]:
        """Every cell's place on the axes and its question, the first axis slowest.

        Raises: InputError when there are too many.
        """
        axes, fixed = self.axes(), self.fixed()
        cells = 1
        for values in axes.values():
            cells *= len(values)
        if cells > MOST_CELLS:
            raise InputError(f"{self.source}: {cells:,} cells, allowed at most {MOST_CELLS:,}", "split the file")
        places = [dict(zip(axes, chosen, strict=True)) for chosen in product(*axes.values())]
        return [(place, self.question(place, fixed)) for place in places]

    def question(self, place: dict[str, Any], fixed: dict[str, Any] | None = None) -> Question:
        """The question of the cell at `place`; fixed: what `fixed` returns, where it is at hand."""
        f = self.fields
        single = {key: value for key, value in place.items() if key not in ("models", "kv_dtype")}
        k, v = (f.k_dtype, f.v_dtype) if place["kv_dtype"] is None else (place["kv_dtype"],) * 2
        return Question(model=place["models"], k_dtype=k, v_dtype=v, **single, **(fixed or self.fixed()))


_CAPACITY = re.compile(r"^(models|budgets):", re.MULTILINE)


def is_capacity(text: str, name: str) -> bool:
    """True for the text of a capacity file: YAML with `models` or `budgets` at its outermost level."""
    return name.lower().endswith((".yaml", ".yml")) and _CAPACITY.search(text) is not None


def parse_capacity(values: Any, source: str) -> Capacity:
    """The capacity file in `values`, as `load_yaml` returns them.

    Raises: InputError for anything malformed.
    """
    fields = validated(CapacityFields, values, source)
    if fields.kv_dtype is not None and (fields.k_dtype is not None or fields.v_dtype is not None):
        raise InputError(f"{source}: kv_dtype stands for both k_dtype and v_dtype", "keep either of them")
    if fields.layout.across == fields.layout.down:
        raise InputError(
            f"{source}: layout: {quoted(fields.layout.across)} stands both across and down", "choose two different axes"
        )
    for number, budget in enumerate(fields.budgets):
        if all(getattr(budget, name) is None for name in LIMITS):
            raise InputError(f"{source}: budgets.{number}: sets no limit", f"add one of {', '.join(LIMITS)}")
    return Capacity.model_construct(fields=fields, source=source)


def length(value: str | int, what: str) -> Any:
    """Whole tokens, or `max`."""
    if value == "max":
        return value
    return value if isinstance(value, int) else tokens(value, what)


def count(value: str | int, what: str) -> int:
    """Whole bytes."""
    return byte_count(str(value), what)
