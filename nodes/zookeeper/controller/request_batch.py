"""Collect what one decision tells the brokers, and make three kinds of requests of it (ZK-06).

LeaderAndIsr goes to replicas, UpdateMetadata to all brokers, StopReplica to replicas that are to stop; each broker gets
them in this order. Who gets what is decided here only.

A broker bounds the items of a request (`node/channels.py`), so one of many topic-partitions is sent as several. Each
says something of other topic-partitions, and a broker keeps what it has heard of the rest. If a broker must learn which
are all of its topic-partitions, the last of its LeaderAndIsr is a full one: with it, all of them have been named.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from typing import TypeVar

from squall.nodes.protocol.messages.leader_and_isr import (
    FULL,
    INCREMENTAL,
    LeaderAndIsrLiveLeader,
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrTopicState,
)
from squall.nodes.protocol.messages.stop_replica import (
    EPOCH_DURING_DELETE,
    StopReplicaPartitionState,
    StopReplicaRequest,
    StopReplicaTopicState,
)
from squall.nodes.protocol.messages.update_metadata import (
    LEADER_DURING_DELETE,
    UpdateMetadataBroker,
    UpdateMetadataEndpoint,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
    UpdateMetadataTopicState,
)
from squall.nodes.protocol.schema import SharedItems
from squall.nodes.zookeeper.controller.context import ControllerContext, Replica
from squall.nodes.zookeeper.controller.event_loop import PAUSE
from squall.nodes.zookeeper.controller.request_queues import Answered, RequestQueues
from squall.nodes.zookeeper.session import Operation, SessionResponse
from squall.nodes.zookeeper.znodes import TopicPartition

PLAINTEXT = 0
WITHOUT_PAUSE = 20_000
"""Topic-partitions, or replicas, that a procedure works on in one turn: a tenth of a second."""
Steps = Generator[Sequence[Operation], list[SessionResponse], None]
States = Generator[Sequence[Operation], list[SessionResponse], list[list[UpdateMetadataTopicState]]]
ITEMS_OF_A_REQUEST = 60_000
"""Items of arrays in the topic-partitions of one request; half of what a broker takes."""
Key = TypeVar("Key")


class RequestBatch:
    """See the module. `send` ends a batch and begins the next."""

    def __init__(self, node: int, listener: str, context: ControllerContext, queues: RequestQueues) -> None:
        self._node = node
        self._listener = listener
        self._context = context
        self._queues = queues
        self._clear()

    def _clear(self) -> None:
        self._leader_and_isr: dict[int, dict[TopicPartition, bool]] = {}
        self._full: dict[int, None] = {}
        self._stop: dict[int, dict[TopicPartition, bool]] = {}
        self._metadata: dict[TopicPartition, None] = {}
        self._to_update: dict[int, None] = {}
        self._is_for_all = False
        self._stopped: Callable[[int, Replica, int], None] | None = None

    # -- what to say ----------------------------------------------------------------------------------------------

    def leader_and_isr(self, brokers: Iterable[int], key: TopicPartition, *, is_new: bool = False) -> None:
        """Give these brokers the state of a topic-partition, and every broker the same as metadata."""
        for broker in brokers:
            if self._context.is_online(broker):
                states = self._leader_and_isr.setdefault(broker, {})
                states[key] = states.get(key, False) or is_new
        self._metadata[key] = None
        if not self._is_for_all:  # once in a batch, not once for each of a million topic-partitions
            self._is_for_all = True
            self.update_metadata(self._context.brokers)

    def full(self, broker: int) -> None:
        """Make the LeaderAndIsr for this broker a full one, even if it is empty: the broker has just started."""
        self._leader_and_isr.setdefault(broker, {})
        self._full[broker] = None

    def update_metadata(self, brokers: Iterable[int], keys: Iterable[TopicPartition] = ()) -> None:
        """Give these brokers the list of brokers that live, and the states of these topic-partitions."""
        self._to_update.update(dict.fromkeys(brokers))
        self._metadata.update(dict.fromkeys(keys))

    def stop_replica(self, broker: int, key: TopicPartition, *, delete: bool) -> None:
        if self._context.is_online(broker):
            stops = self._stop.setdefault(broker, {})
            stops[key] = stops.get(key, False) or delete

    def on_stopped(self, stopped: Callable[[int, Replica, int], None]) -> None:
        """Call this with (now, replica, error) for every deletion that this batch causes."""
        self._stopped = stopped

    # -- requests -------------------------------------------------------------------------------------------------

    def send(self) -> None:
        """Append the requests to the brokers' queues."""
        for _ in self.in_steps():
            pass

    def in_steps(self) -> Steps:
        """Append the requests to the brokers' queues, with a pause after so many topic-partitions."""
        count = 0
        for broker, states in self._leader_and_isr.items():
            if (known := self._context.brokers.get(broker)) is not None:
                for request in self._leader_and_isr_requests(broker, known.epoch, states):
                    self._queues.put(broker, request)
            count += len(states)
            if count >= WITHOUT_PAUSE:
                count = 0
                yield PAUSE
        parts = yield from self._metadata_states()
        for broker in self._to_update:
            if (known := self._context.brokers.get(broker)) is not None:
                for topic_states in parts:
                    self._queues.put(broker, self._update_metadata_request(known.epoch, topic_states))
        for broker, stops in self._stop.items():
            if (known := self._context.brokers.get(broker)) is not None:
                for part in divided(stops, lambda _: 1):
                    self._queues.put(
                        broker, self._stop_request(known.epoch, stops, part), self._after_stop(broker, stops, part)
                    )
        self._clear()

    def _leader_and_isr_requests(
        self, broker: int, epoch: int, states: dict[TopicPartition, bool]
    ) -> Iterator[LeaderAndIsrRequest]:
        parts = list(divided(states, self._items_of))
        for number, part in enumerate(parts, start=1):
            kind = FULL if broker in self._full and number == len(parts) else INCREMENTAL
            yield self._leader_and_isr_request(kind, epoch, states, part)

    def _items_of(self, key: TopicPartition) -> int:
        topic, number = key
        state, assignment = self._context.states.get(key), self._context.assignments.get(topic, {}).get(number)
        if state is None or assignment is None:
            return 0
        moves = len(assignment.adding) + len(assignment.removing)
        return 1 + len(state.isr) + len(assignment.replicas) + moves

    def _leader_and_isr_request(
        self, kind: int, epoch: int, states: dict[TopicPartition, bool], keys: Sequence[TopicPartition]
    ) -> LeaderAndIsrRequest:
        context = self._context
        topics: dict[str, LeaderAndIsrTopicState] = {}
        leaders: dict[int, None] = {}
        for topic, number in keys:
            state, assignment = context.states.get((topic, number)), context.assignments.get(topic, {}).get(number)
            if state is None or assignment is None:
                continue
            leaders[state.leader] = None
            part = topics.setdefault(topic, LeaderAndIsrTopicState(topic, context.topic_ids[topic]))
            part.partition_states.append(
                LeaderAndIsrPartitionState(
                    partition_index=number,
                    controller_epoch=state.controller_epoch,
                    leader=state.leader,
                    leader_epoch=state.leader_epoch,
                    isr=list(state.isr),
                    partition_epoch=state.version,
                    replicas=list(assignment.replicas),
                    adding_replicas=list(assignment.adding),
                    removing_replicas=list(assignment.removing),
                    is_new=states[topic, number],
                )
            )
        return LeaderAndIsrRequest(
            controller_id=self._node,
            controller_epoch=context.epoch,
            broker_epoch=epoch,
            type=kind,
            topic_states=list(topics.values()),
            live_leaders=self._live_leaders(leaders),
        )

    def _live_leaders(self, leaders: Iterable[int]) -> list[LeaderAndIsrLiveLeader]:
        found = []
        for leader in leaders:
            known = self._context.brokers.get(leader)
            endpoint = None if known is None else known.endpoint(self._listener)
            if endpoint is not None:
                found.append(LeaderAndIsrLiveLeader(leader, endpoint.host, endpoint.port))
        return found

    def _metadata_states(self) -> States:
        """What UpdateMetadata says of topic-partitions, in parts of one request each, at least one.

        It says the same to every broker, so the requests share it, and it is encoded once.
        """
        context = self._context
        topics: dict[str, UpdateMetadataTopicState] = {}
        parts, items = [topics], 0
        for count, (topic, number) in enumerate(self._metadata, start=1):
            if count % WITHOUT_PAUSE == 0:
                yield PAUSE
            state, replicas = context.states.get((topic, number)), context.replicas(topic, number)
            if state is None:
                continue
            gone = context.is_being_deleted(topic)
            offline = [one for one in replicas if not context.is_online(one)]
            own = 1 + len(state.isr) + len(replicas) + len(offline)
            if items + own > ITEMS_OF_A_REQUEST and items:
                topics, items = {}, 0
                parts.append(topics)
            items += own
            topics.setdefault(topic, UpdateMetadataTopicState(topic, context.topic_ids[topic])).partition_states.append(
                UpdateMetadataPartitionState(
                    partition_index=number,
                    controller_epoch=state.controller_epoch,
                    leader=LEADER_DURING_DELETE if gone else state.leader,
                    leader_epoch=state.leader_epoch,
                    isr=list(state.isr),
                    zk_version=state.version,
                    replicas=list(replicas),
                    offline_replicas=offline,
                )
            )
        return [SharedItems(one.values()) for one in parts]

    def _update_metadata_request(
        self, epoch: int, topic_states: list[UpdateMetadataTopicState]
    ) -> UpdateMetadataRequest:
        context = self._context
        return UpdateMetadataRequest(
            controller_id=self._node,
            controller_epoch=context.epoch,
            broker_epoch=epoch,
            topic_states=topic_states,
            live_brokers=[
                UpdateMetadataBroker(
                    one.id, [UpdateMetadataEndpoint(at.port, at.host, at.listener, PLAINTEXT) for at in one.endpoints],
                    one.rack,
                )
                for one in context.brokers.values()
            ],
        )  # fmt: skip

    def _stop_request(
        self, epoch: int, stops: dict[TopicPartition, bool], keys: Sequence[TopicPartition]
    ) -> StopReplicaRequest:
        context = self._context
        topics: dict[str, StopReplicaTopicState] = {}
        for topic, number in keys:
            state = context.states.get((topic, number))
            leader_epoch = -1 if state is None else state.leader_epoch
            if context.is_being_deleted(topic):
                leader_epoch = EPOCH_DURING_DELETE
            part = topics.setdefault(topic, StopReplicaTopicState(topic))
            part.partition_states.append(StopReplicaPartitionState(number, leader_epoch, stops[topic, number]))
        return StopReplicaRequest(
            controller_id=self._node,
            controller_epoch=context.epoch,
            broker_epoch=epoch,
            topic_states=list(topics.values()),
        )

    def _after_stop(
        self, broker: int, stops: dict[TopicPartition, bool], keys: Sequence[TopicPartition]
    ) -> Answered | None:
        stopped = self._stopped
        deleted = [key for key in keys if stops[key]]
        if stopped is None or not deleted:
            return None

        def answered(now: int, response: object) -> None:
            error = int(getattr(response, "error_code", 0))
            for topic, number in deleted:
                stopped(now, (topic, number, broker), error)

        return answered


def divided(keys: Iterable[Key], items: Callable[[Key], int]) -> Iterator[list[Key]]:
    """Divide keys into lists of at most `ITEMS_OF_A_REQUEST` items, or of one key: one list at least, perhaps empty."""
    part: list[Key] = []
    size = 0
    for key in keys:
        own = items(key)
        if part and size + own > ITEMS_OF_A_REQUEST:
            yield part
            part, size = [], 0
        part.append(key)
        size += own
    yield part
