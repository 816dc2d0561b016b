"""Forge replicas and control planes after a run: healthy, broken in one way, or nearly broken.

A healthy cluster has three brokers and three controllers, some topic-partitions with leader changes, out-of-sync
followers with their own tails, and traces in which leaders, ISRs and high watermarks move as committed records say.
Each injection breaks one rule of `checks/replicas`; each near-miss does something legal that resembles it.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from squall.results.checkers.replicas.anomalies import (
    DAMAGED,
    DIVERGENCE,
    EPOCH_REGRESS,
    ILLEGAL_DECISION,
    LACKS,
    LEADER_OUTSIDE_ISR,
    LOG_MATCHING,
    METADATA_MISMATCH,
    METADATA_REPLACED,
    TWO_LEADERS,
    TWO_VOTES,
    WRONG_FILE,
)
from squall.results.checkers.replicas.control import NODE_STARTED, QuorumFacts, TraceEvent
from squall.results.checkers.replicas.metadata import MetadataRecord, RecordFacts
from squall.results.checkers.replicas.replica import BATCH_COLUMNS, Batches, Replica

BROKERS: Final = (1, 2, 3)
CONTROLLERS: Final = (101, 102, 103)
CONTRADICTION: Final = ("leader-epoch-checkpoint names epoch 1 for offset 0, where a batch of epoch 0 begins",)
LOG_NAMES: Final = {"topic": "events", "partition": 0, "topic_id": "id-of-events"}

Replicas = list[Replica]


def host(node: int) -> str:
    """Return the host name: `b2` for broker 2, `c1` for controller 101."""
    return f"b{node}" if node < CONTROLLERS[0] else f"c{node - CONTROLLERS[0] + 1}"


def batches_of(lengths: list[int], epochs: list[int], *, base: int = 0, salt: int = 0) -> Batches:
    """Make batches of these lengths and epochs, one after the other; another `salt` gives other content."""
    counts = np.array(lengths, np.int64)
    bases = base + np.concatenate(([0], np.cumsum(counts)[:-1])).astype(np.int64)
    digests = (bases * 2654435761 + np.array(epochs, np.int64) * 97 + salt) % 2**32
    return Batches(
        bases, bases + counts - 1, np.array(epochs, np.int64), digests, counts, np.ones(len(counts), np.int64)
    )


def extended(one: Replica, lengths: list[int], epochs: list[int], *, salt: int = 0) -> Replica:
    """Return the replica with further batches at its end."""
    more = batches_of(lengths, epochs, base=one.end, salt=salt)
    joined = Batches(*(np.concatenate((getattr(one.batches, name), getattr(more, name))) for name in BATCH_COLUMNS))
    return replace(one, batches=joined, end=one.end + sum(lengths))


def cut(one: Replica, count: int) -> Replica:
    """Return the replica without its last `count` batches."""
    kept = one.batches.where(np.arange(len(one.batches)) < len(one.batches) - count)
    return replace(one, batches=kept, end=int(kept.last[-1]) + 1 if len(kept) else one.start)


def without(one: Replica, index: int) -> Replica:
    """Return the replica without one batch."""
    return replace(one, batches=one.batches.where(np.arange(len(one.batches)) != index))


def with_column(one: Replica, name: str, index: int, value: int) -> Replica:
    """Return the replica with one number of one batch changed."""
    columns = {each: getattr(one.batches, each).copy() for each in BATCH_COLUMNS}
    columns[name][index] = value
    return replace(one, batches=Batches(**columns))


def healthy_replicas(seed: int, batches: int = 30) -> Replicas:
    """Make the three replicas of a topic-partition, all in sync; the first is the leader."""
    dice = random.Random(seed)
    lengths = [dice.randint(1, 20) for _ in range(batches)]
    epochs = sorted(dice.randint(0, 4) for _ in range(batches))
    made = batches_of(lengths, epochs)
    end = sum(lengths)
    return [
        Replica(
            **LOG_NAMES,  # type: ignore[arg-type]
            host=host(node),
            node=node,
            in_sync=True,
            live=True,
            leads=node == 1,
            start=0,
            end=end,
            required=end,
            batches=made,
        )
        for node in BROKERS
    ]


ReplicaChange = Callable[[Replicas, random.Random], Replicas]


def _follower(change: Callable[[Replica, random.Random], Replica]) -> ReplicaChange:
    """Apply a change to the last follower."""
    return lambda replicas, dice: [*replicas[:-1], change(replicas[-1], dice)]


def _some(one: Replica, dice: random.Random) -> int:
    return dice.randrange(1, len(one.batches) - 1)


def _altered(one: Replica, dice: random.Random) -> Replica:
    index = _some(one, dice)
    return with_column(one, "digest", index, int(one.batches.digest[index]) ^ 1)


def _of_another_epoch(one: Replica, dice: random.Random) -> Replica:
    """It kept the last batch of a leader that was deposed before the batch was committed."""
    kept = cut(one, 1)
    length = one.end - kept.end
    return extended(kept, [length], [int(one.batches.epoch[-1]) + 1], salt=7)


def _out_of_sync(one: Replica) -> Replica:
    return replace(one, in_sync=False)


def _epoch_back(one: Replica, dice: random.Random) -> Replica:
    return extended(_out_of_sync(one), [1], [int(one.batches.epoch[-1]) - 1])


def _removed_front(replicas: Replicas, dice: random.Random) -> Replicas:
    index = _some(replicas[0], dice)
    start = int(replicas[0].batches.base[index])
    front = replace(
        replicas[-1], start=start, batches=replicas[-1].batches.where(np.arange(len(replicas[0].batches)) >= index)
    )
    return [*(replace(one, removal=True) for one in replicas[:-1]), replace(front, removal=True)]


def _lost_front(replicas: Replicas, dice: random.Random) -> Replicas:
    return [replace(one, removal=False) for one in _removed_front(replicas, dice)]


REPLICA_INJECTIONS: Final[Mapping[str, tuple[str, ReplicaChange]]] = {
    "in-sync follower lacks the last acknowledged batch": (LACKS, _follower(lambda one, dice: cut(one, 1))),
    "in-sync follower has a hole": (LACKS, _follower(lambda one, dice: without(one, _some(one, dice)))),
    "in-sync follower has lost its front": (LACKS, _lost_front),
    "in-sync follower has no log": (LACKS, _follower(lambda one, dice: replace(one, batches=Batches(), end=0))),
    "in-sync follower has another batch": (DIVERGENCE, _follower(_altered)),
    "in-sync follower kept an uncommitted batch of an older leader": (DIVERGENCE, _follower(_of_another_epoch)),
    "in-sync follower has a damaged batch that looks the same": (
        DAMAGED,
        _follower(lambda one, dice: with_column(one, "sound", _some(one, dice), 0)),
    ),
    "a replica out of sync contradicts an offset and epoch": (
        LOG_MATCHING,
        _follower(lambda one, dice: _out_of_sync(_altered(one, dice))),
    ),
    "a replica out of sync agrees at an offset and epoch and not before": (
        LOG_MATCHING,
        _follower(lambda one, dice: _out_of_sync(without(one, _some(one, dice)))),
    ),
    "an epoch goes back in a log": (EPOCH_REGRESS, _follower(_epoch_back)),
    "the leader epochs of an in-sync follower contradict its batches": (
        WRONG_FILE,
        _follower(lambda one, dice: replace(one, files=CONTRADICTION)),
    ),
}

REPLICA_NEAR_MISSES: Final[Mapping[str, ReplicaChange]] = {
    "a tail above what is committed": _follower(lambda one, dice: extended(one, [3], [9])),
    "an uncommitted tail of an older leader, out of sync": _follower(
        lambda one, dice: _out_of_sync(_of_another_epoch(one, dice))
    ),
    "a replica out of sync lags": _follower(lambda one, dice: _out_of_sync(cut(one, dice.randint(1, 20)))),
    "an in-sync replica whose node does not run lags": _follower(lambda one, dice: replace(cut(one, 2), live=False)),
    "a log begins later where retention may remove": _removed_front,
    "wrong files of a replica out of sync, which recovers": _follower(
        lambda one, dice: replace(_out_of_sync(one), files=CONTRADICTION)
    ),
    "checksums were not computed": _follower(
        lambda one, dice: replace(one, batches=replace(one.batches, sound=np.full(len(one.batches), -1, np.int64)))
    ),
    "a topic made again under its name": _follower(
        lambda one, dice: replace(_out_of_sync(_altered(one, dice)), topic_id="id-of-old-events", required=-1)
    ),
}


# -- control planes --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ControlPlane:
    """The arguments of `judge_control`."""

    quorum: QuorumFacts | None
    logs: tuple[Replica, ...]
    records: tuple[MetadataRecord, ...]
    events: tuple[TraceEvent, ...]


def healthy_control(seed: int, changes: int = 12) -> ControlPlane:
    """Make some quorum elections and changes of a topic-partition, with matching metadata logs and traces."""
    dice = random.Random(seed)
    quorum_epochs = sorted(dice.randint(1, 4) for _ in range(changes + 2))
    log = batches_of([1] * (changes + 2), quorum_epochs)
    committed = changes + 2
    records = [
        MetadataRecord(offset=0, what="topic", topic_id="id", topic="events"),
        MetadataRecord(
            offset=1,
            what="partition",
            topic_id="id",
            partition=0,
            leader=1,
            isr=BROKERS,
            leader_epoch=0,
            partition_epoch=0,
        ),
    ]
    events = [_event(node, NODE_STARTED) for node in (*BROKERS, *CONTROLLERS)]
    events += [_event(node, "state", role="leader", epoch=epoch) for node, epoch in _elections(quorum_epochs)]
    events += [_led(1, 0), *(_isr_of(node, BROKERS, 0, 0) for node in BROKERS)]
    leader, epoch = 1, 0
    isr: tuple[int, ...] = BROKERS
    for number in range(changes):
        named = None
        if dice.random() < 0.5:
            named = leader = dice.choice(isr)
            epoch += 1
        isr = tuple(sorted({leader, *dice.sample(BROKERS, 2)}))
        records.append(
            MetadataRecord(offset=number + 2, what="change", topic_id="id", partition=0, leader=named, isr=isr)
        )
        if named is not None:
            events.append(_led(leader, epoch))
        events += [_isr_of(node, isr, number + 1, epoch) for node in BROKERS if dice.random() < 0.7]
        node = dice.choice((*BROKERS, *CONTROLLERS))
        events.append(_watermark(node, number + 2))
    events += [_watermark(node, committed) for node in (*BROKERS, *CONTROLLERS)]
    logs = tuple(_metadata_log(node, log) for node in (*BROKERS, *CONTROLLERS))
    facts = QuorumFacts(leader=CONTROLLERS[0], epoch=quorum_epochs[-1], committed=committed, voters=CONTROLLERS)
    return ControlPlane(facts, logs, tuple(records), tuple(events))


def _elections(epochs: list[int]) -> list[tuple[int, int]]:
    return [(CONTROLLERS[epoch % len(CONTROLLERS)], epoch) for epoch in dict.fromkeys(epochs)]


def _metadata_log(node: int, batches: Batches) -> Replica:
    return Replica(
        topic="__cluster_metadata",
        partition=0,
        topic_id="",
        host=host(node),
        node=node,
        in_sync=False,
        live=True,
        start=0,
        end=int(batches.last[-1]) + 1,
        batches=batches,
    )


def _event(node: int, event: str, **fields: object) -> TraceEvent:
    return TraceEvent(host=host(node), node=node, incarnation=1, event=event, **fields)  # type: ignore[arg-type]


def _led(node: int, epoch: int, topic_id: str = "id") -> TraceEvent:
    return _event(node, "leader", topic="events", topic_id=topic_id, partition=0, epoch=epoch)


def _isr_of(node: int, members: tuple[int, ...], partition_epoch: int, epoch: int) -> TraceEvent:
    return _event(
        node,
        "isr",
        topic="events",
        topic_id="id",
        partition=0,
        epoch=epoch,
        partition_epoch=partition_epoch,
        members=members,
    )


def _watermark(node: int, offset: int) -> TraceEvent:
    return _event(node, "high_watermark", offset=offset)


def _voted(node: int, epoch: int, candidate: int, incarnation: int = 1) -> TraceEvent:
    return replace(_event(node, "vote", epoch=epoch, members=(candidate,)), incarnation=incarnation)


def _restarted(node: int, epoch: int) -> TraceEvent:
    """The state in which a voter's second process begins."""
    return replace(_event(node, "state", role="unattached", epoch=epoch), incarnation=2)


