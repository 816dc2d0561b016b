"""Derive simpler schedules: pure functions from an explicit scenario to smaller scenarios.

Each function yields candidates, the simplest first, without knowing whether they still fail; `shrink.py` finds out. A
candidate is a whole scenario, so that it can be run, saved and read like any other.

Removing a list entry must not change the meaning of those that stay: processes are numbered by topic-partition, client
and slot (`workloads/log.py`), so they are renumbered wherever the workload gets smaller.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import ceil
from typing import Any

from squall.harness.scenario.suite import Scenario, TopicOptions
from squall.nemesis.core.durations import DurationRange
from squall.nemesis.core.selector import topic_partitions_in
from squall.nemesis.entries import NemesisEntry, targets_of
from squall.nemesis.options import Timed
from squall.workloads.clients.common.client import TopicPartition
from squall.workloads.core.operation import SEND
from squall.workloads.core.scripted import ScriptedOperation
from squall.workloads.log import LogOptions, LogWorkload, ThreadPlace

Operations = tuple[ScriptedOperation, ...]
Faults = tuple[NemesisEntry, ...]
SomeEvent = ScriptedOperation | NemesisEntry

QUIET_S = 0.1
AFTER_THE_END_S = 1.0
ROUND_TO_S = (1.0, 0.5, 0.1, 0.01)
SHORTER_S = (0.1, 0.5, 1.0, 2.0, 5.0)
WINDOWS_S = (0.05, 0.1, 0.25, 0.5, 1.0, 2.0, 5.0)
STRENGTHS = ("lag", "latency", "jitter", "offset")


def log_options(scenario: Scenario) -> LogOptions:
    """Return the log options of a scenario that can be shrunk: `shrink` refuses all others."""
    assert isinstance(scenario.workload, LogOptions), scenario.workload.name
    return scenario.workload


def operations_of(scenario: Scenario) -> Operations:
    return scenario.workload.operations or ()


def with_events(
    scenario: Scenario, operations: Sequence[ScriptedOperation], faults: Sequence[NemesisEntry]
) -> Scenario:
    """Return the scenario with other operations and faults."""
    workload = scenario.workload.model_copy(update={"operations": tuple(operations)})
    return scenario.model_copy(update={"workload": workload, "nemesis": tuple(faults), "fault_free": not faults})


def with_cluster(scenario: Scenario, **changes: Any) -> Scenario:
    return scenario.model_copy(update={"cluster": scenario.cluster.model_copy(update=changes)})


def at_of(fault: Timed) -> float:
    return fault.at or 0.0


def length_of(fault: Timed) -> float:
    """Return how long a fault takes: its duration, and what it does before that."""
    length = fault.length()
    assert not isinstance(length, DurationRange), "schedules draw nothing"
    return length + float(getattr(fault, "lag", 0.0))


# --- time ----------------------------------------------------------------------------------------------------------


def ending(scenario: Scenario, ended_s: float) -> Scenario:
    """Drop what comes after the end of a run that broke at `ended_s`; no change if it broke after the load."""
    load = float(ceil(ended_s + AFTER_THE_END_S))
    if ended_s < 0 or load >= scenario.time.load:
        return scenario
    operations = [one for one in operations_of(scenario) if one.at <= ended_s]
    faults = [_within(fault, load) for fault in scenario.nemesis if at_of(fault) <= ended_s]
    shorter = with_events(scenario, operations, faults)
    return shorter.model_copy(update={"time": scenario.time.model_copy(update={"load": load})})


def _within(fault: NemesisEntry, load: float) -> NemesisEntry:
    """Return the fault, healed before the load ends."""
    over = at_of(fault) + length_of(fault) - load
    if over <= 0:
        return fault
    length = fault.length()
    assert isinstance(length, float)
    return fault.model_copy(update={"duration": max(0.001, round(length - over, 3))})


def sooner(scenario: Scenario) -> Iterator[Scenario]:
    """Shorten quiet times: all of them to almost nothing, all to a half, then each separately."""
    times = sorted({at_of(one) for one in scenario.nemesis} | {one.at for one in operations_of(scenario)})
    gaps = [later - earlier for earlier, later in zip([0.0, *times], times, strict=False)]
    long = [index for index, gap in enumerate(gaps) if gap > 2 * QUIET_S]
    if not long:
        return
    for shortened in (lambda gap: QUIET_S, lambda gap: gap / 2):
        yield _with_gaps(scenario, times, [shortened(gap) if i in long else gap for i, gap in enumerate(gaps)])
        for index in long:
            yield _with_gaps(scenario, times, [*gaps[:index], shortened(gaps[index]), *gaps[index + 1 :]])


def _with_gaps(scenario: Scenario, times: Sequence[float], gaps: Sequence[float]) -> Scenario:
    moved, now = {}, 0.0
    for time, gap in zip(times, gaps, strict=True):
        now += gap
        moved[time] = now
    return _moved(scenario, lambda at: moved[at])


def _moved(scenario: Scenario, when: Callable[[float], float]) -> Scenario:
    operations = [one.model_copy(update={"at": round(when(one.at), 6)}) for one in operations_of(scenario)]
    faults = [one.model_copy(update={"at": round(when(at_of(one)), 3)}) for one in scenario.nemesis]
    return with_events(scenario, operations, faults)


def rounder(scenario: Scenario) -> Iterator[Scenario]:
    """Round times to fewer digits: of all events, then of each."""
    for step in ROUND_TO_S:
        yield _moved(scenario, lambda at, step=step: round(at / step) * step)  # type: ignore[misc]
    yield from (_with_one(scenario, index, event) for index, event in _each_rounder(scenario))


def _each_rounder(scenario: Scenario) -> Iterator[tuple[int, SomeEvent]]:
    for index, event in enumerate((*operations_of(scenario), *scenario.nemesis)):
        at = event.at or 0.0
        for step in ROUND_TO_S:
            rounded = round(round(at / step) * step, 6)
            if rounded == at:
                break
            yield index, event.model_copy(update={"at": rounded})


def _with_one(scenario: Scenario, index: int, event: SomeEvent) -> Scenario:
    """Return the scenario with one of its events, operations first, replaced."""
    events: list[Any] = [*operations_of(scenario), *scenario.nemesis]
    events[index] = event
    count = len(operations_of(scenario))
    return with_events(scenario, events[:count], events[count:])


# --- faults --------------------------------------------------------------------------------------------------------


def weaker(scenario: Scenario) -> Iterator[Scenario]:
    """Make faults shorter, to round numbers or by half, or weaker."""
    count = len(operations_of(scenario))
    for index, fault in enumerate(scenario.nemesis):
        length = fault.length()
        assert not isinstance(length, DurationRange)
        for shorter in (*(one for one in SHORTER_S if one < length), round(length / 2, 3)):
            if SHORTER_S[0] <= shorter < length:
                yield _with_one(scenario, count + index, fault.model_copy(update={"duration": shorter}))
        for name in STRENGTHS:
            strength = getattr(fault, name, None)
            if strength and round(strength / 2, 3) not in (0.0, strength):
                yield _with_one(scenario, count + index, fault.model_copy(update={name: round(strength / 2, 3)}))


# --- the workload --------------------------------------------------------------------------------------------------


def fewer_topic_partitions(scenario: Scenario) -> Iterator[Scenario]:
    """Keep only the topic-partitions of operations or faults, numbered from 0."""
    used = _used(scenario)
    topics: dict[str, TopicOptions] = {}
    renumbered: dict[TopicPartition, TopicPartition] = {}
    for name, topic in scenario.cluster.topics.items():
        numbers = sorted(number for other, number in used if other == name)
        if not numbers:
            continue
        topics[name] = topic.model_copy(update={"partitions": len(numbers)})
        renumbered |= {(name, number): (name, place) for place, number in enumerate(numbers)}
    if not topics:
        name, topic = next(iter(scenario.cluster.topics.items()))
        topics[name] = topic.model_copy(update={"partitions": 1})
    if topics != dict(scenario.cluster.topics) and not _named_by_faults(scenario, renumbered):
        yield _resized(with_cluster(scenario, topics=topics), scenario, log_options(scenario), renumbered)


def _used(scenario: Scenario) -> set[TopicPartition]:
    used = {one.topic_partition for one in operations_of(scenario)}
    return used | {
        (pattern.topic, number)
        for fault in scenario.nemesis
        for target in targets_of(fault).values()
        for pattern in topic_partitions_in(target)
        for number in range(scenario.topics.get(pattern.topic, 0))
        if pattern.partition in (None, number)
    }


def _named_by_faults(scenario: Scenario, renumbered: dict[TopicPartition, TopicPartition]) -> bool:
    """Return whether a fault names a topic-partition that would have another number."""
    return any(
        renumbered.get((pattern.topic, pattern.partition or 0)) != (pattern.topic, pattern.partition or 0)
        for fault in scenario.nemesis
        for target in targets_of(fault).values()
        for pattern in topic_partitions_in(target)
    )


def fewer_clients(scenario: Scenario) -> Iterator[Scenario]:
    """Reduce to one producer with one operation at a time and no consumer, or to as many clients as have operations."""
    options = log_options(scenario)
    workload = LogWorkload(options, scenario.loaded_topics)
    places = [workload.thread_place(one.process) for one in operations_of(scenario)]
    sending = {place.client for place in places if place is not None and place.role == "producer"}
    polling = {place.client for place in places if place is not None and place.role == "consumer"}
    slots = {place.slot for place in places if place is not None}
    sizes = [
        (producers, 1 if polling else 0, in_flight)
        for producers, in_flight in ((1, 1), (max(1, len(sending)), 1), (1, max(slots, default=0) + 1))
    ]
    current = (options.producers, options.consumers, options.in_flight)
    for size in dict.fromkeys(sizes):
        if size < current and all(one <= other for one, other in zip(size, current, strict=True)):
            smaller = options.model_copy(update=dict(zip(("producers", "consumers", "in_flight"), size, strict=True)))
            yield _resized(scenario, scenario, smaller, {})


def _resized(
    scenario: Scenario, before: Scenario, options: LogOptions, renumbered: dict[TopicPartition, TopicPartition]
) -> Scenario:
    """Return `scenario` with this workload; the operations of `before` move to their new processes."""
    old = LogWorkload(log_options(before), before.loaded_topics)
    new = LogWorkload(options, scenario.loaded_topics)
    operations = []
    for one in operations_of(before):
        place = old.thread_place(one.process)
        assert place is not None, "validated"
        topic, partition = renumbered.get((place.topic, place.partition), (place.topic, place.partition))
        clients = options.producers if place.role == "producer" else options.consumers
        there = ThreadPlace(place.role, place.client % clients, topic, partition, place.slot % options.in_flight)
        changes = {"process": new.thread_at(there), one.f: f"{topic}/{partition}"}
        operations.append(one.model_copy(update=changes))
    return scenario.model_copy(update={"workload": options.model_copy(update={"operations": tuple(operations)})})


def around_faults(scenario: Scenario) -> Iterator[Scenario]:
    """Keep only the operations shortly before each fault: a cheap guess that is often right."""
    starts = [at_of(fault) for fault in scenario.nemesis]
    count = len(operations_of(scenario))
    for window in WINDOWS_S:
        near = [one for one in operations_of(scenario) if any(0 <= at - one.at <= window for at in starts)]
        if 2 * len(near) < count:
            yield with_events(scenario, near, scenario.nemesis)


def without_polls(scenario: Scenario) -> Iterator[Scenario]:
    sends = [one for one in operations_of(scenario) if one.f == SEND]
    if len(sends) < len(operations_of(scenario)):
        yield with_events(scenario, sends, scenario.nemesis)


# --- the cluster ---------------------------------------------------------------------------------------------------


def fewer_nodes(scenario: Scenario) -> Iterator[Scenario]:
    """Reduce to one controller, or three, and to as many brokers as there are replicas."""
    cluster = scenario.cluster
    brokers = max(topic.replication_factor for topic in cluster.topics.values())
    for controllers in (1, 3):
        for count in dict.fromkeys((brokers, cluster.brokers)):
            if controllers <= cluster.controllers and (controllers, count) != (cluster.controllers, cluster.brokers):
                smaller = with_cluster(scenario, controllers=controllers, brokers=count)
                if not _speaks_of_others(smaller):
                    yield smaller


def _speaks_of_others(scenario: Scenario) -> bool:
    """Return whether a fault names a host that the cluster does not have."""
    known = {f"c{number + 1}" for number in range(scenario.cluster.controllers)}
    known |= {f"b{number + 1}" for number in range(scenario.cluster.brokers)}
    words = " ".join(target for fault in scenario.nemesis for target in targets_of(fault).values())
    named = {word.strip(",") for word in words.split()}
    return any(word not in known for word in named if word[:1] in "bc" and word[1:].isdecimal())
