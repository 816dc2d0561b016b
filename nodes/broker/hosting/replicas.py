"""The topic-partitions of this broker: turn metadata deltas into leaders, followers and their logs (MD-05, DP-12).

A replica changes for one reason only: a committed metadata record (DP-12). Each delta is processed once: topics
removed, topic-partitions touched, settings changed. According to the replica's result the topic-partition is led here
or follows through the fetcher of its leader; there is one fetcher per other broker (DP-04).

The log manager owns the logs (`log_manager.py`): a replica claims its log when metadata first names it here. Periodic
work runs from here: ISR checks, high watermark checkpoints, retention.

High watermarks are checkpointed every few seconds and at a clean stop. After a kill they are out of date, which is
safe: a new leader starts lower and rises as followers report.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from squall.nodes.broker.hosting.config import BrokerConfig
from squall.nodes.broker.hosting.hosted_partition import HostedPartition, TurnChanges
from squall.nodes.broker.hosting.log_manager import LogManager
from squall.nodes.buggify import OFF, Buggify
from squall.nodes.metadata.image import MetadataDelta, MetadataImage, PartitionRegistration, Topic
from squall.nodes.mutants import HEALTHY, Mutants
from squall.nodes.ports import Disk, Trace, WallClock
from squall.nodes.protocol.errors import ErrorCode
from squall.nodes.protocol.requests.session import OutboundRequest
from squall.nodes.replication.fetcher import ReplicaFetcher
from squall.nodes.replication.ports import Applied, PartitionState
from squall.nodes.replication.replica import TopicPartitionReplica
from squall.nodes.storage.config import LogConfig

LOGS_IN_A_TURN = 5
"""The most logs created or removed in a turn.

Each takes five waits for the disk, of up to 50 ms on a shared disk; a heartbeat takes three or four turns.
"""


class ImageView:
    """Other brokers according to the image; see `replication.ports.BrokerView`."""

    def __init__(self, image: MetadataImage) -> None:
        self._image = image

    def broker_epoch(self, broker: int) -> int | None:
        found = self._image.brokers.get(broker)
        return None if found is None else found.epoch

    def is_eligible(self, broker: int) -> bool:
        found = self._image.brokers.get(broker)
        return found is not None and found.active


@dataclass(frozen=True, slots=True)
class _Settings:
    """A topic's settings, with the defaults."""

    log: LogConfig
    min_insync_replicas: int


