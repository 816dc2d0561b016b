"""What is left when a run is ended from outside, on real hosts.

`kill -9` of the control process in the middle of a network partition: nobody is left to heal it, so every host heals
itself when the fault's time to live is over. Ctrl-C and SIGTERM: the control process heals before it goes. Either
way no load worker stays, and what was recorded up to then can be judged.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import signal
import subprocess
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from squall.harness.hosts.agent_link import AgentHost, new_probe_key
from squall.harness.hosts.ssh import Remote
from squall.harness.hosts.system import SquallNodes, agent_command, deploy_all
from squall.harness.lab.lab import Lab, find_lab, lab_down, lab_up, remove_leftovers, state_root
from squall.nemesis.core.evidence import reach_matrix
from squall.nemesis.runner import Patience
from tests.labs import need_lab
from tests.processes import words_of
from tests.waiting import wait_until

pytestmark = [pytest.mark.lab, pytest.mark.xdist_group("interruption")]

NAME = f"interruption-{os.getpid()}"
GRACE_SECONDS = 5.0
PATIENCE_SECONDS = 60.0

SCENARIO = """
scenario: cut
cluster:
  controllers: 1
  topics: {{events: {{partitions: 2, replication_factor: 3, min_insync_replicas: 2}}}}
  config: {{broker.session.timeout.ms: 2000, broker.heartbeat.interval.ms: 300}}
workload: {{name: log, producers: 2, consumers: 1, rate: 200/s, acks: all}}
nemesis:
  - {{fault: halves, at: 1s, for: {seconds}s}}
