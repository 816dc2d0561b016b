"""What pulling costs: when a commit is known where, and how a new leader becomes known, pull beside push (PP-03).

Three simulated controllers with a link delay of 10 ms one way; a client writes ten times a second. From the nodes' own
traces, for each record that the client wrote: from the leader's append until the leader's high watermark passes it, and
until each follower's does. From an election: until the first record of the epoch is committed.

A follower that pulls acknowledges by its next fetch, and learns of a commit by the response to it. Ours responds to a
waiting fetch when the high watermark moves; Kafka's leader does not. The source claims that pull pays with a separate
request that begins an epoch, and with a commit that waits for the next fetch.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from squall.benchmarks.experiments.parts.picture import bars, by_name
from squall.benchmarks.experiments.parts.quorum_course import QuorumCourse, Traced
from squall.benchmarks.parts.measurement import Measurement
from squall.harness.simulation.world.links import Shape
from squall.nodes.node.node import Node
from squall.nodes.raft.config import KRAFT, Replication, Variant

ARMS = {
    "pull": KRAFT,
    "pull, as Kafka's leader": Variant(announces_commits=False),
    "push": Variant(Replication.PUSH_WITH_HINT),
}
DELAY_MS = 10.0
SECONDS, SECONDS_SHORT = 60.0, 6.0
EVERY_S = 0.1
ELECTIONS, ELECTIONS_SHORT = 10, 2


@dataclass
class Lags:
    """Milliseconds from a record's append at the leader, and from a leader's election to its first commit."""

    leader: list[float] = field(default_factory=list)
    followers: list[float] = field(default_factory=list)
    first_commit: list[float] = field(default_factory=list)


def course_of(variant: Variant, seed: int) -> QuorumCourse:
    """The cluster, its controllers 10 ms apart."""
    course = QuorumCourse(3, seed, variant)
    controllers = [course.addresses[one] for one in course.world.cluster.controllers]
    for one in controllers:
        for other in controllers:
            if one != other:
                course.world.network.shape(one, other, "far", Shape(delay=int(DELAY_MS * 1000)))
    return course.start()


def measured(variant: Variant, seconds: float, elections: int) -> Lags:
    """Write for so long; then let the leader resign, so many times."""
    course = course_of(variant, 1)
    lags = Lags()
    began = course.kernel.now
    course.write(seconds, EVERY_S)
    leader = node_id(course, course.leader)
    note_commits(lags, leader, [one for one in course.trace.events if one.at >= began])
    for _ in range(elections):
        node = course.world.processes[course.leader].node
        assert isinstance(node, Node)
        before = course.kernel.now
        node.raft.resign(before)
        course.run(4.0)
        lags.first_commit.append(first_commit(course, before))
    course.close()
    return lags


def node_id(course: QuorumCourse, host: str) -> int:
    return next(one for one, name in course.names.items() if name == host)


def note_commits(lags: Lags, leader: int, events: Sequence[Traced]) -> None:
    """For each record that the leader appended: when its own and its followers' high watermarks passed it."""
    appended = [(one.at, one.number("last")) for one in events if one.name == "append" and one.number("node") == leader]
    passed: dict[int, list[tuple[int, int]]] = {}
    for one in events:
        if one.name == "high_watermark" and one.number("node") > 100:  # controllers; brokers have the numbers below
            passed.setdefault(one.number("node"), []).append((one.at, one.number("offset")))
    for node, moves in passed.items():
        for at, last in appended:
            when = next((moved for moved, offset in moves if offset > last), None)
            if when is not None:
                (lags.leader if node == leader else lags.followers).append((when - at) / 1000)


def first_commit(course: QuorumCourse, since: int) -> float:
    """Milliseconds from the latest election since then to the first commit of the new leader."""
    elected = [one for one in course.trace.since(since, "state") if one.fields["role"] == "leader"][-1]
    moves = course.trace.since(elected.at, "high_watermark")
    committed = next(one for one in moves if one.number("node") == elected.number("node"))
    return (committed.at - elected.at) / 1000


def run(short: bool = False) -> Iterator[Measurement]:
    """Measure both arms."""
    found: dict[str, Lags] = {}
    for arm, variant in ARMS.items():
        lags = measured(variant, SECONDS_SHORT if short else SECONDS, ELECTIONS_SHORT if short else ELECTIONS)
        found[arm] = lags
        round_trip = 2 * DELAY_MS
        yield _median(f"append to commit at the leader: {arm}", lags.leader, "1 to 1.5 round trips and a sync (source)",
                      (round_trip, 1.9 * round_trip))  # fmt: skip
        if variant.announces_commits:
            reference, within = "by the next message of the leader", (1.4 * round_trip, 2.6 * round_trip)
        else:
            reference = "waits for the next fetch, here for the next record (source)"
            within = (EVERY_S * 900, EVERY_S * 1000 + 2 * round_trip)
        yield _median(f"append to commit at the followers: {arm}", lags.followers, reference, within)
        yield _median(f"election to the first commit: {arm}", lags.first_commit, "a request more with pull (source)")
    behind = {arm: statistics.median(lags.followers) - statistics.median(lags.leader) for arm, lags in found.items()}
    for arm, value in behind.items():
        yield Measurement(f"high watermark of followers behind the leader's: {arm}", value, "ms")
    pull, push = (statistics.median(found[arm].first_commit) for arm in ("pull", "push"))
    yield Measurement("first commit of an epoch, pull after push", pull - push, "ms", must=0.5 * DELAY_MS,
                      reference="BeginQuorumEpoch costs up to a round trip (source)")  # fmt: skip


def _median(
    name: str, samples: Sequence[float], reference: str, within: tuple[float, float] | None = None
) -> Measurement:
    return Measurement(
        name, statistics.median(samples), "ms", samples=tuple(samples), reference=reference, within=within
    )


def pictures(measurements: Sequence[Measurement]) -> dict[str, str]:
    """Return the chart: the three times, pull beside push."""
    found = by_name(measurements)
    figures = ("append to commit at the leader", "append to commit at the followers", "election to the first commit")
    arms = {arm: [found[f"{figure}: {arm}"].measured for figure in figures] for arm in ARMS}
    groups = ("leader knows", "followers know", "first of epoch")
    return {"commit-lag": bars("Commits with a link delay of 10 ms, pull beside push", groups, arms, "ms", "")}
