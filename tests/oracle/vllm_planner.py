"""vLLM's own planner, executed from the Python files of its wheel with everything else stubbed.

`.ci/oracles DIR` lays the files; KVPLAN_ORACLES=DIR says where. Nothing of kvplan is imported here.
"""

from __future__ import annotations

import enum
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import os
import sys
import types
from contextlib import suppress
from pathlib import Path
from typing import Any

VERSION = "0.33.0"
REAL = (
    "vllm.v1.kv_cache_interface",
    "vllm.v1.kv_cache_layout",
    "vllm.v1.kv_cache_spec_registry",
    "vllm.v1.core.kv_cache_planning",
    "vllm.v1.core.kv_cache_utils",
    "vllm.v1.core.kv_cache_config_builder",
    "vllm.v1.core.single_type_kv_cache_manager",
    "vllm.v1.core.block_pool",
    "vllm.utils.math_utils",
    "vllm.model_executor.layers.mamba.mamba_utils",
    "vllm.platforms.interface",
    "vllm.v1.attention.backend",
    "vllm.model_executor.layers.quantization.turboquant.config",
)
PACKAGES = (
    "vllm",
    "vllm.v1",
    "vllm.v1.core",
    "vllm.utils",
    "vllm.model_executor",
    "vllm.model_executor.layers",
    "vllm.model_executor.layers.mamba",
    "vllm.platforms",
    "vllm.v1.attention",
    "vllm.model_executor.layers.quantization",
    "vllm.model_executor.layers.quantization.turboquant",
)


def home() -> Path | None:
    """Where the wheel's files lie; None where nobody laid them."""
    folder = Path(os.environ.get("KVPLAN_ORACLES", "")) / f"vllm-{VERSION}"
    return folder if (folder / "complete").is_file() else None


class Anything(type):
    """A class of which every attribute is there, callable and a base."""

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return Stub


class Stub(metaclass=Anything):
    def __init__(self, *args: Any, **kwargs: Any) -> None: ...

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return args[0] if args and callable(args[0]) else Stub()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return Stub()

    def __class_getitem__(cls, item: Any) -> Any:
        return cls

    def __or__(self, other: Any) -> Any:
        return object


class StubModule(types.ModuleType):
    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return Stub


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds the real modules in the wheel's files and a stub for the rest of vLLM."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def find_spec(self, name: str, path: Any, target: Any = None) -> Any:
        root = name.partition(".")[0]
        if root not in ("vllm", "cbor2", "msgspec", "xxhash"):
            return None
        file = self.folder / f"{name.replace('.', '/')}.py"
        if name in REAL and file.is_file():  # older releases lack some
            return importlib.util.spec_from_file_location(name, file)
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec: Any) -> Any:
        module: types.ModuleType = types.ModuleType(spec.name) if spec.name in PACKAGES else StubModule(spec.name)
        module.__path__ = []
        return module

    def exec_module(self, module: Any) -> None:
        for name, value in STAND_INS.get(module.__name__, {}).items():
            setattr(module, name, value)


