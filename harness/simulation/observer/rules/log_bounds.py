"""DP-07: log start ≤ high watermark ≤ log end, on every replica. DP-06: in the end it is the log's end on all of them.

A leader answers a follower at once whose high watermark is behind, and if it did not, the next fetch would tell it. So
when the cluster has been whole for a while and nobody has sent anything, every member of the ISR knows that everything
is committed. A follower that does not lets those who read from it wait for the last records, and leads with an old high
watermark.

DP-07 is asserted whenever a replica is inspected. Legal: a follower whose high watermark lags. DP-06 is asserted at the
end of a swarm, whose clients were silent for `IDLE` and three waits of a fetch. Legal: a replica outside the ISR.
"""

from __future__ import annotations

from squall.harness.simulation.observer.rules.rule import ReplicaTurn, Rule
from squall.harness.simulation.observer.state.observed_cluster import ObservedCluster
from squall.harness.simulation.observer.state.observed_log import InvariantBroken
from squall.harness.simulation.world.kernel import MICROSECONDS
from squall.harness.simulation.world.process import SimProcess

IDLE = MICROSECONDS


class LogBounds(Rule):
    """See the module."""

    def __init__(self, cluster: ObservedCluster) -> None:
        super().__init__(cluster)
        self._idle_since: int | None = None

    def replica_touched(self, turn: ReplicaTurn) -> None:
        replica = turn.replica
        start, high_watermark, end = replica.log.start_offset, replica.high_watermark, replica.end_offset
        if not start <= high_watermark <= end:
            raise InvariantBroken(
                "DP-07",
                f"{turn.watched.log.name}: {turn.process.name} has log start {start}, high watermark "
                f"{high_watermark}, log end {end}",
            )

    def idle(self, now: int) -> None:
        self._idle_since = now

    def at_end(self) -> None:
        for process in self.cluster.processes.values():
            if process.node is not None and process.node.broker is not None and self._was_idle(process):
                self._check_known(process)

    def _was_idle(self, process: SimProcess) -> bool:
        assert process.node is not None
        wait = process.node.config.replica_fetch_wait_max_ms * 1_000
        return self._idle_since is not None and process.now - self._idle_since >= IDLE + 3 * wait

    def _check_known(self, process: SimProcess) -> None:
        assert process.node is not None and process.node.broker is not None
        for hosted in process.node.broker.replicas.all():
            replica = hosted.replica
            registration = self.cluster.images.newest.get((replica.topic_id, replica.partition))
            if registration is None or replica.broker not in registration.isr:
                continue
            if replica.high_watermark < replica.end_offset:
                raise InvariantBroken(
                    "DP-06",
                    f"{replica.topic}-{replica.partition}: {process.name} has records up to {replica.end_offset} and "
                    f"knows that they are committed up to {replica.high_watermark}, in a whole cluster without clients",
                )
