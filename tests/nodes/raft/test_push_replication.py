"""Push replication keeps what pull keeps: ELECT, HWM and LM, votes, snapshots (PP-04); and who pushes is not asked."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from squall.nodes.protocol.messages import ApiKey
from squall.nodes.raft.config import Replication, Variant
from tests.nodes.raft.test_snapshot_downloads import Retaining, snapshot

PUSHES = [Variant(Replication.PUSH), Variant(Replication.PUSH_WITH_HINT)]
both_kinds = pytest.mark.parametrize("variant", PUSHES, ids=lambda one: one.replication.value)


@pytest.fixture
def counted(make_cluster: Any, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Make a cluster with `counts`: how many requests each voter sent, by API and receiver."""

    def make(**options: Any) -> Any:
        cluster = make_cluster(**options)
        cluster.counts = {}
        send = cluster.send

        def counting(sender: Any, outbound: Any) -> None:
            key = (ApiKey(outbound.message.API_KEY), outbound.destination.id)
            cluster.counts[key] = cluster.counts.get(key, 0) + 1
            send(sender, outbound)

        cluster.send = counting
        return cluster.start()

    return make


@both_kinds
def test_voters_never_fetch_and_observers_do(counted: Any, variant: Variant) -> None:
    cluster = counted(observers=1, variant=variant)
    leader = cluster.elect()
    offset = cluster.append(b"x")
    cluster.run(1_000)
    assert all(one.up.high_watermark > offset for one in cluster.members.values())
    assert (ApiKey.BEGIN_QUORUM_EPOCH, leader.id) not in cluster.counts
    fetchers = {progress for member in cluster.members.values() for progress in _fetched_by(member)}
    assert fetchers == {101}


def _fetched_by(member: Any) -> list[int]:
    """The observers whose fetches this leader has seen; voters are seen by their acknowledgements."""
    return list(member.up.role.observers) if member.up.is_leader else []


@both_kinds
def test_heartbeats_keep_followers_while_nothing_is_written(counted: Any, variant: Variant) -> None:
    cluster = counted(variant=variant)
    leader = cluster.elect()
    epoch = leader.up.epoch
    cluster.run(30_000)
    assert cluster.leader.up.epoch == epoch


@both_kinds
def test_a_leader_without_acknowledgements_resigns(counted: Any, variant: Variant) -> None:
    """QC-18 holds for both directions."""
    cluster = counted(variant=variant)
    leader = cluster.elect()
    cluster.isolate(leader.id)
    cluster.run(4_000)
    assert not leader.up.is_leader
    assert cluster.leader is not None


@both_kinds
def test_what_was_never_committed_is_replaced_by_the_new_leaders_records(counted: Any, variant: Variant) -> None:
    cluster = counted(variant=variant)
    old = cluster.elect()
    cluster.isolate(old.id)
    for number in range(5):
        old.up.append(cluster.now, [[b"lost %d" % number]])
    old.iterate()
    cluster.run_until(lambda: cluster.leader is not None and cluster.leader is not old and not old.up.is_leader)
    cluster.elect()
    kept = [cluster.append(b"kept %d" % number) for number in range(8)]
    cluster.heal()
    cluster.run_until(lambda: all(one.up.high_watermark > kept[-1] for one in cluster.members.values()))
    cluster.check_log_matching()
    values = [value for _, _, batch in cluster.content(old.id) for value in batch]
    assert b"kept 7" in values and b"lost 0" not in values


@both_kinds
def test_a_voter_below_the_log_start_takes_a_snapshot(variant: Variant) -> None:
    cluster = Retaining(variant=variant)
    cluster.start()
    leader = cluster.elect()
    behind = next(one for one in cluster.members.values() if one is not leader)
    cluster.isolate(behind.id)
    for _ in range(2):
        last = [cluster.append(b"x" * 90) for _ in range(30)][-1]
        cluster.run_until(lambda last=last: leader.up.high_watermark > last)
        cluster.run(1_000)
        for member in cluster.members.values():
            if member is not behind:
                snapshot(member)
    cluster.heal()
    cluster.run_until(lambda: behind.up.high_watermark > last)
    assert behind.up.log.start_offset > 30


def _chaos(make_cluster: Any, variant: Variant, seed: int) -> Any:
    """Twenty simulated seconds of crashes, power losses and partitions, then calm."""
    cluster = make_cluster(voters=3 + 2 * (seed % 2), observers=1, seed=seed, variant=variant).start()
    rng = Random(f"{seed}/push")
    for number in range(40):
        cluster.run(rng.randint(100, 900))
        member = cluster.members[rng.choice(list(cluster.members))]
        fault = rng.random()
        if fault < 0.15 and member.replica is not None:
            member.lose_power()
        elif fault < 0.30 and member.replica is not None:
            member.disk.crash_after = rng.randint(1, 12)
        elif fault < 0.50:
            cluster.isolate(member.id)
        elif fault < 0.60:
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


@both_kinds
@pytest.mark.parametrize("block", [0, *(pytest.param(one, marks=pytest.mark.full) for one in range(1, 20))])
def test_invariants_hold_under_crashes_power_losses_and_partitions(
    make_cluster: Any, variant: Variant, block: int
) -> None:
    """PP-04: ELECT and HWM at every step, LM at the end, and then the quorum makes progress again."""
    for seed in range(block * 10, block * 10 + 10):
        cluster = _chaos(make_cluster, variant, seed)
        cluster.elect()
        offset = cluster.append(b"after the storm")
        members = cluster.members.values()
        cluster.run_until(lambda members=members, offset=offset: all(one.up.high_watermark > offset for one in members))
        cluster.check_log_matching()
        assert not [event for event in cluster.trace.events if event[0] == "implausible"]
