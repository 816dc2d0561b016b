"""Judge what a scenario requires beyond safety, from history and cluster observations, and state it.

Safety is checked in every run; how long a cluster may be unavailable is for the scenario to state. A suite states it
under `require` (`harness/scenario/suite.py`), the manifest carries it here:

* `rate`         in one window at least this share of the acknowledged sends per second of another (P06)
* `silence`      in this window nothing at all is acknowledged: what was, could not have been replicated (P06)
* `longest_gap`  on no topic-partition a longer time without an acknowledged send (P14), throughout the load or
                 within `gap_during` only
* `elections`    at most so many times another active controller (P19)
* `calm`         no topic-partition gets another leader, and no ISR becomes smaller (P12)

`elections` and `calm` use what was observed of the cluster during the load. Windows are seconds from the start of the
load; a send counts by the time at which it was acknowledged. A rule that does not hold makes the verdict invalid, as a
broken guarantee to clients does. A rule that cannot be decided makes it unknown: nothing was acknowledged in the window
it compares with, a topic-partition received no send, the load ended before the window did, or the cluster was not
watched throughout the load. Polling the cluster through its brokers may fail for a moment: `LONGEST_BLIND_SECONDS`
allows for one unanswered request, not for two.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from squall.results.checkers.common.text import duration, several
from squall.results.checkers.log.result import PartitionResult
from squall.results.history.manifest import RateRule, Required, Window
from squall.results.history.segments import ClusterObservation

LONGEST_BLIND_SECONDS: Final = 10.0

Seen = tuple[str, str | None, int | None]
"""The subject of an observation: its kind, and its topic-partition if it has one."""
Judged = tuple[str, bool | None]
"""A rule in words, and whether it holds; None if that is unknown."""


def windows_of(required: Required) -> tuple[tuple[float, float], ...]:
    """The windows in which each topic-partition's acknowledged sends are counted, in this order."""
    rate = () if required.rate is None else (required.rate.during, required.rate.compared_with)
    silence = () if required.silence is None else (required.silence,)
    return rate + silence + (() if required.gap_during is None else (required.gap_during,))


@dataclass(frozen=True)
class Load:
    """When the load began and ended, in ns, None if unknown; the topic-partitions under test.

    `watched` are the intervals, in order, in which the cluster was observed.
    """

    began: int = 0
    ended: int | None = None
    topic_partitions: Sequence[tuple[str, int]] = ()
    watched: Sequence[tuple[int, int]] = ()

    @property
    def seconds(self) -> float | None:
        return None if self.ended is None else (self.ended - self.began) / 1e9


def judged_requirements(
    required: Required,
    results: Sequence[PartitionResult],
    cluster: Sequence[ClusterObservation] = (),
    load: Load | None = None,
) -> Iterator[Judged]:
    """Yield each rule, and whether it holds.

    `cluster` is the state at the start of the load, followed by the changes observed until its end.
    """
    load = load or Load()
    counted = [sum(column) for column in zip(*(one.acknowledged_within for one in results), strict=True)]
    counts = iter(counted or [0] * len(windows_of(required)))
    if required.rate is not None:
        yield _rate(required.rate, next(counts), next(counts))
    if required.silence is not None:
        count = next(counts)
        yield _silence(required.silence, count, load)
    if required.longest_gap is not None:
        yield _gap(required.longest_gap, required.gap_during, results, load)
    if required.elections is not None:
        yield _if_watched(load, *_elections(required.elections, cluster))
    if required.calm:
        yield _if_watched(load, *_calm(cluster, load.topic_partitions))


def _if_watched(load: Load, words: str, holds: bool | None) -> Judged:
    """A rule holds only if the cluster was observed throughout the load; a breach was observed in any case."""
    blind = _blind(load) if holds else None
    return (words, holds) if blind is None else (f"{words}: {blind}", None)


