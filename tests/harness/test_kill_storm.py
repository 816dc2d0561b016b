"""Whatever is killed, at whatever moment, faults end and nothing stays on the hosts (HX-11).

A control process has several faults open at a time when it is killed, or the agent of a host, or a host's network goes
away for a while, or all of it at once. Nobody heals. When the last time to live is over, somebody logs in to every host
and sees what was there before the first fault: the same rules, interfaces, queues, mounts, loop devices, control groups
and processes, none of them stopped, and no fault in the journal. Clocks are asked last, because asking takes an agent.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from squall.harness.hosts.lab import Lab, lab_down, lab_up
from squall.harness.hosts.ssh import Remote, on_all
from tests.harness import kill_storm
from tests.harness.kill_storm import LONGEST_S, TTL_MARGIN_S, Sight
from tests.labs import need_lab

pytestmark = [pytest.mark.lab, pytest.mark.xdist_group("kill-storm")]

NAME = f"storm-{os.getpid()}"
ROOT = Path(__file__).resolve().parents[2]
START_S = 30.0
OUTAGE_S = 2.0
HEALED_S = LONGEST_S + TTL_MARGIN_S + OUTAGE_S + 12.0
"""Restarting nodes takes its time on two processors."""
CLOCK_OFF_S = 0.05
VICTIMS = ("control process", "agent", "network")
ROUNDS = 100


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    need_lab()
    try:
        lab = lab_up(3, 3, name=NAME, owner=os.getpid())
        asyncio.run(kill_storm.started(lab))
        yield lab
    finally:
        lab_down(NAME)


class Storm:
    """The control process, and how it and others come to grief."""

    def __init__(self, lab: Lab, seed: int) -> None:
        self.lab = lab
        self.rng = random.Random(seed)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.harness.kill_storm", lab.name, str(seed)],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == "storm\n", "the control process ended before a fault was proven"

    def strike(self) -> list[str]:
        """Kill one or more of the three, at a random moment; the control process in the end in any case."""
        victims = self.rng.sample(VICTIMS, self.rng.randint(1, len(VICTIMS)))
        time.sleep(self.rng.uniform(0, LONGEST_S))  # the moment is the point
        assert self._process.poll() is None, "the control process ended before anybody touched it or what it works with"
        for victim in victims:
            getattr(self, f"_strike_{victim.replace(' ', '_')}")()
        if "control process" not in victims:
            time.sleep(self.rng.uniform(0, 1))
            self._strike_control_process()
        return victims

    def _strike_control_process(self) -> None:
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()

    def _strike_agent(self) -> None:
        agents = [one for one in _inside(self.lab) if _is_agent(_words(one))]
        if agents:
            self.rng.choice(agents).kill()

    def _strike_network(self) -> None:
        host = self.rng.choice(self.lab.hosts)
        with Remote(host, self.lab.network) as remote:
            remote.run(f"setsid -f sh -c 'ip link set eth0 down; sleep {OUTAGE_S}; ip link set eth0 up'", check=True)


def _inside(lab: Lab) -> list[psutil.Process]:
    return psutil.Process(lab.supervisor).children(recursive=True)


def _words(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []


def _is_agent(words: list[str]) -> bool:
    """Its keeper is the same program; it is what a host has left when all others are dead."""
    return any(word.endswith("/agent.py") for word in words) and "--keeper" not in words


def sights(lab: Lab) -> dict[str, Sight]:
    remotes = [Remote(host, lab.network) for host in lab.hosts]
    try:
        return on_all(remotes, Sight.of)
    finally:
        for remote in remotes:
            remote.close()


def leftovers(lab: Lab, before: dict[str, Sight]) -> list[str]:
    """What differs from before, once everything has had its time."""
    deadline = time.monotonic() + HEALED_S
    while True:
        now = sights(lab)
        found = [f"{host}: {line}" for host in before for line in now[host].beyond(before[host])]
        if not found or time.monotonic() > deadline:
            return found
        time.sleep(0.2)  # what is waited for happens on the hosts


async def clocks_that_are_off(lab: Lab) -> list[str]:
    testbed = await kill_storm.ready(lab)
    try:
        answers = {name: await agent.call("probe.clock", name="node") for name, agent in testbed.agents.items()}
    finally:
        await testbed.close()
    return [
        f"{name}: clock off by {answer['offset_s']} s"
        for name, answer in answers.items()
        if abs(float(str(answer["offset_s"]))) > CLOCK_OFF_S
    ]


@pytest.mark.full
@pytest.mark.timeout(3600)
def test_nothing_is_left_whoever_is_killed_whenever(lab: Lab) -> None:
    before = _at_rest(lab)
    seeds = random.Random(time.time_ns())
    struck: dict[str, int] = dict.fromkeys(VICTIMS, 0)
    for number in range(ROUNDS):
        seed = seeds.randrange(1 << 30)
        victims = Storm(lab, seed).strike()
        for victim in victims:
            struck[victim] += 1
        left = leftovers(lab, before) + asyncio.run(clocks_that_are_off(lab))
        assert not left, f"round {number + 1}, seed {seed}, killed: {', '.join(victims)}\n" + "\n".join(left)
        _settled(lab, before)
    print(f"{ROUNDS} rounds, struck {struck}: 0 leftovers")


def _at_rest(lab: Lab) -> dict[str, Sight]:
    """Nodes run, and neither an agent nor a keeper is there."""
    deadline = time.monotonic() + START_S
    while True:
        found = sights(lab)
        busy = {host: line for host in found for line in found[host].lines if _is_ours(line)}
        if not busy:
            return found
        assert time.monotonic() < deadline, f"agents or keepers do not go: {busy}"
        time.sleep(0.2)


def _is_ours(line: str) -> bool:
    return line.startswith("process ") and ("agent.py" in line or "keeper" in line)


def _settled(lab: Lab, before: dict[str, Sight]) -> None:
    """The look at clocks took agents; they go before the next round."""
    assert not leftovers(lab, before)


def test_with_the_supervisor_killed_no_namespace_is_left() -> None:
    need_lab()
    name = f"{NAME}-supervisor"
    lab = lab_up(1, 3, name=name, owner=os.getpid())
    try:
        inside = _inside(lab)
        own = _namespace(os.getpid())
        namespaces = {_namespace(one.pid) for one in inside} - {own}
        assert len(namespaces) >= len(lab.hosts)
        psutil.Process(lab.supervisor).kill()
        deadline = time.monotonic() + START_S
        while namespaces & {_namespace(pid) for pid in psutil.pids()}:
            assert time.monotonic() < deadline, "a process is still in a namespace of the lab"
            time.sleep(0.05)
        print(f"{len(namespaces)} network namespaces before, 0 after")
    finally:
        lab_down(name)


def _namespace(pid: int) -> str:
    try:
        return str(Path(f"/proc/{pid}/ns/net").readlink())
    except OSError:
        return ""
