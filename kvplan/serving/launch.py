"""From a script to what it starts: wrappers peeled off, one engine's command left, never executed.

`docker run`, `env`, `bash -c`, `torchrun` and their like stand before a serve command; what they say of
the environment, the image and the cards is kept. A `Launch` is one such command.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from kvplan.errors import InputError, quoted
from kvplan.record import Record
from kvplan.serving.images import entrypoint
from kvplan.serving.shell import commands

DEEPEST = 6
MOST_LAUNCHES = 200
_ASSIGNED = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=")
_PYTHON = re.compile(r"(python|python3|pypy3?)(\.\d+)*(\.exe)?")
SHELLS = frozenset({"sh", "bash", "dash", "ash", "zsh", "ksh"})
CONTAINERS = frozenset({"docker", "podman", "nerdctl"})
PROGRAMS = frozenset(
    {
        "vllm",
        "sglang",
        "llama-server",
        "llama-cli",
        "llama-completion",
        "llama",
        "trtllm-serve",
        "ollama",
        "mlx_lm.server",
        "mlx_lm",
    }
)
"""Programs that serve a model, by file name."""

SUBCOMMANDS = {
    "vllm": frozenset({"serve", "chat", "complete", "bench", "run-batch", "launch"}),
    "sglang": frozenset({"serve", "generate"}),
    "ollama": frozenset(
        {"serve", "start", "run", "pull", "list", "ps", "show", "create", "stop", "rm", "cp", "push", "launch"}
    ),
}
"""The words that make a program of these names what is meant, and not a package or folder of the same name."""

WRAPPERS = frozenset(
    """sudo doas exec nohup nice ionice time timeout stdbuf setsid unbuffer numactl taskset chrt tini dumb-init
    s6-setuidgid gosu su-exec uv uvx pipx poetry pdm pixi hatch conda mamba micromamba rye srun mpirun mpiexec
    torchrun accelerate ray nsys ncu strace catchsegv trtllm-llmapi-launch chpst watch systemd-run singularity apptainer
    screen tmux command eval then do else ! {""".split()
)
"""Programs that run the command behind them."""

DOCKER_SWITCHES = frozenset(
    """-d --detach -i --interactive -t --tty --rm --privileged --init --read-only --no-healthcheck --oom-kill-disable
    -P --publish-all -q --quiet --sig-proxy --disable-content-trust --replace --help --use-api-socket --tls-verify
    --no-hosts --rmi --systemd --http-proxy""".split()
)
"""Flags of `docker run` and `podman run` that take no value (docker/cli, `cli/command/container/opts.go`)."""


class Launch(Record):
    """One serve command and what surrounds it.

    words: the program and its arguments. environment: the variables it sees. image: the container's, or None.
    cards: GPUs it gets, where something says so. gpu: their name. place: where it stands, for errors.
    """

    words: tuple[str, ...]
    environment: Mapping[str, str] = {}
    image: str | None = None
    cards: int | None = None
    gpu: str | None = None
    place: str = "--serve"


def launches(text: str, around: Launch) -> list[Launch]:
    """The serve commands of a script, in order. around: the place and the environment it stands in.

    Raises: InputError for text that no shell would take.
    """
    return _script(text, around, 0)


def launch_of(words: Iterable[str], around: Launch) -> list[Launch]:
    """The serve commands that these words, already split, start: none, one, or those of a script within."""
    return _peeled(list(words), around, 0)


def _script(text: str, around: Launch, depth: int) -> list[Launch]:
    found: list[Launch] = []
    environment = dict(around.environment)
    for line in commands(text, environment, around.place):
        words = list(line.words)
        if words[0] == "export" or all(_ASSIGNED.match(word) for word in words):
            environment |= dict(word.split("=", 1) for word in words if _ASSIGNED.match(word))
            continue
        found += _peeled(words, around.replace(environment=environment), depth)
        if len(found) > MOST_LAUNCHES:
            raise InputError(f"{around.place}: more than {MOST_LAUNCHES} serve commands", "split it")
    return found


def _peeled(words: list[str], around: Launch, depth: int) -> list[Launch]:
    """What `words` start, once everything that only wraps is gone."""
    if depth > DEEPEST:
        raise InputError(f"{around.place}: commands in commands, deeper than {DEEPEST}", "give the serve command alone")
    environment = dict(around.environment)
    while words and _ASSIGNED.match(words[0]):
        name, _, value = words.pop(0).partition("=")
        environment[name] = value
    around = around.replace(environment=environment)
    if not words:
        return []
    program = _base(words[0])
    if program in PROGRAMS or (_PYTHON.fullmatch(program) and _runs_module(words)):
        cards = around.cards if around.cards is not None else _visible(environment)
        return [around.replace(words=(program, *words[1:]), cards=cards)]
    if program == "env":
        return _peeled(_without_env(words[1:], around), around, depth + 1)
    if program in SHELLS:
        return _of_shell(words, around, depth)
    if program in CONTAINERS:
        return _of_container(words, around, depth)
    if _PYTHON.fullmatch(program) or program in WRAPPERS:
        start = next((i for i in range(1, len(words)) if _starts(words, i)), None)
        return [] if start is None else _peeled(words[start:], around, depth + 1)
    return []


def _visible(environment: Mapping[str, str]) -> int | None:
    """Cards that a variable leaves visible; None where none says."""
    for name in ("CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES"):
        text = environment.get(name, "")
        if re.fullmatch(r"\s*[0-9A-Za-z-]+(\s*,\s*[0-9A-Za-z-]+)*\s*", text) and len(text) < 4_000:
            return text.count(",") + 1
    return None


def _base(word: str) -> str:
    return word.replace("\\", "/").rsplit("/", 1)[-1].removesuffix(".exe")


def _runs_module(words: list[str]) -> bool:
    return any(word in ("-m", "-um") for word in words[1:6])


def _starts(words: list[str], at: int) -> bool:
    """Whether a wrapped command may begin at this word."""
    word = words[at]
    program = _base(word)
    if word == "-m" and at + 1 < len(words) and "." in words[at + 1]:  # torchrun -m MODULE
        words[at:at] = ["python"]
        return True
    following = words[at + 1] if at + 1 < len(words) else ""
    return (
        (program in PROGRAMS and (program not in SUBCOMMANDS or following in SUBCOMMANDS[program]))
        or program in SHELLS
        or program in CONTAINERS
        or program == "env"
        or bool(_PYTHON.fullmatch(program))
        or (program in WRAPPERS and len(program) > 2)
        or bool(_ASSIGNED.match(word) and not word.startswith("-"))
    )


def _without_env(words: list[str], around: Launch) -> list[str]:
    """What stands behind `env` and its own flags; its assignments stay in front."""
    while words and words[0].startswith("-"):
        flag = words.pop(0)
        if flag in ("-S", "--split-string") and words:
            line = commands(words.pop(0), around.environment, around.place)
            return [*(line[0].words if line else ()), *words]
        if flag in ("-u", "--unset", "-C", "--chdir") and words:
            words.pop(0)
    return words


def _of_shell(words: list[str], around: Launch, depth: int) -> list[Launch]:
    """`bash -c 'script'`; a script in a file is not read."""
    for at, word in enumerate(words[1:], 1):
        if word.startswith("-") and not word.startswith("--") and "c" in word:
            script = words[at + 1] if at + 1 < len(words) else ""
            return _script(script, around, depth + 1)
        if not word.startswith(("-", "+")):
            break
    return []


def _of_container(words: list[str], around: Launch, depth: int) -> list[Launch]:
    """`docker run [flags] IMAGE [command]`: the image's own entrypoint with what follows."""
    verbs = [at for at, word in enumerate(words[1:4], 1) if word in ("run", "create")]
    if not verbs:
        return []
    environment = dict(around.environment)
    own, entry, cards = dict[str, str](), None, around.cards
    at = verbs[0] + 1
    while at < len(words) and words[at].startswith("-"):
        flag, equals, value = words[at].partition("=")
        at += 1
        short = re.fullmatch(r"-[dit]+", flag) is not None
        if not equals and not short and flag not in DOCKER_SWITCHES:
            if re.match(r"-[evpuwlhmc].", flag) and not flag.startswith("--"):
                flag, value = flag[:2], flag[2:]
            else:
                value, at = (words[at] if at < len(words) else ""), at + 1
        if flag in ("-e", "--env"):
            name, given, text = value.partition("=")
            if given or name in environment:
                own[name] = text if given else environment[name]
        elif flag == "--entrypoint":
            entry = value
        elif flag == "--gpus":
            cards = _counted(value)
    if at >= len(words):
        raise InputError(f"{around.place}: {words[0]} {words[verbs[0]]} names no image", "give the command whole")
    image = words[at]
    inside = around.replace(environment=own, image=image, cards=cards)
    return started_by_image(image, None if entry is None else [entry], words[at + 1 :], inside, depth)


def _counted(text: str) -> int | None:
    """Cards that `--gpus` gives: a number or a list of devices; None for `all`."""
    text = text.strip("\"'")
    if text.isdigit() and len(text) < 6:
        return int(text)
    match = re.search(r"device=([0-9A-Za-z:,-]+)", text)
    if match:
        return len([item for item in match[1].split(",") if item])
    match = re.search(r"count=([0-9]{1,5})\b", text)
    return int(match[1]) if match else None


def started_by_image(
    image: str, entry: list[str] | None, arguments: list[str], around: Launch, depth: int = 0
) -> list[Launch]:
    """What a container starts: its entrypoint, or the image's own, with the arguments behind it.

    Raises: InputError where neither the words nor a known image say what starts.
    """
    own = entrypoint(image, arguments) if entry is None else list(entry)
    found = _peeled([*(own or ()), *arguments], around, depth + 1)
    if found or own is not None:
        return found
    if any(word.startswith(("--model", "-m", "--tensor-parallel-size")) for word in arguments):
        raise InputError(
            f"{around.place}: image {quoted(image)}: what it starts is not known, and its arguments name no program",
            "give the command that runs inside the container, for example vllm serve …",
        )
    return []
