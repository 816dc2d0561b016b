"""Locks on hosts over SSH: two control processes never have a host together, and none has it for good."""

from __future__ import annotations

import asyncio
import math
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from squall.harness.hosts import host_locks
from squall.harness.hosts.host_locks import HeldLock, HostLocks, HostsInUse, LockLost, owners_of
from squall.harness.lab.lab import Lab, lab_down, lab_up
from tests.facts import naming
from tests.labs import need_lab
from tests.waiting import soon

pytestmark = [pytest.mark.lab, pytest.mark.xdist_group("host-locks")]

NAME = f"host-locks-{os.getpid()}"
ROUNDS = 12
PATIENCE_SECONDS = 30.0

RACER = """
import asyncio, os, sys
from squall.harness.hosts.host_locks import HostLocks, HostsInUse
from squall.harness.lab.lab import standing_lab

lab, place, rounds = standing_lab(sys.argv[1]), sys.argv[2], int(sys.argv[3])
raced = place + ".raced"
won = 0
while won < rounds or not os.path.exists(raced):  # whoever begins first goes on until the other one is there
    with HostLocks("race", wait=None, say=lambda text: None) as locks:
        try:
            asyncio.run(locks.take(lab.inventory(), lab.network, "r"))
        except HostsInUse:
            open(raced, "a").close()
            continue
        os.close(os.open(place, os.O_CREAT | os.O_EXCL))  # fails if somebody else has the hosts, too
        os.unlink(place)
        won += 1
"""

HOLDER = """
import asyncio, sys
from squall.harness.hosts.host_locks import HostLocks
from squall.harness.lab.lab import standing_lab

lab = standing_lab(sys.argv[1])
locks = HostLocks("squall run held.yaml", wait=None, say=lambda text: None)
asyncio.run(locks.take(lab.inventory(), lab.network, "run-of-the-holder"))
print("held", flush=True)
sys.stdin.read()
locks.close()
"""


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    need_lab()
    try:
        yield lab_up(1, 2, name=NAME, owner=os.getpid())
    finally:
        lab_down(NAME)


class Control:
    """One control process's locks, and what it said."""

    def __init__(self, lab: Lab, wait: float | None = None) -> None:
        self.lab = lab
        self.said: list[str] = []
        self.locks = HostLocks("squall run ours.yaml", wait=wait, say=self.said.append)

    def take(self) -> HeldLock:
        return asyncio.run(self.locks.take(self.lab.inventory(), self.lab.network, "run-1"))


@pytest.fixture
def control(lab: Lab) -> Iterator[Callable[..., Control]]:
    made: list[Control] = []

    def one(wait: float | None = None) -> Control:
        made.append(Control(lab, wait))
        return made[-1]

    yield one
    for each in made:
        each.locks.close()
    assert owners_of(lab.inventory(), lab.network) == []


