"""One node: its components, its turn, and the contract with its host (docs/architecture.md).

    host ── opened, received, closed, tick ──▶ queues
    host ── turn ─▶  timers and peers' responses, all control requests, committed metadata,
                     then data requests, up to `turn.requests.max` or `turn.bytes.max`;
                     parked requests that became ready
    host ◀─ early ── the leader's records, sent to the followers while it makes them durable
    host ── flush ▶  the metadata log to disk; what that commits is applied and answered
    host ◀─ outbox ─ released only now: nothing is sent before it is durable

The order within a turn isolates the control plane (CL-24): with any number of data requests queued, the next vote,
heartbeat or timer waits for at most one turn's worth of them. Messages of the control plane do not wait for data
requests either: a turn that has a request to a controller or a controller's response to send ends there and is
released, and data requests follow in the next turn, which the host begins at once. Data requests never wait twice in a
row, so that they cannot starve.

A node has one quorum replica, voter or observer, which a controller and a broker in the same node share (QC-24). A
frame that cannot be decoded, or requests an API that its listener does not serve, ends its connection and nothing else.
Exceptions from components pass through: a node with a broken invariant or a broken disk must stop.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from squall.nodes.broker.broker import Broker
from squall.nodes.broker.observer import MetadataObserver
from squall.nodes.buggify import OFF, Buggify
from squall.nodes.config import NodeConfig
from squall.nodes.controller.controller import QuorumController
from squall.nodes.metadata.image import MetadataImage
from squall.nodes.metadata.snapshot_generator import SnapshotGenerator
from squall.nodes.mutants import HEALTHY, Mutants
from squall.nodes.node.base import NEVER, BaseNode, Handle
from squall.nodes.node.control_time import ControlTime
from squall.nodes.node.controller_endpoints import ControllerEndpoints
from squall.nodes.node.dispatch import BROKER_VERSIONS, CONTROLLER_VERSIONS, PUSH_VERSIONS
from squall.nodes.node.effects import Close, Connect, Effect, Pause, Resume, Send
from squall.nodes.node.identity import NodeError, directory_identity
from squall.nodes.node.links import Links
from squall.nodes.node.quorum_watch import QuorumWatch
from squall.nodes.node.settings import broker_config, controller_config, raft_config, snapshot_config
from squall.nodes.node.timings import ApiTimes
from squall.nodes.ports import Disk, Rng, Stopwatch, Trace, WallClock
from squall.nodes.protocol.messages import ApiKey
from squall.nodes.protocol.requests.session import ServerRequest
from squall.nodes.raft.config import KRAFT, Variant
from squall.nodes.raft.push.replication import pusher_of
from squall.nodes.raft.replica import RaftReplica
from squall.nodes.raft.roles import Role
from squall.nodes.storage.errors import CorruptFile

__all__ = ["Close", "Connect", "Node", "NodeError", "Pause", "Resume", "Send"]


class Node(BaseNode):
    """See the module. `notices` are lines for the node's log; a host that has one drains them."""

    def __init__(
        self,
        config: NodeConfig,
        *,
        disk: Disk,
        clock: WallClock,
        rng: Rng,
        trace: Trace,
        now: int,
        mutants: Mutants = HEALTHY,
        buggify: Buggify = OFF,
        stopwatch: Stopwatch | None = None,
        variant: Variant = KRAFT,
    ) -> None:
        """Read and recover the files on the disk, which may take long. Raises NodeError.

        Only simulations exchange parts of KRaft for others, by `variant`.
        """
        self.config = config
        self.outbox: list[Effect] = []
        self.notices: list[str] = []
        self._control_time = ControlTime(clock, mutants)
        control_now = self._control_time(now)
        try:
            directory_id = directory_identity(config, disk, rng)
            self.raft = RaftReplica(
                replace(raft_config(config, directory_id), variant=variant),
                disk=disk, clock=clock, rng=rng, trace=trace, now=control_now, mutants=mutants, buggify=buggify,
                pusher=pusher_of(variant),
            )  # fmt: skip
            self.controller = self._make_controller(rng, trace, control_now, mutants, buggify)
            self.broker = self._make_broker(directory_id, disk, clock, rng, trace, now, mutants, buggify)
        except CorruptFile as error:
            raise NodeError(f"{config.log_dirs}: {error}") from error
        pushed = PUSH_VERSIONS if variant.replication.pushes else {}
        self._open_channels(stopwatch, BROKER_VERSIONS, {**CONTROLLER_VERSIONS, **pushed})
        self.links = Links(f"node-{config.node_id}", self, rng, self.outbox, trace)
        self.controller_times = ApiTimes()
        """Times of the requests that the controller decided, of any API; the quorum's are not among them."""
        self.quorum_watch = QuorumWatch(self.raft)
        self.snapshot_generator = self._make_snapshot_generator(now, buggify)
        self._control_handlers = self._control_table()
        self._decided = () if self.controller is None else self.controller.api_keys
        self._role_seen: Role | None = None
        self._leader_seen: tuple[int | None, int] = (None, -1)
        self._data_waited = False

    def _make_controller(
        self, rng: Rng, trace: Trace, now: int, mutants: Mutants, buggify: Buggify
    ) -> QuorumController | None:
        if not self.config.is_controller:
            return None
        return QuorumController(
            controller_config(self.config), self.raft,
            rng=rng, trace=trace, now=now, mutants=mutants, buggify=buggify,
        )  # fmt: skip

    def _make_broker(
        self,
        directory_id: bytes,
        disk: Disk,
        clock: WallClock,
        rng: Rng,
        trace: Trace,
        now: int,
        mutants: Mutants,
        buggify: Buggify,
    ) -> Broker | None:
        if not self.config.is_broker:
            return None
        return Broker(
            broker_config(self.config, directory_id), partial(self._observe, trace, buggify),
            disk=disk, clock=clock, rng=rng, trace=trace, now=now, mutants=mutants, buggify=buggify,
        )  # fmt: skip

    def _observe(self, trace: Trace, buggify: Buggify, image: MetadataImage) -> MetadataObserver:
        self._observer = MetadataObserver(self.config.node_id, self.raft, image, trace, buggify)
        return self._observer

    def _make_snapshot_generator(self, now: int, buggify: Buggify) -> SnapshotGenerator:
        """One generator for the node, for the part that replays the log (SN-01)."""
        config = snapshot_config(self.config)
        if self.controller is not None:
            return SnapshotGenerator(config, self.raft, self.controller, now, buggify)
        return SnapshotGenerator(config, self.raft, self._observer, now, buggify)

    def _control_table(self) -> dict[int, Handle]:
        table: dict[int, Handle] = {
            int(ApiKey.VOTE): self.raft.handle_vote,
            int(ApiKey.BEGIN_QUORUM_EPOCH): self.raft.handle_begin_quorum_epoch,
            int(ApiKey.END_QUORUM_EPOCH): self.raft.handle_end_quorum_epoch,
            int(ApiKey.FETCH): self.raft.handle_fetch,
            int(ApiKey.ADD_RAFT_VOTER): self.raft.handle_add_raft_voter,
            int(ApiKey.REMOVE_RAFT_VOTER): self.raft.handle_remove_raft_voter,
            int(ApiKey.UPDATE_RAFT_VOTER): self.raft.handle_update_raft_voter,
            int(ApiKey.FETCH_SNAPSHOT): self.raft.handle_fetch_snapshot,
            int(ApiKey.DESCRIBE_QUORUM): self.raft.handle_describe_quorum,
            int(ApiKey.APPEND_ENTRIES): self.raft.handle_append_entries,
            int(ApiKey.DESCRIBE_CLUSTER): ControllerEndpoints(self.config.cluster_id, self.raft).describe,
        }
        if self.controller is not None:
            table |= {int(key): self.controller.handle for key in self.controller.api_keys}
        return table

    # -- addresses (links.Directory) ------------------------------------------------------------------------------

    def voter_address(self, voter: int) -> tuple[str, int] | None:
        return self.raft.voter_address(voter)

    @property
    def is_active_controller(self) -> bool:
        return self.raft.is_leader and self.raft.high_watermark > 0

    def active_controller(self) -> int | None:
        return self.raft.leader_and_epoch[0]

    # -- the turn -------------------------------------------------------------------------------------------------

    def _turn(self, now: int) -> None:
        if self._closed:
            return
        self._clock.turn = now
        self.connections.drained()
        self._hear_peers(now)
        served = len(self.control) > 0 and self._serve_control(now)
        self._run_timers(now)
        self._apply_metadata(now)
        urgent = served or bool(self.raft.requests) or (self.broker is not None and self.broker.is_urgent)
        if urgent and not self._data_waited and self._has_data():
            self._data_waited = True
        else:
            self._data_waited = False
            self._serve_data(now)
        self._ask_peers(now)

    def _run_timers(self, now: int) -> None:
        self._run_connection_timers(now)
        control_now = self._control_time(now)
        self.raft.tick(control_now)
        if self.controller is not None:
            self.controller.tick(control_now)
        if self.broker is not None:
            self.broker.tick(now)

    def _apply_metadata(self, now: int) -> None:
        broker = self.broker
        if broker is not None:
            broker.apply_metadata(now)
            broker.settle(now)
            self._take_notices(broker.notices)
        self._take_notices(self.raft.snapshots.notices)
        role = self.raft.role
        if role is not self._role_seen:
            self._role_seen = role
            self._watch_leader()

    def _watch_leader(self) -> None:
        """Report another leader of the quorum. A role has one leader and epoch for as long as it lasts."""
        leader_and_epoch = self.raft.leader_and_epoch
        if leader_and_epoch != self._leader_seen:
            self._leader_seen = leader, epoch = leader_and_epoch
            if leader is not None:
                self.quorum_watch.new_leaders += 1
                self.notices.append(
                    f"node {self.config.node_id}: controller {leader} leads the quorum in epoch {epoch}"
                )

    def _serve_control(self, now: int) -> bool:
        """Serve all control requests; return whether there were any."""
        served = False
        while (inbound := self.control.take()) is not None:
            served = True
            self._serve(now, inbound, self._handle_control, self.control_times)
            if inbound.handled_at and inbound.request is not None and inbound.request.api_key in self._decided:
                began = inbound.began_at
                self.controller_times.add(began - inbound.received_at, inbound.handled_at - began, 0, 0)
        self.connections.relieve(self.control)
        return served

    def _serve_data(self, now: int) -> None:
        broker = self.broker
        if broker is None or not broker.is_serving:
            return
        if len(self.data):
            requests, size = self.config.turn_requests_max, self.config.turn_bytes_max
            while requests > 0 and size > 0 and (inbound := self.data.take()) is not None:
                requests -= 1
                size -= inbound.size
                self._serve(now, inbound, broker.handle, self.data_times)
        broker.settle(now)
        self.connections.relieve(self.data)

    @property
    def image(self) -> MetadataImage:
        """The cluster as this node has applied it."""
        if self.broker is not None:
            return self.broker.image
        assert self.controller is not None, "a node has at least one role"
        return self.controller.committed

    def _handle_control(self, now: int, request: ServerRequest) -> None:
        self._control_handlers[request.api_key](self._control_time(now), request)

    def _ask_peers(self, now: int) -> None:
        """Submit the components' outbound requests to the links."""
        requests = self.raft.requests
        if requests:
            asked = list(requests)
            requests.clear()
            for request in asked:
                request.complete = self._control_time.completing(request.complete)
                self.links.submit(now, request)
        if self.broker is not None:
            for request in self.broker.take_requests():
                self.links.submit(now, request)

    # -- after the turn -------------------------------------------------------------------------------------------

    def release_early(self) -> list[Effect]:
        """Take out of the outbox, between `turn` and `flush`, what need not wait for the disk. Hosts may call it.

        While a leader makes its records durable, they are sent to the followers, which do the same; a commit then waits
        for the slower of the two instead of for both, one after the other (Kafka does the same). This is safe: the
        leader counts itself up to what is durable (X14), and a follower by the fetch that follows its own flush. A
        leader that loses records in a crash may fetch them again from the followers that have them.
        """
        if self._closed or not self.outbox or not self._has_unflushed():
            return []
        early: list[Effect] = []
        late: list[Effect] = []
        behind: dict[int, None] = {}
        for effect in self.outbox:
            if type(effect) is Send and effect.early and effect.connection not in behind:
                early.append(effect)
            else:
                late.append(effect)
                behind[effect.connection] = None
        self.outbox[:] = late
        return early

    def flush(self, now: int) -> None:
        """Make the metadata log durable; apply and answer what that commits."""
        if self._closed:
            return
        control_now = self._control_time(now)
        self.raft.flush(control_now)
        if self.controller is not None:
            self.controller.advance(control_now)
        self._apply_metadata(now)
        self.snapshot_generator.advance(now)
        self._ask_peers(now)
        if self.controller is not None:
            self.quorum_watch.observe(now)

    def deadline(self) -> int:
        """When the host must call again without an input; in the past if work was left."""
        if self._closed:
            return NEVER
        if self._peer_events or len(self.control) or self._has_unflushed() or self._has_data():
            return 0
        controls = self.raft.deadline()
        if self.controller is not None:
            controls = min(controls, self.controller.deadline())
        nearest = min(
            self._control_time.deadline(controls),
            self._connections_due(),
            self.snapshot_generator.deadline(),
            NEVER if self.broker is None else self.broker.deadline(),
        )
        return nearest

    def _has_data(self) -> bool:
        if self.broker is None or not self.broker.is_serving:
            return False
        return len(self.data) > 0 or self.connections.any_released

    def _has_unflushed(self) -> bool:
        return self.controller is not None and self.raft.log.durable_offset < self.raft.end_offset

    def begin_shutdown(self, now: int) -> None:
        """Prepare to be closed. A broker hands over its leaderships (CS-01), a controller has nothing to prepare."""
        if self.broker is not None and not self._closed:
            self.broker.begin_shutdown(now)

    @property
    def may_close(self) -> bool:
        """Whether the begun shutdown is prepared, or its time is over. The host may call `close` earlier."""
        return self.broker is None or self.broker.may_close

    def close(self, now: int) -> None:
        """Stop cleanly: resign, close every log. The host may still send the outbox afterwards."""
        if self._closed:
            return
        if self.controller is not None:
            self.controller.close(self._control_time(now))
        if self.broker is not None:
            self.broker.close(now)
        self.snapshot_generator.close()
        self.raft.close(self._control_time(now))
        self._ask_peers(now)
        self._closed = True
