"""SGLang's own pool and sizing modules on a CPU: the few files that decide bytes are real, everything else is a stub.

`KVPLAN_ORACLES` names the folder where `.ci/oracles` has laid SGLang's sources (`sglang-VERSION/sglang/...`).
Tensors live on torch's meta device: they have shapes and dtypes and take no memory.
"""

from __future__ import annotations

import ast
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import os
import sys
import types
from pathlib import Path
from typing import Any

VERSION = "0.5.23"
REAL = frozenset(
    "sglang.srt." + name
    for name in (
        "configs.mamba_utils",
        "distributed.utils",
        "layers.quantization.fp4_kv_cache_quant_method",
        "mem_cache.allocation_sizing",
        "mem_cache.index_key_cache",
        "mem_cache.kv_cache_configurator",
        "mem_cache.memory_pool",
        "mem_cache.base_swa_memory_pool",
        "mem_cache.swa_memory_pool",
        "model_executor.pool_configurator",
    )
)
TAKEN_FROM = ("sglang.srt.utils.common", "sglang.srt.configs.model_config")
"""Modules that cannot be imported alone; single functions are taken from their source."""
FILES = tuple(name.replace(".", "/") + ".py" for name in sorted({*REAL, *TAKEN_FROM}))
PASSING = ("triton", "msgspec")
"""Served as stubs while the modules load, and forgotten again: torch looks for triton itself."""
FALSE = frozenset(
    {"is_cpu", "is_cuda", "is_hip", "is_npu", "is_xpu", "is_gfx95_supported", "cpu_has_amx_support", "is_fp8_fnuz"}
)


def always(value: Any) -> Any:
    """A function that answers `value` to everything."""

    def answer(*_: Any, **__: Any) -> Any:
        return value

    return answer


class _Anything(type):
    """A class whose attributes, calls, items and members are all itself: what nobody reads."""

    def __new__(mcs, name: str, bases: Any, members: Any, **_: Any) -> Any:
        return super().__new__(mcs, name, bases, members)

    def __init__(cls, *args: Any, **options: Any) -> None:
        super().__init__(*args)

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return cls

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        return args[0] if len(args) == 1 and callable(args[0]) and not kwargs else cls

    def __getitem__(cls, item: Any) -> Any:
        return cls

    def __or__(cls, other: Any) -> Any:
        return cls

    def __ror__(cls, other: Any) -> Any:
        return cls

    def __iter__(cls) -> Any:
        return iter(())

    def __bool__(cls) -> bool:
        return False

    def __enter__(cls) -> Any:
        return cls

    def __exit__(cls, *args: object) -> None:
        return None


class Anything(metaclass=_Anything):
    """Stands for every name that the sizing code imports and never reads."""


class Struct:
    """Stands for `msgspec.Struct`: keeps what it is given."""

    def __init_subclass__(cls, **options: Any) -> None:
        pass

    def __init__(self, **members: Any) -> None:
        self.__dict__.update(members)


class _Stub(types.ModuleType):
    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if name in FALSE:
            return always(False)
        if name == "Struct":
            return Struct
        return type(name, (Anything,), {}) if name[0].isupper() else Anything


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Serves every `sglang`, `triton` and `msgspec` module: the real file where it decides bytes, else a stub."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.served = {"sglang", *PASSING}

    def find_spec(self, name: str, path: Any, target: Any = None) -> Any:
        if name.split(".", maxsplit=1)[0] not in self.served:
            return None
        if name in REAL:
            place = self.folder / (name.replace(".", "/") + ".py")
            return importlib.util.spec_from_file_location(name, place)
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec: Any) -> types.ModuleType:
        return _Stub(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        return None


def taken(at: Path, name: str, *functions: str) -> dict[str, Any]:
    """Functions (or methods, as functions) of one module's source, run by themselves."""
    tree = ast.parse((at / (name.replace(".", "/") + ".py")).read_text(encoding="utf-8"))
    nodes = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name in functions]
    names: dict[str, Any] = {}
    for node in nodes:
        exec(compile(ast.Module([node], []), name, "exec"), names)
    return {function: names[function] for function in functions}


def folder() -> Path | None:
    """Where the sources lie, None where nobody laid them."""
    found = Path(os.environ.get("KVPLAN_ORACLES", "")) / f"sglang-{VERSION}"
    return found if (found / "complete").is_file() else None


def _forgotten() -> dict[str, types.ModuleType]:
    """The modules served in passing, taken out of what is loaded."""
    return {name: sys.modules.pop(name) for name in list(sys.modules) if name.split(".")[0] in PASSING}


def load(at: Path) -> None:
    """Make the modules importable, and give the few functions that sizing reads their real meaning."""
    finder = _Finder(at)
    before = _forgotten()
    sys.meta_path.insert(0, finder)
    for name in sorted(REAL):
        importlib.import_module(name)
    _forgotten()
    sys.modules.update(before)
    finder.served = {"sglang"}
    common = taken(at, TAKEN_FROM[0], "ceil_align", "ceil_div", "spec_decode_alloc_len_per_request")
    for name in REAL:
        for function, own in common.items():
            if hasattr(sys.modules[name], function):
                setattr(sys.modules[name], function, own)
    algorithms = importlib.import_module("sglang.srt.speculative.spec_info")
    eagle = types.SimpleNamespace(is_uno=lambda: False, has_draft_kv=lambda: True)
    algorithms.SpeculativeAlgorithm = types.SimpleNamespace(from_string=always(eagle))  # type: ignore[attr-defined]
    profile = importlib.import_module("sglang.srt.layers.attention.qsa.config")
    profile.parse_qsa_profile = always(None)  # type: ignore[attr-defined]
    split = importlib.import_module("sglang.srt.layers.cp.utils")
    split.get_glm_dsa_layer_split_effective_num_layers = lambda _, layers: layers  # type: ignore[attr-defined]
    split.get_glm_dsa_cp_layer_shard_info = always((None, 1))  # type: ignore[attr-defined]
