"""Draw the recorded caches again: `tests/data/config_oracle.jsonl`, and the table of `docs/importing/architectures.md`.

Run it from the checkout: `python -u tests/importers/record.py [MODEL_TYPE ...]`. Each model type that generates text gets
a tiny config; the library saves it, reads it back, builds the model with random weights and runs it on a CPU. What
its cache then holds is put beside the records. `--variants` runs every variant of each config too, `--write` takes what
was found into the records, leaves out what is not filled any more, and draws the table again. A case that is not filled within `--limit` seconds is given
up. What is done is kept in `--work` and not run again, so a run that was stopped goes on where it was.

Exit code 1 when a cache is not what is recorded, or a recorded one is not filled any more.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import resource
import sys
import tempfile
import time
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import torch
import transformers
from draw_architectures import CASES, NOT_FILLED, PAGE, not_filled, page
from recorder.configs import architectures, tiny
from recorder.filling import BATCHES_AND_STEPS, NotFilledError, made, model_of, runs_of, saved_and_read
from recorder.variants import variants

WORK = Path(tempfile.gettempdir()) / "kvplan_config_oracle.jsonl"
MOST_BYTES = 12 * 2**30
LEFT_OUT = {"audio_config", "encoder_config", "id2label", "initializer_range", "label2id", "rope_parameters", "transformers_version", "vision_config"}  # fmt: skip
LEFT_OUT_ENDS = ("token_id", "token_index")
Case = dict[str, Any]
Key = tuple[str, str, str]


def trimmed(fields: Any) -> Any:
    """A config without what never reaches a cache: towers, token ids, rotations."""
    if not isinstance(fields, dict):
        return fields
    kept = {name: value for name, value in fields.items() if name not in LEFT_OUT}
    return {name: trimmed(value) for name, value in kept.items() if not name.endswith(LEFT_OUT_ENDS)}


def filled(model_type: str, architecture: str, variant: str, written: dict[str, Any]) -> Case:
    """The record of one config.

    Raises: whatever the library raises where it refuses the config or fails to run it.
    """
    saved, config = saved_and_read(made(model_type, written), architecture)
    plans = BATCHES_AND_STEPS if variant == "base" else BATCHES_AND_STEPS[1:]
    runs = runs_of(model_of(config, architecture), model_type, plans)
    short = {"model_type": model_type, "architectures": [architecture], "dtype": saved["dtype"]}
    return {
        "architecture": architecture,
        "variant": variant,
        "saved": trimmed(saved),
        "runs": runs,
        "written": {**trimmed(written), **short},
    }


def drawn(model_type: str, architecture: str, every: bool) -> dict[str, dict[str, Any]]:
    """The written fields of a class's tiny config, and with `every` of its variants, by name."""
    return {"base": tiny(model_type, architecture), **(variants(model_type, architecture) if every else {})}


def in_a_child(limit: float, *case: Any) -> tuple[Case | None, str]:
    """The record of one case made by a process of its own, or why there is none."""
    context = multiprocessing.get_context("fork")
    here, there = context.Pipe(duplex=False)
    child = context.Process(target=_send, args=(there, *case), daemon=True)
    child.start()
    there.close()
    answer: tuple[Case | None, str] = (None, f"not filled within {limit:g} seconds")
    if here.poll(limit):
        try:
            answer = here.recv()
        except EOFError:
            answer = (None, "its process died")
    child.kill()
    child.join()
    return answer


def _send(there: Any, *case: Any) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MOST_BYTES, MOST_BYTES))
    warnings.simplefilter("ignore")
    try:
        there.send((filled(*case), ""))
    except BaseException as error:  # noqa: BLE001  # hundreds of classes, each with its own way of saying no
        name = "" if isinstance(error, NotFilledError) else f"{type(error).__name__}: "
        there.send((None, f"{name}{str(error)[:300]}"))


def recorded() -> dict[Key, Case]:
    """Every record by model type, class and variant."""
    cases = [json.loads(line) for line in CASES.read_text().splitlines()]
    return {(case["written"]["model_type"], case["architecture"], case["variant"]): case for case in cases}


