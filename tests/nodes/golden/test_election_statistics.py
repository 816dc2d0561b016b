"""How elections go, in figures that every run of these tests prints (QC-10, rules 38 and 41)."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from squall.nodes.raft.roles import Follower, Prospective, Unattached
from tests.nodes.raft.conftest import Cluster

CANDIDACIES = 200
VOTERS = 5
ISOLATIONS = 20


def forced(seed: int) -> tuple[int, int]:
    """Five voters that stand at the same moment: the epoch in which one is elected, and when, in milliseconds."""
    cluster = Cluster(voters=VOTERS, seed=seed).start()
    for member in cluster.members.values():
        assert isinstance(member.up.role, Unattached)
        member.up.role.election_at = cluster.now
    for member in cluster.members.values():
        member.iterate()
    cluster.run_until(lambda: cluster.leader is not None, limit_ms=10_000)
    assert cluster.leader is not None
    return cluster.leader.up.epoch, cluster.now // 1000


def test_forced_simultaneous_candidacies_all_resolve(capsys: pytest.CaptureFixture[str]) -> None:
    """QC-10: few win the first round, and random backoff ends it."""
    found = [forced(seed) for seed in range(CANDIDACIES)]
    epochs = Counter(epoch for epoch, _ in found)
    times = sorted(at for _, at in found)
    told = ", ".join(f"{epoch} in {number}" for epoch, number in sorted(epochs.items()))
    with capsys.disabled():
        print(
            f"\n{CANDIDACIES} simultaneous candidacies of {VOTERS} voters, all resolved; elections by epochs: {told};"
        )
        print(f"mean {sum(epoch for epoch, _ in found) / CANDIDACIES:.2f} epochs,", end=" ")
        print(f"median {times[CANDIDACIES // 2]} ms, longest {times[-1]} ms")
    assert sum(epochs.values()) == CANDIDACIES
    assert sum(epoch for epoch, _ in found) < CANDIDACIES * 4, epochs


def elections_by_a_healed_voter(seed: int) -> int:
    """One voter is cut off for 20 s and comes back: how many epochs the others have been made to begin."""
    cluster: Any = Cluster(voters=VOTERS, seed=seed).start()
    leader = cluster.elect()
    cluster.run(500)
    lonely = next(one for one in cluster.members.values() if one is not leader)
    epoch = leader.up.epoch
    cluster.isolate(lonely.id)
    cluster.run(20_000)
    assert lonely.up.epoch == epoch, f"seed {seed}: it made epochs of its own"
    assert isinstance(lonely.up.role, Prospective | Follower)
    cluster.heal()
    offset = cluster.append(b"after")
    cluster.run_until(lambda: lonely.up.high_watermark > offset, limit_ms=6_000)
    cluster.run(3_000)
    return int(max(one.up.epoch for one in cluster.members.values()) - epoch)


def test_an_isolated_voter_that_is_healed_causes_no_election(capsys: pytest.CaptureFixture[str]) -> None:
    """KIP-996, rule 41: without pre-vote it would come back in a far higher epoch, and depose their leader."""
    elections = sum(elections_by_a_healed_voter(seed) for seed in range(ISOLATIONS))
    with capsys.disabled():
        print(f"\n{ISOLATIONS} voters isolated for 20 s and healed, with pre-vote: {elections} elections")
    assert elections == 0
