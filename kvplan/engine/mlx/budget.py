"""What mlx-lm leaves for the cache: the working set that Metal recommends, less the model and one piece of a prompt.

MLX has no budget of its own: it wires what the system recommends and asks for what it needs. Where the card's
working set is not known, its whole memory counts. A piece of `prefill_step_size` tokens passes the model at a time,
and logits are worked out for the last token alone.

Worked: Llama-3.1-8B, pieces of 2,048: 2,048 x (4 x 4,096 + 3 x 14,336) x 2 = 243,269,632 bytes.

Source: mlx-lm 0.32.2 mlx_lm/generate.py (wired_limit, generate_step), read.
"""

from __future__ import annotations

from fractions import Fraction

from kvplan.account import Account, Device, Overhead, left_of
from kvplan.activations import forward_bytes, gib_range
from kvplan.engine import Options
from kvplan.spec import ModelSpec
from kvplan.workload import Workload

UNKNOWN = gib_range(0.5, 0.1, 2.0)


def account(spec: ModelSpec, workload: Workload, options: Options, device: Device) -> Account:
    """The working set, or the share that --utilization asks for, less the model and one piece."""
    usable = device.share(device.utilization or Fraction(1))
    tokens = min(workload.context, int(options.get("prefill_step_size", 2048)))
    dimensions = spec.fields.dimensions
    found = UNKNOWN if dimensions is None else forward_bytes(dimensions, workload.batch * tokens)
    note = f"A piece of {tokens:,} tokens of a prompt on its way through the model."
    piece = Overhead("activations", found, note, ("the widths of the spec", "mlx-lm 0.32.2 generate.py"))
    kv = left_of(usable, [*device.taken(), piece.bytes])
    return Account(usable, (piece,), kv.replace(confidence="assumed"))
