"""PACE: in a whole cluster without client requests, nodes send heartbeats at their interval and do little else.

A retry without a pause, a timer that is always due, a fetch that does not wait: nothing of it breaks a promise, so that
nothing else shows it, and in a large cluster it is an outage. Between the last request of a client and the end of the
run, for at least `SHORTEST`:

* the active controller gets the heartbeats of each broker at the broker's interval;
* the log of the metadata grows by a record at least every `metadata.max.idle.interval.ms`, if that is not 0: by it
  brokers and voters know that they have everything;
* nothing changes, so nodes do not ask one another for changes: together they get at most one of `CHANGES` per node,
  which may have been under way;
* a node takes at most `TURNS` turns and gets at most `REQUESTS` requests a second. Among the first thirty seeds of
  `worlds` the most were 285 turns and below 200 requests: five brokers whose fetches wait for 28 ms.

Source: `broker.heartbeat.interval.ms`, `replica.fetch.wait.max.ms`, requirement FD-01. Asserted at the end of a swarm.
Legal: a heartbeat more or less than the time holds; a node that started meanwhile.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from squall.harness.simulation.observer.rules.rule import QuorumTurn, Rule, node_of_quorum
from squall.harness.simulation.observer.state.observed_cluster import ObservedCluster
from squall.harness.simulation.observer.state.observed_log import InvariantBroken
from squall.harness.simulation.world.kernel import MICROSECONDS
from squall.harness.simulation.world.memory.broker_node import MemoryBroker
from squall.harness.simulation.world.memory.controller_node import MemoryController
from squall.harness.simulation.world.process import SimProcess
from squall.nodes.node.base import BaseNode
from squall.nodes.node.zookeeper_node import ZooKeeperNode
from squall.nodes.protocol.messages import ApiKey

SHORTEST = 2 * MICROSECONDS
COMMIT = MICROSECONDS // 4
"""The most microseconds from the append of a metadata record to its commit."""
TURNS, REQUESTS = 1500, 1000
TOLERANCE, LOOSE_HEARTBEATS = 0.3, 2
"""A share of the heartbeats that are due, and as many of each broker more or less."""
CHANGES = (
    ApiKey.VOTE,
    ApiKey.END_QUORUM_EPOCH,
    ApiKey.ALTER_PARTITION,
    ApiKey.FETCH_SNAPSHOT,
    ApiKey.BROKER_REGISTRATION,
    ApiKey.ALLOCATE_PRODUCER_IDS,
    ApiKey.UPDATE_RAFT_VOTER,
)
"""What a node asks another for when an election, the ISR, a broker or a voter is not yet as it should be."""


@dataclass(frozen=True)
class _Counts:
    """What a node had done in one incarnation."""

    incarnation: int
    turns: int
    requests: int
    heartbeats: int
    changes: int
    metadata_end: int
    """Where its log of the metadata ended, 0 without one."""


class PacedCluster(Rule):
    """See the module."""

    def __init__(self, cluster: ObservedCluster) -> None:
        super().__init__(cluster)
        self._idle_since: int | None = None
        self._before: dict[str, _Counts] = {}
        self._awaited: dict[tuple[str, int, int], tuple[int, int]] = {}
        """By host, incarnation and epoch of the quorum: up to where its leader has yet to commit, and since when."""

    def idle(self, now: int) -> None:
        self._idle_since = now
        self._before = {process.name: self._counts(process) for process in self.cluster.processes.values()}

    def quorum_moved(self, turn: QuorumTurn) -> None:
        if self._idle_since is None:
            return
        process, (end, high_watermark, leads, epoch) = turn.process, turn.now
        leadership = process.name, process.incarnation, epoch
        awaited, since = self._awaited.pop(leadership, (end, process.now))
        waited = process.now - since
        if waited > COMMIT:
            raise InvariantBroken(
                "PACE",
                f"{process.name} leads quorum epoch {epoch} and has waited {waited / MICROSECONDS:.3f} s to commit up "
                f"to {awaited}, in a whole cluster without clients",
            )
        if leads and high_watermark < end:
            self._awaited[leadership] = (end, process.now) if high_watermark >= awaited else (awaited, since)

    def at_end(self) -> None:
        now = max((process.now for process in self.cluster.processes.values()), default=0)
        if self._idle_since is None or now - self._idle_since < SHORTEST:
            return
        seconds = (now - self._idle_since) / MICROSECONDS
        processes = [one for one in self.cluster.processes.values() if self._is_same(one)]
        for process in processes:
            before, counts = self._before[process.name], self._counts(process)
            self._check_rate(process.name, "takes", "turns", (counts.turns - before.turns) / seconds, TURNS)
            self._check_rate(process.name, "gets", "requests", (counts.requests - before.requests) / seconds, REQUESTS)
        if len(processes) == len(self.cluster.processes):
            self._check_heartbeats(processes, seconds)
            self._check_metadata(processes, seconds)
            self._check_changes(processes, seconds)

    def _is_same(self, process: SimProcess) -> bool:
        return process.node is not None and self._before[process.name].incarnation == process.incarnation

    def _counts(self, process: SimProcess) -> _Counts:
        node = process.node
        served = {} if node is None else _served(node)
        turns = self.cluster.turns.get(process.name, 0)
        heartbeats = served.get(int(ApiKey.BROKER_HEARTBEAT), 0)
        changes = sum(served.get(int(api), 0) for api in CHANGES)
        with_quorum = node_of_quorum(node)
        metadata_end = 0 if with_quorum is None else with_quorum.raft.end_offset
        return _Counts(process.incarnation, turns, sum(served.values()), heartbeats, changes, metadata_end)

    def _check_rate(self, name: str, does: str, what: str, rate: float, most: int) -> None:
        if rate > most:
            raise InvariantBroken(
                "PACE",
                f"{name} {does} {rate:,.0f} {what} a second, {most:,} at most, in a whole cluster without clients",
            )

    def _check_heartbeats(self, processes: list[SimProcess], seconds: float) -> None:
        intervals = [one for process in processes if (one := _heartbeat_interval(process.node)) is not None]
        due = sum(seconds * MICROSECONDS / interval for interval in intervals)
        came = sum(self._counts(one).heartbeats - self._before[one.name].heartbeats for one in processes)
        loose = TOLERANCE * due + LOOSE_HEARTBEATS * len(intervals)
        if abs(came - due) > loose:
            raise InvariantBroken(
                "PACE",
                f"{len(intervals)} brokers sent {came} heartbeats in {seconds:.1f} s, {due:.0f} are due, in a whole "
                f"cluster without clients",
            )

    def _check_metadata(self, processes: list[SimProcess], seconds: float) -> None:
        intervals = [one for process in processes if (one := _idle_interval(process.node)) is not None]
        if not intervals or 0 in intervals:
            return
        due = seconds * MICROSECONDS / max(intervals)
        came = max(self._counts(one).metadata_end for one in processes)
        came -= max(self._before[one.name].metadata_end for one in processes)
        if came < due - TOLERANCE * due - 1:
            raise InvariantBroken(
                "PACE",
                f"the log of the metadata grew by {came} records in {seconds:.1f} s, {due:.0f} are due, in a whole "
                f"cluster without clients",
            )

    def _check_changes(self, processes: list[SimProcess], seconds: float) -> None:
        came = sum(self._counts(one).changes - self._before[one.name].changes for one in processes)
        if came > len(processes):
            served = Counter[int]()
            for process in processes:
                served.update(_served(process.node) if process.node is not None else {})
            names = [f"{api.name} {served[int(api)]}" for api in CHANGES if served[int(api)]]
            raise InvariantBroken(
                "PACE",
                f"{len(processes)} nodes ask one another for {came} changes in {seconds:.1f} s, in a whole cluster "
                f"without clients; since they started they have been asked for {', '.join(names)}",
            )


def _served(node: BaseNode) -> dict[int, int]:
    """Return how many requests a node has answered, by API."""
    served: dict[int, int] = {}
    for times in (node.control_times, node.data_times):
        for api, one in times.by_api.items():
            served[api] = served.get(api, 0) + one.count
    return served


def _idle_interval(node: BaseNode | None) -> int | None:
    """Return in how many microseconds a node writes metadata if it leads the quorum, None if it never does."""
    with_quorum = node_of_quorum(node)
    if with_quorum is None or with_quorum.controller is None:
        return None
    return with_quorum.controller.config.idle_interval


def _heartbeat_interval(node: BaseNode | None) -> int | None:
    """Return a broker's interval in microseconds; None for a node that sends no heartbeats."""
    if node is None or node.broker is None or isinstance(node, ZooKeeperNode | MemoryController | MemoryBroker):
        return None
    return node.broker.config.heartbeat_interval
