"""Disks that fail and disks that are slow, on this machine: a real process makes real calls beneath its watch.

The process goes through every kind of disk call again and again, in the directory that is its data and in another one,
and writes down how each went. What it may do when a call fails is the tests' choice: go on, or end as a node does.
"""

from __future__ import annotations

import errno
import json
import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from squall.nemesis.agent.disk import seccomp
from tests.facts import naming
from tests.waiting import wait_until

REASON = seccomp.why_not()
pytestmark = pytest.mark.skipif(REASON is not None, reason=str(REASON))

KINDS = ["read", "write", "truncate", "fsync", "create", "rename", "remove", "fsync-directory"]

CHILD = """
import json, os, sys, time
data, other, report, halts_after = sys.argv[1], sys.argv[2], sys.argv[3], float(sys.argv[4])

def calls(where):
    def create():
        os.close(os.open(where + "/a", os.O_RDWR | os.O_CREAT))
    yield "create", create
    try:
        file = os.open(where + "/a", os.O_RDWR)
    except OSError:
        file = os.memfd_create("none")
    directory = os.open(where, os.O_RDONLY)
    yield "write", lambda: os.pwrite(file, b"0123456789", 0)
    yield "read", lambda: os.pread(file, 5, 0)
    yield "truncate", lambda: os.ftruncate(file, 3)
    yield "fsync", lambda: os.fdatasync(file)
    yield "fsync-directory", lambda: os.fsync(directory)
    yield "rename", lambda: os.replace(where + "/a", where + "/b")
    yield "remove", lambda: os.unlink(where + "/b")
    os.close(file), os.close(directory)

lines = open(report, "a")
while True:
    went = {}
    for where in (data, other):
        for kind, call in calls(where):
            began, error = time.monotonic(), 0
            try:
                call()
            except OSError as trouble:
                error = trouble.errno
            went[("" if where == data else "elsewhere ") + kind] = [error, time.monotonic() - began]
            if error and halts_after >= 0:
                time.sleep(halts_after)
                sys.exit(255)
    print(json.dumps(went), file=lines, flush=True)
    time.sleep(0.01)
"""
GOES_ON = -1.0

Round = dict[str, list[Any]]


class Node:
    """An agent and the process, called `node`."""

    def __init__(self, agent: Any, directory: Path, calls: list[str], halts_after: float) -> None:
        self.agent = agent
        self.data, other, self.report = directory / "data", directory / "other", directory / "report"
        self.data.mkdir(parents=True)
        other.mkdir()
        argv = [sys.executable, "-u", "-c", CHILD, str(self.data), str(other), str(self.report), str(halts_after)]
        self.definition: dict[str, Any] = {"argv": argv, "data": str(self.data), "disk_calls": calls}
        agent.define(**self.definition)
        self.pid: int = agent.call("proc.start", name="node")["pid"]
        wait_until(lambda: len(self.rounds()) > 1, "it works")

    def rounds(self) -> list[Round]:
        if not self.report.exists():
            return []
        return [json.loads(line) for line in self.report.read_text().splitlines(keepends=True) if line.endswith("\n")]

    def rounds_from_now(self, count: int = 1) -> list[Round]:
        """Rounds that began after this was asked."""
        first = len(self.rounds()) + 1
        wait_until(lambda: len(self.rounds()) >= first + count, "it goes on")
        return self.rounds()[first : first + count]

    def fails(self, id: str = "f1", ttl: float = 60, **more: Any) -> dict[str, Any]:
        return self.agent.call("disk.error", id=id, name="node", ttl=ttl, **more)

    def is_slow(self, id: str = "f1", ttl: float = 60, **more: Any) -> dict[str, Any]:
        return self.agent.call("disk.slow", id=id, name="node", ttl=ttl, **more)

    def heal(self, id: str = "f1") -> None:
        self.agent.call("heal", id=id)

    def met(self, id: str = "f1") -> int:
        met: int = self.agent.call("probe.disk", id=id, name="node")["met"]
        return met

    @property
    def watch_file(self) -> Path:
        return Path(self.agent.state / "disk" / "node.watch")

    def started_last(self) -> int:
        """The pid of who was started last, alive or not."""
        pid: int = json.loads((self.agent.state / "processes" / "node.running").read_text())["pid"]
        return pid

    def notices(self) -> str:
        """What the keeper has said."""
        return Path(self.agent.state / "keeper.log").read_text()

    def watch(self) -> int:
        return int(self.watch_file.read_text())


