"""The specification of KRaft refuses what it must, and a simulated run follows it (DA-08)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from squall.harness.simulation.run.run import SimOptions, simulate
from squall.harness.simulation.run.scenarios import find_scenario
from squall.harness.specification.broken import SpecificationBroken
from squall.harness.specification.following import Follower
from squall.harness.specification.kraft import KRaft

SUITES = Path(__file__).resolve().parents[3] / "suites"


def state(node: int, role: str, epoch: int) -> tuple[str, dict[str, Any]]:
    return "state", {"node": node, "role": role, "epoch": epoch, "leader": -1}


def vote(node: int, epoch: int, candidate: int) -> tuple[str, dict[str, Any]]:
    return "vote", {"node": node, "epoch": epoch, "candidate": candidate}


def append(node: int, epoch: int, first: int, last: int) -> tuple[str, dict[str, Any]]:
    return "append", {"node": node, "epoch": epoch, "first": first, "last": last}


def elected(leader: int, epoch: int, voter: int) -> Iterator[tuple[str, dict[str, Any]]]:
    yield state(leader, "prospective", epoch - 1)
    yield state(leader, "candidate", epoch)
    yield vote(leader, epoch, leader)
    yield state(voter, "unattached", epoch)
    yield vote(voter, epoch, leader)
    yield state(leader, "leader", epoch)
    yield append(leader, epoch, 0, 0)


BEGUN = [*elected(1, 1, 2), state(2, "follower", 1), append(2, 1, 0, 0)]
SYNCED = [("fsync", {"node": node, "durable": 1}) for node in (1, 2)]
COMMITTED = [*BEGUN, *SYNCED, ("high_watermark", {"node": 1, "epoch": 1, "offset": 1})]


def followed(events: list[tuple[str, dict[str, Any]]]) -> list[str | None]:
    spec = KRaft((1, 2, 3))
    return [spec.step(name, fields) for name, fields in events]


def test_events_are_actions_by_their_names_in_the_specification() -> None:
    assert followed(COMMITTED) == [
        "VoterElectionTimeout", "ConcludePreVote", "ConcludePreVote", "HandleVoteRequest", "HandleVoteRequest",
        "BecomeLeader", "HandleClientRequest", "AcceptBeginQuorumRequest", "HandleFetchResponse", None, None,
        "AcceptFetchRequest",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("events", "action"),
    [
        pytest.param([state(1, "candidate", 1), state(1, "leader", 1)], "BecomeLeader", id="without a majority"),
        pytest.param([*BEGUN, vote(2, 1, 3)], "HandleVoteRequest", id="a second vote"),
        pytest.param([*BEGUN, state(2, "unattached", 0)], "HandleVoteRequest", id="an epoch that falls"),
        pytest.param(
            [*COMMITTED, state(3, "candidate", 2), vote(3, 2, 3), state(2, "unattached", 2), vote(2, 2, 3)],
            "HandleVoteRequest", id="a vote for a shorter log",
        ),
        pytest.param([*BEGUN, append(1, 1, 3, 3)], "HandleClientRequest", id="a gap"),
        pytest.param([*BEGUN, append(2, 1, 1, 1)], "HandleFetchResponse", id="a record that no leader wrote"),
        pytest.param(
            [*BEGUN, ("high_watermark", {"node": 1, "epoch": 1, "offset": 1})], "AcceptFetchRequest", id="not synced"
        ),
        pytest.param(
            [*COMMITTED, ("high_watermark", {"node": 2, "offset": 1}), ("truncate", {"node": 2, "end": 0, "was": 1})],
            "HandleFetchResponse", id="committed records truncated",
        ),
    ],
)  # fmt: skip
def test_what_the_specification_forbids_is_broken(events: list[tuple[str, dict[str, Any]]], action: str) -> None:
    with pytest.raises(SpecificationBroken, match=rf"^{action}\("):
        followed(events)


def short(name: str) -> Any:
    scenario, _ = find_scenario(name, SUITES)
    return scenario.model_copy(update={"time": scenario.time.model_copy(update={"load": 3.0})})


def test_a_simulated_run_follows_both_specifications() -> None:
    follower = Follower()
    found = simulate(short("swarm"), 3, SimOptions(swarm=True), witness=follower)
    assert found.verdict == "valid", found.problem
    taken = follower.taken()
    for action in ("RestartWithState", "BecomeLeader", "HandleFetchResponse", "WriteRecordToLeader",
                   "ReceiveFetchRequest", "ReceiveFetchResponse", "ReceiveMetadataUpdate"):  # fmt: skip
        assert taken[action] > 0, action


def test_a_node_that_does_not_sync_its_votes_majority_breaks_the_specification() -> None:
    """The mutant acknowledges metadata that it has not made durable."""
    options = SimOptions(swarm=True, mutants=("metadata-not-fsynced",), observed=False)
    found = simulate(short("swarm"), 2, options, witness=Follower())
    assert found.verdict == "invalid" and "AcceptFetchRequest" in found.problem


@pytest.mark.full
@pytest.mark.parametrize("name", ["swarm", "control-plane", "push-raft"])
@pytest.mark.parametrize("seed", range(1, 6))
def test_swarms_follow_both_specifications(name: str, seed: int) -> None:
    scenario, _ = find_scenario(name, SUITES)
    found = simulate(scenario, seed, SimOptions(swarm=True), witness=Follower())
    assert found.verdict == "valid", found.problem
