"""A drawn server as vLLM's own code plans it: the values that its layers and platform read, and nothing computed here."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from vllm_layers import DTYPES, NAMES, Layers
from vllm_planner import constant

if TYPE_CHECKING:
    from drawn_models import Drawn, Layer


class Server:
    """The drawn server as vLLM's own code plans it."""

    def __init__(self, d: Drawn, layers: Layers) -> None:
        self.d, self.of = d, layers
        every = [*d.layers, *([d.draft] * d.mtp if d.draft else [])]
        self.hybrid = any(x.get("state") for x in every) and any(x.get("heads") or x.get("rank") for x in every)
        attention_free = not any(x.get("heads") or x.get("rank") or x.get("compressed") for x in every)
        crosses = any(x.get("crosses") for x in every)
        self.caching = d.options.get("enable_prefix_caching", not (attention_free or crosses))
        self.mode = "align" if self.caching and d.state else "none"
        self.drafts = d.options.get("num_speculative_tokens", d.mtp)
        chunks_beside_drafts = bool(d.mtp) and any(x.get("chunk") for x in every)
        self.unified = d.options.get("disable_hybrid_kv_cache_manager", chunks_beside_drafts)
        self.skipped = self._skipped()
        self.config = self._config()
        self.ranks = self._ranks()

    def _skipped(self) -> list[str]:
        d = self.d
        words = str(d.options.get("kv_cache_dtype_skip_layers", "")).split(",") if d.cache else []
        words = [word for word in words if word]
        if d.cache and d.cache.startswith("turboquant"):
            text = SimpleNamespace(num_hidden_layers=len(d.layers))
            model = SimpleNamespace(is_hybrid=self.hybrid, hf_text_config=text)
            if not self.hybrid:
                words = sorted({*words, *self.of.turboquant.get_boundary_skip_layers(model)})
        return words

    def _dtype_name(self, index: int, layer: Layer) -> str:
        if self.d.cache is None or str(index) in self.skipped:
            return "auto"
        return (
            "auto" if layer.get("window") and layer.get("heads") and "sliding_window" in self.skipped else self.d.cache
        )

    def _backend(self, name: str, layer: Layer) -> Any:
        asked = self.d.options.get("attention_backend")
        if layer.get("rank"):
            indexed = any(x.get("index") for x in [*self.d.layers, self.d.draft or {}])
            return self.of.backends[asked or ("FLASHMLA_SPARSE" if indexed else "FLASHMLA")]
        if layer.get("side"):
            return self.of.backends["MINIMAX_M3_SPARSE"]
        if self.d.cache == "nvfp4":
            return self.of.backends["FLASHINFER"]
        if name.endswith("per_token_head"):
            return self.of.backends["TRITON_ATTN"]
        return self.of.backends["TURBOQUANT" if name.startswith("turbo") else "FLASH_ATTN"]

    def _config(self) -> Any:
        d, of = self.d, self.of
        flight = object.__new__(of.config)
        speculative = None
        if self.drafts:
            speculative = object.__new__(of.speculative)
            nextn = SimpleNamespace(num_nextn_predict_layers=d.mtp)
            speculative.method, speculative.num_speculative_tokens = "mtp", self.drafts
            speculative.draft_model_config = SimpleNamespace(hf_config=nextn)
            speculative.use_eagle = lambda: True
        crosses = any(layer.get("crosses") for layer in d.layers)  # EngineArgs: no chunked prefill beside an encoder
        batched = d.options.get("max_num_batched_tokens", max(8192, d.context) if crosses else 8192)
        flight.parallel_config = SimpleNamespace(pipeline_parallel_size=d.pp)
        flight.scheduler_config = SimpleNamespace(
            async_scheduling=d.options.get("async_scheduling", True), max_num_batched_tokens=batched
        )
        flight.use_v2_model_runner, flight.speculative_config = True, speculative
        flight.num_speculative_tokens = self.drafts
        config = of.planner.config(
            max_model_len=d.context,
            tp=d.tp,
            dcp=d.dcp,
            hybrid=not self.unified,
            encoder_tokens=d.encoder_tokens or batched,
            override=d.options.get("num_gpu_blocks_override"),
            mode=self.mode,
            in_flight=flight.max_in_flight_tokens,
            lookahead=flight.num_prefill_lookahead_tokens,
            packed=any(x.get("compressed") for x in d.layers),
        )
        config.num_speculative_tokens = self.drafts
        cache = config.cache_config
        cache.cache_dtype = d.cache or "auto"
        cache.user_specified_block_size = "block_size" in d.options
        cache.block_size = d.options.get("block_size", 16)
        cache.kv_cache_dtype_skip_layers = self.skipped
        cache.mamba_page_size_padded = cache.skip_page_size_padded = None
        cache.mamba_block_size = None if self.mode == "align" else d.context
        cache.use_replayssm = False
        cache.mamba_cache_dtype = "auto"
        stated = NAMES.get(d.state.get("dtype") or "", "auto") if d.state else "auto"
        cache.mamba_ssm_cache_dtype = d.options.get("mamba_ssm_cache_dtype", stated)
        self._model(config)
        return config

    def _model(self, config: Any) -> None:
        """What the platform's alignment reads of the model, and the alignment itself."""
        d, of = self.d, self.of
        attention = [(i, x) for i, x in self._placed() if x.get("heads") or x.get("rank")]
        model = config.model_config
        model.dtype, model.is_hybrid = DTYPES[d.dtype], self.hybrid
        model.use_mla = any(x.get("rank") for _, x in attention)
        model.architecture = "Drawn"
        mla = next((x for _, x in attention if x.get("rank")), None)
        first = mla or (attention[0][1] if attention else {})
        model.get_head_size = lambda: mla["rank"] + mla["rope"] if mla else first["k"]
        arch = SimpleNamespace(total_num_kv_heads=first.get("heads", 1))
        counted = SimpleNamespace(use_mla=model.use_mla, model_arch_config=arch)
        model.get_num_kv_heads = lambda parallel: of.model.get_num_kv_heads(counted, parallel)
        model.model_cls = SimpleNamespace(
            get_mamba_state_shape_from_config=constant(self._state_shapes() if self.d.state else ()),
            get_mamba_state_dtype_from_config=self._state_dtypes,
        )
        if any(x.get("compressed") for x in d.layers):
            config.cache_config.block_size = 256  # sparse_mla.py: the one size that its kernels take
            config.cache_config.cache_dtype = "fp8_ds_mla"
        if not attention:
            return
        backends = [self._backend(self._dtype_name(i, x), x) for i, x in attention]
        for place, (_, layer) in enumerate(list(attention)):
            if layer.get("index"):
                backends.insert(place, of.backends["INDEXER"])
        of.platform(backends, 64 if self._checkpoints() else None).update_block_size_for_backend(config)

    def _checkpoints(self) -> bool:
        kinds = {x["state"] for _, x in self._placed() if x.get("state")}
        return (
            kinds == {"gated_deltanet"}
            and self.d.options.get("gdn_prefill_backend") == "flashinfer"
            and self.mode == "align"
        )

    def _placed(self) -> list[tuple[int, Layer]]:
        return list(enumerate([*self.d.layers, *([self.d.draft] * self.d.mtp if self.d.draft else [])]))

    def _state_shapes(self) -> Any:
        s, of, tp, k = self.d.state, self.of.planner.states.MambaStateShapeCalculator, self.d.tp, self.drafts
        kind = next(x["state"] for x in self.d.layers if x.get("state"))
        match kind:
            case "mamba1":
                return of.mamba1_state_shape(tp, s["n"] * s["d"], s["s"], s["kernel"])
            case "mamba2":
                return of.mamba2_state_shape(tp, s["n"] * s["d"], s["groups"], s["n"], s["d"], s["s"], s["kernel"], k)
            case "gated_deltanet":
                return of.gated_delta_net_state_shape(tp, s["qk"], s["n"], s["s"], s["d"], s["kernel"], k)
            case "kda":
                return of.kda_state_shape(tp, s["n"], s["d"], conv_kernel_size=s["kernel"], num_spec=k)
            case "lightning":
                return of.linear_attention_state_shape(s["n"], tp, s["d"])
        return of.short_conv_state_shape(tp, s["n"] * s["d"], s["kernel"], k)

    def _state_dtypes(self, config: Any) -> Any:
        of, model, cache = self.of.planner.states.MambaStateDtypeCalculator, DTYPES[self.d.dtype], config.cache_config
        kind = next(x["state"] for x in self.d.layers if x.get("state"))
        if kind == "lightning":
            return of.linear_attention_state_dtype(model, cache.mamba_cache_dtype)
        if kind == "short_conv":
            return of.short_conv_state_dtype(model, cache.mamba_cache_dtype)
        method = of.kda_state_dtype if kind == "kda" else of.mamba1_state_dtype
        return method(model, cache.mamba_cache_dtype, cache.mamba_ssm_cache_dtype)

    def _ranks(self) -> list[dict[str, Any]]:
        """The specifications of each pipeline stage's layers; drafts are on the last."""
        stages = [self.of.stage(len(self.d.layers), rank, self.d.pp) for rank in range(self.d.pp)]
        ranks: list[dict[str, Any]] = []
        for rank, (start, end) in enumerate(stages):
            held = [(i, x) for i, x in self._placed() if start <= i < end or (i >= end and rank == self.d.pp - 1)]
            specs: dict[str, Any] = {}
            for index, layer in held:
                specs.update(self._specs(index, layer))
            ranks.append(specs)
        return ranks

    def _specs(self, index: int, layer: Layer) -> dict[str, Any]:
        found: dict[str, Any] = {}
        name = self._dtype_name(index, layer)
        if layer.get("state"):
            found[f"{index}.state"] = self._state_spec(layer)
        if layer.get("heads"):
            found[f"{index}.attention"] = self._heads_spec(layer, name)
            if layer.get("crosses"):
                found[f"{index}.cross"] = self._heads_spec(layer, name, self.of.cross)
        if layer.get("rank"):
            found[f"{index}.latent"] = self._latent_spec(layer, name)
        if layer.get("index") or layer.get("side"):
            found[f"{index}.index"] = self._index_spec(layer)
        if layer.get("compressed"):
            found.update(self._compressed_specs(index, layer))
        return found

    def _heads_spec(self, layer: Layer, name: str, cls: Any = None) -> Any:
        import vllm_layers

        of, backend = self.of, self._backend(name, layer)
        cls = cls or (of.chunked if layer.get("chunk") else of.attention)
        one = object.__new__(cls)
        one.attn_type = of.backend.AttentionType.DECODER
        one.attn_backend, one.kv_cache_dtype = backend, name
        one.kv_cache_torch_dtype = vllm_layers.stored_dtype(name, DTYPES[self.d.dtype])
        one.num_kv_heads = max(1, layer["heads"] // self.d.tp)
        one.head_size, one.head_size_v = layer["k"], layer["v"]
        one.sliding_window, one.attention_chunk_size = layer.get("window"), layer.get("chunk")
        return of.customized(backend, one.get_kv_cache_spec(self.config))

    def _latent_spec(self, layer: Layer, name: str) -> Any:
        of, backend = self.of, self._backend(name, layer)
        one = object.__new__(of.latent)
        name = of.canonical(backend, name)
        one.kv_cache_dtype, one.head_size = name, layer["rank"] + layer["rope"]
        one.sliding_window, one.topk_buffer_width = layer.get("window"), None
        one.indexer = object() if layer.get("index") else None
        one.non_causal_multi_token_decode = False
        return of.customized(backend, one.get_kv_cache_spec(self.config))

    def _index_spec(self, layer: Layer) -> Any:
        import torch

        of = self.of
        one = object.__new__(of.side_index if layer.get("side") else of.index)
        one.cache_config = self.config.cache_config
        if layer.get("side"):
            one.head_dim, one.dtype = layer["side"], torch.bfloat16
        else:  # deepseek_v2.py Indexer: fp8 values and a float32 scale per 128, or four bits and a byte per 32
            one.head_dim, one.dtype = (128 + 4) if self.d.index == "fp8" else (64 + 4), torch.uint8
        return one.get_kv_cache_spec(self.config)

    def _state_spec(self, layer: Layer) -> Any:
        kind = layer["state"]
        cls = {"mamba2": self.of.mamba2, "gated_deltanet": self.of.gated}.get(kind, self.of.state)
        one = object.__new__(cls)
        one.get_state_shape, one.get_state_dtype = self._state_shapes, lambda: self._state_dtypes(self.config)
        one.mamba_type, one.is_kv_cache_tp_replicated = None, False
        one._exports_checkpoints = self._checkpoints()
        if self.config.cache_config.mamba_block_size is None:  # attention-free: no platform alignment ran
            self.config.cache_config.mamba_block_size = self.config.cache_config.block_size
        return one.get_kv_cache_spec(self.config)

    def _compressed_specs(self, index: int, layer: Layer) -> dict[str, Any]:
        """The caches of a DeepSeek-V4 layer, in the order in which vLLM makes them."""
        import torch

        of, found, cache = self.of, {}, self.config.cache_config
        ratio = layer["ratio"] or 1
        if ratio == 4:
            width = 128 + 4 if self.d.index == "fp8" else 64 + 4
            keys = of.v4_index(width, torch.uint8, f"{index}.k", cache, compress_ratio=ratio)
            found[f"{index}.index"] = keys
            found[f"{index}.index_state"] = of.v4_state(2 * 2 * 128, torch.float32, ratio, f"{index}.is")
        found[f"{index}.window"] = of.v4_window(512, layer["compressed"], torch.uint8, f"{index}.w", cache)
        if ratio > 1:
            main = object.__new__(of.v4)
            main.compress_ratio, main.head_dim, main.kv_cache_dtype = ratio, 512, "fp8_ds_mla"
            found[f"{index}.entries"] = main
            overlap = 2 if ratio == 4 else 1
            found[f"{index}.state"] = of.v4_state(2 * overlap * 512, torch.float32, ratio, f"{index}.s")
        return {name: one.get_kv_cache_spec(self.config) for name, one in found.items()}