class Replicas:
    """The topic-partitions that this broker hosts.

    `isr_wanted` holds the topic-partitions whose leader has an ISR change to send, for the ISR sender. `previous_epoch`
    is the broker epoch under which the last incarnation stopped cleanly, -1 if it did not (FD-03).

    Fetches name the epoch that `own_epoch` returns: the last one that this incarnation was given, also while metadata
    has no registration of this broker. A fetch that named none would let the leader add whatever incarnation comes next
    to the ISR (KIP-903).
    """

    def __init__(
        self,
        config: BrokerConfig,
        image: MetadataImage,
        progress: TurnChanges,
        own_epoch: Callable[[], int],
        *,
        disk: Disk,
        clock: WallClock,
        trace: Trace,
        now: int,
        mutants: Mutants = HEALTHY,
        buggify: Buggify = OFF,
    ) -> None:
        self.isr_wanted: dict[HostedPartition, None] = {}
        self._config = config
        self._image = image
        self._progress = progress
        self._clock = clock
        self._trace = trace
        self._mutants = mutants
        self._buggify = buggify
        self._own_epoch = own_epoch
        self._view = ImageView(image)
        self._by_id: dict[tuple[bytes, int], HostedPartition] = {}
        self._by_name: dict[tuple[str, int], HostedPartition] = {}
        self._to_follow: deque[tuple[bytes, int]] = deque()
        self._to_delete: deque[tuple[str, int]] = deque()
        """Logs of deleted topics."""
        self._settings: dict[bytes, _Settings] = {}
        """Of the topics in the current delta; the image does not advance until the delta is done."""
        self._fetchers: dict[int, ReplicaFetcher] = {}
        self._logs = LogManager(config, disk=disk, clock=clock, trace=trace, now=now, mutants=mutants, buggify=buggify)
        self.previous_epoch = self._logs.previous_epoch
        self._checkpoint_due = now + config.checkpoint_interval
        self._shrink_due = now + config.replication.lag_time_max // 2
        self._retention_due = now + config.retention_check_interval

    # -- what is here ---------------------------------------------------------------------------------------------

    def by_name(self, topic: str, partition: int) -> HostedPartition | None:
        return self._by_name.get((topic, partition))

    def by_id(self, topic_id: bytes, partition: int) -> HostedPartition | None:
        return self._by_id.get((topic_id, partition))

    def __len__(self) -> int:
        return len(self._by_id)

    def all(self) -> list[HostedPartition]:
        return list(self._by_id.values())

    def fetcher_of(self, leader: int) -> ReplicaFetcher | None:
        """The fetcher of what that broker leads, None if nothing was ever followed there."""
        return self._fetchers.get(leader)

    def may_join(self, broker: int) -> bool:
        """Whether metadata lets a broker join an ISR: it is unfenced and not shutting down (KIP-841)."""
        return self._view.is_eligible(broker)

    @property
    def replicated_bytes(self) -> int:
        """Bytes fetched from leaders since the start."""
        return sum(fetcher.bytes_in for fetcher in self._fetchers.values())

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

    def isr_changed(self, hosted: HostedPartition) -> None:
        """A leader may have an ISR change to send."""
        if hosted.replica.proposal is not None:
            self.isr_wanted[hosted] = None

    # -- metadata -------------------------------------------------------------------------------------------------

    def apply(self, now: int, delta: MetadataDelta) -> None:
        """Follow the changes of one batch of committed records.

        The image already includes them, and does not advance until this is done (see `is_busy`).
        """
        self._settings.clear()
        if delta.brokers:
            self._weigh_deletions()
        self._remove_topics(delta.removed_topics.values())
        self._to_follow.extend(delta.partitions)
        for topic in self._image.topics_set_by(delta.configs):
            self._to_follow.extend((topic.id, number) for number in topic.partitions)
        self.go_on(now)

    def _weigh_deletions(self) -> None:
        """Check parked DeleteRecords again: they do not wait for a broker that is not active any more (DP-16)."""
        for hosted in self._by_id.values():
            if hosted.deletions:
                self._progress.low_watermark_moved(hosted)

    @property
    def is_busy(self) -> bool:
        """Whether `apply` must be continued by `go_on`.

        Creating or removing a log takes several waits for the disk; ten thousand of them take longer than a broker
        session. So only `LOGS_IN_A_TURN` are created or removed in a turn.
        """
        return bool(self._to_follow or self._to_delete)

    def go_on(self, now: int) -> None:
        """Process some more of the last applied delta."""
        going = [self._to_delete.popleft() for _ in range(min(len(self._to_delete), LOGS_IN_A_TURN))]
        if going:
            self._logs.delete(going)
        created = len(going)
        while self._to_follow and created < LOGS_IN_A_TURN:
            topic_id, number = self._to_follow.popleft()
            created += (topic_id, number) not in self._by_id
            self._follow(now, self._image.topics[topic_id], number)

    def _remove_topics(self, topics: Iterable[Topic]) -> None:
        """Forget topics at once and delete their logs over several turns; nothing more is applied before that."""
        going = [(topic, number) for topic in topics for number in topic.partitions]
        self._logs.forget([(topic.name, number) for topic, number in going if (topic.id, number) in self._by_id])
        for topic, number in going:
            hosted = self._forget(topic.id, number)
            if hosted is not None:
                self._to_delete.append(hosted.name)

    def _follow(self, now: int, topic: Topic, number: int) -> None:
        registration = topic.partitions[number]
        hosted = self._by_id.get((topic.id, number))
        if self._config.node_id not in registration.replicas:
            if hosted is not None:
                self._remove(topic.id, number)
            return
        settings = self._settings_of(topic)
        state = self._state(topic, number, registration, settings.min_insync_replicas)
        if hosted is None:
            hosted = self._host(state, topic, settings.log)
        self._logs.configure(hosted.name, settings.log)
        self._place(now, hosted, hosted.replica.apply(now, state))

    def _settings_of(self, topic: Topic) -> _Settings:
        found = self._settings.get(topic.id)
        if found is None:
            stated, default = self._image.topic_settings(topic.name), self._config.topics.min_insync_replicas
            found = self._settings[topic.id] = _Settings(
                self._config.topics.log.of_topic(stated), int(stated.get("min.insync.replicas", default))
            )
        return found

    def _state(
        self, topic: Topic, number: int, registration: PartitionRegistration, min_insync_replicas: int
    ) -> PartitionState:
        return PartitionState(
            topic_id=topic.id,
            topic=topic.name,
            partition=number,
            replicas=registration.replicas,
            isr=registration.isr,
            leader=registration.leader,
            leader_epoch=registration.leader_epoch,
            partition_epoch=registration.partition_epoch,
            min_insync_replicas=min_insync_replicas,
        )

    def _host(self, state: PartitionState, topic: Topic, log_config: LogConfig) -> HostedPartition:
        log, high_watermark = self._logs.claim(topic, state.partition, log_config)
        replica = TopicPartitionReplica(
            self._config.node_id,
            state,
            log,
            self._config.replication,
            self._view,
            clock=self._clock,
            trace=self._trace,
            mutants=self._mutants,
            high_watermark=high_watermark,
        )
        hosted = HostedPartition(replica)
        self._by_id[topic.id, state.partition] = hosted
        self._by_name[hosted.name] = hosted
        return hosted

    def retire_strays(self) -> None:
        """Rename the logs that no topic-partition has claimed by the time metadata is caught up."""
        self._logs.retire_strays()

    def _place(self, now: int, hosted: HostedPartition, applied: Applied) -> None:
        """Start or stop following through a fetcher, as the applied state requires."""
        if applied.stale:
            return
        self._progress.noted(hosted)
        if applied.high_watermark_advanced:
            self._progress.advanced(hosted)
        if not applied.new_leader_epoch:
            return
        self._progress.changed(hosted)
        self._unfollow(hosted)
        leader = hosted.replica.leader
        if leader >= 0 and leader != self._config.node_id and not self._is_leaving(hosted):
            self._fetcher(leader).add(now, hosted.replica)
            hosted.following = leader

    def _is_leaving(self, hosted: HostedPartition) -> bool:
        """Whether this broker is about to stop and is out of the ISR already.

        As in Kafka it then stops following: thousands of handed-over topic-partitions would keep their new leaders busy
        with useless copies.
        """
        found = self._image.brokers.get(self._config.node_id)
        stops = found is not None and found.in_controlled_shutdown
        return stops and self._config.node_id not in hosted.replica.isr

    def _unfollow(self, hosted: HostedPartition) -> None:
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

    def _remove(self, topic_id: bytes, number: int) -> None:
        """This broker no longer hosts the topic-partition: forget it, delete its log, wake the parked requests."""
        hosted = self._forget(topic_id, number)
        if hosted is not None:
            self._logs.delete([hosted.name])

    def _forget(self, topic_id: bytes, number: int) -> HostedPartition | None:
        hosted = self._by_id.pop((topic_id, number), None)
        if hosted is None:
            return None
        self._by_name.pop(hosted.name, None)
        self.isr_wanted.pop(hosted, None)
        self._unfollow(hosted)
        hosted.replica.is_leader = False
        hosted.removed = True
        self._progress.changed(hosted)
        return hosted

    # -- time -----------------------------------------------------------------------------------------------------

    def tick(self, now: int) -> None:
        for fetcher in self._fetchers.values():
            fetcher.tick(now)
            if fetcher.advanced:
                self._followed_on(fetcher)
        if self._shrink_due <= now:
            interval = self._config.replication.lag_time_max // 2
            self._shrink_due = now + (interval // 8 if self._buggify.happens("lag-check-early") else interval)
            self._shrink(now)
        if self._checkpoint_due <= now:
            self._checkpoint_due = now + self._config.checkpoint_interval
            if not self._buggify.happens("high-watermarks-not-written"):
                self._checkpoint()
        if self._retention_due <= now:
            self._retention_due = now + self._config.retention_check_interval
            self._retain()
        self._logs.tick(now)

    def _followed_on(self, fetcher: ReplicaFetcher) -> None:
        """High watermarks of followers have moved: consumers may read further here (KIP-392)."""
        for replica in fetcher.advanced:
            hosted = self._by_id.get((replica.topic_id, replica.partition))
            if hosted is not None:
                self._progress.advanced(hosted)
        fetcher.advanced.clear()

    def _shrink(self, now: int) -> None:
        for hosted in self._by_id.values():
            if hosted.replica.maybe_shrink(now):
                self._progress.advanced(hosted)
            self.isr_changed(hosted)

    def _checkpoint(self) -> None:
        self._logs.checkpoint_high_watermarks(
            {hosted.name: hosted.replica.high_watermark for hosted in self._by_id.values()}
        )

    def _retain(self) -> None:
        for hosted in self._by_id.values():
            if hosted.replica.retain():
                self._progress.noted(hosted)
                self._progress.low_watermark_moved(hosted)
                if hosted.following >= 0:
                    self._fetchers[hosted.following].moved(hosted.topic_id, hosted.partition)

    def settle(self) -> None:
        """At the end of a turn, write its log start offsets before any response reports them."""
        self._logs.settle()

    def deadline(self) -> int:
        nearest = self._logs.deadline()
        for fetcher in self._fetchers.values():
            due = fetcher.deadline()
            if due < nearest:
                nearest = due
        return min(nearest, self.next_look) if self._by_id else nearest

    @property
    def next_look(self) -> int:
        """When members that lag, high watermarks to write or retention are due, if it hosts anything."""
        return min(self._shrink_due, self._checkpoint_due, self._retention_due)

    @property
    def has_requests(self) -> bool:
        """Whether a fetcher has a request that nobody has taken yet."""
        return any(fetcher.requests for fetcher in self._fetchers.values())

    def take_requests(self) -> list[OutboundRequest]:
        taken: list[OutboundRequest] = []
        for fetcher in self._fetchers.values():
            if fetcher.requests:
                taken += fetcher.requests
                fetcher.requests.clear()
        return taken

    def close(self, broker_epoch: int) -> None:
        """Flush everything to disk, then write the marker of a clean stop, which carries the broker epoch (FD-03)."""
        self._checkpoint()
        if self._to_delete:
            self._logs.delete(list(self._to_delete))
        self._logs.close(broker_epoch)
