"""Who gets a vote: the truth table, the promise that survives a power loss, and the refusals (QC-04..08, rule 33)."""

from __future__ import annotations

from contextlib import suppress
from random import Random
from typing import Any

import pytest

from squall.harness.simulation.world.disk import CrashNow, SimDisk
from squall.nodes.protocol.errors import ErrorCode
from squall.nodes.raft.quorum_state import CorruptQuorumState, QuorumState, QuorumStateStore, ReplicaKey
from tests.nodes.raft.alone import Voting, config

NONE, INVALID = ErrorCode.NONE, ErrorCode.INVALID_REQUEST
FREE = QuorumState(epoch=5)
VOTED_2 = QuorumState(epoch=5, voted=ReplicaKey(2, (2).to_bytes(16, "big")))
FOLLOWING = QuorumState(epoch=5, leader_id=3)


def test_a_vote_is_kept_over_a_power_loss() -> None:
    """QC-08: granted, power lost before anything else; the rival is refused in the same epoch."""
    voting = Voting([1])
    assert voting.ask(2, 5, 1, 1) == (NONE, True)
    voting.disk.lose_power()
    voting.start()
    assert voting.ask(3, 5, 1, 9) == (NONE, False)
    assert voting.ask(2, 5, 1, 1) == (NONE, True)


@pytest.mark.parametrize("calls", range(13))
def test_what_a_restarted_voter_read_outlasts_a_power_loss(calls: int) -> None:
    """QC-08: the process died at any disk call of its vote; the page cache may show a name that is not durable."""
    voting = Voting([1])
    voting.disk.crash_after = calls
    with suppress(CrashNow):
        voting.ask(2, 5, 1, 1)
    voting.disk.crash_after = None
    voting.start()
    read = voting.quorum_state()
    voting.disk.lose_power("all")
    assert voting.quorum_state() == read


def test_a_vote_is_for_one_directory_of_a_candidate() -> None:
    voting = Voting([1])
    assert voting.ask(2, 5, 1, 1) == (NONE, True)
    assert voting.ask(2, 5, 1, 1, replica_directory_id=b"another one here") == (NONE, False)


def test_the_epoch_is_the_larger_of_file_and_log() -> None:
    """QC-04, X24."""
    assert Voting([1, 7], QuorumState(epoch=5, voted=ReplicaKey(2))).replica.epoch == 7
    assert Voting([1, 2], QuorumState(epoch=5)).replica.epoch == 5
    assert Voting([]).replica.epoch == 0


def test_a_vote_of_an_older_epoch_than_the_log_does_not_bind() -> None:
    voting = Voting([1, 7], QuorumState(epoch=5, voted=ReplicaKey(2)))
    assert voting.ask(3, 8, 7, 2) == (NONE, True)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"cluster_id": "other"}, ErrorCode.INCONSISTENT_CLUSTER_ID),
        ({"voter_id": 9}, ErrorCode.INVALID_VOTER_KEY),
        ({"voter_directory_id": b"not my directory"}, ErrorCode.INVALID_VOTER_KEY),
        ({"last_offset": -1}, INVALID),
        ({"last_offset_epoch": -1}, INVALID),
        ({"partition_index": 1}, INVALID),
        ({"topics": []}, INVALID),
        ({"replica_id": 1}, INVALID),
    ],
)
def test_malformed_or_misdirected_requests_are_refused_and_change_nothing(
    changes: dict[str, Any], expected: ErrorCode
) -> None:
    voting = Voting([1])
    assert voting.ask(2, 5, 1, 1, **changes) == (expected, False)
    assert voting.replica.epoch == 1


def test_a_quorum_state_that_cannot_be_read_is_an_error_and_not_a_fresh_start() -> None:
    disk = SimDisk(Random(0))
    store = QuorumStateStore(disk, config().directory)
    store.write(QuorumState(epoch=5))
    disk.open(f"{config().directory}/quorum-state").truncate(10)
    with pytest.raises(CorruptQuorumState, match="quorum-state"):
        QuorumStateStore(disk, config().directory).read()


@pytest.mark.parametrize(
    "state", [QuorumState(), FREE, VOTED_2, FOLLOWING, QuorumState(7, 2, ReplicaKey(2, bytes(16)))]
)
def test_quorum_state_survives_its_file(state: QuorumState) -> None:
    disk = SimDisk(Random(0))
    QuorumStateStore(disk, "meta").write(state)
    disk.lose_power()
    assert QuorumStateStore(disk, "meta").read() == state


def test_at_any_moment_of_power_loss_the_file_holds_the_old_or_the_new_state() -> None:
    for seed in range(50):
        for calls in range(8):
            disk = SimDisk(Random(seed))
            store = QuorumStateStore(disk, "meta")
            store.write(FREE)
            disk.crash_after = calls
            try:
                store.write(VOTED_2)
            except BaseException as crash:
                assert type(crash).__name__ == "CrashNow"
            disk.crash_after = None
            disk.lose_power()
            assert QuorumStateStore(disk, "meta").read() in (FREE, VOTED_2), f"seed {seed}, call {calls}"
