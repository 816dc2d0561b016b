"""Whatever is killed, at whatever moment, faults end and nothing stays on the hosts (HX-11).

A control process has several faults open at a time when it is killed. So are, by lot, agents of hosts, their keepers
and their sentries (which are what ends faults); or they are stopped; the disk of their state is filled, an entry of
their journal is emptied, their ports are flooded, or their network goes away for a while; or several of it at once.
Nobody heals. Five seconds after its own time to live is over no fault is open (`storm_deadlines.py` says what that is),
and somebody who logs in to every host sees what was there before the first fault: the same rules, interfaces, queues,
mounts, loop devices, control groups and processes, none of them stopped, and no fault in the journal. Clocks are asked
last, because asking takes an agent.

SQUALL_STORM_SEEDS (whole numbers with commas between) repeats rounds of the long test by their seeds;
SQUALL_STORM_ROUNDS says how many rounds it has instead of 100.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import psutil
import pytest

from squall.harness.hosts.ssh import Remote, on_all
from squall.harness.hosts.ssh_access import SshError
from squall.harness.lab.lab import Lab, lab_down, lab_up
from tests.harness.run import kill_storm
from tests.harness.run.kill_storm import Sight
from tests.harness.run.storm_deadlines import LONGEST_S, Deadlines, Lateness
from tests.labs import need_lab
from tests.processes import words_of
from tests.waiting import wait_until

pytestmark = [pytest.mark.lab, pytest.mark.xdist_group("kill-storm")]

NAME = f"storm-{os.getpid()}"
ROOT = Path(__file__).resolve().parents[3]
START_S = 30.0
OUTAGE_S = 2.0
GONE_S = OUTAGE_S + 12.0
"""Within this time after the last time to live, keepers have gone and each host is as before."""
LATER_S = 60.0
"""For this long a failed round looks whether what is left goes away."""
CLOCK_OFF_S = 0.05
STATE = "/root/.squall/agent"
STATE_SIZE = "24m"
"""Of the hosts' agents: on a file system of its own, so that it can be filled without harm to the machine."""
VICTIMS = (
    "control process", "agent", "network", "keeper", "sentry", "stopped keeper", "stopped sentry", "disk", "journal",
    "port",
)  # fmt: skip
KILLED = ("agent", "keeper", "sentry", "disk")
STOPPED = ("stopped keeper", "stopped sentry", "port", "journal")
"""The two rounds of every run of the tests."""
ROUNDS = int(os.environ.get("SQUALL_STORM_ROUNDS", 100))
SEEDS = [int(seed) for seed in os.environ.get("SQUALL_STORM_SEEDS", "").split(",") if seed]
MOST_VICTIMS = 4

FLOOD = """
import os, random, socket, sys, time
one = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
end = time.monotonic() + 2
while time.monotonic() < end:
    for address in sys.argv[1:]:
        for datagram in (b"{}", b"[" * 900, b"SQ1" + bytes(40), os.urandom(random.randrange(1, 1400))):
            try:
                one.sendto(datagram, (address, 7465))
            except OSError:
                pass
    time.sleep(0.001)
"""
FILL = f"dd if=/dev/zero of={STATE}/filler bs=16k 2>/dev/null; dd if=/dev/zero of={STATE}/rest bs=1k 2>/dev/null; true"
EMPTY_ENTRY = f"""
entry=$(ls {STATE}/journal | shuf -n 1)
[ -z "$entry" ] || for copy in journal journal.copy; do : >"{STATE}/$copy/$entry"; done
"""


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    need_lab()
    try:
        lab = lab_up(3, 3, name=NAME, owner=os.getpid())
        on_hosts(lab, f"mkdir -p {STATE} && mount -t tmpfs -o size={STATE_SIZE},mode=700 none {STATE}")
        asyncio.run(kill_storm.started(lab))
        yield lab
    finally:
        lab_down(NAME)


def on_hosts(lab: Lab, command: str) -> None:
    """As root on each."""
    remotes = [Remote(host, lab.network) for host in lab.hosts]
    try:
        on_all(remotes, lambda remote: remote.run(command, check=True))
    finally:
        for remote in remotes:
            remote.close()


