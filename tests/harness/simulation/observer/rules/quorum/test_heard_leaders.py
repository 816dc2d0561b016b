"""ELECT as the observer asserts it of followers that are served: they give their leader up later (QC-05, QC-18)."""

from __future__ import annotations

from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from squall.harness.simulation.observer.rules.quorum.heard_leaders import HeardLeaders
from squall.harness.simulation.observer.rules.rule import METADATA_DIRECTORY
from squall.harness.simulation.observer.state.observed_cluster import ObservedCluster
from squall.harness.simulation.observer.state.observed_log import InvariantBroken
from squall.harness.simulation.world.disk import SimDisk
from squall.nodes.raft.roles import Follower, Prospective

TIMEOUT = 2_000_000
PART = f"{METADATA_DIRECTORY}/00000000000000000020-0000000003.checkpoint.part"


class Following:
    """C1 follows node 2 in epoch 5, and gives it up at 2 s unless it is served."""

    def __init__(self, *, pulls: bool = True) -> None:
        cluster = ObservedCluster()
        cluster.names = {1: "c1", 2: "c2"}
        self.rule = HeardLeaders(cluster)
        self.process: Any = SimpleNamespace(name="c1", now=0, disk=SimDisk(Random(0)))
        self.role = Follower(5, 2, TIMEOUT, heard=True)
        raft = SimpleNamespace(role=self.role, pulls=pulls)
        config = SimpleNamespace(node_id=1, controller_quorum_fetch_timeout_ms=TIMEOUT // 1_000)
        self.node: Any = SimpleNamespace(raft=raft, config=config, broker=None)
        self.turns(0)

    def turns(self, now: int, gives_up_at: int | None = None) -> None:
        self.process.now = now
        if gives_up_at is not None:
            self.role.give_up_at = gives_up_at
        self.rule.turned(self.process, self.node)

    def appends(self, node: int = 1) -> None:
        self.rule.traced("append", {"node": node, "epoch": 5, "first": 7, "last": 9})

    def downloads(self) -> None:
        self.rule.traced("snapshot_fetch", {"node": 1, "end": 20, "epoch": 3})
        self.process.disk.open(PART, create=True)

    def gets_a_piece(self) -> None:
        self.process.disk.open(PART).append(b"piece")


@pytest.mark.parametrize("patience", [TIMEOUT, TIMEOUT // 8], ids=["a whole timeout", "buggify's eighth"])
def test_a_follower_that_is_served_gives_its_leader_up_later(patience: int) -> None:
    following = Following()
    following.appends()
    following.turns(500_000, 500_000 + patience)


def test_a_follower_that_does_not_count_what_it_has_appended_breaks_elect() -> None:
    following = Following()
    following.appends()
    with pytest.raises(
        InvariantBroken, match=r"^ELECT: c1 has appended what leader 2 of quorum epoch 5 sent, .* in 1500000 us, not in"
    ):
        following.turns(500_000)


def test_a_follower_that_does_not_remember_its_leader_breaks_elect() -> None:
    following = Following()
    following.role.heard = False
    following.turns(400_000)
    following.appends()
    with pytest.raises(InvariantBroken, match=r"^ELECT: c1 has appended .*, and does not count it as heard$"):
        following.turns(500_000, 500_000 + TIMEOUT)


def test_a_follower_that_does_not_count_a_piece_of_a_snapshot_breaks_elect() -> None:
    following = Following()
    following.downloads()
    following.turns(100_000)
    following.gets_a_piece()
    following.turns(200_000, 200_000 + TIMEOUT)
    following.turns(300_000)
    following.gets_a_piece()
    with pytest.raises(InvariantBroken, match=r"^ELECT: c1 has appended what leader 2"):
        following.turns(400_000)


def test_a_follower_that_does_not_count_the_last_piece_breaks_elect() -> None:
    """The log begins after the snapshot then, and the file has another name."""
    following = Following()
    following.downloads()
    following.process.disk.remove(PART)
    following.rule.traced("log_reset", {"node": 1, "end": 20, "was": 3})
    with pytest.raises(InvariantBroken, match=r"^ELECT: c1 has appended what leader 2"):
        following.turns(400_000)


def test_a_follower_that_is_not_served_waits_no_longer() -> None:
    following = Following()
    following.appends(node=2)
    following.turns(100_000)
    following.downloads()
    following.gets_a_piece()
    following.rule.died(following.process)
    following.turns(200_000)
    following.turns(300_000)


def test_another_role_has_its_own_time() -> None:
    following = Following()
    following.appends()
    following.node.raft.role = Prospective(5, 2, None, 0, TIMEOUT, {}, {1: True})
    following.turns(100_000)
    following.node.raft.role = Follower(6, 2, 900_000)
    following.appends()
    following.turns(200_000)


def test_a_leader_that_has_resigned_is_listened_to_no_longer() -> None:
    following = Following()
    following.role.abandoned = True
    following.appends()
    following.turns(100_000)


def test_a_leader_that_pushes_its_records_is_not_asked() -> None:
    following = Following(pulls=False)
    following.appends()
    following.turns(100_000)


def test_a_snapshot_that_a_follower_writes_itself_is_nothing_that_it_has_heard() -> None:
    """Seed 1011965 of `worlds`: it begins to write one in the turn in which a download is over."""
    following = Following()
    following.downloads()
    own = f"{METADATA_DIRECTORY}/00000000000000000026-0000000003.checkpoint.part"
    following.process.disk.open(own, create=True)
    following.turns(100_000)
    following.process.disk.open(own).append(b"own")
    following.turns(200_000)
    following.process.disk.remove(PART)
    following.turns(300_000)
    following.process.disk.open(own).append(b"own")
    following.turns(400_000)
