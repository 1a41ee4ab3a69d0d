"""A model as SGLang's pools see it: one shape of full rows, one of window rows, index keys and states, per stage.

- A pool has one shape for all its layers; a model without states gets a full layer for every layer it has, those
  that share or keep nothing included.
- Heads of a rank: max(1, H / (tp / dcp)), where tp counts the ranks that divide attention (tp / dp with
  attention data parallelism).
- Windows and chunks go to the window pool, or to the full one where hybrid memory is off.
- A pipeline stage holds consecutive layers; a remainder goes to the last stages.

Worked: gpt-oss-20b is 12 full and 12 window layers of 8 heads of 64; llama-3.3-nemotron-super-49b, 31 of whose 80
layers have no attention, still gets 80.

Source: SGLang 0.5.23 srt/model_executor/model_runner_components/layer_setup.py, srt/distributed/utils.py and
srt/configs/model_config.py.
"""

from __future__ import annotations

from math import prod

from kvplan.engine.sglang.row_formats import INDEX_KEY, Rows
from kvplan.engine.sglang.states import State, layer_states
from kvplan.errors import InputError, NotCountableError
from kvplan.growth import Chunk, PerToken, Window
from kvplan.record import Record
from kvplan.spec import Layer, ModelSpec, Runs
from kvplan.tensor import CacheTensor, Role

RECURRENT = frozenset({Role.CONV, Role.STATE})
LEADS = frozenset({Role.K, Role.LATENT})


class Ranks(Record):
    """How ranks divide the work. attention: ranks that divide heads; hybrid: windows have a pool of their own.

    raw: latents beside an index are never packed. ssm_dtype: of states, where it is not the model's own.
    """

    attention: int
    pp: int
    dcp: int
    hybrid: bool
    raw: bool
    ssm_dtype: str | None = None


class Stage(Record):
    """What one rank of a pipeline stage holds."""

    full_layers: int = 0
    window_layers: int = 0
    index_layers: int = 0
    states: tuple[tuple[int, State], ...] = ()


class Draft(Record):
    """Layers that speculate: their rows, and whether they are windowed."""

    layers: int
    rows: Rows
    windowed: bool
    indexed: bool


class Held(Record):
    """A model on its ranks. window_tokens: what SGLang calls `sliding_window_size`, None without a window pool."""

    stages: tuple[Stage, ...]
    full: Rows | None
    window: Rows | None
    window_tokens: int | None
    draft: Draft | None
    filled_up: int

    @property
    def stored(self) -> Rows | None:
        """The full pool's rows as they are stored: beside states, V is as wide as K."""
        if self.full is None or self.full.latent or not self.has_states:
            return self.full
        return self.full.replace(v_width=self.full.width)

    @property
    def latent(self) -> bool:
        """True where pools hold latents instead of K and V."""
        rows = self.full or self.window
        return rows is not None and rows.latent

    @property
    def indexed(self) -> bool:
        """True where layers keep index keys."""
        return any(stage.index_layers for stage in self.stages)

    @property
    def has_states(self) -> bool:
        """True where layers keep states."""
        return any(stage.states for stage in self.stages)


class _Kept(Record):
    """What one distinct layer keeps: its rows, its window, whether it has index keys, its state."""

    rows: Rows | None
    window: int | None
    indexed: bool
    state: State | None


def held(spec: ModelSpec, ranks: Ranks, mtp: int) -> Held:
    """The model on its ranks.

    Raises: NotCountableError naming the tensor that SGLang's pools are not known to hold; InputError where heads or
    stages do not divide.
    """
    kept: dict[int, _Kept] = {}
    for _, layer in spec.layers():
        kept[id(layer)] = _kept(spec, layer, ranks)
    stateful = any(item.state for item in kept.values())
    stages, filled_up = [], 0
    for runs in _stages(spec, ranks.pp):
        full = window = indexed = 0
        states: dict[State, int] = {}
        for count, layer in runs:
            item = kept[id(layer)]
            if item.state is not None:
                states[item.state] = states.get(item.state, 0) + count
            if item.rows is None and not stateful:
                full, filled_up = full + count, filled_up + count
            elif item.rows is not None and item.window is not None and ranks.hybrid:
                window += count
            elif item.rows is not None:
                full += count
            indexed += count if item.indexed else 0
        stages.append(Stage(full, window, indexed, tuple((count, state) for state, count in states.items())))
    return _together(spec, tuple(stages), list(kept.values()), ranks, mtp, filled_up)


def _together(
    spec: ModelSpec, stages: tuple[Stage, ...], kept: list[_Kept], ranks: Ranks, mtp: int, filled_up: int
) -> Held:
    windowed = [item for item in kept if item.rows is not None and item.window is not None and ranks.hybrid]
    whole = [item for item in kept if item.rows is not None and item not in windowed]
    full = _one_shape(spec, whole, "full attention")
    window = _one_shape(spec, windowed, "window")
    if filled_up and (windowed or full is None):
        raise _unknown(spec, "layers", "whether a layer without a cache of its own gets a full or a window pool")
    if windowed and ranks.dcp > 1:
        raise InputError("--dcp: SGLang's window pools are not divided over it", "leave out --dcp")
    if windowed and any(item.rows is not None and item.rows.latent for item in kept):
        raise _unknown(spec, "latent", "how latents and window pools go together")
    tokens = {item.window for item in windowed}
    if len(tokens) > 1:
        raise _unknown(spec, "k", "what one window pool holds for windows of several lengths")
    return Held(stages, full, window, next(iter(tokens), None), _draft(spec, ranks, mtp), filled_up)