ControlChange = Callable[[ControlPlane, random.Random], ControlPlane]


def _and_then(*events: TraceEvent) -> ControlChange:
    return lambda plane, dice: replace(plane, events=(*plane.events, *events))


def _log_changed(numbers: tuple[int, ...], change: Callable[[Replica], Replica]) -> ControlChange:
    return lambda plane, dice: replace(
        plane, logs=tuple(change(one) if one.node in numbers else one for one in plane.logs)
    )


def _second_leader(plane: ControlPlane, dice: random.Random) -> ControlPlane:
    first = next(one for one in plane.events if one.event == "state")
    other = next(one for one in CONTROLLERS if one != first.node)
    return _and_then(_event(other, "state", role="leader", epoch=first.epoch))(plane, dice)


def _started_again(plane: ControlPlane, dice: random.Random) -> ControlPlane:
    again = replace(_watermark(CONTROLLERS[1], 3), incarnation=2)
    return replace(plane, events=(*plane.events, again, replace(again, offset=plane.quorum.committed)))  # type: ignore[union-attr]


def _lagging_voter(plane: ControlPlane, dice: random.Random) -> ControlPlane:
    """A voter lags with a tail of a deposed leader, and never knew what is committed."""
    return replace(
        plane,
        logs=tuple(
            extended(cut(one, 2), [1, 1], [99, 99], salt=5) if one.node == CONTROLLERS[2] else one for one in plane.logs
        ),
        events=tuple(one for one in plane.events if (one.node, one.event) != (CONTROLLERS[2], "high_watermark")),
    )


