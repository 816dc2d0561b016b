"""The two processes that a reduced lab hangs on, with programs that greet like sshd in its place.

Whoever of them dies, by whatever signal, everything ends that was started on the hosts: what has another session, what
is stopped, what has lost its parent.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from squall.harness.hosts.network import process_started
from squall.harness.lab.process_reaper import descendants, end_all, end_all_at_home
from squall.harness.lab.reduced_lab import free_net
from tests.waiting import wait_until

SECONDS = 20.0
PORT = 2222

# Started as sshd is, it starts what is hard to end, and greets.
GREETER = """#!{python} -S
import os, socket, subprocess, sys
directory = os.path.dirname(sys.argv[-1])
with open(sys.argv[-1]) as config:
    address, port = config.read().split()
here = {{"HOME": directory + "/home", "PATH": os.environ["PATH"]}}
subprocess.run(["sh", "-c", "setsid -f sleep 1000; sh -c 'kill -STOP $$' & (trap '' TERM HUP; sleep 1000 &)"], env=here)
with socket.create_server((address, int(port))) as listener:
    while True:
        with listener.accept()[0] as connection:
            connection.sendall(b"SSH-2.0-greeter")
"""


@dataclass(frozen=True)
class Running:
    """A supervisor that has said `ready`, and all that hangs on it."""

    process: subprocess.Popen[bytes]
    state: Path
    data: Path

    def everybody(self) -> list[int]:
        return [self.process.pid, *descendants(self.process.pid)]

    @property
    def holder(self) -> int:
        return int(json.loads((self.state / "holder.json").read_text())["holder"])


def start(place: Path, *, program: str | None = None, owner: int | None = None) -> tuple[Running, str]:
    """A supervisor, and what it said first."""
    greeter = place / "greeter"
    greeter.write_text(GREETER.format(python=sys.executable))
    greeter.chmod(0o755)
    net, hosts = free_net(2), []
    for number, name in enumerate(("c1", "b1"), start=11):
        directory = place / name
        (directory / "home").mkdir(parents=True)
        address = f"{net}.{number}"
        (directory / "sshd_config").write_text(f"{address} {PORT}")
        hosts.append({"name": name, "address": address, "port": PORT, "directory": str(directory)})
    (place / "plan.json").write_text(json.dumps({"sshd": program or str(greeter), "hosts": hosts}))
    reader, writer = os.pipe()
    command = [sys.executable, "-m", "squall.harness.lab.reduced_supervisor", str(place), str(writer)]
    process = subprocess.Popen(
        [*command, *([str(owner)] if owner is not None else [])],
        pass_fds=[writer],
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    os.close(writer)
    said = os.read(reader, 4096).decode() if select.select([reader], [], [], SECONDS)[0] else ""
    os.close(reader)
    return Running(process, place, place), said


@contextlib.contextmanager
def running(place: Path, owner: int | None = None) -> Iterator[Running]:
    one, said = start(place, owner=owner)
    try:
        assert said == "ready"
        assert len(one.everybody()) >= 1 + 1 + 2 * 4  # itself, the holder, and of each host the greeter and three
        yield one
    finally:
        end_all(lambda: descendants(one.process.pid))
        one.process.kill()
        one.process.wait()
        end_all_at_home(place)


def await_gone(pids: list[int], process: subprocess.Popen[bytes]) -> None:
    def left() -> list[int]:
        process.poll()
        return [pid for pid in pids if process_started(pid) is not None]

    wait_until(lambda: not left(), left, SECONDS)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT], ids=lambda number: number.name)
def test_everything_ends_with_the_supervisor(tmp_path: Path, number: signal.Signals) -> None:
    with running(tmp_path) as one:
        everybody = one.everybody()
        one.process.send_signal(number)
        await_gone(everybody, one.process)


def test_everything_ends_with_the_holder(tmp_path: Path) -> None:
    with running(tmp_path) as one:
        everybody = one.everybody()
        os.kill(one.holder, signal.SIGKILL)
        await_gone(everybody, one.process)


def test_everything_ends_with_the_owner(tmp_path: Path) -> None:
    with subprocess.Popen(["sleep", "1000"]) as owner, running(tmp_path, owner.pid) as one:
        everybody = one.everybody()
        owner.kill()
        await_gone(everybody, one.process)


def test_everything_ends_with_an_sshd(tmp_path: Path) -> None:
    """A host that nobody can reach any more is no part of what was asked for."""
    with running(tmp_path) as one:
        everybody = one.everybody()
        sshd = next(pid for pid in everybody if b"greeter" in Path(f"/proc/{pid}/cmdline").read_bytes())
        os.kill(sshd, signal.SIGKILL)
        await_gone(everybody, one.process)


def test_if_both_are_killed_sshds_die_and_the_rest_is_found_by_its_home(tmp_path: Path) -> None:
    with running(tmp_path) as one:
        everybody, holder = one.everybody(), one.holder
        for deed in (signal.SIGSTOP, signal.SIGKILL):
            os.kill(holder, deed)
            one.process.send_signal(deed)
        greeters = [pid for pid in everybody if b"greeter" in command_line(pid)]
        await_gone([holder, one.process.pid, *greeters], one.process)
        assert any(process_started(pid) is not None for pid in everybody), "nothing got away, so nothing is shown"
        end_all_at_home(tmp_path)
        await_gone(everybody, one.process)


def test_a_lab_that_does_not_come_up_says_why_and_leaves_nothing(tmp_path: Path) -> None:
    one, said = start(tmp_path, program="/nowhere/sshd")
    assert "FileNotFoundError" in said and "/nowhere/sshd" in said
    assert one.process.wait(SECONDS) == 0
    assert not (tmp_path / "holder.json").exists()


def test_an_sshd_that_ends_at_once_is_not_waited_for_and_its_last_word_is_told(tmp_path: Path) -> None:
    program = tmp_path / "refuser"
    program.write_text("#!/bin/sh\necho 'Bind to port 2222 failed: Address already in use' >&2; exit 255\n")
    program.chmod(0o755)
    began = time.monotonic()
    one, said = start(tmp_path, program=str(program))
    assert "ended: Bind to port 2222 failed" in said and time.monotonic() - began < SECONDS
    assert one.process.wait(SECONDS) == 0


# In a process of its own, since `bury` is for who has no other children.
MANY_REFUSERS = """
import os, sys
from squall.harness.lab.reduced_supervisor import start_sshd
from squall.harness.lab.process_reaper import bury
sshds = [start_sshd(sys.argv[1], {"directory": sys.argv[2]}) for _ in range(100)]
for sshd in sshds:
    os.waitid(os.P_PID, sshd.pid, os.WEXITED | os.WNOWAIT)
assert bury() == {sshd.pid for sshd in sshds}
os._exit(0)
"""


def test_every_sshd_that_ends_at_once_is_noticed_however_quick_it_is(tmp_path: Path) -> None:
    program = tmp_path / "refuser"
    program.write_text("#!/bin/sh\nexit 255\n")
    program.chmod(0o755)
    command = [sys.executable, "-c", MANY_REFUSERS, str(program), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS)
    assert done.returncode == 0, done.stderr


def command_line(pid: int) -> bytes:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    return b""
