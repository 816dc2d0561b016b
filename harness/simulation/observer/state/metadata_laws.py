"""What must hold of every committed metadata record, whatever the controller decides.

The laws of a topic-partition are those that runs on hosts are held to as well
(`results/checkers/replicas/metadata_laws.py`: IS-02, EL-02, MD-08, RA-04, RA-05). Here they meet the image of the
observer, and these need more of it than one topic-partition:

* IS-02  a new topic-partition begins with active members, and with a leader
* IS-09  without eligible leader replicas the ISR is never empty
* CS-02  a broker that joins an ISR, or becomes leader, is unfenced and not about to stop (KIP-841, IS-08). Switching
         eligible leader replicas off is exempt: an empty ISR gets back the replicas that it would have kept without
         them, and these are offline (EL-06). Nor has it left an ISR as an active leader, without being marked or
         fenced since: who stops is marked first, and who is fenced is fenced last
* FD-02  a broker that a batch fences leads nothing after that batch (KIP-631), and was not fenced before
* EL-05  a broker that a batch unregisters is in no ISR and no ELR after that batch, unless it is the last that has
         everything and there are no eligible leader replicas
* MD-08  a broker's epoch is the offset of its registration; blocks of producer ids do not overlap; no two topics have
         the same name at once, and settings of a topic go with it: the next one of its name has its own

`MetadataLaws` is told of each record before and after it is replayed, and of each batch's end. Its caller replays.
"""

from __future__ import annotations

from collections.abc import Iterable

from squall.harness.simulation.observer.state.observed_log import InvariantBroken
from squall.nodes.metadata.features import ELIGIBLE_LEADER_REPLICAS
from squall.nodes.metadata.image import MetadataImage, PartitionRegistration
from squall.nodes.metadata.records import (
    NO_LEADER,
    NO_LEADER_CHANGE,
    TOPIC_RESOURCE,
    BrokerRegistrationChangeRecord,
    FenceBrokerRecord,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    RemoveTopicRecord,
    TopicRecord,
    UnregisterBrokerRecord,
)
from squall.nodes.protocol.schema import Message
from squall.results.checkers.replicas import metadata_laws as laws
from squall.results.checkers.replicas.metadata_laws import Breach


