"""Who leads a topic-partition, and the change records that make it so (rules 23, 25, 27; FD-02, IS-02, IS-09).

The choice is the controller's alone and is made from committed ISRs: the leader stays if it may; else the first replica
in assignment order that is in the ISR and active; else, where the topic allows it, any active replica, which then is
the whole ISR and RECOVERING; else nobody. The last member of an ISR stays in it even when it is gone, because it alone
is known to have every acknowledged record. Eligible leader replicas (EL) will make that set larger, here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

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

Eligible = Callable[[int], bool]


@dataclass(frozen=True, slots=True)
class Election:
    """Who leads from now on, with which ISR, and whether records may have been lost."""

    leader: int
    isr: tuple[int, ...]
    unclean: bool = False


def elect(registration: PartitionRegistration, isr: tuple[int, ...], eligible: Eligible, *, unclean: bool) -> Election:
    """The outcome for one topic-partition whose ISR is to be `isr`, if that leaves anybody."""
    isr = isr or registration.isr
    if registration.leader in isr and eligible(registration.leader):
        return Election(registration.leader, isr)
    for replica in registration.replicas:
        if replica in isr and eligible(replica):
            return Election(replica, isr)
    if unclean:
        for replica in registration.replicas:
            if eligible(replica):
                return Election(replica, (replica,), unclean=True)
    return Election(NO_LEADER, isr)


def change(
    topic: Topic,
    number: int,
    isr: tuple[int, ...],
    eligible: Eligible,
    *,
    unclean: bool = False,
    recovered: bool = False,
) -> PartitionChangeRecord | None:
    """The record that gives a topic-partition this ISR and, if need be, another leader; None if nothing changes.

    It names a leader only when that is another one: naming it raises the leader epoch (rule 23).
    """
    registration = topic.partitions[number]
    election = elect(registration, isr, eligible, unclean=unclean)
    record = PartitionChangeRecord(partition_id=number, topic_id=topic.id)
    if election.isr != registration.isr:
        record.isr = list(election.isr)
    if election.leader != registration.leader:
        record.leader = election.leader
    if election.unclean and registration.recovery_state != RECOVERING:
        record.leader_recovery_state = RECOVERING
    elif recovered and registration.recovery_state != RECOVERED:
        record.leader_recovery_state = RECOVERED
    same = record.isr is None and record.leader == NO_LEADER_CHANGE and record.leader_recovery_state < 0
    return None if same else record


class PartitionChanges:
    """Change records for all topic-partitions that a broker's coming or going concerns."""

    def __init__(self, topic_defaults: dict[str, str]) -> None:
        self._topic_defaults = topic_defaults

    def broker_leaves(self, image: MetadataImage, broker: int) -> Iterator[PartitionChangeRecord]:
        """Out of every ISR that has another member, and out of every leadership."""

        def eligible(replica: int) -> bool:
            return replica != broker and self.is_active(image, replica)

        for topic in image.topics.values():
            unclean = self.allows_unclean(image, topic)
            for number, registration in topic.partitions.items():
                if broker in registration.isr or registration.leader == broker:
                    remaining = tuple(member for member in registration.isr if member != broker)
                    record = change(topic, number, remaining, eligible, unclean=unclean)
                    if record is not None:
                        yield record

    def broker_joins(self, image: MetadataImage, broker: int) -> Iterator[PartitionChangeRecord]:
        """A leader for every topic-partition that has none and may be led now."""

        def eligible(replica: int) -> bool:
            return replica == broker or self.is_active(image, replica)

        for topic in image.topics.values():
            unclean = self.allows_unclean(image, topic)
            for number, registration in topic.partitions.items():
                if registration.leader == NO_LEADER:
                    record = change(topic, number, registration.isr, eligible, unclean=unclean)
                    if record is not None:
                        yield record

    @staticmethod
    def is_active(image: MetadataImage, broker: int) -> bool:
        found = image.brokers.get(broker)
        return found is not None and found.active

    def allows_unclean(self, image: MetadataImage, topic: Topic) -> bool:
        settings = image.config(TOPIC_RESOURCE, topic.name)
        return effective_value(settings, "unclean.leader.election.enable", self._topic_defaults) == "true"