def _blind(load: Load) -> str | None:
    """The first interval of the load that was too long without an observation of the cluster; None if there is none."""
    if not load.watched:
        return "the cluster was not observed"
    seen = load.began
    ended = load.watched[-1][1] if load.ended is None else load.ended
    for since, until in [*load.watched, (ended, ended)]:
        unseen = min(since, ended) - seen
        if unseen > LONGEST_BLIND_SECONDS * 1e9:
            return f"the cluster was not observed for {duration(unseen)} from {(seen - load.began) / 1e9:.1f} s on"
        seen = max(seen, until)
    return None


def _silence(window: Window, count: int, load: Load) -> Judged:
    start, end = window
    words = f"nothing acknowledged from {start:g} s to {end:g} s"
    if count:
        return f"{words}, but {several(count, 'send was', 'sends were')}", False
    if load.seconds is not None and load.seconds < end:
        return f"{words}: the load ended after {load.seconds:g} s", None
    return words, True


def _elections(most: int, cluster: Sequence[ClusterObservation]) -> Judged:
    """Count elections. The controller that was active first, before the load or at its start, is no election."""
    epochs = {one.epoch for one in cluster if one.kind == "controller"}
    words = f"at most {several(most, 'election')} of another active controller"
    if not epochs:
        return f"{words}: none was ever seen", None
    return f"{words} ({len(epochs) - 1})", len(epochs) - 1 <= most


def _calm(cluster: Sequence[ClusterObservation], topic_partitions: Sequence[tuple[str, int]]) -> Judged:
    """Find changes. The first observation of a topic-partition is no change."""
    known: dict[Seen, ClusterObservation] = {}
    changes = []
    for one in cluster:
        before = known.get(key := (one.kind, one.topic, one.partition))
        known[key] = one
        led = one.kind == "leader" and before is not None and before.epoch != one.epoch
        lost = one.kind == "in_sync" and before is not None and not set(before.nodes) <= set(one.nodes)
        if led or lost:
            changes.append(f"{one.topic}-{one.partition}")
    words = "no other leader of a topic-partition, and no smaller ISR"
    if changes:
        return f"{words}: {changes[0]}", False
    unseen = [f"{topic}-{number}" for topic, number in topic_partitions if not _is_known(known, topic, number)]
    return (f"{words}: {unseen[0]} was not observed", None) if unseen else (words, True)


def _is_known(known: Container[Seen], topic: str, partition: int) -> bool:
    return ("leader", topic, partition) in known and ("in_sync", topic, partition) in known


def _rate(rule: RateRule, count: int, count_before: int) -> Judged:
    (start, end), (earlier, later) = rule.during, rule.compared_with
    rate, before = count / (end - start), count_before / (later - earlier)
    words = f"acknowledged rate from {start:g} s to {end:g} s at least {rule.at_least:.0%} of before"
    if not count_before:
        return f"{words}, when nothing was acknowledged", None
    return f"{words} ({rate / before:.0%}: {rate:.1f} per second after {before:.1f})", rate >= rule.at_least * before


def _gap(most: float, during: Window | None, results: Sequence[PartitionResult], load: Load) -> Judged:
    gaps = [(one.longest_outage if during is None else one.longest_gap_within[-1], one.name) for one in results]
    known = [(gap, name) for gap, name in gaps if gap is not None]
    words = f"no topic-partition without an acknowledged send for more than {most:g} s"
    if during is not None:
        words += f", from {during[0]:g} s to {during[1]:g} s"
    if not known or not any(one.acknowledged_sends for one in results):
        return words, None
    longest, where = max(known)
    sent = {(one.topic, one.partition) for one in results if any(f.startswith("send.") for f in one.operations)}
    unsent = [f"{topic}-{number}" for topic, number in load.topic_partitions if (topic, number) not in sent]
    if unsent and longest <= most * 1e9:
        return f"{words}: no send to {unsent[0]}", None
    return f"{words} (longest {longest / 1e9:.2f} s, {where})", longest <= most * 1e9
