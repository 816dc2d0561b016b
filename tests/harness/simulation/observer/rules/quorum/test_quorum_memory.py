"""QC-08 as the observer asserts it: a node that comes back remembers its vote."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from squall.harness.simulation.observer.state.observed_log import InvariantBroken
from squall.nodes.raft.quorum_state import ReplicaKey
from tests.harness.simulation.observer.observed import Cluster


def returns(candidate: int | None, *, epoch: int = 5, wiped: bool = False, answered: bool = True) -> None:
    """B2 votes for b3 in epoch 5, dies, and comes back in `epoch` with a vote for `candidate`."""
    cluster = Cluster()
    process = cluster.processes["b2"]
    process.raft.epoch = 5
    cluster.observer.event("vote", node=2, epoch=5, candidate=3)
    if answered:
        cluster.observer.look(process)  # type: ignore[arg-type]
    process.up = False
    cluster.observer.look(process)  # type: ignore[arg-type]
    if wiped:
        process.disk.wipe()
    process.up = True
    process.incarnation += 1
    process.raft.epoch = epoch
    process.raft.role = SimpleNamespace(voted=None if candidate is None else ReplicaKey(candidate))
    cluster.observer.event("voters", node=2, offset=0, voters=[])
    cluster.observer.look(process)  # type: ignore[arg-type]


def test_a_voter_that_forgets_its_vote_breaks_qc_08() -> None:
    with pytest.raises(InvariantBroken, match=r"^QC-08: b2 .* epoch 5, .* voted for b3, and knows of no vote"):
        returns(None)


def test_a_voter_that_comes_back_with_another_vote_breaks_qc_08() -> None:
    with pytest.raises(InvariantBroken, match=r"^QC-08: b2 .* and knows of a vote for b1"):
        returns(1)


def test_a_vote_that_is_remembered_is_sound() -> None:
    returns(3)


def test_a_vote_binds_in_its_epoch_only() -> None:
    returns(None, epoch=6)


def test_a_vote_in_the_turn_of_the_death_was_never_answered() -> None:
    returns(None, answered=False)


def test_a_wiped_disk_remembers_nothing() -> None:
    returns(None, wiped=True)
