"""The topic-partitions of this broker: metadata deltas in, leaders, followers and their logs out (MD-05, DP-12).

A replica changes for one reason only: a committed metadata record (DP-12). Each delta is walked once: topics removed,
topic-partitions touched, settings changed. What the replica says has changed then moves it between being led here and
being followed through the fetcher of its leader, one fetcher for each other broker (DP-04).

Files. Each topic-partition has the directory `<topic>-<partition>`: its log, and `partition.metadata` with the topic's
id, so that a topic deleted and created again while this broker was away does not inherit the old one's records. All
logs there are, are opened before the broker says a word (BL-01) and claimed as metadata names them. What nobody
claimed by the time the broker is caught up is renamed `…-stray` and left to people.

High watermarks are checkpointed every few seconds and at a clean stop. After a kill the checkpoint is late, which is
safe: a new leader starts lower and rises as followers report.
"""

from __future__ import annotations

from collections.abc import Mapping

from squall.nodes.broker.clean_shutdown import clean_epoch, clean_marker
from squall.nodes.broker.config import NEVER, BrokerConfig
from squall.nodes.broker.hosted import Hosted, Progress
from squall.nodes.metadata.image import MetadataDelta, MetadataImage, PartitionRegistration, Topic
from squall.nodes.mutants import HEALTHY, Mutants
from squall.nodes.ports import Disk, Trace, WallClock
from squall.nodes.protocol.errors import ErrorCode
from squall.nodes.protocol.session import OutboundRequest
from squall.nodes.protocol.topic_partition import METADATA_PARTITION, format_id, parse_id
from squall.nodes.replication.fetcher import ReplicaFetcher
from squall.nodes.replication.ports import Applied, PartitionState
from squall.nodes.replication.replica import TopicPartitionReplica
from squall.nodes.storage import checkpoints
from squall.nodes.storage.log import Log, LogConfig

PARTITION_METADATA = "partition.metadata"
STRAY = "-stray"
ROOT = ""


class ImageView:
    """Other brokers as the image has them; see `replication.ports.BrokerView`."""

    def __init__(self, image: MetadataImage) -> None:
        self._image = image

    def broker_epoch(self, broker: int) -> int | None:
        found = self._image.brokers.get(broker)
        return None if found is None else found.epoch

    def is_eligible(self, broker: int) -> bool:
        found = self._image.brokers.get(broker)
        return found is not None and found.active


