"""Delete topics: ask every replica to delete its log, then delete the topic's znodes (Kafka's TopicDeletionManager).

A topic whose name is in `/admin/delete_topics` gets no leader any more. Its deletion waits while one of its replicas is
on a broker that does not live, and goes on when that broker has returned: otherwise a broker could return with the log
of a topic that was created again since.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence

from squall.nodes.protocol.errors import ErrorCode
from squall.nodes.zookeeper.controller.cluster_reader import ClusterReader
from squall.nodes.zookeeper.controller.context import ControllerContext, Replica, ReplicaState
from squall.nodes.zookeeper.controller.event_loop import EventLoop
from squall.nodes.zookeeper.controller.partition_machine import PartitionMachine
from squall.nodes.zookeeper.controller.reassignment_znode import ReassignmentZnode
from squall.nodes.zookeeper.controller.replica_machine import ReplicaMachine
from squall.nodes.zookeeper.controller.request_batch import RequestBatch
from squall.nodes.zookeeper.controller.state_store import StateStore
from squall.nodes.zookeeper.session import Delete, Operation, SessionResponse
from squall.nodes.zookeeper.znodes import (
    deletion_path,
    partition_path,
    partitions_path,
    state_path,
    topic_config_path,
    topic_path,
)

Steps = Generator[Sequence[Operation], list[SessionResponse], None]


class TopicDeletion:
    """See the module."""

    def __init__(
        self,
        context: ControllerContext,
        reader: ClusterReader,
        store: StateStore,
        partitions: PartitionMachine,
        replicas: ReplicaMachine,
        batch: RequestBatch,
        loop: EventLoop,
        moves: ReassignmentZnode,
    ) -> None:
        self._context = context
        self._reader = reader
        self._store = store
        self._partitions = partitions
        self._replicas = replicas
        self._batch = batch
        self._loop = loop
        self._moves = moves

    def load(self) -> Steps:
        """Learn which topics are to be deleted. Names of no topic are removed."""
        context = self._context
        names = yield from self._reader.topics_to_delete()
        unknown = [name for name in names if name not in context.assignments]
        yield from self._store.fenced([Delete(deletion_path(name)) for name in unknown])
        for name in names:
            if name in context.assignments:
                context.to_delete[name] = None

    def asked(self) -> Steps:
        yield from self.load()
        yield from self.resume()

    def resume(self) -> Steps:
        """Begin, go on with or end the deletion of each topic, as far as its replicas allow."""
        context = self._context
        for topic in list(context.to_delete):
            replicas = context.replicas_of_topic(topic)
            states = [context.replica_states.get(one) for one in replicas]
            if all(state is ReplicaState.DELETED for state in states):
                yield from self._end(topic)
            elif ReplicaState.DELETION_STARTED not in states:
                self._begin(topic, replicas)

    def _begin(self, topic: str, replicas: Sequence[Replica]) -> None:
        context = self._context
        keys = [(topic, number) for number in context.assignments[topic]]
        self._partitions.set_offline(keys)
        self._batch.update_metadata(context.brokers, keys)
        self._batch.send()
        left = [one for one in replicas if context.replica_states.get(one) is not ReplicaState.DELETED]
        gone = [one for one in left if not context.is_online(one[2])]
        self._replicas.set_states(gone, ReplicaState.DELETION_INELIGIBLE)
        if not gone:
            self._replicas.start_deletion(left, self._stopped)

    def _stopped(self, now: int, replica: Replica, error: int) -> None:
        """A broker has answered StopReplica."""

        def proceed() -> Steps:
            if replica in self._context.replica_states:
                deleted = error == ErrorCode.NONE
                state = ReplicaState.DELETED if deleted else ReplicaState.DELETION_INELIGIBLE
                self._replicas.set_states([replica], state)
                yield from self.resume()

        self._loop.put(now, "replica-stopped", proceed)
        self._loop.advance(now)

    def failed(self, replicas: Sequence[Replica]) -> None:
        """The brokers of these replicas have died."""
        context = self._context
        left = [one for one in replicas if context.replica_states.get(one) is not ReplicaState.DELETED]
        self._replicas.set_states(left, ReplicaState.DELETION_INELIGIBLE)

    def retry(self, replicas: Sequence[Replica]) -> Steps:
        """The brokers of these replicas have started."""
        context = self._context
        left = [one for one in replicas if context.replica_states.get(one) is not ReplicaState.DELETED]
        self._replicas.set_states(left, ReplicaState.OFFLINE)
        yield from self.resume()

    def _end(self, topic: str) -> Steps:
        numbers = list(self._context.assignments[topic])
        yield from self._store.fenced([Delete(state_path(topic, number)) for number in numbers])
        yield from self._store.fenced([Delete(partition_path(topic, number)) for number in numbers])
        yield from self._store.fenced(
            [
                Delete(partitions_path(topic)),
                Delete(topic_path(topic)),
                Delete(topic_config_path(topic)),
            ]
        )
        yield from self._moves.remove(lambda key, _: key[0] == topic)
        yield from self._store.fenced([Delete(deletion_path(topic))])
        keys = [(topic, number) for number in numbers]
        self._partitions.set_non_existent(keys)
        self._context.forget_topic(topic)
