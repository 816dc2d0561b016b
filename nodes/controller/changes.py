"""Change records: what `elections` decides, written for every topic-partition of an event (rules 23, 25).

Events are a broker's joining and leaving, its unclean restart, changed settings, and switching eligible leader
replicas. Each is one walk over the topic-partitions; its records belong into one batch with the record of the event, so
that no node ever sees one without the other. In a large cluster a broker may need more records than one batch holds:
then the walk continues from turn to turn, nothing else is decided meanwhile (see `controller`), and the record of the
event comes with the last batch. A walk for one broker costs in proportion to its topic-partitions, by the index of
`metadata.topic`; each decision is computed once for all topic-partitions with equal state, down to the bytes of the
record.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum

from squall.nodes.controller.elections import Active, Decision, Replicas, Rules, decide
from squall.nodes.controller.partition_records import change, completion, move
from squall.nodes.metadata.image import MetadataImage, PartitionRegistration, Topic
from squall.nodes.metadata.partition_values import ChangeForm, change_form, change_value
from squall.nodes.metadata.records import NO_LEADER, PartitionChangeRecord
from squall.nodes.metadata.topic_configs import MIN_ISR, UNCLEAN_ELECTION, effective_value


class ElectionKind(Enum):
    """The kind of election that a decision makes."""

    NONE = "the same leader as before"
    CLEAN = "one in the ISR"
    ELIGIBLE = "one out of the ISR that has all that is committed"
    UNCLEAN = "one that may lack committed records"


def kind_of(old: PartitionRegistration, decision: Decision) -> ElectionKind:
    """The kind of election of a decision."""
    if decision.leader == old.leader:
        return ElectionKind.NONE
    if decision.unclean:
        return ElectionKind.UNCLEAN
    return ElectionKind.ELIGIBLE if decision.leader in old.rare.elr else ElectionKind.CLEAN


def change_or_completion(
    topic: Topic, number: int, decision: Decision, active: Active, rules: Rules
) -> PartitionChangeRecord | None:
    """The record of a decision, which may complete a reassignment; None if nothing changes."""
    old = topic.partitions[number]
    if old.rare.adding or old.rare.removing:
        completed = completion(old, decision, active, rules)
        if completed is not None:
            return move(topic, number, *completed)
    return change(topic, number, decision)


class PartitionChanges:
    """Change records for all topic-partitions of an event. `last_known_leader`: see `elections`."""

    def __init__(self, topic_defaults: Mapping[str, str], *, last_known_leader: bool = False) -> None:
        self._topic_defaults = topic_defaults
        self._last_known_leader = last_known_leader
        self.unclean_elections = self.eligible_elections = 0
        """Elections decided here since the start: those that may have lost records, and those of an eligible leader."""

    def rules(self, image: MetadataImage, topic: Topic) -> Rules:
        """The rules that decide a topic's leaders and ISRs."""
        return self._rules_by(image, image.topic_settings(topic.name))

    def _rules_by(self, image: MetadataImage, settings: Mapping[str, str]) -> Rules:
        return Rules(
            min_isr=int(effective_value(settings, MIN_ISR, self._topic_defaults)),
            eligible_leaders=image.keeps_eligible_leaders,
            unclean=effective_value(settings, UNCLEAN_ELECTION, self._topic_defaults) == "true",
            last_known_leader=self._last_known_leader,
        )

    def record(
        self, topic: Topic, number: int, decision: Decision, active: Active, rules: Rules
    ) -> PartitionChangeRecord | None:
        """The record of an election, which may complete a reassignment; None if nothing changes."""
        self.count(kind_of(topic.partitions[number], decision))
        return change_or_completion(topic, number, decision, active, rules)

    def count(self, kind: ElectionKind) -> None:
        """Count one more election."""
        if kind is ElectionKind.UNCLEAN:
            self.unclean_elections += 1
        elif kind is ElectionKind.ELIGIBLE:
            self.eligible_elections += 1

    @staticmethod
    def is_active(image: MetadataImage, broker: int) -> bool:
        found = image.brokers.get(broker)
        return found is not None and found.active

    # -- brokers ----------------------------------------------------------------------------------------------

    def broker_leaves(self, image: MetadataImage, broker: int, *, lost: bool = False) -> Iterator[bytes]:
        """Remove a broker from every ISR and leadership; if it may have `lost` records, also from every ELR.

        Yields values of change records.
        """
        standing = [one.id for one in image.brokers.values() if one.active and one.id != broker]
        alike = _Alike(self, standing, (broker,) if lost else ())
        for topic in list(image.topics.values()):
            numbers = topic.of_broker(broker)
            if not numbers:
                continue
            alike.begin(topic, self.rules(image, topic))
            partitions, topic_id = topic.partitions, topic.id
            for number in numbers:
                old = partitions[number]
                if broker in old.isr or old.leader == broker or (lost and broker in old.elr):
                    form = alike.form(number, old, without=broker)
                    if form is not None:
                        yield change_value(form, topic_id, number)

    def broker_joins(self, image: MetadataImage, broker: int) -> Iterator[bytes]:
        """Elect a leader for every topic-partition that has none and that this broker may lead.

        Yields values of change records.
        """
        standing = [one.id for one in image.brokers.values() if one.active]
        alike = _Alike(self, [*standing, broker])
        for topic in list(image.topics.values()):
            leaderless = set(topic.leaderless())
            if not leaderless:
                continue
            alike.begin(topic, self.rules(image, topic))
            for number in topic.of_broker(broker):
                form = alike.form(number, topic.partitions[number]) if number in leaderless else None
                if form is not None:
                    yield change_value(form, topic.id, number)

    def elections(self, image: MetadataImage) -> Iterator[bytes | None]:
        """Elect a leader for every topic-partition that has none and may have one now.

        Yields values of change records, and None for each that has to wait further.
        """
        standing = [one.id for one in image.brokers.values() if one.active]
        alike = _Alike(self, standing)
        for topic in list(image.topics.values()) if standing else ():
            numbers = topic.leaderless()
            if not numbers:
                continue
            alike.begin(topic, self.rules(image, topic))
            for number in numbers:
                form = alike.form(number, topic.partitions[number])
                yield None if form is None else change_value(form, topic.id, number)

    # -- settings ---------------------------------------------------------------------------------------------

    def settings_changed(
        self, image: MetadataImage, altered: Mapping[tuple[int, str], Mapping[str, str]]
    ) -> Iterator[PartitionChangeRecord]:
        """The changes that follow when these resources, by type and name, have these settings instead of the image's.

        Where unclean elections become allowed, they take place. Another min ISR empties the ELR, which was collected
        under the old one (EL-06), unless the ISR is empty: then no leader commits anything with any min ISR, and the
        ELR is the only set to elect from.

        A min ISR change also raises the partition epoch of every topic-partition concerned, even where nothing else
        changes. A leader takes an ISR from the response to its AlterPartition, which may arrive before it receives the
        new min ISR through the metadata log. After 1 became 2, it would then commit alone by the old setting, while the
        controller keeps the departed members eligible by the new one. With the raised partition epoch, the controller
        accepts no change from a leader that does not have the setting yet.
        """
        for kind, record in self._after_settings(image, altered):
            self.count(kind)
            if record is not None:
                yield record

    def count_of_changes(self, image: MetadataImage, altered: Mapping[tuple[int, str], Mapping[str, str]]) -> int:
        """How many records `settings_changed` has. Nothing is decided by this, so that no election is counted."""
        return sum(record is not None for _, record in self._after_settings(image, altered))

    def _after_settings(
        self, image: MetadataImage, altered: Mapping[tuple[int, str], Mapping[str, str]]
    ) -> Iterator[tuple[ElectionKind, PartitionChangeRecord | None]]:
        """For each topic-partition concerned the election that these settings bring about, and the record."""

        def active(replica: int) -> bool:
            return self.is_active(image, replica)

        for topic in image.topics_set_by(altered):
            before = self.rules(image, topic)
            after = self._rules_by(image, image.topic_settings(topic.name, altered))
            other_min_isr = after.min_isr != before.min_isr and after.eligible_leaders
            for number, registration in topic.partitions.items():
                decision = decide(registration, registration.isr, active, after)
                if other_min_isr and decision.isr:
                    decision = replace(decision, elr=(), last_known_elr=())
                record = change_or_completion(topic, number, decision, active, after)
                if record is None and other_min_isr:
                    record = PartitionChangeRecord(partition_id=number, topic_id=topic.id)
                yield kind_of(registration, decision), record

    def eligible_leaders_begin(self, image: MetadataImage) -> Iterator[PartitionChangeRecord]:
        """Raise every topic-partition's partition epoch, so that its leader must know of the switch (EL-03, EP-03).

        Eligibility requires a high watermark that stands still below the controller's min ISR. A leader may still use
        another min ISR: its configuration file's, or that from before a change of settings that was made while eligible
        leaders were off and raised no epoch. With its old partition epoch it could shrink its ISR to itself and commit
        alone, while the controller keeps the departed members eligible. Kafka raises no epoch here (KIP-966 does not
        mention it).
        """
        for topic in image.topics.values():
            for number in topic.partitions:
                yield PartitionChangeRecord(partition_id=number, topic_id=topic.id)

    def eligible_leaders_end(self, image: MetadataImage) -> Iterator[PartitionChangeRecord]:
        """Clear all ELRs (EL-06).

        An empty ISR gets its members back: those known to have all records, or the last leader.
        """
        for topic in image.topics.values():
            for number, old in topic.partitions.items():
                isr = old.isr or old.elr or old.last_known_elr[:1]
                record = change(topic, number, Decision(old.leader, isr))
                if record is not None:
                    yield record