def run_all(wanted: list[str], every: bool, limit: float, work: Path) -> dict[Key, tuple[Case | None, str]]:
    """Every case asked for, or why it could not be filled; progress goes to stderr."""
    done: dict[str, Any] = {}
    if work.exists():
        done = {entry["of"]: entry for entry in map(json.loads, work.read_text().splitlines())}
    found: dict[Key, tuple[Case | None, str]] = {}
    begin = time.monotonic()
    with work.open("a") as log:
        for model_type, classes in architectures().items():
            for architecture in classes if not wanted or model_type in wanted else ():
                for variant, written in drawn(model_type, architecture, every).items():
                    case = (model_type, architecture, variant)
                    of = json.dumps([transformers.__version__, *case, written], sort_keys=True)
                    if of not in done:
                        getattr(transformers, architecture)  # imported once, here, and not in every child
                        answer = in_a_child(limit, *case, written)
                        done[of] = {"of": of, "case": answer[0], "why": answer[1]}
                        log.write(json.dumps(done[of]) + "\n")
                        log.flush()
                    found[case] = (done[of]["case"], done[of]["why"])
                print(f"{time.monotonic() - begin:6.0f} s {len(found):5,} cases, {model_type}", file=sys.stderr, flush=True)  # fmt: skip
    return found


def verdict(before: Case | None, now: Case | None) -> str:
    """How a case stands to its record."""
    if now is None:
        return "recorded, not filled now" if before else "not filled"
    if before is None:
        return "filled, not recorded"
    if before["runs"] != now["runs"]:
        return "other bytes than recorded"
    return "as recorded" if before == now else "as recorded, the config spelt otherwise"


def main() -> int:
    """Run what was asked for; 1 when the records do not hold."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("model_types", nargs="*", metavar="MODEL_TYPE")
    parser.add_argument("--variants", action="store_true")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--limit", type=float, default=90.0)
    parser.add_argument("--work", type=Path, default=WORK)
    asked = parser.parse_args()
    transformers.logging.set_verbosity_error()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    records = recorded()
    found = run_all(asked.model_types, asked.variants, asked.limit, asked.work)
    counts: Counter[str] = Counter()
    types: dict[str, set[str]] = {}
    for key, (now, why) in found.items():
        stands = verdict(records.get(key), now)
        counts[stands] += 1
        types.setdefault(stands, set()).add(key[0])
        if stands not in ("as recorded", "as recorded, the config spelt otherwise"):
            before = records.get(key)
            bytes_then = [run["bytes"] for run in before["runs"]] if before else ""
            bytes_now = [run["bytes"] for run in now["runs"]] if now else why
            print(f"{' '.join(key)}: {stands}: {bytes_then} {bytes_now}")
    for stands, count in counts.most_common():
        print(f"{count:5,} configs of {len(types[stands]):3} model types: {stands}")
    if asked.write:
        run = {key[0] for key in found}
        stay = {
            key: case for key, case in records.items() if key not in found and not (asked.variants and key[0] in run)
        }
        unfilled = {key[0]: why.partition("\n")[0] for key, (now, why) in found.items() if key[2] == "base" and not now}
        write(stay | {key: now for key, (now, _) in found.items() if now}, not_filled() | unfilled)
    return int(counts["other bytes than recorded"] + counts["recorded, not filled now"] > 0)


def write(records: dict[Key, Case], unfilled: dict[str, str]) -> None:
    """Take the records into the repository, and draw the page of them."""
    lines = [json.dumps(records[key], separators=(",", ":")) for key in sorted(records)]
    CASES.write_text("\n".join(lines) + "\n")
    never = {name: unfilled[name] for name in sorted(unfilled.keys() - {key[0] for key in records})}
    NOT_FILLED.write_text(json.dumps(never, indent=1) + "\n")
    PAGE.write_text(page())


if __name__ == "__main__":
    sys.exit(main())
