"""What docs/architecture.md promises of the whole: the import map, the light start, the rosters, the public surface."""

from __future__ import annotations

import ast
import doctest
import importlib
import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest

import kvplan
from kvplan import engine, report
from kvplan.cli import COMMANDS

REPOSITORY = Path(__file__).parents[1]
PACKAGE = REPOSITORY / "kvplan"
MODULES = sorted(
    module.name
    for module in pkgutil.walk_packages(kvplan.__path__, "kvplan.")
    if not module.name.startswith("kvplan.__main__")
)
HEAVY = {"torch", "numpy", "transformers", "huggingface_hub", "matplotlib", "pynvml", "tomllib"}


def imported(*arguments: str) -> set[str]:
    """The top-level modules that a process of kvplan's own has imported when it ends."""
    program = (
        "import atexit, sys\n"
        "atexit.register(lambda: sys.stderr.write(' '.join(sorted({m.split('.')[0] for m in sys.modules}))))\n"
        f"sys.argv = {['kvplan', *arguments]!r}\n"
        "from kvplan.cli import main\n"
        "main()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=REPOSITORY, capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode in {0, 1}, done.stderr
    return set(done.stderr.splitlines()[-1].split())


def parsed(name: str) -> ast.Module:
    """The syntax tree of a module."""
    path = REPOSITORY / Path(*name.split("."))
    file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    return ast.parse(file.read_text("utf-8"))


def test_imports_point_down_and_members_know_no_other() -> None:
    """The contracts of pyproject.toml; `lint-imports` prints which import breaks one."""
    program = "import sys; from importlinter.cli import lint_imports; sys.exit(lint_imports(no_cache=True))"
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=REPOSITORY, capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "0 broken" in done.stdout


@pytest.mark.parametrize(
    "arguments",
    [
        ("size", "llama-70b", "--ctx", "128k"),
        ("size", "gemma-3-27b", "--ctx", "max", "--gpu", "h100", "--engine", "transformers"),
        ("fit", "qwen3-32b", "--gpu", "h100"),
        ("models", "llama"),
    ],
    ids=" ".join,
)
def test_a_command_starts_light(arguments: tuple[str, ...]) -> None:
    """Neither torch nor numpy nor anything else that only some commands need."""
    assert imported(*arguments) & HEAVY == set()


def test_the_public_surface_is_what_all_says() -> None:
    """Every name can be imported and is documented, and nothing else is offered."""
    assert sorted(kvplan.__all__) == list(kvplan.__all__)
    undocumented = [name for name in kvplan.__all__ if not (getattr(kvplan, name).__doc__ or "").strip()]
    assert undocumented == []
    with pytest.raises(AttributeError, match="has no attribute 'no_such_name'"):
        getattr(kvplan, "no_such_name")  # noqa: B009  # the name is wrong on purpose


def test_the_public_surface_is_on_the_tab_key() -> None:
    """`dir(kvplan)` has every public name, loaded or not."""
    assert set(kvplan.__all__) <= set(dir(kvplan))


def test_every_engine_is_on_its_roster() -> None:
    """A file or folder that is not listed can be named by nobody."""
    members = {path.stem for path in (PACKAGE / "engine").iterdir() if not path.name.startswith("__")}
    assert members == set(engine.ENGINES.values())


def test_every_output_format_is_on_its_roster() -> None:
    """A file with `render` is a format, one named `*_view` says how a result reads."""
    members = {
        path.stem
        for path in (PACKAGE / "report").glob("*.py")
        if not path.name.startswith("__") and not path.stem.endswith("_view")
    }
    assert members == set(report.FORMATS.values())
    for member in members:
        assert callable(importlib.import_module(f"kvplan.report.{member}").render)


def test_every_command_is_on_its_roster() -> None:
    """A file with `command` is a command."""
    commands = {
        name.rpartition(".")[2] for name in MODULES if name.startswith("kvplan.cli.") and _defines(name, "command")
    }
    assert commands == set(COMMANDS.values())


@pytest.mark.parametrize("name", ["kvplan", *MODULES])
def test_a_module_says_what_it_is_in_its_first_line(name: str) -> None:
    """Its docstring begins with its whole idea, and everything public has one."""
    tree = parsed(name)
    first = (ast.get_docstring(tree) or "").splitlines()[:1]
    assert first, "no docstring"
    assert len(first[0]) > 10, first[0]
    public = [
        node.name
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.ClassDef)
        and not node.name.startswith("_")
        and not ast.get_docstring(node)
        and node in _outermost(tree)
    ]
    assert public == []


@pytest.mark.parametrize("name", ["kvplan", *(name for name in MODULES if ">>>" in ast.unparse(parsed(name)))])
def test_the_examples_of_a_module_are_true(name: str) -> None:
    """Every `>>>` in a docstring is run."""
    result = doctest.testmod(importlib.import_module(name))
    assert result.failed == 0
    assert result.attempted > 0


def _defines(name: str, function: str) -> bool:
    return any(isinstance(node, ast.FunctionDef) and node.name == function for node in parsed(name).body)


def _outermost(tree: ast.Module) -> list[ast.stmt]:
    """Functions and classes of the module, and methods of its public classes; not functions within functions."""
    classes = [node for node in tree.body if isinstance(node, ast.ClassDef) and not node.name.startswith("_")]
    inner = [node for outer in classes for node in outer.body]
    return [*tree.body, *inner]
