"""Full disks: by a file that takes all there is where a node has a file system of its own, else by refused calls."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from squall.nemesis.agent.disk import seccomp
from tests.facts import naming
from tests.nemesis.agent.disk.test_disk_faults import KINDS, Node, failed, start  # noqa: F401 (a fixture)
from tests.waiting import wait_until

REASON = seccomp.why_not()
pytestmark = pytest.mark.skipif(REASON is not None, reason=str(REASON))

SIZE = 4 << 20


def look(node: Node, id: str = "f1") -> dict[str, Any]:
    seen: dict[str, Any] = node.agent.call("probe.fill", id=id, name="node")
    return seen


def fill(node: Node, **more: Any) -> dict[str, Any]:
    done: dict[str, Any] = node.agent.call("disk.fill", id="f1", name="node", **{"ttl": 60, **more})
    return done


def test_where_the_disk_is_everybodys_the_nodes_writes_are_refused(start: Callable[..., Node]) -> None:  # noqa: F811
    node = start()
    free = look(node)["free_bytes"]
    assert fill(node) == {"driver": "watch"}
    (went,) = node.rounds_from_now()
    # A file that the round before could not rename any more is there already, and what is refused is to write to it.
    assert errno.ENOSPC in (went["create"][0], went["write"][0]) and not went["fsync"][0]
    seen = look(node)
    assert seen["met"] > 0 and seen["refused"] is None, "nobody else is hit"
    assert seen["free_bytes"] > free / 2, "and nothing was filled"
    node.heal()
    assert failed(node.rounds_from_now(2)[-1]) == {}


def test_what_shall_be_left_free_needs_a_disk_of_ones_own(start: Callable[..., Node], refused: Any) -> None:  # noqa: F811
    with pytest.raises(refused, match=naming("leave: 1000", "file system")):
        fill(start(), leave=1000)


@pytest.fixture
def own_disk(start_agent: Callable[..., Any], tmp_path: Path) -> Node:
    """A node whose directory is a small disk of its own, mounted where nobody else sees it."""
    if os.geteuid() != 0:
        pytest.skip("mounting needs root")
    directory = tmp_path / "mounted"
    directory.mkdir()
    mount = f'mount -t tmpfs -o size={SIZE} none {directory} && exec "$@"'
    agent = start_agent(prefix=["unshare", "--mount", "sh", "-c", mount, "sh"])
    return MountedNode(agent, directory, tmp_path / "report")


class MountedNode(Node):
    """Its report is written where it can be read from outside."""

    def __init__(self, agent: Any, directory: Path, report: Path) -> None:
        from tests.nemesis.agent.disk.test_disk_faults import CHILD, GOES_ON

        self.agent, self.data, self.report = agent, directory / "data", report
        program = f"import os, sys\nos.makedirs({str(self.data)!r}, exist_ok=True)\n{CHILD}"
        argv = ["python3", "-u", "-c", program, str(self.data), str(report.parent), str(report), str(GOES_ON)]
        agent.define(argv, data=str(self.data), disk_calls=KINDS)
        self.pid = agent.call("proc.start", name="node")["pid"]
        wait_until(lambda: len(self.rounds()) > 1, "it works")


def test_a_disk_of_its_own_is_filled_and_emptied_again(own_disk: Node) -> None:
    node = own_disk
    assert look(node)["refused"] is None
    assert fill(node) == {"driver": "filler", "free_bytes": 0}
    seen = look(node)
    assert (seen["refused"], seen["free_bytes"], seen["driver"]) == ("ENOSPC", 0, "filler")
    wait_until(lambda: errno.ENOSPC in failed(node.rounds_from_now()[0]).values(), "the node feels it")
    node.heal()
    seen = look(node)
    assert seen["refused"] is None and seen["free_bytes"] > SIZE / 2
    assert failed(node.rounds_from_now(2)[-1]) == {}


def test_it_is_emptied_when_its_time_is_up_though_the_agent_was_killed(own_disk: Node) -> None:
    node = own_disk
    fill(node, ttl=1.0)
    node.agent.kill()
    wait_until(lambda: failed(node.rounds_from_now()[0]) == {}, "it is over", timeout=5)


def test_so_much_is_left_free(own_disk: Node) -> None:
    node = own_disk
    assert fill(node, leave=1 << 20)["free_bytes"] == pytest.approx(1 << 20, abs=8192)
    assert look(node)["refused"] is None