class Storm:
    """The control process, and how it and others come to grief."""

    def __init__(self, lab: Lab, seed: int, victims: tuple[str, ...] = ()) -> None:
        self.lab = lab
        self.victims = victims
        self.rng = random.Random(seed)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.harness.run.kill_storm", lab.name, str(seed)],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == "storm\n", "the control process ended before a fault was proven"

    def strike(self) -> list[str]:
        """Strike one or more of them, at a random moment; the control process in the end in any case."""
        victims = list(self.victims) or self.rng.sample(VICTIMS, self.rng.randint(1, MOST_VICTIMS))
        # The moment of the strike is random on purpose.
        time.sleep(self.rng.uniform(0, LONGEST_S))
        assert self._process.poll() is None, "the control process ended before anybody touched it or what it works with"
        for victim in victims:
            getattr(self, f"_strike_{victim.replace(' ', '_')}")()
        if "control process" not in victims:
            # So is that of the death of the control process.
            time.sleep(self.rng.uniform(0, 1))
            self._strike_control_process()
        return victims

    def _strike_control_process(self) -> None:
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()

    def _strike_agent(self) -> None:
        agents = [one for one in _inside(self.lab) if _is_agent(words_of(one))]
        if agents:
            self._hit(self.rng.choice(agents), signal.SIGKILL)

    def _strike_keeper(self, number: signal.Signals = signal.SIGKILL) -> None:
        self._strike_one_of("--keeper", number)

    def _strike_sentry(self, number: signal.Signals = signal.SIGKILL) -> None:
        self._strike_one_of("sentry.sh", number)

    def _strike_stopped_keeper(self) -> None:
        self._strike_keeper(signal.SIGSTOP)

    def _strike_stopped_sentry(self) -> None:
        self._strike_sentry(signal.SIGSTOP)

    def _strike_one_of(self, mark: str, number: signal.Signals) -> None:
        """Of one host, and as often as not of a second one."""
        found = [one for one in _inside(self.lab) if _has(one, mark)]
        for one in self.rng.sample(found, min(len(found), self.rng.randint(1, 2))):
            self._hit(one, number)

    def _hit(self, victim: psutil.Process, number: signal.Signals) -> None:
        """But for the last one of its host that works: what no host survives is written down in docs/faults.md."""
        host = _namespace(victim.pid)
        others = [one for one in _inside(self.lab) if _keeps(one) and one != victim and _namespace(one.pid) == host]
        if others:
            with contextlib.suppress(psutil.NoSuchProcess):
                victim.send_signal(number)

    def _strike_disk(self) -> None:
        self._on_one_host(FILL)

    def _strike_journal(self) -> None:
        self._on_one_host(EMPTY_ENTRY)

    def _strike_port(self) -> None:
        addresses = " ".join(host.address for host in self.lab.hosts)
        python = self.lab.hosts[0].python
        self._on_one_host(f"setsid -f {python} -c {shlex.quote(FLOOD)} {addresses} </dev/null >/dev/null 2>&1")

    def _on_one_host(self, command: str) -> None:
        """Unless it cannot be reached just now, its interface being down."""
        with contextlib.suppress(SshError), Remote(self.rng.choice(self.lab.hosts), self.lab.network) as remote:
            remote.run(command, timeout=10)

    def _strike_network(self) -> None:
        host = self.rng.choice(self.lab.hosts)
        with contextlib.suppress(SshError), Remote(host, self.lab.network) as remote:
            remote.run(f"setsid -f sh -c 'ip link set eth0 down; sleep {OUTAGE_S}; ip link set eth0 up'", check=True)


def _inside(lab: Lab) -> list[psutil.Process]:
    return psutil.Process(lab.supervisor).children(recursive=True)


def _has(process: psutil.Process, mark: str) -> bool:
    words = words_of(process)
    return any(word.endswith(mark) for word in words[:8] + words[-2:])


def _keeps(process: psutil.Process) -> bool:
    """Whether it is an agent, a keeper or a sentry, and works."""
    words = words_of(process)
    with contextlib.suppress(psutil.NoSuchProcess):
        ours = _is_agent(words) or "--keeper" in words or _has(process, "sentry.sh")
        return ours and process.status() not in (psutil.STATUS_STOPPED, psutil.STATUS_ZOMBIE)
    return False


def _is_agent(words: list[str]) -> bool:
    """Its keeper is the same program; it is what a host has left when all others are dead."""
    others = "--keeper" in words or any(word.endswith("/sentry.sh") for word in words)
    return not others and any(word.endswith("/agent.py") for word in words)


def sights(lab: Lab) -> dict[str, Sight]:
    remotes = [Remote(host, lab.network) for host in lab.hosts]
    try:
        return on_all(remotes, Sight.of)
    finally:
        for remote in remotes:
            remote.close()


