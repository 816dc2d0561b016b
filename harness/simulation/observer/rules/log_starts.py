"""DP-18: a log's start rises only by a deletion that a client asked for, or as far as retention permits.

Everything below the start of a log is gone, and no check counts it as lost. So a node that removes too much loses
committed records without a sign. Source: KIP-107, Kafka's `retention.bytes`. Asserted

* when a replica's start lies beyond every earlier start of this log: a leader was asked to delete as much, or the
  records from the start on still hold `retention.bytes`, or all before it are older than `retention.ms` by the host's
  clock;
* when retention has removed all records of a log: the log's files are empty, since it removes whole segments;
* at the end, when the calm has lasted longer than the interval at which retention is applied: a leader's log has less
  than `retention.bytes` without its first segment, to the byte if it has not changed for as long, and is empty if its
  last record has been too old for as long.

Legal: a follower, whose start is that of its leader; retention by settings that have changed since, as the broker does
not know that yet (`worlds` seed 1022058); a start that retention raised in a turn in which the replica was
also truncated, or in which its node died, since what it had then is not known any more: only the first look after the
start of a node can tell of such a turn.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping
from operator import attrgetter
from typing import Any

from squall.harness.simulation.observer.rules.rule import ReplicaTurn, Rule
from squall.harness.simulation.observer.state.observed_cluster import ObservedCluster, TopicPartitionId
from squall.harness.simulation.observer.state.observed_log import InvariantBroken
from squall.harness.simulation.world.kernel import MICROSECONDS
from squall.harness.simulation.world.process import SimProcess
from squall.nodes.config import NodeConfig
from squall.nodes.metadata.image import MetadataImage
from squall.nodes.protocol.records import BatchHeader, iterate_batches
from squall.nodes.replication.log_start import TO_HIGH_WATERMARK
from squall.nodes.replication.replica import TopicPartitionReplica
from squall.nodes.storage.checkpoints import join

DEFAULTS: Mapping[str, Callable[[NodeConfig], int]] = {
    "retention.bytes": attrgetter("log_retention_bytes"),
    "retention.ms": attrgetter("log_retention_ms"),
}
"""Where a node's configuration has the default of a topic's setting."""
ANY_OFFSET = 2**62
CLOCK_SLACK_MS = 10
"""A turn takes a while, and its clock is read after it."""
SLACK = MICROSECONDS // 2
SPARE = 1_000
"""Bytes that markers and the like may have added since retention was last applied."""


class LogStarts(Rule):
    """See the module."""

    events = ("deletion_asked",)

    def __init__(self, cluster: ObservedCluster) -> None:
        super().__init__(cluster)
        self._now = 0
        self._whole_at: int | None = None
        self._starts: dict[TopicPartitionId, int] = {}
        """The highest start of each log that had a reason."""
        self._asked: dict[tuple[str, int], int] = {}
        """By name of the topic and number of the partition, the offset up to which a leader was asked to delete."""
        self._unclear: dict[str, int] = {}
        """By host, the last incarnation of its node that died."""
        self._bounds: dict[tuple[str, TopicPartitionId], tuple[tuple[int, int, int], int]] = {}
        """By host and log: end, high watermark and start of the replica, and since when it has had these."""
        self._touched: dict[tuple[str, TopicPartitionId], int] = {}
        """By host and log, the last incarnation in which the replica was looked at."""
        self._ages: dict[tuple[str, TopicPartitionId], dict[int, tuple[int, int]]] = {}
        """By host and log, and first offset of a batch, its last offset and largest timestamp; with `retention.ms`.

        A host that diverges has other records at the same offsets (`worlds` seed 1001262).
        """
        self._aged_to: dict[tuple[str, TopicPartitionId], int] = {}
        """By host and log, the offset up to which `_ages` has the batches of the replica."""

    def traced(self, name: str, fields: Mapping[str, Any]) -> None:
        place, offset = (str(fields["topic"]), int(fields["partition"])), int(fields["offset"])
        self._asked[place] = max(self._asked.get(place, -1), ANY_OFFSET if offset == TO_HIGH_WATERMARK else offset)

    def died(self, process: SimProcess) -> None:
        self._unclear[process.name] = process.incarnation

    def replica_touched(self, turn: ReplicaTurn) -> None:
        self._now = turn.process.now
        replica = turn.replica
        key, start = (replica.topic_id, replica.partition), replica.log.start_offset
        place = (turn.process.name, key)
        is_first = self._touched.get(place) != turn.process.incarnation
        self._touched[place] = turn.process.incarnation
        if is_first:
            self._ages.pop(place, None)
            self._aged_to.pop(place, None)
        if start > self._starts.get(key, 0):
            self._check(turn, start, is_first=is_first)
            self._starts[key] = start
        self._note_ages(turn, place)
        bounds = replica.end_offset, replica.high_watermark, start
        if place not in self._bounds or self._bounds[place][0] != bounds:
            self._bounds[place] = bounds, self._now

    def _note_ages(self, turn: ReplicaTurn, place: tuple[str, TopicPartitionId]) -> None:
        """Note the timestamps of the batches that are new on this replica; the oldest go first, so that all are met."""
        replica = turn.replica
        if replica.log.config.retention_ms < 0:
            return
        end = replica.end_offset
        begin = max(self._aged_to.get(place, 0), replica.log.start_offset)
        ages = self._ages.setdefault(place, {})
        if turn.cut is not None:
            begin = min(begin, turn.cut)
            for base in [one for one in ages if one >= turn.cut]:
                del ages[base]
        for batch, content in self.cluster.batches(replica, end, begin):
            ages[batch.base] = batch.last, BatchHeader.read(content).max_timestamp
        self._aged_to[place] = end

    def _all_too_old(self, turn: ReplicaTurn, start: int, age: int) -> bool:
        """Return whether all batches between the start before and this one are older than `age` milliseconds."""
        key = turn.replica.topic_id, turn.replica.partition
        oldest = turn.process.clock.now_ms() - age + CLOCK_SLACK_MS
        before = self._starts.get(key, 0)
        ages = self._ages.get((turn.process.name, key), {})
        removed = [stamp for base, (last, stamp) in ages.items() if before <= base and last < start]
        return all(stamp < oldest for stamp in removed)

    def _check(self, turn: ReplicaTurn, start: int, *, is_first: bool) -> None:
        """`is_first`: the replica is looked at for the first time since its node started."""
        process, replica = turn.process, turn.replica
        asked = self._asked.get((replica.topic, replica.partition), -1)
        if start <= asked:
            return
        limit, age = _retention_in(self.cluster.images.newest_image, turn)
        kept = self._bytes_of(replica)
        dying = is_first and self._unclear.get(process.name) == process.incarnation - 1
        if any(
            self._permits(turn, start, kept, image) for image in (self.cluster.images.newest_image, _own_image(turn))
        ):
            if not is_first and turn.cut is None:
                _check_left(turn, start)
            return
        if max(limit, age) >= 0 and (turn.cut is not None or dying):
            return
        kept_are = f"the records from there on have {kept} bytes of the {limit} that are to be kept"
        raise InvariantBroken(
            "DP-18",
            f"{turn.watched.log.name}: the log of {process.name} begins at {start} and ends at {replica.end_offset}; "
            f"{f'deletions were asked for up to {asked}' if asked >= 0 else 'no deletion was asked for'}, and "
            + (kept_are if limit >= 0 else "nothing limits how much is kept")
            + (f"; those before are kept for {age} ms" if age >= 0 else ""),
        )

    def _permits(self, turn: ReplicaTurn, start: int, kept: int, image: MetadataImage | None) -> bool:
        """Return whether retention by the settings of this image may raise the start, with so many bytes left."""
        limit, age = _retention_in(image, turn)
        return (limit >= 0 and kept >= limit) or (age >= 0 and self._all_too_old(turn, start, age))

    def _bytes_of(self, replica: TopicPartitionReplica) -> int:
        return sum(len(content) for _, content in self.cluster.batches(replica, replica.end_offset))

    def _setting(self, process: SimProcess, topic: str, name: str) -> int:
        """Return a setting of a topic by the newest image, whichever node has it; else the default of this node."""
        return _setting_in(self.cluster.images.newest_image, process, topic, name)

    def became_whole(self, now: int) -> None:
        self._whole_at = now

    def at_end(self) -> None:
        for key, registration in self.cluster.images.newest.items():
            if registration.leader < 0 or key not in self.cluster.watched:
                continue
            process = self.cluster.processes[self.cluster.names[registration.leader]]
            replica = self.cluster.replica_of(process.name, key)
            if replica is not None and self._retention_was_applied(process):
                self._check_size(process, replica)
                self._check_age(process, replica)

    def _retention_was_applied(self, process: SimProcess) -> bool:
        return self._whole_at is not None and self._is_long_ago(process, self._whole_at)

    def _is_long_ago(self, process: SimProcess, then: int) -> bool:
        """Return whether a broker must have applied retention since then."""
        assert process.node is not None
        return self._now - then > process.node.config.log_retention_check_interval_ms * 1000 + SLACK

    def _check_size(self, process: SimProcess, replica: TopicPartitionReplica) -> None:
        limit = self._setting(process, replica.topic, "retention.bytes")
        if limit < 0 or replica.high_watermark < replica.end_offset:
            return
        place = process.name, (replica.topic_id, replica.partition)
        _, changed_at = self._bounds[place]
        spare = 0 if self._is_long_ago(process, changed_at) else SPARE
        sizes = _segment_sizes(process, replica)
        if len(sizes) > 1 and sum(sizes[1:]) >= limit + spare:
            raise InvariantBroken(
                "DP-18",
                f"{replica.topic}-{replica.partition}: the log of {process.name} has {sum(sizes)} bytes, and "
                f"{sum(sizes[1:])} without the first one, although {limit} are enough",
            )

    def _check_age(self, process: SimProcess, replica: TopicPartitionReplica) -> None:
        assert process.node is not None
        age = self._setting(process, replica.topic, "retention.ms")
        read = [BatchHeader.read(content) for _, content in self.cluster.batches(replica, replica.end_offset)]
        if age < 0 or not read or replica.high_watermark < replica.end_offset:
            return
        youngest = max(header.max_timestamp for header in (*read, *_headers_on_disk(process, replica)))
        since = process.clock.now_ms() - age - youngest
        if since > process.node.config.log_retention_check_interval_ms + SLACK // 1000:
            raise InvariantBroken(
                "DP-18",
                f"{replica.topic}-{replica.partition}: the log of {process.name} has records from "
                f"{replica.log.start_offset} to {replica.end_offset}, although all have been older than {age} ms for "
                f"{since} ms",
            )


def _own_image(turn: ReplicaTurn) -> MetadataImage | None:
    node = turn.process.node
    return None if node is None or node.broker is None else node.broker.image


def _retention_in(image: MetadataImage | None, turn: ReplicaTurn) -> tuple[int, int]:
    """Return `retention.bytes` and `retention.ms` of the replica's topic by this image."""
    topic = turn.replica.topic
    size = _setting_in(image, turn.process, topic, "retention.bytes")
    return size, _setting_in(image, turn.process, topic, "retention.ms")


