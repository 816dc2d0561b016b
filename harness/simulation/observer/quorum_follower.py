"""Follow all replicas of the metadata log: examine what they append, and replay what they commit.

`ObservedLog` compares the replicas, as it does for topics. The rules are called when a replica has moved and when a
node begins to lead. Committed records go to the image of the epochs, to the replayed metadata and to the tracked
administrators' writes, in order and once.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from squall.harness.simulation.observer.rules.rule import QuorumPosition, QuorumTurn, Rules
from squall.harness.simulation.observer.state.observed_cluster import READ_BYTES, ObservedCluster
from squall.harness.simulation.observer.state.observed_log import Batch
from squall.harness.simulation.world.process import SimProcess
from squall.nodes.node.node import Node
from squall.nodes.protocol.records import iterate_batches
from squall.nodes.raft.voters import voters_in


class QuorumFollower:
    """Keeps the observed metadata log up to date; see the module."""

    def __init__(self, cluster: ObservedCluster, rules: Rules) -> None:
        self._cluster = cluster
        self._seen: dict[tuple[str, int], QuorumPosition] = {}
        self._cuts: dict[int, int] = {}
        self._resets: dict[int, int] = {}
        self._on_move = rules.having("quorum_moved")
        self._on_lead = rules.having("quorum_led")

    def log_reset(self, fields: Mapping[str, Any]) -> None:
        """A node's metadata log begins again after a snapshot."""
        self._resets[int(fields["node"])] = int(fields["end"])

    def truncated(self, fields: Mapping[str, Any]) -> None:
        """A node has truncated its metadata log."""
        node, cut = int(fields["node"]), int(fields["end"])
        self._cuts[node] = min(cut, self._cuts.get(node, cut))

    def look(self, process: SimProcess, node: Node) -> None:
        """Check a node's replica of the metadata log after a turn, if it has changed."""
        number, raft = node.config.node_id, node.raft
        cut, reset = self._cuts.pop(number, None), self._resets.pop(number, None)
        place = (process.name, process.incarnation)
        now = (raft.end_offset, raft.high_watermark, raft.is_leader, raft.leader_and_epoch[1])
        before = self._seen.get(place)
        if before == now and cut is None and reset is None:
            return
        self._seen[place] = now
        turn = QuorumTurn(process, node, before, now, cut, reset)
        for hook in self._on_move:
            hook(turn)
        self._examine(turn)
        log = self._cluster.quorum
        for batch in log.commit(place, now[1], now[3]):
            self._follow_records(node, batch)
        self._cluster.writes.follow(log.end, log.canonical.get)

    def _examine(self, turn: QuorumTurn) -> None:
        process, raft, log = turn.process, turn.node.raft, self._cluster.quorum
        place = (process.name, process.incarnation)
        if turn.cut is not None:
            log.cut(place, turn.cut)
        if turn.reset is not None or raft.log.start_offset > log.seen(place, raft.log.start_offset).examined:
            log.forget(place)  # a snapshot has replaced its records, committed or not
        log.examine(place, lambda offset, upper: raft.log.read(offset, READ_BYTES), raft.log.start_offset, turn.now[0])
        if raft.is_leader and log.one_leader(turn.now[3], process.name):
            self._cluster.counters.quorum_leaders += 1
            self._cluster.on_quorum_leader(process.name, turn.now[3])
            for hook in self._on_lead:
                hook(turn)

    def _follow_records(self, node: Node, batch: Batch) -> None:
        for committed in node.raft.committed(batch.base):
            if committed.base_offset > batch.last:
                return
            if committed.base_offset == batch.base:
                if committed.is_control:
                    self._follow_voters(node, batch)
                else:
                    self._cluster.images.committed(list(committed.values))
                self._cluster.metadata.follow(committed)

    def _follow_voters(self, node: Node, batch: Batch) -> None:
        _, content = next(iterate_batches(node.raft.log.read(batch.base, 1)))
        for _, voters in voters_in(content):
            self._cluster.metadata.voters = voters
