"""Fetch: serve consumers and followers as long polls (rules 10 to 16).

A fetch that finds less than `min_bytes` is parked until there is more, an error, a divergence, another leader epoch, or
a timeout (rule 16). A follower waits for the log end offset and a consumer for the high watermark; a move of the high
watermark alone wakes no follower. Only the arrival of a fetch updates what the leader knows of a follower (rule 10):
re-checking a parked fetch proves nothing.

`fetch_sessions.py` supplies what is requested; only the topic-partitions with news are examined here. A fetch that
begins a session, or has none, gets a response for everything it names; a fetch that continues a session gets only what
is new to it. Records are views of what was read from the log and are sent uncopied.

A consumer that names its rack (KIP-392) may be redirected to a nearer replica, and followers serve it too; every
follower redirects a consumer without a rack to the leader. A consumer with the replica id -2 compares replicas, as
`kafka-replica-verification` does: each replica serves it, up to its own high watermark.

`max_bytes` and the configured `fetch.max.bytes` bound a response. So that every fetch makes progress, the first
topic-partition with records returns at least one batch of any size, unless the node has no memory left for it.
"""

from __future__ import annotations

from collections.abc import Callable

from squall.nodes.broker.hosting.config import BrokerConfig
from squall.nodes.broker.hosting.hosted_partition import Deadlines, HostedPartition, Parked, TurnChanges
from squall.nodes.broker.hosting.read_replicas import LEADER, RackAwareReplicaSelector
from squall.nodes.broker.hosting.replicas import Replicas
from squall.nodes.broker.hosting.traffic import Traffic
from squall.nodes.broker.requests.fetch_sessions import INT_MAX, NOTHING_TOLD, FetchContext, FetchSessions, Watch
from squall.nodes.buggify import OFF, Buggify
from squall.nodes.mutants import HEALTHY, Mutants
from squall.nodes.ports import Rng
from squall.nodes.protocol.errors import ErrorCode
from squall.nodes.protocol.messages.fetch import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    LeaderIdAndEpoch,
    PartitionData,
)
from squall.nodes.protocol.requests.session import ServerRequest
from squall.nodes.replication.ports import FetchBounds
from squall.nodes.storage.errors import LogError

READ_COMMITTED = 1
WAIT_MAX_MS = 60_000
"""The longest that a fetch is parked, in ms. A fetch may request weeks, and its connection may close meanwhile."""
DEBUGGING_CONSUMER = -2
MOST_FAILED = 200
"""After so many failures the response to a follower omits further topic-partitions that are not led here."""
_LEADER_HINTS = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)


class _Finding:
    """What the response says about one topic-partition.

    `part` is None if there is nothing new. `must_tell`: respond without waiting for more bytes. `keep`: leave the
    topic-partition on the list of news.
    """

    __slots__ = ("keep", "must_tell", "part")

    def __init__(self, part: PartitionData | None, *, must_tell: bool = False, keep: bool = False) -> None:
        self.part = part
        self.must_tell = must_tell
        self.keep = keep


