"""Judge the controller's decisions by the committed metadata of a run: every record and every batch obeys its laws.

The log that the quorum's leader left is replayed, with the brokers, settings and features that it names. The laws of a
topic-partition are in `metadata_laws.py`. These need more of the cluster than that:

* IS-02  a new topic-partition begins with active members, and with a leader
* IS-09  without eligible leader replicas the ISR is never empty
* EL-03  where min ISR changes while replicas may be eligible, every topic-partition concerned gets another partition
         epoch: its leader may still have the old min ISR, and the controller must refuse its changes
* EL-05  a broker that a batch unregisters is in no ISR and no ELR after that batch, unless it is the last that has
         everything and there are no eligible leader replicas
* CS-02  a broker that joins an ISR, or becomes leader, is unfenced and not about to stop. Exempt are the members that
         an empty ISR gets back as eligible leader replicas are switched off: these are offline (EL-06). Nor is it one
         that has left an ISR as an active leader, and was neither marked nor fenced since (`LeftLeaders`)
* FD-02  a broker that a batch fences leads nothing after that batch (KIP-631), and was not fenced before
* MD-08  a broker's epoch is the offset of its registration; blocks of producer ids do not overlap; no two topics have
         the same name at once

Not judged: the records of a snapshot with which the log begins, since they are no decisions; batches that are not
committed as a whole; unclean elections, where no record states whether they are allowed; a log with records that could
not be read, and one of a system whose nodes write no control trace, as it may decide by other rules.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Final

from squall.results.checkers.replicas import metadata_laws as laws
from squall.results.checkers.replicas.anomalies import ILLEGAL_DECISION
from squall.results.checkers.replicas.facts import Findings
from squall.results.checkers.replicas.metadata import (
    NO_LEADER,
    QUORUM,
    MetadataRecord,
    RecordFacts,
    State,
    States,
    TopicPartitionId,
)
from squall.results.checkers.replicas.metadata_laws import Breach

UNREAD: Final = "unread"
"""What a record is whose kind or version the host could not read."""
TOPIC, BROKER = 2, 4
"""Types of resources that have settings; the broker without a name stands for the defaults of all."""
MIN_ISR: Final = "min.insync.replicas"
UNCLEAN_ELECTIONS: Final = "unclean.leader.election.enable"
ELIGIBLE_LEADER_REPLICAS: Final = "eligible.leader.replicas.version"
Resource = tuple[int, str]


def judge_decisions(records: Iterable[MetadataRecord], committed: int, findings: Findings) -> None:
    """Replay the records below `committed` and judge every batch of them."""
    known = [one for one in records if one.facts is not None]
    if any(one.what == UNREAD for one in known):
        findings.noted["metadata logs with records of unknown kinds, whose decisions were not judged"] += 1
        return
    cluster = Cluster()
    for batch, together in groupby(known, key=_batch_of):
        of_batch = list(together)
        if of_batch[-1].offset >= committed:
            return
        if batch < 0:
            for one in of_batch:
                cluster.replay(one)
        else:
            findings.looked_at["decisions"] += 1
            _judge(cluster, of_batch, findings)


def _batch_of(record: MetadataRecord) -> int:
    return _facts(record).batch


def _facts(record: MetadataRecord) -> RecordFacts:
    assert record.facts is not None
    return record.facts


def _fields_stated(record: MetadataRecord) -> laws.Stated:
    facts = _facts(record)
    return laws.Stated(
        leader=record.leader,
        isr=record.isr,
        replicas=facts.replicas,
        adding=facts.adding,
        removing=facts.removing,
        elr=facts.eligible,
        last_known_elr=facts.last_known,
        recovery_state=facts.recovery,
    )


def _judge(cluster: Cluster, batch: Sequence[MetadataRecord], findings: Findings) -> None:
    decision = Decision(cluster)
    broken = [found for record in batch for found in decision.follow(record)]
    broken += decision.ended()
    for place, (law, what) in broken:
        findings.accuse(
            ILLEGAL_DECISION,
            place,
            batch[-1].offset,
            ("metadata", f"the batch at offsets {batch[0].offset} to {batch[-1].offset}: {what}"),
            (law, "does not allow that"),
        )


# -- the cluster -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Broker:
    """A registered broker."""

    epoch: int
    fenced: bool
    stopping: bool

    @property
    def active(self) -> bool:
        """Whether it may lead and join an ISR (KIP-841)."""
        return not self.fenced and not self.stopping


@dataclass
class Cluster:
    """What committed records leave: topic-partitions, brokers, settings by resource, features, producer ids."""

    states: States = field(default_factory=States)
    topics: dict[str, str] = field(default_factory=dict)
    """The ids of existing topics by name."""
    brokers: dict[int, Broker] = field(default_factory=dict)
    settings: dict[Resource, dict[str, str]] = field(default_factory=dict)
    features: dict[str, int] = field(default_factory=dict)
    producer_ids: int = 0
    left: laws.LeftLeaders = field(default_factory=laws.LeftLeaders)

    def replay(self, record: MetadataRecord) -> None:
        """Apply one record."""
        facts = _facts(record)
        match record.what:
            case "broker":
                self.brokers[facts.broker] = Broker(facts.number, bool(facts.fenced), bool(facts.stopping))
                self.left.ended(facts.broker)
            case "broker_changed" if facts.broker in self.brokers:
                old = self.brokers[facts.broker]
                fenced = old.fenced if facts.fenced is None else facts.fenced
                now = Broker(old.epoch, fenced, old.stopping or bool(facts.stopping))
                self.brokers[facts.broker] = now
                if not now.active:
                    self.left.ended(facts.broker)
            case "broker_removed":
                self.brokers.pop(facts.broker, None)
                self.left.ended(facts.broker)
            case "setting":
                self._set(facts)
            case "feature":
                self.features[facts.name] = facts.number
            case "producer_ids":
                self.producer_ids = facts.number
            case "topic":
                self.topics[record.topic] = record.topic_id
            case "topic_removed":
                name = self.states.topics.get(record.topic_id, "")
                self.topics.pop(name, None)
                self.settings.pop((TOPIC, name), None)
        self.states.replay(record)

    def _set(self, facts: RecordFacts) -> None:
        settings = self.settings.setdefault(facts.resource, {})
        if facts.value is None:
            settings.pop(facts.name, None)
        else:
            settings[facts.name] = facts.value

    @property
    def keeps_eligible_leaders(self) -> bool:
        """Whether eligible leader replicas are on (EL-06)."""
        return self.features.get(ELIGIBLE_LEADER_REPLICAS, 0) > 0

    def setting(self, topic: str, name: str) -> str | None:
        """Return a topic's setting, its own or the default of all; None if no record states it."""
        own = self.settings.get((TOPIC, topic), {}).get(name)
        return own if own is not None else self.settings.get((BROKER, ""), {}).get(name)

    def active(self, broker: int) -> bool:
        """Return whether a broker is registered, unfenced, and not about to stop."""
        known = self.brokers.get(broker)
        return known is not None and known.active

    def of_topic(self, name: str) -> list[TopicPartitionId]:
        """Return the topic-partitions of an existing topic."""
        topic_id = self.topics.get(name)
        return [key for key in self.states.now if key[0] == topic_id]


