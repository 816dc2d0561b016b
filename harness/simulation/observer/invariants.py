"""Check during a simulated run what only an omniscient observer can (docs/requirements.md, "Invariants").

The observer examines a node between two of its turns, before any output of the turn is released, and it examines what
clients receive at the time they receive it. It asserts nothing itself: it turns the nodes' trace, their turns, power
losses and the clients' events into calls of rules, each in its own file of `rules/` (`catalogue.py` lists them,
`rule.py` says at which moments they are called), over state that they share (`observed_cluster.py`). Three parts of
that state check what they record:

* `observed_log.py`      LM, HWM   two replicas that agree on (offset, epoch) agree on all before it; records below a
                         high watermark are never replaced; an epoch has one leader
* `observed_images.py`   EPOCH, IMAGE   equal offsets mean equal images; epochs move as the records say
* `client_checker.py`    ACK, UNIQ, RT, PREFIX, PHANTOM   what clients receive is what is committed

So do `observed_metadata.py` (SN-03, FD-05), `metadata_laws.py` (RA-04, RA-05, CS-02, IS-02, IS-09, EL-02, FD-02, MD-08)
and `batch_laws.py` (EL-02, EL-03, EL-04, RA-08), by replaying the metadata records, and `observed_writes.py` (MD-09).

The observer is driven by change. The nodes' own trace names the topic-partitions that a turn has touched, and only
those are examined. Every `SWEEP`-th turn of a node all of its replicas are examined, in case of an untraced change.

A breach raises `InvariantBroken`, which ends the run and carries the event that broke it (`event_context.py`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from squall.harness.simulation.observer.catalogue import all_rules
from squall.harness.simulation.observer.event_context import Moment, TraceEvent, Turn
from squall.harness.simulation.observer.quorum_follower import QuorumFollower
from squall.harness.simulation.observer.rules.rule import ReplicaTurn, Rules, node_of_quorum
from squall.harness.simulation.observer.state.counters import Counters
from squall.harness.simulation.observer.state.observed_cluster import READ_BYTES, ObservedCluster, Watched
from squall.harness.simulation.observer.state.observed_ensemble import ObservedEnsemble
from squall.harness.simulation.observer.state.observed_images import Changed
from squall.harness.simulation.observer.state.observed_log import Batch, InvariantBroken
from squall.harness.simulation.observer.state.observed_memory import ObservedMemory
from squall.harness.simulation.world.ensemble import SimEnsemble
from squall.harness.simulation.world.memory.broker_node import MemoryBroker
from squall.harness.simulation.world.memory.controller_node import MemoryController
from squall.harness.simulation.world.memory.memory_log import MemoryLog
from squall.harness.simulation.world.process import SimProcess
from squall.nodes.broker.hosting.replicas import Replicas
from squall.nodes.metadata.image import MetadataImage
from squall.nodes.node.base import BaseNode
from squall.nodes.node.effects import Effect
from squall.nodes.node.node import Node
from squall.nodes.protocol.requests.session import ServerRequest
from squall.nodes.raft.snapshots import SnapshotId
from squall.nodes.replication.replica import TopicPartitionReplica
from squall.workloads.core.operation import MARKER, SEND, Event

__all__ = ["Counters", "InvariantBroken", "Moment", "Observer"]

SWEEP = 512
RECENT_TURNS = 64


class Observer:
    """Watches all processes of one simulated cluster; also their nodes' `Trace`."""

    def __init__(self, *, acks_all: bool = True, unclean_allowed: bool = False) -> None:
        """`unclean_allowed`: the cluster's configuration allows unclean elections; a topic may do so, too."""
        self.cluster = ObservedCluster(acks_all=acks_all, unclean_allowed=unclean_allowed)
        self.recent: deque[Turn] = deque(maxlen=RECENT_TURNS)
        self._rules = Rules(all_rules(self.cluster))
        self._quorum_follower = QuorumFollower(self.cluster, self._rules)
        self._touched: dict[tuple[str, int], int | None] = {}
        self._cut: dict[tuple[str, int], None] = {}
        self._quorum_touched = False
        self._snapshots: list[tuple[int, int]] = []
        self._voter_records: dict[int, None] = {}
        self._traced: list[TraceEvent] = []
        rules = self._rules
        self._listeners = rules.listeners
        self._breach: Exception | None = None
        """What a node's answer in this turn breaks, or how a rule failed to judge it."""
        self._on_answer = rules.having("answered")
        self._on_death = rules.having("died")
        self._on_power_loss = rules.having("power_lost")
        self._on_turn = rules.having("turned")
        self._on_turn_in_vain = rules.having("turned_in_vain")
        self._on_early_turn = rules.having("turned_early")
        self._on_early_release = rules.having("released_early")
        self._on_messages = rules.having("messages_seen")
        self._on_metadata = rules.having("metadata_touched")
        self._on_images = rules.having("images_examined")
        self._on_touch = rules.having("replica_touched")
        self._on_append = rules.having("appended")
        self._on_lead = rules.having("led")
        self._on_examined = rules.having("replica_examined")
        self._on_membership = rules.having("membership_changed")
        self._on_truncation = rules.having("truncated")
        self._on_completion = rules.having("completed")
        self._on_healing = rules.having("healed")
        self._on_whole = rules.having("became_whole")
        self._on_idleness = rules.having("idle")
        self._on_end = rules.having("at_end")
        self._heard: Mapping[str, Callable[[Mapping[str, Any]], None]] = {
            "voters": self._voters_traced,
            "broker_shuts_down": self._shutdown_traced,
            "snapshot": self._snapshot_traced,
            "log_reset": self._quorum_follower.log_reset,
            "truncate": self._quorum_follower.truncated,
        }

    def watch(self, processes: Mapping[str, SimProcess], names: Mapping[int, str]) -> None:
        """Register the processes by name, and the names by node id."""
        self.cluster.set_members(processes, names)

    def watch_ensemble(self, ensemble: SimEnsemble) -> None:
        """Register the ensemble that keeps the metadata instead of a quorum."""
        ensemble.on_decided = ObservedEnsemble(self.cluster, self._registered).decided

    def watch_memory(self, memory: MemoryLog) -> None:
        """Register the log of a single controller that keeps the metadata instead of a quorum."""
        observed = ObservedMemory(self.cluster)
        memory.on_begin, memory.on_append = observed.begun, observed.appended

    def leaders_of(self, place: str) -> Mapping[int, str]:
        """Return the leaders of `events-0` by leader epoch; of a topic created again, of its newest incarnation."""
        return self.cluster.leaders_of(place)

    # -- the nodes' trace (nodes.ports.Trace) -----------------------------------------------------------------------

    def event(self, name: str, **fields: Any) -> None:
        """Record a node's trace event: which topic-partition was touched, and how far a log was truncated."""
        self._traced.append((name, fields))
        for listener in self._listeners.get(name, ()):
            listener(name, fields)
        topic = fields.get("topic")
        if topic is None:
            self._quorum_touched = True
            if name in self._heard:
                self._heard[name](fields)
            return
        key = (str(topic), int(fields["partition"]))
        before = self._touched.get(key)
        if name == "truncate":
            cut = int(fields["to"])
            self.cluster.counters.truncations += int(fields.get("end", cut)) > cut
            self._touched[key] = cut if before is None else min(cut, before)
            self._cut[key] = None
            return
        if name == "leader":
            self._cut.pop(key, None)
        if before is None:
            self._touched[key] = None

    def _voters_traced(self, fields: Mapping[str, Any]) -> None:
        self._voter_records[int(fields["offset"])] = None
        self.cluster.counters.voter_changes = len(self._voter_records) - 1  # the first one records the initial state

    def _shutdown_traced(self, fields: Mapping[str, Any]) -> None:
        self.cluster.counters.controlled_shutdowns += bool(fields.get("granted"))

    def _snapshot_traced(self, fields: Mapping[str, Any]) -> None:
        self._snapshots.append((int(fields["end"]), int(fields["epoch"])))

    def power_lost(self, name: str) -> None:
        """Record that this host's node lost what was not durable: its replicas may lack committed records."""
        self.cluster.power_lost(name)
        for hook in self._on_power_loss:
            hook(name)

    # -- turns ----------------------------------------------------------------------------------------------------

    def look(self, process: SimProcess) -> None:
        """Check everything that this process's last turn may have broken. Raises InvariantBroken."""
        node = process.node
        touched, self._touched = self._touched, {}
        cut, self._cut = self._cut, {}
        traced, self._traced = self._traced, []
        quorum_touched, self._quorum_touched = self._quorum_touched, False
        breach, self._breach = self._breach, None
        if node is None:  # the node died in this turn: discard what it traced before
            self._snapshots.clear()
            for hook in self._on_death:
                hook(process)
            return
        turns = self.cluster.turns[process.name] = self.cluster.turns.get(process.name, 0) + 1
        turn = Turn(process.event_number, process.now, process.name, process.last_inputs, traced)
        self.recent.append(turn)
        is_first = node.connections.on_answer is None
        if is_first:
            node.connections.on_answer = partial(self._answered, process)
        try:
            if breach is not None:
                raise breach
            for hook in self._on_turn:
                hook(process, node)
            if not (process.last_inputs or process.last_effects or traced):
                for hook in self._on_turn_in_vain:
                    hook(process, node)
            # A node that starts has read its votes and logs, and need not trace anything of it (seed 1000634).
            if is_first or quorum_touched or turns % SWEEP == 0:
                self._look_at_control(process, node, traced)
            if node.broker is not None:
                replicas = node.broker.replicas
                self._look_at_topics(process, replicas, touched, everything=turns % SWEEP == 0)
                for topic, partition in cut:
                    self._look_at_cut(process, replicas, topic, partition)
        except InvariantBroken as breach:
            breach.moment = turn.moment(node)
            raise

    def early_turn(self, process: SimProcess, due: int) -> Callable[[], None]:
        """Return the check of a turn that a node now takes without an input, and before the time it has named.

        The check raises InvariantBroken.
        """
        before = len(self._traced)

        def check() -> None:
            if process.node is not None:
                traced = [name for name, _ in self._traced[before:]]
                for hook in self._on_early_turn:
                    hook(process, process.node, due, traced)

        return check

    def early_release(self, process: SimProcess, effects: Sequence[Effect]) -> None:
        """Check what leaves before the flush of a turn. Raises InvariantBroken."""
        if process.node is not None:
            for hook in self._on_early_release:
                hook(process, process.node, effects)

    def _answered(self, process: SimProcess, request: ServerRequest) -> None:
        """Judge an answer within the turn that gives it. Whatever is raised then is raised after the turn.

        The node must not meet it: it would take some errors for those of its peers.
        """
        if self._breach is not None or process.node is None:
            return
        try:
            with process.disk.at_no_cost():
                for hook in self._on_answer:
                    hook(process, process.node, request)
        except Exception as breach:
            self._breach = breach

    def _look_at_control(self, process: SimProcess, node: BaseNode, traced: list[TraceEvent]) -> None:
        if (with_quorum := node_of_quorum(node)) is not None:
            self._look_at_metadata(process, with_quorum, traced)
        elif isinstance(node, MemoryController):
            self._look_at_image(process, "controller", node.image)
        elif isinstance(node, MemoryBroker):
            self._look_at_image(process, "broker", node.image)
        for hook in self._on_images:
            hook(process, node)

    def _look_at_metadata(self, process: SimProcess, node: Node, traced: list[TraceEvent]) -> None:
        cluster = self.cluster
        for hook in self._on_messages:
            hook(process, node)
        cluster.writes.look(process.name, process.incarnation, traced)
        self._quorum_follower.look(process, node)
        for hook in self._on_metadata:
            hook(process, node)
        snapshots, self._snapshots = self._snapshots, []
        for end, epoch in snapshots:
            cluster.metadata.written(process.name, node.raft.snapshots, SnapshotId(end, epoch))
        if node.controller is not None:
            self._look_at_image(process, "controller", node.controller.committed)
        if node.broker is not None:
            self._look_at_image(process, "broker", node.broker.image)

    def _look_at_image(self, process: SimProcess, role: str, image: MetadataImage) -> None:
        place = (f"{process.name} ({role})", process.incarnation)
        for changed in self.cluster.images.look(place, image):
            self._registered(changed, image)

    def _registered(self, changed: Changed, image: MetadataImage) -> None:
        """The controller has decided a change of a topic-partition."""
        before, now, counters = changed.before, changed.registration, self.cluster.counters
        watched = self.cluster.watch(changed.topic, changed.topic_id, changed.partition)
        settings = image.topic_settings(changed.topic)
        if "min.insync.replicas" in settings:
            watched.min_isr = min(int(settings["min.insync.replicas"]), len(now.replicas))
        counters.isr_changes += before is not None and before.isr != now.isr
        counters.elr_changes += before is not None and before.elr != now.elr
        if before is not None and before.recovery_state == 0 and now.recovery_state == 1:
            counters.unclean_elections += 1
        for hook in self._on_membership:
            hook((changed.topic_id, changed.partition), watched)

    # -- topic-partitions -----------------------------------------------------------------------------------------

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
            for hook in self._on_truncation:
                hook(process, f"{topic}-{partition}", found.replica)

    def _look_at_replica(self, process: SimProcess, replica: TopicPartitionReplica, cut: int | None) -> None:
        watched = self.cluster.watch(replica.topic, replica.topic_id, replica.partition)
        log = watched.log
        place = (process.name, process.incarnation)
        start, end = replica.log.start_offset, replica.end_offset
        removed = None
        if cut is not None:
            removed = log.first_from(place, cut)
            log.cut(place, cut)
        seen = log.seen(place, start)
        if start > seen.examined:
            log.forget(place)
            seen = log.seen(place, start)
        turn = ReplicaTurn(process, watched, replica, seen, cut, removed)
        for hook in self._on_touch:
            hook(turn)
        examined = seen.examined
        if end != examined:
            read = replica.read
            log.examine(place, lambda offset, upper: read(offset, READ_BYTES, upper, at_least_one=True), start, end)
            if seen.examined > examined:
                for hook in self._on_append:
                    hook(turn)
        seen.leader_epoch = replica.leader_epoch
        if replica.is_leader:
            self._look_at_leader(turn, start)
        committed_before = log.end
        if seen.tail or seen.high_watermark != replica.high_watermark:
            for batch in log.commit(place, replica.high_watermark, replica.leader_epoch, leads=replica.is_leader):
                self._committed(watched, replica, batch)
        for hook in self._on_examined:
            hook(turn, committed_before)

    def _look_at_leader(self, turn: ReplicaTurn, start: int) -> None:
        watched, replica = turn.watched, turn.replica
        log = watched.log
        watched.min_isr = replica.min_isr
        before = log.newest_epoch
        if log.one_leader(replica.leader_epoch, turn.process.name):
            self.cluster.counters.partition_leaders += 1
            for hook in self._on_lead:
                hook(turn, before)
        if replica.leader_epoch == log.newest_epoch and start > log.start:
            log.trim(start)
            self.cluster.client_checker.trimmed(watched.promised)

    def _committed(self, watched: Watched, replica: TopicPartitionReplica, batch: Batch) -> None:
        self.cluster.counters.committed_batches += 1
        first = max(batch.base, replica.log.start_offset)  # a log may begin within a batch
        content = replica.read(first, 1, batch.last + 1, at_least_one=True)
        self.cluster.client_checker.committed(watched.promised, memoryview(content))

    # -- clients, and the end -------------------------------------------------------------------------------------

    def client_event(self, event: Event, number: int = 0, at: int = 0) -> None:
        """Record an invocation or a completion. Raises InvariantBroken. `number` and `at` say which event that is."""
        operation, checker = event.operation, self.cluster.client_checker
        promised = self.cluster.promised(operation.topic, operation.partition)
        if promised is None:
            return
        try:
            if event.completion is None:
                if operation.f in (SEND, MARKER):
                    checker.invoked(operation, promised)
            else:
                checker.completed(event, promised)
                self.cluster.counters.acknowledged = checker.acknowledged
                for hook in self._on_completion:
                    hook(event, promised)
        except InvariantBroken as breach:
            node = f"client {operation.client}"
            breach.moment = Moment(number, at, node, f"{operation.f} of process {operation.process} completes")
            raise

    def healed(self, now: int) -> None:
        """Record that all faults are over, and that every node has been started."""
        for hook in self._on_healing:
            hook(now)

    def became_whole(self, now: int) -> None:
        """Record that all faults are over and the cluster is whole."""
        for hook in self._on_whole:
            hook(now)

    def idle(self, now: int) -> None:
        """Record that no client asks anything from now on."""
        for hook in self._on_idleness:
            hook(now)

    def final(self) -> None:
        """Call the rules that hold once all is healed and whole."""
        for hook in self._on_end:
            hook()
