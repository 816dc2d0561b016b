"""The local lab: how fast it starts, what its channels cost, and whether its faults are exact.

    up and down      five hosts, from nothing to the greeting of each sshd, and until no process is left
    channels         a command over a warm connection; a verb of an agent over its channel
    partition        five hosts in two halves: from the first verb to the last response; reachability is measured
                     before, during and after, and must be as requested
    delay            round trips of datagrams, with 10 ms more and without
    clock            a process in an event loop reads its clock every millisecond: until it sees an hour's jump, and
                     how long its loop stalled meanwhile
    power failure    a process that writes and fsyncs is killed, its content that was not fsynced is removed, and it is
                     started again; the benchmark then reads the fsynced content, byte by byte
    dead peer        a command is running when its host's network goes down; until the command is given up as lost
    idle             eight hosts with three controllers and five brokers that receive no requests

All these hosts are one machine. Figures are medians, with the maximum where one long one would hurt.
"""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import psutil

from squall.benchmarks.parts.lab_programs import CLOCK_WATCH, WRITER, WRITTEN_AT_ONCE, as_written
from squall.benchmarks.parts.measurement import Measurement
from squall.harness.hosts.ssh import Remote
from squall.harness.hosts.ssh_access import ConnectionLost
from squall.harness.hosts.system import ClusterSettings, SquallNodes
from squall.harness.lab.lab import Lab, lab_down, lab_up, private_lab
from squall.harness.run.testbed import Testbed
from squall.harness.scenario.cluster import await_whole
from squall.nemesis.core.evidence import reach_matrix

NAME = f"benchmark-{os.getpid()}"
TTL_S = 60.0
UPS, COMMANDS, VERBS, PARTITIONS, CLOCK_JUMPS, ROUND_TRIPS = 5, 100, 500, 10, 10, 51
POWER_FAILURES = 100
HOUR_S = 3600.0
DELAY_S = 0.010
IDLE_S = 20.0
WAIT_S = 20.0


def run() -> Iterator[Measurement]:
    """Measure everything, in about three minutes."""
    yield from up_and_down()
    with private_lab(controllers=2, brokers=3) as lab:
        yield from warm_command(lab)
        yield from asyncio.run(_with_agents(lab))
        yield from dead_peer(lab)
    yield from idle()


async def _with_agents(lab: Lab) -> list[Measurement]:
    async with deployed(lab) as testbed:
        found = await verbs(testbed)
        found += await partition(testbed)
        found += await delay(testbed)
        found += await clock(testbed, lab)
        return found + await power_failure(testbed, lab)


@asynccontextmanager
async def deployed(lab: Lab) -> AsyncIterator[Testbed]:
    """A lab's hosts with agents and everything a node needs, but without running nodes."""
    testbed = Testbed(lab.inventory(), lab.network, {})
    try:
        await testbed.deploy(SquallNodes(), ClusterSettings(NAME))
        # Agents start at their first request.
        await asyncio.gather(*(agent.call("info") for agent in testbed.agents.values()))
        yield testbed
    finally:
        await testbed.heal()
        await testbed.stop()
        await testbed.close()


async def timed(work: Awaitable[object]) -> float:
    """How long the work takes, in seconds."""
    began = time.monotonic()
    await work
    return time.monotonic() - began


def milliseconds(name: str, samples: list[float], must_ms: float | None) -> Measurement:
    """The median of durations in seconds, compared with a bar in milliseconds."""
    values = tuple(sample * 1000 for sample in samples)
    return Measurement(name, statistics.median(values), "ms", must=must_ms, higher_is_better=False, samples=values)


def at_most(name: str, value: float, unit: str, must: float) -> Measurement:
    return Measurement(name, value, unit, must=must, higher_is_better=False)


# -- up and down ---------------------------------------------------------------------------------------------------


def up_and_down() -> list[Measurement]:
    """Start and stop five hosts repeatedly."""
    ups, downs = [], []
    for _ in range(UPS):
        began = time.monotonic()
        lab_up(controllers=2, brokers=3, name=NAME)
        ups.append(time.monotonic() - began)
        began = time.monotonic()
        lab_down(NAME)
        downs.append(time.monotonic() - began)
    return [milliseconds("five hosts up", ups, 1000), milliseconds("five hosts down", downs, 500)]


# -- channels ------------------------------------------------------------------------------------------------------


def warm_command(lab: Lab) -> list[Measurement]:
    samples = []
    with Remote(lab.inventory().host("b1"), lab.network) as host:
        for _ in range(COMMANDS):
            began = time.monotonic()
            host.run(["true"], check=True)
            samples.append(time.monotonic() - began)
    return [milliseconds("a command over a warm connection", samples, 10)]


async def verbs(testbed: Testbed) -> list[Measurement]:
    agent = testbed.agents["b1"]
    await agent.call("info")
    samples = [await timed(agent.call("journal")) for _ in range(VERBS)]
    return [milliseconds("an agent's operation", samples, 2)]