class Replicas:
    """See the module. `isr_wanted` holds those whose leader has an ISR change to send, for the ISR sender."""

    def __init__(
        self,
        config: BrokerConfig,
        image: MetadataImage,
        progress: Progress,
        *,
        disk: Disk,
        clock: WallClock,
        trace: Trace,
        now: int,
        mutants: Mutants = HEALTHY,
    ) -> None:
        self.isr_wanted: dict[Hosted, None] = {}
        self._config = config
        self._image = image
        self._progress = progress
        self._disk = disk
        self._clock = clock
        self._trace = trace
        self._mutants = mutants
        self._view = ImageView(image)
        self._by_id: dict[tuple[bytes, int], Hosted] = {}
        self._by_name: dict[tuple[str, int], Hosted] = {}
        self._fetchers: dict[int, ReplicaFetcher] = {}
        self._unclaimed: dict[tuple[str, int], tuple[bytes, Log]] = {}
        self._checkpointed = checkpoints.read_offsets(disk, checkpoints.HIGH_WATERMARKS)
        self._checkpoint_due = now + config.checkpoint_interval
        self._shrink_due = now + config.replication.lag_time_max // 2
        marker = checkpoints.take_clean_shutdown(disk, ROOT)
        self.previous_epoch = clean_epoch(marker)
        """The broker epoch under which the last incarnation stopped cleanly; -1 if it did not (FD-03)."""
        self._load(marker is not None)

    # -- what is here ---------------------------------------------------------------------------------------------

    def by_name(self, topic: str, partition: int) -> Hosted | None:
        return self._by_name.get((topic, partition))

    def by_id(self, topic_id: bytes, partition: int) -> Hosted | None:
        return self._by_id.get((topic_id, partition))

    def all(self) -> list[Hosted]:
        return list(self._by_id.values())

    def absence(self, topic: str, partition: int) -> int:
        """Why a topic-partition is not hosted here, as an error code."""
        if self._image.partition(topic, partition) is None:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return ErrorCode.NOT_LEADER_OR_FOLLOWER

    def absence_by_id(self, topic_id: bytes, partition: int) -> int:
        found = self._image.topics.get(topic_id)
        if found is None:
            return ErrorCode.UNKNOWN_TOPIC_ID
        if partition not in found.partitions:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return ErrorCode.NOT_LEADER_OR_FOLLOWER

    def isr_changed(self, hosted: Hosted) -> None:
        """A leader may have an ISR change to send."""
        if hosted.replica.proposal is not None:
            self.isr_wanted[hosted] = None

    # -- logs -----------------------------------------------------------------------------------------------------

    def _load(self, clean: bool) -> None:
        for directory in self._disk.list(ROOT):
            topic, _, number = directory.rpartition("-")
            if not topic or not number.isdigit() or (topic, int(number)) == METADATA_PARTITION:
                continue
            topic_id = self._stored_id(directory)
            if topic_id is None:
                self._trace.event("log_without_id", broker=self._config.node_id, directory=directory)
                continue
            log = self._open(directory, self._config.topics.log, clean=clean)
            self._unclaimed[topic, int(number)] = (topic_id, log)

    def _stored_id(self, directory: str) -> bytes | None:
        stored = checkpoints.read_properties(self._disk, checkpoints.join(directory, PARTITION_METADATA))
        return None if stored is None or "topic_id" not in stored else parse_id(stored["topic_id"])

    def _open(self, directory: str, config: LogConfig, *, clean: bool) -> Log:
        return Log.open(
            self._disk, directory, config, now_ms=self._clock.now_ms(), trace=self._trace, clean_shutdown=clean
        )

    def _log_for(self, topic: Topic, number: int, config: LogConfig) -> tuple[Log, bool]:
        """The log of a topic-partition, and whether it was there before."""
        known = self._unclaimed.pop((topic.name, number), None)
        if known is not None:
            topic_id, log = known
            if topic_id == topic.id:
                log.config = config
                return log, True
            log.delete()
        directory = f"{topic.name}-{number}"
        log = self._open(directory, config, clean=False)
        path = checkpoints.join(directory, PARTITION_METADATA)
        checkpoints.write_properties(self._disk, path, {"version": "0", "topic_id": format_id(topic.id)})
        return log, False

    def retire_strays(self) -> None:
        """Metadata is caught up: what no topic-partition has claimed belongs to nobody."""
        for (topic, number), (_, log) in self._unclaimed.items():
            log.close()
            directory = f"{topic}-{number}"
            if self._disk.exists(directory + STRAY):
                self._disk.remove_tree(directory + STRAY)
            self._disk.rename(directory, directory + STRAY)
            self._trace.event("stray", broker=self._config.node_id, topic=topic, partition=number)
        self._unclaimed.clear()

    # -- metadata -------------------------------------------------------------------------------------------------

    def apply(self, now: int, delta: MetadataDelta) -> None:
        """Follow what one batch of committed records changed; the image has it already."""
        for topic in delta.removed_topics.values():
            for number in topic.partitions:
                self._remove(topic.id, number)
        for topic_id, number in delta.partitions:
            self._follow(now, self._image.topics[topic_id], number)
        for topic in self._image.topics_set_by(delta.configs):
            for number in topic.partitions:
                self._follow(now, topic, number)

    def _follow(self, now: int, topic: Topic, number: int) -> None:
        registration = topic.partitions[number]
        hosted = self._by_id.get((topic.id, number))
        if self._config.node_id not in registration.replicas:
            if hosted is not None:
                self._remove(topic.id, number)
            return
        settings = self._image.topic_settings(topic.name)
        log_config = self._log_config(settings)
        state = self._state(topic, number, registration, settings)
        if hosted is None:
            hosted = self._host(state, topic, log_config)
        hosted.replica.log.config = log_config
        self._place(now, hosted, hosted.replica.apply(now, state))

    def _state(
        self, topic: Topic, number: int, registration: PartitionRegistration, settings: Mapping[str, str]
    ) -> PartitionState:
        default = self._config.topics.min_insync_replicas
        return PartitionState(
            topic_id=topic.id,
            topic=topic.name,
            partition=number,
            replicas=registration.replicas,
            isr=registration.isr,
            leader=registration.leader,
            leader_epoch=registration.leader_epoch,
            partition_epoch=registration.partition_epoch,
            min_insync_replicas=int(settings.get("min.insync.replicas", default)),
        )

    def _log_config(self, settings: Mapping[str, str]) -> LogConfig:
        default = self._config.topics.log
        return LogConfig(
            segment_bytes=int(settings.get("segment.bytes", default.segment_bytes)),
            index_interval_bytes=int(settings.get("index.interval.bytes", default.index_interval_bytes)),
            max_message_bytes=int(settings.get("max.message.bytes", default.max_message_bytes)),
        )

    def _host(self, state: PartitionState, topic: Topic, log_config: LogConfig) -> Hosted:
        log, known = self._log_for(topic, state.partition, log_config)
        name = (topic.name, state.partition)
        replica = TopicPartitionReplica(
            self._config.node_id,
            state,
            log,
            self._config.replication,
            self._view,
            clock=self._clock,
            trace=self._trace,
            mutants=self._mutants,
            high_watermark=self._checkpointed.get(name, 0) if known else 0,
        )
        hosted = Hosted(replica)
        self._by_id[topic.id, state.partition] = hosted
        self._by_name[name] = hosted
        return hosted

    def _place(self, now: int, hosted: Hosted, applied: Applied) -> None:
        """Let the replica be followed, or not, as the applied state says."""
        if applied.stale:
            return
        if applied.high_watermark_advanced:
            self._progress.advanced(hosted)
        if not applied.new_leader_epoch:
            return
        self._progress.changed(hosted)
        self._unfollow(hosted)
        leader = hosted.replica.leader
        if leader >= 0 and leader != self._config.node_id:
            self._fetcher(leader).add(now, hosted.replica)
            hosted.following = leader

    def _unfollow(self, hosted: Hosted) -> None:
        if hosted.following >= 0:
            self._fetchers[hosted.following].remove(hosted.topic_id, hosted.partition)
            hosted.following = -1

    def _fetcher(self, leader: int) -> ReplicaFetcher:
        found = self._fetchers.get(leader)
        if found is None:
            found = self._fetchers[leader] = ReplicaFetcher(
                self._config.node_id,
                leader,
                self._config.replication,
                broker_epoch=self._own_epoch,
                mutants=self._mutants,
            )
        return found

    def _own_epoch(self) -> int:
        epoch = self._view.broker_epoch(self._config.node_id)
        return -1 if epoch is None else epoch

    def _remove(self, topic_id: bytes, number: int) -> None:
        """The topic-partition is no longer ours: forget it, delete its log, let the parked look once more."""
        hosted = self._by_id.pop((topic_id, number), None)
        if hosted is None:
            return
        self._by_name.pop(hosted.name, None)
        self.isr_wanted.pop(hosted, None)
        self._checkpointed.pop(hosted.name, None)
        self._unfollow(hosted)
        hosted.replica.log.delete()
        hosted.replica.is_leader = False
        self._progress.changed(hosted)

    # -- time -----------------------------------------------------------------------------------------------------

    def tick(self, now: int) -> None:
        for fetcher in self._fetchers.values():
            fetcher.tick(now)
        if self._shrink_due <= now:
            self._shrink_due = now + self._config.replication.lag_time_max // 2
            self._shrink(now)
        if self._checkpoint_due <= now:
            self._checkpoint_due = now + self._config.checkpoint_interval
            self._checkpoint()

    def _shrink(self, now: int) -> None:
        for hosted in self._by_id.values():
            if hosted.replica.maybe_shrink(now):
                self._progress.advanced(hosted)
            self.isr_changed(hosted)

    def _checkpoint(self) -> None:
        offsets = {hosted.name: hosted.replica.high_watermark for hosted in self._by_id.values()}
        for name in self._unclaimed:
            offsets[name] = self._checkpointed.get(name, 0)
        if offsets != self._checkpointed:
            checkpoints.write_offsets(self._disk, checkpoints.HIGH_WATERMARKS, offsets)
            self._checkpointed = offsets

    def deadline(self) -> int:
        nearest = min(self._shrink_due, self._checkpoint_due) if self._by_id else NEVER
        for fetcher in self._fetchers.values():
            nearest = min(nearest, fetcher.deadline())
        return nearest

    def take_requests(self) -> list[OutboundRequest]:
        taken: list[OutboundRequest] = []
        for fetcher in self._fetchers.values():
            if fetcher.requests:
                taken += fetcher.requests
                fetcher.requests.clear()
        return taken

    def close(self, broker_epoch: int) -> None:
        """Everything to disk, then the mark of a clean stop, which carries the broker epoch (FD-03)."""
        self._checkpoint()
        for hosted in self._by_id.values():
            hosted.replica.log.close()
        for _, log in self._unclaimed.values():
            log.close()
        checkpoints.mark_clean_shutdown(self._disk, ROOT, clean_marker(broker_epoch))
