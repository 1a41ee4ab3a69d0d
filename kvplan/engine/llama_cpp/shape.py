"""What a model keeps per cell, layer by layer, in the engine's own terms: K and V widths, windows, index, states.

The engine knows few kinds of memory: keys and values (over all tokens or a window), latents without values,
index keys beside them, the r and s rows of recurrent layers, and the caches of DeepSeek-V4. A layer that
is none of these was never seen in the engine and is refused.

Worked: a layer of Gemma 3 27B is (k 2,048, v 2,048, window 1,024) or the same without a window; a layer of
DeepSeek-V3 is (k 576, v 0).

Source: llama.cpp build 11549, src/llama-hparams.cpp and llama_model::create_memory.
"""

from __future__ import annotations

from kvplan.errors import NotCountableError
from kvplan.growth import Chunk, Constant, PerEncoderToken, PerToken, PerTokens, Window
from kvplan.record import Record
from kvplan.spec import ModelSpec
from kvplan.tensor import CacheTensor, Role

CSA_RATIO, HCA_RATIO = 4, 128
"""Tokens per compressed entry that DeepSeek-V4's caches know."""

POOLED_INDEX_PARTS = 3
"""An index whose keys are pooled keeps key, gate and pooled value of every token."""

WHOLE_HEADS = ("minicpm3", "plm-")
"""Names of models whose latent the engine expands: it keeps whole heads, whose widths a spec does not give."""


class LayerShape(Record):
    """One layer: elements of a cell by cache, and widths of one head.

    window: tokens of its window or chunk. index: elements of an index key. r, s: elements of the convolution
    and state rows of one sequence. entry: elements of a DeepSeek-V4 entry; ratio: tokens per compressed one. draft: a
    draft layer, which is in a context of its own.
    """

    k: int = 0
    v: int = 0
    k_head: int = 0
    v_head: int = 0
    window: int | None = None
    latent: bool = False
    index: int = 0
    index_ratio: int = 1
    r: int = 0
    s: int = 0
    entry: int = 0
    ratio: int = 0
    draft: bool = False


class Shape(Record):
    """The layers in order as (count, layer), and the one window that the model has.

    distinct: the same, every distinct layer once. ignored_window: tokens of a window that the engine does not apply.
    """

    runs: tuple[tuple[int, LayerShape], ...]
    distinct: tuple[tuple[int, LayerShape], ...]
    window: int | None
    ignored_window: int | None

    @property
    def latent(self) -> bool:
        """True where caches hold no values: one latent stands for both."""
        return any(layer.latent or layer.entry for _, layer in self.distinct)

    @property
    def compressed(self) -> bool:
        """True for DeepSeek-V4."""
        return any(layer.entry for _, layer in self.distinct)

    @property
    def widest_v(self) -> int:
        """Elements of the widest V row."""
        return max(layer.v for _, layer in self.distinct)


def _shape(spec: ModelSpec) -> Shape:
    place = spec.source
    shapes = {id(layer): layer_shape(layer.tensors(), place) for _, layer in spec.layers()}
    kept = list(shapes.values())
    windows = {layer.window for layer in kept if layer.window is not None}
    states = {(layer.r, layer.s) for layer in kept if layer.r or layer.s}
    _check_mixture(kept, windows, states, place)
    window, ignored = next(iter(windows), None), None
    grows = any(layer.k and layer.window is None for layer in kept)
    if window is not None and not grows and not states and not any(layer.entry for layer in kept):
        shapes = {key: layer.replace(window=None) for key, layer in shapes.items()}
        window, ignored = None, window
    runs = tuple((count, shapes[id(layer)]) for count, layer in spec.runs)
    distinct = tuple((count, shapes[id(layer)]) for count, layer in spec.layers())
    return Shape(runs, distinct, window, ignored)


def _check_mixture(kept: list[LayerShape], windows: set[int], states: set[tuple[int, int]], place: str) -> None:
    """Refuse layers that the engine's models never have together."""
    if len(windows) > 1:
        raise _refused(place, f"windows of {' and '.join(f'{w:,}' for w in sorted(windows))} tokens in one model")
    if len(states) > 1:
        raise _refused(place, "recurrent layers of several sizes in one model")
    if len({layer.entry for layer in kept}) > 1:
        raise _refused(place, "compressed entries beside other layers")
    if any(layer.latent for layer in kept) and any(layer.v for layer in kept):
        raise _refused(place, "latents in some layers and values in others")


