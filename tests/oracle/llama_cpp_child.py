"""Starts llama.cpp servers one after another, as a process of its own: a crash of the engine must not end the tests.

Each line on stdin is a JSON object of server parameters and the file that takes the log; each line on stdout
says `started` or `refused`. Whatever the engine prints goes to that file.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

import xllamacpp

WORDS = {
    "flash_attn_type": {"auto": -1, "off": 0, "on": 1},
}


def value_of(name, value):
    if name.startswith("cache_type_"):
        return getattr(xllamacpp.ggml_type, f"GGML_TYPE_{value.upper()}")
    return WORDS[name][value] if name in WORDS else value


READY, GIVEN_UP = "all slots are idle", "exiting due to model loading error"
"""The last words of a start. The log is written by a thread of its own, and a server closed before its loop runs hangs."""


def wait_for(words, log):
    for _ in range(5000):
        if words in Path(log).read_text(errors="replace"):
            return
        time.sleep(0.002)


def start(parameters, log):
    params = xllamacpp.CommonParams()
    params.model.path = parameters.pop("model")
    params.fit_params, params.warmup, params.verbosity, params.cache_ram_mib = False, False, 4, 0
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = params.n_threads_http = 1
    for name, value in parameters.items():
        setattr(params, name, value_of(name, value))
    try:
        server = xllamacpp.Server(params)
    except Exception:  # noqa: BLE001 - whatever it is, the log says why
        wait_for(GIVEN_UP, log)
        return "refused"
    wait_for(READY, log)
    del server
    return "started"


answers = os.fdopen(os.dup(1), "w", buffering=1)
for line in sys.stdin:
    asked = json.loads(line)
    log = asked.pop("log")
    to = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    os.dup2(to, 1)
    os.dup2(to, 2)
    os.close(to)
    print(start(asked, log), file=answers)
os._exit(0)  # the engine's threads do not end by themselves
