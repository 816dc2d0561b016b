"""Change records: what `elections` decides, written for every topic-partition that an event concerns (rules 23, 25).

Events are a broker's coming and going, its unclean restart, other settings, and the switching of eligible leader
replicas. Each is one walk over the topic-partitions; what it yields belongs into one batch with the record of the event
itself, so that no node ever sees one without the other.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from squall.nodes.controller.elections import Active, Decision, Replicas, Rules, decide
from squall.nodes.metadata.image import MetadataImage, PartitionRegistration, Topic
from squall.nodes.metadata.records import (
    NO_LEADER,
    NO_LEADER_CHANGE,
    RECOVERED,
    RECOVERING,
    TOPIC_RESOURCE,
    PartitionChangeRecord,
)
from squall.nodes.metadata.topic_configs import effective_value


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
        settings = image.config(TOPIC_RESOURCE, topic.name)
        unclean = effective_value(settings, "unclean.leader.election.enable", self._topic_defaults)
        return Rules(
            min_isr=int(effective_value(settings, "min.insync.replicas", self._topic_defaults)),
            eligible_leaders=image.keeps_eligible_leaders,
            unclean=unclean == "true",
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


def _changed(
    topic: Topic, number: int, isr: Replicas, active: Active, rules: Rules, lost: Replicas = ()
) -> Iterator[PartitionChangeRecord]:
    record = change(topic, number, decide(topic.partitions[number], isr, active, rules, lost=lost))
    if record is not None:
        yield record
