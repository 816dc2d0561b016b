"""A held write has not begun: it goes on at the end of the hold, or never if its process is killed."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from squall.harness.gallery.core.write_hold import WriteHold
from squall.nemesis.agent.disk import seccomp
from tests.waiting import wait_until

pytestmark = pytest.mark.skipif(seccomp.why_not() is not None, reason=str(seccomp.why_not()))

WRITES_WHAT_IT_READS = """
import os, sys
inside, outside = (os.open(name, os.O_WRONLY | os.O_CREAT | os.O_APPEND) for name in sys.argv[1:3])
for line in sys.stdin.buffer:
    os.write(outside, line)
    os.write(inside, line)
"""


@contextmanager
def writer(hold: WriteHold, inside: Path, outside: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A program that writes what stands in the file `commands`, inside and outside of the held directory."""
    commands = outside.parent / "commands"
    commands.write_bytes(b"1\n")
    shell = f'exec "{sys.executable}" -c \'{WRITES_WHAT_IT_READS}\' "{inside}" "{outside}" < "{commands}"'
    with (outside.parent / "output").open("ab") as out:
        process = hold.start(["/bin/sh", "-c", shell], out)
    try:
        yield process
    finally:
        process.kill()
        process.wait(30)


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    (tmp_path / "data").mkdir()
    return tmp_path / "data" / "inside", tmp_path / "outside"


def test_a_held_write_goes_on_at_the_end(files: tuple[Path, Path]) -> None:
    inside, outside = files
    hold = WriteHold(inside.parent)
    hold.begin()
    with writer(hold, inside, outside) as process:
        wait_until(lambda: hold.held, "a write is held", 30)
        assert (inside.read_bytes(), outside.read_bytes()) == (b"", b"1\n")
        hold.end()
        assert process.wait(30) == 0
    assert inside.read_bytes() == b"1\n"


def test_a_held_write_of_a_killed_process_never_happens(files: tuple[Path, Path]) -> None:
    inside, outside = files
    hold = WriteHold(inside.parent)
    hold.begin()
    with writer(hold, inside, outside) as process:
        wait_until(lambda: hold.held, "a write is held", 30)
        process.kill()
        process.wait(30)
    hold.wait_until_ended()
    hold.end()
    assert (inside.read_bytes(), hold.held) == (b"", 1)


def test_without_a_hold_nothing_waits(files: tuple[Path, Path]) -> None:
    inside, outside = files
    hold = WriteHold(inside.parent)
    with writer(hold, inside, outside) as process:
        assert process.wait(30) == 0
    assert (inside.read_bytes(), hold.held) == (b"1\n", 0)
