"""`kvplan measure` as a user runs it: answers, exit codes, formats, and the same through `size --measure`."""

from __future__ import annotations

import subprocess
import sys
from unittest.mock import patch

import jsonschema
import pytest

pytest.importorskip("torch", reason="the extra `measure` is not installed")

from kvplan.caches import COMPARED
from kvplan.measure.cpu import Cpu

from .conftest import REPOSITORY, refused, run

SMALL = ("smollm2-135m", "--ctx", "100", "--device", "cpu", "--limit-bytes", "100MiB")


def test_predicted_measured_difference() -> None:
    """The three figures and the verdict, and the exit code of a yes."""
    answer = run("measure", *SMALL)
    assert 0 == answer.code, answer.err
    assert "measured 2,304,000 bytes, exactly as predicted, and all given back" in answer.out
    assert "30 of 30 layers" in answer.out
    assert max(map(len, answer.out.splitlines())) <= 100


def test_size_measure_is_measure() -> None:
    """The same document, wherever `--measure` stands and with options that only measure has."""
    first = run("measure", *SMALL, "--format", "json").document
    second = run("size", "smollm2-135m", "--measure", *SMALL[1:], "--format", "json").document
    assert "kvplan.measure/1" == first["schema"] == second["schema"]
    assert "cpu" == first["device"] == second["device"]
    for key in ("predicted_bytes", "measured_bytes", "difference_bytes", "measured_layers", "of_layers", "agrees"):
        assert first["results"][0][key] == second["results"][0][key]
    assert 2_304_000 == first["results"][0]["measured_bytes"]


def test_several_are_a_table() -> None:
    """One row each, and a yes when all agree."""
    answer = run("measure", *SMALL, "--kv-dtype", "bf16,kivi2", "--batch", "1,3")
    assert 0 == answer.code
    assert 4 == answer.out.count("smollm2-135m")
    assert "2,304,000" in answer.out


def test_every_output_format_has_it() -> None:
    """Whole bytes in CSV and JSON; the schema holds."""
    rows = run("measure", *SMALL, "--format", "csv").out.splitlines()
    assert "measured_bytes" in rows[0]
    assert "2304000" in rows[1]
    for name in ("markdown", "html"):
        assert "2,304,000" in run("measure", *SMALL, "--format", name).out
    document = run("measure", *SMALL, "--until-oom", "--format", "json").document
    jsonschema.Draft202012Validator(run("measure", "--json-schema").document).validate(document)
    found = document["results"][0]["until_oom"]
    fit = run("fit", "smollm2-135m", "--ctx", "100", "--available-bytes", "100MiB", "--format", "json").result
    assert fit["max_context"] == found["measured"] == found["predicted"]
    assert f"{fit['max_context']:,} tokens" in run("measure", *SMALL, "--until-oom").out


def test_in_part_says_so() -> None:
    """In words and in numbers; what was measured agrees."""
    answer = run("measure", "llama-70b", "--ctx", "4k", "--device", "cpu", "--limit-bytes", "40MiB")
    assert 0 == answer.code
    assert "2 of 80 layers" in answer.out
    assert "note: measured 2 of 80 layers; the whole cache takes 1.22 GiB, --limit-bytes allows 40.00 MiB" in answer.out


def test_no_room_is_a_no() -> None:
    """Exit code 1, with the reason."""
    answer = run("measure", "llama-70b", "--ctx", "4k", "--device", "cpu", "--limit-bytes", "1MiB")
    assert 1 == answer.code
    assert "no room for one layer of 80" in answer.out


def test_a_disagreement_is_a_no() -> None:
    """A device that stores wider than asked is found out."""
    plain = Cpu.allocate
    with patch.object(Cpu, "allocate", lambda self, shape, dtype: plain(self, (*shape, 2), dtype)):
        answer = run("measure", *SMALL)
    assert 1 == answer.code
    assert "measured 4,608,000 bytes, +2,304,000 against the prediction" in answer.out


def test_without_torch_the_install_line_is_given() -> None:
    """Exit code 4."""
    with patch.dict(sys.modules, {"torch": None}):
        assert "  fix: pip install 'kvplan[measure]'" in refused(run("measure", *SMALL), 4)
        assert "  fix: pip install 'kvplan[measure]'" in refused(run("size", *SMALL, "--measure"), 4)


