"""Fetch: consumers and followers alike, as long polls (rules 10 to 16).

A fetch that finds less than `min_bytes` is parked until there is more, an error, a divergence, another leader epoch,
or its time is over (rule 16). A follower waits for the log's end and a consumer for the high watermark; the movement
of the high watermark alone wakes no follower. Only its arrival counts as news of a follower (rule 10): looking again
at a parked fetch proves nothing.

Fetches are sessionless: every answer carries session id 0, which all clients take to mean "ask in full next time".
Records are views of what was read from the log and go out uncopied.
"""

from __future__ import annotations

from squall.nodes.broker.config import BrokerConfig
from squall.nodes.broker.hosted import Deadlines, Hosted, Parked, Progress
from squall.nodes.broker.replicas import Replicas
from squall.nodes.protocol.errors import ErrorCode
from squall.nodes.protocol.messages.fetch import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    LeaderIdAndEpoch,
    PartitionData,
)
from squall.nodes.protocol.session import ServerRequest
from squall.nodes.replication.ports import FetchBounds
from squall.nodes.storage.errors import LogError

TOPIC_IDS_SINCE = 13
READ_COMMITTED = 1
_LEADER_HINTS = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)


class _Asked:
    """One topic-partition of a fetch: what is asked, and where it is, or why it is not."""

    __slots__ = ("absence", "hosted", "partition")

    def __init__(self, partition: FetchPartition, hosted: Hosted | None, absence: int) -> None:
        self.partition = partition
        self.hosted = hosted
        self.absence = absence


