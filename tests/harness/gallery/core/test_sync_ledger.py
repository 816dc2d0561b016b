"""The watch over fsyncs: a loss of power takes what was never fsynced, and nothing else."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from squall.harness.gallery.core.sync_ledger import SyncLedger
from squall.harness.gallery.core.trouble import NotReproduced
from squall.nemesis.agent.disk import seccomp
from tests.waiting import wait_until

pytestmark = pytest.mark.skipif(seccomp.why_not() is not None, reason=str(seccomp.why_not()))

WRITES = """
import os, sys, time
def write(name, content, flags=0):
    descriptor = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_APPEND | flags, 0o644)
    os.write(descriptor, content)
    return descriptor
os.chdir(sys.argv[1])
{body}
write("done", b"")
time.sleep(600)  # until it is killed
"""


@contextmanager
def running(directory: Path, body: str, ledger: SyncLedger) -> Iterator[subprocess.Popen[bytes]]:
    """A watched program that has carried out `body` in the directory."""
    done = directory / "done"
    done.unlink(missing_ok=True)
    with (directory.parent / "output").open("ab") as out:
        process = ledger.start([sys.executable, "-c", WRITES.format(body=body), str(directory)], out)
    try:
        wait_until(lambda: done.exists() or process.poll() is not None, "the program has written", 30)
        assert process.poll() is None, (directory.parent / "output").read_text()
        yield process
    finally:
        process.kill()
        process.wait(30)


def after_power_loss(tmp_path: Path, *bodies: str) -> tuple[dict[str, bytes], int]:
    """What is left of a directory, and how many bytes are gone; the last program of `bodies` loses power."""
    data = tmp_path / "data"
    data.mkdir()
    ledger = SyncLedger(data)
    for body in bodies:
        with running(data, body, ledger):
            pass
    loss = ledger.lose_power()
    return {
        str(one.relative_to(data)): one.read_bytes() for one in data.rglob("*") if one.is_file() and one.name != "done"
    }, loss.bytes_gone


@pytest.mark.parametrize(
    ("body", "left", "gone"),
    [
        ("write('a', b'12345')", {}, 5),
        ("os.fsync(write('a', b'12345'))", {"a": b"12345"}, 0),
        ("d = write('a', b'123'); os.fdatasync(d); os.write(d, b'45')", {"a": b"123"}, 2),
        ("write('a', b'12', os.O_SYNC); write('b', b'34', os.O_DSYNC)", {"a": b"12", "b": b"34"}, 0),
        ("d = write('t', b'12'); os.fsync(d); os.rename('t', 'a')", {"a": b"12"}, 0),
        ("write('t', b'12', os.O_SYNC); os.rename('t', 'a')", {"a": b"12"}, 0),
        ("write('t', b'12'); os.rename('t', 'a')", {}, 2),
        ("os.mkdir('d'); d = write('d/a', b'1', os.O_SYNC); os.rename('d', 'e'); os.write(d, b'2')", {"e/a": b"12"}, 0),
        ("write('a', b'12'); os.sync(); write('b', b'345')", {"a": b"12"}, 3),
        ("d = write('a', b'123'); os.fsync(d); os.ftruncate(d, 0); os.write(d, b'9')", {"a": b"9"}, 0),
    ],
)
def test_only_what_was_fsynced_outlives_a_loss_of_power(
    tmp_path: Path, body: str, left: dict[str, bytes], gone: int
) -> None:
    assert after_power_loss(tmp_path, body) == (left, gone)


def test_a_kill_makes_nothing_durable(tmp_path: Path) -> None:
    """The page cache outlives a process, and not the power."""
    first, second = "write('a', b'12')", "os.fsync(write('b', b'3'))"
    assert after_power_loss(tmp_path, first, second) == ({"b": b"3"}, 2)


def test_what_is_left_after_a_loss_of_power_is_durable(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    ledger = SyncLedger(data)
    with running(data, "os.fsync(write('a', b'12'))", ledger):
        pass
    assert ledger.lose_power().syncs == 1
    with running(data, "write('a', b'34')", ledger):
        pass
    assert ledger.lose_power().bytes_gone == 2
    assert (data / "a").read_bytes() == b"12"


def test_the_process_is_the_program_itself(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir()
    with running(data, "write('pid', str(os.getpid()).encode())", SyncLedger(data)) as process:
        assert int((data / "pid").read_text()) == process.pid


def test_a_program_that_does_not_start_is_not_reproduced(tmp_path: Path) -> None:
    with (tmp_path / "output").open("ab") as out:
        process = SyncLedger(tmp_path).start(["/nowhere/at/all"], out)
    assert process.wait(30) != 0
    assert "/nowhere" in (tmp_path / "output").read_text() or "No such file" in (tmp_path / "output").read_text()


def test_a_machine_that_cannot_watch_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("squall.harness.gallery.core.disk_watch.LAUNCHER", "squall.no_such_module")
    with (tmp_path / "output").open("ab") as out, pytest.raises(NotReproduced, match="cannot be watched"):
        SyncLedger(tmp_path).start(["/bin/true"], out)


def test_a_watch_that_failed_proves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> bool:
        raise RuntimeError("a defect of the watch")

    monkeypatch.setattr(SyncLedger, "decide", fail)
    data = tmp_path / "data"
    data.mkdir()
    ledger = SyncLedger(data)
    with (tmp_path / "output").open("ab") as out:
        process = ledger.start([sys.executable, "-c", "import os; os.fsync(os.open('/dev/null', os.O_WRONLY))"], out)
    process.wait(30)
    with pytest.raises(NotReproduced, match="a defect of the watch"):
        ledger.lose_power()
