"""METRIC: the times of commits and elections that a controller reports are those that it has had.

They are what operators judge a quorum by, and no node depends on them. So the observer measures them itself, after each
turn, and compares averages and maxima at the end:

* a commit takes from the turn in which a leader has written records to the one after which its high watermark is past
  them; what an earlier leader wrote counts from the turn in which the new one has it, and is not committed yet;
* an election takes from the turn in which a voter stands to the one after which it stands no more and knows a leader. A
  voter that asks for pre-votes still names the leader that it has lost, which ends nothing.

Source: KIP-595; docs/metrics.md. Legal: an incarnation that has committed or elected nothing, which reports no number.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from math import isclose

from squall.harness.simulation.observer.rules.node.told_metrics import collected
from squall.harness.simulation.observer.rules.rule import Rule, node_of_quorum
from squall.harness.simulation.observer.state.observed_cluster import ObservedCluster
from squall.harness.simulation.observer.state.observed_log import InvariantBroken
from squall.harness.simulation.world.process import SimProcess
from squall.nodes.node.base import BaseNode
from squall.nodes.node.metrics import metric_names as names
from squall.nodes.node.metrics.metric_names import Metric
from squall.nodes.node.timings import KEPT
from squall.nodes.raft.replica import RaftReplica
from squall.nodes.raft.roles import Candidate, Prospective

NOBODY = -1


@dataclass(slots=True)
class _Measured:
    """The times of one incarnation, in microseconds. `written` has ends of the log that are not committed, and when."""

    incarnation: int
    stood_at: int = NOBODY
    written_to: int = 0
    written: deque[tuple[int, int]] = field(default_factory=deque)
    commits: deque[int] = field(default_factory=lambda: deque(maxlen=KEPT))
    elections: deque[int] = field(default_factory=lambda: deque(maxlen=KEPT))


class QuorumTimes(Rule):
    """See the module."""

    def __init__(self, cluster: ObservedCluster) -> None:
        super().__init__(cluster)
        self._measured: dict[str, _Measured] = {}

    def turned(self, process: SimProcess, node: BaseNode) -> None:
        controller = node_of_quorum(node)
        if controller is None or controller.controller is None:
            return
        measured = self._measured.get(process.name)
        if measured is None or measured.incarnation != process.incarnation:
            measured = self._measured[process.name] = _Measured(process.incarnation)
        _measure_election(measured, controller.raft, process.now)
        if controller.raft.is_leader:
            _measure_commits(measured, controller.raft, process.now)
        else:
            measured.written.clear()

    def at_end(self) -> None:
        for name, measured in self._measured.items():
            process = self.cluster.processes[name]
            node = node_of_quorum(process.node)
            if node is None or measured.incarnation != process.incarnation:
                continue
            told = collected(node, process.now)
            for what, average, most, times in (
                ("commits", names.RAFT_COMMIT_AVG, names.RAFT_COMMIT_MAX, measured.commits),
                ("elections", names.RAFT_ELECTION_AVG, names.RAFT_ELECTION_MAX, measured.elections),
            ):
                if times:
                    _check(name, f"the average of {what}", told[average, ()], sum(times) / len(times) / 1000, average)
                    _check(name, f"the longest of {what}", told[most, ()], max(times) / 1000, most)


def _measure_election(measured: _Measured, raft: RaftReplica, now: int) -> None:
    if isinstance(raft.role, Candidate | Prospective):
        measured.stood_at = now if measured.stood_at == NOBODY else measured.stood_at
    elif measured.stood_at != NOBODY and raft.leader_and_epoch[0] is not None:
        measured.elections.append(now - measured.stood_at)
        measured.stood_at = NOBODY


def _measure_commits(measured: _Measured, raft: RaftReplica, now: int) -> None:
    end, committed, written = raft.end_offset, raft.high_watermark, measured.written
    if not written:
        measured.written_to = max(measured.written_to, committed)
    if end > measured.written_to:
        written.append((end, now))
        measured.written_to = end
    while written and written[0][0] <= committed:
        measured.commits.append(now - written.popleft()[1])


def _check(name: str, what: str, told: float, seen: float, metric: Metric) -> None:
    if not isclose(told, seen, rel_tol=1e-9, abs_tol=1e-6):
        raise InvariantBroken("METRIC", f"{name} says {told:g} ms for {what} ({metric.name}), and it was {seen:g} ms")