class MetadataLaws:
    """See the module. Every method raises InvariantBroken."""

    def __init__(self, image: MetadataImage) -> None:
        self._image = image
        self._fenced: dict[int, int] = {}
        """Brokers that the batch under way fences, with the offsets of the records."""
        self._unregistered: dict[int, int] = {}
        self._removed: dict[str, int] = {}
        """Likewise the brokers that it unregisters, and the names of topics that it removes."""
        self._left = laws.LeftLeaders()

    def before(self, record: Message, offset: int) -> None:
        """Check a record against the image that it will change."""
        image = self._image
        if isinstance(record, RegisterBrokerRecord):
            if record.broker_epoch != offset:
                raise InvariantBroken(
                    "MD-08",
                    f"offset {offset}: broker {record.broker_id} is registered with epoch {record.broker_epoch}",
                )
        elif isinstance(record, ProducerIdsRecord):
            if record.next_producer_id <= image.next_producer_id:
                raise InvariantBroken(
                    "MD-08",
                    f"offset {offset}: producer ids up to {record.next_producer_id} are given to broker "
                    f"{record.broker_id}, although those up to {image.next_producer_id} are given already",
                )
        elif isinstance(record, TopicRecord) and record.name in image.topic_ids:
            raise InvariantBroken("MD-08", f"offset {offset}: a second topic {record.name} is created")
        if isinstance(record, RegisterBrokerRecord) and record.fenced:
            self._fenced[record.broker_id] = offset
        elif (broker := fenced_by(record)) is not None:
            if broker in image.brokers and image.brokers[broker].fenced:
                raise InvariantBroken("FD-02", f"offset {offset}: broker {broker} is fenced, and was before")
            self._fenced[broker] = offset
        self._note_ended(record)
        if isinstance(record, UnregisterBrokerRecord):
            self._unregistered[record.broker_id] = offset
        elif isinstance(record, RemoveTopicRecord) and record.topic_id in image.topics:
            self._removed[image.topics[record.topic_id].name] = offset

    def _note_ended(self, record: Message) -> None:
        if isinstance(record, RegisterBrokerRecord | UnregisterBrokerRecord):
            self._left.ended(record.broker_id)
        elif isinstance(record, BrokerRegistrationChangeRecord):
            if record.fenced > 0 or record.in_controlled_shutdown > 0:
                self._left.ended(record.broker_id)
        elif isinstance(record, FenceBrokerRecord):
            self._left.ended(record.id)

    def after(
        self, record: PartitionRecord | PartitionChangeRecord, before: PartitionRegistration | None, offset: int
    ) -> None:
        """Check a topic-partition's new state; `before` is None if the record creates it."""
        topic = self._image.topics.get(record.topic_id)
        now = None if topic is None else topic.partitions.get(record.partition_id)
        if topic is None or now is None:
            return
        where = f"{topic.name}-{record.partition_id} at offset {offset}"
        if before is not None and isinstance(record, PartitionChangeRecord):
            require(where, laws.needless(before, _stated(record)))
        if before is not None:
            require(where, laws.leaving_replicas(before, now))
            require(where, laws.ended_reassignment(before, now))
            self._check_coming(where, before, now)
            require(where, self._left.changed(before, now, self._is_active, (offset, self._image.last_epoch)))
        require(where, laws.members(now))
        require(where, laws.reassignment(now, len(now.directories)))
        if before is None:
            self._check_new(where, now)
        else:
            require(where, laws.election(before, now))
            if now.isr != before.isr or now.elr != before.elr:
                self._check_eligible(where, before, now)

    def batch_ended(self) -> None:
        """Check what the batch has left of the brokers that it fences or unregisters, and of the topics it removes."""
        self._check_unregistered()
        removed, self._removed = self._removed, {}
        for name, offset in removed.items():
            left = self._image.configs.get((TOPIC_RESOURCE, name))
            if left and name not in self._image.topic_ids:
                raise InvariantBroken(
                    "MD-08", f"topic {name} is removed at offset {offset}, and its settings are still {dict(left)}"
                )
        fenced, self._fenced = self._fenced, {}
        for broker, offset in fenced.items():
            registration = self._image.brokers.get(broker)
            if registration is None or not registration.fenced:
                continue
            for topic in self._image.topics.values():
                for number in topic.of_broker(broker):
                    if topic.partitions[number].leader == broker:
                        raise InvariantBroken(
                            "FD-02",
                            f"the batch that fences broker {broker} at offset {offset} leaves it {topic.name}-{number}",
                        )

    def _check_unregistered(self) -> None:
        unregistered, self._unregistered = self._unregistered, {}
        for broker, offset in unregistered.items():
            for topic in self._image.topics.values():
                for number in topic.of_broker(broker):
                    now = topic.partitions[number]
                    is_last = now.isr == (broker,) and not self._eligible_leaders
                    if broker in now.elr or (broker in now.isr and not is_last):
                        raise InvariantBroken(
                            "EL-05",
                            f"{topic.name}-{number}: broker {broker} is unregistered at offset {offset}, and is still "
                            f"in ISR {list(now.isr)} or ELR {list(now.elr)}",
                        )

    def _check_new(self, where: str, now: PartitionRegistration) -> None:
        idle = [one for one in now.isr if (broker := self._image.brokers.get(one)) is None or not broker.active]
        if idle or not now.isr or now.leader == NO_LEADER:
            raise InvariantBroken(
                "IS-02",
                f"{where}: a new topic-partition has leader {now.leader} and ISR {list(now.isr)}, of which {idle} are "
                "not active",
            )

    def _check_coming(self, where: str, before: PartitionRegistration, now: PartitionRegistration) -> None:
        kept = () if before.isr or self._eligible_leaders else before.elr or before.last_known_elr[:1]
        coming = [one for one in now.isr if one not in before.isr and one not in kept]
        if now.leader >= 0 and now.leader != before.leader and now.leader not in coming:
            coming.append(now.leader)
        for one in coming:
            broker = self._image.brokers.get(one)
            if broker is None or not broker.active:
                raise InvariantBroken(
                    "CS-02", f"{where}: broker {one} leads or joins the ISR, but is {broker or 'not registered'}"
                )

    def _is_active(self, number: int) -> bool:
        broker = self._image.brokers.get(number)
        return broker is not None and broker.active

    @property
    def _eligible_leaders(self) -> bool:
        return self._image.features.get(ELIGIBLE_LEADER_REPLICAS, 0) > 0

    def _check_eligible(self, where: str, before: PartitionRegistration, now: PartitionRegistration) -> None:
        if not self._eligible_leaders:
            if not now.isr:
                raise InvariantBroken("IS-09", f"{where}: the ISR is empty, and there are no eligible leader replicas")
            return
        require(where, laws.eligible(before, now))


def _stated(record: PartitionChangeRecord) -> laws.Stated:
    return laws.Stated(
        leader=None if record.leader == NO_LEADER_CHANGE else record.leader,
        isr=_members(record.isr),
        replicas=_members(record.replicas),
        adding=_members(record.adding_replicas),
        removing=_members(record.removing_replicas),
        elr=_members(record.eligible_leader_replicas),
        last_known_elr=_members(record.last_known_elr),
        recovery_state=None if record.leader_recovery_state < 0 else record.leader_recovery_state,
    )


def _members(stated: list[int] | None) -> laws.Members | None:
    return None if stated is None else tuple(stated)


def require(where: str, breaches: Iterable[Breach]) -> None:
    """Raise InvariantBroken for the first breach; `where` is the topic-partition, and the place in the log."""
    for law, what in breaches:
        raise InvariantBroken(law, f"{where}: {what}")


def fenced_by(record: Message) -> int | None:
    """Return the broker that a record fences; None if it is about something else. A registration is not meant."""
    if isinstance(record, BrokerRegistrationChangeRecord) and record.fenced > 0:
        return record.broker_id
    return record.id if isinstance(record, FenceBrokerRecord) else None
