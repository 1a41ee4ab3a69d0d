"""The YAML description of one model: fields, bounds, and the ordered list of its layers."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from kvplan.attention import AttentionKind, kind_class
from kvplan.errors import InputError, KvplanError, NotCountableError, quoted
from kvplan.record import Record
from kvplan.schema import at, validated
from kvplan.tensor import CacheTensor

MOST_LAYERS = 10_000
Name = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9._+-]{0,99}$")]
Text = Annotated[str, Field(max_length=2000)]
Parameters = Annotated[int, Field(ge=1, le=10**15)]
Bytes = Annotated[float, Field(ge=0, le=1e15)] | Annotated[int, Field(ge=0, le=10**15)]


class Fields(BaseModel):
    """Strict, frozen YAML fields."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


WeightPlace = Literal["embeddings", "layers", "experts", "head", "vision", "audio", "encoder", "mtp", "other"]
"""Where stored weight bytes belong: `experts` are divided by EP, `mtp` are loaded with draft layers only."""


class WeightPart(Fields):
    """Parameters stored in one format; `experts` are what expert parallelism divides."""

    part: Literal["experts", "rest", "all"]
    parameters: Parameters
    format: Name


class Expect(Fields):
    """Figures from outside the project that the spec must reproduce at its own dtype."""

    bytes_per_token: Bytes | None = None
    bytes_per_token_full: Bytes | None = None
    fixed_bytes_per_sequence: Bytes | None = None


class Dimensions(Fields):
    """Widths that activations and quantized weights depend on; the cache never does.

    intermediate_size: the widest FFN that one token passes, its active and shared experts side by side.
    tie_word_embeddings: embeddings and head are one matrix.
    """

    hidden_size: Annotated[int, Field(ge=1, le=10**7)]
    intermediate_size: Annotated[int, Field(ge=1, le=10**8)] | None = None
    vocab_size: Annotated[int, Field(ge=1, le=10**8)]
    tie_word_embeddings: bool = False


class SpecFields(Fields):
    """Every key of a model spec but those that say what each layer keeps."""

    name: Name
    aliases: list[Name] = Field(default=[], max_length=50)
    hub: Annotated[str, Field(pattern=r"^[A-Za-z0-9_.-]{1,96}/[A-Za-z0-9_.-]{1,96}$")] | None = None
    parameters: Parameters | None = None
    active_parameters: Parameters | None = None
    weights: list[WeightPart] = Field(default=[], max_length=8)
    weight_bytes: dict[WeightPlace, Annotated[int, Field(ge=0, le=10**18)]] = {}
    max_context: Annotated[int, Field(ge=1, le=10**12)] | None = None
    dtype: Literal["bf16", "fp16", "fp32"] = "bf16"
    kv_dtype: Name | None = None
    dimensions: Dimensions | None = None
    encoder_tokens: Annotated[int, Field(ge=1, le=10**9)] | None = None
    notes: Text | None = None
    sources: list[Text] = Field(default=[], max_length=50)
    confidence: Literal["high", "medium"] | None = None
    expect: Expect = Expect()


class Layer(Record):
    """One distinct layer: the name its pattern gives it, and the attentions it holds.

    kept: the tensors of all its attentions, which follow from `kinds`.
    """

    name: str
    kinds: tuple[AttentionKind, ...]
    kept: tuple[CacheTensor, ...] = ()

    def check(self) -> None:
        """Work out the tensors once: a layer is asked for them many times."""
        self.__dict__["kept"] = tuple(tensor for kind in self.kinds for tensor in kind.cache_tensors())

    def tensors(self) -> tuple[CacheTensor, ...]:
        """The tensors the layer keeps for one sequence."""
        return self.kept


Runs = tuple[tuple[int, Layer], ...]