# -- faults --------------------------------------------------------------------------------------------------------


async def partition(testbed: Testbed) -> list[Measurement]:
    """Partition two brokers from all others."""
    names = list(testbed.agents)
    one, other = ["b1", "b2"], [name for name in names if name not in ("b1", "b2")]
    sides = {name: (other if name in one else one) for name in names}
    everyone = {name: sorted(set(names) - {name}) for name in names}
    halves = {name: sorted(set(names) - {name} - set(sides[name])) for name in names}
    applied, healed, wrong = [], [], 0
    for turn in range(PARTITIONS):
        fault = f"halves-{turn}"

        def cut(name: str, fault: str = fault) -> Awaitable[object]:
            sources = [testbed.agents[peer].address for peer in sides[name]]
            return testbed.agents[name].call("net.drop", id=fault, sources=sources, ttl=TTL_S)

        wrong += await _heard(testbed, f"{fault}-before", all_heard=True) != everyone
        applied.append(await timed(asyncio.gather(*(cut(name) for name in names))))
        wrong += await _heard(testbed, f"{fault}-during", all_heard=False) != halves
        healed.append(await timed(_heal(testbed, names, fault)))
        wrong += await _heard(testbed, f"{fault}-after", all_heard=True) != everyone
    return [
        milliseconds("a partition of five hosts, applied", applied, 100),
        milliseconds("a partition of five hosts, healed", healed, 150),
        at_most(f"of {3 * PARTITIONS} reach matrices, wrong", wrong, "", 0),
    ]


async def _heard(testbed: Testbed, nonce: str, *, all_heard: bool) -> dict[str, list[str]]:
    return await reach_matrix(testbed.hosts, list(testbed.agents), nonce, expect_all=all_heard)


async def _heal(testbed: Testbed, names: list[str], fault: str) -> None:
    await asyncio.gather(*(testbed.agents[name].call("heal", id=fault) for name in names))


async def delay(testbed: Testbed) -> list[Measurement]:
    """Delay packets from b1 to b2: one direction, so that the round trip grows by the delay itself."""
    agent, peer = testbed.agents["b1"], testbed.agents["b2"].address

    async def round_trip() -> float:
        answer = await agent.call("probe.latency", targets={"b2": peer}, rounds=ROUND_TRIPS, statistic="median")
        seconds = answer["b2"]
        assert isinstance(seconds, float), f"no answer from b2: {answer}"
        return seconds

    before = await round_trip()
    await agent.call("net.shape", id="delay", peers=[peer], direction="out", delay_s=DELAY_S, ttl=TTL_S)
    during = await round_trip()
    await _heal(testbed, ["b1"], "delay")
    off = abs(during - before - DELAY_S) * 1000
    return [at_most(f"a delay of 10 ms, off by (median of {ROUND_TRIPS})", off, "ms", 1)]


async def clock(testbed: Testbed, lab: Lab) -> list[Measurement]:
    """Move the clock an hour forward, and back."""
    told = f"{_home(testbed)}/clock-told"
    await _start(testbed, "clock-watch", CLOCK_WATCH, [told])
    file = lab.host_files("b1") / told.lstrip("/")
    visible, stalls = [], []
    await _until(lambda: bool(_lines(file)))
    for turn in range(CLOCK_JUMPS):
        for change in (_jump, _jump_back):
            count = len(_lines(file))
            began = time.monotonic()
            await change(testbed, f"clock-{turn}")
            await _until(lambda count=count: len(_lines(file)) > count)  # type: ignore[misc]
            seen = json.loads(_lines(file)[-1])
            visible.append(seen["at"] - began)
            stalls.append(seen["stall"])
    await testbed.agents["b1"].call("proc.stop", name="clock-watch")
    return [
        milliseconds("a change of the clock, until it is seen", visible, 5),
        at_most("    the longest that the event loop stood still", max(stalls) * 1000, "ms", 50),
    ]


async def _jump(testbed: Testbed, fault: str) -> None:
    await testbed.agents["b1"].call("clock.set", id=fault, name="clock-watch", offset_s=HOUR_S, rate=1.0, ttl=TTL_S)


async def _jump_back(testbed: Testbed, fault: str) -> None:
    await testbed.agents["b1"].call("clock.clear", id=fault)


