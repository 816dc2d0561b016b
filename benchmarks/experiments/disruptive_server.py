"""Elections that a removed or returning voter causes: push and pull, with and without pre-vote (PP-02).

Four simulated controllers, of which one is removed from the voters while its leader cannot reach it, or is cut off for
twenty seconds and returns. A client writes five times a second. Counted are candidacies, that is, epochs that were
used up; the share of time without a leader; operations that failed or took longer than a second; the longest one.

Where the leader pushes, a removed voter hears nothing more, stands, and makes the others change epochs over and over.
Where it pulls, it asks, gets the answer and becomes an observer. Pulling is no help against a voter that was cut off;
asking before standing (pre-vote, KIP-996) does. The expected figures come from a prototype written before this one.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from squall.benchmarks.experiments.parts.picture import bars, by_name
from squall.benchmarks.experiments.parts.quorum_course import SECOND, QuorumCourse, Traced
from squall.benchmarks.parts.measurement import Measurement
from squall.nodes.raft.config import Replication, Variant

ARMS = {
    f"{replication}, {'pre-vote' if pre_vote else 'no pre-vote'}": Variant(kind, pre_vote)
    for replication, kind in (("push", Replication.PUSH_WITH_HINT), ("pull", Replication.PULL))
    for pre_vote in (False, True)
}
SCENARIOS = ("removed, never told", "cut off for 20 s")
EXPECTED = {
    ("removed, never told", "push, no pre-vote"): "57 elections, 36 % leaderless (prototype)",
    ("cut off for 20 s", "push, no pre-vote"): "14 elections, 1.1 % leaderless (prototype)",
    ("cut off for 20 s", "pull, no pre-vote"): "14 elections, 1.1 % leaderless (prototype)",
}
UNDISTURBED = "0 elections (prototype)"
SECONDS, SEEDS = 60.0, 5
SECONDS_SHORT, SEEDS_SHORT = 20.0, 1
CUT_OFF_SHARE = 1 / 3
EVERY_S = 0.2
SLOW_S = 1.0


@dataclass(frozen=True)
class Disruption:
    """What one voter did to the others in one run, per minute where it is a number of elections."""

    elections: float
    leaderless: float
    failed_or_slow: int
    longest: float
    epoch: int


def disrupted(scenario: str, variant: Variant, seed: int, seconds: float) -> Disruption:
    """Run one scenario once."""
    course = QuorumCourse(4, seed, variant, dynamic=True).start()
    course.run(3.0)
    disruptor = course.followers()[0]
    began = course.kernel.now
    if scenario == SCENARIOS[0]:
        course.cut(disruptor, course.leader)
        course.remove_voter(disruptor)
        course.write(1.0, EVERY_S)
        course.heal()
    else:
        course.cut(disruptor, *(host for host in course.addresses if host != disruptor))
        course.write(seconds * CUT_OFF_SHARE, EVERY_S)
        course.heal()
    rest = seconds - (course.kernel.now - began) / SECOND
    course.write(rest, EVERY_S)
    result = summed_up(course, began, disruptor)
    course.close()
    return result


def summed_up(course: QuorumCourse, began: int, disruptor: str) -> Disruption:
    states = list(course.trace.since(0, "state"))
    seconds = (course.kernel.now - began) / SECOND
    candidacies = sum(one.fields["role"] == "candidate" for one in states if one.at >= began)
    others = {node for node, name in course.names.items() if name.startswith("c") and name != disruptor}
    took = course.written.took
    return Disruption(
        elections=candidacies * 60 / seconds,
        leaderless=leaderless(states, others, began, course.kernel.now),
        failed_or_slow=sum(one < 0 or one > SLOW_S for one in took),
        longest=max(took, default=0.0),
        epoch=course.epoch,
    )


def leaderless(states: Sequence[Traced], voters: set[int], began: int, ended: int) -> float:
    """The share of time in which none of these nodes led the highest epoch among them."""
    roles: dict[int, tuple[int, bool]] = {}
    without, since = 0, began
    for one in states:
        if one.number("node") not in voters:
            continue
        if one.at > since and not _is_led(roles):
            without += one.at - since
        since = max(since, one.at)
        roles[one.number("node")] = (one.number("epoch"), one.fields["role"] == "leader")
    if not _is_led(roles):
        without += ended - since
    return without / (ended - began)


def _is_led(roles: dict[int, tuple[int, bool]]) -> bool:
    highest = max((epoch for epoch, _ in roles.values()), default=0)
    return (highest, True) in roles.values()


def run(short: bool = False) -> Iterator[Measurement]:
    """Run both scenarios through all four arms."""
    seconds, seeds = (SECONDS_SHORT, SEEDS_SHORT) if short else (SECONDS, SEEDS)
    for scenario in SCENARIOS:
        for arm, variant in ARMS.items():
            found = [disrupted(scenario, variant, seed, seconds) for seed in range(1, seeds + 1)]
            yield from figures(scenario, arm, found)


def figures(scenario: str, arm: str, found: Sequence[Disruption]) -> Iterator[Measurement]:
    """What several seeds of one scenario and arm showed.

    The median of elections counts: a removed voter whose connection takes long to recover from the cut stands once
    before it hears that it is removed, even where it pulls.
    """
    elections = tuple(one.elections for one in found)
    reference = EXPECTED.get((scenario, arm), UNDISTURBED)
    disturbs = (scenario, arm) in EXPECTED
    yield Measurement(
        f"{scenario}: {arm}", statistics.median(elections), "elections/min", must=5.0 if disturbs else 1.0,
        higher_is_better=disturbs, samples=elections, reference=reference,
    )  # fmt: skip
    shares = tuple(100 * one.leaderless for one in found)
    yield Measurement(f"    {scenario}, without a leader: {arm}", statistics.fmean(shares), "%", samples=shares)
    slow = tuple(float(one.failed_or_slow) for one in found)
    yield Measurement(f"    {scenario}, failed or slow: {arm}", statistics.fmean(slow), "operations", samples=slow)
    longest = tuple(one.longest for one in found)
    yield Measurement(f"    {scenario}, longest operation: {arm}", max(longest), "s", samples=longest)


def pictures(measurements: Sequence[Measurement]) -> dict[str, str]:
    """Return the chart: elections per minute of each arm, by scenario."""
    found = by_name(measurements)
    arms = {arm: [found[f"{scenario}: {arm}"].measured for scenario in SCENARIOS] for arm in ARMS}
    title = "Elections in a minute that one removed, or returning, voter causes"
    return {"disruptive-server": bars(title, SCENARIOS, arms, "elections/min", "")}