class ModelSpec(Record):
    """One model as its YAML file describes it.

    fields: the keys that say nothing of layers. runs: (count, layer) in layer order.
    draft: what one draft (MTP) layer keeps, None where the spec says nothing and the layers differ.
    source: path or word that errors and answers name.
    """

    fields: SpecFields
    runs: Runs
    draft: Layer | None
    source: str

    @property
    def name(self) -> str:
        """The spec's name."""
        return self.fields.name

    @property
    def layer_count(self) -> int:
        """Layers of the model, drafts apart."""
        return sum(count for count, _ in self.runs)

    def layers(self) -> list[tuple[int, Layer]]:
        """Every distinct layer and how many there are, in order of first appearance."""
        return distinct_layers(self.runs)

    def draft_layer(self) -> Layer:
        """What one draft layer keeps.

        Raises: NotCountableError for a model with mixed layers whose spec does not say.
        """
        if self.draft is None:
            raise NotCountableError(
                f"{self.source}: draft: the layers differ and the spec does not say what a draft layer keeps",
                "add `draft: {attention: {...}}` to the spec, or leave out --mtp",
            )
        return self.draft


def distinct_layers(runs: Runs) -> list[tuple[int, Layer]]:
    """The distinct layers of `runs` and how many there are of each, in order of first appearance."""
    counts: dict[int, tuple[int, Layer]] = {}
    for count, layer in runs:
        before = counts.get(id(layer), (0, layer))[0]
        counts[id(layer)] = (before + count, layer)
    return list(counts.values())


_LAYER_KEYS = ("layers", "pattern", "attention", "draft")


def parse_spec(values: Any, source: str) -> ModelSpec:
    """The model spec in `values`, as `load_yaml` returns them.

    Raises: InputError for anything malformed; NotCountableError for an unknown attention type.
    """
    if not isinstance(values, dict):
        raise InputError(
            f"{source}: found {quoted(values)}, allowed a mapping with name, layers and attention",
            "start with `name:`",
        )
    rest = {key: value for key, value in values.items() if key not in _LAYER_KEYS}
    fields = validated(SpecFields, rest, source, _LAYER_KEYS)
    runs = _runs(values, source)
    draft = _draft(values.get("draft"), runs, source)
    _check_weights(fields, source)
    return ModelSpec(fields, runs, draft, source)


def _runs(values: dict[str, Any], source: str) -> Runs:
    layers = values.get("layers")
    if isinstance(layers, list):
        if "attention" in values or "pattern" in values:
            raise InputError(
                f"{source}: layers: found a list of groups beside `attention` or `pattern`",
                "put the attention into the groups",
            )
        return _group_runs(layers, source)
    count = _whole(layers, f"{source}: layers", MOST_LAYERS)
    if "attention" not in values:
        raise InputError(
            f"{source}: attention: missing",
            "add `attention: {type: gqa, heads: 64, kv_heads: 8, head_dim: 128}`",
        )
    attention, pattern = values["attention"], values.get("pattern")
    if pattern is None:
        return ((count, Layer("layer", _kinds(attention, f"{source}: attention"))),)
    return _pattern_runs(count, pattern, attention, source)


def _group_runs(groups: list[Any], source: str) -> Runs:
    if not 1 <= len(groups) <= MOST_LAYERS:
        raise InputError(
            f"{source}: layers: found {len(groups):,} groups, allowed 1 to {MOST_LAYERS:,}",
            "list each group once, with its count",
        )
    runs = []
    for number, group in enumerate(groups):
        place = f"{source}: layers.{number}"
        if not isinstance(group, dict) or set(group) != {"count", "attention"}:
            raise InputError(
                f"{place}: found {quoted(group)}, allowed {{count: N, attention: {{...}}}}",
                "each group has count and attention",
            )
        count = _whole(group["count"], f"{place}.count", MOST_LAYERS)
        runs.append((count, Layer(f"group {number + 1}", _kinds(group["attention"], f"{place}.attention"))))
    if sum(count for count, _ in runs) > MOST_LAYERS:
        raise InputError(f"{source}: layers: more than {MOST_LAYERS:,} in all", "no model has so many layers")
    return tuple(runs)