class Fetch(Parked):
    """One fetch request, parked or not. `whole`: respond for everything requested, not only for news."""

    __slots__ = (
        "_body",
        "_buggify",
        "_context",
        "_deadlines",
        "_from_any",
        "_limit",
        "_rack",
        "_room",
        "_selector",
        "_traffic",
        "_whole",
    )

    def __init__(
        self,
        request: ServerRequest,
        context: FetchContext,
        deadlines: Deadlines,
        limit: int,
        selector: RackAwareReplicaSelector | None,
        traffic: Traffic,
        room: Callable[[], int],
        buggify: Buggify,
    ) -> None:
        super().__init__(request)
        body = request.body
        assert isinstance(body, FetchRequest)
        self._body = body
        self._context = context
        self._deadlines = deadlines
        self._limit = min(max(body.max_bytes, 0), limit)
        self._room = room
        self._buggify = buggify
        self._whole = body.session_epoch <= 0
        self._rack = "" if context.is_follower else body.rack_id
        self._selector = selector if self._rack else None
        self._from_any = bool(self._rack) or context.replica_id == DEBUGGING_CONSUMER
        self._traffic = traffic

    def park(self, until: int) -> None:
        self._context.enter()
        self._context.parked = self
        self._deadlines.add(until, self)
        self.request.on_close = self._leave

    def _leave(self) -> None:
        self._deadlines.remove(self)
        if self._context.parked is not self:
            return
        self._context.parked = None
        if not self._context.id:
            self._context.leave()

    # -- responding -----------------------------------------------------------------------------------------------

    def arrive(self, now: int, progress: TurnChanges, replicas: Replicas) -> bool:
        """Record what a follower's fetch reports, then respond if possible. Returns whether it responded."""
        found: dict[Watch, FetchBounds] = {}
        if self._context.is_follower:
            for watch in self._context.news:
                if watch.hosted is not None and not watch.hosted.removed:
                    found[watch] = self._note_arrival(now, watch, watch.hosted, progress, replicas)
        urgent = self._body.max_wait_ms <= 0 or self._body.min_bytes <= 0 or not self._context.watches
        if self._buggify.happens("fetch-empty"):
            return self._answer(now, found, urgent=True, room=0)
        return self._answer(now, found, urgent=urgent)

    def _note_arrival(
        self, now: int, watch: Watch, hosted: HostedPartition, progress: TurnChanges, replicas: Replicas
    ) -> FetchBounds:
        bounds = self._bounds(now, watch, arrived=True)
        if bounds.advanced:
            progress.advanced(hosted)
        if hosted.deletions:
            progress.low_watermark_moved(hosted)
        if hosted.replica.proposal is not None:
            replicas.isr_changed(hosted)
        return bounds

    def look(self, now: int) -> None:
        if self.request.closed or self._answer(now, {}, urgent=False):
            self._leave()

    def waits_in_vain(self) -> bool:
        """Whether it names something that is not read here any more. How much there is to read is weighed elsewhere."""
        return any(
            watch.hosted is None or watch.hosted.removed or not (self._from_any or watch.hosted.replica.is_leader)
            for watch in self._context.watches.values()
        )

    def expire(self, now: int) -> None:
        if not self.request.closed:
            self._answer(now, {}, urgent=True)
        self._leave()

    def _answer(self, now: int, known: dict[Watch, FetchBounds], *, urgent: bool, room: int | None = None) -> bool:
        """Respond if there is enough, something that must not wait, or `urgent`; reuse the bounds in `known`.

        `room` is how many bytes of records there may be; by default as many as there is memory for.
        """
        size = failed = 0
        room = self._room() if room is None else room
        limit = min(self._limit, room)
        findings: list[tuple[Watch, _Finding]] = []
        for watch in self._context.news:
            if failed >= MOST_FAILED and self._is_lost_to_follower(watch):
                continue
            finding = self._find(now, watch, known.get(watch), limit - size, first=size == 0 and room > 0)
            findings.append((watch, finding))
            urgent = urgent or finding.must_tell
            if finding.part is not None:
                size += len(finding.part.records or b"")
                failed += finding.part.error_code != 0
        if not urgent and size < self._body.min_bytes:
            return False
        self._count(findings, size)
        self.request.respond(FetchResponse(session_id=self._context.id, responses=self._told(findings)))
        return True

    def _is_lost_to_follower(self, watch: Watch) -> bool:
        """Whether the response to a follower may omit this topic-partition, which is not led here.

        A follower receives the new leaders from metadata and then forgets what is led elsewhere. Of the thousands that
        a stopping broker loses, naming some is enough to end the wait (rule 16). The others stay news.
        """
        if self._whole or not self._context.is_follower:
            return False
        return watch.hosted is None or not watch.hosted.replica.is_leader

    def _count(self, findings: list[tuple[Watch, _Finding]], size: int) -> None:
        """Count followers together, consumers by topic."""
        traffic = self._traffic
        if self._context.is_follower:
            traffic.replication_bytes_out += size
            return
        for watch, finding in findings:
            hosted = watch.hosted
            topic = traffic.elsewhere if hosted is None or hosted.removed else traffic.of(hosted.topic)
            topic.fetches += 1
            part = finding.part
            if part is not None:
                topic.bytes_out += len(part.records or b"")
                topic.fetch_failures += part.error_code != 0

    def _told(self, findings: list[tuple[Watch, _Finding]]) -> list[FetchableTopicResponse]:
        """Group the findings by topic; what is sent now is no longer news."""
        news = self._context.news
        topics: dict[bytes | str, FetchableTopicResponse] = {}
        for watch, finding in findings:
            part = finding.part
            if part is not None:
                watch.failed = part.error_code != 0
                watch.told_high_watermark = NOTHING_TOLD if watch.failed else part.high_watermark
                watch.told_log_start = NOTHING_TOLD if watch.failed else part.log_start_offset
                asked = watch.topic
                name: bytes | str = asked.topic_id if self._context.by_id else asked.topic
                topic = topics.get(name)
                if topic is None:
                    topic = topics[name] = FetchableTopicResponse(topic_id=asked.topic_id, topic=asked.topic)
                topic.partitions.append(part)
            if not finding.keep:
                del news[watch]
            elif part is not None and part.records:
                del news[watch]
                news[watch] = None
        return list(topics.values())

    # -- one topic-partition --------------------------------------------------------------------------------------

    def _find(self, now: int, watch: Watch, bounds: FetchBounds | None, limit: int, *, first: bool) -> _Finding:
        number = watch.wanted.partition
        hosted = watch.hosted
        if hosted is None:
            return _failure(_refused(number, watch.absence))
        if hosted.removed:
            return _failure(_refused(number, ErrorCode.NOT_LEADER_OR_FOLLOWER))
        if bounds is None:
            bounds = self._bounds(now, watch, arrived=False)
        if bounds.error:
            return _failure(self._refusal(number, bounds))
        records: memoryview | bytes = b""
        diverging = bounds.diverging
        if self._selector is not None and hosted.replica.is_leader and diverging is None:
            nearer = self._selector.select(hosted.replica, bounds.offset, self._rack)
            if nearer != LEADER:
                part = self._part(number, bounds, b"")
                part.preferred_read_replica = nearer
                return _Finding(part, must_tell=True, keep=True)
        available = diverging is None and bounds.upper > bounds.offset
        if available and (limit > 0 or first):
            wanted = min(max(watch.wanted.partition_max_bytes, 0), max(limit, 0))
            upper = bounds.upper
            if self._buggify.happens("fetch-one-batch"):
                wanted = min(wanted, 1)
            if self._buggify.happens("fetch-part"):
                upper = bounds.offset + (upper - bounds.offset + 1) // 2
            try:
                records = hosted.replica.read(bounds.offset, wanted, upper, at_least_one=first)
                if records and self._buggify.happens("fetch-cut"):
                    records = _cut(records, hosted.replica.read(bounds.offset, 1, upper, at_least_one=True))
            except LogError as refusal:
                return _failure(_refused(number, ErrorCode[refusal.kind]))
        keep = available or diverging is not None or self._must_weigh_again(watch)
        is_news = len(records) > 0 or diverging is not None or _has_changed(watch, bounds)
        told = self._part(number, bounds, records) if is_news else None
        return _Finding(told, must_tell=diverging is not None, keep=keep)

    def _must_weigh_again(self, watch: Watch) -> bool:
        """Whether to evaluate a follower outside the ISR again with each fetch, since any may make it fit to join.

        Not if it is fenced or stopping, or the controller has been asked already: each of its fetches would evaluate
        all it follows for nothing.
        """
        context = self._context
        if not context.may_join or watch.hosted is None:
            return False
        return context.replica_id not in watch.hosted.replica.maximal_isr

    def _part(self, number: int, bounds: FetchBounds, records: memoryview | bytes) -> PartitionData:
        part = PartitionData(
            number,
            0,
            bounds.high_watermark,
            bounds.high_watermark,
            bounds.log_start_offset,
            aborted_transactions=[] if self._body.isolation_level == READ_COMMITTED else None,
            records=records,
        )
        if bounds.diverging is not None:
            part.diverging_epoch = EpochEndOffset(*bounds.diverging)
        return part

    def _bounds(self, now: int, watch: Watch, *, arrived: bool) -> FetchBounds:
        assert watch.hosted is not None
        wanted, replica, context = watch.wanted, watch.hosted.replica, self._context
        if context.is_follower:
            return replica.follower_fetch(
                now,
                context.replica_id,
                context.broker_epoch,
                wanted.fetch_offset,
                wanted.last_fetched_epoch,
                wanted.current_leader_epoch,
                arrived=arrived,
                log_start_offset=wanted.log_start_offset,
            )
        return replica.consumer_fetch(
            wanted.fetch_offset, wanted.current_leader_epoch, wanted.last_fetched_epoch, from_any=self._from_any
        )

    def _refusal(self, number: int, bounds: FetchBounds) -> PartitionData:
        part = _refused(number, bounds.error)
        part.high_watermark = bounds.high_watermark
        part.log_start_offset = bounds.log_start_offset
        if bounds.error in _LEADER_HINTS:
            part.current_leader = LeaderIdAndEpoch(bounds.leader, bounds.leader_epoch)
        return part


