"""Where a report goes: stdout or a whole file; hints to stderr; and what the exit code says."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from kvplan.errors import InputError, did_you_mean, printable, quoted
from kvplan.report import FORMATS, Report, render
from kvplan.units import BYTE_UNITS


def checked_unit(unit: str) -> str:
    """`unit` as tables print it.

    Raises: InputError for an unknown unit.
    """
    for known in BYTE_UNITS:
        if unit.lower() == known.lower():
            return known
    raise InputError(f"--unit: found {quoted(unit)}, allowed {', '.join(BYTE_UNITS)}", "--unit GiB")


def checked_format(name: str) -> str:
    """`name` of an output format, checked before any work is done.

    Raises: InputError for an unknown format.
    """
    if name not in FORMATS:
        raise InputError(
            f"--format: found {quoted(name)}, allowed {', '.join(FORMATS)}",
            did_you_mean(name, FORMATS, "--format table"),
        )
    return name


def emit(report: Report, name: str, file: str | None, no_color: bool) -> None:
    """Write the report to stdout, or to `file` as a whole or not at all."""
    if file is not None:
        write_whole(Path(file), render(report, name, color=False, width=None))
        return
    terminal = sys.stdout.isatty()
    color = terminal and not no_color and "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"
    text = render(report, name, color, None)
    encoding = sys.stdout.encoding or "utf-8"
    sys.stdout.write(text.encode(encoding, "replace").decode(encoding))


def write_whole(path: Path, text: str, option: str = "-o") -> None:
    """Replace `path` by `text` in one step; a failure leaves what was there. option: what errors name.

    Raises: InputError when the path cannot be written.
    """
    try:
        if str(path).startswith(("/dev/", "/proc/")) or (path.exists() and not path.is_file()):
            with path.open("a", encoding="utf-8") as device:  # a device or pipe takes it as it comes
                device.write(text)
            return
        target = path.resolve() if path.is_symlink() else path
        handle, temporary = tempfile.mkstemp(prefix=f".{target.name[:40]}.", dir=target.parent)
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as out:
                out.write(text)
            mode = target.stat().st_mode & 0o777 if target.exists() else 0o666 & ~_umask()
            os.chmod(temporary, mode)
            os.replace(temporary, target)
        except BaseException:
            os.unlink(temporary)
            raise
    except (OSError, ValueError, RuntimeError) as error:  # RuntimeError: a loop of links, before Python 3.13
        reason = getattr(error, "strerror", None) or "bad path"
        raise InputError(
            f"{option}: {quoted(str(path))} cannot be written: {reason}",
            "check the folder and its permissions",
        ) from None


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


@contextmanager
def progress(quiet: bool) -> Iterator[Callable[[str], None]]:
    """One line on stderr that says what is being done, on a terminal only, and gone afterwards."""
    shown = sys.stderr.isatty() and not quiet

    def said(text: str) -> None:
        if shown:
            sys.stderr.write(f"\r\x1b[K{printable(text)}")
            sys.stderr.flush()

    try:
        yield said
    finally:
        said("")


def say(lines: Iterable[str], quiet: bool) -> None:
    """Hints for a person, on stderr, each once."""
    if not quiet:
        for line in dict.fromkeys(lines):
            sys.stderr.write(f"hint: {''.join(c if c.isprintable() else printable(c) for c in line)}\n")
