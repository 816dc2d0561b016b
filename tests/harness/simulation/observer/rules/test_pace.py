"""PACE as the observer asserts it: a whole cluster without clients does what time demands of it (FD-01)."""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest

from squall.harness.simulation.observer.rules.pace import PacedCluster
from squall.harness.simulation.observer.rules.rule import QuorumTurn
from squall.harness.simulation.observer.state.observed_cluster import ObservedCluster
from squall.harness.simulation.observer.state.observed_log import InvariantBroken
from squall.nodes.protocol.messages import ApiKey

SECOND = 1_000_000
INTERVAL = SECOND // 4
DUE = 12
"""Heartbeats of a broker in three seconds."""
METADATA_INTERVAL, METADATA_DUE = SECOND // 2, 6
"""Records of the metadata in three seconds."""


class Idle:
    """A controller and two brokers, without clients since the tenth second."""

    def __init__(self) -> None:
        self.cluster = ObservedCluster()
        self.members: dict[str, Any] = {
            "c1": member("c1", None),
            "b1": member("b1", INTERVAL),
            "b2": member("b2", INTERVAL),
        }
        self.cluster.set_members(self.members, {})
        self.rule = PacedCluster(self.cluster)
        self.rule.idle(10 * SECOND)

    def served(self, name: str, api: ApiKey, count: int) -> None:
        times = self.members[name].node.control_times.by_api
        times[int(api)] = SimpleNamespace(count=times.get(int(api), SimpleNamespace(count=0)).count + count)

    def metadata(self, ms: int, end: int, high_watermark: int, *, leads: bool = True, epoch: int = 4) -> None:
        """Its log of the metadata is moved in a turn of c1, so long after the last request of a client."""
        process = self.members["c1"]
        process.now = 10 * SECOND + ms * 1000
        now = end, high_watermark, leads, epoch
        self.rule.quorum_moved(QuorumTurn(process, process.node, None, now, None, None))

    def end(self, after: int = 3 * SECOND, metadata: int = METADATA_DUE) -> None:
        """`metadata` are the records that the log of the metadata has grown by."""
        self.members["c1"].node.raft.end_offset += metadata
        for process in self.members.values():
            process.now = 10 * SECOND + after
        self.rule.at_end()


def member(name: str, interval: int | None) -> SimpleNamespace:
    broker = None if interval is None else SimpleNamespace(config=SimpleNamespace(heartbeat_interval=interval))
    times = SimpleNamespace(by_api={}), SimpleNamespace(by_api={})
    controller = None if broker else SimpleNamespace(config=SimpleNamespace(idle_interval=METADATA_INTERVAL))
    node = SimpleNamespace(
        control_times=times[0],
        data_times=times[1],
        broker=broker,
        controller=controller,
        raft=SimpleNamespace(end_offset=100),
    )
    return SimpleNamespace(name=name, node=node, incarnation=1, now=0)


def test_heartbeats_at_their_interval_are_legal() -> None:
    idle = Idle()
    idle.served("c1", ApiKey.BROKER_HEARTBEAT, 2 * DUE)
    idle.end()


@pytest.mark.parametrize("more", [-11, 11])
def test_a_heartbeat_more_or_less_is_legal(more: int) -> None:
    """The tolerance: thirty percent, and two of each broker."""
    idle = Idle()
    idle.served("c1", ApiKey.BROKER_HEARTBEAT, 2 * DUE + more)
    idle.end()


@pytest.mark.parametrize("more", [-12, 12, 1000])
def test_heartbeats_at_another_pace_are_a_breach(more: int) -> None:
    idle = Idle()
    idle.served("c1", ApiKey.BROKER_HEARTBEAT, 2 * DUE + more)
    with pytest.raises(
        InvariantBroken, match=rf"^PACE: 2 brokers sent {2 * DUE + more} heartbeats in 3\.0 s, 24 are due"
    ):
        idle.end()