def test_a_gpu_that_is_not_there_is_missing() -> None:
    """Exit code 4, and what would help."""
    with patch("torch.cuda.is_available", return_value=False):
        assert "--device cpu" in refused(run("measure", "smollm2-135m", "--ctx", "100", "--device", "cuda"), 4)


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (("--device", "gpu0"), 2, "--device: found 'gpu0'"),
        (("--limit-bytes", "lots"), 2, "--limit-bytes: found 'lots'"),
        (("--limit-bytes", "900TB"), 2, "are free on cpu"),
        (("--until-oom", "--vary", "layers"), 2, "--vary: found 'layers'"),
        (("--batch", "max"), 2, "--batch max: measure searches it on the device itself"),
        (("--engine", "transformers"), 3, "transformers reserves bytes"),
        (("--kv-dtype", "fp9"), 2, "--kv-dtype: found 'fp9'"),
        (("--gpu", "h100"), 2, "no such option: --gpu"),
    ],
    ids=str,
)
def test_wrong_input_is_refused(arguments: tuple[str, ...], code: int, says: str) -> None:
    """Two lines, and the exit code of its kind."""
    assert says in refused(run("measure", "smollm2-135m", "--ctx", "100", "--device", "cpu", *arguments), code)


def test_an_interrupt_exits_130() -> None:
    """Quietly, whatever was allocated."""
    with patch.object(Cpu, "touch", side_effect=KeyboardInterrupt):
        assert (130, "", "") == run("measure", *SMALL)


def test_techniques_are_compared() -> None:
    """All of them with `--compare` alone, wherever it stands; a row each, and the cache itself weighed too."""
    for words in (("--compare", *SMALL), (*SMALL, "--compare")):
        answer = run("measure", *words)
        assert 0 == answer.code, answer.err
        names = [line.split()[0] for line in answer.out.splitlines() if line.strip()]
        assert [name for name in COMPARED if name not in names] == []
    assert "measured 2,304,000 bytes, exactly as predicted" in answer.out
    assert max(map(len, answer.out.splitlines()[:20])) <= 80


def test_some_techniques_are_compared() -> None:
    """In every output format, and as the schema says."""
    words = ("measure", *SMALL, "--compare", "paged,kivi2")
    document = run(*words, "--format", "json").document
    jsonschema.Draft202012Validator(run("measure", "--json-schema").document).validate(document)
    assert ["paged", "kivi2"] == [one["name"] for one in document["techniques"]]
    keys = {"predicted_bytes", "measured_bytes", "waste_bytes", "relative_error", "seconds_per_token", "time_exponent"}
    assert keys <= set(document["techniques"][0])
    assert 1 == len(document["results"])
    assert ["paged", "kivi2"] == [line.split(",")[0] for line in run(*words, "--format", "csv").out.splitlines()[1:]]
    assert "| paged" in run(*words, "--format", "markdown").out


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--compare", "paged,hot"), "--compare: found 'hot'"),
        (("--compare", "paged", "--batch", "1,2"), "found 2 combinations"),
        (("--plot", "x.svg"), "--plot: draws what --compare finds"),
        (("--compare", "paged", "--plot", "x.gif"), "end in .svg or .png"),
    ],
    ids=str,
)
def test_a_wrong_comparison_is_refused(arguments: tuple[str, ...], says: str) -> None:
    """Before anything is run."""
    assert says in refused(run("measure", "smollm2-135m", "--ctx", "100", "--device", "cpu", *arguments), 2)


def test_a_second_opinion_is_named_apart() -> None:
    """Its own bytes, by its own rules, in words and in JSON."""
    pytest.importorskip("transformers", reason="transformers is not installed")
    words = ("measure", *SMALL, "--weigh-with", "transformers")
    answer = run(*words)
    assert 0 == answer.code, answer.err
    assert "holds 2,304,000 bytes for 30 layers in its own classes, exactly as its engine predicts" in answer.out
    document = run(*words, "--format", "json").document
    jsonschema.Draft202012Validator(run("measure", "--json-schema").document).validate(document)
    assert 2_304_000 == document["results"][0]["second_opinion"]["measured_bytes"]
    assert "--weigh-with: found" in refused(run("measure", *SMALL, "--weigh-with", "vllm"), 2)


def test_a_model_without_heads_cannot_be_compared() -> None:
    """Exit code 3."""
    refused(run("measure", "deepseek-v3", "--ctx", "100", "--device", "cpu", "--compare"), 3)


def test_a_real_interrupt_frees_and_exits_130() -> None:
    """Ctrl-C while gigabytes are being written to: a process of its own, quiet and gone at once."""
    program = (
        "import os, signal, sys, threading\n"
        "from kvplan.measure.cpu import Cpu\n"
        "plain, seen = Cpu.touch, []\n"
        "def touch(self, tensor):\n"
        "    plain(self, tensor)\n"
        "    seen.append(1)\n"
        "    if len(seen) == 7:\n"
        "        os.kill(os.getpid(), signal.SIGINT)\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "Cpu.touch = touch\n"
        f"sys.argv = {['kvplan', 'measure', *SMALL]!r}\n"
        "from kvplan.cli import main\n"
        "main()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=REPOSITORY, capture_output=True, check=False, timeout=120
    )
    assert (130, b"", b"") == (done.returncode, done.stdout, done.stderr)
