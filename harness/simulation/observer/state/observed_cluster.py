"""What all rules of the observer share: the processes, the logs, the images, the replayed metadata, the clients' view.

The observer keeps this state up to date; rules read it. Logs are identified by topic id, so that a topic created again
under its name has a new log. A `Watched` also knows which hosts have lost un-synced records of the topic-partition, and
which of its leader epochs began with an allowed unclean election: both make a loss of committed records legal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from squall.harness.simulation.observer.state.batch_laws import UNCLEAN_ELECTIONS
from squall.harness.simulation.observer.state.client_checker import ClientChecker, Promised
from squall.harness.simulation.observer.state.counters import Counters
from squall.harness.simulation.observer.state.observed_images import ObservedImages
from squall.harness.simulation.observer.state.observed_log import Batch, Loss, ObservedLog, batches_of
from squall.harness.simulation.observer.state.observed_metadata import ReplayedMetadata
from squall.harness.simulation.observer.state.observed_writes import ObservedWrites
from squall.harness.simulation.world.process import SimProcess
from squall.nodes.broker.hosting.hosted_partition import HostedPartition
from squall.nodes.metadata.image import PartitionRegistration
from squall.nodes.node.base import BaseNode
from squall.nodes.replication.replica import TopicPartitionReplica

READ_BYTES = 1 << 20
TopicPartitionId = tuple[bytes, int]


@dataclass(slots=True)
class Watched:
    """One topic-partition: its log, what clients know of it, and which hosts have lost un-synced records of it."""

    log: ObservedLog
    promised: Promised
    topic: str
    robbed: dict[str, None]
    min_isr: int = 1
    unclean: dict[int, None] = field(default_factory=dict)
    """Leader epochs that began with an unclean election which the settings allowed at that time."""

    def is_loss_pending(self, since: int) -> bool:
        """Whether an unclean election was decided after leader epoch `since`."""
        return any(epoch > since for epoch in self.unclean)

    def loss_allowed(self) -> bool:
        """Return whether an unclean election's leader has yet to begin, or min ISR or more replicas lost data."""
        return self.is_loss_pending(self.log.newest_epoch) or len(self.robbed) >= self.min_isr


