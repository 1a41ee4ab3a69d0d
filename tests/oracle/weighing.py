"""Run a tiny model with the library's own code and weigh the cache it leaves behind.

Two figures, as the library's user would find them: the bytes of every distinct tensor, and the bytes of every
distinct storage beneath those tensors. Counters are tensors and count in both.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
import transformers

if TYPE_CHECKING:
    from tiny_blocks import Tiny

torch.set_num_threads(1)  # the models are tiny: threads would only wait for each other
DTYPES = {"bf16": torch.bfloat16, "fp32": torch.float32, "fp16": torch.float16}
LEAVES = (str, bytes, int, float, bool, type, torch.dtype, torch.nn.Module, transformers.PreTrainedConfig)


def weighed(cache: Any) -> tuple[int, int]:
    """(logical bytes, storage bytes) of every tensor reachable from `cache`."""
    tensors = tensors_of(cache)
    storages = {
        t.untyped_storage().data_ptr(): t.untyped_storage().nbytes() for t in tensors if t.untyped_storage().nbytes()
    }
    return sum(t.numel() * t.element_size() for t in tensors), sum(storages.values())


def tensors_of(root: Any) -> list[torch.Tensor]:
    """Distinct plain tensors in containers and library objects; a wrapper's inner tensors stand for it."""
    seen: dict[int, Any] = {}  # the objects stay referenced, so an id is never used twice
    found, stack = [], [root]
    while stack:
        node = stack.pop()
        if node is None or id(node) in seen or isinstance(node, LEAVES):
            continue
        seen[id(node)] = node
        if isinstance(node, torch.Tensor):
            if type(node) is torch.Tensor or not hasattr(node, "__tensor_flatten__"):
                found.append(node)
            else:
                stack.extend(getattr(node, name) for name in node.__tensor_flatten__()[0])
        elif hasattr(node, "values"):
            stack.extend(node.values() if callable(node.values) else vars(node).values())
        elif isinstance(node, list | tuple | set):
            stack.extend(node)
        elif type(node).__module__.split(".")[0] == "transformers":
            stack.extend(vars(node).values())
    return found


def model_of(tiny: Tiny, dtype: str) -> Any:
    """The library's model with random weights, built once."""
    if dtype not in tiny.built:
        torch.manual_seed(0)
        config = getattr(transformers, tiny.config)(
            **({} if tiny.name == "t5gemma" else {"vocab_size": 64}), **tiny.settings
        )
        if tiny.model:
            model = getattr(transformers, tiny.model)._from_config(config, dtype=DTYPES[dtype])
        else:
            model = transformers.AutoModelForCausalLM.from_config(config, dtype=DTYPES[dtype])
        tiny.built[dtype] = model.eval()
    return tiny.built[dtype]


def cache_named(tiny: Tiny, config: Any, cache: str, context: int, options: dict[str, Any]) -> Any:
    """A cache object of the library to fill; None where the model makes its own."""
    if cache == "static":
        rows = options.get("max_cache_len", context)
        own = transformers.StaticCache(config=config, max_cache_len=rows)
        if tiny.feed == "encoder":
            return transformers.EncoderDecoderCache(
                own, transformers.StaticCache(config=config, max_cache_len=tiny.encoder_tokens)
            )
        return own
    if cache == "quantized":
        return transformers.QuantizedCache(options.pop("backend"), config, **options)
    return transformers.DynamicCache(config=config) if tiny.feed == "module state" else None


@torch.no_grad()
def filled(tiny: Tiny, dtype: str, batch: int, context: int, first: int, cache: str, **options: Any) -> Any:
    """What holds the state after an update of `first` tokens and one of each token after it."""
    model = model_of(tiny, dtype)
    held = cache_named(tiny, model.config, cache, context, options)
    ids = torch.randint(3, 60, (batch, context))
    done = 0
    for step in [first] + [1] * (context - first):
        held = _forward(tiny, model, held, ids[:, done : done + step], done)
        done += step
    return [held, module_states(model)] if tiny.feed == "module state" else held


def _forward(tiny: Tiny, model: Any, held: Any, piece: torch.Tensor, done: int) -> Any:
    batch = piece.shape[0]
    if tiny.feed == "encoder":
        hidden = torch.zeros(batch, tiny.encoder_tokens, 32, dtype=model.dtype)
        encoded = transformers.modeling_outputs.BaseModelOutput(last_hidden_state=hidden)
        return model(decoder_input_ids=piece, encoder_outputs=encoded, cache=held, use_cache=True).cache
    if tiny.feed == "image":
        image = torch.zeros(batch, tiny.encoder_tokens, 32, dtype=model.dtype)
        return model(piece, cross_attention_states=None if done else image, cache=held, use_cache=True).cache
    if tiny.feed == "module state":
        positions = torch.arange(done, done + piece.shape[1])[None].expand(batch, -1)
        model(piece, position_ids=positions, cache=held, use_cache=True)
        return held
    return model(piece, cache=held, use_cache=True).cache


def module_states(model: Any) -> list[Any]:
    """States that modules hold themselves, taken from them so that the next run starts anew."""
    taken = []
    for module in model.modules():
        for name in ("conv1d_state", "recurrent_states"):
            if getattr(module, name, None) is not None:
                taken.append(getattr(module, name))
                setattr(module, name, None)
    return taken
