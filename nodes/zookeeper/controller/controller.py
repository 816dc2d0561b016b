"""The ZooKeeper-era controller: a part of every broker, active in the one that ZooKeeper elects (ZK-01, ZK-02).

    elect ── won ──▶ read everything, give it to every broker, elect missing leaders ──▶ follow watches and requests
      ▲                                                                                        │
      └── /controller is gone, or the session has expired ◀── resign ◀── another is elected ◀──┘

All of it runs in one event loop (`event_loop.py`): what brokers, leaders and administrators do reaches it as watches
and requests, and waits there until the procedure before it has ended. Nothing is decided before a new controller has
read the whole ensemble (ZK-12, ZK-13).

A deposed controller may not know it yet. It can write nothing, since every write checks the controller epoch
(`state_store.py`), and brokers refuse its requests by the same epoch (ZK-14).

Mutants: `shutdown-answered-early` in `_shut_down`; see also `state_store.py`, `cluster_reader.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass

from squall.nodes.controller.config import ControllerConfig
from squall.nodes.controller.error_responses import not_controller
from squall.nodes.mutants import HEALTHY, Mutants
from squall.nodes.ports import Rng, Trace, WallClock
from squall.nodes.protocol.errors import ErrorCode
from squall.nodes.protocol.messages import ApiKey
from squall.nodes.protocol.messages.alter_partition_reassignments import AlterPartitionReassignmentsRequest
from squall.nodes.protocol.messages.controlled_shutdown import (
    ControlledShutdownRequest,
    ControlledShutdownResponse,
    RemainingPartition,
)
from squall.nodes.protocol.messages.create_partitions import CreatePartitionsRequest
from squall.nodes.protocol.messages.create_topics import CreateTopicsRequest
from squall.nodes.protocol.messages.delete_topics import DeleteTopicsRequest
from squall.nodes.protocol.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)
from squall.nodes.protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from squall.nodes.protocol.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from squall.nodes.protocol.requests.session import OutboundRequest, ServerRequest
from squall.nodes.protocol.schema import Message
from squall.nodes.zookeeper.client import ZooKeeperClient
from squall.nodes.zookeeper.controller.cluster_reader import ClusterReader
from squall.nodes.zookeeper.controller.context import ControllerContext, PartitionState
from squall.nodes.zookeeper.controller.deletion import TopicDeletion
from squall.nodes.zookeeper.controller.election import Election
from squall.nodes.zookeeper.controller.event_loop import ControllerMoved, EventLoop
from squall.nodes.zookeeper.controller.partition_machine import PartitionMachine, Strategy
from squall.nodes.zookeeper.controller.reassignment import Reassignments
from squall.nodes.zookeeper.controller.reassignment_znode import ReassignmentZnode
from squall.nodes.zookeeper.controller.replica_machine import ReplicaMachine
from squall.nodes.zookeeper.controller.request_batch import RequestBatch
from squall.nodes.zookeeper.controller.request_queues import RequestQueues
from squall.nodes.zookeeper.controller.state_store import StateStore
from squall.nodes.zookeeper.controller.topic_writes import TopicWrites
from squall.nodes.zookeeper.session import Delete, GetData, Operation, SessionResponse, SessionState, WatchFired
from squall.nodes.zookeeper.znodes import (
    BROKER_IDS,
    CONTROLLER,
    DELETE_TOPICS,
    ISR_CHANGES,
    REASSIGN_PARTITIONS,
    TOPICS,
    BrokerZnode,
    TopicPartition,
    decode_isr_change,
    topic_of_path,
)

Steps = Generator[Sequence[Operation], list[SessionResponse], None]
Respond = Generator[Sequence[Operation], list[SessionResponse], Message]
ELECTION_PAUSE = 50_000
NEVER = 2**63 - 1
_WITHOUT_CANDIDATE = {
    Strategy.PREFERRED: ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
    Strategy.OFFLINE: ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE,
}


@dataclass(frozen=True, slots=True)
class ControllerOptions:
    """What the controller needs beside the settings that it shares with the quorum's."""

    inter_broker_listener: str
    """Where followers find leaders."""
    request_listener: str
    """Where this controller sends its requests (CL-15)."""
    request_timeout: int = 30_000_000
    """`controller.socket.timeout.ms`."""