class ObservedCluster:
    """The state that the rules share; see the module."""

    def __init__(self, *, acks_all: bool = True, unclean_allowed: bool = False) -> None:
        """`unclean_allowed`: the cluster's configuration allows unclean elections; a topic may do so, too."""
        self.counters = Counters()
        self.quorum = ObservedLog("__cluster_metadata-0")
        self.images = ObservedImages()
        self.metadata = ReplayedMetadata()
        self.writes = ObservedWrites()
        self.client_checker = ClientChecker(all_acknowledged=acks_all, name_of=lambda node: self.names.get(node))
        self.on_quorum_leader: Callable[[str, int], None] = lambda name, epoch: None
        self.on_unclean_leader: Callable[[str, int, Loss], None] = lambda topic, partition, loss: None
        self.names: dict[int, str] = {}
        self.being_deleted: dict[str, None] = {}
        """The topics that ZooKeeper says are to be deleted, by name; always empty with a quorum."""
        self.processes: dict[str, SimProcess] = {}
        self.turns: dict[str, int] = {}
        """The turns of each process in all its incarnations."""
        self.watched: dict[TopicPartitionId, Watched] = {}
        self._unclean_allowed = unclean_allowed
        self.metadata.on_unclean = self._unclean_election
        if self.metadata.batch_laws is not None:
            self.metadata.batch_laws.unclean_allowed = unclean_allowed

    def set_members(self, processes: Mapping[str, SimProcess], names: Mapping[int, str]) -> None:
        """Register the processes by name, and the names by node id."""
        self.processes = dict(processes)
        self.names = dict(names)

    # -- topic-partitions -----------------------------------------------------------------------------------------

    def watch(self, topic: str, topic_id: bytes, partition: int) -> Watched:
        """Return the state of a topic-partition, new if it was not seen before."""
        watched = self.watched.get((topic_id, partition))
        if watched is None:
            log = ObservedLog(f"{topic}-{partition}")
            watched = self.watched[topic_id, partition] = Watched(log, Promised(log), topic, {})
        return watched

    def promised(self, topic: str | None, partition: int | None) -> Promised | None:
        """Return what clients know of the newest log of that name, or None if there is none yet."""
        ids = self.images.topic_ids.get(topic or "", [])
        if topic is None or partition is None or not ids:
            return None
        return self.watch(topic, ids[-1], partition).promised

    def is_only_topic_of_its_name(self, topic: str | None) -> bool:
        """Return whether no topic was created again under this name: what clients say of it is about one log."""
        return len(self.images.topic_ids.get(topic or "", ())) <= 1

    def leaders_of(self, place: str) -> Mapping[int, str]:
        """Return the leaders of a topic-partition by leader epoch; of its newest incarnation if it has several."""
        found = [watched.log.leaders for watched in self.watched.values() if watched.log.name == place]
        return found[-1] if found else {}

    # -- replicas -------------------------------------------------------------------------------------------------

    def running(self, node_id: int) -> BaseNode | None:
        """Return a node by its id, if it runs."""
        return self.processes[self.names[node_id]].node

    def replica_of(self, name: str, key: TopicPartitionId) -> TopicPartitionReplica | None:
        """Return a host's replica of a topic-partition, if its broker runs and has one."""
        process = self.processes.get(name)
        if process is None or process.node is None or process.node.broker is None:
            return None
        hosted: HostedPartition | None = process.node.broker.replicas.by_id(*key)
        return None if hosted is None else hosted.replica

    @staticmethod
    def batches(replica: TopicPartitionReplica, end: int, begin: int = 0) -> Iterator[tuple[Batch, memoryview]]:
        """Return the whole batches of a replica's log from `begin`, or its start, up to `end`, with their content."""
        return batches_of(
            lambda offset, upper: replica.read(offset, READ_BYTES, upper, at_least_one=True),
            max(begin, replica.log.start_offset),
            end,
        )

    def is_registered(self, name: str) -> bool:
        """Return whether the controller has registered the running incarnation.

        Until then the broker's memberships belong to an earlier incarnation.
        """
        process = self.processes[name]
        assert process.node is not None and process.node.broker is not None
        image = self.images.newest_image
        registration = None if image is None else image.brokers.get(process.node.config.node_id)
        return registration is not None and registration.epoch == process.node.broker.lifecycle.epoch

    # -- what makes a loss legal ----------------------------------------------------------------------------------

    def power_lost(self, name: str) -> None:
        """Record that this host's node lost what was not durable: its replicas may lack committed records."""
        for key, watched in self.watched.items():
            registration = self.images.newest.get(key)
            if registration is None or name not in [self.names[one] for one in registration.replicas]:
                continue
            for other in [one for one in watched.robbed if self._is_whole(one, key, registration)]:
                del watched.robbed[other]
            watched.robbed[name] = None

    def _is_whole(self, name: str, key: TopicPartitionId, registration: PartitionRegistration) -> bool:
        """Return whether a replica that lost records has everything again and is in the ISR."""
        replica = self.replica_of(name, key)
        if replica is None or name not in [self.names[one] for one in registration.isr]:
            return False
        return replica.end_offset >= self.watched[key].log.end

    def _unclean_election(self, topic: str, place: TopicPartitionId, leader_epoch: int) -> None:
        """Record a committed unclean election. It makes a loss legal if the settings allow it."""
        setting = self.metadata.image.topic_settings(topic).get(UNCLEAN_ELECTIONS)
        if self._unclean_allowed if setting is None else setting == "true":
            self.watch(topic, *place).unclean[leader_epoch] = None