def _draft(spec: ModelSpec, ranks: Ranks, mtp: int) -> Draft | None:
    if not mtp:
        return None
    if ranks.dcp > 1 or ranks.pp > 1:
        option = "--dcp" if ranks.dcp > 1 else "--pp"
        raise InputError(
            f"--mtp: found beside {option}, and SGLang speculates on one stage without it", "leave one out"
        )
    item = _kept(spec, spec.draft_layer(), ranks)
    if item.rows is None or item.state is not None:
        raise _unknown(spec, "draft", "a draft layer that is not plain attention")
    return Draft(mtp, item.rows, item.window is not None and ranks.hybrid, item.indexed)


def _one_shape(spec: ModelSpec, kept: list[_Kept], what: str) -> Rows | None:
    shapes = {item.rows for item in kept}
    if len(shapes) > 1:
        raise _unknown(spec, "k", f"one {what} pool has one shape of row, and the layers differ")
    return next(iter(shapes), None)


def _kept(spec: ModelSpec, layer: Layer, ranks: Ranks) -> _Kept:
    tensors = layer.tensors()
    leads = [t for t in tensors if t.role in LEADS]
    index = [t for t in tensors if t.role is Role.INDEX]
    recurrent = tuple(t for t in tensors if t.role in RECURRENT)
    for tensor in tensors:
        _check_countable(spec, tensor)
    if len(leads) > 1:
        raise _unknown(spec, leads[1].name, "a layer with two attentions")
    if index and (len(index) > 1 or not leads or leads[0].role is not Role.LATENT):
        raise _unknown(spec, index[-1].name, "index keys beside keys and values")
    rows = _rows(spec, leads[0], [t for t in tensors if t.role is Role.V], bool(index), ranks) if leads else None
    state = layer_states(spec, recurrent, ranks.attention, ranks.ssm_dtype) if recurrent else None
    return _Kept(rows, _window(leads[0]) if leads else None, bool(index), state)


def _rows(spec: ModelSpec, lead: CacheTensor, values: list[CacheTensor], packed: bool, ranks: Ranks) -> Rows:
    if lead.role is Role.LATENT:
        return Rows(1, lead.elements, 0, latent=True, rope=lead.rope, packed=packed and not ranks.raw)
    if len(values) != 1 or values[0].shards != lead.shards:
        raise _unknown(spec, lead.name, "K and V with different heads")
    heads, over = lead.shards, ranks.attention // ranks.dcp
    if max(heads, over) % min(heads, over):
        raise InputError(
            f"--tp: {over} ranks do not divide {heads} KV heads, and SGLang neither splits nor pads a head",
            f"--tp {max(n for n in range(1, over + 1) if not heads % n) * ranks.dcp}",
        )
    return Rows(max(1, heads // over), prod(lead.row[1:]), prod(values[0].row[1:]))


def _window(tensor: CacheTensor) -> int | None:
    """SGLang's `sliding_window_size`: tokens before the newest under a window, a chunk's tokens."""
    match tensor.growth:
        case Window(tokens):
            return tokens - 1
        case Chunk(tokens):
            return tokens
        case _:
            return None


def _check_countable(spec: ModelSpec, tensor: CacheTensor) -> None:
    if tensor.role in RECURRENT:
        return
    if tensor.role is Role.ENTRY:
        raise _unknown(spec, tensor.name, "compressed entries, whose pools have rules of their own")
    if not isinstance(tensor.growth, PerToken | Window | Chunk):
        raise _unknown(spec, tensor.name, f"rows that grow by {type(tensor.growth).__name__}")
    if tensor.role is Role.INDEX and tensor.elements != INDEX_KEY:
        raise _unknown(spec, tensor.name, f"index keys of {tensor.elements} numbers; SGLang asserts {INDEX_KEY}")


def _stages(spec: ModelSpec, pp: int) -> list[Runs]:
    """Consecutive slices of the layers; a remainder goes to the last stages."""
    total = spec.layer_count
    if pp > total:
        raise InputError(f"--pp: found {pp}, allowed at most the {total} layers of {spec.name}", f"--pp {total}")
    least, extra = divmod(total, pp)
    left = list(spec.runs)
    return [_slice(left, least + (stage >= pp - extra)) for stage in range(pp)]


def _slice(left: list[tuple[int, Layer]], size: int) -> Runs:
    """The next `size` layers, taken from `left`."""
    taken: list[tuple[int, Layer]] = []
    while size:
        count, layer = left[0]
        use = min(count, size)
        taken.append((use, layer))
        size -= use
        left[:1] = [(count - use, layer)] if count > use else []
    return tuple(taken)


def _unknown(spec: ModelSpec, name: str, what: str) -> NotCountableError:
    return NotCountableError(
        f"{spec.source}: {name}: SGLang: not known: {what}", "--engine ideal counts what the architecture needs"
    )