def _setting_in(image: MetadataImage | None, process: SimProcess, topic: str, name: str) -> int:
    assert process.node is not None
    setting = None if image is None else image.topic_settings(topic).get(name)
    return DEFAULTS[name](process.node.config) if setting is None else int(setting)


def _check_left(turn: ReplicaTurn, start: int) -> None:
    """Check what retention has left on the disk, if it has removed all records."""
    left = sum(_segment_sizes(turn.process, turn.replica)) if start == turn.replica.end_offset else 0
    if left:
        raise InvariantBroken(
            "DP-18",
            f"{turn.watched.log.name}: retention has removed all records before {start}, the end of the log of "
            f"{turn.process.name}, and {left} bytes of them are still on the disk",
        )


def _segment_sizes(process: SimProcess, replica: TopicPartitionReplica) -> list[int]:
    """Return the sizes of a log's segments on the disk, the oldest first, from the one with the log's start on."""
    return [len(content) for content in _segments(process, replica)]


def _headers_on_disk(process: SimProcess, replica: TopicPartitionReplica) -> Iterator[BatchHeader]:
    """Yield the batches in these segments, those below the log's start in the first one too."""
    for content in _segments(process, replica):
        for header, _ in iterate_batches(content, torn_tail=True):
            yield header


def _segments(process: SimProcess, replica: TopicPartitionReplica) -> list[bytes]:
    log, disk = replica.log, process.disk
    with disk.at_no_cost():
        bases = sorted(int(name.removesuffix(".log")) for name in disk.list(log.directory) if name.endswith(".log"))
    first = max(0, bisect_right(bases, log.start_offset) - 1)
    return [disk.content(join(log.directory, f"{base:020}.log")) or b"" for base in bases[first:]]