def _changed_last(**fields: object) -> ControlChange:
    """One more committed change of the topic-partition."""

    def changed(plane: ControlPlane, dice: random.Random) -> ControlPlane:
        record = MetadataRecord(offset=0, what="change", topic_id="id", partition=0, **fields)  # type: ignore[arg-type]
        return _with_last(plane, record)

    return changed


def _with_last(plane: ControlPlane, record: MetadataRecord) -> ControlPlane:
    """Append one committed record, which gets its offset here, to every metadata log."""
    assert plane.quorum is not None
    end = plane.quorum.committed
    logs = tuple(extended(one, [int(one.batches.epoch[-1])], [77]) for one in plane.logs)
    quorum = replace(plane.quorum, committed=end + 1)
    return replace(plane, quorum=quorum, logs=logs, records=(*plane.records, replace(record, offset=end)))


def _registered(behind: int) -> ControlChange:
    """One more broker, with an epoch that is so much lower than the offset of its registration."""

    def changed(plane: ControlPlane, dice: random.Random) -> ControlPlane:
        assert plane.quorum is not None
        end = plane.quorum.committed
        facts = RecordFacts(batch=end, broker=9, number=end - behind, fenced=True)
        return _with_last(plane, MetadataRecord(offset=end, what="broker", topic_id="", facts=facts))

    return changed


