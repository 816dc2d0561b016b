"""Processors, memory and descriptors withheld from a process, and given back: as the kernel shows it, whoever dies."""

from __future__ import annotations

import os
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.nemesis.agent.conftest import Refused, RunningAgent
from tests.waiting import wait_until

BUSY = [sys.executable, "-uc", "print('up')\nwhile True: sum(range(1000))"]
IDLE = [sys.executable, "-uc", "import time; print('up'); time.sleep(600)"]
HUNGRY = [
    sys.executable,
    "-uc",
    "import time\nkept = []\nprint('up')\nwhile True: kept.append(bytearray(1 << 20)); time.sleep(0.005)",
]
MEBIBYTE = 1 << 20


def start(agent: RunningAgent, argv: list[str]) -> int:
    agent.define(argv)
    pid: int = agent.call("proc.start", name="node")["pid"]
    wait_until(lambda: "up" in (agent.state / "node.log").read_text(), "its program runs")
    return pid


def look(agent: RunningAgent, id: str = "f1", seconds: float = 0.0) -> dict[str, Any]:
    return agent.call("probe.resources", name="node", id=id, seconds=seconds)


def share_of(seen: dict[str, Any]) -> float:
    share: float = seen["process"]["cpu_s"] / seen["wall_s"]
    return share


def only_stopped(seen: dict[str, Any]) -> bool:
    return bool(seen["process"]["stopped"] == seen["process"]["looks"] > 0)


class TestThrottle:
    def test_a_busy_process_gets_its_share_and_all_it_wants_afterwards(self, agent: RunningAgent) -> None:
        start(agent, BUSY)
        assert agent.call("cpu.throttle", id="f1", name="node", share=0.1, ttl=60)["driver"] == "duty cycle"
        throttled = look(agent, seconds=1.0)
        assert share_of(throttled) < 0.25
        assert throttled["process"]["stopped"] > 0.6 * throttled["process"]["looks"] > 0
        agent.call("heal", id="f1")
        free = look(agent, seconds=1.0)
        assert free["process"]["stopped"] == 0
        assert share_of(free) > share_of(throttled)

    def test_the_smallest_share_rules_until_its_fault_ends(self, agent: RunningAgent) -> None:
        start(agent, BUSY)
        agent.call("cpu.throttle", id="small", name="node", share=0.05, ttl=60)
        agent.call("cpu.throttle", id="large", name="node", share=0.9, ttl=60)
        assert share_of(look(agent, seconds=0.6)) < 0.2
        agent.call("heal", id="small")
        seen = look(agent, seconds=0.6)
        assert 0 < seen["process"]["stopped"] < 0.4 * seen["process"]["looks"]
        agent.call("heal", id="large")
        assert look(agent, seconds=0.3)["process"]["stopped"] == 0

    def test_a_paused_process_stays_paused_under_a_throttle_and_after_it(self, agent: RunningAgent) -> None:
        start(agent, BUSY)
        agent.call("cpu.throttle", id="f1", name="node", share=0.5, ttl=60)
        agent.call("proc.pause", id="f2", name="node", ttl=60)
        wait_until(lambda: only_stopped(look(agent, seconds=0.12)), "the helper has seen the pause", timeout=1)
        seen = look(agent, seconds=0.4)
        assert only_stopped(seen)
        agent.call("heal", id="f1")
        assert agent.state_of() == "stopped"
        agent.call("heal", id="f2")
        assert agent.state_of() == "running"

    def test_the_process_goes_on_when_the_helper_is_killed_while_it_is_stopped(self, agent: RunningAgent) -> None:
        start(agent, BUSY)
        agent.call("cpu.throttle", id="f1", name="node", share=0.01, ttl=60)
        (record,) = (agent.state / "helpers").glob("throttle-*.json")
        os.kill(int(record.read_text().split(":")[1].split(",")[0]), 9)
        wait_until(lambda: not look(agent)["open"], "the keeper ends what nobody carries out any more")
        assert agent.state_of() == "running"

    def test_it_ends_in_time_though_agent_and_keeper_are_dead(self, agent: RunningAgent) -> None:
        pid = start(agent, BUSY)
        agent.call("cpu.throttle", id="f1", name="node", share=0.2, ttl=1)
        (record,) = (agent.state / "helpers").glob("throttle-*.json")
        helper = int(record.read_text().split(":")[1].split(",")[0])
        agent.kill_keepers()
        agent.kill()
        due, last_stopped = agent.await_due("f1"), 0.0

        def is_over() -> bool:
            nonlocal last_stopped
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T":
                last_stopped = time.monotonic()
            return not Path(f"/proc/{helper}").exists()

        wait_until(is_over, "its helper has ended", timeout=5, every=0.005)
        is_over()
        assert last_stopped < due + 0.2

    @pytest.mark.parametrize("share", [0, 1, -1, 2])
    def test_a_share_is_of_one_processor(self, agent: RunningAgent, share: float) -> None:
        start(agent, IDLE)
        with pytest.raises(Refused, match="less than 1"):
            agent.call("cpu.throttle", id="f1", name="node", share=share, ttl=5)


