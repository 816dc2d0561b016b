"""Whatever becomes of its output, a command ends with its own exit status and never in a traceback."""

from __future__ import annotations

import codecs
import os
import subprocess
import sys
from pathlib import Path

import pytest

from squall.harness.terminal.terminal import ERROR_HANDLER, STAND_INS, DroppingFile, in_ascii

ROOT = Path(__file__).resolve().parents[3]


def shell(line: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """A line of bash in which `squall` is the command of this tree; the status is that of its first command."""
    squall = f'squall() {{ "{sys.executable}" -m squall.harness.cli.main "$@"; }}\n'
    return subprocess.run(
        ["bash", "-c", f"{squall}{line}\nexit ${{PIPESTATUS[0]}}"],
        cwd=ROOT,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=120,
    )


CLOSINGS = ["| head -n 1", "| true", ">&-", "2>&-", "<&- >&- 2>&-"]
UNREAD = [
    *(pytest.param("suite schema", closing) for closing in CLOSINGS),
    *(pytest.param(command, CLOSINGS[0]) for command in ("faults isolate --json", "plan suites/quickstart.yaml")),
    *(
        pytest.param(command, closing, marks=pytest.mark.full)
        for command in ("faults isolate --json", "plan suites/quickstart.yaml")
        for closing in CLOSINGS[1:]
    ),
]
"""Output of each kind, and each way not to read it; every pair of them in `make test-full`."""


@pytest.mark.parametrize(("arguments", "closing"), UNREAD)
def test_output_that_nobody_reads_is_dropped(arguments: str, closing: str) -> None:
    done = shell(f"squall {arguments} {closing}")
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("closing", ["| true", ">&-"])
def test_the_status_of_a_command_is_its_own_when_nobody_reads(closing: str) -> None:
    """A closed pipe is no verdict: this one is refused."""
    done = shell(f"squall plan none.yaml {closing}")
    assert (done.returncode, done.stderr) == (254, "none.yaml: no such file\n")


@pytest.mark.parametrize("arguments", ["mutants", "suite schema", "--help"])
def test_output_that_cannot_be_written_is_reported(arguments: str) -> None:
    done = shell(f"squall {arguments} > /dev/full")
    assert done.returncode == 254
    assert done.stderr == "standard output: No space left on device; what was printed is incomplete\n"


@pytest.mark.parametrize(
    "arguments", ["plan suites/quickstart.yaml", "faults", "run --help", "bench --help", "suite schema"]
)
def test_a_terminal_that_knows_ascii_only(arguments: str) -> None:
    ascii_only = {
        "LC_ALL": "C",
        "LANG": "C",
        "PYTHONIOENCODING": "ascii",
        "PYTHONUTF8": "0",
        "PYTHONCOERCECLOCALE": "0",
    }
    done = shell(f"squall {arguments}", **ascii_only)
    assert done.returncode == 0 and "Traceback" not in done.stderr, done.stderr
    assert done.stdout.strip()


def test_marks_are_words_in_ascii() -> None:
    codecs.register_error(ERROR_HANDLER, in_ascii)
    assert "✔ valid · ✘ 3 ≥ 2 … ☃".encode("ascii", ERROR_HANDLER) == b"ok valid - failed 3 >= 2 ... ?"
    assert all(text.isascii() for text in STAND_INS.values())


def test_a_full_device_is_remembered_and_a_closed_pipe_is_not() -> None:
    read_end, write_end = os.pipe()
    os.close(read_end)
    closed = DroppingFile(write_end, "w")
    assert closed.write(b"nobody reads this") == 17 and closed.trouble is None
    full = DroppingFile(os.open("/dev/full", os.O_WRONLY), "w")
    assert full.write(b"no room for this") == 16 and full.trouble is not None
    assert full.write(b"more") == 4