@pytest.fixture
def start(agent: Any, tmp_path: Path) -> Iterator[Callable[..., Node]]:
    def one(calls: list[str] = KINDS, halts_after: float = GOES_ON) -> Node:
        return Node(agent, tmp_path / "node", calls, halts_after)

    yield one
    agent.kill()  # and its keeper, so that nobody starts again what is ended here
    agent.kill_keepers()


def failed(went: Round) -> dict[str, int]:
    return {kind: error for kind, (error, _) in went.items() if error}


def test_without_a_fault_every_call_succeeds(start: Callable[..., Node]) -> None:
    node = start()
    assert [failed(went) for went in node.rounds_from_now(3)] == [{}, {}, {}]


@pytest.mark.parametrize("kind", KINDS)
def test_calls_of_one_kind_fail_and_no_others_and_only_in_the_data(start: Callable[..., Node], kind: str) -> None:
    node = start()
    node.fails(calls=[kind])
    (went,) = node.rounds_from_now()
    consequences = {"create": {"write", "read", "truncate", "fsync", "rename", "remove"}, "rename": {"remove"}}
    told = {name: error for name, error in failed(went).items() if name not in consequences.get(kind, ())}
    assert told == {kind: errno.EIO}
    node.heal()
    assert failed(node.rounds_from_now(2)[-1]) == {}


def test_opening_a_file_that_is_there_creates_nothing(start: Callable[..., Node]) -> None:
    node = start()
    node.fails(id="keep", calls=["remove"])
    node.fails(id="keep-names", calls=["rename"])
    node.rounds_from_now()
    node.fails(id="f1", calls=["create"])
    assert "create" not in failed(node.rounds_from_now()[0])


def test_the_error_is_the_one_that_was_asked_for_and_every_one_is_counted(start: Callable[..., Node]) -> None:
    node = start()
    assert node.fails(calls=["fsync"], errno="ENOSPC") == {"calls": ["fsync"]}
    node.rounds_from_now(5)
    node.heal()
    assert failed(node.rounds_from_now()[0]) == {}
    errors = [went["fsync"][0] for went in node.rounds()]
    assert set(errors) == {0, errno.ENOSPC}
    assert node.met() == errors.count(errno.ENOSPC)


@pytest.mark.parametrize("error", ["EROFS", "EDQUOT", "EMFILE", "EACCES"])
def test_errors_of_many_kinds_can_be_had(start: Callable[..., Node], error: str) -> None:
    node = start()
    node.fails(calls=["create"], errno=error)
    assert node.rounds_from_now()[0]["create"][0] == getattr(errno, error)


def test_only_files_of_the_pattern_fail(start: Callable[..., Node]) -> None:
    node = start()
    node.fails(id="other", calls=["write", "rename"], path="*.log")
    node.fails(id="f1", calls=["fsync"], path="a")
    (went,) = node.rounds_from_now()
    assert failed(went) == {"fsync": errno.EIO}
    assert node.met("other") == 0 < node.met("f1")


def test_with_a_probability_some_calls_fail_and_some_do_not(start: Callable[..., Node]) -> None:
    node = start()
    node.fails(calls=["fsync"], probability=0.5)
    errors = [went["fsync"][0] for went in node.rounds_from_now(40)]
    assert 5 <= errors.count(errno.EIO) <= 35  # by chance: once in ten million times
    assert set(errors) == {0, errno.EIO}


def test_slow_calls_take_so_much_longer_and_no_others(start: Callable[..., Node]) -> None:
    node = start()
    node.is_slow(calls=["fsync"], latency_s=0.05)
    for went in node.rounds_from_now(3):
        assert failed(went) == {}
        assert 0.05 <= went["fsync"][1] < 0.5
        assert sorted(took for kind, (_, took) in went.items() if kind != "fsync")[-3] < 0.05
    node.heal()
    assert min(went["fsync"][1] for went in node.rounds_from_now(5)) < 0.05
    assert node.met() >= 3


def test_overlapping_faults_add_up_and_heal_in_any_order(start: Callable[..., Node]) -> None:
    node = start()
    node.is_slow(id="first", calls=["fsync"], latency_s=0.05)
    node.is_slow(id="second", calls=["fsync"], latency_s=0.05)
    node.fails(id="third", calls=["fsync", "read"])
    went = node.rounds_from_now()[0]
    assert went["fsync"][0] == went["read"][0] == errno.EIO and 0.1 <= went["fsync"][1] < 0.6
    node.heal("first")
    went = node.rounds_from_now()[0]
    assert went["fsync"][0] == errno.EIO and went["fsync"][1] >= 0.05
    node.heal("third")
    went = node.rounds_from_now()[0]
    assert failed(went) == {} and went["fsync"][1] >= 0.05
    node.heal("second")
    assert min(went["fsync"][1] for went in node.rounds_from_now(5)) < 0.05


