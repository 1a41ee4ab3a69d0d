"""What llama.cpp leaves for the cache: the card less the margin of `--fit`, the model, and its compute buffer.

    room = total - 1,024 MiB - context - model - compute buffer

The compute buffer holds the logits of a physical batch, n_ubatch x vocab_size x 4 bytes, and some MiB beside them;
without flash attention it grows with the context, and newer builds hold less. Nothing else is planned for: the
engine asks for what its context needs and fails, or moves layers to the host, where that is not there.

Worked: Gemma-2-2B: 512 x 256,000 x 4 = 500 MiB; its log says 509.

Source: llama.cpp build 11549, common/fit.cpp and src/llama-context.cpp, read; compute buffers in logs: 509 MiB
(Gemma-2-2B), 304 (Qwen2.5-7B), 498 and 488 (Qwen3.5), 135 (Gemma-4-12B), 1,672 (gpt-oss-20b at 131,072 cells).
"""

from __future__ import annotations

from kvplan.account import Account, Device, Overhead, Range, left_of
from kvplan.activations import gib_range, peak_elsewhere
from kvplan.engine import Options
from kvplan.spec import ModelSpec
from kvplan.workload import Workload

MIB = 2**20
MARGIN = 1024 * MIB
CONTEXT = gib_range(0.3, 0.14, 0.6)
N_UBATCH = 512
LOGS = ("compute buffer lines of llama.cpp logs (docs/engines/budget.md)",)


def account(spec: ModelSpec, workload: Workload, options: Options, device: Device) -> Account:
    """The card less the margin, or the share that --utilization asks for; then model and buffers."""
    if device.utilization is not None:
        usable = device.share(device.utilization)
    else:
        usable = device.total.each(lambda total: min([max(0, total - MARGIN), *device.ceilings]))
    context = Overhead("runtime", CONTEXT, "The driver's context: 0.15 GiB in a log, 0.6 at most elsewhere.", LOGS)
    overheads = (_compute(spec, workload, options, device), context)
    kv = left_of(usable, [*device.taken(), *(overhead.bytes for overhead in overheads)])
    return Account(usable, overheads, kv.replace(confidence="assumed"))


def _compute(spec: ModelSpec, workload: Workload, options: Options, device: Device) -> Overhead:
    dimensions, rows = spec.fields.dimensions, int(options.get("n_ubatch", N_UBATCH)) or N_UBATCH
    if dimensions is None:
        return peak_elsewhere(device.runtime)
    logits = rows * dimensions.vocab_size * 4
    scores = rows * workload.context * 24
    found = Range(logits + 10 * MIB, logits // 4, logits + 64 * MIB + scores, "assumed")
    note = f"The compute buffer: {rows:,} x {dimensions.vocab_size:,} logits, more without flash attention."
    return Overhead("activations", found, note, LOGS)