def shape_of(spec: ModelSpec, drafts: int = 0) -> Shape:
    """The model's layers as the engine keeps them, and `drafts` draft layers behind them.

    Raises: NotCountableError for a layer or a mixture that the engine was never seen to keep.
    """
    if spec.name.startswith(WHOLE_HEADS):
        raise NotCountableError(
            f"{spec.source}: latent: llama.cpp keeps whole heads for {spec.name}, whose widths the spec does not give",
            "a spec with {type: mha, heads: H, kv_heads: H, head_dim: nope + rope, v_head_dim: V} counts it",
        )
    shape = _shape(spec)
    if not drafts:
        return shape
    layer = layer_shape(spec.draft_layer().tensors(), spec.source)
    if not layer.k or layer.window is not None or layer.r or layer.s:
        raise _refused(spec.source, "draft: draft layers that are not full attention")
    behind = ((drafts, layer.replace(index=0, draft=True)),)  # a draft head attends without an index
    return shape.replace(runs=(*shape.runs, *behind), distinct=(*shape.distinct, *behind))


def layer_shape(tensors: tuple[CacheTensor, ...], place: str) -> LayerShape:
    """One layer's tensors in the engine's terms.

    Raises: NotCountableError naming the tensor that does not fit.
    """
    shape = LayerShape()
    for tensor in tensors:
        changes = _part(tensor, place)
        if any(getattr(shape, name) for name in changes if name in ("k", "v", "index", "entry", "ratio")):
            raise _refused(place, f"{tensor.name}: a second one in the same layer")
        for name in ("r", "s"):
            if name in changes:
                changes[name] += getattr(shape, name)
        shape = shape.replace(**changes)
    if shape.r and not shape.s and (shape.k or shape.entry):
        raise _refused(place, "conv: convolutions of attention layers")
    if shape.index and not (shape.k or shape.entry):
        raise _refused(place, "index: keys of an index without attention beside them")
    if shape.entry and (shape.k or shape.r or shape.s):
        raise _refused(place, "entry: compressed entries beside other tensors")
    if shape.entry and (shape.index > 0) != (shape.ratio == CSA_RATIO):
        raise _refused(
            place, f"entry: an index beside other entries than one per {CSA_RATIO} tokens, or none beside those"
        )
    if shape.index and shape.entry and shape.index_ratio != CSA_RATIO:
        raise _refused(place, f"index: a key per {shape.index_ratio} tokens beside an entry per {CSA_RATIO}")
    return shape


def _part(tensor: CacheTensor, place: str) -> dict[str, int]:
    """What one tensor adds to its layer."""
    growth, width = tensor.growth, tensor.row[-1]
    if tensor.role in (Role.K, Role.LATENT, Role.V) and isinstance(growth, PerToken | Window | Chunk):
        window = {} if isinstance(growth, PerToken) else {"window": growth.tokens}
        if tensor.role is Role.V:
            return {"v": tensor.elements, "v_head": width, **window}
        return {"k": tensor.elements, "k_head": width, "latent": tensor.role is Role.LATENT, **window}
    if tensor.role is Role.INDEX and isinstance(growth, PerToken | PerTokens):
        return {"index": tensor.elements, "index_ratio": growth.ratio if isinstance(growth, PerTokens) else 1}
    if isinstance(growth, Constant) and tensor.role in (Role.CONV, Role.STATE):
        if tensor.role is Role.STATE and len(tensor.row) == 1:
            raise _refused(place, f"{tensor.name}: a state of one number per channel or head")
        return {"r" if tensor.role is Role.CONV else "s": tensor.elements * growth.rows}
    if tensor.role is Role.ENTRY and isinstance(growth, Window):
        return {"entry": tensor.elements, "k_head": width, "window": growth.tokens}
    if tensor.role is Role.ENTRY and isinstance(growth, PerTokens) and growth.ratio in (CSA_RATIO, HCA_RATIO):
        return {"ratio": growth.ratio}
    law = "rows of an encoder's output" if isinstance(growth, PerEncoderToken) else f"rows by {type(growth).__name__}"
    raise _refused(place, f"{tensor.name}: {law}")


def _refused(place: str, why: str) -> NotCountableError:
    return NotCountableError(
        f"{place}: {why}, which llama.cpp was never seen to keep", "--engine ideal counts what the architecture needs"
    )