def test_a_call_that_is_being_delayed_goes_on_when_its_fault_ends(start: Callable[..., Node]) -> None:
    node = start()
    node.is_slow(calls=["fsync"], latency_s=600)
    wait_until(lambda: node.met() == 1, "it is stuck")
    node.heal()
    node.rounds_from_now()
    assert max(went["fsync"][1] for went in node.rounds()) < 10


def test_a_node_that_halts_stays_down_while_its_disk_fails_then_restarts(
    start: Callable[..., Node],
) -> None:
    node = start(halts_after=0.0)
    node.fails(calls=["fsync"])
    wait_until(lambda: node.agent.state_of() == "absent", "it has ended")
    wait_until(lambda: node.watch_file.read_text() == "struck", "its watch said why")
    node.fails(id="f2", calls=["write"])
    node.heal("f1")
    node.agent.await_keeper(turns=2)
    assert node.started_last() == node.pid
    node.heal("f2")
    assert node.agent.state_of() == "running"
    assert failed(node.rounds_from_now()[0]) == {}


def test_the_keeper_restarts_a_node_that_is_ending_as_its_disk_is_healed(
    start: Callable[..., Node],
) -> None:
    node = start(halts_after=0.5)
    node.fails(calls=["fsync"])
    wait_until(lambda: node.met() > 0, "a call failed")
    node.heal()
    assert node.agent.call("proc.status", name="node")["pid"] == node.pid
    wait_until(lambda: node.agent.call("proc.status", name="node")["pid"] not in (None, node.pid), "another one runs")
    wait_until(lambda: "again" in node.notices(), "the keeper says so")
    assert f"started node again as pid {node.agent.call('proc.status', name='node')['pid']}" in node.notices()


def test_it_is_started_again_when_its_time_is_up_though_the_agent_was_killed(
    start: Callable[..., Node], start_agent: Any
) -> None:
    node = start(halts_after=0.0)
    node.fails(calls=["fsync"], ttl=1.0)
    node.agent.kill()
    wait_until(lambda: node.watch_file.read_text() == "struck", "it has ended")
    wait_until(lambda: node.watch_file.read_text() not in ("struck", ""), "it is there again", timeout=5)
    assert failed(node.rounds_from_now()[0]) == {}


def test_a_node_that_ended_for_another_reason_is_not_started_again(start: Callable[..., Node]) -> None:
    node = start(halts_after=0.0)
    node.is_slow(calls=["fsync"], latency_s=0.001)
    node.fails(id="f2", calls=["fsync"], probability=1e-9)
    os.kill(node.pid, signal.SIGKILL)
    wait_until(lambda: node.watch_file.read_text() == "", "its watch said farewell")
    node.heal("f1")
    node.heal("f2")
    assert node.agent.state_of() == "absent"


def test_a_node_that_was_stopped_on_purpose_stays_so(start: Callable[..., Node]) -> None:
    node = start(halts_after=0.0)
    node.fails(calls=["fsync"])
    wait_until(lambda: node.watch_file.read_text() == "struck", "it has ended")
    node.agent.call("proc.stop", name="node")
    node.heal()
    node.agent.await_keeper(turns=2)
    assert node.agent.state_of() == "absent"


def test_what_an_earlier_watch_left_is_not_held_against_a_process_without_one(
    start: Callable[..., Node],
) -> None:
    node = start(halts_after=0.0)
    node.fails(calls=["fsync"])
    wait_until(lambda: node.watch_file.read_text() == "struck", "it has ended")
    node.agent.call("proc.stop", name="node")
    node.heal()
    node.agent.define(["/bin/sleep", "1000"])
    os.kill(node.agent.call("proc.start", name="node")["pid"], signal.SIGKILL)
    wait_until(lambda: node.agent.state_of() == "absent", "it is dead")
    node.agent.await_keeper(turns=2)
    assert node.agent.state_of() == "absent"


