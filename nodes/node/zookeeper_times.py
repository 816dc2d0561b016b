"""Times of a ZooKeeper-era node: how long its controller's procedures wait and take, and the ensemble's responses.

They are kept by the states of Kafka's controller, whose names its metrics have (`ControllerState`).
"""

from __future__ import annotations

from squall.nodes.node.timings import Recent
from squall.nodes.zookeeper.client import ZooKeeperClient
from squall.nodes.zookeeper.controller.controller import ZooKeeperController

STATES = {
    "elect": "ControllerChange",
    "controller-change": "ControllerChange",
    "broker-change": "LeaderElection",
    "topic-change": "TopicChange",
    "partition-modification": "TopicChange",
    "create_topics": "TopicChange",
    "create_partitions": "TopicChange",
    "topic-deletion": "TopicDeletion",
    "replica-stopped": "TopicDeletion",
    "delete_topics": "TopicDeletion",
    "isr-change": "IsrChange",
    "zk-partition-reassignment": "PartitionReassignment",
    "alter_partition_reassignments": "PartitionReassignment",
    "list_partition_reassignments": "ListPartitionReassignment",
    "controlled_shutdown": "ControlledShutdown",
    "elect_leaders": "ManualLeaderBalance",
    "incremental_alter_configs": "UncleanLeaderElectionEnable",
}
"""Kafka's names by those of the procedures of the controller's event loop."""


class ZooKeeperTimes:
    """See the module. All are in µs."""

    def __init__(self, client: ZooKeeperClient, controller: ZooKeeperController) -> None:
        self.queue = Recent()
        self.responses = Recent()
        self.procedures = {state: Recent() for state in STATES.values()}
        client.on_answer = self.responses.add
        controller.loop.on_end = self._ended

    def _ended(self, name: str, waited: int, took: int) -> None:
        self.queue.add(waited)
        self.procedures[STATES[name]].add(took)
