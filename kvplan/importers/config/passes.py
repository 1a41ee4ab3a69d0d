"""Layers that are passed several times: each pass over a layer has a cache of its own."""

from __future__ import annotations

from kvplan.importers.config.fields import Fields


def depth_of_cycles(fields: Fields, depth: int | None) -> int | None:
    """Layers of HRM's two stacks over all their cycles.

    A saved config has them multiplied out already, and says so by the layers of one stack beside them.
    """
    cycles = fields.number("H_cycles")
    if depth is None or cycles is None or fields.number("num_layers_per_stack") is not None:
        return depth
    return depth * cycles * (fields.need("L_cycles") + 1)


def words_of_loops(fields: Fields, words: list[str]) -> list[str]:
    """Dory's layers with those between its input and its output layers repeated, unless the last loop alone is kept."""
    loops = fields.number("n_recurrent_loops")
    if loops is None:
        return words
    halves = 1 + ("none" in words)  # released lists name each layer's MLP beside it
    words = words[::halves]
    begin = fields.need("n_input_layers") // halves
    looped = fields.number("n_recurrent_layers")
    count = len(words) - begin - fields.need("n_output_layers") // halves if looped is None else looped // halves
    mode = fields.find("recurrent_kv_cache_mode")
    if mode not in ("per_loop", "last_loop"):
        raise fields.refuse("recurrent_kv_cache_mode", mode)
    if not 0 <= count <= len(words) - begin:
        raise fields.refuse("n_input_layers", begin, f"and its loops do not fit into {len(words)} layers")
    again = words[begin : begin + count] * (loops - 1 if mode == "per_loop" else 0)
    return [*words[: begin + count], *again, *words[begin + count :]]
