"""Downloads of snapshots while those who take part in them die and change (SN-05, SN-06, rule 36).

Three voters have given up the log before their snapshots; an observer that was away must come back over one of these.
The file goes over the wire in many pieces, so there is always time for something to happen on the way.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from squall.nodes.raft.config import RaftConfig
from squall.nodes.raft.snapshots import PART, SnapshotId
from squall.nodes.storage.config import LogConfig
from tests.nodes.raft.conftest import Cluster, Member

AWAY = 101
DIRECTORY = "__cluster_metadata-0"


class Retaining(Cluster):
    """Nodes that keep one snapshot and no log before it, and send snapshots in small pieces."""

    def config(self, node_id: int) -> RaftConfig:
        small = LogConfig(segment_bytes=1024)
        return replace(super().config(node_id), log=small, retention_bytes=0, snapshot_fetch_max_bytes=200)


def snapshot(member: Member) -> SnapshotId:
    """Have a node make a snapshot of all that it knows to be committed."""
    replica = member.up
    last = list(replica.committed(replica.log.start_offset))[-1]
    writer = replica.begin_snapshot(SnapshotId(last.next_offset, last.epoch), 0)
    for number in range(20):
        writer.append([b"%d of %d" % (number, member.id) + bytes(200)])
    assert replica.finish_snapshot(writer)
    return writer.id


def prepared(seed: object) -> Retaining:
    """One is away, and what it lacks is in nobody's log any more."""
    cluster = Retaining(voters=3, observers=1, seed=seed)
    cluster.start()
    cluster.elect()
    cluster.run_until(lambda: cluster.members[AWAY].up.high_watermark > 0)
    cluster.members[AWAY].lose_power()
    for _ in range(2):
        end = [cluster.append(b"x" * 90) for _ in range(30)][-1] + 1
        cluster.run_until(lambda end=end: all(cluster.members[one].up.high_watermark >= end for one in (1, 2, 3)))
        for voter in (1, 2, 3):
            snapshot(cluster.members[voter])
    assert all(cluster.members[voter].up.log.start_offset > 30 for voter in (1, 2, 3))
    return cluster


def half_way(cluster: Cluster) -> bool:
    member = cluster.members[AWAY]
    names = [f"{DIRECTORY}/{name}" for name in member.disk.list(DIRECTORY) if name.endswith(PART)]
    return any(len(member.disk.content(name) or b"") > 1_000 for name in names)


def comes_back(cluster: Cluster) -> None:
    """The one that was away has everything, by a snapshot that is one of the voters' to the last byte."""
    away = cluster.members[AWAY]
    end = cluster.append(b"after")

    def caught_up() -> bool:
        return away.replica is not None and away.up.high_watermark > end

    cluster.run_until(caught_up)
    latest = away.up.snapshots.latest
    assert latest is not None and away.up.log.start_offset == latest.end_offset
    content = away.up.snapshots.read(latest, 0, 1 << 20)
    held = [one.up.snapshots for one in cluster.members.values() if one.id != AWAY and one.replica is not None]
    assert content in [one.read(latest, 0, 1 << 20) for one in held if latest in one.ids], f"seed {cluster.seed}"
    assert not [name for name in away.disk.list(DIRECTORY) if name.endswith(PART)]


def begun(cluster: Cluster) -> int:
    return len(cluster.trace.named("snapshot_fetch"))


def test_who_was_away_too_long_comes_back_over_a_snapshot_and_the_tail() -> None:
    cluster = prepared(1)
    cluster.members[AWAY].start()
    comes_back(cluster)
    assert begun(cluster) == 1
    assert not [deed for deed in cluster.members[AWAY].disk.misused_files() if PART in deed]


def test_a_fetcher_that_stops_on_the_way_closes_its_files() -> None:
    cluster = prepared(1)
    away = cluster.members[AWAY]
    away.start()
    cluster.run_until(lambda: half_way(cluster))
    away.up.close(cluster.now)
    assert away.disk.open_files() == []
    assert not [name for name in away.disk.list(DIRECTORY) if name.endswith(PART)]


@pytest.mark.parametrize("seed", range(5))
def test_after_a_change_of_leader_the_download_begins_anew_with_the_next(seed: int) -> None:
    """Two nodes' snapshots of the same id need not have the same bytes."""
    cluster = prepared(seed)
    cluster.members[AWAY].start()
    cluster.run_until(lambda: half_way(cluster))
    leader = cluster.elect()
    leader.lose_power()
    cluster.run_until(lambda: cluster.leader is not None and cluster.leader is not leader)
    cluster.elect()
    comes_back(cluster)
    assert begun(cluster) == 2
    assert cluster.members[AWAY].up.leader_and_epoch[0] != leader.id


@pytest.mark.parametrize("seed", range(5))
def test_a_fetcher_that_dies_on_the_way_leaves_nothing_behind_and_begins_anew(seed: int) -> None:
    cluster = prepared(seed)
    away = cluster.members[AWAY]
    away.start()
    cluster.run_until(lambda: half_way(cluster))
    away.replica = None  # killed: what it has written stays
    away.held.clear()
    cluster.run(500)
    away.start()
    assert not half_way(cluster), "what was never finished is still there"
    comes_back(cluster)
    assert begun(cluster) == 2


@pytest.mark.parametrize("seed", range(5))
def test_a_leader_that_dies_and_is_back_at_once_is_no_obstacle(seed: int) -> None:
    cluster = prepared(seed)
    cluster.members[AWAY].start()
    cluster.run_until(lambda: half_way(cluster))
    leader = cluster.elect()
    leader.lose_power()
    leader.start()
    cluster.run(3_000)
    cluster.elect()
    comes_back(cluster)


@pytest.mark.parametrize("seed", range(12))
def test_whoever_dies_whenever_in_the_end_all_have_the_same(seed: int) -> None:
    """Random deaths of one node at a time, at the fetcher also between two calls of its disk."""
    cluster = prepared(seed)
    rng = Random(f"deaths/{seed}")
    cluster.members[AWAY].start()
    for _ in range(6):
        cluster.run(rng.randint(5, 400))
        member = cluster.members[rng.choice([1, 2, 3, AWAY, AWAY])]
        if member.id == AWAY and rng.random() < 0.7:
            member.disk.crash_after = rng.randrange(40)
            cluster.run(rng.randint(100, 1_000))
        member.lose_power()
        cluster.run(rng.randint(1, 3_000))
        member.start()
    cluster.run(5_000)
    cluster.elect()
    comes_back(cluster)
