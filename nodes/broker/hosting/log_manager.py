"""Open, checkpoint, flush and close the logs of the one log directory (BL-01, FD-03, rules 14 and 17).

Each topic-partition has the directory `<topic>-<partition>` with its log and `partition.metadata`, which holds the
topic's id: a topic deleted and created again while this broker was away must not inherit the old one's records. All
existing logs are opened at start and claimed as metadata names them. A log still unclaimed when the broker has caught
up is renamed `…-stray` and kept for the operator.

Three files make a promise about logs: `recovery-point-offset-checkpoint` that everything below is on disk,
`replication-offset-checkpoint` that everything below is committed, `log-start-offset-checkpoint` that everything below
is deleted. A promise is written after it has become true. It is withdrawn, durably, before it becomes false: when a log
is truncated, and when it is removed, since another of the same name may follow. Losing a promise costs time, never
records:

    recovery points     every `log.flush.offset.checkpoint.interval.ms` and at a clean stop
    high watermarks     `Replicas` decides; out of date after a kill, so that a new leader starts lower and rises
    log starts          at the end of the turn in which one moved, before any response reports it; only then are the
                        segments below it removed. At once where a follower's first segment is about to begin before
                        its log (`Log._align_empty_log`)

A segment is made durable when it has been sealed for a whole interval of recovery points: the host has written most of
it back by then, so the node, which has one thread, does not block on it.

Start: the marker of a clean stop is removed, durably, before any log is touched. With it logs are trusted as they are;
without it they are scanned from their recovery points (`storage/recovery.py`).

Mutant `clean-mark-before-flush` in `close`.
"""

from __future__ import annotations

from squall.nodes.broker.hosting.clean_shutdown import clean_epoch, clean_marker
from squall.nodes.broker.hosting.config import NEVER, BrokerConfig
from squall.nodes.buggify import OFF, Buggify
from squall.nodes.metadata.image import Topic
from squall.nodes.mutants import HEALTHY, Mutants
from squall.nodes.ports import Disk, Trace, WallClock
from squall.nodes.protocol.topic_partition import METADATA_PARTITION, format_id, parse_id
from squall.nodes.storage import checkpoints
from squall.nodes.storage.checkpoints import OffsetCheckpoint, TopicPartition
from squall.nodes.storage.config import LONG_MAX, LogConfig
from squall.nodes.storage.errors import CorruptFile, on_disk
from squall.nodes.storage.log import Log

PARTITION_METADATA = "partition.metadata"
STRAY = "-stray"
ROOT = ""
MS = 1000


class _Kept:
    """The checkpoints of one log; see `storage.log.Keeper`."""

    def __init__(self, manager: LogManager, name: TopicPartition) -> None:
        self._manager = manager
        self._name = name

    def before_cut(self, offset: int) -> None:
        self._manager.take_back(self._name, offset)

    def keep_start(self, offset: int) -> None:
        self._manager.keep_start(self._name, offset)

    def start_moved(self) -> None:
        self._manager.start_moved(self._name)


