"""QC-12 as the observer asserts it: a leader that stops cleanly sends EndQuorumEpoch to every other voter."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from squall.harness.simulation.observer.rules.quorum.handed_over_quorum import HandedOverQuorum
from squall.harness.simulation.observer.state.observed_log import InvariantBroken
from squall.nodes.protocol.errors import ErrorCode
from squall.nodes.protocol.messages import ApiKey
from squall.nodes.protocol.messages.end_quorum_epoch import (
    EndQuorumEpochRequest,
    EndQuorumEpochResponse,
    PartitionDataRequest,
    PartitionDataResponse,
    TopicDataRequest,
    TopicDataResponse,
)
from squall.nodes.protocol.requests.session import Answer, ServerRequest
from squall.nodes.protocol.topic_partition import METADATA_TOPIC
from squall.nodes.raft.roles import Follower, Peer, Resigned

EPOCH = 5


class Stopping:
    """C1 led epoch 5, and resigns; a request to each of these voters is under way, and none to those."""

    def __init__(self, *told: int, untold: tuple[int, ...] = (), ended: str = "stopped") -> None:
        peers = {voter: Peer(in_flight=voter in told) for voter in (*told, *untold)}
        raft = SimpleNamespace(role=Resigned(EPOCH, 1, (), 9_000, peers), epoch=EPOCH)
        self.node: Any = SimpleNamespace(raft=raft)
        cluster: Any = SimpleNamespace(running=lambda number: self.node, names={1: "c1"})
        self.rule = HandedOverQuorum(cluster)
        self.process: Any = SimpleNamespace(name="c1", how_it_ended=ended)
        self.enters("resigned")

    def enters(self, role: str) -> None:
        self.rule.traced("state", {"node": 1, "role": role, "epoch": EPOCH})

    def ends(self) -> None:
        self.rule.died(self.process)


def test_a_leader_that_stops_has_told_all_others() -> None:
    Stopping(2, 3).ends()


def test_a_voter_that_was_not_told_waits_for_its_timeout() -> None:
    with pytest.raises(InvariantBroken, match=r"^QC-12: c1 led quorum epoch 5 and has stopped, .* told voters \[3\]"):
        Stopping(2, untold=(3,)).ends()


def test_the_only_voter_has_nobody_to_tell() -> None:
    Stopping().ends()


@pytest.mark.parametrize("ended", ["died", "died while it closed"])
def test_a_process_that_died_has_told_nobody(ended: str) -> None:
    Stopping(untold=(2, 3), ended=ended).ends()


def test_a_leader_that_resigned_in_an_earlier_turn_may_wait_to_repeat_a_request() -> None:
    stopping = Stopping(2, untold=(3,))
    stopping.rule.turned(stopping.process, stopping.node)
    stopping.ends()


def test_a_follower_has_nothing_to_hand_over() -> None:
    stopping = Stopping(2, untold=(3,))
    stopping.rule.turned(stopping.process, stopping.node)
    stopping.node.raft.role = Follower(EPOCH, 2, None, 9_000)
    stopping.enters("follower")
    stopping.ends()


# -- who is told ---------------------------------------------------------------------------------------------------

NOW, LONGEST_MS = 4_000_000, 300


def is_told(
    give_up_at: int, *, abandoned: bool = True, leader: int = 1, epoch: int = EPOCH, votes: bool = True, error: int = 0
) -> None:
    """C2, which follows node 1 in epoch 5, answers EndQuorumEpoch of this leader and epoch."""
    role = Follower(EPOCH, 1, give_up_at, votes=votes, abandoned=abandoned)
    config = SimpleNamespace(controller_quorum_election_backoff_max_ms=LONGEST_MS)
    node: Any = SimpleNamespace(raft=SimpleNamespace(role=role), config=config)
    process: Any = SimpleNamespace(name="c2", now=NOW)
    ended = PartitionDataRequest(leader_id=leader, leader_epoch=epoch)
    asked = EndQuorumEpochRequest("cluster", [TopicDataRequest(METADATA_TOPIC, [ended])])
    request = ServerRequest(int(ApiKey.END_QUORUM_EPOCH), 1, asked, "node-1", "CONTROLLER", 1, NOW)
    told = TopicDataResponse(METADATA_TOPIC, [PartitionDataResponse(0, error)])
    request.answer = Answer(response=EndQuorumEpochResponse(topics=[told]))
    HandedOverQuorum(SimpleNamespace()).answered(process, node, request)  # type: ignore[arg-type]


def test_a_voter_that_is_told_stands_soon() -> None:
    is_told(NOW)
    is_told(NOW + LONGEST_MS * 1_000)


@pytest.mark.parametrize(("give_up_at", "abandoned"), [(NOW, False), (NOW + LONGEST_MS * 1_000 + 1, True)])
def test_one_that_waits_for_its_timeout_breaks_qc_12(give_up_at: int, *, abandoned: bool) -> None:
    with pytest.raises(InvariantBroken, match=r"^QC-12: c2 was told that leader 1 of quorum epoch 5 has resigned, and"):
        is_told(give_up_at, abandoned=abandoned)


@pytest.mark.parametrize(
    "facts", [{"leader": 3}, {"epoch": EPOCH - 1}, {"votes": False}, {"error": int(ErrorCode.FENCED_LEADER_EPOCH)}],
    ids=str,
)  # fmt: skip
def test_who_follows_another_leader_or_does_not_vote_has_nothing_to_heed(facts: dict[str, Any]) -> None:
    is_told(NOW + 2_000_000, abandoned=False, **facts)
