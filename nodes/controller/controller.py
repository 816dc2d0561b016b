"""`QuorumController`: the active controller's event loop, and the standby's replay (EP-06, rule 30, QC-21..23).

Every controller replays the committed log into `committed`, its image of committed state. The quorum's leader is
*active*: it also keeps `image`, which adds what it has written and not yet seen committed, and decides by that.

    request ─ handler(image) ─ records ─ replay into image ─ raft.append ─┐
                                                                         ├─ high watermark passes ─ response leaves
    response ─ parked with the offset of its last record ────────────────┘

One request at a time, in the order of arrival; responses leave in the order of their offsets. A response without
records may still depend on uncommitted ones (such as an already existing topic), so it waits for all that was written
before it.

Activation: only when everything up to the start of its epoch is committed and replayed. `image` then begins as a clone
of `committed`, which shares what it does not change, so that the cost of activation, in time and memory, does not
depend on the size of the cluster. If the last controller left a returning broker's elections half-way, the leaderless
topic-partitions are elected first; if it left a broker's removal half-way, the broker's next heartbeat or its silence
resumes it.

Losing the leadership drops `image`, which is the whole rollback. Two images, rather than an undo log: the rollback
cannot be wrong. The written records may survive, since other voters may have them. So a request whose records were
written, all of them or a part, gets a response for an unknown outcome; NOT_CONTROLLER, which brokers retry, is for
requests that have changed nothing (`error_responses`). Mutant `parked-writes-repeated` answers all of them
NOT_CONTROLLER.

The event loop never blocks for long. A change of more topic-partitions than one batch holds, such as a broker's
removal, is decided and written one batch in a turn. Requests that arrive meanwhile are held back, so all of it is
decided on one state, as if in one turn, while votes, fetches and timers of the quorum continue. Replay stops after as
many records in each turn.

The controller does not know replicas' high watermarks or log ends (EP-07); of the quorum it knows only offsets. Host:
call `handle` for requests, `tick` each turn, and `advance` after raft's `flush`, so that requests which it committed
are answered in the same iteration.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import cast

from squall.nodes.buggify import OFF, Buggify
from squall.nodes.controller.balancing import LeaderBalancer
from squall.nodes.controller.brokers import BrokerControl
from squall.nodes.controller.changes import PartitionChanges
from squall.nodes.controller.config import ControllerConfig
from squall.nodes.controller.configs import ConfigControl
from squall.nodes.controller.decision_log import DecisionLog
from squall.nodes.controller.error_responses import not_controller, outcome_unknown
from squall.nodes.controller.features import FeatureControl
from squall.nodes.controller.isr import IsrControl
from squall.nodes.controller.leader_elections import LeaderElectionControl
from squall.nodes.controller.liveness import NEVER, Sessions
from squall.nodes.controller.outcome import Outcome, Record
from squall.nodes.controller.reassignment import ReassignmentControl
from squall.nodes.controller.topics import TopicControl
from squall.nodes.metadata.admin_writes import WRITES, asked_of
from squall.nodes.metadata.features import METADATA_VERSION
from squall.nodes.metadata.image import MetadataImage
from squall.nodes.metadata.records import NoOpRecord, encode_record
from squall.nodes.metadata.snapshot import SnapshotLoader
from squall.nodes.mutants import HEALTHY, Mutants
from squall.nodes.ports import Rng, Trace
from squall.nodes.protocol.messages import ApiKey
from squall.nodes.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest
from squall.nodes.protocol.messages.alter_partition import AlterPartitionRequest
from squall.nodes.protocol.messages.alter_partition_reassignments import AlterPartitionReassignmentsRequest
from squall.nodes.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from squall.nodes.protocol.messages.broker_registration import BrokerRegistrationRequest
from squall.nodes.protocol.messages.create_partitions import CreatePartitionsRequest
from squall.nodes.protocol.messages.create_topics import CreateTopicsRequest
from squall.nodes.protocol.messages.delete_topics import DeleteTopicsRequest
from squall.nodes.protocol.messages.elect_leaders import ElectLeadersRequest
from squall.nodes.protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from squall.nodes.protocol.messages.list_partition_reassignments import ListPartitionReassignmentsRequest
from squall.nodes.protocol.messages.unregister_broker import UnregisterBrokerRequest
from squall.nodes.protocol.messages.update_features import UpdateFeaturesRequest
from squall.nodes.protocol.requests.session import OutboundRequest, ServerRequest
from squall.nodes.protocol.schema import Message
from squall.nodes.raft.errors import NotLeader

Handler = Callable[[int, ServerRequest], Outcome]
REPLAYED_IN_A_TURN = 10_000
"""Records in one turn, after which replay continues in the next."""
SPLIT_RECORDS, SPLIT_PAUSE, SPLIT_PAUSES = 2, 30_000, 5
"""Where `buggify` splits a decision: records in a turn, microseconds until the next, and how often it waits so."""


@dataclass(frozen=True, slots=True)
class _Parked:
    """A response that may leave once `offset` is committed."""

    offset: int
    request: ServerRequest
    response: Message
    wrote: bool
    """Whether records were written for this request; otherwise it depends on those of other requests."""


@dataclass(slots=True)
class _Unfinished:
    """Records still to be drawn and written, and the response afterwards; without a request for a silent broker."""

    records: Iterator[Record | None]
    most: int
    """Records in a turn."""
    pauses: int = 0
    """How often the controller still waits between two turns."""
    due: int = 0
    """When the next are written."""
    request: ServerRequest | None = None
    response: Message | None = None


class QuorumController:
    """See the module."""

    def __init__(
        self,
        config: ControllerConfig,
        raft: DecisionLog,
        *,
        rng: Rng,
        trace: Trace,
        now: int,
        mutants: Mutants = HEALTHY,
        buggify: Buggify = OFF,
    ) -> None:
        self.config = config
        self.mutants = mutants
        self.committed = MetadataImage()
        self.requests: list[OutboundRequest] = []
        """Always empty: a controller sends no requests. Part of the grammar of components."""
        self._raft = raft
        self._trace = trace
        self._buggify = buggify
        self._changes = PartitionChanges(config.topic_defaults, last_known_leader=config.last_known_leader)
        self._brokers = BrokerControl(config, self._changes, mutants)
        self._isr = IsrControl(self._brokers, self._changes, mutants, buggify)
        self._topics = TopicControl(config, rng)
        self._configs = ConfigControl(config, self._changes)
        self._features = FeatureControl(config.topic_defaults, self._changes, mutants)
        self._elections = LeaderElectionControl(self._changes)
        self._balancer = LeaderBalancer(config, self._elections)
        self._reassignments = ReassignmentControl(self._changes, mutants)
        self._image: MetadataImage | None = None
        self._active_epoch: int | None = None
        self._parked: deque[_Parked] = deque()
        self._unfinished: _Unfinished | None = None
        self._held: deque[ServerRequest] = deque()
        self._written_at = now
        self._snapshots_run_ahead = mutants.has("snapshot-above-hw")
        self._takes_parked_for_undone = mutants.has("parked-writes-repeated")
        self.last_applied_ms = -1
        """The timestamp of the last replayed batch, from which metrics compute the lag."""
        self.replayed_bytes = 0
        self.snapshots_loaded = 0
        self._loader: SnapshotLoader | None = None
        self._handlers: dict[int, Handler] = {
            ApiKey.BROKER_REGISTRATION: self._register,
            ApiKey.BROKER_HEARTBEAT: self._heartbeat,
            ApiKey.ALTER_PARTITION: self._alter_partition,
            ApiKey.ALLOCATE_PRODUCER_IDS: self._allocate_producer_ids,
            ApiKey.UNREGISTER_BROKER: self._unregister,
            ApiKey.CREATE_TOPICS: self._create_topics,
            ApiKey.DELETE_TOPICS: self._delete_topics,
            ApiKey.CREATE_PARTITIONS: self._create_partitions,
            ApiKey.INCREMENTAL_ALTER_CONFIGS: self._alter_configs,
            ApiKey.UPDATE_FEATURES: self._update_features,
            ApiKey.ELECT_LEADERS: self._elect_leaders,
            ApiKey.ALTER_PARTITION_REASSIGNMENTS: self._alter_reassignments,
            ApiKey.LIST_PARTITION_REASSIGNMENTS: self._list_reassignments,
        }

    # -- public state -----------------------------------------------------------------------------------------

    @property
    def is_active(self) -> bool:
        return self._image is not None

    @property
    def has_unfinished(self) -> bool:
        """Whether a decision is not written whole yet; the next one is made after that."""
        return self._unfinished is not None

    @property
    def api_keys(self) -> tuple[int, ...]:
        """The APIs that `handle` serves."""
        return tuple(self._handlers)

    @property
    def timed_out_heartbeats(self) -> int:
        return self._brokers.timed_out

    @property
    def sessions(self) -> Sessions:
        """The brokers' sessions, which only the active controller keeps; for metrics and observers."""
        return self._brokers.sessions

    @property
    def reported_offsets(self) -> Mapping[int, int]:
        """By broker, the last offset of the log that it has applied, as reported to this controller; for observers."""
        return self._brokers.reported_offsets

    @property
    def unclean_elections(self) -> int:
        """Unclean elections decided by this controller since it started."""
        return self._changes.unclean_elections

    @property
    def eligible_elections(self) -> int:
        """Elections of eligible leader replicas decided by this controller since it started."""
        return self._changes.eligible_elections

    @property
    def image(self) -> MetadataImage | None:
        """The image by which the active controller decides; None on others."""
        return self._image

    @property
    def snapshot_image(self) -> MetadataImage:
        """The source of snapshots: the committed image. Mutant `snapshot-above-hw`: the image that runs ahead."""
        return self._image if self._image is not None and self._snapshots_run_ahead else self.committed

    @property
    def fenced_brokers(self) -> int:
        return sum(broker.fenced for broker in self.committed.brokers.values())

    # -- requests ---------------------------------------------------------------------------------------------

    def handle(self, now: int, request: ServerRequest) -> None:
        """Decide now; respond once the decision is committed."""
        self._watch_leadership(now)
        if self._image is None or (request.api_key in WRITES and self._buggify.happens("write-refused-once")):
            request.respond(not_controller(request))
            return
        if self._unfinished is not None:
            self._held.append(request)
            return
        try:
            self._decide(now, request)
        except NotLeader:
            request.respond(not_controller(request))
            return
        self._answer_parked()

    def _decide(self, now: int, request: ServerRequest) -> None:
        outcome = self._handlers[request.api_key](now, request)
        begin = self._raft.end_offset
        self._write(now, outcome.records)
        wrote = self._raft.end_offset > begin
        if wrote and request.api_key in WRITES:
            self._trace.event(
                "admin_write",
                node=self.config.node_id,
                client=request.client_id,
                correlation=request.correlation_id,
                asked=asked_of(request.body),
                offset=begin,
                epoch=self._raft.epoch,
            )
        if self._unfinished is not None:
            self._unfinished.request, self._unfinished.response = request, outcome.response
        else:
            self._park(request, outcome.response, wrote=wrote)

    def _park(self, request: ServerRequest, response: Message, *, wrote: bool) -> None:
        self._parked.append(_Parked(self._deciding.last_offset, request, response, wrote))

    def _go_on(self, now: int) -> None:
        """Write the next batch of unfinished records; after the last one, decide the held requests."""
        unfinished = self._unfinished
        if unfinished is not None:
            if now < unfinished.due:
                return
            self._write_part(now, unfinished)
            if self._unfinished is not None:
                return
            if unfinished.request is not None and unfinished.response is not None:
                self._park(unfinished.request, unfinished.response, wrote=True)
        while self._held and self._unfinished is None:
            request = self._held.popleft()
            if not request.closed:
                self._decide(now, request)

    @property
    def _deciding(self) -> MetadataImage:
        assert self._image is not None, "only the active controller decides"
        return self._image

    def _register(self, now: int, request: ServerRequest) -> Outcome:
        body = cast(BrokerRegistrationRequest, request.body)
        return self._brokers.register(now, self._deciding, body, self._raft.end_offset)

    def _heartbeat(self, now: int, request: ServerRequest) -> Outcome:
        body = cast(BrokerHeartbeatRequest, request.body)
        outcome = self._brokers.heartbeat(now, self._deciding, body)
        if cast(BrokerHeartbeatResponse, outcome.response).should_shut_down:
            self._trace.event("broker_let_go", node=self.config.node_id, broker=body.broker_id)
        return outcome

    def _alter_partition(self, now: int, request: ServerRequest) -> Outcome:
        body = cast(AlterPartitionRequest, request.body)
        return self._isr.alter_partition(self._deciding, body, request.api_version)

    def _allocate_producer_ids(self, now: int, request: ServerRequest) -> Outcome:
        return self._brokers.allocate_producer_ids(self._deciding, cast(AllocateProducerIdsRequest, request.body))

    def _unregister(self, now: int, request: ServerRequest) -> Outcome:
        return self._brokers.unregister(self._deciding, cast(UnregisterBrokerRequest, request.body))

    def _create_topics(self, now: int, request: ServerRequest) -> Outcome:
        return self._topics.create(self._deciding, cast(CreateTopicsRequest, request.body))

    def _delete_topics(self, now: int, request: ServerRequest) -> Outcome:
        return self._topics.delete(self._deciding, cast(DeleteTopicsRequest, request.body))

    def _create_partitions(self, now: int, request: ServerRequest) -> Outcome:
        return self._topics.create_partitions(self._deciding, cast(CreatePartitionsRequest, request.body))

    def _alter_configs(self, now: int, request: ServerRequest) -> Outcome:
        return self._configs.alter(self._deciding, cast(IncrementalAlterConfigsRequest, request.body))

    def _update_features(self, now: int, request: ServerRequest) -> Outcome:
        return self._features.update(self._deciding, cast(UpdateFeaturesRequest, request.body))

    def _elect_leaders(self, now: int, request: ServerRequest) -> Outcome:
        return self._elections.elect(self._deciding, cast(ElectLeadersRequest, request.body))

    def _alter_reassignments(self, now: int, request: ServerRequest) -> Outcome:
        return self._reassignments.alter(self._deciding, cast(AlterPartitionReassignmentsRequest, request.body))

    def _list_reassignments(self, now: int, request: ServerRequest) -> Outcome:
        return self._reassignments.ongoing(self._deciding, cast(ListPartitionReassignmentsRequest, request.body))

    # -- writing ----------------------------------------------------------------------------------------------

    def _write(self, now: int, records: Iterable[Record | None]) -> None:
        """Append records and replay them at once: a sequence as a whole, an iterator one batch per turn.

        None counts, so that no turn examines more than a batch could hold, and is not written.
        """
        self._unfinished = None
        if isinstance(records, Sequence):
            self._append(now, records)
            return
        if self._buggify.happens("decision-split"):
            self._write_part(now, _Unfinished(iter(records), SPLIT_RECORDS, SPLIT_PAUSES))
        else:
            self._write_part(now, _Unfinished(iter(records), self.config.records_max))

    def _write_part(self, now: int, decision: _Unfinished) -> None:
        """Write the next records of a decision; keep the rest, if there may be any."""
        self._unfinished = None
        batch = list(islice(decision.records, decision.most))
        self._append(now, [one for one in batch if one is not None])
        if len(batch) == decision.most:
            decision.due = now + (SPLIT_PAUSE if decision.pauses else 0)
            decision.pauses = max(0, decision.pauses - 1)
            self._unfinished = decision

    def _append(self, now: int, records: Sequence[Record]) -> None:
        """Append one batch, or several if the records are too many for one."""
        if not records:
            return
        size = self.config.records_max
        values = [one if isinstance(one, bytes) else encode_record(one) for one in records]
        begin = self._raft.end_offset
        self._raft.append(now, [values[at : at + size] for at in range(0, len(values), size)])
        image, epoch = self._deciding, self._raft.epoch
        image.replay_values(values, begin, epoch)
        self._written_at = now

    # -- replay and leadership --------------------------------------------------------------------------------

    def advance(self, now: int) -> None:
        """Replay newly committed records, and send the responses that waited for them."""
        self._watch_leadership(now)
        if not self._follow_snapshot():
            return
        if self._raft.high_watermark > self.committed.last_offset + 1:
            self._replay()
        self._activate_if_ready(now)
        self._answer_parked()

    def _replay(self) -> None:
        committed, left = self.committed, REPLAYED_IN_A_TURN
        for batch in self._raft.committed(committed.last_offset + 1):
            if not batch.is_control:
                committed.replay_after(self._image, batch.values, batch.base_offset, batch.epoch)
            self.committed.passed(batch.last_offset, batch.epoch)
            self.last_applied_ms = batch.timestamp_ms
            self.replayed_bytes += batch.size
            left -= len(batch.values)
            if left <= 0:
                break

    def _follow_snapshot(self) -> bool:
        """Whether the log continues where `committed` ends; if not, load more of the missing snapshot (SN-04)."""
        due = self._raft.snapshot_before(self.committed.last_offset + 1)
        if due is None:
            return True
        if self._loader is None or self._loader.id != due:
            self._loader = SnapshotLoader(self._raft.snapshots, due, self._buggify)
        if not self._loader.advance():
            return False
        self.committed, self._loader = self._loader.image, None
        self.snapshots_loaded += 1
        self._trace.event("snapshot_loaded", node=self.config.node_id, end=due.end_offset, epoch=due.epoch)
        return True

    def _answer_parked(self) -> None:
        while self._parked and self._parked[0].offset <= self.committed.last_offset:
            parked = self._parked.popleft()
            if not parked.request.closed:
                parked.request.respond(parked.response)

    def _watch_leadership(self, now: int) -> None:
        if self._active_epoch is not None and not (self._raft.is_leader and self._raft.epoch == self._active_epoch):
            self._deactivate()

    def _deactivate(self) -> None:
        self._trace.event("controller", node=self.config.node_id, epoch=self._active_epoch, active=False)
        self._image = None
        self._active_epoch = None
        waiting = [(one.request, one.wrote) for one in self._parked]
        if self._unfinished is not None and self._unfinished.request is not None:
            waiting.append((self._unfinished.request, True))
        waiting += [(request, False) for request in self._held]
        self._parked.clear()
        self._held.clear()
        self._unfinished = None
        for request, wrote in waiting:
            if not request.closed:
                unknown = wrote and not self._takes_parked_for_undone
                request.respond(outcome_unknown(request) if unknown else not_controller(request))

    def _activate_if_ready(self, now: int) -> None:
        """Become active once everything that earlier leaders committed is replayed (QC-23)."""
        raft = self._raft
        if self._active_epoch is not None or not raft.is_leader:
            return
        if self.committed.last_offset < raft.epoch_start_offset:
            return
        self._active_epoch = raft.epoch
        self._image = self.committed.clone()
        self._image.passed(raft.end_offset - 1, raft.epoch)
        self._brokers.restart(now, self._image)
        self._balancer.restart(now)
        self._written_at = now
        self._trace.event("controller", node=self.config.node_id, epoch=raft.epoch, active=True)
        if METADATA_VERSION not in self._image.features:
            eligible = self.config.eligible_leader_replicas
            self._write(now, self._features.first_records(self._image, eligible_leaders=eligible))
        self._write(now, self._changes.elections(self._image))

    # -- time -------------------------------------------------------------------------------------------------

    def tick(self, now: int) -> None:
        """Replay, fence silent brokers, and write a record when idle."""
        self.advance(now)
        if self._image is None:
            return
        self._go_on(now)
        while self._unfinished is None and self._brokers.sessions.deadline() <= now:
            self._write(now, self._brokers.fence_silent(now, self._image))
        if self._unfinished is None and self._balancer.deadline() <= now:
            self._write(now, self._balancer.advance(now, self._image))
        if self._unfinished is None and self._idle_at() <= now:
            self._write(now, [NoOpRecord()])

    def _idle_at(self) -> int:
        return self._written_at + self.config.idle_interval if self.config.idle_interval > 0 else NEVER

    def deadline(self) -> int:
        """When `tick` is next due; in the past if committed records are not replayed or leadership has changed."""
        raft = self._raft
        lost = self._active_epoch is not None and not (raft.is_leader and raft.epoch == self._active_epoch)
        if lost or raft.high_watermark > self.committed.last_offset + 1:
            return 0
        if self._image is None:
            return NEVER
        if self._unfinished is not None:
            return self._unfinished.due
        if self._held:
            return 0
        return min(self._brokers.sessions.deadline(), self._balancer.deadline(), self._idle_at())

    def close(self, now: int) -> None:
        """Stop deciding; parked requests are answered as when the leadership is lost."""
        if self._active_epoch is not None:
            self._deactivate()
