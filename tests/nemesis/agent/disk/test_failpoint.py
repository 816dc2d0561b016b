"""A process killed before or after one of its own disk calls: what the disk has is what the call says, and no more."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from squall.nemesis.agent.disk import seccomp
from tests.nemesis.agent.conftest import Refused
from tests.waiting import wait_until

REASON = seccomp.why_not()
pytestmark = pytest.mark.skipif(REASON is not None, reason=str(REASON))

CHILD = """
import itertools, os, sys, time
os.chdir(sys.argv[1])

def file(name, content=b""):
    descriptor = os.open(name, os.O_RDWR | os.O_CREAT, 0o640)
    if content:
        os.write(descriptor, content)
    return descriptor

def directory(name):
    os.mkdir(name)
    return name

for turn in (f"{os.getpid()}.{count}" for count in itertools.count()):
    file(f"create-{turn}")
    os.write(file(f"write-{turn}"), b"abc")
    os.writev(file(f"writev-{turn}"), [b"ab", b"c"])
    os.pwrite(file(f"pwrite-{turn}"), b"abc", 5)
    os.pwritev(file(f"pwritev-{turn}"), [b"ab", b"c"], 4)
    os.posix_fallocate(file(f"allocate-{turn}"), 0, 100)
    os.ftruncate(file(f"truncate-{turn}", b"abcdef"), 4)
    os.fsync(file(f"fsync-{turn}", b"ab"))
    os.fdatasync(file(f"fdatasync-{turn}", b"ab"))
    directory(f"mkdir-{turn}")
    file(f"rename-{turn}", b"ab")
    os.rename(f"rename-{turn}", f"renamed-{turn}")
    file(f"unlink-{turn}", b"ab")
    os.unlink(f"unlink-{turn}")
    os.rmdir(directory(f"rmdir-{turn}"))
    print(turn, flush=True)
    os.closerange(3, 200)
    time.sleep(0.01)
"""
KINDS = ["write", "truncate", "fsync", "create", "rename", "remove"]
A_DIRECTORY = 4096
DEEDS = [
    ("create", "create-*", None, 0),
    ("write", "writev-*", 0, 3),
    ("write", "pwrite-*", 0, 8),
    ("write", "pwritev-*", 0, 7),
    ("write", "allocate-*", 0, 100),
    ("truncate", "truncate-*", 6, 4),
    ("fsync", "fsync-*", 2, 2),
    ("fsync", "fdatasync-*", 2, 2),
    ("create", "mkdir-*", None, A_DIRECTORY),
    ("rename", "rename-*", 2, None),
    ("remove", "unlink-*", 2, None),
    ("remove", "rmdir-*", A_DIRECTORY, None),
]
"""Which call, on what, and how large that is before and after the call; None: not there."""


class Node:
    """An agent, and a process `node` that goes through its calls again and again."""

    def __init__(self, agent: Any, directory: Path) -> None:
        self.agent = agent
        self.data = directory / "data"
        self.data.mkdir()
        argv = [sys.executable, "-u", "-c", CHILD, str(self.data)]
        agent.define(argv, data=str(self.data), disk_calls=KINDS)
        agent.call("proc.start", name="node")
        wait_until(lambda: self.turns() > 1, "it works")

    def turns(self) -> int:
        return len((self.agent.state / "node.log").read_text().splitlines())

    def is_to_die_at(self, call: str, when: str = "before", id: str = "f1", ttl: float = 60, **more: Any) -> None:
        self.agent.call("proc.kill_at_call", id=id, name="node", calls=[call], when=when, ttl=ttl, **more)

    def dies(self) -> dict[str, Any]:
        """Waits until it has; what the probe says."""
        wait_until(lambda: self.agent.state_of() == "absent", "it dies")
        return self.probe()

    def probe(self, id: str = "f1") -> dict[str, Any]:
        seen: dict[str, Any] = self.agent.call("probe.failpoint", id=id)
        return seen

    def goes_on(self) -> None:
        turns = self.turns()
        wait_until(lambda: self.turns() > turns + 1, "it goes on")


@pytest.fixture
def node(agent: Any, tmp_path: Path) -> Iterator[Node]:
    yield Node(agent, tmp_path)
    agent.kill()  # and its keeper, so that nobody starts again what is ended here
    agent.kill_keepers()


@pytest.mark.parametrize(("call", "path", "before", "after"), DEEDS)
def test_dead_before_a_call_leaves_no_effect_and_dead_after_it_leaves_all_of_it(
    node: Node, call: str, path: str, before: int | None, after: int | None
) -> None:
    for when, left in (("before", before), ("after", after)):
        node.is_to_die_at(call, when, path=path)
        deed = node.dies()["deed"]
        assert (deed["call"], deed["when"], deed["error"]) == (call, when, "")
        name = next(iter(deed["before"]))
        assert Path(name).match(path)
        assert deed["before"][name] == before
        assert deed["now"][name] == left
        node.agent.call("heal", id="f1")
        node.goes_on()


def test_after_a_rename_the_file_has_its_new_name(node: Node) -> None:
    node.is_to_die_at("rename", "after", path="renamed-*")
    deed = node.dies()["deed"]
    assert {Path(name).name.partition("-")[0]: size for name, size in deed["now"].items()} == {
        "rename": None,
        "renamed": 2,
    }


def test_the_process_dies_at_the_so_manieth_call_and_at_no_earlier_one(node: Node) -> None:
    before = node.turns()
    node.is_to_die_at("fsync", "before", path="fsync-*", nth=3)
    after = node.turns()
    assert node.dies()["met"] == 3
    assert node.turns() - before >= 2, "calls count from the injection on"
    assert node.turns() - after <= 3, "the turn under way may have gone past its fsync"


def test_it_happens_once_and_a_process_that_was_started_again_is_left_alone(node: Node) -> None:
    node.is_to_die_at("fsync")
    node.dies()
    node.agent.call("proc.start", name="node")
    node.goes_on()
    assert node.probe()["met"] == 1


def test_a_fault_that_never_struck_ends_without_harm(node: Node) -> None:
    node.is_to_die_at("fsync", path="no-such-file")
    node.goes_on()
    pid = node.agent.call("proc.status", name="node")["pid"]
    node.agent.call("heal", id="f1")
    node.goes_on()
    assert node.probe() == {"open": False, "met": 0, "deed": None}
    assert node.agent.call("proc.status", name="node")["pid"] == pid


def test_the_process_is_restarted_in_time_without_its_agent_and_watch(node: Node, tmp_path: Path) -> None:
    node.is_to_die_at("fsync", ttl=2)
    node.dies()
    turns = node.turns()
    node.agent.kill()
    assert node.turns() == turns
    wait_until(lambda: node.turns() > turns + 1, "the keeper has started it")


def test_it_stays_down_while_the_fault_is_open(node: Node) -> None:
    node.is_to_die_at("fsync")
    node.dies()
    deadline = time.monotonic() + 1  # five glances of the keeper, which starts what ended for other reasons
    while time.monotonic() < deadline:
        assert node.agent.state_of() == "absent"


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [({"when": "during"}, "before or after"), ({"nth": 0}, "whole number"), ({"calls": ["read"]}, "none is watched")],
)
def test_what_cannot_be_is_refused(node: Node, wrong: dict[str, Any], reason: str) -> None:
    asked = {"id": "f1", "name": "node", "calls": ["fsync"], "ttl": 5, **wrong}
    with pytest.raises(Refused, match=reason):
        node.agent.call("proc.kill_at_call", **asked)
    assert node.agent.call("journal")["entries"] == []
