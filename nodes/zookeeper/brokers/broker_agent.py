"""The broker's side of a ZooKeeper-era cluster: answer what the broker asks of a controller, obey what one sends.

A broker is the same with either kind of controller. What it sends to the active controller of a quorum, registrations,
heartbeats, ISR changes and requests for producer ids, is answered here from the ensemble (`submit`). What a controller
of the ZooKeeper era sends becomes the broker's metadata (`handle`, `requested_metadata.py`).

Requests of controllers are handled one after the other, since the settings of new topics are read in between. Each is
refused if its controller epoch is older than the newest seen, or if it was meant for an earlier incarnation of this
broker (ZK-14). It is answered once everything in it is applied.

Mutants: `stale-controller-epoch-accepted` and `deposed-leader-and-isr-applied` in `_refusal`, `stop-replica-late` in
`_stop_replica`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from squall.nodes.metadata.image import MetadataImage
from squall.nodes.mutants import HEALTHY, Mutants
from squall.nodes.ports import Trace, WallClock
from squall.nodes.protocol.errors import ErrorCode
from squall.nodes.protocol.messages import ApiKey
from squall.nodes.protocol.messages.leader_and_isr import LeaderAndIsrRequest, LeaderAndIsrResponse
from squall.nodes.protocol.messages.stop_replica import StopReplicaRequest, StopReplicaResponse
from squall.nodes.protocol.messages.update_metadata import UpdateMetadataRequest, UpdateMetadataResponse
from squall.nodes.protocol.requests.session import OutboundRequest, ServerRequest, ToActiveController
from squall.nodes.protocol.schema import Message
from squall.nodes.zookeeper.brokers.isr_writer import IsrWriter
from squall.nodes.zookeeper.brokers.producer_id_blocks import ProducerIdBlocks
from squall.nodes.zookeeper.brokers.registration import Registration
from squall.nodes.zookeeper.brokers.requested_metadata import RequestedMetadata
from squall.nodes.zookeeper.brokers.topic_settings import TopicSettings
from squall.nodes.zookeeper.client import ZooKeeperClient
from squall.nodes.zookeeper.session import SessionState, WatchFired

ControllerRequest = LeaderAndIsrRequest | UpdateMetadataRequest | StopReplicaRequest


class BrokerAgent:
    """See the module. The node drains `requests`; `registered(now)` is called after each registration."""

    API_KEYS = (ApiKey.LEADER_AND_ISR, ApiKey.STOP_REPLICA, ApiKey.UPDATE_METADATA)

    def __init__(
        self,
        node: int,
        cluster_id: str,
        client: ZooKeeperClient,
        image: MetadataImage,
        source: RequestedMetadata,
        *,
        clock: WallClock,
        trace: Trace,
        registered: Callable[[int], None],
        mutants: Mutants = HEALTHY,
    ) -> None:
        self.controller_epoch = 0
        """The newest controller epoch of a request that this broker has accepted."""
        self.registration = Registration(node, cluster_id, client, clock, self._begin)
        self.isr_writer = IsrWriter(node, client, image, lambda: self.controller_epoch, trace, mutants)
        self._node = node
        self._trace = trace
        self._source = source
        self._mutants = mutants
        self._notify = registered
        self._producer_ids = ProducerIdBlocks(node, client)
        self._settings = TopicSettings(client, source.put_settings)
        self._waiting: deque[ServerRequest] = deque()
        self._is_reading = False
        self._to_answer: list[tuple[ServerRequest, Message]] = []
        self._late: dict[str, StopReplicaRequest] = {}
        """Of the mutant `stop-replica-late`."""
        self._answers: dict[int, Callable[[int, OutboundRequest], None]] = {
            int(ApiKey.BROKER_REGISTRATION): self.registration.register,
            int(ApiKey.BROKER_HEARTBEAT): self.registration.heartbeat,
            int(ApiKey.ALTER_PARTITION): self.isr_writer.alter,
            int(ApiKey.ALLOCATE_PRODUCER_IDS): self._producer_ids.allocate,
        }
        client.watchers.append(self)

    # -- what the broker asks -------------------------------------------------------------------------------------

    def submit(self, now: int, request: OutboundRequest) -> bool:
        """Answer a request of the broker, now or later; return whether it is one that is answered here."""
        answer = self._answers.get(request.message.API_KEY)
        if answer is None or not isinstance(request.destination, ToActiveController):
            return False
        answer(now, request)
        return True

    @property
    def requests(self) -> list[OutboundRequest]:
        return self.registration.requests

    def _begin(self, now: int, epoch: int) -> None:
        self._settings.begin(now)
        self._notify(now)

    def session_changed(self, now: int, state: SessionState) -> None:
        if state is SessionState.EXPIRED:
            self.registration.expired()

    def watch_fired(self, now: int, event: WatchFired) -> None:
        return None

    # -- what a controller sends ----------------------------------------------------------------------------------

    def handle(self, now: int, request: ServerRequest) -> None:
        """Handle a request of a controller, after those before it."""
        self._waiting.append(request)
        self._go_on(now)

    def _go_on(self, now: int) -> None:
        while self._waiting and not self._is_reading:
            request = self._waiting[0]
            body = request.body
            assert isinstance(body, ControllerRequest)
            error = self._refusal(body)
            if error is None and isinstance(body, LeaderAndIsrRequest):
                topics = [one.topic_name for one in body.topic_states]
                self._is_reading = self._settings.load_new(now, topics, self._read)
                if self._is_reading:
                    return
            self._waiting.popleft()
            if error is not None:
                request.respond(_response(body, error))
            else:
                self._accept(body)
                self._to_answer.append((request, _response(body, ErrorCode.NONE)))

    def _read(self, now: int) -> None:
        self._is_reading = False
        self._go_on(now)

    def _refusal(self, body: ControllerRequest) -> ErrorCode | None:
        leads = isinstance(body, LeaderAndIsrRequest)
        careless = "deposed-leader-and-isr-applied" if leads else "stale-controller-epoch-accepted"
        if body.controller_epoch < self.controller_epoch and not self._mutants.has(careless):
            return ErrorCode.STALE_CONTROLLER_EPOCH
        if body.broker_epoch < self.registration.epoch:
            return ErrorCode.STALE_BROKER_EPOCH
        return None

    def _accept(self, body: ControllerRequest) -> None:
        self._trace.event("zk_request", node=self._node, api=body.API_KEY, epoch=body.controller_epoch)
        self.controller_epoch = max(self.controller_epoch, body.controller_epoch)
        if isinstance(body, LeaderAndIsrRequest):
            self._source.put_leader_and_isr(body)
            for part in body.topic_states:
                if part.topic_name in self._late:
                    self._source.put_stop_replica(self._late.pop(part.topic_name))
        elif isinstance(body, UpdateMetadataRequest):
            self._source.put_update_metadata(body)
        else:
            self._stop_replica(body)

    def _stop_replica(self, body: StopReplicaRequest) -> None:
        for part in body.topic_states:
            if any(one.delete_partition for one in part.partition_states):
                self._settings.forget(part.topic_name)
        if self._mutants.has("stop-replica-late"):
            self._late.update((part.topic_name, body) for part in body.topic_states)
        else:
            self._source.put_stop_replica(body)

    def applied(self) -> None:
        """Answer controllers: the broker has applied everything that was put."""
        answers, self._to_answer = self._to_answer, []
        for request, response in answers:
            if not request.closed:
                request.respond(response)

    # -- time -----------------------------------------------------------------------------------------------------

    def tick(self, now: int) -> None:
        self.isr_writer.tick(now)

    def deadline(self) -> int:
        return self.isr_writer.deadline()


def _response(body: ControllerRequest, error: ErrorCode) -> Message:
    if isinstance(body, LeaderAndIsrRequest):
        return LeaderAndIsrResponse(int(error))
    return (
        UpdateMetadataResponse(int(error))
        if isinstance(body, UpdateMetadataRequest)
        else StopReplicaResponse(int(error))
    )