class _Alike:
    """Computes the change of each topic-partition in one event, once for all with equal state.

    A broker in a large cluster has hundreds of thousands of topic-partitions, but only a few thousand distinct
    assignments.
    """

    def __init__(self, changes: PartitionChanges, active: Sequence[int], lost: Replicas = ()) -> None:
        self._changes = changes
        self._active = dict.fromkeys(active, True).__contains__
        self._lost = lost
        self._known: dict[Rules, dict[tuple[object, ...], _CachedDecision]] = {}

    def begin(self, topic: Topic, rules: Rules) -> None:
        """Set the topic of the following calls."""
        self._topic, self._rules = topic, rules
        self._of_rules = self._known.setdefault(rules, {})

    def form(self, number: int, old: PartitionRegistration, *, without: int = NO_LEADER) -> ChangeForm | None:
        """The form of the change record; None if nothing changes."""
        key = (old.replicas, old.isr, old.leader, old.rare)
        fate = self._of_rules.get(key)
        if fate is None:
            isr = tuple(member for member in old.isr if member != without)
            fate = self._of_rules[key] = self._decide(number, old, isr)
        if fate.is_counted:
            self._changes.count(fate.kind)
        return fate.form

    def _decide(self, number: int, old: PartitionRegistration, isr: Replicas) -> _CachedDecision:
        decision = decide(old, isr, self._active, self._rules, lost=self._lost)
        record = change_or_completion(self._topic, number, decision, self._active, self._rules)
        kind = kind_of(old, decision)
        counted = kind in (ElectionKind.ELIGIBLE, ElectionKind.UNCLEAN)
        return _CachedDecision(kind, counted, None if record is None else change_form(record))


@dataclass(frozen=True, slots=True)
class _CachedDecision:
    """The decision for all topic-partitions with equal state."""

    kind: ElectionKind
    is_counted: bool
    form: ChangeForm | None
