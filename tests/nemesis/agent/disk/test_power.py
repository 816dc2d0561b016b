"""Power loss and wiped disks: what was fsynced stays, all else goes, whatever the files went through before.

The files are written by the node's own disk with its own ledger; the process that "loses power" is a stand-in, so that
the test decides what is on the disk at that moment.
"""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest

from squall.nemesis.agent.disk.power import replay
from squall.nodes.server.disk import RealDisk
from tests.facts import naming

SLEEPER = ["/bin/sleep", "1000"]


class Node:
    """An agent, a process called `node`, and that process's disk."""

    def __init__(self, agent: Any, directory: Path) -> None:
        self.agent = agent
        self.data = directory / "data"
        self.ledger = directory / "ledger"
        self.disk = RealDisk(self.data, self.ledger)
        agent.define(SLEEPER, data=str(self.data), ledger=str(self.ledger))
        agent.call("proc.start", name="node")

    def write(self, path: str, synced: bytes, unsynced: bytes = b"") -> None:
        if "/" in path:
            self.disk.make_directory(str(Path(path).parent))
        file = self.disk.open(path, create=True)
        file.append(synced)
        file.sync()
        if unsynced:
            file.append(unsynced)
        file.close()

    def files(self) -> dict[str, bytes]:
        return {
            path.relative_to(self.data).as_posix(): path.read_bytes()
            for path in sorted(self.data.rglob("*"))
            if path.is_file()
        }

    def lose_power(self, mode: str = "all", id: str = "f1", ttl: float = 60) -> dict[str, Any]:
        return self.agent.call("proc.power_loss", id=id, name="node", ttl=ttl, mode=mode)

    def probe(self, id: str = "f1") -> dict[str, Any]:
        return self.agent.call("probe.disk", id=id, name="node")


@pytest.fixture
def node(agent: Any, tmp_path: Path) -> Node:
    return Node(agent, tmp_path / "node")


def test_what_was_not_fsynced_is_gone_and_the_process_is_dead(node: Node) -> None:
    node.write("log", b"durable", b" and not")
    assert node.probe()["unsynced_bytes"] == 8
    assert node.lose_power()["lost_bytes"] == 8
    assert node.agent.state_of() == "absent"
    assert node.files() == {"log": b"durable"}
    after = node.probe()
    assert (after["lost_bytes"], after["unsynced_bytes"], after["open"]) == (8, 0, True)
    assert after["lost"] == {"log": [7, 15]}


def test_a_kill_without_power_loss_takes_nothing(node: Node) -> None:
    """Control (i) of the last replica standing: the page cache outlives the process."""
    node.write("log", b"durable", b" and not")
    assert node.lose_power(mode="none")["lost_bytes"] == 0
    assert node.files() == {"log": b"durable and not"}


def batch(base: int, records: int, size: int) -> bytes:
    """As much of a record batch as says where it is and how long."""
    header = base.to_bytes(8, "big") + (size - 12).to_bytes(4, "big") + bytes(4) + b"\2" + bytes(6)
    return (header + (records - 1).to_bytes(4, "big")).ljust(size, b"x")


@pytest.mark.parametrize(("synced", "first"), [(0, 0), (99, 0), (100, 4), (250, 5), (299, 5)])
def test_the_offsets_that_were_lost_are_those_of_batches_not_wholly_durable(
    node: Node, synced: int, first: int
) -> None:
    content = batch(0, 4, 100) + batch(4, 1, 100) + batch(5, 2, 100)
    node.write("events-0/00000000000000000000.log", content[:synced], content[synced:])
    node.write("events-0/00000000000000000000.index", b"", b"no log")
    node.write("events-1/00000000000000000007.log", batch(7, 3, 80))
    node.lose_power()
    assert node.probe()["lost_offsets"] == {"events-0": [first, 7]}


def test_offsets_lost_from_two_segments_are_told_together(node: Node) -> None:
    node.write("events-0/00000000000000000000.log", b"", batch(0, 4, 100))
    node.write("events-0/00000000000000000004.log", b"", batch(4, 2, 100))
    node.agent.call("disk.wipe", id="f1", name="node", ttl=60)
    assert node.probe()["lost_offsets"] == {"events-0": [0, 6]}


def test_while_the_fault_is_open_the_ledger_is_still_the_dead_nodes(node: Node) -> None:
    """So that a probe compares the files with what the node said, and not with what the fault did."""
    node.write("log", b"durable", b" and not")
    before = node.ledger.read_text()
    node.lose_power()
    assert node.ledger.read_text() == before
    (node.data / "log").write_bytes(b"durable and more")
    assert node.probe()["unsynced_bytes"] == 9
    node.agent.call("heal", id="f1")
    assert node.probe()["unsynced_bytes"] == 0


def test_a_torn_write_leaves_the_durable_part_and_at_most_what_was_written(node: Node) -> None:
    tail = Random(1).randbytes(3000)
    for number in range(20):
        node.write(f"log-{number}", b"durable", tail)
    node.lose_power(mode="torn")
    left = node.files()
    assert all(content.startswith(b"durable") and len(content) <= 7 + len(tail) for content in left.values())
    assert len({len(content) for content in left.values()}) > 5, "each file is torn at a place of its own"
    zeroed = [content for content in left.values() if not (b"durable" + tail).startswith(content)]
    assert zeroed and all(content.endswith(b"\0") for content in zeroed), "sectors that were never written"


def test_a_file_whose_name_was_never_made_durable_is_gone(node: Node) -> None:
    node.disk.open("new", create=True).append(b"anything")
    node.disk.open("named", create=True).append(b"anything")
    node.disk.rename("named", "renamed")
    node.disk.make_directory("topic")
    node.disk.open("topic/log", create=True).append(b"anything")
    node.disk.sync_directory("topic")
    node.lose_power()
    assert node.files() == {"topic/log": b""}


