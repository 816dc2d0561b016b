"""The filter says of each call what it should, on both processors; the trial says what is wrong with a machine.

A filter for the other processor cannot run here, so filters are run by a small interpreter as well. What a watched
process really meets is in `test_disk_faults.py`.
"""

from __future__ import annotations

import errno
import os
import platform
import select
import signal
import socket
import struct
import subprocess
import sys

import pytest

from squall.nemesis.agent.disk import disk_calls, seccomp
from squall.nemesis.agent.disk.seccomp import ALLOW, ARCHITECTURES, NOTIFY, Instruction, Trap
from tests.facts import assert_names, naming
from tests.nemesis.agent.conftest import AGENT_DIRECTORY

X86, ARM = ARCHITECTURES["x86_64"].audit, ARCHITECTURES["aarch64"].audit
GETPPID = {"x86_64": 110, "aarch64": 173}
NOWHERE = -100 & 0xFFFFFFFFFFFFFFFF


def verdict(program: list[Instruction], number: int, *arguments: int, audit: int = X86) -> int:
    """What the kernel would make of this call."""
    filled = [*arguments, *[0] * (6 - len(arguments))]
    data = struct.pack("=iIQ6Q", number, audit, 0, *filled)
    loaded, place = 0, 0
    while True:
        operation, if_true, if_false, constant = program[place]
        place += 1
        if operation == seccomp.RETURN:
            return constant
        if operation == seccomp.LOAD:
            loaded = int(struct.unpack_from("=I", data, constant)[0])
            continue
        holds = {
            seccomp.IF_EQUAL: loaded == constant,
            seccomp.IF_AT_LEAST: loaded >= constant,
            seccomp.IF_ANY_BIT: bool(loaded & constant),
        }[operation]
        place += if_true if holds else if_false


def test_only_named_calls_are_stopped() -> None:
    program = seccomp.program([Trap(74), Trap(75)], X86)
    assert [verdict(program, number) for number in (73, 74, 75, 76)] == [ALLOW, NOTIFY, NOTIFY, ALLOW]


def test_a_filter_of_nothing_stops_nothing() -> None:
    assert verdict(seccomp.program([], X86), 74) == ALLOW


def test_call_numbers_of_another_calling_convention_are_let_through() -> None:
    assert verdict(seccomp.program([Trap(74)], X86), 74, audit=0x40000003) == ALLOW


def test_writes_to_standard_output_and_error_are_never_stopped() -> None:
    program = seccomp.program(disk_calls.traps(disk_calls.chosen(["write"], "x86_64")), X86)
    assert [verdict(program, 1, descriptor) for descriptor in (0, 1, 2, 3, 999)] == [ALLOW] * 3 + [NOTIFY] * 2


@pytest.mark.parametrize(
    ("machine", "audit", "openat", "mkdirat"), [("x86_64", X86, 257, 258), ("aarch64", ARM, 56, 34)]
)
def test_opening_is_stopped_only_where_it_may_create(machine: str, audit: int, openat: int, mkdirat: int) -> None:
    program = seccomp.program(disk_calls.traps(disk_calls.chosen(["create"], machine)), audit)
    for flags, expected in [(os.O_RDWR, ALLOW), (os.O_RDWR | os.O_CREAT, NOTIFY), (os.O_DIRECTORY, ALLOW)]:
        assert verdict(program, openat, NOWHERE, 0, flags, audit=audit) == expected
    assert verdict(program, mkdirat, NOWHERE, 0, audit=audit) == NOTIFY


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_each_kind_of_call_is_known_on_both_processors_by_numbers_of_its_own(machine: str) -> None:
    seen: set[int] = set()
    for kind in disk_calls.KINDS:
        numbers = set(disk_calls.chosen([kind], machine))
        assert numbers
        if kind != "fsync-directory":  # the same calls as fsync, told apart by what they are about
            assert not numbers & seen
        seen |= numbers
    assert set(disk_calls.chosen(disk_calls.KINDS, machine)) == seen


def test_a_strange_processor_is_refused() -> None:
    with pytest.raises(Exception, match=naming("riscv64")):
        disk_calls.chosen(["fsync"], "riscv64")
    with pytest.raises(seccomp.Unsupported, match="on riscv64"):
        seccomp.architecture("riscv64")


def test_the_trial_tells_why_a_machine_cannot(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "riscv64")
    assert_names(seccomp.why_not(), "riscv64", "x86_64", "aarch64")


def test_the_trial_is_a_program_that_hosts_can_be_sent() -> None:
    """As the check before a run does: on standard input, to the host's Python; here where it must fail."""
    source = (AGENT_DIRECTORY / "disk" / "seccomp.py").read_text()
    spoilt = source.replace('"x86_64": Architecture(0xC000003E, 317)', '"x86_64": Architecture(0xC000003E, 9999)')
    spoilt = spoilt.replace('"aarch64": Architecture(0xC00000B7, 277)', '"aarch64": Architecture(0xC00000B7, 9999)')
    told = subprocess.run([sys.executable, "-"], input=spoilt, capture_output=True, text=True, timeout=60)
    assert told.returncode == 1
    assert "seccomp user notification is refused" in told.stdout and "Function not implemented" in told.stdout


needs_it = pytest.mark.skipif(seccomp.why_not() is not None, reason=str(seccomp.why_not()))


@needs_it
def test_a_call_waits_for_its_answer_and_a_notice_of_a_dead_process_is_void() -> None:
    ours, theirs = socket.socketpair()
    child = os.fork()
    if child == 0:
        try:
            socket.send_fds(theirs, [b"+"], [seccomp.install([Trap(GETPPID[platform.machine()])])])
            os.getppid()
        finally:
            os._exit(0)
    with ours, theirs:
        _, (listener,), _, _ = socket.recv_fds(ours, 1, 1)
        assert select.select([listener], [], [], 10)[0]
        notice = seccomp.receive(listener)
        assert notice is not None and notice.thread == child
        assert seccomp.is_valid(listener, notice.id)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        assert not seccomp.is_valid(listener, notice.id)
        seccomp.refuse(listener, notice.id, errno.EIO)  # answers nobody, and does no harm
        seccomp.proceed(listener, notice.id)
        os.close(listener)
