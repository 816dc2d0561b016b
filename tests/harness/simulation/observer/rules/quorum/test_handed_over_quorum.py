"""QC-12 as the observer asserts it: a leader that stops cleanly sends EndQuorumEpoch to every other voter."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from squall.harness.simulation.observer.rules.quorum.handed_over_quorum import HandedOverQuorum
from squall.harness.simulation.observer.state.observed_log import InvariantBroken
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
