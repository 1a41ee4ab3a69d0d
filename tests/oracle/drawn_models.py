"""Random models and servers, each told twice: as a kvplan spec with options, and as layers that vLLM's code reads."""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import Any

from vllm_layers import DTYPES, NAMES, Layers
from vllm_planner import constant

Layer = dict[str, Any]
STATES = ("mamba1", "mamba2", "gated_deltanet", "kda", "lightning", "short_conv")
QUANTISED = ("fp8", "fp8_e5m2", "int8_per_token_head", "fp8_per_token_head", "int4_per_token_head", "nvfp4")
TURBO = ("turboquant_k8v4", "turboquant_4bit_nc", "turboquant_k3v4_nc", "turboquant_3bit_nc")


class Drawn(SimpleNamespace):
    """One model on one server.

    layers, draft: what each layer keeps. state: sizes of the one mixer of a hybrid. cache, index: formats. options:
    kvplan's `-E`. The rest are workload values and the budget.
    """

    layers: list[Layer]
    draft: Layer | None
    state: dict[str, int]
    dtype: str
    cache: str | None
    index: str
    options: dict[str, Any]
    tp: int
    pp: int
    dcp: int
    mtp: int
    context: int
    budget: int
    encoder_tokens: int | None


def drawn(seed: int) -> Drawn:
    """The model and server of a seed."""
    r = random.Random(seed)
    tp = r.choice((1, 1, 1, 2, 4, 8))
    family = r.choice(FAMILIES)
    layers, state = family(r, tp)
    state = state if any(layer.get("state") for layer in layers) else {}
    d = Drawn(layers=layers, state=state, tp=tp, draft=None, mtp=0, dcp=1, options={}, encoder_tokens=None, seed=seed)
    d.dtype = r.choice(("bf16", "bf16", "fp16", "fp32"))
    d.pp = r.choice((1, 1, 1, 2, 3)) if len(layers) >= 3 else 1
    if r.random() < 0.3:
        d.draft = r.choice([layer for layer in layers if not layer.get("state")] or [None])
        d.mtp = r.choice((1, 1, 2, 3)) if d.draft else 0
    d.context = r.choice((r.randint(1, 300), r.randint(300, 9000), r.randint(9000, 300_000)))
    _formats(r, d)
    _options(r, d)
    windows = any(layer.get("window") for layer in [*layers, d.draft or {}])
    heads = [layer["heads"] for layer in [*layers, d.draft or {}] if layer.get("heads")]
    divisors = [n for n in (2, 4, 8) if tp % n == 0 and all(n <= tp // h for h in heads)]
    windows = windows or any(layer.get("compressed") for layer in layers)
    if divisors and not windows and r.random() < 0.5:
        d.dcp = r.choice(divisors)
    d.budget = r.choice((r.randint(1, 2**28), r.randint(2**28, 2**36)))
    return d


def _heads(r: random.Random, tp: int, **more: Any) -> Layer:
    count = r.choice([n for n in (1, 2, 4, 5, 8, 10, 16, 24) if n % tp == 0 or tp % n == 0])
    k = r.choice((32, 64, 80, 96, 128, 192, 256))
    v = k if r.random() < 0.8 else r.choice((32, 64, 128))
    return {"heads": count, "k": k, "v": v, **more}


def _latent(r: random.Random, **more: Any) -> Layer:
    rank, rope = r.choice(((512, 64), (512, 64), (256, 64), (384, 32), (512, 0)))
    return {"rank": rank, "rope": rope, **more}


def _mixed(r: random.Random, kinds: list[Layer]) -> list[Layer]:
    """A repeated pattern, a shuffle, or few of one among many of another."""
    count = r.randint(len(kinds), 40)
    way = r.random()
    if way < 0.5:
        pattern = [r.choice(kinds) for _ in range(r.randint(1, 6))] + kinds
        return [pattern[i % len(pattern)] for i in range(count)]
    if way < 0.8:
        return [r.choice(kinds) for _ in range(count)]
    return [kinds[0]] * count + [r.choice(kinds)] * r.randint(1, 4)


def dense(r: random.Random, tp: int) -> Any:
    return _mixed(r, [_heads(r, tp) for _ in range(r.choice((1, 1, 2, 3)))]), {}


def windowed(r: random.Random, tp: int) -> Any:
    full = _heads(r, tp)
    window = r.choice((16, 128, 511, 512, 1024, 4096))
    local = {**(full if r.random() < 0.6 else _heads(r, tp)), "window": window}
    kinds = [local] if r.random() < 0.15 else [full, local]
    if r.random() < 0.2:
        kinds.append({**r.choice((full, local)), "window": r.choice((64, 2048))})
    return _mixed(r, kinds), {}


def chunked(r: random.Random, tp: int) -> Any:
    full = {**_heads(r, tp)}
    full["v"] = full["k"]
    return _mixed(r, [{**full, "chunk": r.choice((128, 1000, 8192))}, full]), {}


def latent(r: random.Random, tp: int) -> Any:
    full = _latent(r, index=r.random() < 0.5)
    kinds = [full]
    if r.random() < 0.3:
        kinds.append({**full, "index": not full["index"]})
    if r.random() < 0.2:
        kinds.append(_latent(r, window=r.choice((128, 512))))
    if r.random() < 0.2:
        kinds.append({**_heads(r, tp), "window": 1024})
    return _mixed(r, kinds), {}


def side_indexed(r: random.Random, tp: int) -> Any:
    full = _heads(r, tp)
    return _mixed(r, [{**full, "side": r.choice((64, 128))}, full]), {}


def crossed(r: random.Random, tp: int) -> Any:
    full = _heads(r, tp)
    full["v"] = full["k"]
    return [{**full, "crosses": True}] * r.randint(1, 32), {}


def recurrent(r: random.Random, tp: int) -> Any:
    kind = r.choice(STATES)
    n = tp * r.choice((1, 2, 4))
    state = {
        "n": n,
        "d": r.choice((32, 64, 128)),
        "s": r.choice((16, 64, 128)),
        "groups": r.choice([1, 2, 8] if tp == 8 else [1, tp, 8]),
        "kernel": r.choice((2, 3, 4)),
        "qk": tp * r.choice((1, 2)),
        "dtype": r.choice((None, "fp32")) if kind in ("mamba2", "gated_deltanet") else None,
    }
    if kind == "mamba2" and state["groups"] > tp and state["groups"] % tp:
        state["groups"] = tp
    way = r.random()
    if way < 0.1:
        return [{"state": kind}] * r.randint(1, 20), state
    attention = _latent(r) if way < 0.35 else _heads(r, tp)
    if "k" in attention:
        attention["v"] = attention["k"]
    kinds = [{"state": kind}, attention]
    if way > 0.9:
        kinds = [{"state": kind, **attention}]
    elif way > 0.8 and "k" in attention:
        kinds.append({**attention, "window": r.choice((512, 2048))})
    return _mixed(r, kinds), state


def compressed(r: random.Random, tp: int) -> Any:
    ratios: list[int | None] = r.choice(([None, 4, 128], [4, 128], [4], [128], [None], [None, 4], [None, 128]))
    window = r.choice((64, 128, 512))
    kinds = [{"compressed": window, "ratio": ratio} for ratio in ratios]
    layers = _mixed(r, kinds)
    return (layers, {}) if r.random() < 0.7 else ([{"compressed": window, "ratio": None}] * 2 + layers, {})


FAMILIES = (
    dense,
    windowed,
    windowed,
    chunked,
    latent,
    latent,
    side_indexed,
    crossed,
    recurrent,
    recurrent,
    recurrent,
    compressed,
)


def _formats(r: random.Random, d: Drawn) -> None:
    """A cache format that the layers' kernels take, half of the time."""
    every = [*d.layers, d.draft or {}]
    d.cache, d.index = None, r.choice(("fp8", "mxfp4"))
    if any(layer.get("side") for layer in every):
        d.index = "fp8"
    if r.random() < 0.5:
        return
    if any(layer.get("compressed") for layer in every):
        d.cache = r.choice(("fp8", "fp8_ds_mla"))
        return
    latents = [layer for layer in every if layer.get("rank")]
    heads = [layer for layer in every if layer.get("heads")]
    sparse = any(layer.get("index") for layer in every)
    packable = all((layer["rank"], layer["rope"]) == (512, 64) for layer in latents)
    if sparse and not packable:
        return
    choices = ["fp8"] if latents else ["fp8", "fp8_e5m2"]
    if latents and not heads and all((layer["rank"], layer["rope"]) == (512, 64) for layer in latents):
        choices += ["fp8_ds_mla", "nvfp4_ds_mla"]
    even = all(layer["k"] == layer["v"] and layer["k"] % 16 == 0 for layer in heads)
    simple = heads and not latents and not any(layer.get("chunk") or layer.get("crosses") for layer in heads)
    simple = simple and not any(layer.get("side") for layer in heads)
    if simple:
        choices += [name for name in QUANTISED if name != "nvfp4" or even]
        if not any(layer.get("window") for layer in heads):
            choices += TURBO
    d.cache = r.choice(choices)
    if simple and not d.cache.startswith("turbo") and r.random() < 0.4:
        words = ["0", str(len(d.layers) - 1), str(r.randrange(len(d.layers)))]
        if any(layer.get("window") for layer in heads):
            words.append("sliding_window")
        d.options["kv_cache_dtype_skip_layers"] = ",".join(r.sample(words, r.randint(1, len(words))))


def _options(r: random.Random, d: Drawn) -> None:
    every = [*d.layers, d.draft or {}]
    latents, indexed = any(x.get("rank") for x in every), any(x.get("index") for x in every)
    mixed = latents and any(x.get("heads") for x in every)
    sizes = (128, 256) if any(x.get("side") for x in every) else (64, 128, 192) if latents else (16, 32, 48, 64, 128)
    if r.random() < 0.3 and not any(x.get("compressed") for x in every):
        d.options["block_size"] = r.choice(sizes)
    if latents and not mixed and r.random() < 0.5:
        dense = ("FLASHINFER_MLA", "FLASHMLA") if d.cache else ("FLASH_ATTN_MLA", "FLASHINFER_MLA", "FLASHMLA")
        sparse = ("FLASHMLA_SPARSE", "FLASHINFER_MLA_SPARSE")
        d.options["attention_backend"] = r.choice(sparse if indexed else dense)
    if r.random() < 0.4:
        d.options["max_num_batched_tokens"] = r.choice((256, 2048, 16_384))
    if r.random() < 0.3:
        d.options["async_scheduling"] = r.random() < 0.5
    if r.random() < 0.3:
        d.options["enable_prefix_caching"] = r.random() < 0.5
    if r.random() < 0.15:
        d.options["disable_hybrid_kv_cache_manager"] = True
    if d.mtp and r.random() < 0.5:
        d.options["num_speculative_tokens"] = r.randint(1, 5)
    if d.state and r.random() < 0.4:
        d.options["mamba_ssm_cache_dtype"] = r.choice(("float32", "bfloat16"))
        d.options["gdn_prefill_backend"] = r.choice(("triton", "flashinfer"))
    if any(x.get("crosses") for x in every) and r.random() < 0.7:
        d.encoder_tokens = r.randint(1, 5000)
    if r.random() < 0.1:
        d.options["num_gpu_blocks_override"] = r.randint(1, 20_000)


# kvplan's side


def spec_values(d: Drawn) -> dict[str, Any]:
    """The drawn model as a spec's YAML values."""
    layers = [{"count": 1, "attention": _attentions(layer, d)} for layer in d.layers]
    values = {"name": "drawn", "dtype": d.dtype, "encoder_tokens": 1500, "layers": layers}
    if d.draft:
        values["draft"] = {"attention": _attentions(d.draft, d)}
    return values


def _attentions(layer: Layer, d: Drawn) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    s = d.state
    if layer.get("state"):
        stated = {"state_dtype": s["dtype"]} if s["dtype"] else {}
        found.append(
            {
                "mamba1": {"d_inner": s["n"] * s["d"], "d_state": s["s"], "conv_kernel": s["kernel"]},
                "mamba2": {
                    "heads": s["n"], "head_dim": s["d"], "groups": s["groups"], "d_state": s["s"],
                    "conv_kernel": s["kernel"], **stated,
                },
                "gated_deltanet": {
                    "k_heads": s["qk"], "v_heads": s["n"], "k_head_dim": s["s"], "v_head_dim": s["d"],
                    "conv_kernel": s["kernel"], **stated,
                },
                "kda": {"heads": s["n"], "head_dim": s["d"], "conv_kernel": s["kernel"]},
                "lightning": {"heads": s["n"], "head_dim": s["d"]},
                "short_conv": {"dim": s["n"] * s["d"], "conv_kernel": s["kernel"]},
            }[layer["state"]]
            | {"type": layer["state"]}
        )  # fmt: skip
    if layer.get("heads"):
        bounds = {key: layer[key] for key in ("window", "chunk") if layer.get(key)}
        shape = {
            "heads": layer["heads"] * 2,
            "kv_heads": layer["heads"],
            "head_dim": layer["k"],
            "v_head_dim": layer["v"],
        }
        found.append({"type": "gqa", **shape, **bounds})
        if layer.get("crosses"):
            found.append({"type": "cross", **shape})
    if layer.get("rank"):
        bounds = {"window": layer["window"]} if layer.get("window") else {}
        found.append(
            {"type": "mla", "heads": 16, "kv_lora_rank": layer["rank"], "qk_rope_head_dim": layer["rope"], **bounds}
        )
    if layer.get("compressed"):
        ratio = {"ratio": layer["ratio"]} if layer["ratio"] else {}
        found.append({"type": "compressed", "entry_dim": 512, "rope_dim": 64, "window": layer["compressed"], **ratio})
        if layer["ratio"] == 4:
            found.append({"type": "index", "head_dim": 128, "ratio": 4})
    if layer.get("index") or layer.get("side"):
        found.append({"type": "index", "head_dim": layer.get("side") or 128})
    return found


# vLLM's side


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
