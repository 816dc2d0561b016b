"""DP-05: what a replica knows of idempotent producers is what its log says, no less and no more (rule 7).

The state decides whether a batch is a retry. A replica that lacks a producer appends its retry a second time once it
leads; one that knows batches which are not in its log acknowledges a retry of what was truncated. Both show to clients
only if that replica leads while a retry is under way, so the rule compares the state with the log itself: after a
start, after a truncation, and at the end of the run. A log that starts again, beyond its former end, knows none of the
producers that it had. Source: KIP-98.

Legal: a producer, or earlier batches of one, whose records retention or DeleteRecords has removed; a producer forgotten
after `producer.id.expiration.ms` of silence.
"""

from __future__ import annotations

from collections import deque

from squall.harness.simulation.observer.rules.rule import ReplicaTurn
from squall.harness.simulation.observer.rules.whole_log import WholeLogRule
from squall.harness.simulation.observer.state.observed_cluster import ObservedCluster
from squall.harness.simulation.observer.state.observed_log import InvariantBroken
from squall.nodes.protocol.records import BatchHeader
from squall.nodes.replication.replica import TopicPartitionReplica
from squall.nodes.storage.producers import BATCHES_KEPT, ProducedBatch, advance_sequence


class ProducerStates(WholeLogRule):
    """See the module."""

    def __init__(self, cluster: ObservedCluster) -> None:
        super().__init__(cluster)
        self._ends: dict[tuple[str, int, bytes, int], int] = {}
        """By host, incarnation, topic id and partition, where the log ended when it was last examined."""

    def replica_examined(self, turn: ReplicaTurn, committed_before: int) -> None:
        super().replica_examined(turn, committed_before)
        process, replica = turn.process, turn.replica
        place = process.name, process.incarnation, replica.topic_id, replica.partition
        start = replica.log.start_offset
        if turn.cut == start and self._ends.get(place, start) < start:  # not so when it appends, and deletes a part
            self._check_forgotten(turn)
        self._ends[place] = replica.end_offset

    @staticmethod
    def _check_forgotten(turn: ReplicaTurn) -> None:
        states, start = turn.replica.log.producers, turn.replica.log.start_offset
        for producer_id in states.ids:
            state = states.state_of(producer_id)
            if state is not None and state.batches and state.batches[-1].last_offset < start:
                raise InvariantBroken(
                    "DP-05",
                    f"{turn.watched.log.name}: {turn.process.name} has a log that starts again at {start}, and knows "
                    f"of producer {producer_id} {_told(state.batches[-1])}",
                )

    def examine(self, log: str, name: str, replica: TopicPartitionReplica) -> None:
        check_producers(self.cluster, log, name, replica)


def check_producers(cluster: ObservedCluster, log: str, name: str, replica: TopicPartitionReplica) -> None:
    """Compare the state of every producer with the batches of the replica's log. Raises InvariantBroken."""
    states, latest = replica.log.producers, -1
    expected: dict[int, deque[BatchHeader]] = {}
    for _, content in cluster.batches(replica, replica.end_offset):
        header = BatchHeader.read(content)
        if header.producer_id >= 0 and not header.is_control:
            latest = max(latest, header.max_timestamp)
            newest = expected.get(header.producer_id)
            if newest is None or newest[-1].producer_epoch != header.producer_epoch:
                newest = expected[header.producer_id] = deque(maxlen=BATCHES_KEPT)
            newest.append(header)
    for producer_id, headers in expected.items():
        state = states.state_of(producer_id)
        epoch, batches = headers[-1].producer_epoch, [_produced(header) for header in headers]
        if state is None and batches[-1].timestamp < latest - replica.log.config.producer_expiration_ms:
            continue
        if state is None or (state.epoch, state.batches[-len(batches) :]) != (epoch, batches):
            known = "nothing of it" if state is None or not state.batches else _told(state.batches[-1])
            raise InvariantBroken(
                "DP-05",
                f"{log}: {name} has batches of producer {producer_id} up to offset {batches[-1].last_offset}, "
                f"and knows {known}",
            )
    for producer_id in states.ids:
        state = states.state_of(producer_id)
        if state is not None and state.batches and state.batches[-1].last_offset >= replica.end_offset:
            raise InvariantBroken(
                "DP-05",
                f"{log}: {name} has a log that ends at {replica.end_offset}, and knows of producer {producer_id} "
                f"{_told(state.batches[-1])}",
            )


def _produced(header: BatchHeader) -> ProducedBatch:
    last = advance_sequence(header.base_sequence, header.last_offset - header.base_offset)
    return ProducedBatch(header.base_sequence, last, header.base_offset, header.last_offset, header.max_timestamp)


def _told(batch: ProducedBatch) -> str:
    return f"sequences {batch.first_sequence} to {batch.last_sequence} at offset {batch.first_offset}"