def test_a_killed_watch_ends_its_node_at_once_and_the_keeper_starts_both(
    start: Callable[..., Node],
) -> None:
    """No call is left hanging or failing for ever; and the fault goes on, with its count."""
    node = start()
    node.fails(calls=["fsync"])
    node.rounds_from_now(2)
    met = node.met()
    watch = node.watch()
    os.kill(node.pid, signal.SIGSTOP)  # so that it cannot end by itself
    os.kill(watch, signal.SIGKILL)
    gone = wait_until(lambda: not Path(f"/proc/{node.pid}/fd/0").exists(), "the node is dead")
    assert gone < 1
    wait_until(lambda: node.agent.call("proc.status", name="node")["pid"] not in (None, node.pid), "another one runs")
    wait_until(lambda: "again" in node.notices(), "the keeper says so")
    assert f"the watch over its disk calls, pid {watch}, died" in node.notices()
    assert failed(node.rounds_from_now()[0]) == {"fsync": errno.EIO}
    assert node.met() > met >= 2


def test_a_fault_ends_in_its_time_though_agent_and_keeper_were_killed(start: Callable[..., Node]) -> None:
    node = start()
    node.fails(calls=["fsync"], ttl=1.5)
    node.agent.kill_keepers()
    node.agent.kill()
    assert failed(node.rounds_from_now()[0]) == {"fsync": errno.EIO}
    wait_until(lambda: failed(node.rounds_from_now()[0]) == {}, "it is over", timeout=5)


def test_when_all_were_killed_the_next_agent_puts_it_right(start: Callable[..., Node], start_agent: Any) -> None:
    node = start()
    node.fails(calls=["fsync"], ttl=0.5)
    node.agent.kill_keepers()
    node.agent.kill()
    os.kill(node.watch(), signal.SIGKILL)
    wait_until(lambda: not Path(f"/proc/{node.pid}/fd/0").exists(), "the node is dead")
    successor = start_agent(state=node.agent.state, address=node.agent.address)
    wait_until(lambda: successor.state_of() == "running", "it is there again")
    wait_until(lambda: successor.call("journal") == {"entries": []}, "nothing is open")
    assert failed(node.rounds_from_now()[0]) == {}


def test_a_process_beneath_a_watch_is_paused_and_stopped_like_any_other(start: Callable[..., Node]) -> None:
    node = start()
    watch = node.watch()
    node.agent.call("proc.pause", id="p", name="node", ttl=60)
    assert node.agent.state_of() == "stopped"
    node.heal("p")
    assert node.agent.call("proc.stop", name="node") == {"pid": node.pid, "by_itself": True}
    wait_until(lambda: not Path(f"/proc/{watch}").exists(), "its watch has gone")
    assert node.watch_file.read_text() == ""


def test_only_a_process_that_asks_for_it_has_a_filter(start: Callable[..., Node]) -> None:
    node = start(calls=["fsync"])

    def filters() -> str:
        pid = node.agent.call("proc.status", name="node")["pid"]
        return next(
            line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("Seccomp:")
        )

    assert filters().split() == ["Seccomp:", "2"]
    node.agent.define(**{**node.definition, "disk_calls": []})
    node.agent.call("proc.start", name="node")
    assert filters().split() == ["Seccomp:", "0"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"calls": ["write"]}, "node was defined without `disk_calls` for write calls"),
        ({"calls": ["fsnyc"]}, "must be a list of read, write"),
        ({"calls": ["fsync"], "errno": "EBADFD"}, "must be one of EIO, ENOSPC"),
        ({"calls": ["fsync"], "probability": 0}, "must be more than 0"),
        ({"calls": ["fsync"], "path": "/etc/*"}, "below the log directory"),
    ],
)
def test_what_cannot_be_done_is_refused(
    start: Callable[..., Node], refused: Any, arguments: dict[str, Any], said: str
) -> None:
    node = start(calls=["fsync"])
    with pytest.raises(refused, match=said):
        node.fails(**arguments)
    assert node.agent.call("journal") == {"entries": []}


def test_a_program_that_is_not_there_is_refused_with_the_reason(agent: Any, refused: Any, tmp_path: Path) -> None:
    agent.define(["/nowhere/node"], data=str(tmp_path), disk_calls=["fsync"])
    with pytest.raises(refused, match=r"cannot start node with a watch over its disk calls: .*No such file"):
        agent.call("proc.start", name="node")


def test_disk_calls_need_a_directory_that_they_are_about(agent: Any, refused: Any) -> None:
    with pytest.raises(refused, match=naming("data", "`disk_calls`")):
        agent.define(["/bin/true"], disk_calls=["fsync"])
