"""What a sceptical user broke, held fixed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ANSWERED = "size llama-3.1-70b --ctx 8k"
DOES_NOT_FIT = "size llama-3.1-70b --ctx 8k --gpu t4"
UNKNOWN = "size no-such-model"


@pytest.mark.parametrize("closed", [">&-", "2>&-", ">&- 2>&-", "<&- >&- 2>&-"])
@pytest.mark.parametrize(("command", "code"), [(ANSWERED, 0), (DOES_NOT_FIT, 1), (UNKNOWN, 2)])
def test_the_exit_code_answers_where_streams_are_closed(closed: str, command: str, code: int) -> None:
    ran = subprocess.run(
        ["sh", "-c", f'"$0" -m kvplan {command} {closed}', sys.executable],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ran.returncode == code
    assert "Traceback" not in ran.stderr


def test_a_report_to_a_file_needs_no_stdout(tmp_path: Path) -> None:
    file = tmp_path / "out.json"
    command = f'"$0" -m kvplan {ANSWERED} --format json -o "$1" <&- >&- 2>&-'
    ran = subprocess.run(["sh", "-c", command, sys.executable, str(file)], timeout=60, check=False)
    assert ran.returncode == 0
    assert file.read_text().startswith("{")
