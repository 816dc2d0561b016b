"""What a ZooKeeper-era controller knows of the cluster: a cache of the ensemble that only its event loop changes.

A new controller reads all of it before it does anything (ZK-12). Leaders change ISRs in the ensemble without asking;
the cached states are old until the notification is processed, and every write of the controller checks the version.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum

from squall.nodes.zookeeper.znodes import Assignment, BrokerZnode, StateZnode, TopicPartition

Replica = tuple[str, int, int]
"""Topic, partition, broker."""


class PartitionState(Enum):
    """Where a topic-partition is in its life, as in Kafka's PartitionStateMachine."""

    NON_EXISTENT = "non-existent"
    NEW = "new"
    """It has replicas and no state yet."""
    ONLINE = "online"
    OFFLINE = "offline"
    """It has no leader that lives."""


class ReplicaState(Enum):
    """Where a replica is in its life, as in Kafka's ReplicaStateMachine."""

    NON_EXISTENT = "non-existent"
    NEW = "new"
    ONLINE = "online"
    OFFLINE = "offline"
    DELETION_STARTED = "deletion started"
    DELETED = "deleted"
    DELETION_INELIGIBLE = "deletion ineligible"


class ControllerContext:
    """See the module. All collections are ordered, so that every run takes the same course."""

    def __init__(self) -> None:
        self.epoch = 0
        """The controller epoch of this broker, or the newest that it knows of."""
        self.epoch_version = 0
        """The version of `/controller_epoch` since this broker's election, which every write checks."""
        self.brokers: dict[int, BrokerZnode] = {}
        """Brokers that live, those in controlled shutdown included."""
        self.shutting_down: dict[int, None] = {}
        self.topic_ids: dict[str, bytes] = {}
        self.assignments: dict[str, dict[int, Assignment]] = {}
        self.topic_versions: dict[str, int] = {}
        self.states: dict[TopicPartition, StateZnode] = {}
        self.partition_states: dict[TopicPartition, PartitionState] = {}
        self.replica_states: dict[Replica, ReplicaState] = {}
        self.to_delete: dict[str, None] = {}
        """Topics that are to be deleted and are not yet."""

    # -- brokers --------------------------------------------------------------------------------------------------

    def is_live(self, broker: int) -> bool:
        """Whether a broker lives and is not about to stop: it may lead."""
        return broker in self.brokers and broker not in self.shutting_down

    def is_online(self, broker: int) -> bool:
        """Whether a broker lives, perhaps about to stop: it may have replicas and gets requests."""
        return broker in self.brokers

    # -- topic-partitions -----------------------------------------------------------------------------------------

    def replicas(self, topic: str, partition: int) -> tuple[int, ...]:
        found = self.assignments.get(topic, {}).get(partition)
        return () if found is None else found.replicas

    def assignment(self, topic: str, partition: int) -> Assignment:
        return self.assignments[topic][partition]

    def partitions(self) -> Iterator[TopicPartition]:
        for topic, assignments in self.assignments.items():
            for number in assignments:
                yield topic, number

    def partitions_on(self, broker: int) -> list[TopicPartition]:
        return [key for key in self.partitions() if broker in self.replicas(*key)]

    def replicas_of_topic(self, topic: str) -> list[Replica]:
        assignments = self.assignments.get(topic, {})
        return [(topic, number, broker) for number, one in assignments.items() for broker in one.replicas]

    def all_replicas(self) -> list[Replica]:
        return [replica for topic in self.assignments for replica in self.replicas_of_topic(topic)]

    def is_being_deleted(self, topic: str) -> bool:
        return topic in self.to_delete

    def leaderless(self) -> list[TopicPartition]:
        """The topic-partitions that are new or offline, except those of topics that are being deleted."""
        waiting = (PartitionState.NEW, PartitionState.OFFLINE)
        found = [key for key, state in self.partition_states.items() if state in waiting]
        return [key for key in found if not self.is_being_deleted(key[0])]

    def forget_topic(self, topic: str) -> None:
        for replica in self.replicas_of_topic(topic):
            self.replica_states.pop(replica, None)
        for number in self.assignments.pop(topic, {}):
            self.states.pop((topic, number), None)
            self.partition_states.pop((topic, number), None)
        self.topic_ids.pop(topic, None)
        self.topic_versions.pop(topic, None)
        self.to_delete.pop(topic, None)
