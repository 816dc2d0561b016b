"""Change records: what `elections` decides, written for every topic-partition that an event concerns (rules 23, 25).

Events are a broker's coming and going, its unclean restart, other settings, and the switching of eligible leader
replicas. Each is one walk over the topic-partitions; what it yields belongs into one batch with the record of the event
itself, so that no node ever sees one without the other.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from squall.nodes.controller.elections import Active, Decision, Replicas, Rules, decide
from squall.nodes.metadata.image import MetadataImage, PartitionRegistration, Topic
from squall.nodes.metadata.records import (
    NO_LEADER,
    NO_LEADER_CHANGE,
    RECOVERED,
    RECOVERING,
    PartitionChangeRecord,
)
from squall.nodes.metadata.topic_configs import MIN_ISR, UNCLEAN_ELECTION, effective_value


def change(topic: Topic, number: int, decision: Decision, *, recovered: bool = False) -> PartitionChangeRecord | None:
    """The record that turns a topic-partition into what was decided; None if it is that already.

    It names a leader only when that is another one: naming it raises the leader epoch (rule 23).
    """
    old = topic.partitions[number]
    record = PartitionChangeRecord(partition_id=number, topic_id=topic.id)
    if decision.isr != old.isr:
        record.isr = list(decision.isr)
    if decision.elr != old.elr:
        record.eligible_leader_replicas = list(decision.elr)
    if decision.last_known_elr != old.last_known_elr:
        record.last_known_elr = list(decision.last_known_elr)
    if decision.leader != old.leader:
        record.leader = decision.leader
    if decision.unclean and old.recovery_state != RECOVERING:
        record.leader_recovery_state = RECOVERING
    elif recovered and old.recovery_state != RECOVERED:
        record.leader_recovery_state = RECOVERED
    return None if _is_empty(record) else record


def _is_empty(record: PartitionChangeRecord) -> bool:
    lists = (record.isr, record.eligible_leader_replicas, record.last_known_elr)
    return (
        all(one is None for one in lists)
        and record.leader == NO_LEADER_CHANGE
        and record.leader_recovery_state not in (RECOVERED, RECOVERING)
    )


class PartitionChanges:
    """Change records for all topic-partitions that an event concerns. `last_known_leader`: see `elections`."""

    def __init__(self, topic_defaults: Mapping[str, str], *, last_known_leader: bool = False) -> None:
        self._topic_defaults = topic_defaults
        self._last_known_leader = last_known_leader

    def rules(self, image: MetadataImage, topic: Topic) -> Rules:
        """By what a topic's leaders and ISRs are decided."""
        return self._rules_by(image, image.topic_settings(topic.name))

    def _rules_by(self, image: MetadataImage, settings: Mapping[str, str]) -> Rules:
        return Rules(
            min_isr=int(effective_value(settings, MIN_ISR, self._topic_defaults)),
            eligible_leaders=image.keeps_eligible_leaders,
            unclean=effective_value(settings, UNCLEAN_ELECTION, self._topic_defaults) == "true",
            last_known_leader=self._last_known_leader,
        )

    @staticmethod
    def is_active(image: MetadataImage, broker: int) -> bool:
        found = image.brokers.get(broker)
        return found is not None and found.active

    # -- brokers ----------------------------------------------------------------------------------------------

    def broker_leaves(
        self, image: MetadataImage, broker: int, *, lost: bool = False
    ) -> Iterator[PartitionChangeRecord]:
        """Out of every ISR and every leadership; and if it may have `lost` records, out of every ELR too."""

        def active(replica: int) -> bool:
            return replica != broker and self.is_active(image, replica)

        def concerned(registration: PartitionRegistration) -> bool:
            return broker in registration.isr or registration.leader == broker or (lost and broker in registration.elr)

        gone = (broker,) if lost else ()
        for topic in image.topics.values():
            rules = self.rules(image, topic)
            for number, registration in topic.partitions.items():
                if concerned(registration):
                    remaining = tuple(member for member in registration.isr if member != broker)
                    yield from _changed(topic, number, remaining, active, rules, gone)

    def broker_joins(self, image: MetadataImage, broker: int) -> Iterator[PartitionChangeRecord]:
        """A leader for every topic-partition that has none and may be led now."""

        def active(replica: int) -> bool:
            return replica == broker or self.is_active(image, replica)

        for topic in image.topics.values():
            rules = self.rules(image, topic)
            for number, registration in topic.partitions.items():
                if registration.leader == NO_LEADER:
                    yield from _changed(topic, number, registration.isr, active, rules)

    # -- settings ---------------------------------------------------------------------------------------------

    def settings_changed(
        self, image: MetadataImage, altered: Mapping[tuple[int, str], Mapping[str, str]]
    ) -> Iterator[PartitionChangeRecord]:
        """What follows when these resources, by type and name, have these settings instead of those in the image.

        Where unclean elections become allowed, they take place. Another min ISR empties the ELR, which was gathered
        under the old one (EL-06), unless the ISR is empty: then nobody commits anything, whatever min ISR is, and the
        ELR is all there is to elect from.

        And it moves the partition epoch of every topic-partition concerned, also where nothing else changes. A leader
        takes an ISR from the answer to its AlterPartition, which may reach it before the new min ISR does through the
        metadata log. After 1 became 2, it would then commit on its own by the old setting, while the controller keeps
        those who left eligible by the new one. With the partition epoch moved, no change is accepted from a
        leader that does not have the setting yet.
        """

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
                record = change(topic, number, decision)
                if record is not None:
                    yield record
                elif other_min_isr:
                    yield PartitionChangeRecord(partition_id=number, topic_id=topic.id)

    def eligible_leaders_end(self, image: MetadataImage) -> Iterator[PartitionChangeRecord]:
        """No ELR any more (EL-06). An empty ISR gets back whom it would have kept without: those known to have all,
        or whoever led last."""
        for topic in image.topics.values():
            for number, old in topic.partitions.items():
                isr = old.isr or old.elr or old.last_known_elr[:1]
                record = change(topic, number, Decision(old.leader, isr))
                if record is not None:
                    yield record


def _changed(
    topic: Topic, number: int, isr: Replicas, active: Active, rules: Rules, lost: Replicas = ()
) -> Iterator[PartitionChangeRecord]:
    record = change(topic, number, decide(topic.partitions[number], isr, active, rules, lost=lost))
    if record is not None:
        yield record
