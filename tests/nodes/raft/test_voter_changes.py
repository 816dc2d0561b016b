"""Voters come and go while the quorum works (KIP-853, rule 40, PP-02, DA-06)."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

import pytest
from kio.schema.voters_record.v0.data import VotersRecord
from kio.serial import entity_reader

from squall.nodes.protocol.errors import ErrorCode
from squall.nodes.protocol.messages import ApiKey
from squall.nodes.protocol.messages.add_raft_voter import AddRaftVoterRequest, Listener
from squall.nodes.protocol.messages.remove_raft_voter import RemoveRaftVoterRequest
from squall.nodes.protocol.requests.session import ServerRequest
from squall.nodes.protocol.schema import Message
from squall.nodes.raft import messages
from squall.nodes.raft.config import Voter
from squall.nodes.raft.quorum_state import ReplicaKey
from squall.nodes.raft.voters import VoterHistory, VoterSet, voters_record


def directory(number: int) -> bytes:
    return number.to_bytes(16, "big")


def add_of(number: int, timeout_ms: int = 5_000) -> AddRaftVoterRequest:
    listeners = [Listener(name="CONTROLLER", host=f"host{number}", port=9093)]
    return AddRaftVoterRequest(
        cluster_id="cluster",
        timeout_ms=timeout_ms,
        voter_id=number,
        voter_directory_id=directory(number),
        listeners=listeners,
    )


def remove_of(number: int, directory_id: bytes | None = None) -> RemoveRaftVoterRequest:
    known = directory(number) if directory_id is None else directory_id
    return RemoveRaftVoterRequest(cluster_id="cluster", voter_id=number, voter_directory_id=known)


def ask(member: Any, body: Message, version: int = 0) -> ServerRequest:
    cluster = member.cluster
    request = ServerRequest(body.API_KEY, version, body, "test", "CONTROLLER", 1, cluster.now)
    handlers = {
        int(ApiKey.ADD_RAFT_VOTER): member.up.handle_add_raft_voter,
        int(ApiKey.REMOVE_RAFT_VOTER): member.up.handle_remove_raft_voter,
    }
    member.guard(lambda: handlers[body.API_KEY](cluster.now, request))
    member.iterate()
    return request


def error_of(request: ServerRequest) -> int | None:
    return None if request.answer is None else request.answer.response.error_code  # type: ignore[union-attr]


def settled(make_cluster: Any, voters: int = 3, spares: int = 1, seed: int = 0) -> Any:
    """A quorum whose voters have all told their directories."""
    cluster = make_cluster(voters=voters, spares=spares, dynamic=True, seed=seed).start()
    cluster.elect()
    cluster.run_until(lambda: all_known(cluster, voters), limit_ms=20_000)
    cluster.run(1_000)
    return cluster


def all_known(cluster: Any, voters: int) -> bool:
    leader = cluster.leader
    if leader is None:
        return False
    known = [voter for voter in leader.up.voters.voters if voter.directory_id == directory(voter.id)]
    return len(known) == voters and leader.up.high_watermark == leader.up.end_offset


# -- sets and their history ------------------------------------------------------------------------------------


def test_the_latest_record_counts_and_a_truncation_brings_back_the_one_before() -> None:
    one, two = Voter(1, "a", 1), Voter(2, "b", 2)
    history = VoterHistory([one])
    history.append(5, VoterSet((one, two)))
    assert (history.latest.ids, history.latest_offset, history.at(5), history.at(6)) == (
        (1, 2), 5, None, VoterSet((one, two)),
    )  # fmt: skip
    assert not history.truncate(6)
    assert history.truncate(5)
    assert (history.latest.ids, history.latest_offset) == ((1,), -1)


def test_a_voter_is_its_id_and_its_directory() -> None:
    voters = VoterSet((Voter(1, "a", 1, directory(1)), Voter(2, "b", 2)))
    assert voters.has(ReplicaKey(1, directory(1)))
    assert not voters.has(ReplicaKey(1, directory(9))), "who comes back with an empty disk is another"
    assert voters.has(ReplicaKey(2, directory(9))), "a directory not known yet matches any"


def test_another_implementation_reads_our_voters_record() -> None:
    value = voters_record(VoterSet((Voter(1, "a", 1, directory(1)), Voter(2, "b", 2, directory(2)))))
    record, _ = entity_reader(VotersRecord)(value, 0)
    assert [(voter.voter_id, voter.endpoints[0].host, voter.endpoints[0].port) for voter in record.voters] == [
        (1, "a", 1), (2, "b", 2),
    ]  # fmt: skip
    assert record.voters[0].voter_directory_id.bytes == directory(1)


# -- changes ---------------------------------------------------------------------------------------------------


def test_the_first_leader_writes_the_voters_down_and_they_tell_their_directories(make_cluster: Any) -> None:
    """UpdateRaftVoter: each says where it is until the log says so too."""
    cluster = settled(make_cluster, spares=0)
    for member in cluster.members.values():
        assert [voter.directory_id for voter in member.up.voters.voters] == [directory(n) for n in (1, 2, 3)]


def test_an_observer_that_has_caught_up_is_added_and_counts(make_cluster: Any) -> None:
    cluster = settled(make_cluster)
    assert not cluster.members[4].up.votes
    added = ask(cluster.leader, add_of(4))
    cluster.run_until(lambda: error_of(added) is not None)
    assert error_of(added) == ErrorCode.NONE
    cluster.run(1_000)
    assert all(member.up.voters.ids == (1, 2, 3, 4) for member in cluster.members.values())
    assert cluster.members[4].up.votes
    leader = cluster.leader
    for number in [number for number in (1, 2, 3) if number != leader.id]:
        cluster.members[number].lose_power()
    offset = cluster.append(b"needs three of four")
    cluster.run(1_000)
    assert leader.up.high_watermark <= offset, "two of four are no majority"


def test_a_snapshot_that_ends_at_a_voters_record_holds_the_voters_before_it(make_cluster: Any) -> None:
    """SN-03: the record itself lies above the snapshot."""
    cluster = settled(make_cluster)
    added = ask(cluster.leader, add_of(4))
    cluster.run_until(lambda: error_of(added) is not None)
    replica = cluster.leader.up
    change = replica._core.voters.latest_offset
    held = [[record.value for record in replica._quorum_records(end)][-1] for end in (change, change + 1)]
    assert held == [voters_record(replica._core.voters.at(change)), voters_record(replica.voters)]
    assert (replica._core.voters.at(change).ids, replica.voters.ids) == ((1, 2, 3), (1, 2, 3, 4))


def test_a_replica_that_never_catches_up_is_not_added(make_cluster: Any) -> None:
    cluster = settled(make_cluster)
    cluster.members[4].lose_power()
    cluster.append(b"more")
    added = ask(cluster.leader, add_of(4, timeout_ms=500))
    cluster.run(1_000)
    assert error_of(added) == ErrorCode.REQUEST_TIMED_OUT
    assert cluster.leader.up.voters.ids == (1, 2, 3)


def test_one_change_at_a_time(make_cluster: Any) -> None:
    cluster = settled(make_cluster)
    leader = cluster.leader
    cluster.isolate(leader.id)
    other = next(number for number in (1, 2, 3) if number != leader.id)
    first = ask(leader, remove_of(other))
    assert error_of(first) is None and other not in leader.up.voters.ids, "it counts before it is committed"
    assert error_of(ask(leader, remove_of(leader.id))) == ErrorCode.REQUEST_TIMED_OUT
    assert error_of(ask(leader, add_of(4))) == ErrorCode.REQUEST_TIMED_OUT


def test_a_change_that_was_not_committed_is_undone_by_the_next_leader(make_cluster: Any) -> None:
    """The record is cut off with the log, and the voters before it count again."""
    cluster = settled(make_cluster)
    old = cluster.leader
    cluster.isolate(old.id)
    other = next(number for number in (1, 2, 3) if number != old.id)
    change = ask(old, remove_of(other))
    cluster.run_until(lambda: cluster.leader is not None and cluster.leader is not old)
    cluster.heal()
    cluster.run(5_000)
    assert error_of(change) == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert old.up.voters.ids == (1, 2, 3) and old.up.votes


def test_who_is_no_leader_or_names_no_voter_or_one_twice_is_refused(make_cluster: Any) -> None:
    cluster = settled(make_cluster)
    leader = cluster.leader
    follower = next(cluster.members[number] for number in (1, 2, 3) if number != leader.id)
    assert error_of(ask(follower, add_of(4))) == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert error_of(ask(leader, remove_of(9))) == ErrorCode.VOTER_NOT_FOUND
    assert error_of(ask(leader, remove_of(follower.id, directory(9)))) == ErrorCode.VOTER_NOT_FOUND
    assert error_of(ask(leader, add_of(follower.id))) == ErrorCode.DUPLICATE_VOTER


def test_with_configured_voters_nothing_changes_them(make_cluster: Any) -> None:
    cluster = make_cluster().start()
    leader = cluster.elect()
    assert error_of(ask(leader, remove_of(1))) == ErrorCode.UNSUPPORTED_VERSION


def test_a_removed_voter_becomes_an_observer_and_disturbs_nobody(make_cluster: Any) -> None:
    """P19: removed while it was cut off; healed, it learns of it from the log and stands no more."""
    for seed in range(5):
        cluster = settled(make_cluster, voters=4, spares=0, seed=seed)
        leader = cluster.leader
        removed = next(cluster.members[number] for number in (1, 2, 3, 4) if number != leader.id)
        cluster.isolate(removed.id)
        answer = ask(leader, remove_of(removed.id))
        cluster.run_until(lambda answer=answer: error_of(answer) == ErrorCode.NONE)
        epoch = leader.up.epoch
        cluster.run(10_000)
        cluster.heal()
        cluster.run(10_000)
        assert leader.up.is_leader and leader.up.epoch == epoch, f"seed {seed}: an election"
        assert not removed.up.votes and removed.up.leader_and_epoch == (leader.id, epoch)
        assert removed.up.high_watermark == leader.up.high_watermark, f"seed {seed}: it no longer fetches"


def test_a_leader_that_removes_itself_commits_lingers_and_leaves(make_cluster: Any) -> None:
    """DA-06."""
    cluster = settled(make_cluster, spares=0)
    old = cluster.leader
    answer = ask(old, remove_of(old.id))
    assert error_of(answer) is None and old.up.is_leader
    cluster.run_until(lambda: error_of(answer) is not None)
    assert error_of(answer) == ErrorCode.NONE
    assert old.up.is_leader, "it left before the others could hear of the commit"
    cluster.run_until(lambda: cluster.leader is not None and cluster.leader is not old, limit_ms=3_000)
    new = cluster.elect()
    cluster.run(8_000)
    assert old.up.leader_and_epoch == (new.id, new.up.epoch) and not old.up.votes
    assert new.up.voters.ids == tuple(number for number in (1, 2, 3) if number != old.id)


def test_who_comes_back_with_an_empty_disk_is_not_the_voter_it_was(make_cluster: Any) -> None:
    cluster = settled(make_cluster, spares=0)
    cluster.run(500)
    leader = cluster.leader
    follower = next(one for one in cluster.members.values() if one is not leader)
    seen = leader.up.role.others[follower.id].end_offset
    follower.lose_power()
    offset = leader.up.end_offset
    stranger = replace(cluster.config(follower.id), directory_id=directory(99))
    fetch = messages.fetch(stranger, leader.up.epoch, offset, leader.up.epoch)
    leader.up.handle_fetch(cluster.now, ServerRequest(ApiKey.FETCH, 17, fetch, "test", "CONTROLLER", 7, cluster.now))
    assert leader.up.role.others[follower.id].end_offset == seen
    assert leader.up.role.observers[follower.id].end_offset == offset


# -- under faults ----------------------------------------------------------------------------------------------


def _chaos(make_cluster: Any, seed: int) -> Any:
    """Voters are added and removed while nodes lose power and links; ELECT and HWM are checked at every step."""
    cluster = make_cluster(voters=3, observers=1, spares=2, dynamic=True, seed=seed).start()
    rng = Random(f"{seed}/changes")
    for number in range(60):
        cluster.run(rng.randint(100, 900))
        member = cluster.members[rng.choice(list(cluster.members))]
        fault = rng.random()
        if fault < 0.12 and member.replica is not None:
            member.lose_power()
        elif fault < 0.22 and member.replica is not None:
            member.disk.crash_after = rng.randint(1, 12)
        elif fault < 0.35:
            cluster.isolate(member.id)
        elif fault < 0.45:
            cluster.loss = 0.2
        elif fault < 0.75:
            cluster.heal()
        for down in cluster.members.values():
            if down.replica is None and rng.random() < 0.5:
                down.start()
        for leader in list(cluster.members.values()):
            if leader.replica is None or not leader.replica.is_leader:
                continue
            target = rng.choice(list(cluster.controllers))
            body = remove_of(target) if target in leader.up.voters.ids else add_of(target, 1_000)
            ask(leader, body)
            if leader.replica is not None and leader.replica.is_leader:
                values = [b"%d" % number, b"at %d" % leader.id]
                leader.guard(lambda leader=leader, values=values: leader.up.append(cluster.now, [values]))
                leader.iterate()
    cluster.heal()
    for member in cluster.members.values():
        member.disk.crash_after = None
        if member.replica is None:
            member.start()
    cluster.run(8_000)
    return cluster


BLOCKS = [0, 1, *(pytest.param(block, marks=pytest.mark.full) for block in range(2, 12))]


@pytest.mark.parametrize("block", BLOCKS)
def test_invariants_hold_while_voters_change_under_crashes_and_partitions(make_cluster: Any, block: int) -> None:
    changed = 0
    for seed in range(block * 15, block * 15 + 15):
        cluster = _chaos(make_cluster, seed)
        cluster.elect()
        offset = cluster.append(b"after the storm")
        cluster.run_until(
            lambda cluster=cluster, offset=offset: all(
                one.up.high_watermark > offset for one in cluster.members.values()
            )
        )
        cluster.check_log_matching()
        sets = {member.up.voters for member in cluster.members.values()}
        assert len(sets) == 1, f"seed {seed}: {sets}"
        changed += len({tuple(event["voters"]) for event in cluster.trace.named("voters")}) > 2
    assert changed > 5, "hardly any voter was ever added or removed"