class Logger:
    """Keeps what the planner logs."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def info(self, text: str, *args: Any, **kwargs: Any) -> None:
        self.lines.append(text % args if args else text)

    def debug(self, *args: Any, **kwargs: Any) -> None: ...

    info_once = warning = warning_once = info


LOGGER = Logger()


def constant(value: Any) -> Any:
    """A function of anything that returns `value`."""

    def returned(*args: Any, **kwargs: Any) -> Any:
        return value

    return returned


class MambaBackend(enum.Enum):
    MAMBA2 = "mamba2"


class Platform:
    @staticmethod
    def register_custom_kv_cache_specs(config: Any) -> None: ...

    def __getattr__(self, name: str) -> Any:
        return constant(False)


def dtype_size(dtype: Any) -> int:
    return int(dtype.itemsize)


def cache_dtype(name: str, model_dtype: Any) -> Any:
    import torch

    return model_dtype if name == "auto" else getattr(torch, name)


def divide(numerator: int, denominator: int) -> int:
    assert numerator % denominator == 0, (numerator, denominator)
    return numerator // denominator


STAND_INS: dict[str, dict[str, Any]] = {
    "vllm.logger": {"init_logger": constant(LOGGER)},
    "vllm.utils.mem_utils": {"format_gib": lambda count: f"{count / 2**30:.2f}"},
    "vllm.utils.torch_utils": {
        "get_dtype_size": dtype_size,
        "get_kv_cache_torch_dtype": cache_dtype,
        "STR_DTYPE_TO_TORCH_DTYPE": {},
    },
    "vllm.v1.hisparse.layout": {"get_hisparse_kv_cache_groups": constant(None)},
    "vllm.config.cache": {"get_kv_cache_dtype_handler": constant(None)},
    "vllm.v1.attention.backends.registry": {"MambaAttentionBackendEnum": MambaBackend},
    "vllm.platforms": {"current_platform": Platform()},
    "vllm.distributed": {"divide": divide},
    "vllm.envs": {"VLLM_SSM_CONV_STATE_LAYOUT": None},
}


class Planner:
    """The planner's modules, loaded once per process."""

    def __init__(self, folder: Path) -> None:
        sys.meta_path.insert(0, Finder(folder))  # it stays: the planner imports inside functions too
        self.interface = importlib.import_module("vllm.v1.kv_cache_interface")
        self.planning = importlib.import_module("vllm.v1.core.kv_cache_planning")
        self.utils = importlib.import_module("vllm.v1.core.kv_cache_utils")
        self.layout = importlib.import_module("vllm.v1.kv_cache_layout").KVCacheLayout
        self.states = importlib.import_module("vllm.model_executor.layers.mamba.mamba_utils")
        builder = importlib.import_module("vllm.v1.core.kv_cache_config_builder")
        builder.get_kv_cache_config_builder = constant(self.planning.DefaultKVCacheConfigBuilder())
        managers = importlib.import_module("vllm.v1.core.single_type_kv_cache_manager")
        managers.register_all_kvcache_specs(None)

    def config(self, **values: Any) -> Any:
        """The part of a VllmConfig that the planner reads.

        values: max_model_len, dcp, tp, hybrid, encoder_tokens, override, packed, mode, in_flight, lookahead.
        """
        space = types.SimpleNamespace
        layout = self.layout.BLHNC if values.get("packed") else self.layout.LBNHC
        length = values["max_model_len"]
        return space(
            model_config=space(
                max_model_len=length,
                original_max_model_len=-1 if values.get("auto") else length,
                supports_kv_cache_grouping=False,
            ),
            parallel_config=space(
                decode_context_parallel_size=values.get("dcp", 1), tensor_parallel_size=values.get("tp", 1)
            ),
            scheduler_config=space(
                disable_hybrid_kv_cache_manager=not values.get("hybrid", True),
                max_num_encoder_input_tokens=values.get("encoder_tokens", 0),
            ),
            cache_config=space(
                num_gpu_blocks_override=values.get("override"),
                get_resolved_kv_cache_layout=lambda: layout,
                prefix_cache_retention_interval=0,
                mamba_cache_mode=values.get("mode", "none"),
            ),
            attention_config=space(hisparse_config=None),
            max_in_flight_tokens=values["in_flight"],
            num_prefill_lookahead_tokens=values.get("lookahead", 0),
            speculative_config=None,
            device_config=space(device_type="cuda"),
        )

    def plan(self, config: Any, ranks: list[dict[str, Any]], available: list[int]) -> dict[str, Any]:
        """What vLLM would print and allocate: per rank bytes and blocks, tokens and concurrency.

        Raises: ValueError, AssertionError or NotImplementedError where vLLM does not start.
        """
        groups = self.planning.get_global_kv_cache_groups(config, ranks)
        configs = self.planning.get_kv_cache_configs(config, ranks, available, groups)
        scheduler = self.utils.generate_scheduler_kv_cache_config(configs)
        self.utils.update_kv_cache_capacity(config, scheduler)
        sizes = [{tensor.size for tensor in one.kv_cache_tensors} for one in configs]
        blocks = scheduler.num_blocks
        return {
            "num_gpu_blocks": blocks,
            "allocated_bytes": max(size for one in sizes for size in one),
            "bytes_per_block": max(size for one in sizes for size in one) // blocks,
            "kv_cache_size_tokens": config.cache_config.kv_cache_size_tokens,
            "max_concurrency": config.cache_config.kv_cache_max_concurrency,
            "max_model_len": config.model_config.max_model_len,
            "groups": [len(group.layer_names) for group in groups],
        }

    def longest(self, config: Any, ranks: list[dict[str, Any]], available: list[int]) -> int:
        """The length that `--max-model-len auto` settles on, up to the config's own; 0 where none does."""
        config.model_config.original_max_model_len = -1
        with suppress(ValueError):
            return int(self.plan(config, ranks, available)["max_model_len"])
        return 0


LOADED: list[Planner] = []


def planner() -> Planner:
    """The planner; the caller has seen that `home()` is there."""
    if not LOADED:
        folder = home()
        assert folder is not None
        LOADED.append(Planner(folder))
    return LOADED[0]