class LogManager:
    """The logs of a broker and their checkpoints; see the module.

    `previous_epoch` is the broker epoch of the last incarnation if it stopped cleanly, else -1.
    """

    def __init__(
        self,
        config: BrokerConfig,
        *,
        disk: Disk,
        clock: WallClock,
        trace: Trace,
        now: int,
        mutants: Mutants = HEALTHY,
        buggify: Buggify = OFF,
    ) -> None:
        self._config = config
        self._disk = disk
        self._clock = clock
        self._trace = trace
        self._mutants = mutants
        self._buggify = buggify
        marker = checkpoints.take_clean_shutdown(disk, ROOT)
        self.previous_epoch = clean_epoch(marker)
        self._recovery_points = OffsetCheckpoint(disk, checkpoints.RECOVERY_POINTS)
        self._high_watermarks = OffsetCheckpoint(disk, checkpoints.HIGH_WATERMARKS)
        self._starts = OffsetCheckpoint(disk, checkpoints.LOG_STARTS)
        self._logs: dict[TopicPartition, Log] = {}
        self._unclaimed: dict[TopicPartition, bytes] = {}
        self._moved: dict[TopicPartition, None] = {}
        self._sealed: dict[TopicPartition, int] = {}
        self._flushed_by_time: dict[TopicPartition, int | None] = {}
        self._checkpoint_due = now + config.recovery_checkpoint_interval
        self._load(clean=marker is not None)

    # -- opening --------------------------------------------------------------------------------------------------

    def _load(self, *, clean: bool) -> None:
        for directory in self._disk.list(ROOT):
            topic, _, number = directory.rpartition("-")
            if not topic or not number.isdecimal() or (topic, int(number)) == METADATA_PARTITION:
                continue
            topic_id = self._stored_id(directory)
            if topic_id is None:
                self._trace.event("log_without_id", broker=self._config.node_id, directory=directory)
                continue
            name = (topic, int(number))
            self._open(name, self._config.topics.log, clean=clean)
            self._unclaimed[name] = topic_id

    def _stored_id(self, directory: str) -> bytes | None:
        path = checkpoints.join(directory, PARTITION_METADATA)
        stored = checkpoints.read_properties(self._disk, path)
        if stored is None or "topic_id" not in stored:
            return None
        try:
            return parse_id(stored["topic_id"])
        except ValueError as trouble:
            raise CorruptFile(f"{path}: topic_id: {trouble}; restore the file, or remove the directory") from None

    def _open(self, name: TopicPartition, config: LogConfig, *, clean: bool) -> Log:
        log = self._logs[name] = Log.open(
            self._disk,
            directory_of(name),
            config,
            now_ms=self._clock.now_ms(),
            trace=self._trace,
            clean_shutdown=clean,
            recovery_point=self._recovery_points.of(name),
            start_offset=self._starts.of(name),
            mutants=self._mutants,
            keeper=_Kept(self, name),
            buggify=self._buggify,
        )
        # A power loss may have left less than was promised; what is appended in its place has no promise yet.
        self.take_back(name, log.end_offset)
        return log

    def claim(self, topic: Topic, number: int, config: LogConfig) -> tuple[Log, int]:
        """Return the log of a topic-partition, created if it is missing, and its checkpointed high watermark."""
        name = (topic.name, number)
        topic_id = self._unclaimed.pop(name, None)
        if topic_id == topic.id:
            self.configure(name, config)
            return self._logs[name], self._high_watermarks.of(name)
        if topic_id is not None:
            self.delete([name])
        self.forget([name])
        log = self._open(name, config, clean=False)
        path = checkpoints.join(directory_of(name), PARTITION_METADATA)
        checkpoints.write_properties(self._disk, path, {"version": "0", "topic_id": format_id(topic.id)})
        self.configure(name, config)
        return log, 0

    def configure(self, name: TopicPartition, config: LogConfig) -> None:
        """Apply the topic's settings to a log."""
        self._logs[name].config = config
        if config.flush_ms == LONG_MAX:
            self._flushed_by_time.pop(name, None)
        else:
            self._flushed_by_time.setdefault(name, None)

    # -- removing -------------------------------------------------------------------------------------------------

    def forget(self, names: list[TopicPartition]) -> None:
        """Withdraw all promises about some logs that the caller deletes next; one write for all of them."""
        for checkpoint in (self._recovery_points, self._high_watermarks, self._starts):
            checkpoint.forget(names)

    def delete(self, names: list[TopicPartition]) -> None:
        """Remove some logs, durably; withdraw the promises about them first."""
        self.forget(names)
        for name in names:
            self._flushed_by_time.pop(name, None)
            self._moved.pop(name, None)
            self._sealed.pop(name, None)
            self._logs.pop(name).delete()
        with on_disk(ROOT, "sync the directory"):
            self._disk.sync_directory(ROOT)

    def retire_strays(self) -> None:
        """Rename the logs that no topic-partition has claimed by the time metadata is caught up."""
        if not self._unclaimed:
            return
        self.forget(list(self._unclaimed))
        for name in self._unclaimed:
            self._logs.pop(name).close()
            directory = directory_of(name)
            with on_disk(directory, "put the log aside"):
                if self._disk.exists(directory + STRAY):
                    self._disk.remove_tree(directory + STRAY)
                self._disk.rename(directory, directory + STRAY)
                self._disk.sync_directory(ROOT)
            self._trace.event("stray", broker=self._config.node_id, topic=name[0], partition=name[1])
        self._unclaimed.clear()

    # -- checkpoints ----------------------------------------------------------------------------------------------

    def take_back(self, name: TopicPartition, offset: int) -> None:
        """Before truncation, durably lower the checkpoints of a log to `offset`."""
        for checkpoint in (self._recovery_points, self._high_watermarks, self._starts):
            checkpoint.lower(name, offset)

    def keep_start(self, name: TopicPartition, offset: int) -> None:
        """Write a log start offset at once, durably: its first segment is about to begin before it."""
        self._starts.lift(name, offset)

    def start_moved(self, name: TopicPartition) -> None:
        """A log's start offset has moved up."""
        self._moved[name] = None

    def settle(self) -> None:
        """At the end of a turn, write the log start offsets that moved, then delete the segments below them."""
        if not self._moved:
            return
        moved, self._moved = self._moved, {}
        self._starts.replace({name: log.start_offset for name, log in self._logs.items() if log.start_offset > 0})
        for name in moved:
            if name in self._logs:
                self._logs[name].drop_before_start()

    def checkpoint_high_watermarks(self, offsets: dict[TopicPartition, int]) -> None:
        """Write high watermarks; unclaimed logs keep theirs."""
        kept = {name: self._high_watermarks.of(name) for name in self._unclaimed}
        self._high_watermarks.replace(kept | offsets)

    def _checkpoint_recovery_points(self) -> None:
        self._recovery_points.replace({name: log.durable_offset for name, log in self._logs.items()})

    # -- time -----------------------------------------------------------------------------------------------------

    def tick(self, now: int) -> None:
        if self._flushed_by_time:
            self._flush_by_time(now)
        if self._checkpoint_due <= now:
            self._checkpoint_due = now + self._config.recovery_checkpoint_interval
            if not self._buggify.happens("recovery-points-not-written"):
                self._flush_sealed()
                self._checkpoint_recovery_points()

    def _flush_by_time(self, now: int) -> None:
        for name, due in self._flushed_by_time.items():
            log = self._logs[name]
            if log.durable_offset >= log.end_offset:
                self._flushed_by_time[name] = None
            elif due is None:
                self._flushed_by_time[name] = now + log.config.flush_ms * MS
            elif due <= now:
                log.flush()
                self._flushed_by_time[name] = None

    def _flush_sealed(self) -> None:
        """Make durable what was sealed at the last checkpoint, one interval ago."""
        sealed, self._sealed = self._sealed, {name: log.active_base_offset for name, log in self._logs.items()}
        for name, offset in sealed.items():
            if name in self._logs:
                self._logs[name].flush_below(offset)

    def deadline(self) -> int:
        nearest = self._checkpoint_due if self._logs else NEVER
        for name, due in self._flushed_by_time.items():
            log = self._logs[name]
            if log.durable_offset < log.end_offset:
                nearest = min(nearest, 0 if due is None else due)
        return nearest

    def close(self, broker_epoch: int) -> None:
        """Flush everything to disk, then write the marker of a clean stop, which carries the broker epoch."""
        self.settle()
        if self._mutants.has("clean-mark-before-flush"):
            checkpoints.mark_clean_shutdown(self._disk, ROOT, clean_marker(broker_epoch))
        for log in self._logs.values():
            log.close()
        self._checkpoint_recovery_points()
        checkpoints.mark_clean_shutdown(self._disk, ROOT, clean_marker(broker_epoch))


def directory_of(name: TopicPartition) -> str:
    return f"{name[0]}-{name[1]}"
