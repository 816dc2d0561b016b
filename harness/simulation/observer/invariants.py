"""Check during a simulated run what only an omniscient observer can (docs/requirements.md, "Invariants").

The observer examines a node between two of its turns, before any output of the turn is released, and it examines what
clients receive at the time they receive it. It asserts all eleven invariants:

* LM, HWM          two replicas that agree on (offset, epoch) agree on all before it; records below a high watermark are
                   never replaced; the quorum's high watermark never falls                      (`observed_log.py`)
* ELECT            one leader per (log, epoch), for quorum and data, and a new leader has all that is committed
* ISR              every running member of ISR or ELR has all that is committed, since it may lead next, and every
                   replica that a leader counts as in sync, a pending change included, has all below its high watermark
* EPOCH, IMAGE     equal offsets mean equal images; epochs move as the records say           (`observed_images.py`)
* ACK, UNIQ, RT, PREFIX, PHANTOM
                   what clients receive is what is committed                                      (`client_checker.py`)

It also checks RA-05, CS-02, SN-03 and FD-05 by replaying the metadata records (`observed_metadata.py`); CS-04 when a
controller lets a broker shut down (`observed_shutdown.py`); MD-09, that no administrator's write is carried out twice
(`observed_writes.py`); DP-07, log start ≤ high watermark ≤ log end; and what followers do to their logs: EP-04 and
DP-13 (`observed_followers.py`).

The observer is driven by change. The nodes' own trace names the topic-partitions that a turn has touched, and only
those are examined. Every `SWEEP`-th turn of a node all of its replicas are examined, in case of an untraced change.
Logs are identified by topic id, so that a topic created again under its name has a new log.

A breach raises `InvariantBroken`, which ends the run and carries the event that broke it (`event_context.py`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from squall.harness.simulation.observer.client_checker import ClientChecker, Promised, first_lacking
from squall.harness.simulation.observer.event_context import Moment, TraceEvent, Turn
from squall.harness.simulation.observer.observed_followers import check_append, check_truncation
from squall.harness.simulation.observer.observed_images import Changed, ObservedImages
from squall.harness.simulation.observer.observed_log import (
    Batch,
    InvariantBroken,
    Loss,
    ObservedLog,
    SeenReplica,
    batches_of,
)
from squall.harness.simulation.observer.observed_metadata import ReplayedMetadata
from squall.harness.simulation.observer.observed_shutdown import undue_leave
from squall.harness.simulation.observer.observed_writes import ObservedWrites
from squall.harness.simulation.world.process import SimProcess
from squall.nodes.broker.hosting.hosted_partition import HostedPartition
from squall.nodes.broker.hosting.replicas import Replicas
from squall.nodes.metadata.image import MetadataImage, PartitionRegistration
from squall.nodes.node.node import Node
from squall.nodes.raft.roles import Leader
from squall.nodes.raft.snapshots import SnapshotId
from squall.nodes.replication.replica import TopicPartitionReplica
from squall.workloads.core.operation import MARKER, SEND, Event

__all__ = ["Counters", "InvariantBroken", "Moment", "Observer"]

SWEEP = 512
RECENT_TURNS = 64
READ_BYTES = 1 << 20
UNCLEAN_ELECTIONS = "unclean.leader.election.enable"

TopicPartitionId = tuple[bytes, int]
Place = tuple[str, int]


@dataclass
class Counters:
    """Counts of what happened in a run."""

    quorum_leaders: int = 0
    partition_leaders: int = 0
    isr_changes: int = 0
    elr_changes: int = 0
    truncations: int = 0
    unclean_elections: int = 0
    declared_losses: int = 0
    committed_batches: int = 0
    voter_changes: int = 0
    controlled_shutdowns: int = 0
    acknowledged: int = 0


@dataclass(slots=True)
class _Watched:
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


class Observer:
    """Watches all processes of one simulated cluster; also their nodes' `Trace`."""

    def __init__(self, *, acks_all: bool = True, unclean_allowed: bool = False) -> None:
        """`unclean_allowed`: the cluster's configuration allows unclean elections; a topic may do so, too."""
        self.counters = Counters()
        self.recent: deque[Turn] = deque(maxlen=RECENT_TURNS)
        self.quorum = ObservedLog("__cluster_metadata-0")
        self.images = ObservedImages()
        self.metadata = ReplayedMetadata()
        self.writes = ObservedWrites()
        self.on_quorum_leader: Callable[[str, int], None] = lambda name, epoch: None
        self.client_checker = ClientChecker(all_acknowledged=acks_all)
        self.on_unclean_leader: Callable[[str, int, Loss], None] = lambda topic, partition, loss: None
        self._unclean_allowed = unclean_allowed
        self.metadata.on_unclean = self._unclean_election
        self._names: dict[int, str] = {}
        self._processes: dict[str, SimProcess] = {}
        self._watched: dict[TopicPartitionId, _Watched] = {}
        self._touched: dict[tuple[str, int], int | None] = {}
        self._cut: dict[tuple[str, int], None] = {}
        self._quorum_cuts: dict[int, int] = {}
        self._quorum_resets: dict[int, int] = {}
        self._quorum_touched = False
        self._votes: list[tuple[int, int, int]] = []
        self._snapshots: list[tuple[int, int]] = []
        self._voter_records: dict[int, None] = {}
        self._undue_leaves: list[str] = []
        self._implausible: list[str] = []
        """Messages that a node refused as never valid.

        In simulation every sender is one of our nodes, so each is a bug.
        """
        self._voted: dict[tuple[int, int], int] = {}
        self._traced: list[TraceEvent] = []
        self._turns: dict[str, int] = {}
        self._quorum_seen: dict[Place, tuple[int, int, bool, int]] = {}

    def watch(self, processes: Mapping[str, SimProcess], names: Mapping[int, str]) -> None:
        """Register the processes by name, and the names by node id."""
        self._processes = dict(processes)
        self._names = dict(names)

    # -- the nodes' trace (nodes.ports.Trace) -----------------------------------------------------------------------

    def event(self, name: str, **fields: object) -> None:
        """Record a node's trace event: which topic-partition was touched, and how far a log was truncated."""
        self._traced.append((name, fields))
        topic = fields.get("topic")
        if topic is not None:
            key = (str(topic), int(fields["partition"]))  # type: ignore[call-overload]
            before = self._touched.get(key)
            if name == "truncate":
                cut = int(fields["to"])  # type: ignore[call-overload]
                self.counters.truncations += int(fields.get("end", cut)) > cut  # type: ignore[call-overload]
                self._touched[key] = cut if before is None else min(cut, before)
                self._cut[key] = None
                return
            if name == "leader":
                self._cut.pop(key, None)
            if before is None:
                self._touched[key] = None
            return
        self._quorum_touched = True
        if name == "voters":
            self._voter_records[int(fields["offset"])] = None  # type: ignore[call-overload]
            self.counters.voter_changes = len(self._voter_records) - 1  # the first one records the initial state
            return
        if name == "broker_shuts_down" and fields.get("granted"):
            self.counters.controlled_shutdowns += 1
            return
        if name == "broker_let_go":
            self._note_leave(int(fields["node"]), int(fields["broker"]))  # type: ignore[call-overload]
            return
        if name == "snapshot":
            self._snapshots.append((int(fields["end"]), int(fields["epoch"])))  # type: ignore[call-overload]
            return
        if name == "implausible":
            self._implausible.append(f"{fields['what']}: {fields['why']}")
            return
        if name == "vote":
            self._votes.append((int(fields["node"]), int(fields["epoch"]), int(fields["candidate"])))  # type: ignore[call-overload]
            return
        if name == "log_reset":
            self._quorum_resets[int(fields["node"])] = int(fields["end"])  # type: ignore[call-overload]
            return
        if name == "truncate":
            node, cut = int(fields["node"]), int(fields["end"])  # type: ignore[call-overload]
            self._quorum_cuts[node] = min(cut, self._quorum_cuts.get(node, cut))

    def leaders_of(self, place: str) -> Mapping[int, str]:
        """Return the leaders of `events-0` by leader epoch; for a topic created again, of its newest incarnation."""
        found = [watched.log.leaders for watched in self._watched.values() if watched.log.name == place]
        return found[-1] if found else {}

    def power_lost(self, name: str) -> None:
        """Record that this host's node lost what was not durable: its replicas may lack committed records."""
        for key, watched in self._watched.items():
            registration = self.images.newest.get(key)
            if registration is None or name not in [self._names[one] for one in registration.replicas]:
                continue
            for other in [one for one in watched.robbed if self._is_whole(one, key, registration)]:
                del watched.robbed[other]
            watched.robbed[name] = None

    # -- turns ----------------------------------------------------------------------------------------------------

    def look(self, process: SimProcess) -> None:
        """Check everything that this process's last turn may have broken. Raises InvariantBroken."""
        node = process.node
        touched, self._touched = self._touched, {}
        cut, self._cut = self._cut, {}
        traced, self._traced = self._traced, []
        quorum_touched, self._quorum_touched = self._quorum_touched, False
        if node is None:  # the node died in this turn: discard what it traced before
            self._votes.clear()
            self._snapshots.clear()
            self._undue_leaves.clear()
            self._implausible.clear()
            return
        turns = self._turns[process.name] = self._turns.get(process.name, 0) + 1
        turn = Turn(process.event_number, process.now, process.name, process.last_inputs, traced)
        self.recent.append(turn)
        try:
            if quorum_touched or turns % SWEEP == 0:
                if self._implausible:
                    raise InvariantBroken("ELECT", f"{process.name} refused {self._implausible[0]}")
                self._look_at_votes()
                self.writes.look(process.name, process.incarnation, traced)
                self._look_at_metadata(process, node)
                self._look_at_leaves()
            if node.broker is not None:
                self._look_at_topics(process, node.broker.replicas, touched, everything=turns % SWEEP == 0)
                for topic, partition in cut:
                    self._look_at_cut(process, node.broker.replicas, topic, partition)
        except InvariantBroken as breach:
            breach.moment = turn.moment(node)
            raise

    def _look_at_metadata(self, process: SimProcess, node: Node) -> None:
        number = node.config.node_id
        self._look_at_quorum(process, node, self._quorum_cuts.pop(number, None), self._quorum_resets.pop(number, None))
        self._look_at_applied(process, node)
        snapshots, self._snapshots = self._snapshots, []
        for end, epoch in snapshots:
            self.metadata.written(process.name, node.raft.snapshots, SnapshotId(end, epoch))
        if node.controller is not None:
            self._look_at_image(process, "controller", node.controller.committed)
        if node.broker is not None:
            self._look_at_image(process, "broker", node.broker.image)

    def _look_at_topics(
        self, process: SimProcess, replicas: Replicas, touched: dict[tuple[str, int], int | None], *, everything: bool
    ) -> None:
        if everything:
            for hosted in replicas.all():
                touched.setdefault(hosted.name, None)
        for (topic, partition), cut in touched.items():
            found = replicas.by_name(topic, partition)
            if found is not None:
                self._look_at_replica(process, found.replica, cut)

    def _look_at_cut(self, process: SimProcess, replicas: Replicas, topic: str, partition: int) -> None:
        found = replicas.by_name(topic, partition)
        if found is not None:
            check_truncation(f"{topic}-{partition}", process.name, found.replica)

    # -- the quorum -----------------------------------------------------------------------------------------------

    def _look_at_quorum(self, process: SimProcess, node: Node, cut: int | None, reset: int | None) -> None:
        """Check the quorum's log after a turn.

        `cut`: where the log was truncated in this turn. `reset`: where it restarts after a snapshot.
        """
        raft, log = node.raft, self.quorum
        place = (process.name, process.incarnation)
        end, high_watermark, leads = raft.end_offset, raft.high_watermark, raft.is_leader
        epoch = raft.leader_and_epoch[1]
        now = (end, high_watermark, leads, epoch)
        before = self._quorum_seen.get(place)
        if before == now and cut is None and reset is None:
            return
        self._quorum_seen[place] = now
        if before is not None and (high_watermark < before[1] or epoch < before[3]):
            name = "HWM" if high_watermark < before[1] else "EPOCH"
            raise InvariantBroken(name, f"{process.name}: from {before} to {now} (end, high watermark, leads, epoch)")
        for upper in [one for one in (cut, reset) if one is not None]:
            if upper < log.seen(place, 0).high_watermark:
                raise InvariantBroken(
                    "HWM", f"{process.name} has cut the metadata log at {upper}, below what is committed"
                )
        if cut is not None:
            log.cut(place, cut)
        if isinstance(raft.role, Leader):
            self._look_at_commitment(process, raft.role)
        if reset is not None or raft.log.start_offset > log.seen(place, raft.log.start_offset).examined:
            log.forget(place)  # a snapshot has replaced its records, committed or not
        log.examine(place, lambda offset, upper: raft.log.read(offset, READ_BYTES), raft.log.start_offset, end)
        if leads and log.one_leader(epoch, process.name):
            self.counters.quorum_leaders += 1
            self.on_quorum_leader(process.name, epoch)
            if end < log.end:
                raise InvariantBroken(
                    "ELECT",
                    f"{process.name} leads quorum epoch {epoch} with log end {end}, {log.end} are committed: "
                    f"{_first_lacking(log, raft.role, end)}",
                )
        for batch in log.commit(place, high_watermark, epoch):
            self._follow_records(node, batch)
        self.writes.follow(log.end, log.canonical.get)

    def _follow_records(self, node: Node, batch: Batch) -> None:
        for committed in node.raft.committed(batch.base):
            if committed.base_offset > batch.last:
                return
            if committed.base_offset == batch.base:
                if not committed.is_control:
                    self.images.committed(list(committed.values))
                self.metadata.follow(committed)

    def _look_at_votes(self) -> None:
        """A voter grants one vote in an epoch, through all its incarnations (QC-06, QC-08)."""
        votes, self._votes = self._votes, []
        for voter, epoch, candidate in votes:
            first = self._voted.setdefault((voter, epoch), candidate)
            if first != candidate:
                name = self._names[voter]
                raise InvariantBroken(
                    "ELECT",
                    f"{name} has voted twice in quorum epoch {epoch}, for {self._names[first]} and "
                    f"{self._names[candidate]}",
                )

    def _look_at_commitment(self, process: SimProcess, role: Leader) -> None:
        """A leader commits nothing before a record of its own epoch, which also commits all older ones (QC-16)."""
        if role.high_watermark is not None and role.high_watermark <= role.epoch_start_offset:
            raise InvariantBroken(
                "HWM",
                f"{process.name} leads quorum epoch {role.epoch} from offset {role.epoch_start_offset} on, and counts "
                f"records up to {role.high_watermark} as committed, all of older epochs",
            )

    def _look_at_applied(self, process: SimProcess, node: Node) -> None:
        """A node applies only metadata that its own replica knows to be committed (MD-03, rule 30)."""
        high_watermark = node.raft.high_watermark
        images = [] if node.controller is None else [("controller", node.controller.committed)]
        images += [] if node.broker is None else [("broker", node.broker.image)]
        for role, image in images:
            if image.last_offset >= high_watermark:
                raise InvariantBroken(
                    "MD-03",
                    f"{process.name} ({role}) has applied metadata up to {image.last_offset}, only what is below "
                    f"{high_watermark} is known to be committed",
                )

    def _note_leave(self, controller: int, broker: int) -> None:
        """A controller lets a broker shut down: check at once, before the decision changes the controller's image."""
        node = self._running(controller)
        image = None if node is None or node.controller is None else node.controller.image
        undue = None if image is None else undue_leave(image, broker, self._running)
        if undue is not None:
            self._undue_leaves.append(undue)

    def _running(self, node_id: int) -> Node | None:
        return self._processes[self._names[node_id]].node

    def _look_at_leaves(self) -> None:
        """A broker that may shut down leads nothing, and every active broker has received that metadata (CS-04)."""
        undue, self._undue_leaves = self._undue_leaves, []
        if undue:
            raise InvariantBroken("CS-04", undue[0])

    # -- images ---------------------------------------------------------------------------------------------------

    def _look_at_image(self, process: SimProcess, role: str, image: MetadataImage) -> None:
        place = (f"{process.name} ({role})", process.incarnation)
        for changed in self.images.look(place, image):
            self._registered(changed, image)

    def _registered(self, changed: Changed, image: MetadataImage) -> None:
        """The controller has decided a change of a topic-partition."""
        before, now = changed.before, changed.registration
        watched = self._watch(changed.topic, changed.topic_id, changed.partition)
        settings = image.topic_settings(changed.topic)
        if "min.insync.replicas" in settings:
            watched.min_isr = min(int(settings["min.insync.replicas"]), len(now.replicas))
        self.counters.isr_changes += before is not None and before.isr != now.isr
        self.counters.elr_changes += before is not None and before.elr != now.elr
        if before is not None and before.recovery_state == 0 and now.recovery_state == 1:
            self.counters.unclean_elections += 1
        self._check_eligible((changed.topic_id, changed.partition), watched)

    def _watch(self, topic: str, topic_id: bytes, partition: int) -> _Watched:
        watched = self._watched.get((topic_id, partition))
        if watched is None:
            log = ObservedLog(f"{topic}-{partition}")
            watched = self._watched[topic_id, partition] = _Watched(log, Promised(log), topic, {})
        return watched

    # -- topic-partitions -----------------------------------------------------------------------------------------

    def _look_at_replica(self, process: SimProcess, replica: TopicPartitionReplica, cut: int | None) -> None:
        watched = self._watch(replica.topic, replica.topic_id, replica.partition)
        log = watched.log
        place = (process.name, process.incarnation)
        start, high_watermark, end = replica.log.start_offset, replica.high_watermark, replica.end_offset
        if not start <= high_watermark <= end:
            raise InvariantBroken(
                "DP-07",
                f"{log.name}: {process.name} has log start {start}, high watermark {high_watermark}, log end {end}",
            )
        if cut is not None:
            log.cut(place, cut)
        if start > log.seen(place, start).examined:
            log.forget(place)
        seen = log.seen(place, start)
        examined = seen.examined
        log.examine(place, lambda offset, upper: replica.read(offset, READ_BYTES, upper, at_least_one=True), start, end)
        if seen.examined > examined:
            self._look_at_append(process, watched, replica, seen)
        seen.leader_epoch = replica.leader_epoch
        if replica.is_leader:
            watched.min_isr = replica.min_isr
            before = log.newest_epoch
            if log.one_leader(replica.leader_epoch, process.name):
                self.counters.partition_leaders += 1
                self._new_leader(process, watched, replica, before)
            if replica.leader_epoch == log.newest_epoch:
                self._trim(watched, start)
        committed_before = log.end
        for batch in log.commit(place, high_watermark, replica.leader_epoch, leads=replica.is_leader):
            self._committed(watched, replica, batch)
        self._check_in_sync(watched, process, replica)
        key = (replica.topic_id, replica.partition)
        if log.end > committed_before:
            self._check_eligible(key, watched)
        else:
            self._check_eligible_one(process.name, replica, key, watched)

    def _look_at_append(
        self, process: SimProcess, watched: _Watched, replica: TopicPartitionReplica, seen: SeenReplica
    ) -> None:
        name = watched.log.leaders.get(replica.leader_epoch)
        leader = None if name is None else self._replica_of(name, (replica.topic_id, replica.partition))
        check_append(watched.log.name, process.name, replica, seen, leader)

    def _committed(self, watched: _Watched, replica: TopicPartitionReplica, batch: Batch) -> None:
        self.counters.committed_batches += 1
        content = replica.read(batch.base, 1, batch.last + 1, at_least_one=True)
        self.client_checker.committed(watched.promised, memoryview(content))

    def _trim(self, watched: _Watched, start: int) -> None:
        if start > watched.log.start:
            watched.log.trim(start)
            self.client_checker.trimmed(watched.promised)

    def _new_leader(self, process: SimProcess, watched: _Watched, replica: TopicPartitionReplica, before: int) -> None:
        """A new leader has all that is committed, unless a loss was allowed. `before`: the newest epoch so far."""
        log, end = watched.log, replica.end_offset
        unclean = watched.is_loss_pending(before)
        if not unclean and end >= log.end:
            return
        if not unclean and not self._loss_allowed(watched):
            raise InvariantBroken(
                "ELECT",
                f"{log.name}: {process.name} leads epoch {replica.leader_epoch} with log end {end}, "
                f"but records up to {log.end} are committed: {first_lacking(watched.promised, end)}",
            )
        committed, batches = log.end, [batch for batch, _ in self._batches(replica, end)]
        loss = log.declare_loss((process.name, process.incarnation), replica.leader_epoch, batches, end)
        self.counters.declared_losses += loss.end < committed
        self.client_checker.lost(watched.promised, loss.end)
        if unclean:
            self.on_unclean_leader(watched.topic, replica.partition, loss)

    @staticmethod
    def _batches(replica: TopicPartitionReplica, end: int) -> Iterator[tuple[Batch, memoryview]]:
        """Return the whole batches of a replica's log up to `end`, with their content."""
        return batches_of(
            lambda offset, upper: replica.read(offset, READ_BYTES, upper, at_least_one=True),
            replica.log.start_offset,
            end,
        )

    def _unclean_election(self, topic: str, place: TopicPartitionId, leader_epoch: int) -> None:
        """Record a committed unclean election. It makes a loss legal if the settings allow it."""
        if self._may_be_unclean(topic):
            self._watch(topic, *place).unclean[leader_epoch] = None

    def _loss_allowed(self, watched: _Watched) -> bool:
        """Return whether an unclean election's leader has yet to begin, or min ISR or more replicas lost data."""
        return watched.is_loss_pending(watched.log.newest_epoch) or len(watched.robbed) >= watched.min_isr

    def _may_be_unclean(self, topic: str) -> bool:
        setting = self.metadata.image.topic_settings(topic).get(UNCLEAN_ELECTIONS)
        return self._unclean_allowed if setting is None else setting == "true"

    # -- who is in sync -------------------------------------------------------------------------------------------

    def _replica_of(self, name: str, key: TopicPartitionId) -> TopicPartitionReplica | None:
        process = self._processes.get(name)
        if process is None or process.node is None or process.node.broker is None:
            return None
        hosted: HostedPartition | None = process.node.broker.replicas.by_id(*key)
        return None if hosted is None else hosted.replica

    def _is_whole(self, name: str, key: TopicPartitionId, registration: PartitionRegistration) -> bool:
        """Return whether a replica that lost records has everything again and is in the ISR."""
        replica = self._replica_of(name, key)
        if replica is None or name not in [self._names[one] for one in registration.isr]:
            return False
        return replica.end_offset >= self._watched[key].log.end

    def _check_eligible(self, key: TopicPartitionId, watched: _Watched) -> None:
        """Every replica that may be elected has every committed record."""
        registration = self.images.newest.get(key)
        if registration is None:
            return
        for member in (*registration.isr, *registration.elr):
            replica = self._replica_of(self._names[member], key)
            if replica is not None and replica.end_offset < watched.log.end:
                self._check_eligible_one(self._names[member], replica, key, watched)

    def _check_eligible_one(
        self, name: str, replica: TopicPartitionReplica, key: TopicPartitionId, watched: _Watched
    ) -> None:
        registration, log = self.images.newest.get(key), watched.log
        if registration is None or replica.end_offset >= log.end:
            return
        kind = "ISR" if replica.broker in registration.isr else "ELR" if replica.broker in registration.elr else None
        if kind is None or self._loss_allowed(watched) or not self._is_registered(name):
            return
        raise InvariantBroken(
            "ISR",
            f"{log.name}: {name} is in the committed {kind} and ends at {replica.end_offset}, "
            f"records up to {log.end} are committed: {first_lacking(watched.promised, replica.end_offset)}",
        )

    def _is_registered(self, name: str) -> bool:
        """Return whether the controller has registered the running incarnation.

        Until then the broker's memberships belong to an earlier incarnation.
        """
        process = self._processes[name]
        assert process.node is not None and process.node.broker is not None
        image = self.images.newest_image
        registration = None if image is None else image.brokers.get(process.node.config.node_id)
        return registration is not None and registration.epoch == process.node.broker.lifecycle.epoch

    def _check_in_sync(self, watched: _Watched, process: SimProcess, replica: TopicPartitionReplica) -> None:
        """Check the newest leader's high watermark against the members it counts: all, or the one just touched."""
        log = watched.log
        if replica.is_leader and replica.leader_epoch == log.newest_epoch:
            for member in replica.maximal_isr:
                other = self._replica_of(self._names[member], (replica.topic_id, replica.partition))
                if other is not None and other is not replica:
                    self._hold_to(watched, process.name, replica, self._names[member], other)
            return
        leader_name = log.leaders.get(log.newest_epoch)
        leader = None
        if leader_name is not None:
            leader = self._replica_of(leader_name, (replica.topic_id, replica.partition))
        if leader_name is None or leader is None or leader is replica or not leader.is_leader:
            return
        if leader.leader_epoch == log.newest_epoch and replica.broker in leader.maximal_isr:
            self._hold_to(watched, leader_name, leader, process.name, replica)

    def _hold_to(
        self,
        watched: _Watched,
        leader_name: str,
        leader: TopicPartitionReplica,
        member_name: str,
        member: TopicPartitionReplica,
    ) -> None:
        if member.end_offset >= leader.high_watermark or not self._is_registered(member_name):
            return
        if len(watched.robbed) >= watched.min_isr or member_name in watched.robbed:
            return
        if self._is_out_since(leader, member.broker):
            return
        raise InvariantBroken(
            "ISR",
            f"{watched.log.name}: leader {leader_name} of epoch {leader.leader_epoch} has high watermark "
            f"{leader.high_watermark}, ISR member {member_name} ends at {member.end_offset}: "
            f"{first_lacking(watched.promised, member.end_offset)}",
        )

    def _is_out_since(self, leader: TopicPartitionReplica, member: int) -> bool:
        """Return whether a deposed leader, unaware of its deposition, counts a member that has since left the ISR.

        A reassignment may even have removed the replica, and another reassignment restored it, empty (RA-03).
        """
        registration = self.images.newest.get((leader.topic_id, leader.partition))
        if registration is None or registration.leader_epoch <= leader.leader_epoch:
            return False
        return member not in registration.isr

    # -- clients --------------------------------------------------------------------------------------------------

    def client_event(self, event: Event, number: int = 0, at: int = 0) -> None:
        """Record an invocation or a completion. Raises InvariantBroken. `number` and `at` say which event that is."""
        operation = event.operation
        promised = self._promised(operation.topic, operation.partition)
        if promised is None:
            return
        try:
            if event.completion is None:
                if operation.f in (SEND, MARKER):
                    self.client_checker.invoked(operation, promised)
            else:
                self.client_checker.completed(event, promised)
                self.counters.acknowledged = self.client_checker.acknowledged
        except InvariantBroken as breach:
            node = f"client {operation.client}"
            breach.moment = Moment(number, at, node, f"{operation.f} of process {operation.process} completes")
            raise

    def _promised(self, topic: str | None, partition: int | None) -> Promised | None:
        """Return the newest log of that name, or None if there is none yet."""
        ids = self.images.topic_ids.get(topic or "", [])
        if topic is None or partition is None or not ids:
            return None
        return self._watch(topic, ids[-1], partition).promised

    # -- the end --------------------------------------------------------------------------------------------------

    def final(self) -> None:
        """Every replica in sync has the committed log, byte for byte, once all is healed and whole (ACK, UNIQ)."""
        for key, registration in self.images.newest.items():
            watched = self._watched.get(key)
            if watched is None or not self.images.is_current(watched.topic, key[0]):
                continue
            for member in registration.isr:
                replica = self._replica_of(self._names[member], key)
                if replica is not None:
                    self._final_replica(watched, self._names[member], replica)

    def _final_replica(self, watched: _Watched, name: str, replica: TopicPartitionReplica) -> None:
        log = watched.log
        expected = {base: batch for base, batch in log.canonical.items() if batch.base >= replica.log.start_offset}
        found: dict[int, Batch] = {}
        for batch, _ in self._batches(replica, log.end):
            found[batch.base] = batch
        for base, batch in expected.items():
            if found.get(base) != batch:
                promised = [offset for offset in watched.promised.acknowledged if base <= offset <= batch.last]
                there = found.get(base)
                raise InvariantBroken(
                    "ACK" if promised and there is None else "UNIQ",
                    f"{log.name}: after healing {name} is in the ISR and has {there or 'nothing'} "
                    f"where {batch} is committed",
                )


def _first_lacking(log: ObservedLog, role: object, end: int) -> str:
    """Describe the first committed record that a new quorum leader lacks.

    Records that the leader appended to begin its epoch do not count.
    """
    offset = min(end, role.epoch_start_offset) if isinstance(role, Leader) else end
    batch = log.at(offset)
    return f"it lacks offset {offset}" + ("" if batch is None else f" of epoch {batch.epoch}")