def leftovers(lab: Lab, before: dict[str, Sight], deadlines: Deadlines) -> list[str]:
    """What differs from before, once everything has had its time; a fault that is open has its own."""
    while True:
        now = sights(lab)
        beyond = {host: now[host].beyond(before[host]) for host in before}
        found = [f"{host}: {line}" for host, lines in beyond.items() for line in lines]
        marks = {host: [line for line in lines if _is_a_mark(line)] for host, lines in beyond.items()}
        late = [one for host in now for one in deadlines.late(host, now[host].at, now[host].faults, marks[host])]
        if late:
            return [*late, *found]
        if not found or time.monotonic() > deadlines.last + GONE_S:
            return found
        # Polling, over SSH to every host.
        time.sleep(0.2)


def _later(lab: Lab, before: dict[str, Sight]) -> str:
    """Whether what is left goes away later, and how busy this machine is: to tell a late heal from a missing one."""
    began = time.monotonic()
    load = f"load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"
    while time.monotonic() < began + LATER_S:
        now = sights(lab)
        if not any(now[host].beyond(before[host]) for host in before):
            return f"all of it was gone {time.monotonic() - began:.1f} s later; {load}"
        # Polling, over SSH to every host.
        time.sleep(0.2)
    return f"some of it was left {LATER_S:g} s later; {load}"


def _is_a_mark(line: str) -> bool:
    """Of a fault, rather than its entry or a keeper that is about to go."""
    return "open fault" not in line and _is_no_keeper(line)


def _is_no_keeper(line: str) -> bool:
    return "left: process running" not in line or ("python" not in line and "sh " not in line and "sleep" not in line)


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


@pytest.mark.timeout(300)
def test_nothing_is_left_after_two_rounds(lab: Lab) -> None:
    """Between them they kill, stop, fill, empty and flood."""
    rounds(lab, [KILLED, STOPPED])


@pytest.mark.full
@pytest.mark.timeout(7200)
def test_nothing_is_left_whoever_is_killed_whenever(lab: Lab) -> None:
    rounds(lab, [()] * (len(SEEDS) or ROUNDS), SEEDS)


def rounds(lab: Lab, chosen: Sequence[tuple[str, ...]], seeds: Sequence[int] = ()) -> None:
    """One round for each choice of victims; drawn by lot where it is empty, as are seeds."""
    before = _at_rest(lab)
    lot = random.Random(time.time_ns())
    seeds = seeds or [lot.randrange(1 << 30) for _ in chosen]
    struck: dict[str, int] = dict.fromkeys(VICTIMS, 0)
    lateness = Lateness()
    for number, (victims, seed) in enumerate(zip(chosen, seeds, strict=True)):
        hit = Storm(lab, seed, victims).strike()
        for victim in hit:
            struck[victim] += 1
        left = leftovers(lab, before, Deadlines(time.monotonic(), lateness))
        on_hosts(lab, f"rm -f {STATE}/filler {STATE}/rest")
        left += asyncio.run(clocks_that_are_off(lab))
        if left:
            left.append(_later(lab, before))
        assert not left, f"round {number + 1}, seed {seed}, struck: {', '.join(hit)}\n" + "\n".join(left)
        _settled(lab, before)
        print(f"round {number + 1}, seed {seed}: {', '.join(hit)}: healed, worst so far: {lateness}", flush=True)
    print(f"{len(chosen)} rounds, struck {struck}: 0 of {lateness.faults} faults left")
    print(f"the latest fault: {lateness}")


def _at_rest(lab: Lab) -> dict[str, Sight]:
    """Nodes run, and neither an agent nor a keeper is there."""
    deadline = time.monotonic() + START_S
    while True:
        found = sights(lab)
        busy = {host: line for host in found for line in found[host].lines if _is_ours(line)}
        if not busy:
            return found
        assert time.monotonic() < deadline, f"agents or keepers do not go: {busy}"
        # Polling, over SSH to every host.
        time.sleep(0.2)


def _is_ours(line: str) -> bool:
    marks = ("agent.py", "keeper", "sentry.sh", "running sleep 1")  # a sentry that was killed leaves its pause behind
    return line.startswith("process ") and any(mark in line for mark in marks)


def _settled(lab: Lab, before: dict[str, Sight]) -> None:
    """The look at clocks took agents; they go before the next round."""
    assert not leftovers(lab, before, Deadlines(time.monotonic()))


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
        wait_until(
            lambda: not namespaces & {_namespace(pid) for pid in psutil.pids()},
            "no process is in a namespace of the lab",
            START_S,
        )
        print(f"{len(namespaces)} network namespaces before, 0 after")
    finally:
        lab_down(name)


def _namespace(pid: int) -> str:
    try:
        return str(Path(f"/proc/{pid}/ns/net").readlink())
    except OSError:
        return ""
