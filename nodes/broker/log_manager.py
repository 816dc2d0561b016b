"""The logs below the one log directory: opened, written down, flushed, closed (BL-01, FD-03, rules 14 and 17).

Each topic-partition has the directory `<topic>-<partition>`: its log, and `partition.metadata` with the topic's id, so
that a topic deleted and created again while this broker was away does not inherit the old one's records. All logs
there are, are opened at start and claimed as metadata names them. What nobody claimed by the time the broker is caught
up is renamed `…-stray` and left to people.

Three files promise something about logs: `recovery-point-offset-checkpoint` that all below is on the disk,
`replication-offset-checkpoint` that all below is committed, `log-start-offset-checkpoint` that all below is deleted.
A promise is written after it has come true and taken back, durably, before it ceases to hold: when a log is cut, and
when it is removed, since another of the same name may follow. Losing one costs time, never records:

    recovery points     every `log.flush.offset.checkpoint.interval.ms` and at a clean stop
    high watermarks     `Replicas` decides; late after a kill, so that a new leader starts lower and rises
    log starts          at the end of the turn in which one moved, before anything is said of it; only then are the
                        segments below it removed

A segment is made durable when it has been sealed for a whole interval of recovery points: the host has written most of
it back by then, and the node, which has one thread, does not stand still for it.

Start. The mark of a clean stop is taken away, durably, before any log is touched. With it logs are trusted as they
are; without, they are scanned from their recovery points (`storage/recovery.py`).

Mutant `clean-mark-before-flush` in `close`.
"""

from __future__ import annotations

from squall.nodes.broker.clean_shutdown import clean_epoch, clean_marker
from squall.nodes.broker.config import NEVER, BrokerConfig
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
    """What is written down of one log; see `storage.log.Keeper`."""

    def __init__(self, manager: LogManager, name: TopicPartition) -> None:
        self._manager = manager
        self._name = name

    def before_cut(self, offset: int) -> None:
        self._manager.take_back(self._name, offset)

    def start_moved(self) -> None:
        self._manager.start_moved(self._name)


class LogManager:
    """See the module. `previous_epoch` is the broker epoch of the last incarnation if it stopped cleanly, else -1."""

    def __init__(
        self,
        config: BrokerConfig,
        *,
        disk: Disk,
        clock: WallClock,
        trace: Trace,
        now: int,
        mutants: Mutants = HEALTHY,
    ) -> None:
        self._config = config
        self._disk = disk
        self._clock = clock
        self._trace = trace
        self._mutants = mutants
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
            if not topic or not number.isdigit() or (topic, int(number)) == METADATA_PARTITION:
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
        )
        # A power loss may have left less than was promised; what is appended in its place has been promised to nobody.
        self.take_back(name, log.end_offset)
        return log

    def claim(self, topic: Topic, number: int, config: LogConfig) -> tuple[Log, int]:
        """The log of a topic-partition, created if it is not there, and its high watermark as last written down."""
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
        """Let a log follow its topic's settings."""
        self._logs[name].config = config
        if config.flush_ms == LONG_MAX:
            self._flushed_by_time.pop(name, None)
        else:
            self._flushed_by_time.setdefault(name, None)

    # -- removing -------------------------------------------------------------------------------------------------

    def forget(self, names: list[TopicPartition]) -> None:
        """Take back all that was promised of some logs. Once for many that go together; they are to be deleted next."""
        for checkpoint in (self._recovery_points, self._high_watermarks, self._starts):
            checkpoint.forget(names)

    def delete(self, names: list[TopicPartition]) -> None:
        """Remove some logs, durably. What was promised of them is taken back before."""
        self.forget(names)
        for name in names:
            self._flushed_by_time.pop(name, None)
            self._moved.pop(name, None)
            self._sealed.pop(name, None)
            self._logs.pop(name).delete()
        with on_disk(ROOT, "sync the directory"):
            self._disk.sync_directory(ROOT)

    def retire_strays(self) -> None:
        """Metadata is caught up: what no topic-partition has claimed belongs to nobody."""
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

    # -- what is written down -------------------------------------------------------------------------------------

    def take_back(self, name: TopicPartition, offset: int) -> None:
        """A log is about to be cut."""
        for checkpoint in (self._recovery_points, self._high_watermarks, self._starts):
            checkpoint.lower(name, offset)

    def start_moved(self, name: TopicPartition) -> None:
        """A log begins later than before."""
        self._moved[name] = None

    def settle(self) -> None:
        """The end of a turn: write down where logs begin now, then let go what lies before."""
        if not self._moved:
            return
        moved, self._moved = self._moved, {}
        self._starts.replace({name: log.start_offset for name, log in self._logs.items() if log.start_offset > 0})
        for name in moved:
            if name in self._logs:
                self._logs[name].drop_before_start()

    def checkpoint_high_watermarks(self, offsets: dict[TopicPartition, int]) -> None:
        """Write them down; logs that nobody has claimed yet keep what they had."""
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
        """What was sealed an interval ago becomes durable now."""
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
        """Everything to disk, then the mark of a clean stop, which carries the broker epoch."""
        self.settle()
        if self._mutants.has("clean-mark-before-flush"):
            checkpoints.mark_clean_shutdown(self._disk, ROOT, clean_marker(broker_epoch))
        for log in self._logs.values():
            log.close()
        self._checkpoint_recovery_points()
        checkpoints.mark_clean_shutdown(self._disk, ROOT, clean_marker(broker_epoch))


def directory_of(name: TopicPartition) -> str:
    return f"{name[0]}-{name[1]}"
