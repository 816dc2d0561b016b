"""Move topic-partitions to other replicas (KIP-455 with ZooKeeper; RA-01 to RA-04).

    begin     the topic's znode lists replicas of both sets, and which are added and removed; all get the new state
    catch up  the new replicas fetch; their leader writes them into the ISR, as any follower
    complete  once the whole target is in the ISR: elect a leader in the target, take the others out of the ISR, delete
              their logs, and write the target alone into the znode
    cancel    the target is the former replicas: those that were added go

Requests come from clients, and from operators' tools by `/admin/reassign_partitions`; of two for a topic-partition the
later one applies, and the earlier one's entry there goes.

Everything is in the ensemble, so that another controller goes on where one has stopped. A reassignment never takes the
last member of the ISR away: it is refused.
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Sequence
from dataclasses import replace

from squall.nodes.protocol.errors import ErrorCode
from squall.nodes.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)
from squall.nodes.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)
from squall.nodes.protocol.schema import Message
from squall.nodes.zookeeper.controller.context import ControllerContext, Replica, ReplicaState
from squall.nodes.zookeeper.controller.event_loop import ControllerMoved
from squall.nodes.zookeeper.controller.partition_machine import PartitionMachine, Strategy
from squall.nodes.zookeeper.controller.reassignment_znode import ReassignmentZnode
from squall.nodes.zookeeper.controller.replica_machine import ReplicaMachine
from squall.nodes.zookeeper.controller.request_batch import RequestBatch
from squall.nodes.zookeeper.controller.state_store import StateStore
from squall.nodes.zookeeper.session import Operation, SessionResponse, SetData
from squall.nodes.zookeeper.znodes import NO_LEADER, Assignment, TopicPartition, TopicZnode, encode_topic, topic_path

Steps = Generator[Sequence[Operation], list[SessionResponse], None]
Respond = Generator[Sequence[Operation], list[SessionResponse], Message]
Judged = Generator[Sequence[Operation], list[SessionResponse], ErrorCode]


class Reassignments:
    """See the module."""

    def __init__(
        self,
        context: ControllerContext,
        store: StateStore,
        partitions: PartitionMachine,
        replicas: ReplicaMachine,
        batch: RequestBatch,
        znode: ReassignmentZnode,
        notices: list[str],
    ) -> None:
        self._context = context
        self._store = store
        self._partitions = partitions
        self._replicas = replicas
        self._batch = batch
        self._znode = znode
        self._notices = notices

    # -- requests -------------------------------------------------------------------------------------------------

    def alter(self, body: AlterPartitionReassignmentsRequest) -> Respond:
        response = AlterPartitionReassignmentsResponse()
        replaced = {(topic.name, one.partition_index) for topic in body.topics for one in topic.partitions}
        yield from self._znode.remove(lambda key, _: key in replaced)
        for topic in body.topics:
            part = ReassignableTopicResponse(topic.name)
            response.responses.append(part)
            for asked in topic.partitions:
                target = None if asked.replicas is None else tuple(asked.replicas)
                error = yield from self._asked((topic.name, asked.partition_index), target)
                part.partitions.append(ReassignablePartitionResponse(asked.partition_index, int(error)))
        return response

    def listed(self, body: ListPartitionReassignmentsRequest) -> Message:
        asked = None
        if body.topics is not None:
            asked = {(one.name, number): None for one in body.topics for number in one.partition_indexes}
        topics: dict[str, OngoingTopicReassignment] = {}
        for topic, number in self._under_way():
            if asked is None or (topic, number) in asked:
                one = self._context.assignment(topic, number)
                part = topics.setdefault(topic, OngoingTopicReassignment(topic))
                part.partitions.append(
                    OngoingPartitionReassignment(number, list(one.replicas), list(one.adding), list(one.removing))
                )
        return ListPartitionReassignmentsResponse(topics=list(topics.values()))

    def requested(self) -> Steps:
        """Begin the moves of a new `/admin/reassign_partitions`. Entries that cannot be carried out are removed.

        As in Kafka, replicas on brokers that are not there are no error here: the move waits for them.
        """
        failed: dict[TopicPartition, ErrorCode] = {}
        for key, replicas in (yield from self._znode.new()).items():
            error = yield from self._asked(key, tuple(dict.fromkeys(replicas)), waits=True)
            if error is not ErrorCode.NONE:
                failed[key] = error
        if failed:
            told = ", ".join(f"{topic}-{number}: {error.name}" for (topic, number), error in failed.items())
            self._notices.append(f"Failed reassignment through zk with the following errors: {told}")
            yield from self._znode.remove(lambda key, _: key in failed)

    def _asked(self, key: TopicPartition, target: tuple[int, ...] | None, *, waits: bool = False) -> Judged:
        """Begin a move, or with None cancel one. With `waits` the target's brokers need not be there."""
        context, (topic, number) = self._context, key
        state, present = context.states.get(key), context.assignments.get(topic, {}).get(number)
        if state is None or present is None or context.is_being_deleted(topic):
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if target is None:
            if not (present.adding or present.removing):
                return ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
            target = present.origin
        elif not target or len(frozenset(target)) < len(target) or not (waits or self._are_online(target)):
            return ErrorCode.INVALID_REPLICA_ASSIGNMENT
        wanted = moved(present, target)
        if wanted == present and waits:  # a former controller has begun it, or has ended it
            yield from self.progress([key])
            if not (wanted.adding or wanted.removing):
                yield from self._done(key)
            return ErrorCode.NONE
        unneeded = [one for one in present.replicas if one not in wanted.replicas]
        (found,) = (yield from self._store.read([key])).values()
        context.states[key] = found
        staying = [one for one in found.isr if one in wanted.replicas and context.is_live(one)]
        if not staying:
            return ErrorCode.INVALID_REPLICA_ASSIGNMENT
        yield from self._begin(key, wanted, unneeded)
        return ErrorCode.NONE

    def _are_online(self, brokers: Sequence[int]) -> bool:
        return all(self._context.is_online(one) for one in brokers)

    # -- the steps ------------------------------------------------------------------------------------------------

    def _begin(self, key: TopicPartition, wanted: Assignment, unneeded: Sequence[int]) -> Steps:
        context, (topic, number) = self._context, key
        context.assignments[topic][number] = wanted  # first, or the leader could let back in what is taken away
        yield from self._take_out(key, unneeded)
        yield from self._write_topic(topic)  # before logs are deleted, which a successor would else still count on
        self._delete_logs(key, unneeded)
        yield from self._lead_again(key)
        new: list[Replica] = [(topic, number, one) for one in wanted.adding if one not in context.states[key].isr]
        self._replicas.set_new(new)
        yield from self.progress([key])
        if not (wanted.adding or wanted.removing):
            yield from self._done(key)

    def _done(self, key: TopicPartition) -> Steps:
        """Remove the entry of a move that has ended from `/admin/reassign_partitions`."""
        now = self._context.replicas(*key)
        yield from self._znode.remove(lambda other, to: other == key and tuple(dict.fromkeys(to)) == now)

    def _take_out(self, key: TopicPartition, brokers: Sequence[int]) -> Steps:
        """Raise the leader epoch with an ISR without these replicas, even if it has none of them.

        A leader that was not told would else take one that has caught up into the ISR later, when it is no replica any
        more. Its write fails, since the state has another version.
        """
        context = self._context
        again = [key] if brokers else []
        while again:
            (state,) = (yield from self._store.read(again)).values()
            context.states[key] = state
            raised = replace(
                state,
                leader=NO_LEADER if state.leader in brokers else state.leader,
                leader_epoch=state.leader_epoch + 1,
                isr=tuple(one for one in state.isr if one not in brokers) or state.isr,
                controller_epoch=context.epoch,
            )
            _, again = yield from self._store.write({key: raised})
        if brokers:
            self._replicas.set_states([(*key, one) for one in brokers], ReplicaState.OFFLINE)
            self._batch.leader_and_isr(context.replicas(*key), key)
            self._batch.update_metadata(context.brokers, [key])
            self._batch.send()

    def _leave_isr(self, key: TopicPartition, brokers: Sequence[int]) -> Steps:
        """Take replicas out of the ISR."""
        yield from self._replicas.set_offline([(*key, one) for one in brokers], stop=False)

    def _delete_logs(self, key: TopicPartition, brokers: Sequence[int]) -> None:
        """Have replicas delete their logs, and forget them."""
        for broker in brokers:
            self._batch.stop_replica(broker, key, delete=True)
        self._batch.send()
        self._replicas.forget([(*key, one) for one in brokers])

    def _write_topic(self, topic: str) -> Steps:
        context = self._context
        znode = TopicZnode(context.topic_ids[topic], context.assignments[topic])
        (written,) = yield from self._store.fenced(
            [SetData(topic_path(topic), encode_topic(znode), context.topic_versions[topic])]
        )
        if written.stat is None:
            raise ControllerMoved
        context.topic_versions[topic] = written.stat.version

    def _lead_again(self, key: TopicPartition) -> Steps:
        """Raise the leader epoch, with the same leader if it may stay, and give the state to all replicas."""
        context = self._context
        assignment = context.assignment(*key)
        while True:
            (state,) = (yield from self._store.read([key])).values()
            context.states[key] = state
            if state.leader not in assignment.target or not context.is_live(state.leader):
                strategy = Strategy.REASSIGN if set(assignment.target) & set(state.isr) else Strategy.OFFLINE
                if not (assignment.adding or assignment.removing) or not context.is_live(state.leader):
                    yield from self._partitions.make_online([key], strategy)
                    return
            isr = tuple(one for one in state.isr if one in assignment.replicas) or state.isr
            raised = replace(state, leader_epoch=state.leader_epoch + 1, isr=isr, controller_epoch=context.epoch)
            written, again = yield from self._store.write({key: raised})
            if written:
                self._batch.leader_and_isr(assignment.replicas, key)
                self._batch.send()
            if not again:
                return

    def progress(self, keys: Sequence[TopicPartition]) -> Steps:
        """Complete those reassignments whose whole target is in the ISR."""
        context = self._context
        for key in keys:
            one = context.assignments.get(key[0], {}).get(key[1])
            state = context.states.get(key)
            if one is None or state is None or not (one.adding or one.removing):
                continue
            if all(member in state.isr and context.is_online(member) for member in one.target):
                yield from self._complete(key, one)
                yield from self._done(key)

    def _complete(self, key: TopicPartition, one: Assignment) -> Steps:
        context, (topic, number) = self._context, key
        yield from self._replicas.set_online([(topic, number, broker) for broker in one.adding])
        context.assignments[topic][number] = Assignment(one.target)
        yield from self._lead_again(key)
        yield from self._leave_isr(key, one.removing)
        self._delete_logs(key, one.removing)
        yield from self._write_topic(topic)
        self._batch.update_metadata(context.brokers, [key])
        self._batch.send()

    def take_over(self) -> Steps:
        """Go on with what a former controller has begun.

        It may have died before it told the leader of the replicas that are added. A leader takes them only with another
        leader epoch, so every move under way gets one.
        """
        for key in self._under_way():
            yield from self._lead_again(key)
        yield from self.progress(self._under_way())

    def resume(self, brokers: Collection[int]) -> Steps:
        """Go on with what is under way; these brokers have started, and get the replicas that are added there."""
        for key in self._under_way():
            if any(one in brokers for one in self._context.assignment(*key).adding):
                yield from self._lead_again(key)
        yield from self.progress(self._under_way())

    def _under_way(self) -> list[TopicPartition]:
        context = self._context
        assigned = [(key, context.assignment(*key)) for key in context.partitions()]
        return [key for key, one in assigned if (one.adding or one.removing) and not context.is_being_deleted(key[0])]


def moved(present: Assignment, target: tuple[int, ...]) -> Assignment:
    """The assignment that begins a move to these replicas, perhaps in the midst of another move."""
    origin = present.origin
    removing = tuple(one for one in origin if one not in target)
    return Assignment((*target, *removing), tuple(one for one in target if one not in origin), removing)