class TestStress:
    def test_busy_processes_and_memory_are_there_while_the_fault_is_and_not_after_it(self, agent: RunningAgent) -> None:
        start(agent, IDLE)
        assert look(agent)["eaters"] == {"pids": [], "busy": 0, "cpu_s": 0, "resident_bytes": 0}
        agent.call("host.stress", id="f1", processes=2, memory=32 * MEBIBYTE, ttl=60)
        seen = look(agent, seconds=1.0)["eaters"]
        assert len(seen["pids"]) == 3  # two that are busy, and their parent, which holds the memory
        assert seen["busy"] == 2 and seen["cpu_s"] > 0
        assert seen["resident_bytes"] > 32 * MEBIBYTE
        agent.call("heal", id="f1")
        wait_until(lambda: look(agent)["eaters"]["pids"] == [], "all of them go")

    def test_they_die_with_their_parent_and_the_fault_ends(self, agent: RunningAgent) -> None:
        start(agent, IDLE)
        pid = agent.call("host.stress", id="f1", processes=2, ttl=60)["pid"]
        os.kill(pid, 9)
        wait_until(lambda: look(agent)["eaters"]["pids"] == [], "they go")
        wait_until(lambda: not look(agent)["open"], "the keeper ends it")

    def test_they_end_in_time_though_agent_and_keeper_are_dead(
        self, agent: RunningAgent, start_agent: Callable[..., RunningAgent]
    ) -> None:
        start(agent, IDLE)
        pid = agent.call("host.stress", id="f1", processes=1, ttl=1)["pid"]
        agent.kill_keepers()
        agent.kill()
        wait_until(lambda: not Path(f"/proc/{pid}").exists(), "it ends by itself")

    def test_more_memory_than_there_is_is_refused(self, agent: RunningAgent) -> None:
        with pytest.raises(Refused, match="are available"):
            agent.call("host.stress", id="f1", memory=1 << 48, ttl=5)
        assert agent.call("journal")["entries"] == []


class TestLimit:
    def test_a_process_has_less_and_then_what_it_had(self, agent: RunningAgent) -> None:
        start(agent, IDLE)
        before = look(agent)["process"]
        agent.call("proc.limit", id="f1", name="node", memory=MEBIBYTE, descriptors=0, ttl=60)
        limits = look(agent)["process"]["limits"]
        assert limits == {
            "memory": before["used"]["memory"] + MEBIBYTE,
            "descriptors": before["used"]["descriptors"],
        }
        agent.call("heal", id="f1")
        assert look(agent)["process"]["limits"] == before["limits"]

    def test_the_smallest_limit_rules_and_they_end_in_any_order(self, agent: RunningAgent) -> None:
        start(agent, IDLE)
        before = look(agent)["process"]
        agent.call("proc.limit", id="small", name="node", descriptors=1, ttl=60)
        agent.call("proc.limit", id="large", name="node", descriptors=9, ttl=60)
        used = before["used"]["descriptors"]
        assert look(agent)["process"]["limits"]["descriptors"] == used + 1
        agent.call("heal", id="small")
        assert look(agent)["process"]["limits"]["descriptors"] == used + 9
        agent.call("heal", id="large")
        assert look(agent)["process"]["limits"] == before["limits"]

    def test_the_keeper_restores_it_when_its_time_is_up(self, agent: RunningAgent) -> None:
        pid = start(agent, IDLE)
        was = resource.prlimit(pid, resource.RLIMIT_NOFILE)
        agent.call("proc.limit", id="f1", name="node", descriptors=0, ttl=1)
        assert resource.prlimit(pid, resource.RLIMIT_NOFILE) != was
        agent.kill()
        wait_until(lambda: resource.prlimit(pid, resource.RLIMIT_NOFILE) == was, "it is as before")

    def test_a_process_that_ended_for_want_of_memory_is_started_again_at_the_end(self, agent: RunningAgent) -> None:
        first = start(agent, HUNGRY)
        agent.call("proc.limit", id="f1", name="node", memory=4 * MEBIBYTE, ttl=60)
        wait_until(lambda: agent.state_of() == "absent", "it runs out of memory")
        assert "MemoryError" in (agent.state / "node.log").read_text()
        agent.call("heal", id="f1")
        again = agent.call("proc.status", name="node")
        assert again["state"] == "running" and again["pid"] != first

    def test_it_stays_down_while_another_fault_keeps_it_so(self, agent: RunningAgent) -> None:
        start(agent, IDLE)
        agent.call("proc.limit", id="f1", name="node", memory=MEBIBYTE, ttl=60)
        agent.call("proc.kill", id="f2", name="node", ttl=60)
        agent.call("heal", id="f1")
        assert agent.state_of() == "absent"
        agent.call("heal", id="f2")
        assert agent.state_of() == "running"

    def test_nothing_to_limit_is_refused(self, agent: RunningAgent) -> None:
        start(agent, IDLE)
        with pytest.raises(Refused, match="none says what"):
            agent.call("proc.limit", id="f1", name="node", ttl=5)