@pytest.fixture
def holder(lab: Lab) -> Iterator[subprocess.Popen[str]]:
    """Another process that has all hosts."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, NAME], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None and process.stdout.readline() == "held\n"
    yield process
    process.communicate(timeout=PATIENCE_SECONDS)


def test_of_two_control_processes_one_has_all_hosts(lab: Lab, tmp_path: Path) -> None:
    argv = [sys.executable, "-c", RACER, NAME, str(tmp_path / "critical"), str(ROUNDS)]
    racers = [subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    said = [racer.communicate(timeout=120) for racer in racers]
    assert [racer.returncode for racer in racers] == [0, 0], said


def test_the_error_names_host_owner_pid_since_and_what_to_do(
    control: Callable[..., Control], holder: subprocess.Popen[str]
) -> None:
    with pytest.raises(HostsInUse) as trouble:
        control().take()
    said = str(trouble.value)
    for named in ("c1 (10.77.0.11): in use by ", f"pid {holder.pid}", "since 20", "`squall run held.yaml`", "--wait"):
        assert named in said


def test_hosts_of_a_process_that_was_killed_are_taken_over(
    control: Callable[..., Control], holder: subprocess.Popen[str]
) -> None:
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    ours = control()
    began = time.monotonic()
    ours.take()
    assert time.monotonic() - began < host_locks.LEASE_SECONDS / 4
    assert len(ours.said) == 3
    assert all(f"pid {holder.pid}" in said and "that process is gone" in said for said in ours.said)


def test_an_owner_elsewhere_keeps_hosts_until_its_lease_ends(
    control: Callable[..., Control], monkeypatch: pytest.MonkeyPatch
) -> None:
    theirs, ours = control(), control(wait=math.inf)
    with monkeypatch.context() as elsewhere:
        elsewhere.setattr(host_locks, "this_control", lambda: "another machine")
        elsewhere.setattr(host_locks, "LEASE_SECONDS", 2.5)
        elsewhere.setattr(HeldLock, "keep", lambda self: None)  # it is dead: nothing renews its lease
        theirs.take()
    ours.take()
    assert ours.said[0].startswith("wait ") and re.search(r"waited [012] s", ours.said[0])
    assert sum("its lease has ended" in said for said in ours.said) == 3
    theirs.locks.close()


def test_a_lease_is_renewed_for_as_long_as_its_owner_lives(
    control: Callable[..., Control], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host_locks, "LEASE_SECONDS", 2.0)
    monkeypatch.setattr(host_locks, "BEAT_SECONDS", 0.3)
    theirs, ours = control(), control(wait=5.0)
    theirs.take()
    with pytest.raises(HostsInUse, match=naming("5 s")):
        ours.take()


def test_waiting_ends_when_the_hosts_are_given_back(
    control: Callable[..., Control], holder: subprocess.Popen[str]
) -> None:
    ours = control(wait=PATIENCE_SECONDS)

    async def both() -> None:
        taking = asyncio.create_task(ours.locks.take(ours.lab.inventory(), ours.lab.network, "r"))
        await soon(lambda: ours.said or taking.done(), "it says that it waits")
        assert not taking.done()
        holder.kill()
        await taking

    asyncio.run(both())
    assert "in use by" in ours.said[0]


def test_who_finds_the_last_host_in_use_gives_back_the_first(lab: Lab, control: Callable[..., Control]) -> None:
    theirs, ours = control(), control()
    last = lab.inventory().host("b2")
    inventory = type(lab.inventory())("one host", (last,))
    asyncio.run(theirs.locks.take(inventory, lab.network, "r"))
    with pytest.raises(HostsInUse, match="b2"):
        ours.take()
    assert [owner.host for owner in owners_of(lab.inventory(), lab.network)] == [last.described()]


def test_work_ends_when_a_host_is_lost(
    control: Callable[..., Control], monkeypatch: pytest.MonkeyPatch, lab: Lab
) -> None:
    monkeypatch.setattr(host_locks, "BEAT_SECONDS", 0.1)
    theirs, ours = control(), control()
    cancelled = []

    async def work() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.append(True)
            raise

    async def robbed() -> None:
        held = await ours.locks.take(lab.inventory(), lab.network, "r")
        monkeypatch.setattr(host_locks.Owner, "is_gone", True)  # somebody takes it for dead
        thief = asyncio.create_task(theirs.locks.take(lab.inventory(), lab.network, "r"))
        with pytest.raises(LockLost, match="no longer ours: taken over by"):
            await held.guard(work())
        await thief

    asyncio.run(robbed())
    assert cancelled == [True]
    monkeypatch.undo()


def test_a_suite_keeps_its_hosts_from_scenario_to_scenario(lab: Lab, control: Callable[..., Control]) -> None:
    ours = control()
    first = ours.take()
    again: Any = asyncio.run(ours.locks.take(lab.inventory(), lab.network, "run-2"))
    assert again is first
    owners = owners_of(lab.inventory(), lab.network)
    assert [owner.run for owner in owners] == ["run-2"] * 3
