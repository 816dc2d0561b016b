"""A time to live is kept by the host itself, whoever has died meanwhile."""

from __future__ import annotations

import json
import shutil
import socket
import time
from pathlib import Path
from typing import Any

import pytest

from tests.nemesis.agent.conftest import PROBE_PORT, package_of

TTL = 1.0
LATEST = 4.0


@pytest.fixture
def node(agent: Any) -> Any:
    agent.define(["/bin/sleep", "1000"])
    agent.call("proc.start", name="node")
    return agent


def process_state(agent: Any) -> str:
    """From /proc, since there is no agent left to ask."""
    pid = json.loads((agent.state / "processes" / "node.running").read_text())["pid"]
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return "absent"


def kill_keeper(agent: Any, wait_until: Any) -> None:
    agent.kill_keepers()
    wait_until(lambda: not agent.keeper_lives(), "the keeper is dead")


def test_a_pause_ends_by_itself_though_the_agent_was_killed(node: Any, wait_until: Any) -> None:
    node.call("proc.pause", id="f1", name="node", ttl=TTL)
    began = time.monotonic()
    node.kill()
    assert process_state(node) == "T"
    wait_until(lambda: process_state(node) == "S", "the process goes on", timeout=TTL + 5)
    assert TTL - 0.1 <= time.monotonic() - began <= TTL + LATEST


def test_a_killed_process_is_restarted_though_the_agent_was_killed(node: Any, wait_until: Any) -> None:
    node.call("proc.kill", id="f1", name="node", ttl=TTL)
    node.kill()
    assert process_state(node) == "absent"
    wait_until(lambda: process_state(node) == "S", "the process is back", timeout=TTL + 5)


def test_a_skewed_clock_is_put_right_though_the_agent_was_killed(node: Any, wait_until: Any, start_agent: Any) -> None:
    node.call("clock.set", id="f1", name="node", offset_s=3600, ttl=TTL)
    node.kill()
    wait_until(lambda: not list((node.state / "journal").glob("*.json")), "the journal is empty")
    successor = start_agent(state=node.state, address=node.address)
    assert abs(successor.call("probe.clock", name="node")["offset_s"]) < 0.05


def test_renewing_a_fault_puts_its_end_off(node: Any) -> None:
    node.call("proc.pause", id="f1", name="node", ttl=0.6)
    node.call("proc.pause", id="f1", name="node", ttl=60)
    node.await_keeper(after=0.6)
    assert node.state_of() == "stopped"


def test_the_keeper_goes_when_no_agent_is_left_and_nothing_is_open(node: Any, wait_until: Any) -> None:
    node.call("proc.pause", id="f1", name="node", ttl=TTL)
    node.kill()
    assert node.keeper_lives()
    wait_until(lambda: not node.keeper_lives(), "the keeper has gone")
    assert process_state(node) in ("S", "R"), "healed, not stopped"


def test_a_keeper_off_duty_has_left_its_port_to_the_next_one(node: Any) -> None:
    node.kill()
    deadline = time.monotonic() + 10
    while node.keeper_lives():
        assert time.monotonic() < deadline
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as ear:
        ear.bind((node.address, PROBE_PORT))


def test_a_new_agent_starts_a_keeper_for_what_a_dead_one_left_open(
    node: Any, start_agent: Any, wait_until: Any
) -> None:
    node.call("proc.pause", id="f1", name="node", ttl=TTL)
    kill_keeper(node, wait_until)
    node.kill()
    node.await_due("f1")
    assert process_state(node) == "T"
    start_agent(state=node.state, address=node.address)
    wait_until(lambda: process_state(node) == "S", "the expired pause is healed at once", timeout=3)


def test_a_dead_keeper_is_replaced_before_the_next_fault(node: Any, wait_until: Any) -> None:
    kill_keeper(node, wait_until)
    node.call("proc.pause", id="f1", name="node", ttl=60)
    assert node.keeper_lives()


def test_without_a_keeper_no_fault_is_injected(
    start_agent: Any, program: Path, tmp_path: Path, refused: Any, wait_until: Any
) -> None:
    own_copy = shutil.copytree(program.parent, tmp_path / "agent")
    node = start_agent(program=own_copy / "agent.py")
    node.define(["/bin/sleep", "1000"])
    node.call("proc.start", name="node")
    (package_of(own_copy / "agent.py") / "guard" / "keeper.py").write_text("raise SystemExit('broken on purpose')\n")
    kill_keeper(node, wait_until)
    with pytest.raises(refused, match="the keeper did not start, so no fault is injected"):
        node.call("proc.pause", id="f1", name="node", ttl=60)
    assert node.state_of() == "running"
    assert node.call("journal") == {"entries": []}


def test_faults_of_an_earlier_boot_are_over(node: Any, wait_until: Any) -> None:
    node.call("proc.pause", id="f1", name="node", ttl=600)
    (path,) = (node.state / "journal").glob("*.json")
    path.write_text(json.dumps({**json.loads(path.read_text()), "boot": "another"}))
    wait_until(lambda: node.state_of() == "running", "healed at once")
