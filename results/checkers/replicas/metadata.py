"""Replay committed metadata records into the states of topic-partitions, as far as checks need them (MD-08).

Nodes replay the same records. This replay shares no code with theirs, so that a mistake there is not repeated here.
Partition epochs count the changes of a topic-partition, leader epochs those that name a leader (EP-01, EP-02).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

import msgspec

QUORUM: Final = "__cluster_metadata-0"
NO_LEADER: Final = -1
RECOVERED: Final = 0
RECOVERING: Final = 1
"""Leader recovery states: the leader has every committed record, or was elected although it may lack some (EL-04)."""
TopicPartitionId = tuple[str, int]
Members = tuple[int, ...]


class RecordFacts(msgspec.Struct, frozen=True, omit_defaults=True):
    """What else a metadata record states. An absent field is not stated, or not changed.

    `batch` is the offset of its batch's first record, -1 if it comes from a snapshot; `epoch` is the quorum's in which
    the batch was written, -1 if that is not known. `directories` is their number.
    `stopping`: the broker is in controlled shutdown. A setting is of `resource`, a type and a name; a `value` of None
    removes it. `number` is a broker's epoch, a feature's level, or the first producer id after a block.
    """

    batch: int = -1
    epoch: int = -1
    replicas: Members | None = None
    adding: Members | None = None
    removing: Members | None = None
    eligible: Members | None = None
    last_known: Members | None = None
    recovery: int | None = None
    directories: int | None = None
    broker: int = -1
    fenced: bool | None = None
    stopping: bool | None = None
    resource: tuple[int, str] = (0, "")
    name: str = ""
    value: str | None = None
    number: int = -1


@dataclass(frozen=True, kw_only=True)
class MetadataRecord:
    """A committed metadata record, of a topic-partition unless `what` says otherwise.

    `leader` and `isr` are None if the record does not change them; epochs are those that a `partition` record states,
    -1 in a `change`. `facts` is None in tables that were written before these were collected.
    """

    offset: int
    what: str
    topic_id: str
    partition: int = -1
    topic: str = ""
    leader: int | None = None
    isr: Members | None = None
    leader_epoch: int = -1
    partition_epoch: int = -1
    facts: RecordFacts | None = None


@dataclass(frozen=True)
class State:
    """A topic-partition as committed records leave it."""

    topic: str
    leader: int
    isr: Members
    leader_epoch: int
    partition_epoch: int
    replicas: Members = ()
    adding: Members = ()
    removing: Members = ()
    elr: Members = ()
    last_known_elr: Members = ()
    recovery_state: int = RECOVERED
    directories: int = 0


@dataclass
class States:
    """Committed states of every topic-partition: by partition epoch, and who leads by leader epoch."""

    now: dict[TopicPartitionId, State] = field(default_factory=dict)
    topics: dict[str, str] = field(default_factory=dict)
    """Names by id, of removed topics as well."""
    by_partition_epoch: dict[TopicPartitionId, dict[int, State]] = field(default_factory=dict)
    leaders: dict[TopicPartitionId, dict[int, int]] = field(default_factory=dict)

    def replay(self, record: MetadataRecord) -> None:
        """Apply one record. One that does not concern topics, or a topic-partition that is not there, has no effect."""
        key = (record.topic_id, record.partition)
        match record.what:
            case "topic":
                self.topics[record.topic_id] = record.topic
            case "topic_removed":
                for other in [other for other in self.now if other[0] == record.topic_id]:
                    del self.now[other]
            case "partition":
                self._enter(key, _created(self.topics.get(record.topic_id, ""), record))
            case "change" if key in self.now:
                self._enter(key, _changed(self.now[key], record))

    def _enter(self, key: TopicPartitionId, state: State) -> None:
        self.now[key] = state
        self.by_partition_epoch.setdefault(key, {})[state.partition_epoch] = state
        self.leaders.setdefault(key, {})[state.leader_epoch] = state.leader


def _created(topic: str, record: MetadataRecord) -> State:
    facts = record.facts or RecordFacts()
    return State(
        topic,
        NO_LEADER if record.leader is None else record.leader,
        record.isr or (),
        record.leader_epoch,
        max(0, record.partition_epoch),
        facts.replicas or (),
        facts.adding or (),
        facts.removing or (),
        facts.eligible or (),
        facts.last_known or (),
        facts.recovery or RECOVERED,
        facts.directories or 0,
    )


def _changed(old: State, record: MetadataRecord) -> State:
    facts = record.facts or RecordFacts()
    return State(
        old.topic,
        old.leader if record.leader is None else record.leader,
        _or(record.isr, old.isr),
        old.leader_epoch + (record.leader is not None),
        old.partition_epoch + 1,
        _or(facts.replicas, old.replicas),
        _or(facts.adding, old.adding),
        _or(facts.removing, old.removing),
        _or(facts.eligible, old.elr),
        _or(facts.last_known, old.last_known_elr),
        old.recovery_state if facts.recovery is None else facts.recovery,
        old.directories if facts.directories is None else facts.directories,
    )


def _or(stated: Members | None, old: Members) -> Members:
    return old if stated is None else stated


def replayed(records: Iterable[MetadataRecord], committed: int) -> States:
    """Replay committed records into states."""
    states = States()
    for one in records:
        if one.offset >= committed:
            break
        states.replay(one)
    return states
