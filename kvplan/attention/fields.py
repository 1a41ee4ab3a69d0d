"""Field types and the base class that the attention kinds share: bounds, never behaviour."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

Heads = Annotated[int, Field(ge=1, le=4096)]
Width = Annotated[int, Field(ge=1, le=2**20)]
WidthOrNone = Annotated[int, Field(ge=0, le=2**20)]
Rows = Annotated[int, Field(ge=1, le=2**40)]
Kernel = Annotated[int, Field(ge=1, le=1024)]
StateDtype = Literal["fp32", "fp16", "bf16"]


class Fields(BaseModel):
    """Strict, frozen YAML fields of one kind."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)