time: {{load: 100s, settle: 10s}}
min_acknowledged: 10
"""


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    """A lab that outlives the runs on it."""
    need_lab()
    try:
        yield lab_up(1, 3, name=NAME, owner=os.getpid())
    finally:
        lab_down(NAME)


@contextlib.asynccontextmanager
async def agents(lab: Lab) -> AsyncIterator[dict[str, AgentHost]]:
    """The agents of all hosts, reached anew, as by somebody who comes to look after the disaster."""
    remotes = {host.name: Remote(host, lab.network) for host in lab.hosts}
    deployed = await asyncio.to_thread(deploy_all, remotes.values(), SquallNodes())
    key = new_probe_key()
    found = {
        name: AgentHost(remote, agent_command(deployed[name].place, remote.spec), probe_key=key)
        for name, remote in remotes.items()
    }
    try:
        await asyncio.gather(*(one.connect() for one in found.values()))
        yield found
    finally:
        await asyncio.gather(*(one.close() for one in found.values()))
        for remote in remotes.values():
            remote.close()


async def open_faults(hosts: dict[str, AgentHost]) -> list[Any]:
    answers = await asyncio.gather(*(host.call("journal") for host in hosts.values()))
    return [entry for answer in answers for entry in list(answer["entries"])]  # type: ignore[call-overload]


async def unheard(hosts: dict[str, AgentHost], nonce: str) -> list[str]:
    """The directions in which the hosts do not reach each other, as `b1→c1`."""
    heard = await reach_matrix(hosts, sorted(hosts), nonce, expect_all=True)
    return [f"{source}→{name}" for name in hosts for source in hosts if source != name and source not in heard[name]]


async def whole_again(hosts: dict[str, AgentHost]) -> None:
    """Wait until all hear each other: on a busy machine a datagram may miss its time without any cut."""
    deadline = time.monotonic() + GRACE_SECONDS
    number = 0
    while missing := await unheard(hosts, f"after-{number}"):
        assert time.monotonic() < deadline, f"still cut although no fault is open: {missing}"
        number += 1


def run_until_cut(squall: Any, seconds: float) -> subprocess.Popen[str]:
    """A run on the lab, in the middle of a network partition that evidence has shown to hold."""
    (squall.directory / "cut.yaml").write_text(SCENARIO.format(seconds=seconds))
    running: subprocess.Popen[str] = squall.start("run", "cut.yaml", "--lab", NAME, "--in-process")
    try:
        await_true(lambda: window(squall.directory).get("took") is True, "the network partition took hold", running)
    except BaseException:
        running.kill()
        raise
    return running


def window(directory: Path) -> dict[str, Any]:
    """The last that was written of the fault."""
    for file in directory.glob("runs/cut/*/faults.jsonl"):
        lines = file.read_text().splitlines()
        if lines:
            last: dict[str, Any] = json.loads(lines[-1])
            return last
    return {}


def await_true(condition: Callable[[], bool], what: str, running: subprocess.Popen[str] | None = None) -> None:
    def holds() -> bool:
        if condition():
            return True
        assert running is None or running.poll() is None, f"{what}: the run ended before, with {running.returncode}"
        return False

    wait_until(holds, what, PATIENCE_SECONDS, every=0.02)


def load_workers(running: subprocess.Popen[str]) -> list[psutil.Process]:
    children = psutil.Process(running.pid).children(recursive=True)
    return [child for child in children if "squall.harness.load.worker" in words_of(child)]


def gone(processes: list[psutil.Process]) -> bool:
    """psutil compares start times as well, so a reused process id is not mistaken."""
    return all(not one.is_running() or one.status() == psutil.STATUS_ZOMBIE for one in processes)


def everything_in(lab: Lab) -> list[psutil.Process]:
    supervisor = psutil.Process(lab.supervisor)
    return [supervisor, *supervisor.children(recursive=True)]


def test_after_kill_9_in_a_partition_hosts_heal_and_the_run_is_judged(lab: Lab, squall: Any) -> None:
    seconds = 10.0
    running = run_until_cut(squall, seconds)
    workers = load_workers(running)
    assert workers
    running.send_signal(signal.SIGKILL)
    running.wait()
    injected = window(squall.directory)["injected"] / 1e9  # the machine's monotonic clock, as time.monotonic is
    limit = injected + seconds + Patience().ttl_margin + GRACE_SECONDS

    async def body() -> None:
        async with agents(lab) as hosts:
            assert await open_faults(hosts), "the partition was healed although nobody was there to heal it"
            assert await unheard(hosts, "cut"), "the partition does not hold any more"
            number = 0
            while missing := await unheard(hosts, f"look-{number}") or await open_faults(hosts):
                assert time.monotonic() < limit, f"still cut after time to live and {GRACE_SECONDS:g} s: {missing}"
                number += 1
            print(
                f"whole again {time.monotonic() - injected:.1f} s after the injection, limit {limit - injected:.1f} s"
            )

    asyncio.run(body())
    assert gone(workers)
    judged = squall("check", "runs/latest", "--in-process")
    assert judged.status == 2, judged.all
    assert "UNKNOWN" in judged.out and "cut off before it ended" in judged.out
    sends = re.search(r"check +([\d ]+) sends", judged.out)
    assert sends is not None and int(sends[1].replace(" ", "")) > 0


@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.full)])
def test_a_signal_heals_ends_the_workers_and_keeps_the_history(lab: Lab, squall: Any, number: signal.Signals) -> None:
    running = run_until_cut(squall, 60)
    workers = load_workers(running)
    assert workers
    running.send_signal(number)
    assert running.wait(timeout=PATIENCE_SECONDS) == 130
    assert gone(workers)
    said = (squall.directory / "said.txt").read_text()
    assert "interrupted" in said and "Traceback" not in said, said

    async def body() -> None:
        async with agents(lab) as hosts:
            assert not await open_faults(hosts)
            await whole_again(hosts)
            for host in hosts.values():
                assert (await host.call("proc.status", name="node"))["state"] == "absent"

    asyncio.run(body())
    command = re.search(r"squall (check \S+)", said)
    assert command is not None, said
    judged = squall(*command[1].split(), "--in-process")
    assert judged.status == 2, judged.all
    assert "the run was interrupted" in judged.out
    assert window(squall.directory)["undone"] is True


def test_a_killed_run_takes_its_own_lab_with_it(lab: Lab, squall: Any) -> None:
    (squall.directory / "cut.yaml").write_text(SCENARIO.format(seconds=60))
    running = squall.start("run", "cut.yaml", "--in-process")
    own: list[Lab] = []

    def is_up() -> bool:
        own.extend(one for one in labs_of(running) if "deploy" in (squall.directory / "said.txt").read_text())
        return bool(own)

    try:
        await_true(is_up, "a lab of its own", running)
        inside = everything_in(own[0])
    finally:
        running.kill()
        running.wait()
    assert len(inside) > len(own[0].hosts)
    await_true(lambda: gone(inside), "every process of the lab is gone")
    remove_leftovers()  # what the next `squall lab up` or run does
    assert not own[0].directory.exists() and not own[0].data.exists()


def labs_of(running: subprocess.Popen[str]) -> list[Lab]:
    """Labs whose supervisor is a child of the run."""
    children = {child.pid for child in psutil.Process(running.pid).children()}
    found = (find_lab(path.name) for path in state_root().glob("run-*"))
    return [one for one in found if one is not None and one.supervisor in children]


def test_lab_down_after_all_that_leaves_no_process(lab: Lab, squall: Any) -> None:
    inside = everything_in(lab)
    assert any("keeper" in " ".join(words_of(one)) for one in inside) or len(inside) > len(lab.hosts)
    down = squall("lab", "down", "--name", NAME)
    assert (down.status, down.out) == (0, f"lab        {NAME} is down\n")
    assert gone(inside)
    assert find_lab(NAME) is None and not lab.data.exists()