CONTROL_INJECTIONS: Final[Mapping[str, tuple[str, ControlChange]]] = {
    "two controllers lead an epoch of the quorum": (TWO_LEADERS, _second_leader),
    "a voter votes for two candidates in one epoch": (TWO_VOTES, _and_then(_voted(102, 9, 101), _voted(102, 9, 103))),
    "a restarted voter votes for another candidate": (
        TWO_VOTES,
        _and_then(_voted(102, 9, 101), _restarted(102, 9), _voted(102, 9, 103, incarnation=2)),
    ),
    "two brokers lead a topic-partition in one epoch": (
        TWO_LEADERS,
        _and_then(_led(1, 5_000), _led(2, 5_000)),
    ),
    "a broker leads in an epoch that metadata gives to another": (
        METADATA_MISMATCH,
        lambda plane, dice: replace(
            plane,
            events=(*(one for one in plane.events if one.event != "leader"), _led(2, 0)),
        ),
    ),
    "a broker takes up an ISR that was never committed": (METADATA_MISMATCH, _and_then(_isr_of(2, (2,), 0, 0))),
    "metadata names a leader outside the ISR": (LEADER_OUTSIDE_ISR, _changed_last(leader=3, isr=(1, 2))),
    "metadata drops the leader from the ISR": (LEADER_OUTSIDE_ISR, _changed_last(isr=())),
    "a broker is registered with another epoch than the offset of that": (ILLEGAL_DECISION, _registered(1)),
    "the metadata high watermark falls while a node runs": (METADATA_REPLACED, _and_then(_watermark(101, 1))),
    "a node cuts committed metadata": (METADATA_REPLACED, _and_then(_event(102, "truncate", offset=2))),
    "committed metadata is another at a node that knew it": (
        METADATA_REPLACED,
        _log_changed((1,), lambda one: with_column(one, "epoch", 0, 0)),
    ),
    "committed metadata is on a minority": (
        METADATA_REPLACED,
        lambda plane, dice: replace(
            _log_changed((102, 103), lambda one: cut(one, 1))(plane, dice),
            events=tuple(one for one in plane.events if one.event != "high_watermark"),
        ),
    ),
    "metadata logs contradict each other at an offset and epoch": (
        LOG_MATCHING,
        lambda plane, dice: replace(
            _log_changed((103,), lambda one: with_column(one, "digest", 3, 1))(plane, dice),
            events=tuple(one for one in plane.events if (one.node, one.event) != (103, "high_watermark")),
        ),
    ),
    "leader epochs contradict the metadata": (
        WRONG_FILE,
        _log_changed((102,), lambda one: replace(one, files=CONTRADICTION)),
    ),
    "the quorum's epoch goes back at a node": (
        EPOCH_REGRESS,
        _and_then(_event(102, "state", role="follower", epoch=9), _event(102, "state", role="follower", epoch=8)),
    ),
    "a broker follows an older leader epoch": (
        EPOCH_REGRESS,
        _and_then(
            *(
                _event(3, "follower", topic="events", topic_id="id", partition=0, epoch=epoch)
                for epoch in (7_000, 6_999)
            )
        ),
    ),
}

