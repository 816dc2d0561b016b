"""ELECT as the observer asserts it of messages: who says that it leads an epoch of the quorum has led it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from squall.harness.simulation.observer.rules.plausible_messages import PlausibleMessages
from squall.harness.simulation.observer.state.observed_cluster import ObservedCluster
from squall.harness.simulation.observer.state.observed_log import InvariantBroken
from squall.nodes.protocol.messages import begin_quorum_epoch as begin
from squall.nodes.protocol.messages import end_quorum_epoch as end
from squall.nodes.protocol.requests.session import ClientSession

C9 = 9
"""No node of the cluster."""


class Told:
    """Node c2 receives messages. Node c1 has led epochs 3 and 5, and c3 has led epochs 4 and 7.

    Of epoch 7 only its quorum state says so, with which it came back.
    """

    def __init__(self) -> None:
        cluster = ObservedCluster()
        cluster.names = {1: "c1", 2: "c2", 3: "c3"}
        self.rule = PlausibleMessages(cluster)
        for epoch, node, role, leader in (
            (3, 1, "leader", 1),
            (4, 3, "leader", 3),
            (5, 1, "leader", 1),
            (6, 1, "candidate", -1),
            (7, 3, "resigned", 3),
            (7, 1, "follower", 3),
        ):
            self.rule.traced("state", {"node": node, "epoch": epoch, "role": role, "leader": leader})

    def by(self, message: Any, client_id: str | None = None) -> None:
        process: Any = SimpleNamespace(name="c2")
        request: Any = SimpleNamespace(body=message, client_id=client_id)
        self.rule.answered(process, SimpleNamespace(), request)  # type: ignore[arg-type]


def begins(leader: int, epoch: int) -> begin.BeginQuorumEpochRequest:
    part = begin.PartitionDataRequest(leader_id=leader, leader_epoch=epoch)
    return begin.BeginQuorumEpochRequest(topics=[begin.TopicDataRequest(partitions=[part])])


def ends(leader: int, epoch: int) -> end.EndQuorumEpochRequest:
    part = end.PartitionDataRequest(leader_id=leader, leader_epoch=epoch)
    return end.EndQuorumEpochRequest(topics=[end.TopicDataRequest(partitions=[part])])


@pytest.mark.parametrize("message", [begins(1, 5), ends(1, 5), begins(3, 4), begins(3, 7), ends(3, 7), begins(C9, 7)])
def test_a_leader_may_say_so_however_late_and_a_stranger_anything(message: Any) -> None:
    Told().by(message)


@pytest.mark.parametrize(
    ("message", "led"),
    [(begins(1, 4), "c3"), (begins(1, 6), "nobody"), (ends(3, 5), "c1"), (ends(3, 9), "nobody"), (begins(1, 7), "c3")],
)
def test_elect_breaks_when_a_node_says_that_it_leads_an_epoch_that_it_never_led(message: Any, led: str) -> None:
    with pytest.raises(InvariantBroken, match=rf"^ELECT: c2 is told by .* leads quorum epoch \d, which {led} has led"):
        Told().by(message)


def test_elect_breaks_when_a_node_does_not_say_where_it_leads() -> None:
    with pytest.raises(
        InvariantBroken, match=r"^ELECT: c2 is sent EndQuorumEpochRequest by node-1, without its address$"
    ):
        Told().by(ends(1, 5), "node-1")
    message = ends(1, 5)
    message.leader_endpoints = [end.LeaderEndpoint(name="CONTROLLER", host="c1", port=9093)]
    Told().by(message, "node-1")
    Told().by(ends(1, 5), "squall-conformance")


# -- what is refused ----------------------------------------------------------------------------------------------


def received(now: int, connection: int, frame: bytes) -> None:
    """The input of a node that this test gives; the observer knows it by its name."""


def refuses(*client_ids: str) -> None:
    """C2 refuses a message in a turn in which these clients have sent a message of the quorum."""
    told = Told()
    told.rule.traced("implausible", {"what": "Vote of 1", "why": "its epoch is too far"})
    frames = [b"".join(ClientSession(one).send_only(begins(1, 5), 0)) for one in client_ids]
    process: Any = SimpleNamespace(name="c2", last_inputs=[(received, (7, frame)) for frame in frames])
    told.rule.messages_seen(process, SimpleNamespace())  # type: ignore[arg-type]


@pytest.mark.parametrize("client_ids", [(), ("node-1",), ("node-1", "node-3")])
def test_a_message_of_a_node_that_is_refused_breaks_elect(client_ids: tuple[str, ...]) -> None:
    with pytest.raises(InvariantBroken, match=r"^ELECT: c2 refused Vote of 1: its epoch is too far"):
        refuses(*client_ids)


def test_a_message_of_a_client_that_is_no_node_may_be_refused() -> None:
    refuses("squall-conformance")
    refuses("node-1", "squall-conformance")
