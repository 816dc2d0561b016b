"""Processes of a host: started detached, killed and paused for a time, never mistaken for one another."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

SLEEPER = ["/bin/sleep", "1000"]


@pytest.fixture
def node(agent: Any) -> Any:
    """An agent with a running process called `node`."""
    agent.define(SLEEPER)
    agent.call("proc.start", name="node")
    return agent


def test_a_started_process_runs_in_a_session_of_its_own_and_logs_to_its_file(
    agent: Any, tmp_path: Path, wait_until: Any
) -> None:
    log = tmp_path / "logs" / "node.log"
    script = "echo out; echo err >&2; pwd; echo $GREETING; exec sleep 1000"
    agent.define(["/bin/sh", "-c", script], env={"GREETING": "hello"}, cwd=str(tmp_path), log=str(log))
    pid = agent.call("proc.start", name="node")["pid"]
    assert os.getsid(pid) == pid
    wait_until(lambda: "hello" in log.read_text(), "the log has all lines")
    assert log.read_text().split() == ["out", "err", str(tmp_path), "hello"]


def test_starting_twice_starts_once(node: Any) -> None:
    pid = node.call("proc.status", name="node")["pid"]
    assert node.call("proc.start", name="node")["pid"] == pid


def test_a_process_left_over_from_another_definition_is_replaced(node: Any) -> None:
    """Else a run would silently test the node of the run before."""
    leftover = node.call("proc.status", name="node")["pid"]
    assert node.define(SLEEPER)["replaced"] is None
    assert node.define(["/bin/sleep", "999"])["replaced"] == leftover
    assert node.state_of() == "absent"
    assert node.call("proc.start", name="node")["pid"] != leftover


def test_what_cannot_be_started_says_why(agent: Any, refused: Any) -> None:
    agent.define(["/no/such/program"])
    with pytest.raises(refused, match=r"cannot start node: .*No such file"):
        agent.call("proc.start", name="node")


def test_a_stopped_process_is_absent_and_went_by_itself(node: Any) -> None:
    assert node.call("proc.stop", name="node")["by_itself"] is True
    assert node.state_of() == "absent"


def stubborn(agent: Any, wait_until: Any, directory: Path) -> None:
    """A process called `node` that ignores SIGTERM."""
    log = directory / "stubborn.log"
    script = "import signal, time; signal.signal(15, signal.SIG_IGN); print('ready', flush=True); time.sleep(99)"
    agent.define([os.sys.executable, "-c", script], log=str(log))
    agent.call("proc.start", name="node")
    wait_until(lambda: "ready" in log.read_text(), "it ignores SIGTERM")


def test_a_process_that_will_not_go_is_killed(agent: Any, wait_until: Any, tmp_path: Path) -> None:
    stubborn(agent, wait_until, tmp_path)
    assert agent.call("proc.stop", name="node", timeout=0.2)["by_itself"] is False
    assert agent.state_of() == "absent"


def test_a_process_asked_to_stop_by_a_fault_stays_down_until_it_is_started(node: Any) -> None:
    before = node.call("proc.status", name="node")["pid"]
    assert node.call("proc.term", id="f1", name="node", ttl=60) == {"pid": before, "by_itself": True}
    assert node.state_of() == "absent"
    assert [entry["id"] for entry in node.call("journal")["entries"]] == ["f1"]
    assert node.call("proc.start", name="node")["pid"] != before
    assert node.call("journal")["entries"] == []


def test_a_process_stopped_by_a_fault_is_started_by_the_host_if_no_other(node: Any, wait_until: Any) -> None:
    """A control process that dies within a rolling restart leaves no node stopped."""
    before = node.call("proc.status", name="node")["pid"]
    node.call("proc.term", id="f1", name="node", ttl=0.5)
    wait_until(lambda: node.state_of() == "running", "it runs again")
    assert node.call("proc.status", name="node")["pid"] != before


def test_what_will_not_go_is_killed_by_the_fault_that_asked(agent: Any, wait_until: Any, tmp_path: Path) -> None:
    stubborn(agent, wait_until, tmp_path)
    assert agent.call("proc.term", id="f1", name="node", ttl=60, timeout=0.2)["by_itself"] is False
    assert agent.state_of() == "absent"
    assert agent.call("heal", id="f1") == {"healed": ["f1"]}
    assert agent.state_of() == "running"


def test_a_killed_process_stays_down_until_healed_and_comes_back_as_another(node: Any) -> None:
    before = node.call("proc.status", name="node")
    assert node.call("proc.kill", id="f1", name="node", ttl=60) == {"pid": before["pid"]}
    assert node.state_of() == "absent"
    assert [entry["id"] for entry in node.call("journal")["entries"]] == ["f1"]
    assert node.call("heal", id="f1") == {"healed": ["f1"]}
    after = node.call("proc.status", name="node")
    assert after["state"] == "running" and after["pid"] != before["pid"]
    assert node.call("heal", id="f1") == {"healed": []}


def test_a_paused_process_goes_on_as_the_same(node: Any) -> None:
    before = node.call("proc.status", name="node")
    node.call("proc.pause", id="f1", name="node", ttl=60)
    assert node.state_of() == "stopped"
    node.call("proc.resume", id="f1")
    assert node.call("proc.status", name="node") == before


def test_overlapping_kills_heal_one_by_one(node: Any) -> None:
    node.call("proc.kill", id="f1", name="node", ttl=60)
    node.call("proc.start", name="node")
    node.call("proc.kill", id="f2", name="node", ttl=60)
    node.call("heal", id="f1")
    assert node.state_of() == "absent"
    node.call("heal", id="f2")
    assert node.state_of() == "running"


@pytest.mark.parametrize("order", [("f1", "f2"), ("f2", "f1")])
def test_overlapping_pauses_end_with_the_last(node: Any, order: tuple[str, str]) -> None:
    for id in ("f1", "f2"):
        node.call("proc.pause", id=id, name="node", ttl=60)
    node.call("heal", id=order[0])
    assert node.state_of() == "stopped"
    node.call("heal", id=order[1])
    assert node.state_of() == "running"


def test_a_process_stopped_on_purpose_is_not_restarted_by_healing(node: Any) -> None:
    node.call("proc.kill", id="f1", name="node", ttl=60)
    node.call("proc.stop", name="node")
    node.call("heal")
    assert node.state_of() == "absent"
    assert node.call("journal") == {"entries": []}


def test_a_paused_process_can_be_stopped(node: Any) -> None:
    node.call("proc.pause", id="f1", name="node", ttl=60)
    assert node.call("proc.stop", name="node")["by_itself"] is True
    assert node.call("journal") == {"entries": []}


def test_what_is_not_running_cannot_be_killed(node: Any, refused: Any) -> None:
    node.call("proc.stop", name="node")
    with pytest.raises(refused) as caught:
        node.call("proc.kill", id="f1", name="node", ttl=60)
    assert caught.value.kind == "not_running"
    assert node.call("journal") == {"entries": []}


def test_a_repeated_verb_hits_only_the_process_it_hit_first(node: Any) -> None:
    """After a lost connection nobody knows whether the kill arrived, so it is sent again."""
    first = node.call("proc.kill", id="f1", name="node", ttl=60)
    assert node.call("proc.kill", id="f1", name="node", ttl=90) == first
    (entry,) = node.call("journal")["entries"]
    assert entry["left_s"] > 60


def test_a_reused_pid_is_never_signalled(node: Any) -> None:
    stranger = os.posix_spawn("/bin/sleep", SLEEPER, {})
    try:
        record = node.state / "processes" / "node.running"
        victim = json.loads(record.read_text())["pid"]
        record.write_text(json.dumps({"pid": stranger, "started": 1, "wanted": True}))
        assert node.state_of() == "absent"
        node.call("proc.stop", name="node")
        assert os.waitpid(stranger, os.WNOHANG) == (0, 0)
        os.kill(victim, signal.SIGKILL)
    finally:
        os.kill(stranger, signal.SIGKILL)
        os.waitpid(stranger, 0)


def test_processes_outlive_the_agent_and_are_known_to_the_next(node: Any, start_agent: Any) -> None:
    pid = node.call("proc.status", name="node")["pid"]
    node.kill()
    successor = start_agent(state=node.state, address=node.address)
    assert successor.call("proc.status", name="node")["pid"] == pid


def test_a_process_that_somebody_else_started_is_adopted_and_never_started_again(
    agent: Any, refused: type[Exception], wait_until: Any
) -> None:
    with subprocess.Popen(["sleep", "600"], start_new_session=True) as stranger:
        try:
            assert agent.call("proc.adopt", name="load-0", pid=stranger.pid)["pid"] == stranger.pid
            agent.call("proc.pause", id="f1", name="load-0", ttl=1)
            assert agent.state_of("load-0") == "stopped"
            wait_until(lambda: agent.state_of("load-0") == "running", "it goes on when its time is up")
            agent.call("proc.kill", id="f2", name="load-0", ttl=60)
            stranger.wait()
            agent.call("heal", id="f2")
            assert agent.state_of("load-0") == "absent"
        finally:
            stranger.kill()
    with pytest.raises(refused, match="no process has the pid"):
        agent.call("proc.adopt", name="load-1", pid=stranger.pid)