async def power_failure(testbed: Testbed, lab: Lab) -> list[Measurement]:
    """Time each round from the writer's death to its restart; then check the file."""
    directory = f"{_home(testbed)}/power"
    data, ledger, told = f"{directory}/data", f"{directory}/ledger", f"{directory}/told"
    await asyncio.to_thread(testbed.remotes["b1"].run, ["mkdir", "-p", data], check=True)
    await _start(testbed, "writer", WRITER, [data, ledger, told], data=data, ledger=ledger)
    here = lab.host_files("b1") / directory.lstrip("/")
    agent, took, lost, safe = testbed.agents["b1"], [], 0, 0
    for turn in range(POWER_FAILURES):
        await _until(lambda safe=safe: _told(here / "told") > safe + WRITTEN_AT_ONCE)  # type: ignore[misc]
        began = time.monotonic()
        await agent.call("proc.power_loss", id=f"power-{turn}", name="writer", ttl=TTL_S)
        safe = _told(here / "told")
        lost += missing(here / "data" / "records", safe)
        looked = time.monotonic()
        took.append(looked - began)
        resumed = time.monotonic()
        await agent.call("heal", id=f"power-{turn}")
        took[-1] += time.monotonic() - resumed
    await agent.call("proc.stop", name="writer")
    return [
        milliseconds("power failure, and on again", took, 200),
        at_most(f"    fsynced bytes lost in {POWER_FAILURES} rounds", lost, "bytes", 0),
        Measurement("    fsynced bytes read", safe, "bytes"),
    ]


def missing(file: Path, safe: int) -> int:
    """How many of the first `safe` bytes differ from what the writer wrote there."""
    content = file.read_bytes()[:safe]
    wrong = safe - len(content)
    for position in range(0, len(content), WRITTEN_AT_ONCE):
        expected = as_written(position)
        if content[position : position + WRITTEN_AT_ONCE] != expected[: len(content) - position]:
            wrong += WRITTEN_AT_ONCE
    return wrong


def _told(file: Path) -> int:
    content = file.read_bytes() if file.exists() else b""
    return int(content) if content else 0


def _lines(file: Path) -> list[str]:
    return file.read_text().splitlines() if file.exists() else []


async def _start(testbed: Testbed, name: str, program: str, arguments: list[str], **more: str) -> None:
    """Run one of our own programs on b1 as a process of its agent."""
    home = _home(testbed)
    path = f"{home}/{name}.py"
    await asyncio.to_thread(testbed.remotes["b1"].put, program.encode(), path)
    agent, place = testbed.agents["b1"], testbed.deployed["b1"].place
    argv = [place.python, "-u", path, *arguments]
    await agent.call("proc.define", name=name, argv=argv, env={}, cwd=home, log=f"{home}/{name}.log", **more)
    await agent.call("proc.start", name=name)


def _home(testbed: Testbed) -> str:
    """The home of the user that runs programs on b1."""
    return testbed.deployed["b1"].place.home


async def _until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT_S
    while not holds():
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {WAIT_S:g} s; see the programs' logs in the home of the lab's host b1")
        await asyncio.sleep(0.001)


# -- a dead peer, and idle hosts -----------------------------------------------------------------------------------


def dead_peer(lab: Lab) -> list[Measurement]:
    """Time from the interface's going down, by the host's monotonic clock, which is this machine's."""
    host = Remote(lab.inventory().host("b3"), lab.network)
    home = host.run("echo $HOME", check=True).stdout.strip()
    at = lab.host_files("b3") / home.lstrip("/") / "down-at"
    cut = f"sleep 0.2; ip link set eth0 down; cut -d' ' -f1 /proc/uptime >{home}/down-at; sleep 8; ip link set eth0 up"
    try:
        host.run(f'setsid -f sh -c "{cut}"; sleep 60', timeout=60)
    except ConnectionLost:
        noticed = float(Path("/proc/uptime").read_text().split()[0])
        return [at_most("a dead peer is noticed after", noticed - float(at.read_text()), "s", 6)]
    finally:
        host.close()
    raise AssertionError("the command ended although its host's network was down")


def idle() -> list[Measurement]:
    """Processor time of everything in a lab of eight hosts, first without nodes, then with idle nodes."""
    with private_lab(controllers=3, brokers=5) as lab:
        empty = _cores(lab)
        busy = asyncio.run(_idle_nodes(lab))
    return [
        Measurement("eight hosts, idle", 100 * empty, "% of a core", higher_is_better=False),
        at_most("eight hosts with idle nodes", 100 * busy, "% of a core", 15),
    ]


async def _idle_nodes(lab: Lab) -> float:
    async with deployed(lab) as testbed:
        await testbed.start()
        await await_whole(testbed.admin, 5, {}, WAIT_S)
        return await asyncio.to_thread(_cores, lab)


def _cores(lab: Lab) -> float:
    """Processor time of the supervisor and all its descendants, in cores."""
    before, began = _used(lab), time.monotonic()
    time.sleep(IDLE_S)
    return (_used(lab) - before) / (time.monotonic() - began)


def _used(lab: Lab) -> float:
    """Processor seconds so far."""
    supervisor = psutil.Process(lab.supervisor)
    found = 0.0
    for process in (supervisor, *supervisor.children(recursive=True)):
        times = process.cpu_times()
        found += times.user + times.system
    return found
