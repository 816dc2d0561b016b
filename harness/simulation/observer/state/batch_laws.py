"""What must hold of every committed batch of metadata records, whatever the controller decides.

A batch holds an event, such as a broker that is fenced, and all that follows from it. So these laws compare the image
before a batch with the image after it; `metadata_laws.py` has those of single records. They judge a decision at once,
where its consequences may need further faults to show. EL-02, EL-04 and RA-08 are those that runs on hosts are held to
as well (`results/checkers/replicas/metadata_laws.py`); this one needs more of the image than one topic-partition:

* EL-03  where min ISR changes while replicas may be eligible, every topic-partition concerned gets another partition
         epoch: its leader may still have the old min ISR, and the controller must refuse its changes

Legal: a batch that concerns other topic-partitions; settings that say what held before.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from squall.harness.simulation.observer.state.metadata_laws import require
from squall.harness.simulation.observer.state.observed_log import InvariantBroken
from squall.nodes.metadata.image import MetadataImage, PartitionRegistration, Topic
from squall.nodes.metadata.records import (
    ConfigRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    UnregisterBrokerRecord,
)
from squall.nodes.metadata.topic_configs import MIN_ISR
from squall.nodes.protocol.schema import Message
from squall.results.checkers.replicas import metadata_laws as laws

UNCLEAN_ELECTIONS = "unclean.leader.election.enable"


class BatchLaws:
    """See the module. The caller reports each record before it replays the record, and the end of each batch."""

    def __init__(self, image: MetadataImage) -> None:
        self.unclean_allowed = False
        """Whether the cluster's configuration allows unclean elections where a topic says nothing."""
        self._image = image
        self._ended: set[int] = set()
        """Brokers that the batch registers again or unregisters: they may have lost records."""
        self._before: dict[tuple[bytes, int], PartitionRegistration | None] = {}
        """By topic id and number, what the batch has changed, as it was before; None if the batch creates it."""
        self._min_isr: dict[bytes, str | None] = {}
        """By topic id, the min ISR before the batch, of topics whose min ISR the batch may change."""

    def before(self, record: Message, registration: PartitionRegistration | None) -> None:
        """Keep what the record is about to change, of a topic-partition its registration."""
        image = self._image
        if isinstance(record, PartitionRecord | PartitionChangeRecord):
            self._before.setdefault((record.topic_id, record.partition_id), registration)
        elif isinstance(record, RegisterBrokerRecord | UnregisterBrokerRecord):
            self._ended.add(record.broker_id)
        elif isinstance(record, ConfigRecord) and record.name == MIN_ISR and image.keeps_eligible_leaders:
            for topic in image.topics_set_by({(record.resource_type, record.resource_name): record}):
                self._min_isr.setdefault(topic.id, image.topic_settings(topic.name).get(MIN_ISR))

    def ended(self, offset: int) -> None:
        """Check the batch that ends with this offset. Raises InvariantBroken."""
        changed, self._before = self._before, {}
        min_isr, self._min_isr = self._min_isr, {}
        ended, self._ended = self._ended, set()
        if min_isr:
            self._check_min_isr(offset, changed.keys(), min_isr)
        active = frozenset(one.id for one in self._image.brokers.values() if one.active) if changed else frozenset()
        for (topic_id, number), before in changed.items():
            topic = self._image.topics.get(topic_id)
            now = None if topic is None else topic.partitions.get(number)
            if topic is None or now is None or before is None:
                continue
            where = f"{topic.name}-{number} in the batch that ends at offset {offset}"
            require(where, laws.originals(before, now))
            require(where, laws.leader(before, now, active))
            if not self._may_lose(topic):
                require(where, laws.nobody_left(before, now, ended))
            required = self._image.topic_settings(topic.name).get(MIN_ISR)
            if self._image.keeps_eligible_leaders and required is not None:
                is_set = topic_id in min_isr
                require(where, laws.kept_by_min_isr(before, now, int(required), ended, is_set=is_set))

    def _may_lose(self, topic: Topic) -> bool:
        """Return whether the settings allow elections of replicas that may lack records."""
        setting = self._image.topic_settings(topic.name).get(UNCLEAN_ELECTIONS)
        return self.unclean_allowed if setting is None else setting == "true"

    def _check_min_isr(
        self, offset: int, changed: Collection[tuple[bytes, int]], before: Mapping[bytes, str | None]
    ) -> None:
        for topic_id, value in before.items():
            topic = self._image.topics.get(topic_id)
            now = None if topic is None else self._image.topic_settings(topic.name).get(MIN_ISR)
            if topic is None or value is None or now is None or int(value) == int(now):
                continue
            left = [number for number in topic.partitions if (topic_id, number) not in changed]
            if left:
                raise InvariantBroken(
                    "EL-03",
                    f"the batch that ends at offset {offset} changes {topic.name}'s min ISR from {value} to {now}, and "
                    f"leaves the partition epochs of {left} as they were",
                )
