"""Draw the block counts that TensorRT-LLM's own KVCacheManager decides on, for `tests/data/trtllm_blocks.yaml`.

    python tests/oracle/draw_trtllm.py TensorRT-LLM/tensorrt_llm/_torch/pyexecutor/resource_manager.py [SEED [CASES]]

Its package needs CUDA, so the two parts of that file that count blocks are taken from its source and run with the
rest stubbed: `get_pp_layers`, and `KVCacheManager` up to where it hands the counts to C++. The file that the kept
figures were drawn from is of January 2026, between 1.2 and 1.3.
"""

from __future__ import annotations
import __future__

import ast
import copy
import math
import os
import sys
import typing
from collections import defaultdict
from contextlib import suppress
from pathlib import Path
from random import Random
from types import SimpleNamespace as Facts
from typing import Any

BITS = {"HALF": 16, "BF16": 16, "FLOAT": 32, "FP8": 8, "NVFP4": 4}
COLUMNS = ("kv_heads", "head_dim", "layers", "drafts", "tp", "pp", "dp", "latent", "dtype", "tokens_per_block", "context",
           "windows", "max_tokens", "budget", "bytes_per_token", "blocks")  # fmt: skip
DTYPES = {"auto": "BF16", "fp8": "FP8", "nvfp4": "NVFP4"}


class Config(Facts):
    """Stands for `KvCacheConfig`."""


class StoppedError(Exception):
    """The counts are made and C++ would take over."""


def quiet(*_: Any, **__: Any) -> None:
    """Stands for every logger."""


def size_in_bytes(numbers: int, dtype: str) -> int:
    """As `tensorrt_llm._utils.get_size_in_bytes`, which is a table and a division."""
    assert BITS[dtype] * numbers % 8 == 0
    return BITS[dtype] * numbers // 8


def split(layers: int, pp: int, rank: int) -> list[int]:
    """As `Mapping.pp_layers`: the first ranks get one layer more."""
    import torch

    found: list[int] = torch.tensor_split(torch.arange(layers), pp)[rank].tolist()
    return found


def manager_class(source: Path) -> tuple[Any, dict[str, Any]]:
    """The class, and the names its functions see."""

    def stop(**_: Any) -> Any:
        raise StoppedError

    names: dict[str, Any] = {
        **vars(typing), "DataType": Facts(**{name: name for name in BITS}), "CacheTypeCpp": Facts(SELF="self", SELFKONLY="k"),
        "KvCacheConfig": Config, "KVCacheManagerCpp": stop, "WorldConfig": quiet, "get_size_in_bytes": size_in_bytes,
        "logger": Facts(info=quiet, debug=quiet, warning=quiet), "defaultdict": defaultdict, "copy": copy, "math": math,
        "os": os, "BaseResourceManager": object, "mpi_disabled": lambda: True, "ReduceOp": Facts(MIN=min),
        "Distributed": Facts(get=lambda mapping: Facts(allreduce=mapping.least)), "__package__": "drawn.inner",
        "torch": Facts(cuda=Facts(Stream=quiet)),
    }  # fmt: skip
    sys.modules |= {
        "drawn": Facts(), "drawn.inner": Facts(),
        "drawn.speculative": Facts(get_num_extra_kv_tokens=lambda _: 0, utils=None),
        "drawn.speculative.utils": Facts(get_num_spec_layers=lambda spec: spec.layers),
    }  # type: ignore[dict-item] # fmt: skip
    tree = ast.parse(source.read_text(encoding="utf-8"))
    wanted = [n for n in tree.body if getattr(n, "name", "") in ("get_pp_layers", "KVCacheManager")]
    flags = __future__.annotations.compiler_flag
    exec(compile(ast.Module(wanted, []), str(source), "exec", flags=flags), names)
    names["KVCacheManager"]._validate_and_adjust_attention_windows = stop
    return names["KVCacheManager"], names


