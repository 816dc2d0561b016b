"""A quorum of replicas elects, commits, survives crashes and partitions, and keeps its invariants under faults."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from itertools import pairwise
from random import Random
from typing import Any

import pytest

from squall.harness.simulation.world.disk import SimDisk
from squall.nodes.ports import NullTrace
from squall.nodes.protocol.messages.fetch import FetchRequest
from squall.nodes.raft import messages
from squall.nodes.raft.errors import NotLeader
from squall.nodes.raft.quorum_state import QuorumState, QuorumStateStore, ReplicaKey
from squall.nodes.raft.replica import RaftReplica
from squall.nodes.raft.roles import Candidate, Follower
from tests.nodes.raft.alone import VOTERS, Clock, config


def test_a_single_voter_leads_and_commits_once_its_disk_has_it(make_cluster: Any) -> None:
    cluster = make_cluster(voters=1).start()
    leader = cluster.elect().up
    assert leader.append(cluster.now, [[b"a", b"b"]]) == 2
    assert leader.high_watermark == 1, "counted before it was durable"
    leader.flush(cluster.now)
    assert leader.high_watermark == 3


@pytest.mark.parametrize("seed", range(12))
def test_a_single_voter_that_died_as_a_candidate_leads_once_it_stands_again(seed: int) -> None:
    """Observer rule DUE, `worlds` seed 987210: without a back-off it remained a candidate until the next event."""
    only = replace(config(), voters=VOTERS[:1])
    disk = SimDisk(Random(0))
    QuorumStateStore(disk, only.directory).write(QuorumState(3, voted=ReplicaKey(1, only.directory_id)))
    replica = RaftReplica(only, disk=disk, clock=Clock(), rng=Random(seed), trace=NullTrace(), now=0)
    assert isinstance(replica.role, Candidate)
    while not replica.is_leader:
        replica.tick(replica.deadline())
        replica.flush(0)
        assert replica.is_leader or replica.role.backing_off


@pytest.mark.parametrize("voters", [3, 5])
def test_voters_elect_one_leader_and_all_follow_it(make_cluster: Any, voters: int) -> None:
    cluster = make_cluster(voters=voters).start()
    leader = cluster.elect()
    cluster.run(1_000)
    for member in cluster.members.values():
        assert member.up.leader_and_epoch == (leader.id, leader.up.epoch)


def test_an_appended_batch_is_committed_on_every_node_and_observer(make_cluster: Any) -> None:
    cluster = make_cluster(voters=3, observers=2).start()
    cluster.elect()
    offset = cluster.append(b"one", b"two")
    cluster.run(1_000)
    for member in cluster.members.values():
        values = [batch.values for batch in member.up.committed(0) if not batch.is_control]
        assert values == [(b"one", b"two")]
        assert member.up.high_watermark == offset + 1


def test_observers_hear_of_a_commit_within_two_round_trips(make_cluster: Any) -> None:
    cluster = make_cluster(voters=3, observers=1).start()
    cluster.elect()
    cluster.run(1_000)
    offset = cluster.append(b"one")
    cluster.run(15)
    assert cluster.members[101].up.high_watermark == offset + 1


def test_only_the_leader_appends(make_cluster: Any) -> None:
    """QC-02: the leader of the one log is its only writer; `Cluster.check` asserts that an epoch has one leader."""
    cluster = make_cluster().start()
    leader = cluster.elect()
    follower = next(one for one in cluster.members.values() if one is not leader)
    with pytest.raises(NotLeader):
        follower.up.append(cluster.now, [[b"x"]])


@pytest.mark.parametrize("voters", [3, 5])
def test_a_minority_may_be_dead_and_a_majority_may_not(make_cluster: Any, voters: int) -> None:
    """FM-02, QC-19: 2f+1 voters commit at once without f of them, since there is no ISR to leave first. With f+1 dead
    nothing commits, and when these are back nothing is lost.
    """
    cluster = make_cluster(voters=voters).start()
    leader = cluster.elect()
    others = [one for one in cluster.members.values() if one is not leader]
    minority, one_more = others[: voters // 2], others[voters // 2]
    for member in minority:
        member.lose_power()
    offset = cluster.append(b"with a majority")
    cluster.run_until(lambda: leader.up.high_watermark > offset, limit_ms=100)
    one_more.lose_power()
    beyond = cluster.append(b"without one")
    cluster.run(500)
    assert leader.up.high_watermark <= beyond
    for member in (*minority, one_more):
        member.start()
    cluster.run(10_000)
    cluster.elect()
    cluster.run(1_000)
    values = {tuple(values for _, _, values in cluster.content(number)) for number in cluster.members}
    assert len(values) == 1, "all have the same log"
    assert (b"with a majority",) in values.pop()


def test_observers_do_not_count(make_cluster: Any) -> None:
    """MD-02: with two of three voters dead nothing commits, however many observers fetch."""
    cluster = make_cluster(voters=3, observers=5).start()
    leader = cluster.elect()
    for member in cluster.members.values():
        if member.id < 100 and member is not leader:
            member.lose_power()
    offset = leader.up.append(cluster.now, [[b"x"]])
    leader.iterate()
    cluster.run(1_000)
    assert leader.up.high_watermark <= offset


def test_followers_replace_a_dead_leader_with_the_next_epoch(make_cluster: Any) -> None:
    """QC-05: a follower gives its leader up within the fetch timeout, and stands in the very next epoch."""
    cluster = make_cluster().start()
    old = cluster.elect()
    cluster.run(1_000)
    epoch, seen = old.up.epoch, len(cluster.trace.named("state"))

    def epochs_of(role: str) -> list[object]:
        return [event["epoch"] for event in cluster.trace.named("state")[seen:] if event["role"] == role]

    old.lose_power()
    cluster.run_until(lambda: epochs_of("prospective"), limit_ms=cluster.config(1).fetch_timeout // 1_000)
    cluster.run_until(lambda: epochs_of("candidate"), limit_ms=3_000)
    assert epochs_of("candidate")[0] == epoch + 1
    assert cluster.elect() is not old


def test_a_clean_stop_hands_over_much_faster_than_a_crash(make_cluster: Any) -> None:
    """QC-12: the first successor stands at once."""
    cluster = make_cluster().start()
    leader = cluster.elect()
    cluster.run(1_000)
    leader.stop()
    cluster.run_until(lambda: cluster.leader is not None, limit_ms=100)


def test_an_isolated_leader_resigns_and_the_others_elect(make_cluster: Any) -> None:
    """QC-18, QC-22."""
    cluster = make_cluster().start()
    old = cluster.elect()
    cluster.run(1_000)
    cluster.isolate(old.id)
    cluster.run_until(lambda: not old.up.is_leader, limit_ms=3_100)
    cluster.run_until(lambda: cluster.leader is not None, limit_ms=8_000)
    assert cluster.leader is not old


def test_a_returning_leader_drops_what_was_never_committed(make_cluster: Any) -> None:
    """QC-13: the minority's tail is cut, the majority's record stands in its place."""
    cluster = make_cluster().start()
    old = cluster.elect()
    cluster.run(1_000)
    cluster.isolate(old.id)
    lost = cluster.append(b"never committed")
    cluster.run_until(lambda: cluster.leader is not None and cluster.leader is not old)
    new = cluster.elect()
    kept = cluster.append(b"committed")
    cluster.run(500)
    cluster.heal()
    cluster.run_until(lambda: old.up.high_watermark > kept)
    assert old.up.leader_and_epoch[0] == new.id
    values = [values for _, _, values in cluster.content(old.id)]
    assert (b"never committed",) not in values
    assert (b"committed",) in values
    assert cluster.history[lost][1] != (b"never committed",)


def test_a_deaf_follower_learns_of_its_leader_when_it_hears_again(make_cluster: Any) -> None:
    """QC-11: the announcement is repeated until the voter fetches."""
    cluster = make_cluster()
    for one in (1, 2):
        cluster.cut(one, 3)
    cluster.start()
    leader = cluster.elect()
    cluster.run(200)
    assert cluster.members[3].up.leader_and_epoch[0] is None, "it cannot have heard"
    cluster.heal()
    cluster.run_until(lambda: cluster.members[3].up.leader_and_epoch[0] is not None)
    cluster.run(3_000)
    assert cluster.members[3].up.leader_and_epoch == (leader.id, leader.up.epoch)
    assert leader.up.is_leader, "one that comes late unseats nobody (QC-10, pre-vote)"


def test_a_restarted_leader_never_leads_its_epoch_again(make_cluster: Any) -> None:
    """QC-04, rule 32: it comes back resigned, in the same epoch."""
    cluster = make_cluster().start()
    leader = cluster.elect()
    epoch = leader.up.epoch
    leader.lose_power()
    cluster.isolate(leader.id)
    leader.start()
    assert leader.up.role.name == "resigned"
    assert leader.up.epoch == epoch


def test_a_restarted_follower_knows_its_leader(make_cluster: Any) -> None:
    cluster = make_cluster().start()
    leader = cluster.elect()
    cluster.run(500)
    follower = next(one for one in cluster.members.values() if one is not leader)
    follower.lose_power()
    follower.start()
    assert isinstance(follower.up.role, Follower)
    assert follower.up.leader_and_epoch == (leader.id, leader.up.epoch)


def test_observers_never_stand_or_vote(make_cluster: Any) -> None:
    cluster = make_cluster(voters=3, observers=3, seed=3).start()
    cluster.elect()
    for member in list(cluster.members.values())[:3]:
        member.lose_power()
    cluster.run(20_000)
    roles = {event["role"] for event in cluster.trace.named("state") if int(str(event["node"])) > 100}
    assert roles <= {"observer-unattached", "observer-follower"}


def fetches_of(cluster: Any, node_id: int) -> list[tuple[int, int]]:
    """From now on, the time (microseconds) and the offset of each Fetch that this node sends."""
    sent: list[tuple[int, int]] = []
    send = cluster.send

    def noted(sender: Any, outbound: Any) -> None:
        if sender.id == node_id and isinstance(outbound.message, FetchRequest):
            sent.append((cluster.now, messages.read_fetch(outbound.message, 17).offset))
        send(sender, outbound)

    cluster.send = noted
    return sent


def test_a_restarted_observer_fetches_from_the_end_of_its_own_log(make_cluster: Any) -> None:
    """MD-06: what it had is on its disk; it asks for what came since."""
    cluster = make_cluster(voters=3, observers=1).start()
    cluster.elect()
    cluster.append(b"before")
    cluster.run(1_000)
    observer = cluster.members[101]
    observer.stop()
    missed = cluster.append(b"meanwhile")
    cluster.run(1_000)
    sent = fetches_of(cluster, 101)
    observer.start()
    stored = observer.up.end_offset
    cluster.run_until(lambda: observer.up.high_watermark > missed)
    assert 0 < stored <= missed
    assert {offset for _, offset in sent if offset <= missed} == {stored}


def test_an_observer_goes_on_fetching_while_nothing_happens(make_cluster: Any) -> None:
    """MD-07: each fetch waits for half a second at the leader, and the next one follows at once."""
    cluster = make_cluster(voters=3, observers=1).start()
    cluster.elect()
    cluster.run(1_000)
    sent = fetches_of(cluster, 101)
    cluster.run(10_000)
    times = [at for at, _ in sent]
    assert len(times) >= 19
    assert max(after - before for before, after in pairwise(times)) <= 510_000


def test_observers_find_a_new_leader(make_cluster: Any) -> None:
    cluster = make_cluster(voters=3, observers=2).start()
    old = cluster.elect()
    cluster.run(500)
    old.lose_power()
    cluster.run_until(lambda: cluster.leader is not None)
    new = cluster.elect()
    cluster.run(3_000)
    for number in (101, 102):
        assert cluster.members[number].up.leader_and_epoch == (new.id, new.up.epoch)


def test_many_operations_share_few_flushes(make_cluster: Any) -> None:
    """QC-21: the turn is the group commit."""
    cluster = make_cluster().start()
    leader = cluster.elect()
    cluster.run(500)
    before = leader.disk.syncs
    for number in range(1_000):
        leader.up.append(cluster.now, [[b"%d" % number]])
    leader.iterate()
    cluster.run_until(lambda: leader.up.high_watermark == leader.up.end_offset)
    assert leader.disk.syncs - before < 10


def test_every_voter_wins_some_cold_start(make_cluster: Any) -> None:
    """QC-25: of a hundred, each has its share."""
    winners = Counter(make_cluster(seed=seed).start().elect().id for seed in range(100))
    assert all(winners[voter] >= 20 for voter in (1, 2, 3)), winners


def _chaos(make_cluster: Any, voters: int, seed: int) -> Any:
    """Thirty simulated seconds of faults, then calm. Returns the cluster after it has agreed again."""
    cluster = make_cluster(voters=voters, observers=1, seed=seed).start()
    rng = Random(f"{seed}/faults")
    for number in range(60):
        cluster.run(rng.randint(100, 900))
        member = cluster.members[rng.choice(list(cluster.members))]
        fault = rng.random()
        if fault < 0.15 and member.replica is not None:
            member.lose_power()
        elif fault < 0.30 and member.replica is not None:
            member.disk.crash_after = rng.randint(1, 12)
        elif fault < 0.45:
            cluster.isolate(member.id)
        elif fault < 0.55:
            cluster.blocked.add((member.id, rng.randint(1, voters)))
        elif fault < 0.65:
            cluster.loss = 0.2
        elif fault < 0.80:
            cluster.heal()
        for down in cluster.members.values():
            if down.replica is None and rng.random() < 0.4:
                down.start()
        for leader in cluster.members.values():
            if leader.replica is not None and leader.replica.is_leader:
                values = [b"%d" % number, b"at %d" % leader.id]
                leader.guard(lambda leader=leader, values=values: leader.up.append(cluster.now, [values]))
                leader.iterate()
    cluster.heal()
    for member in cluster.members.values():
        member.disk.crash_after = None
        if member.replica is None:
            member.start()
    cluster.run(5_000)
    return cluster


BLOCKS = [0, 1, *(pytest.param(block, marks=pytest.mark.full) for block in range(2, 20))]


@pytest.mark.parametrize("voters", [3, 5])
@pytest.mark.parametrize("block", BLOCKS)
def test_invariants_hold_under_crashes_power_losses_and_partitions(make_cluster: Any, voters: int, block: int) -> None:
    """ELECT, HWM and LM over many seeds; afterwards the quorum makes progress again."""
    for seed in range(block * 20, block * 20 + 20):
        cluster = _chaos(make_cluster, voters, seed)
        cluster.elect()
        offset = cluster.append(b"after the storm")
        cluster.run_until(
            lambda cluster=cluster, offset=offset: all(
                one.up.high_watermark > offset for one in cluster.members.values()
            )
        )
        cluster.check_log_matching()


def test_one_seed_gives_one_trace(make_cluster: Any) -> None:
    assert _chaos(make_cluster, 3, 1).trace.events == _chaos(make_cluster, 3, 1).trace.events


def _storm(make_cluster: Any, seed: int) -> Any:
    """Five voters that stand all the time; whoever grants a vote loses its power soon after, and is back at once."""
    cluster = make_cluster(voters=5, seed=seed)
    cluster.delay = (1_000, 400_000)
    cluster.start()
    rng = Random(f"{seed}/storm")
    seen = 0
    for _ in range(400):
        cluster.run(20)
        votes = cluster.trace.named("vote")
        for vote in votes[seen:]:
            if vote["node"] != vote["candidate"] and rng.random() < 0.7:
                member = cluster.members[int(str(vote["node"]))]
                member.lose_power()
                member.start()
        seen = len(votes)
    cluster.delay = (500, 3_000)
    return cluster


def test_nobody_votes_twice_in_a_storm_of_crashing_voters(make_cluster: Any) -> None:
    """QC-08, ELECT: with votes kept in memory only, one of these seeds elects two leaders in one epoch."""
    for seed in range(15):
        _storm(make_cluster, seed).elect()