@pytest.mark.parametrize(("metadata", "wrong"), [(4, False), (50, False), (3, True), (0, True)])
def test_metadata_that_stand_still_are_a_breach(metadata: int, *, wrong: bool) -> None:
    """The tolerance: thirty percent, and a record."""
    idle = Idle()
    idle.served("c1", ApiKey.BROKER_HEARTBEAT, 2 * DUE)
    told = r"^PACE: the log of the metadata grew by \d records in 3\.0 s, 6 are due"
    with pytest.raises(InvariantBroken, match=told) if wrong else nullcontext():
        idle.end(metadata=metadata)


def test_a_quorum_that_writes_nothing_when_idle_may_stand_still() -> None:
    idle = Idle()
    idle.served("c1", ApiKey.BROKER_HEARTBEAT, 2 * DUE)
    idle.members["c1"].node.controller.config.idle_interval = 0
    idle.end(metadata=0)


def asks(idle: Idle, count: int) -> None:
    idle.served("c1", ApiKey.BROKER_HEARTBEAT, 2 * DUE)
    idle.served("c1", ApiKey.UPDATE_RAFT_VOTER, count)


def test_a_record_that_is_committed_only_with_the_next_one_is_a_breach() -> None:
    idle = Idle()
    idle.metadata(0, 101, 100)
    with pytest.raises(
        InvariantBroken, match=r"^PACE: c1 leads quorum epoch 4 and has waited 0\.500 s to commit up to 101, "
    ):
        idle.metadata(500, 102, 101)


def test_one_that_never_is_breaks_it_too() -> None:
    idle = Idle()
    idle.metadata(0, 101, 100)
    idle.metadata(200, 102, 100)
    with pytest.raises(InvariantBroken, match=r"^PACE: c1 .* has waited 0\.300 s to commit up to 101, "):
        idle.metadata(300, 103, 100)


def test_a_log_that_always_has_a_record_more_than_is_committed_is_legal() -> None:
    idle = Idle()
    for number in range(10):
        idle.metadata(200 * number, 101 + number, 100 + number)


@pytest.mark.parametrize(("leads", "epoch"), [(False, 4), (True, 5)])
def test_a_follower_and_another_leadership_wait_for_nothing(*, leads: bool, epoch: int) -> None:
    idle = Idle()
    idle.metadata(0, 101, 100, leads=leads)
    idle.metadata(500, 102, 101, leads=leads, epoch=epoch)


def test_while_clients_ask_a_record_may_take_longer() -> None:
    idle = Idle()
    idle.rule = PacedCluster(idle.cluster)
    idle.metadata(0, 101, 100)
    idle.metadata(500, 102, 101)


def test_a_change_that_was_under_way_is_legal() -> None:
    idle = Idle()
    asks(idle, 3)
    idle.end()


def test_changes_that_are_asked_for_again_and_again_are_a_breach() -> None:
    idle = Idle()
    asks(idle, 4)
    with pytest.raises(InvariantBroken, match=r"^PACE: 3 nodes ask .* 4 changes in 3\.0 s, .* UPDATE_RAFT_VOTER 4$"):
        idle.end()


def test_a_node_that_turns_without_a_cause_is_a_breach() -> None:
    idle = Idle()
    idle.served("c1", ApiKey.BROKER_HEARTBEAT, 2 * DUE)
    idle.cluster.turns["b2"] = 6000
    with pytest.raises(InvariantBroken, match=r"^PACE: b2 takes 2,000 turns a second, 1,500 at most"):
        idle.end()


def test_fetches_that_do_not_wait_are_a_breach() -> None:
    idle = Idle()
    idle.served("c1", ApiKey.BROKER_HEARTBEAT, 2 * DUE)
    idle.served("b1", ApiKey.FETCH, 3300)
    with pytest.raises(InvariantBroken, match=r"^PACE: b1 gets 1,100 requests a second, 1,000 at most"):
        idle.end()


def test_a_node_that_started_meanwhile_is_not_judged() -> None:
    idle = Idle()
    idle.members["b2"].incarnation = 2
    idle.cluster.turns["b2"] = 6000
    idle.end()


def test_a_short_time_proves_nothing() -> None:
    idle = Idle()
    idle.cluster.turns["b2"] = 6000
    idle.end(after=SECOND)
