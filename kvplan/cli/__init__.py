"""The command line: arguments in, text and exit code out; no arithmetic.

A command is one module with a function `command`; it is imported when it is called, so that no
command pays for another. Reports go to stdout, everything else to stderr.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module
from typing import Annotated, Any, NoReturn

os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")  # looking for plugins reads every installed package

import typer
from typer.core import TyperGroup

from kvplan.errors import KvplanError, nearest, printable

COMMANDS = {
    "size": "size",
    "fit": "fit",
    "explain": "explain",
    "table": "table",
    "check": "check",
    "measure": "measure",
    "import": "import_source",
    "models": "models",
    "gpus": "gpus",
    "engines": "engines",
    "formats": "formats",
    "show": "show",
}


class LazyGroup(TyperGroup):
    """The group of all commands, each built when it is asked for."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Every command, in the order of the help page."""
        return list(COMMANDS)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command that the words begin with; `size --measure` is `measure`."""
        words = args[: args.index("--")] if "--" in args else args
        if args[0] == "size" and "--measure" in words:
            args = ["measure", *(word for place, word in enumerate(args[1:], 1) if place != args.index("--measure"))]
        if args[0] == "measure" and "--compare" in args:
            from kvplan.cli.measure import with_all

            args = with_all(args)
        return super().resolve_command(ctx, args)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command called `cmd_name`, or None."""
        if cmd_name not in COMMANDS:
            return None
        module: Any = import_module(f"kvplan.cli.{COMMANDS[cmd_name]}")
        single = typer.Typer(add_completion=False, rich_markup_mode=None)
        single.command(cmd_name, no_args_is_help=getattr(module, "NEEDS_ARGUMENTS", False))(module.command)
        return _one_coercion(typer.main.get_command(single))


def _one_coercion(command: Any) -> Any:
    """`command` with one string coercion for all its string options.

    Typer builds a pydantic validator per option that is identical for every plain string; with
    forty options that is a tenth of a run. A Typer without this attribute is left as it is.
    """
    shared: Any = None
    for parameter in command.params:
        descriptor = getattr(parameter, "type_descriptor", None)
        if descriptor is None or descriptor.annotation is not str or not hasattr(parameter, "_runtime_param"):
            continue
        shared = shared or parameter.get_runtime_param()
        parameter._runtime_param = shared
    return command


def _version(wanted: bool) -> None:
    if wanted:
        from kvplan.inputs import own_version

        typer.echo(f"kvplan {own_version()}")
        raise typer.Exit


app = typer.Typer(cls=LazyGroup, no_args_is_help=True, rich_markup_mode=None, pretty_exceptions_enable=False)


@app.callback()
def root(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Print the version."),
    ] = False,
) -> None:
    """How much memory a model's KV cache takes, whether it fits, and what to buy."""


def main() -> NoReturn:
    """Run the command line and exit: 0 yes, 1 no, 2 bad input, 3 not countable, 4 something missing."""
    _open_streams()
    try:
        code = app(prog_name="kvplan", standalone_mode=False)
    except KvplanError as error:
        code = complain(error.what, error.fix, error.exit_code)
    except SystemExit as left:  # typer leaves with 1 when the reader is gone
        code = _pipe_closed() if isinstance(left.__context__, BrokenPipeError) else left.code
    except OSError as error:
        code = _unwritten(error)
    except KeyboardInterrupt:
        code = 130
    except Exception as error:
        if not hasattr(error, "format_message"):
            raise
        code = _help(error) if type(error).__name__ == "NoArgsIsHelpError" else complain(*_usage(error), 2)
    _leave(code if isinstance(code, int) else 0)


def _open_streams() -> None:
    """Streams that the caller closed (`>&-`) lead nowhere: the exit code still answers."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_WRONLY), "w", encoding="utf-8"))


def _leave(code: int) -> NoReturn:
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        code = _pipe_closed()
    except OSError as error:
        code = _unwritten(error)
    sys.exit(code)


def _pipe_closed() -> int:
    """The reader went away, as `head` does: nothing more to say, and nothing wrong."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


def _unwritten(error: OSError) -> int:
    """The report could not be written, as on a full disk."""
    _pipe_closed()
    return complain(f"{error.filename or 'stdout'}: {error.strerror or error}", "check the disk it is written to", 2)


def complain(what: str, fix: str, code: int) -> int:
    """The two lines of an error, on stderr."""
    sys.stderr.write(f"error: {_one_line(what)}\n")
    if fix:
        sys.stderr.write(f"  fix: {_one_line(fix)}\n")
    return code


def _help(error: Any) -> int:
    """The help page of a command that got no arguments."""
    sys.stderr.write(f"{error.format_message()}\n")
    return 2


def _one_line(text: str) -> str:
    return "".join(c if c.isprintable() else printable(c) for c in text)[:2000]


def _usage(error: Any) -> tuple[str, str]:
    """A wrong command line in kvplan's own two lines."""
    ctx = getattr(error, "ctx", None)
    path = ctx.command_path if ctx is not None else "kvplan"
    what = printable(error.format_message().strip().rstrip("."))
    option = getattr(error, "option_name", None)
    if option and ctx is not None:
        known = [name for parameter in ctx.command.params for name in parameter.opts]
        close = nearest(str(option), known)
        return (
            f"no such option: {printable(option)}",
            f"did you mean {', '.join(close)}?" if close else f"`{path} --help` lists the options",
        )
    if what.startswith("No such command"):
        word = what.split("'")[1] if "'" in what else ""
        close = nearest(word, COMMANDS)
        return (
            f"no such command: {printable(word)}",
            f"did you mean {', '.join(close)}?" if close else f"commands: {', '.join(COMMANDS)}",
        )
    return what[:1].lower() + what[1:], f"`{path} --help` explains the options"