def test_files_keep_their_state_through_renames_truncations_and_removals(node: Node) -> None:
    node.write("draft", b"new content", b"?")
    node.write("file", b"old")
    node.disk.rename("draft", "file")
    node.write("cut", b"0123456789", b"?")
    cut = node.disk.open("cut")
    cut.truncate(4)
    cut.append(b"abc")
    node.write("topic-0/log", b"x", b"?")
    node.disk.remove_tree("topic-0")
    node.lose_power()
    assert node.files() == {"file": b"new content", "cut": b"0123"}


def test_what_was_there_before_a_ledger_was_kept_counts_as_durable(agent: Any, tmp_path: Path) -> None:
    (tmp_path / "node" / "data").mkdir(parents=True)
    (tmp_path / "node" / "data" / "old").write_bytes(b"old")
    node = Node(agent, tmp_path / "node")
    node.disk.open("old").append(b" and new")
    node.lose_power()
    assert node.files() == {"old": b"old"}


def test_a_restart_knows_what_the_run_before_had_not_fsynced(node: Node, tmp_path: Path) -> None:
    node.write("log", b"durable", b" and not")
    node.disk = RealDisk(node.data, node.ledger)
    node.lose_power()
    assert node.files() == {"log": b"durable"}


def test_a_wiped_disk_is_empty(node: Node) -> None:
    node.write("meta.properties", b"node.id=1")
    node.write("topic-0/log", b"x")
    node.agent.call("disk.wipe", id="f1", name="node", ttl=60)
    assert node.files() == {} and node.probe()["files"] == 0
    assert node.agent.state_of() == "absent"


def test_without_a_ledger_a_disk_can_be_wiped_but_not_lose_power(agent: Any, refused: Any, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "log").write_bytes(b"a record")
    agent.define(SLEEPER, data=str(tmp_path / "data"), ledger="")
    agent.call("proc.start", name="node")
    before = agent.call("probe.disk", id="f1", name="node")
    assert (before["files"], before["unsynced_bytes"]) == (1, None)
    with pytest.raises(refused, match="what it has fsynced is not known"):
        agent.call("proc.power_loss", id="f1", name="node", ttl=60, mode="all")
    agent.call("disk.wipe", id="f2", name="node", ttl=60)
    wiped = agent.call("probe.disk", id="f2", name="node")
    assert (wiped["files"], wiped["lost_bytes"], agent.state_of()) == (0, 8, "absent")
    agent.call("heal", id="f2")
    assert agent.state_of() == "running" and not (tmp_path / "data" / "log").exists()


def test_healing_starts_the_process_again_and_what_was_lost_stays_known(node: Node) -> None:
    node.write("log", b"durable", b"?")
    node.lose_power()
    node.agent.call("heal", id="f1")
    assert node.agent.state_of() == "running"
    assert node.probe() == {
        "open": False, "met": 0, "files": 1, "unsynced_bytes": 0,
        "lost_bytes": 1, "lost": {"log": [7, 8]}, "lost_offsets": {},
    }  # fmt: skip


def test_repeating_the_verb_takes_nothing_more_from_a_process_that_is_down(node: Node) -> None:
    node.write("log", b"durable", b"?")
    assert node.lose_power()["lost_bytes"] == 1
    (node.data / "log").write_bytes(b"durable, written by somebody else")
    assert node.lose_power()["lost_bytes"] == 1
    assert node.files()["log"].endswith(b"else")


def test_the_process_stays_down_until_the_last_of_kill_and_power_loss_is_healed(node: Node) -> None:
    node.lose_power(id="power")
    with pytest.raises(Exception, match="not running"):
        node.agent.call("proc.kill", id="kill", name="node", ttl=60)
    node.agent.call("heal", id="power")
    node.agent.call("proc.kill", id="kill", name="node", ttl=60)
    assert node.agent.state_of() == "absent"
    node.agent.call("heal")
    assert node.agent.state_of() == "running"


def test_a_host_whose_process_is_down_loses_power_as_well(node: Node) -> None:
    """The page cache outlives a killed process, and is lost with the host's power all the same."""
    node.write("log", b"durable", b" and not")
    node.agent.call("proc.kill", id="kill", name="node", ttl=60)
    answer = node.lose_power(id="power")
    assert (answer["pid"], answer["lost_bytes"]) == (None, 8)
    assert node.files() == {"log": b"durable"}
    node.agent.call("heal", id="kill")
    assert node.agent.state_of() == "absent", "the host is still without power"
    node.agent.call("heal", id="power")
    assert node.agent.state_of() == "running"


def test_time_to_live_brings_the_process_back(node: Node, wait_until: Any) -> None:
    node.lose_power(ttl=0.5)
    wait_until(lambda: node.agent.state_of() == "running", "the keeper starts it")


def test_a_process_that_keeps_no_ledger_cannot_lose_power(agent: Any, refused: Any) -> None:
    agent.define(SLEEPER)
    agent.call("proc.start", name="node")
    with pytest.raises(refused, match=naming("`data`", "`ledger`")):
        agent.call("proc.power_loss", id="f1", name="node", ttl=60, mode="all")
    assert agent.state_of() == "running"


def test_an_unknown_mode_is_refused(node: Node, refused: Any) -> None:
    with pytest.raises(refused, match=naming("'some'", "all", "torn", "none")):
        node.lose_power(mode="some")


@pytest.mark.parametrize("line", ["s 5", "s", "", "c 0", "s x log", "q 5 log", "s 99999999999999999999999 "])
def test_a_line_that_was_cut_off_or_is_not_known_says_nothing(line: str) -> None:
    assert replay(["s 3 log", line]) == {"log": 3}