class Fetch(Parked):
    """One fetch request, parked or not. `topics` pairs each topic of the request with its topic-partitions."""

    __slots__ = ("_body", "_deadlines", "_limit", "_request", "_topics", "broker_epoch", "replica_id")

    def __init__(self, request: ServerRequest, replicas: Replicas, deadlines: Deadlines, limit: int) -> None:
        super().__init__()
        body = request.body
        assert isinstance(body, FetchRequest)
        self._request = request
        self._body = body
        self._deadlines = deadlines
        self._limit = min(max(body.max_bytes, 0), limit)
        state = body.replica_state
        self.replica_id = state.replica_id if request.api_version >= 15 else body.replica_id
        self.broker_epoch = state.replica_epoch if request.api_version >= 15 else -1
        by_id = request.api_version >= TOPIC_IDS_SINCE
        self._topics: list[tuple[str, bytes, list[_Asked]]] = []
        for topic in body.topics:
            asked = []
            for partition in topic.partitions:
                if by_id:
                    hosted = replicas.by_id(topic.topic_id, partition.partition)
                    absence = 0 if hosted else replicas.absence_by_id(topic.topic_id, partition.partition)
                else:
                    hosted = replicas.by_name(topic.topic, partition.partition)
                    absence = 0 if hosted else replicas.absence(topic.topic, partition.partition)
                asked.append(_Asked(partition, hosted, absence))
            self._topics.append((topic.topic, topic.topic_id, asked))

    @property
    def is_follower(self) -> bool:
        return self.replica_id >= 0

    def park(self, until: int) -> None:
        """Wait at every topic-partition that was asked for."""
        for waiting in self._places():
            waiting[self] = None
        self._deadlines.add(until, self)

    def _leave(self) -> None:
        self._deadlines.remove(self)
        for waiting in self._places():
            waiting.pop(self, None)

    def _places(self) -> list[dict[Parked, None]]:
        hosts = [asked.hosted for _, _, every in self._topics for asked in every if asked.hosted is not None]
        return [hosted.followers if self.is_follower else hosted.consumers for hosted in hosts]

    # -- answering ------------------------------------------------------------------------------------------------

    def arrive(self, now: int, progress: Progress, replicas: Replicas) -> bool:
        """Take a follower's news, then answer if that is possible at once; whether it was."""
        if self.is_follower:
            for _, _, every in self._topics:
                for asked in every:
                    if asked.hosted is not None:
                        self._note_arrival(now, asked, progress, replicas)
        return self._answer(now, urgent=self._body.max_wait_ms <= 0 or self._body.min_bytes <= 0)

    def _note_arrival(self, now: int, asked: _Asked, progress: Progress, replicas: Replicas) -> None:
        hosted = asked.hosted
        assert hosted is not None
        if self._bounds(now, asked, arrived=True).advanced:
            progress.advanced(hosted)
        if hosted.deletions:
            progress.low_watermark_moved(hosted)
        if hosted.replica.proposal is not None:
            replicas.isr_changed(hosted)

    def look(self, now: int) -> None:
        if self._request.closed or self._answer(now, urgent=False):
            self._leave()

    def expire(self, now: int) -> None:
        if not self._request.closed:
            self._answer(now, urgent=True)
        self._leave()

    def _answer(self, now: int, *, urgent: bool) -> bool:
        """Respond if there is enough, or anything that must not wait, or it is urgent."""
        size = 0
        responses = []
        for name, topic_id, every in self._topics:
            parts = []
            for asked in every:
                part, hurry = self._answer_partition(now, asked, self._limit - size, first=size == 0)
                urgent = urgent or hurry
                size += len(part.records or b"")
                parts.append(part)
            responses.append(FetchableTopicResponse(topic_id=topic_id, topic=name, partitions=parts))
        if not urgent and size < self._body.min_bytes:
            return False
        self._request.respond(FetchResponse(responses=responses))
        return True

    def _answer_partition(self, now: int, asked: _Asked, limit: int, *, first: bool) -> tuple[PartitionData, bool]:
        """The answer for one topic-partition, and whether it must not wait for more."""
        number = asked.partition.partition
        if asked.hosted is None:
            return _refused(number, asked.absence), True
        bounds = self._bounds(now, asked, arrived=False)
        if bounds.error:
            return self._refusal(number, bounds), True
        part = PartitionData(
            number,
            0,
            bounds.high_watermark,
            bounds.high_watermark,
            bounds.log_start_offset,
            aborted_transactions=[] if self._body.isolation_level == READ_COMMITTED else None,
            records=b"",
        )
        if bounds.diverging is not None:
            part.diverging_epoch = EpochEndOffset(*bounds.diverging)
            return part, True
        if bounds.upper > bounds.offset and (limit > 0 or first):
            wanted = min(max(asked.partition.partition_max_bytes, 0), max(limit, 0))
            try:
                part.records = asked.hosted.replica.read(bounds.offset, wanted, bounds.upper, at_least_one=first)
            except LogError as refusal:
                return _refused(number, ErrorCode[refusal.kind]), True
        return part, False

    def _bounds(self, now: int, asked: _Asked, *, arrived: bool) -> FetchBounds:
        assert asked.hosted is not None
        wanted, replica = asked.partition, asked.hosted.replica
        if self.is_follower:
            return replica.follower_fetch(
                now,
                self.replica_id,
                self.broker_epoch,
                wanted.fetch_offset,
                wanted.last_fetched_epoch,
                wanted.current_leader_epoch,
                arrived=arrived,
                log_start_offset=wanted.log_start_offset,
            )
        return replica.consumer_fetch(wanted.fetch_offset, wanted.current_leader_epoch, wanted.last_fetched_epoch)

    def _refusal(self, number: int, bounds: FetchBounds) -> PartitionData:
        part = _refused(number, bounds.error)
        part.high_watermark = bounds.high_watermark
        part.log_start_offset = bounds.log_start_offset
        if bounds.error in _LEADER_HINTS:
            part.current_leader = LeaderIdAndEpoch(bounds.leader, bounds.leader_epoch)
        return part


def _refused(number: int, error: int) -> PartitionData:
    return PartitionData(number, int(error), -1, -1, -1, records=b"")


class FetchHandler:
    """See the module."""

    def __init__(self, config: BrokerConfig, replicas: Replicas, progress: Progress, deadlines: Deadlines) -> None:
        self._limit = config.fetch_max_bytes
        self._replicas = replicas
        self._progress = progress
        self._deadlines = deadlines

    def handle(self, now: int, request: ServerRequest) -> None:
        body = request.body
        assert isinstance(body, FetchRequest)
        if body.session_id:
            request.respond(FetchResponse(error_code=int(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)))
            return
        fetch = Fetch(request, self._replicas, self._deadlines, self._limit)
        if fetch.arrive(now, self._progress, self._replicas):
            return
        fetch.park(now + body.max_wait_ms * 1000)