def _pattern_runs(count: int, pattern: Any, attention: Any, source: str) -> Runs:
    if not isinstance(attention, dict) or "type" in attention:
        raise InputError(
            f"{source}: attention: a pattern needs named attentions",
            "write `attention: {local: {...}, global: {...}}`",
        )
    if not isinstance(pattern, list) or not 1 <= len(pattern) <= MOST_LAYERS:
        raise InputError(
            f"{source}: pattern: found {quoted(pattern)}, allowed a list of names from `attention`",
            "for example [local, local, global]",
        )
    if len(pattern) > count:
        raise InputError(
            f"{source}: pattern: {len(pattern):,} names for {count:,} layers",
            "the pattern may not be longer than the model",
        )
    layers = {
        name: Layer(str(name), _kinds(kinds, f"{source}: attention.{quoted(name)}"))
        for name, kinds in attention.items()
    }
    unknown = [name for name in pattern if not isinstance(name, str) or name not in layers]
    if unknown:
        raise InputError(
            f"{source}: pattern: found {quoted(unknown[0])}, allowed {', '.join(map(quoted, layers))}",
            "use the names in `attention`",
        )
    unused = [name for name in layers if name not in pattern]
    if unused:
        raise InputError(f"{source}: attention: {quoted(unused[0])} is not in the pattern", "use it or remove it")
    runs: list[tuple[int, Layer]] = []
    for index in range(count):
        layer = layers[pattern[index % len(pattern)]]
        if runs and runs[-1][1] is layer:
            runs[-1] = (runs[-1][0] + 1, layer)
        else:
            runs.append((1, layer))
    return tuple(runs)


def _kinds(value: Any, place: str) -> tuple[AttentionKind, ...]:
    """One attention mapping, or the list of those that a layer holds at once."""
    several = value if isinstance(value, list) else [value]
    if not 1 <= len(several) <= 8:
        raise InputError(
            f"{place}: found {len(several)} attentions, allowed 1 to 8 in one layer",
            "list what one layer holds",
        )
    return tuple(_kind(one, place if len(several) == 1 else f"{place}.{i}") for i, one in enumerate(several))


def _kind(value: Any, place: str) -> AttentionKind:
    if not isinstance(value, dict) or "type" not in value:
        hint = (
            "add `pattern:` to say which layer has which"
            if isinstance(value, dict) and value and all(isinstance(v, dict) for v in value.values())
            else "for example {type: gqa, heads: 64, kv_heads: 8, head_dim: 128}"
        )
        raise InputError(f"{place}: found {quoted(value)}, allowed a mapping with a `type`", hint)
    try:
        cls = kind_class(value["type"])
    except KvplanError as error:
        raise at(f"{place}", error) from None
    kind: AttentionKind = validated(cls, value, place)
    return kind


def _draft(value: Any, runs: Runs, source: str) -> Layer | None:
    if value is not None:
        if not isinstance(value, dict) or not {"attention"} <= set(value) <= {"count", "attention"}:
            raise InputError(
                f"{source}: draft: found {quoted(value)}, allowed {{count: 1, attention: {{...}}}}",
                "say what one draft layer keeps",
            )
        _whole(value.get("count", 1), f"{source}: draft.count", MOST_LAYERS)
        return Layer("draft", _kinds(value["attention"], f"{source}: draft.attention"))
    distinct = {layer.kinds for _, layer in runs}
    return Layer("draft", runs[0][1].kinds) if len(distinct) == 1 else None


def _whole(value: Any, place: str, most: int) -> int:
    if type(value) is not int or not 1 <= value <= most:
        found = "nothing" if value is None else quoted(value)
        raise InputError(
            f"{place}: found {found}, allowed whole numbers from 1 to {most:,}",
            f"for example {place.rsplit(' ', 1)[-1]}: 80",
        )
    return value


def _check_weights(fields: SpecFields, source: str) -> None:
    total = sum(part.parameters for part in fields.weights)
    if fields.weights and fields.parameters is not None and total != fields.parameters:
        raise InputError(
            f"{source}: weights: parts hold {total:,} parameters, `parameters` says {fields.parameters:,}",
            "make the parts add up",
        )


def inline_spec(
    layers: int,
    kv_heads: int,
    head_dim: int,
    heads: int | None = None,
    window: int | None = None,
    dtype: str = "bf16",
) -> ModelSpec:
    """A uniform model given by its numbers alone, as `kvplan size --layers … --kv-heads … --head-dim …`.

    Raises: InputError when the numbers contradict each other.
    """
    heads = heads or kv_heads
    kind = "mha" if heads == kv_heads else "mqa" if kv_heads == 1 else "gqa"
    attention: dict[str, Any] = {"type": kind, "heads": heads, "kv_heads": kv_heads, "head_dim": head_dim}
    if window is not None:
        attention["window"] = window
    return parse_spec({"name": "inline", "dtype": dtype, "layers": layers, "attention": attention}, "inline")