CONTROL_NEAR_MISSES: Final[Mapping[str, ControlChange]] = {
    "a node starts again and its high watermark begins anew": _started_again,
    "a voter lags with a tail that was never committed": _lagging_voter,
    "a topic made again begins with its first epoch": _and_then(_led(1, 0, "new-id"), _led(2, 1, "new-id")),
    "a broker is registered with the offset of that as its epoch": _registered(0),
    "a topic-partition has no leader and an ISR": _changed_last(leader=-1, isr=(1,)),
    "a topic-partition has neither leader nor ISR": _changed_last(leader=-1, isr=()),
    "a replica outside the ISR leads and is the ISR": _changed_last(leader=3, isr=(3,)),
    "a leader of an epoch beyond what was asked for": _and_then(_led(2, 9_000)),
    "a node cuts what it did not know to be committed": lambda plane, dice: replace(
        plane, events=(_event(102, "truncate", offset=0), *plane.events)
    ),
    "a restarted voter votes for the same candidate": _and_then(
        _voted(102, 9, 101), _restarted(102, 9), _voted(102, 9, 101, incarnation=2), _voted(102, 10, 103, incarnation=2)
    ),
    "a voter with an emptied disk votes again": _and_then(
        _voted(102, 9, 101), _restarted(102, 0), _voted(102, 9, 103, incarnation=2)
    ),
    "files contradict the metadata at a node that does not run": _log_changed(
        (102,), lambda one: replace(one, live=False, files=CONTRADICTION)
    ),
    "a tail beyond the committed end": _log_changed((101,), lambda one: extended(one, [1], [99])),
    "a broker starts again with an emptied disk": lambda plane, dice: replace(
        _log_changed((3,), lambda one: cut(one, len(one.batches)))(plane, dice),
        events=(*plane.events, replace(_event(3, NODE_STARTED), incarnation=2)),
    ),
}