# -- a decision ------------------------------------------------------------------------------------------------

Found = tuple[str, Breach]
"""A place, and the law that is broken there."""


class Decision:
    """One committed batch. It replays the batch's records, and remembers what they change until the batch ends."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._before: dict[TopicPartitionId, State | None] = {}
        """What the batch has changed, as it was before; None if the batch creates it."""
        self._fenced: set[int] = set()
        self._unregistered: set[int] = set()
        self._registered: set[int] = set()
        self._min_isr: dict[str, str | None] = {}
        """By topic, the min ISR before the batch, of topics whose min ISR the batch may change."""

    def follow(self, record: MetadataRecord) -> Iterator[Found]:
        """Replay one record, and yield what it breaks by itself."""
        for breach in self._stated(record):
            yield QUORUM, breach
        key = (record.topic_id, record.partition)
        before = self._cluster.states.now.get(key) if record.what == "change" else None
        if record.what in ("partition", "change"):
            self._before.setdefault(key, before)
        if before is not None:
            for breach in laws.needless(before, _fields_stated(record)):
                yield _place(key, before), breach
        self._remember(record)
        self._cluster.replay(record)
        if record.what in ("partition", "change"):
            now = self._cluster.states.now.get(key)
            if now is not None:
                for breach in self._changed(before, now, (record.offset, _facts(record).epoch)):
                    yield _place(key, now), breach

    def _stated(self, record: MetadataRecord) -> Iterator[Breach]:
        """MD-08, and FD-02 of a record."""
        facts, cluster = _facts(record), self._cluster
        match record.what:
            case "broker" if facts.number != record.offset:
                yield Breach(
                    "MD-08", f"broker {facts.broker} is registered at offset {record.offset} with epoch {facts.number}"
                )
            case "broker_changed" if facts.fenced and facts.broker in cluster.brokers:
                if cluster.brokers[facts.broker].fenced:
                    yield Breach("FD-02", f"broker {facts.broker} is fenced, and was before")
            case "producer_ids" if facts.number <= cluster.producer_ids:
                yield Breach(
                    "MD-08",
                    f"producer ids up to {facts.number} are given away, although those up to {cluster.producer_ids} "
                    "are given already",
                )
            case "topic" if record.topic in cluster.topics:
                yield Breach("MD-08", f"a second topic {record.topic} is created")

    def _remember(self, record: MetadataRecord) -> None:
        facts, cluster = _facts(record), self._cluster
        match record.what:
            case "broker":
                self._registered.add(facts.broker)
                if facts.fenced:
                    self._fenced.add(facts.broker)
            case "broker_changed" if facts.fenced:
                self._fenced.add(facts.broker)
            case "broker_removed":
                self._unregistered.add(facts.broker)
            case "setting" if facts.name == MIN_ISR and cluster.keeps_eligible_leaders:
                own = facts.resource[0] == TOPIC
                for topic in (facts.resource[1],) if own else tuple(cluster.topics):
                    if own or facts.resource == (BROKER, ""):
                        self._min_isr.setdefault(topic, cluster.setting(topic, MIN_ISR))

    def _changed(self, before: State | None, now: State, place: tuple[int, int]) -> Iterator[Breach]:
        """The laws of one record about a topic-partition."""
        yield from laws.members(now)
        yield from laws.reassignment(now, now.directories)
        if before is None:
            yield from self._new(now)
            return
        yield from laws.leaving_replicas(before, now)
        yield from laws.ended_reassignment(before, now)
        yield from self._coming(before, now)
        yield from self._cluster.left.changed(before, now, self._cluster.active, place)
        yield from laws.election(before, now)
        if (now.isr, now.elr) != (before.isr, before.elr):
            if self._cluster.keeps_eligible_leaders:
                yield from laws.eligible(before, now)
            elif not now.isr:
                yield Breach("IS-09", "the ISR is empty, and there are no eligible leader replicas")

    def _new(self, now: State) -> Iterator[Breach]:
        idle = [one for one in now.isr if not self._cluster.active(one)]
        if idle or not now.isr or now.leader == NO_LEADER:
            yield Breach(
                "IS-02",
                f"a new topic-partition has leader {now.leader} and ISR {list(now.isr)}, of which {idle} are not "
                "active",
            )

    def _coming(self, before: State, now: State) -> Iterator[Breach]:
        restored = () if before.isr or self._cluster.keeps_eligible_leaders else before.elr or before.last_known_elr[:1]
        coming = [one for one in now.isr if one not in before.isr and one not in restored]
        if now.leader >= 0 and now.leader != before.leader and now.leader not in coming:
            coming.append(now.leader)
        for one in coming:
            if not self._cluster.active(one):
                state = self._cluster.brokers.get(one, "not registered")
                yield Breach("CS-02", f"broker {one} leads or joins the ISR, but is {state}")

    def ended(self) -> Iterator[Found]:
        """Yield what the batch as a whole breaks."""
        cluster = self._cluster
        active = {number for number, one in cluster.brokers.items() if one.active}
        for key, before in self._before.items():
            now = cluster.states.now.get(key)
            if now is not None and before is not None:
                for breach in self._whole(before, now, active):
                    yield _place(key, now), breach
        yield from self._without_another_epoch()
        yield from self._left_behind()

    def _whole(self, before: State, now: State, active: set[int]) -> Iterator[Breach]:
        yield from laws.originals(before, now)
        yield from laws.leader(before, now, active)
        if self._cluster.setting(now.topic, UNCLEAN_ELECTIONS) == "false":
            yield from laws.nobody_left(before, now, self._registered | self._unregistered)
        min_isr = self._cluster.setting(now.topic, MIN_ISR)
        if self._cluster.keeps_eligible_leaders and min_isr is not None:
            ended, is_set = self._registered | self._unregistered, now.topic in self._min_isr
            yield from laws.kept_by_min_isr(before, now, int(min_isr), ended, is_set=is_set)

    def _without_another_epoch(self) -> Iterator[Found]:
        """EL-03."""
        for topic, value in self._min_isr.items():
            now = self._cluster.setting(topic, MIN_ISR)
            if value is None or now is None or int(value) == int(now):
                continue
            for key in self._cluster.of_topic(topic):
                if key not in self._before:
                    what = f"min ISR changes from {value} to {now}, and the partition epoch stays as it was"
                    yield _place(key, self._cluster.states.now[key]), Breach("EL-03", what)

    def _left_behind(self) -> Iterator[Found]:
        """FD-02 and EL-05."""
        fenced = {one for one in self._fenced if one in self._cluster.brokers and self._cluster.brokers[one].fenced}
        if not fenced and not self._unregistered:
            return
        for key, now in self._cluster.states.now.items():
            if now.leader in fenced:
                yield _place(key, now), Breach("FD-02", f"broker {now.leader} is fenced, and still leads")
            for one in self._unregistered:
                is_last = now.isr == (one,) and not self._cluster.keeps_eligible_leaders
                if one in now.elr or (one in now.isr and not is_last):
                    what = f"broker {one} is unregistered, and still in ISR {list(now.isr)} or ELR {list(now.elr)}"
                    yield _place(key, now), Breach("EL-05", what)


def _place(key: TopicPartitionId, state: State) -> str:
    return f"{state.topic}-{key[1]}"