def counted(cls: Any, names: dict[str, Any], case: dict[str, Any]) -> tuple[list[int], list[list[int]]]:
    """(bytes per token of each pipeline rank, its [window, blocks] pairs)."""
    sizes, blocks = [], []
    for rank in range(case["pp"]):
        names["torch"].cuda.mem_get_info = lambda: (2 * case["budget"], 4 * case["budget"])
        mapping = Facts(
            tp_size=case["tp"], pp_size=case["pp"], enable_attention_dp=case["dp"], rank=rank, gpus_per_node=8,
            world_size=1, least=lambda value, **_: value, pp_layers=lambda layers, rank=rank: split(layers, case["pp"], rank),
            is_last_pp_rank=lambda rank=rank: rank == case["pp"] - 1,
        )  # fmt: skip
        config = Config(
            max_attention_window=case["windows"], max_tokens=case["max_tokens"], free_gpu_memory_fraction=0.5,
            max_gpu_total_bytes=0, host_cache_size=0, sink_token_length=None, event_buffer_max_size=0,
            attention_dp_events_gather_period_ms=5,
        )  # fmt: skip
        made = cls.__new__(cls)
        kept: dict[str, Any] = {}
        cls._validate_and_adjust_attention_windows = lambda _, kept=kept, **given: _stop(kept, given)
        with suppress(StoppedError):
            made.__init__(
                config, "k" if case["latent"] else "self", num_layers=case["layers"], num_kv_heads=case["kv_heads"],
                head_dim=case["head_dim"], tokens_per_block=case["tokens_per_block"], max_seq_len=case["context"],
                max_batch_size=1, mapping=mapping, dtype=DTYPES[case["dtype"]],
                spec_config=Facts(layers=case["drafts"], max_draft_len=1, max_total_draft_tokens=1) if case["drafts"] else None,
                model_config=Facts(layer_types=[], head_size=case["head_dim"]),
            )  # fmt: skip
        counts = kept.get("blocks_per_window") or made.blocks_per_window
        sizes.append(made.get_cache_bytes_per_token())
        blocks.append([[window, primary] for window, (primary, _) in counts.items()])
    return sizes, blocks


def _stop(kept: dict[str, Any], given: dict[str, Any]) -> None:
    kept |= given
    raise StoppedError


def drawn(dice: Random) -> dict[str, Any]:
    """One model, how it is served, and a budget."""
    latent = dice.random() < 0.2
    layers, pp = dice.randint(1, 100), dice.choice((1, 1, 1, 2, 3))
    context = dice.choice((4096, 32_768, 131_072, dice.randint(100, 200_000)))
    windows = None
    if not latent and dice.random() < 0.5:
        windows = [dice.choice((128, 512, 1024, 4096, context)) for _ in range(dice.choice((1, 2, 4, 6)))]
    return {
        "kv_heads": 1 if latent else 2 ** dice.randint(0, 5), "head_dim": 576 if latent else dice.choice((64, 128, 256)),
        "layers": max(layers, pp), "drafts": 0 if windows or dice.random() < 0.7 else dice.randint(1, 3),
        "tp": dice.choice((1, 1, 2, 4, 8)), "pp": pp, "dp": dice.random() < 0.2, "latent": latent,
        "dtype": dice.choice(("auto", "auto", "fp8", "nvfp4")), "tokens_per_block": dice.choice((16, 32, 32, 64, 128)),
        "context": context, "windows": windows,
        "max_tokens": dice.choice((None, None, dice.randint(1000, 3_000_000))) if windows is None else None,
        "budget": dice.randint(10**8, 10**11),
    }  # fmt: skip


def main(source: str, seed: str = "1", cases: str = "300") -> None:
    """Print the YAML."""
    cls, names = manager_class(Path(source))
    dice = Random(seed)
    print(
        f"# Drawn by tests/oracle/draw_trtllm.py from TensorRT-LLM's resource_manager.py (January 2026), seed {seed}."
    )
    print(f"columns: [{', '.join(COLUMNS)}]\nruns:")
    for _ in range(int(cases)):
        case = drawn(dice)
        case["bytes_per_token"], case["blocks"] = counted(cls, names, case)
        shown = (str(case[name]).lower() if case[name] in (None, True, False) else str(case[name]) for name in COLUMNS)
        print("- [" + ", ".join("null" if text == "none" else text for text in shown) + "]")


if __name__ == "__main__":
    main(*sys.argv[1:])
