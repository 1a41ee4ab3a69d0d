"""The smallest program on the same libraries: one typer command, one YAML file, one model, one rich table."""

from __future__ import annotations

from pathlib import Path

import typer
import yaml
from pydantic import BaseModel
from rich.console import Console
from rich.table import Table


class Attention(BaseModel):
    """One attention of the YAML file."""

    type: str
    heads: int
    kv_heads: int
    head_dim: int


class Model(BaseModel):
    """The YAML file, extra keys ignored."""

    name: str
    layers: int
    attention: Attention
    aliases: list[str] = []
    dtype: str = "bf16"


app = typer.Typer()


@app.command()
def size(path: Path, ctx: int = 1000) -> None:
    """Print the bytes of a uniform model."""
    model = Model.model_validate(yaml.load(path.read_text(), Loader=yaml.CSafeLoader))
    total = 2 * model.layers * model.attention.kv_heads * model.attention.head_dim * 2 * ctx
    table = Table()
    table.add_column("model")
    table.add_column("bytes")
    table.add_row(model.name, f"{total:,}")
    Console().print(table)


if __name__ == "__main__":
    app()
