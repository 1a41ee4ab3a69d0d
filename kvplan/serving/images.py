"""Container images that serve models: what each starts by itself, and the engine's version in its tag."""

from __future__ import annotations

import re

IMAGES: tuple[tuple[str, tuple[str, ...]], ...] = (
    (r"vllm/vllm-openai(-[a-z0-9]+)?|(.*/)?vllm-openai(-[a-z0-9]+)?", ("vllm", "serve")),
    (r"(ghcr\.io/)?(ggml-org|ggerganov)/llama\.cpp", ()),  # by tag, below
    (r"(docker\.io/)?ollama/ollama", ("ollama",)),
)
"""Repository (a pattern) and the words of its entrypoint.

Sources: vLLM `docker/Dockerfile` (`ENTRYPOINT ["vllm", "serve"]`, before 0.12 the module of the API server);
llama.cpp `.devops/*.Dockerfile`; Ollama `Dockerfile` (`ENTRYPOINT ["/bin/ollama"]`, `CMD ["serve"]`).
"""

LLAMA_TOOLS = {"--server": "llama-server", "-s": "llama-server", "--run": "llama-cli", "-r": "llama-cli"}
_TAG = re.compile(r"v?(\d{1,4}(?:\.\d{1,6}){1,3})")
_ENGINES = (
    ("vllm", re.compile(r"vllm")),
    ("sglang", re.compile(r"sglang")),
    ("llama.cpp", re.compile(r"llama[.-]cpp")),
    ("ollama", re.compile(r"ollama")),
    ("trtllm", re.compile(r"tensorrt[-_]?llm|trtllm")),
)


def split(image: str) -> tuple[str, str]:
    """(repository, tag) of an image reference; the tag is empty where there is none.

    >>> split("registry:5000/vllm/vllm-openai:v0.19.1@sha256:abc")
    ('registry:5000/vllm/vllm-openai', 'v0.19.1')
    """
    name = image.partition("@")[0]
    repository, colon, tag = name.rpartition(":")
    return (repository, tag) if colon and "/" not in tag else (name, "")


def entrypoint(image: str, arguments: list[str]) -> list[str] | None:
    """The words that stand before a container's arguments; None where the image is not known."""
    repository, tag = split(image)
    for pattern, words in IMAGES:
        if re.fullmatch(pattern, repository):
            if words == ("ollama",) and not arguments:
                return ["ollama", "serve"]
            return list(words) if words else _llama(tag, arguments)
    return None


def _llama(tag: str, arguments: list[str]) -> list[str]:
    """llama.cpp's images: `server` and `light` start one tool, `full` takes the tool's name first."""
    if tag.startswith("server"):
        return ["llama-server"]
    if tag.startswith("light"):
        return ["llama-cli"]
    tool = LLAMA_TOOLS.get(arguments[0]) if arguments else None
    if tool is None:
        return []
    arguments.pop(0)
    return [tool]


def version_in(image: str | None, engine: str) -> str | None:
    """The engine's version that an image's tag states, such as 0.19.1; None where it states none.

    >>> version_in("vllm/vllm-openai:v0.19.1", "vllm"), version_in("vllm/vllm-openai:latest", "vllm")
    ('0.19.1', None)
    """
    if image is None:
        return None
    repository, tag = split(image)
    if not any(name == engine and pattern.search(repository.lower()) for name, pattern in _ENGINES):
        return None
    match = _TAG.match(tag[:100])
    return match[1] if match else None
