"""Making a directory ready: with whom a quorum of dynamic voters begins (KIP-853, QC-01)."""

from __future__ import annotations

from random import Random

import pytest

from squall.harness.simulation.world.disk import DiskSpeed, SimDisk
from squall.nodes.config import NodeConfig
from squall.nodes.node.formatting import (
    NO_INITIAL_CONTROLLERS,
    STANDALONE,
    InitialVoters,
    format_directory,
    initial_controllers,
)
from squall.nodes.node.identity import NodeError
from squall.nodes.node.node import Node
from squall.nodes.ports import NullTrace
from squall.nodes.protocol.topic_partition import format_id
from tests.facts import naming

FIRST, SECOND = bytes(range(16)), bytes(range(16, 32))
LISTED = f"1@127.0.0.1:9093:{format_id(FIRST)},2@127.0.0.1:9094:{format_id(SECOND)}"
PROPERTIES = {
    "process.roles": "controller",
    "node.id": "1",
    "controller.quorum.bootstrap.servers": "127.0.0.1:9093",
    "controller.listener.names": "CONTROLLER",
    "listeners": "CONTROLLER://127.0.0.1:9093",
    "log.dirs": "data",
}


class Clock:
    def now_ms(self) -> int:
        return 1_000


@pytest.fixture
def disk() -> SimDisk:
    return SimDisk(Random(1), DiskSpeed(stall_probability=0))


def formatted(disk: SimDisk, initial: InitialVoters, **changed: str) -> bytes:
    config = NodeConfig.of(PROPERTIES | {key.replace("_", "."): value for key, value in changed.items()})
    return format_directory(config, initial, disk=disk, rng=Random(7), now_ms=1_000)


def started(disk: SimDisk) -> Node:
    return Node(NodeConfig.of(PROPERTIES), disk=disk, clock=Clock(), rng=Random(2), trace=NullTrace(), now=0)


def test_a_standalone_controller_leads_from_its_first_turn_on(disk: SimDisk) -> None:
    identity = formatted(disk, STANDALONE)
    node = started(disk)
    node.turn(0)
    node.flush(0)
    assert node.raft.is_leader
    assert [(one.id, one.host, one.port, one.directory_id) for one in node.raft.voters.voters] == [
        (1, "127.0.0.1", 9093, identity)
    ]


def test_initial_controllers_give_each_directory_its_id(disk: SimDisk) -> None:
    assert formatted(disk, initial_controllers(LISTED)) == FIRST
    node = started(disk)
    assert node.raft.config.directory_id == FIRST
    assert node.raft.voters.ids == (1, 2)
    assert node.raft.votes


@pytest.mark.parametrize("by_hand", [True, False], ids=["formatted to join", "not formatted at all"])
def test_who_joins_begins_as_an_observer(disk: SimDisk, by_hand: bool) -> None:
    if by_hand:
        formatted(disk, NO_INITIAL_CONTROLLERS)
    node = started(disk)
    assert node.raft.voters.ids == ()
    assert not node.raft.votes


def test_a_directory_is_formatted_once(disk: SimDisk) -> None:
    formatted(disk, STANDALONE)
    with pytest.raises(NodeError, match=r"meta\.properties: the directory is formatted already"):
        formatted(disk, STANDALONE)


def test_a_power_loss_after_formatting_loses_nothing(disk: SimDisk) -> None:
    formatted(disk, STANDALONE)
    disk.lose_power()
    assert started(disk).raft.votes


def test_who_is_not_listed_cannot_begin_with_the_others(disk: SimDisk) -> None:
    with pytest.raises(NodeError, match=naming("node 3", "initial controllers")):
        formatted(disk, initial_controllers(LISTED), node_id="3")


def test_what_is_listed_must_be_what_is_advertised(disk: SimDisk) -> None:
    with pytest.raises(
        NodeError, match=r"advertises CONTROLLER://127\.0\.0\.1:9999, but is to begin as 1@127\.0\.0\.1:9093"
    ):
        formatted(disk, initial_controllers(LISTED), listeners="CONTROLLER://127.0.0.1:9999")


def test_a_quorum_of_the_configuration_begins_with_nobody_else(disk: SimDisk) -> None:
    fixed = {key: value for key, value in PROPERTIES.items() if "bootstrap" not in key}
    config = NodeConfig.of(fixed | {"controller.quorum.voters": "1@127.0.0.1:9093"})
    with pytest.raises(NodeError, match=r"only a controller with controller\.quorum\.bootstrap\.servers begins"):
        format_directory(config, STANDALONE, disk=disk, rng=Random(7), now_ms=1_000)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "no voter is named"),
        ("1@host:9093", "is not id@host:port:directory-id"),
        (f"one@host:9093:{format_id(FIRST)}", "is not id@host:port:directory-id"),
        (f"1@host:99999:{format_id(FIRST)}", "is not id@host:port:directory-id"),
        ("1@host:9093:short", "'short' is not a directory id"),
        (f"{LISTED},2@other:1:{format_id(bytes(16))}", "controllers 2 and 2 have the same id or directory"),
    ],
)
def test_what_is_no_list_of_controllers_is_refused(text: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        initial_controllers(text)