class ZooKeeperController:
    """See the module. The node drains `requests`."""

    API_KEYS = (
        ApiKey.CONTROLLED_SHUTDOWN,
        ApiKey.CREATE_TOPICS,
        ApiKey.DELETE_TOPICS,
        ApiKey.CREATE_PARTITIONS,
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        ApiKey.ELECT_LEADERS,
        ApiKey.ALTER_PARTITION_REASSIGNMENTS,
        ApiKey.LIST_PARTITION_REASSIGNMENTS,
    )

    def __init__(
        self,
        config: ControllerConfig,
        options: ControllerOptions,
        client: ZooKeeperClient,
        *,
        clock: WallClock,
        rng: Rng,
        trace: Trace,
        mutants: Mutants = HEALTHY,
    ) -> None:
        self.is_active = False
        self.active_id: int | None = None
        """The controller, as far as this broker knows."""
        self.unclean_elections = 0
        """Elections of leaders out of the ISR, by this controller."""
        self.notices: list[str] = []
        self.context = ControllerContext()
        self.queues = RequestQueues(options.request_timeout, config.node_id, trace)
        self._node = config.node_id
        self._listener = options.inter_broker_listener
        self._request_listener = options.request_listener
        self._config = config
        self._client = client
        self._clock = clock
        self._rng = rng
        self._trace = trace
        self._mutants = mutants
        self._is_registered = False
        self._elect_at = NEVER
        self._asked: dict[ServerRequest, None] = {}
        self.loop = EventLoop(self._node, client, trace, self._failed)
        self._assemble()
        client.watchers.append(self)

    def _assemble(self) -> None:
        """Make the parts around an empty context."""
        context = self.context
        self._election = Election(self._node, self._client, context, self._clock)
        self._store = StateStore(context, self._mutants)
        self._reader = ClusterReader(context, self._store, self._mutants)
        self._batch = RequestBatch(self._node, self._listener, context, self.queues)
        self._partitions = PartitionMachine(
            context, self._store, self._batch, self._trace, self._topic_defaults, self._count_unclean
        )
        self._replicas = ReplicaMachine(context, self._store, self._batch)
        requested = ReassignmentZnode(self._store, self.notices)
        self._reassignments = Reassignments(
            context, self._store, self._partitions, self._replicas, self._batch, requested, self.notices
        )
        self._deletion = TopicDeletion(
            context, self._reader, self._store, self._partitions, self._replicas, self._batch, self.loop, requested
        )
        self._writes = TopicWrites(self._config, context, self._store, self._rng)

    def _count_unclean(self) -> None:
        self.unclean_elections += 1

    def _topic_defaults(self) -> dict[str, str]:
        return {**self._config.topic_defaults, **self._reader.defaults}

    @property
    def requests(self) -> list[OutboundRequest]:
        return self.queues.requests

    def address_of(self, broker: int, listener: str) -> tuple[str, int] | None:
        """Where a broker has a listener, as this controller knows; None if it is not active or there is none."""
        known = self.context.brokers.get(broker) if self.is_active else None
        endpoint = None if known is None else known.endpoint(listener)
        return None if endpoint is None else (endpoint.host, endpoint.port)

    def _check_endpoints(self, brokers: Mapping[int, BrokerZnode]) -> None:
        """Report brokers that cannot be sent anything: they lack the listener that this controller is configured with.

        A migration to a control plane's listener gives all brokers the endpoint first (CL-21).
        """
        for broker, znode in brokers.items():
            if znode.endpoint(self._request_listener) is None:
                self.notices.append(
                    f"End point with listener name {self._request_listener} not found for broker {broker}: it gets no "
                    f"request of this controller until it has that listener in advertised.listeners"
                )

    # -- the session ----------------------------------------------------------------------------------------------

    def registered(self, now: int) -> None:
        """This broker is registered in the present session: it may become the controller."""
        self._is_registered = True
        self.loop.put(now, "elect", self._elect)
        self.loop.advance(now)

    def session_changed(self, now: int, state: SessionState) -> None:
        if state is SessionState.EXPIRED:
            self._is_registered = False
            self._elect_at = NEVER
            self._resign("its session has expired")
            self.active_id = None

    def watch_fired(self, now: int, event: WatchFired) -> None:
        if event.path == CONTROLLER:
            self._put(now, "controller-change", self._controller_changed)
        elif not self.is_active:
            return
        elif event.path == BROKER_IDS:
            self._put(now, "broker-change", self._brokers_changed)
        elif event.path == TOPICS:
            self._put(now, "topic-change", self._topics_changed)
        elif event.path == DELETE_TOPICS:
            self._put(now, "topic-deletion", self._deletion.asked)
        elif event.path == ISR_CHANGES:
            self._put(now, "isr-change", self._isr_changed)
        elif event.path == REASSIGN_PARTITIONS:
            self._put(now, "zk-partition-reassignment", self._reassignments.requested)
        elif (topic := topic_of_path(event.path)) is not None:
            self._put(now, "partition-modification", lambda: self._assignment_changed(topic))

    def _put(self, now: int, name: str, start: Callable[[], Steps]) -> None:
        self.loop.put(now, name, start)
        self.loop.advance(now)

    # -- becoming the controller, and ceasing to be it ------------------------------------------------------------

    def _elect(self) -> Steps:
        if self.is_active:
            return
        known = yield from self._election.run()
        self.active_id = known
        if known is None:
            self._elect_at = 0
        elif known == self._node:
            yield from self._begin()

    def _controller_changed(self) -> Steps:
        known = yield from self._election.learn()
        self.active_id = known
        if self.is_active and known != self._node:
            self._resign("another controller was elected")
        if known is None and self._is_registered:
            yield from self._elect()

    def _begin(self) -> Steps:
        """Take over: read, tell every broker everything, elect the leaders that are missing (ZK-12)."""
        epoch, version = self.context.epoch, self.context.epoch_version
        self.context = ControllerContext()
        self.context.epoch, self.context.epoch_version = epoch, version
        self.queues.clear()
        self._assemble()
        context = self.context
        self.is_active = True
        self._trace.event("zk_controller", node=self._node, epoch=epoch)
        self.notices.append(f"broker {self._node} is the controller with epoch {epoch}")
        yield from self._delete_isr_changes(ignored=True)
        yield from self._reader.everything()
        yield from self._deletion.load()
        self._check_endpoints(context.brokers)
        for broker in context.brokers:
            self.queues.add_broker(broker)
            self._batch.full(broker)
        self._batch.update_metadata(context.brokers, list(context.partitions()))
        self._replicas.initialize()
        self._partitions.initialize()
        replicas = context.all_replicas()
        yield from self._replicas.set_online([one for one in replicas if context.is_online(one[2])])
        yield from self._replicas.set_offline([one for one in replicas if not context.is_online(one[2])], stop=False)
        yield from self._partitions.make_online(context.leaderless())
        yield from self._reassignments.take_over()
        yield from self._reassignments.requested()
        yield from self._deletion.resume()

    def _resign(self, why: str) -> None:
        self.loop.clear()
        if self.is_active:
            self.is_active = False
            self.queues.clear()
            self._trace.event("zk_controller_resigned", node=self._node, epoch=self.context.epoch)
            self.notices.append(f"broker {self._node} is no longer the controller: {why}")
        asked, self._asked = self._asked, {}
        for request in asked:
            _respond(request, _refused(request))

    def _failed(self, now: int, error: Exception) -> None:
        """A procedure has ended: another controller is there, or the session is lost."""
        if isinstance(error, ControllerMoved):
            self._resign("another controller was elected")
            self._put(now, "controller-change", self._controller_changed)

    def close(self, now: int) -> None:
        self._resign("it stops")

    # -- watches --------------------------------------------------------------------------------------------------

    def _brokers_changed(self) -> Steps:
        context = self.context
        found = yield from self._reader.brokers()
        before = context.brokers
        new = [one for one in found if one not in before]
        bounced = [one for one in found if one in before and found[one].epoch > before[one].epoch]
        dead = [one for one in before if one not in found]
        if dead:
            yield from self._brokers_failed(dead)
        if bounced:
            yield from self._brokers_failed(bounced)
        if new or bounced:
            yield from self._brokers_started({one: found[one] for one in sorted(new + bounced)})

    def _brokers_failed(self, brokers: Sequence[int]) -> Steps:
        context = self.context
        for broker in brokers:
            del context.brokers[broker]
            context.shutting_down.pop(broker, None)
            self.queues.remove_broker(broker)
            self._trace.event("zk_broker_failed", node=self._node, broker=broker)
        gone = [(*key, broker) for broker in brokers for key in context.partitions_on(broker)]
        led = [key for key, state in context.states.items() if state.leader in brokers]
        self._partitions.set_offline([key for key in led if not context.is_being_deleted(key[0])])
        yield from self._partitions.make_online(context.leaderless())
        yield from self._replicas.set_offline([one for one in gone if not context.is_being_deleted(one[0])], stop=False)
        self._deletion.failed([one for one in gone if context.is_being_deleted(one[0])])
        if not gone:
            self._batch.update_metadata(context.brokers)
            self._batch.send()

    def _brokers_started(self, brokers: dict[int, BrokerZnode]) -> Steps:
        context = self.context
        self._check_endpoints(brokers)
        others = list(context.brokers)
        for broker, znode in brokers.items():
            context.brokers[broker] = znode
            self.queues.add_broker(broker)
            self._trace.event("zk_broker_started", node=self._node, broker=broker, epoch=znode.epoch)
        self._batch.update_metadata(others)
        self._batch.send()
        self._batch.update_metadata(brokers, list(context.partitions()))
        for broker in brokers:
            self._batch.full(broker)
        here = [(*key, broker) for broker in brokers for key in context.partitions_on(broker)]
        yield from self._replicas.set_online([one for one in here if not context.is_being_deleted(one[0])])
        yield from self._partitions.make_online(context.leaderless())
        yield from self._reassignments.resume(brokers)
        yield from self._deletion.retry([one for one in here if context.is_being_deleted(one[0])])

    def _topics_changed(self) -> Steps:
        context = self.context
        names = yield from self._reader.topic_names()
        for topic in [one for one in context.assignments if one not in names]:
            context.forget_topic(topic)
        new = [one for one in names if one not in context.assignments]
        yield from self._reader.load_topics(new)
        yield from self._begin_partitions([key for key in context.partitions() if key[0] in new])

    def _assignment_changed(self, topic: str) -> Steps:
        """Partitions were added to a topic."""
        found = (yield from self._reader.read_topics([topic])).get(topic)
        context = self.context
        if found is None or topic not in context.assignments or context.is_being_deleted(topic):
            return
        added = {number: one for number, one in found.assignments.items() if number not in context.assignments[topic]}
        context.assignments[topic].update(added)
        yield from self._begin_partitions([(topic, number) for number in added])

    def _begin_partitions(self, keys: Sequence[TopicPartition]) -> Steps:
        replicas = [(*key, broker) for key in keys for broker in self.context.replicas(*key)]
        self._partitions.set_new(keys)
        self._replicas.set_new(replicas)
        yield from self._partitions.make_online(keys)
        yield from self._replicas.set_online(replicas)

    def _isr_changed(self) -> Steps:
        yield from self._delete_isr_changes(ignored=False)

    def _delete_isr_changes(self, *, ignored: bool) -> Steps:
        """Process the leaders' notifications, unless they are `ignored`, and delete them."""
        paths = [f"{ISR_CHANGES}/{name}" for name in (yield from self._reader.isr_changes())]
        if not paths:
            return
        if not ignored:
            responses = yield [GetData(path) for path in paths]
            keys: dict[TopicPartition, None] = {}
            for path, one in zip(paths, responses, strict=True):
                keys.update(dict.fromkeys(decode_isr_change(path, one.data) if one.ok else ()))
            known = [key for key in keys if key in self.context.states]
            self.context.states.update((yield from self._store.read(known)))
            self._batch.update_metadata(self.context.brokers, known)
            self._batch.send()
            yield from self._reassignments.progress(known)
        yield from self._store.fenced([Delete(path) for path in paths])

    # -- requests -------------------------------------------------------------------------------------------------

    def handle(self, now: int, request: ServerRequest) -> None:
        """Queue a request of an administrator or of a broker that wants to stop."""
        if not self.is_active:
            request.respond(_refused(request))
            return
        self._asked[request] = None
        self._put(now, ApiKey(request.api_key).name.lower(), lambda: self._serve(request))

    def _serve(self, request: ServerRequest) -> Steps:
        response = yield from self._decide(request)
        self._asked.pop(request, None)
        _respond(request, response)

    def _decide(self, request: ServerRequest) -> Respond:
        body = request.body
        match body:
            case CreateTopicsRequest():
                response = yield from self._writes.create(body)
                yield from self._topics_changed()
            case CreatePartitionsRequest():
                response = yield from self._writes.create_partitions(body)
                for topic in body.topics:
                    yield from self._assignment_changed(topic.name)
            case DeleteTopicsRequest():
                response = yield from self._writes.delete(body)
                yield from self._deletion.asked()
            case IncrementalAlterConfigsRequest():
                response = yield from self._writes.alter_configs(body)
                yield from self._reader.load_defaults()
                yield from self._partitions.make_online(self.context.leaderless())
            case ElectLeadersRequest():
                response = yield from self._elect_leaders(body)
            case AlterPartitionReassignmentsRequest():
                response = yield from self._reassignments.alter(body)
            case ListPartitionReassignmentsRequest():
                response = self._reassignments.listed(body)
            case _:
                assert isinstance(body, ControlledShutdownRequest)
                response = yield from self._shut_down(body)
        return response

    def _shut_down(self, body: ControlledShutdownRequest) -> Respond:
        """Move what a broker leads, take it out of ISRs, and say what it still leads (ZK-08)."""
        context, broker = self.context, body.broker_id
        known = context.brokers.get(broker)
        if known is None:
            return ControlledShutdownResponse(int(ErrorCode.BROKER_NOT_AVAILABLE))
        if body.broker_epoch != -1 and body.broker_epoch < known.epoch:
            return ControlledShutdownResponse(int(ErrorCode.STALE_BROKER_EPOCH))
        context.shutting_down[broker] = None
        if self._mutants.has("shutdown-answered-early"):
            return ControlledShutdownResponse()
        concerned = [
            key
            for key in context.partitions_on(broker)
            if key in context.states and len(context.replicas(*key)) > 1 and not context.is_being_deleted(key[0])
        ]
        led = [key for key in concerned if context.states[key].leader == broker]
        yield from self._partitions.make_online(led, Strategy.CONTROLLED_SHUTDOWN)
        followed = [key for key in concerned if context.states[key].leader != broker]
        yield from self._replicas.set_offline([(*key, broker) for key in followed])
        remaining = [key for key in concerned if context.states[key].leader == broker]
        self._trace.event("zk_controlled_shutdown", node=self._node, broker=broker, remaining=len(remaining))
        return ControlledShutdownResponse(remaining_partitions=[RemainingPartition(*key) for key in remaining])

    def _elect_leaders(self, body: ElectLeadersRequest) -> Respond:
        context = self.context
        asked = (
            list(context.partitions())
            if body.topic_partitions is None
            else [(one.topic, number) for one in body.topic_partitions for number in one.partitions]
        )
        strategy = Strategy.OFFLINE if body.election_type == 1 else Strategy.PREFERRED
        known = [key for key in asked if key in context.states and not context.is_being_deleted(key[0])]
        due = [key for key in known if self._needs(key, strategy)]
        failed = yield from self._partitions.make_online(due, strategy)
        results: dict[str, ReplicaElectionResult] = {}
        for key in asked:
            error = ErrorCode.NONE
            if key not in known:
                error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            elif key in failed:
                error = _WITHOUT_CANDIDATE[strategy]
            elif key not in due:
                error = ErrorCode.ELECTION_NOT_NEEDED
            part = results.setdefault(key[0], ReplicaElectionResult(key[0]))
            part.partition_result.append(PartitionResult(key[1], int(error)))
        return ElectLeadersResponse(replica_election_results=list(results.values()))

    def _needs(self, key: TopicPartition, strategy: Strategy) -> bool:
        if strategy is Strategy.OFFLINE:
            return self.context.partition_states.get(key) is PartitionState.OFFLINE
        return self.context.states[key].leader != self.context.replicas(*key)[0]

    # -- time -----------------------------------------------------------------------------------------------------

    def tick(self, now: int) -> None:
        if self._elect_at == 0:
            self._elect_at = now + ELECTION_PAUSE
        elif self._elect_at <= now:
            self._elect_at = NEVER
            self._put(now, "elect", self._elect)
        self.loop.advance(now)
        self.queues.advance(now)

    def deadline(self) -> int:
        return 0 if self.loop.is_paused else min(self._elect_at, self.queues.deadline())


def _refused(request: ServerRequest) -> Message:
    if request.api_key == ApiKey.CONTROLLED_SHUTDOWN:
        return ControlledShutdownResponse(int(ErrorCode.NOT_CONTROLLER))
    return not_controller(request)


def _respond(request: ServerRequest, response: Message) -> None:
    if not request.closed and request.answer is None:
        request.respond(response)
