"""INDEX: what a log finds by offset and by time is what a scan of its batches finds.

A log is read in sequence nearly always: by followers, by consumers, by the other rules. Its indexes serve the rest: a
consumer that begins in the middle, or at a time, and retention by time. A wrong entry, a position that is stale after
truncation, or a segment that was opened without its times shows only there. Asserted at the end, on every replica of a
running broker, and during the run after every `EVERY`-th occasion at which a log was truncated or was opened by another
process; for up to `PLACES` of its batches and the log's whole extent:

* a read at a batch's last offset begins with that batch;
* a search for a batch's time, and for the moment after it, ends in the first batch that is not older, or nowhere;
* the largest time is the largest of all batches.

Source: KIP-33, KIP-79, KIP-734. Legal: a log that begins within a batch, whose times are those of the records from
there on.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from squall.harness.simulation.observer.rules.rule import ReplicaTurn, Rule
from squall.harness.simulation.observer.state.observed_cluster import ObservedCluster, TopicPartitionId
from squall.harness.simulation.observer.state.observed_log import READ_BYTES, InvariantBroken, batches_of
from squall.nodes.buggify import OFF
from squall.nodes.protocol.records import BatchHeader, iterate_batches, parse_records
from squall.nodes.replication.replica import TopicPartitionReplica
from squall.nodes.storage.log import Log

PLACES = 48
EVERY = 4
COPIED = "_segments"
"""The part of a log that look-ups change."""


class _Found(NamedTuple):
    """One batch of a scan."""

    base: int
    last: int
    time: int


class IndexedLogs(Rule):
    """See the module."""

    def __init__(self, cluster: ObservedCluster) -> None:
        super().__init__(cluster)
        self._opened: dict[tuple[str, TopicPartitionId], int] = {}
        """By host and topic-partition, the newest incarnation in which its log was seen."""
        self._occasions = 0

    def replica_touched(self, turn: ReplicaTurn) -> None:
        process, replica = turn.process, turn.replica
        place = (process.name, (replica.topic_id, replica.partition))
        before = self._opened.get(place, process.incarnation)
        self._opened[place] = process.incarnation
        if turn.cut is not None or before != process.incarnation:
            self._occasions += 1
            if self._occasions % EVERY == 0:
                _check(process.name, replica, untouched(replica.log))

    def at_end(self) -> None:
        for process in self.cluster.processes.values():
            if process.node is not None and process.node.broker is not None:
                for hosted in process.node.broker.replicas.all():
                    _check(process.name, hosted.replica, hosted.replica.log)


def _check(name: str, replica: TopicPartitionReplica, log: Log) -> None:
    wrong = next(mistakes(log), None)
    if wrong is not None:
        raise InvariantBroken("INDEX", f"{replica.topic}-{replica.partition}: at {name} {wrong}")


def untouched(log: Log) -> Log:
    """Return a copy that reads the same files, and whose look-ups leave no trace in the log.

    A log determines some of its index entries on first use, so that a look-up of the observer's would change what the
    node reads later, and when. Nothing rare happens in the copy, since that would draw from the node's randomness.
    """
    shared = {id(value): value for name, value in vars(log).items() if name != COPIED}
    shared[id(log._buggify)] = OFF
    return copy.deepcopy(log, shared)


def mistakes(log: Log) -> Iterator[str]:
    """Yield what the log finds otherwise than a scan does."""
    batches = _scanned(log)
    reached = batches[-1].last + 1 if batches else log.start_offset
    if reached != log.end_offset:
        yield f"a scan ends at offset {reached}, and the log at {log.end_offset}"
        return
    if not batches:
        return
    largest = max(one.time for one in batches)
    if log.max_timestamp() != largest:
        yield f"the largest time is said to be {log.max_timestamp()}, and a batch has {largest}"
    for one in batches[:: max(1, len(batches) // PLACES)]:
        yield from _misread(log, one)
        for time in (one.time, one.time + 1):
            yield from _misplaced(log, batches, time)


def _misread(log: Log, batch: _Found) -> Iterator[str]:
    content = log.read(batch.last, 1, upper=log.end_offset, at_least_one=True)
    base = next((header.base_offset for header, _ in iterate_batches(content)), None)
    if base != batch.base:
        yield f"a read at {batch.last} begins with offset {base}, and the batch there with {batch.base}"


def _misplaced(log: Log, batches: Sequence[_Found], time: int) -> Iterator[str]:
    expected = next((one for one in batches if one.time >= time), None)
    found = log.offset_for_timestamp(time, log.end_offset)
    if expected is None and found is None:
        return
    if expected is None or found is None or not (expected.base <= found[1] <= expected.last and found[0] >= time):
        yield f"the first record not older than {time} is said to be {found}, and is in {expected}"


def _scanned(log: Log) -> list[_Found]:
    """The batches of a log from its start on, as far as reads lead. One that the start cuts has its rest's time."""
    found: list[_Found] = []
    start, end = log.start_offset, log.end_offset
    reads = batches_of(lambda offset, upper: log.read(offset, READ_BYTES, upper=upper, at_least_one=True), start, end)
    for batch, content in reads:
        if batch.last < (found[-1].last + 1 if found else start):
            return found
        time = BatchHeader.read(content).max_timestamp
        if batch.base < start:
            time = max(one.timestamp for one in parse_records(content) if one.offset >= start)
        found.append(_Found(batch.base, batch.last, time))
    return found
