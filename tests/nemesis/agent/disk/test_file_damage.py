"""Damaged files, and log directories that go back in time: what another process reads, and what comes back."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.waiting import wait_until

CONTENT = bytes(range(256)) * 8
HOWS = ["flip", "zeros", "noise", "copy", "truncate", "delete", "rename"]

APPENDS = """
import os, sys, time
data = sys.argv[1]
file = os.open(data + "/b.log", os.O_RDWR | os.O_CREAT | os.O_APPEND)
while True:
    os.write(file, b"x")
    time.sleep(0.005)
"""


class Node:
    """A process that appends to `b.log`, beside files that lie still."""

    def __init__(self, agent: Any, directory: Path) -> None:
        self.agent, self.data = agent, directory / "data"
        (self.data / "events-0").mkdir(parents=True)
        self.file = self.data / "events-0" / "0.log"
        self.file.write_bytes(CONTENT)
        (self.data / "small.log").write_bytes(b"abc")
        self.ledger = directory / "ledger"
        self.ledger.write_text("")
        argv = [sys.executable, "-c", APPENDS, str(self.data)]
        agent.define(argv, data=str(self.data), ledger=str(self.ledger))
        agent.call("proc.start", name="node")
        wait_until(lambda: self.size("b.log") > 0, "it writes")

    def size(self, name: str) -> int:
        return (self.data / name).stat().st_size if (self.data / name).exists() else 0

    def choose(self, how: str, file: str = "events-0/*", **more: Any) -> dict[str, Any]:
        seen: dict[str, Any] = self.agent.call(
            "probe.file", id="f1", name="node", file=file, how=how, **{"length": 100, **more}
        )
        return seen

    def look(self, place: dict[str, Any], id: str = "f1") -> dict[str, Any]:
        where = {key: place[key] for key in ("file", "offset", "length", "source")}
        seen: dict[str, Any] = self.agent.call("probe.file", id=id, name="node", **where)
        return seen

    def damage(self, how: str, place: dict[str, Any], id: str = "f1", ttl: float = 60, **more: Any) -> None:
        where = {key: place[key] for key in ("file", "offset", "length", "source")}
        self.agent.call("disk.damage", id=id, name="node", how=how, ttl=ttl, **where, **more)

    def heal(self, id: str = "f1") -> None:
        self.agent.call("heal", id=id)


@pytest.fixture
def node(agent: Any, tmp_path: Path) -> Node:
    return Node(agent, tmp_path)


@pytest.mark.parametrize("how", HOWS)
def test_another_process_reads_something_else_and_afterwards_the_same_as_before(node: Node, how: str) -> None:
    before = node.choose(how)
    assert before["file"] == "events-0/0.log" and before["digest"]
    node.damage(how, before)
    during = node.look(before)
    assert during["digest"] != before["digest"] and during["open"]
    assert (during["size"] is None) == (how in ("delete", "rename"))
    node.heal()
    after = node.look(before)
    assert (after["digest"], after["size"], after["open"]) == (before["digest"], before["size"], False)
    assert node.file.read_bytes() == CONTENT


@pytest.mark.parametrize("how", HOWS)
def test_damage_that_is_to_stay_stays(node: Node, how: str) -> None:
    before = node.choose(how)
    node.damage(how, before, restore=False)
    node.heal()
    assert node.look(before)["digest"] != before["digest"]


def test_one_bit_is_flipped_where_it_was_asked_for_and_only_once(node: Node) -> None:
    place = node.choose("flip", length=1, where="end")
    node.damage("flip", place)
    node.damage("flip", place)
    damaged = node.file.read_bytes()
    assert damaged[:-1] == CONTENT[:-1] and (damaged[-1] ^ CONTENT[-1]).bit_count() == 1


@pytest.mark.parametrize(("where", "offset"), [("start", 0), ("end", 1948), ("middle", 974)])
def test_the_place_is_where_it_was_asked_for(node: Node, where: str, offset: int) -> None:
    assert node.choose("zeros", where=where)["offset"] == offset


def test_a_copy_is_of_another_stretch_of_the_file(node: Node) -> None:
    for length in (1, 100, 1000, 1024):
        place = node.choose("copy", length=length)
        assert abs(place["offset"] - place["source"]) >= length
        assert max(place["offset"], place["source"]) + length <= len(CONTENT)


def test_what_a_file_has_become_since_is_not_overwritten(node: Node) -> None:
    place = node.choose("flip", length=4, where="start")
    node.damage("flip", place)
    with open(node.file, "r+b") as file:
        file.write(b"mine")
    node.heal()
    assert node.file.read_bytes()[:4] == b"mine"


def test_what_was_cut_off_comes_back_though_the_node_wrote_behind_it(node: Node) -> None:
    place = node.choose("truncate", length=100)
    node.damage("truncate", place)
    with open(node.file, "r+b") as file:
        file.seek(len(CONTENT))
        file.write(b"behind")
    node.heal()
    assert node.file.read_bytes() == CONTENT + b"behind"


def test_a_name_that_was_taken_meanwhile_is_left_to_who_took_it(node: Node) -> None:
    place = node.choose("delete")
    node.damage("delete", place)
    node.file.write_bytes(b"new")
    node.heal()
    assert node.file.read_bytes() == b"new"


def test_two_of_them_end_in_any_order(node: Node) -> None:
    one, other = node.choose("zeros", where="start"), node.choose("flip", where="end")
    node.damage("zeros", one, id="f1")
    node.damage("flip", other, id="f2")
    node.heal("f1")
    assert node.look(other, id="f2")["digest"] != other["digest"]
    node.heal("f2")
    assert node.file.read_bytes() == CONTENT


def test_it_is_put_right_when_its_time_is_up_though_the_agent_was_killed(node: Node) -> None:
    node.damage("truncate", node.choose("truncate"), ttl=0.7)
    node.agent.kill()
    wait_until(lambda: node.file.read_bytes() == CONTENT, "the keeper has put it right", timeout=5)
    written = node.size("b.log")
    wait_until(lambda: node.size("b.log") > written, "the node runs again")


def test_a_node_that_ended_over_it_is_started_again(node: Node) -> None:
    node.damage("flip", node.choose("flip"))
    os.kill(node.agent.call("proc.status", name="node")["pid"], 9)
    wait_until(lambda: node.agent.state_of() == "absent", "it has ended")
    node.heal()
    assert node.agent.state_of() == "running"


def test_a_node_that_something_else_keeps_down_is_not(node: Node) -> None:
    node.agent.call("proc.kill", id="k", name="node", ttl=60)
    node.damage("flip", node.choose("flip"))
    node.heal()
    assert node.agent.state_of() == "absent"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"file": "../ledger"}, "is not a file below the log directory"),
        ({"file": "nothing"}, "is not a file below the log directory"),
        ({"offset": 4000}, "has become shorter"),
        ({"offset": -1}, "must be from 0"),
        ({"how": "melt"}, "must be one of flip"),
    ],
)
def test_what_cannot_be_damaged_is_refused(node: Node, refused: Any, arguments: dict[str, Any], said: str) -> None:
    told = {"how": "flip", "file": "events-0/0.log", "offset": 0, "length": 1, **arguments}
    with pytest.raises(refused, match=said):
        node.agent.call("disk.damage", id="f1", name="node", ttl=5, **told)


def test_no_file_of_such_a_name_is_told(node: Node, refused: Any) -> None:
    with pytest.raises(refused, match=r"no file below the log directory is named \*.idx and has 100 bytes"):
        node.choose("flip", file="*.idx")


# --- Back in time ------------------------------------------------------------------------------------------------


def copied(node: Node) -> dict[str, Any]:
    seen: dict[str, Any] = node.agent.call("probe.copy", copy="c1", name="node")
    return seen


def test_a_log_directory_goes_back_to_its_copy_and_the_process_starts_on_that(node: Node) -> None:
    assert copied(node) == {"copied": False, "same": None, "files": None}
    node.agent.call("disk.copy", id="c1", name="node", ttl=60)
    size = node.size("b.log")
    (node.data / "new.log").write_bytes(b"12345")
    wait_until(lambda: node.size("b.log") > size + 10, "it goes on")
    assert copied(node) == {"copied": True, "same": False, "files": 3}
    node.agent.call("disk.rewind", id="f1", name="node", copy="c1", ttl=60)
    assert node.agent.state_of() == "absent"
    assert copied(node)["same"] is True and not (node.data / "new.log").exists()
    assert node.agent.call("probe.disk", id="f1", name="node")["lost_bytes"] >= 15
    node.heal("f1")
    node.heal("c1")
    assert node.agent.state_of() == "running" and copied(node)["copied"] is False


def test_a_copy_is_dropped_when_its_time_is_up_and_nothing_goes_back(node: Node) -> None:
    node.agent.call("disk.copy", id="c1", name="node", ttl=0.5)
    node.agent.kill()
    wait_until(lambda: not list((node.agent.state / "copies").iterdir()), "it is gone", timeout=5)
    size = node.size("b.log")
    wait_until(lambda: node.size("b.log") > size, "it goes on")


def test_without_a_copy_nothing_goes_back(node: Node, refused: Any) -> None:
    with pytest.raises(refused, match="not a copy"):
        node.agent.call("disk.rewind", id="f1", name="node", copy="c1", ttl=60)


def test_a_process_that_was_left_stopped_goes_on_when_the_copy_ends(
    node: Node, start_agent: Callable[..., Any]
) -> None:
    node.agent.call("disk.copy", id="c1", name="node", ttl=60)
    os.kill(node.agent.call("proc.status", name="node")["pid"], 19)
    wait_until(lambda: node.agent.state_of() == "stopped", "it is stopped")
    node.heal("c1")
    wait_until(lambda: node.agent.state_of() == "running", "it goes on")