def _has_changed(watch: Watch, bounds: FetchBounds) -> bool:
    return bounds.high_watermark != watch.told_high_watermark or bounds.log_start_offset != watch.told_log_start


def _cut(batches: memoryview | bytes, first: memoryview | bytes) -> memoryview | bytes:
    """The first batch and half of what follows it, which most often ends within a batch."""
    return batches[: len(first) + (len(batches) - len(first)) // 2]


def _failure(part: PartitionData) -> _Finding:
    return _Finding(part, must_tell=True, keep=True)


def _refused(number: int, error: int) -> PartitionData:
    return PartitionData(number, int(error), -1, -1, -1, records=b"")


class FetchHandler:
    """Responds to Fetch and keeps the fetch sessions."""

    def __init__(
        self,
        config: BrokerConfig,
        replicas: Replicas,
        progress: TurnChanges,
        deadlines: Deadlines,
        traffic: Traffic,
        *,
        rng: Rng,
        selector: RackAwareReplicaSelector | None = None,
        mutants: Mutants = HEALTHY,
        buggify: Buggify = OFF,
    ) -> None:
        self.sessions = FetchSessions(
            config.fetch_session_slots, config.fetch_session_topic_partitions, replicas, rng, mutants, buggify
        )
        self.room: Callable[[], int] = lambda: INT_MAX
        """Bytes of memory that responses may take now; if there are none, responses carry no records."""
        self._buggify = buggify
        self._selector = selector
        self._limit = config.fetch_max_bytes
        self._replicas = replicas
        self._progress = progress
        self._deadlines = deadlines
        self._traffic = traffic

    def handle(self, now: int, request: ServerRequest) -> None:
        body = request.body
        assert isinstance(body, FetchRequest)
        context = self.sessions.context_of(now, request)
        if isinstance(context, ErrorCode):
            request.respond(FetchResponse(error_code=int(context)))
            return
        fetch = Fetch(
            request, context, self._deadlines, self._limit, self._selector, self._traffic, self.room, self._buggify
        )
        if fetch.arrive(now, self._progress, self._replicas):
            return
        fetch.park(now + min(body.max_wait_ms, WAIT_MAX_MS) * 1000)
