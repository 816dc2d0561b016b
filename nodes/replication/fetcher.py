"""Fetch from one leader broker: one fetch session for all topic-partitions that it leads and this broker follows.

DP-03, DP-04. A fetch session (KIP-227) begins with a request that names every topic-partition. Later requests name only
those whose position has changed, and the leader responds only for those with news, so that the cost of replication is
proportional to what is replicated. The fetcher sends the next request as soon as it has applied a response; if there is
nothing new, the leader holds the request for `fetch_wait_max`. Without a response, or with an error for the whole
request, a new session begins.

There is one request under way. One more may follow it, once, when topic-partitions are to be added: the leader responds
to the request it holds as soon as the next of the session arrives, so a topic-partition that changes its leader does
not wait for a long poll to end.

Per topic-partition, a response may be

    records, high watermark          append, continue
    a diverging epoch                truncate by it, retry at once (rule 13); several rounds may be needed
    OFFSET_OUT_OF_RANGE              ListOffsets for the leader's end, then its start: truncate or restart (rule 15)
    FENCED_LEADER_EPOCH              pause until metadata gives the topic-partition a newer epoch, i.e. `add` is called
    any other error                  pause for `fetch_backoff`; UNKNOWN_LEADER_EPOCH and NOT_LEADER_OR_FOLLOWER are
                                     normal around a leader change, when one side knows of it and the other not yet

A new leader epoch ends every pause: that of the topic-partition, and that of the whole fetcher after a failure, since
the newly elected leader was alive a moment ago.

A response counts for its own request only. If a topic-partition has been removed, named again, or its log has moved
since that request, its part of the response is dropped (mutant `stale-fetch-appended` appends the part beyond the log's
end). Every dropped part was named again or will be with the next request, and the leader then sends all of it again
(`broker/requests/fetch_sessions.py`). The broker calls `add` on every new leader epoch, even of the same leader
(rule 9).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from squall.nodes.mutants import HEALTHY, Mutants
from squall.nodes.protocol.errors import NO_ERROR, ErrorCode
from squall.nodes.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
    ReplicaState,
)
from squall.nodes.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from squall.nodes.protocol.records import iterate_batches
from squall.nodes.protocol.requests.session import OutboundRequest, ToBroker
from squall.nodes.protocol.schema import Message
from squall.nodes.protocol.wire import Buffer
from squall.nodes.replication.fetch_session import FetchSession
from squall.nodes.replication.ports import FetchPosition, ReplicationConfig
from squall.nodes.replication.replica import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, TopicPartitionReplica
from squall.nodes.storage.errors import LogError

NEVER = 2**63 - 1
_Key = tuple[bytes, int]
_SESSION_ERRORS = (
    ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
    ErrorCode.INVALID_FETCH_SESSION_EPOCH,
    ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
)


class _Followed:
    """One topic-partition: its replica, and from when on it may be requested."""

    __slots__ = ("ready_at", "replica")

    def __init__(self, replica: TopicPartitionReplica, ready_at: int) -> None:
        self.replica = replica
        self.ready_at = ready_at


class _Asked(NamedTuple):
    """What was requested for one topic-partition, and the number of that request."""

    followed: _Followed
    position: FetchPosition
    request: int


class ReplicaFetcher:
    """Follows one leader broker.

    The node drains `requests`; the broker drains `advanced`: replicas whose high watermark has moved.
    """

    def __init__(
        self,
        broker: int,
        leader: int,
        config: ReplicationConfig,
        *,
        broker_epoch: Callable[[], int],
        mutants: Mutants = HEALTHY,
    ) -> None:
        """`broker_epoch` returns this broker's last epoch, -1 before it is first registered (KIP-903)."""
        self.broker = broker
        self.leader = leader
        self.requests: list[OutboundRequest] = []
        self.advanced: list[TopicPartitionReplica] = []
        self.bytes_in = 0
        self._config = config
        self._broker_epoch = broker_epoch
        self._takes_stale_answers = mutants.has("stale-fetch-appended")
        self._followed: dict[_Key, _Followed] = {}
        self._moved: dict[_Key, None] = {}
        """To include in the next request: new, or at another position than in the leader's session."""
        self._resting: dict[_Key, None] = {}
        """Waiting for their `ready_at`."""
        self._asked: dict[_Key, _Asked] = {}
        """Held by the leader's session: requested, and not yet forgotten."""
        self._unwanted: dict[_Key, None] = {}
        """To forget with the next request."""
        self._session = FetchSession()
        self._under_way = 0
        self._asked_count = 0
        self._added = False
        self._rest_until = 0

    def __len__(self) -> int:
        """How many topic-partitions are followed."""
        return len(self._followed)

    @property
    def session(self) -> tuple[int, int]:
        """(id, epoch of the next fetch) of the session; the epoch is 0 before the leader has confirmed it."""
        return self._session.id, self._session.epoch

    def position_asked(self, topic_id: bytes, partition: int) -> FetchPosition | None:
        """The position that the leader's session holds of a topic-partition, None if it holds none."""
        asked = self._asked.get((topic_id, partition))
        return None if asked is None else asked.position

    def add(self, now: int, replica: TopicPartitionReplica) -> None:
        """Follow a topic-partition from its log's end; if it was followed already, start again."""
        key = (replica.topic_id, replica.partition)
        self._followed[key] = _Followed(replica, now)
        self._resting.pop(key, None)
        self._ask_next(key)
        self._added = True
        self._rest_until = 0

    def remove(self, topic_id: bytes, partition: int) -> None:
        key = (topic_id, partition)
        self._followed.pop(key, None)
        self._resting.pop(key, None)
        self._drop(key)

    def moved(self, topic_id: bytes, partition: int) -> None:
        """Handle a log start that differs from the one last sent to the leader."""
        key = (topic_id, partition)
        if key in self._asked and key not in self._unwanted:
            self._ask_next(key)

    def tick(self, now: int) -> None:
        """Send a request if no response is outstanding and something may be requested."""
        if self._resting:
            self._wake(now)
        if now < self._rest_until:
            return
        if not self._under_way:
            if self._moved or len(self._asked) > len(self._unwanted):
                self._ask()
        elif self._added and self._under_way == 1 and self._session.established:
            self._ask()

    def deadline(self) -> int:
        if self._under_way:
            if self._under_way > 1 or not self._session.established:
                return NEVER
            if self._added:
                return self._rest_until
        elif self._moved or len(self._asked) > len(self._unwanted):
            return self._rest_until
        if not self._resting:
            return NEVER
        return max(self._rest_until, min(self._followed[key].ready_at for key in self._resting))

    # -- which topic-partitions ---------------------------------------------------------------------------------

    def _ask_next(self, key: _Key) -> None:
        if key in self._followed:
            self._moved[key] = None
            self._unwanted.pop(key, None)

    def _drop(self, key: _Key) -> None:
        """Stop requesting a topic-partition."""
        self._moved.pop(key, None)
        if key in self._asked:
            self._unwanted[key] = None

    def _rest(self, key: _Key, until: int) -> None:
        """Pause a topic-partition until `until`."""
        self._followed[key].ready_at = until
        self._drop(key)
        if until < NEVER:
            self._resting[key] = None

    def _wake(self, now: int) -> None:
        ready = [key for key in self._resting if self._followed[key].ready_at <= now]
        for key in ready:
            del self._resting[key]
            self._ask_next(key)
            self._added = True

    # -- asking -------------------------------------------------------------------------------------------------

    def _ask(self) -> None:
        if not self._session.established:
            self._ask_for_all()
        named, forgotten = self._moved, self._unwanted
        self._moved, self._unwanted = {}, {}
        for key in forgotten:
            del self._asked[key]
        self._asked_count += 1
        number = self._asked_count
        for key in named:
            followed = self._followed[key]
            self._asked[key] = _Asked(followed, followed.replica.fetch_position(), number)
        self._under_way += 1
        self._added = False
        request = self._request(named, forgotten)
        session = self._session

        def complete(now: int, response: Message | None) -> None:
            self._answered(now, session, number, response)

        self.requests.append(OutboundRequest(ToBroker(self.leader), request, self._config.request_timeout, complete))

    def _ask_for_all(self) -> None:
        """Request everything, since there is no session; first what has not moved, which has waited longest."""
        still = [key for key in self._asked if key not in self._unwanted and key not in self._moved]
        self._moved = dict.fromkeys(still) | self._moved
        self._asked.clear()
        self._unwanted.clear()

    def _request(self, named: dict[_Key, None], forgotten: dict[_Key, None]) -> FetchRequest:
        topics: dict[bytes, FetchTopic] = {}
        for key in named:
            topic_id, number = key
            topic = topics.get(topic_id)
            if topic is None:
                topic = topics[topic_id] = FetchTopic(topic_id=topic_id, topic=self._asked[key].followed.replica.topic)
            position = self._asked[key].position
            topic.partitions.append(
                FetchPartition(
                    partition=number,
                    current_leader_epoch=position.leader_epoch,
                    fetch_offset=position.offset,
                    last_fetched_epoch=position.last_fetched_epoch,
                    log_start_offset=position.log_start_offset,
                    partition_max_bytes=self._config.fetch_max_bytes,
                )
            )
        gone: dict[bytes, ForgottenTopic] = {}
        for topic_id, number in forgotten:
            gone.setdefault(topic_id, ForgottenTopic(topic_id=topic_id)).partitions.append(number)
        session_id, session_epoch = self._session.next()
        return FetchRequest(
            replica_state=ReplicaState(replica_id=self.broker, replica_epoch=self._broker_epoch()),
            replica_id=self.broker,
            max_wait_ms=self._config.fetch_wait_max // 1000,
            min_bytes=self._config.fetch_min_bytes,
            max_bytes=self._config.fetch_response_max_bytes,
            session_id=session_id,
            session_epoch=session_epoch,
            topics=list(topics.values()),
            forgotten_topics_data=list(gone.values()),
        )

    # -- responses ----------------------------------------------------------------------------------------------

    def _answered(self, now: int, session: FetchSession, number: int, response: Message | None) -> None:
        """Apply the response to request `number`. It does not count for what was requested again since then."""
        self._under_way -= 1
        if session is not self._session:
            return  # of a session that was replaced: everything has been requested again
        if not isinstance(response, FetchResponse) or response.error_code:
            self._start_over(now, response)
            return
        session.answered(response.session_id)
        for topic in response.responses:
            for data in topic.partitions:
                key = (topic.topic_id, data.partition_index)
                one = self._asked.get(key)
                if one is not None and one.request <= number and self._is_current(key, one):
                    self._take(now, key, one, data)
        self.tick(now)

    def _start_over(self, now: int, response: Message | None) -> None:
        """Begin another session: this one is lost, or may be. If the leader dropped it, do not pause."""
        self._session = self._session.successor()
        if isinstance(response, FetchResponse) and response.error_code in _SESSION_ERRORS:
            self.tick(now)
            return
        self._rest_until = now + self._config.fetch_backoff

    def _is_current(self, key: _Key, one: _Asked) -> bool:
        """Whether the topic-partition is still followed, and at the position of its request."""
        replica, asked = one.followed.replica, one.position
        if self._takes_stale_answers:
            return replica.end_offset >= asked.offset
        if self._followed.get(key) is not one.followed or key in self._unwanted:
            return False
        return _without_log_start(replica.fetch_position()) == _without_log_start(asked)

    def _take(self, now: int, key: _Key, one: _Asked, data: PartitionData) -> None:
        replica = one.followed.replica
        if data.error_code == NO_ERROR:
            if data.diverging_epoch.epoch >= 0:
                high_watermark = replica.high_watermark
                replica.truncate_diverging(now, data.diverging_epoch.epoch, data.diverging_epoch.end_offset)
                self._note_move(replica, high_watermark)
                self._ask_next(key)
            else:
                self._append(now, key, one, data)
        elif key not in self._followed:
            return
        elif data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            self._list_offset(key, one, LATEST_TIMESTAMP)
        elif data.error_code == ErrorCode.FENCED_LEADER_EPOCH:
            self._rest(key, NEVER)
        else:
            self._failed(now, key)

    def _append(self, now: int, key: _Key, one: _Asked, data: PartitionData) -> None:
        replica = one.followed.replica
        records = data.records if data.records is not None else b""
        if self._takes_stale_answers:
            records = _beyond(records, replica.end_offset)
        high_watermark = replica.high_watermark
        try:
            replica.append_fetched(now, records, data.high_watermark, data.log_start_offset)
        except LogError:
            if key in self._followed:
                self._failed(now, key)
            return
        self.bytes_in += len(records)
        self._note_move(replica, high_watermark)
        if replica.fetch_position() != one.position:
            self._ask_next(key)

    def _note_move(self, replica: TopicPartitionReplica, before: int) -> None:
        """Whoever reads here must hear of a high watermark that has moved, in either direction."""
        if replica.high_watermark != before:
            self.advanced.append(replica)

    def _failed(self, now: int, key: _Key) -> None:
        self._rest(key, now + self._config.fetch_backoff)

    # -- out of range -------------------------------------------------------------------------------------------

    def _list_offset(self, key: _Key, one: _Asked, timestamp: int) -> None:
        """Ask where the leader's log ends or begins; the topic-partition is not fetched until the response."""
        replica = one.followed.replica
        self._rest(key, NEVER)
        partition = ListOffsetsPartition(
            partition_index=replica.partition, current_leader_epoch=one.position.leader_epoch, timestamp=timestamp
        )
        message = ListOffsetsRequest(
            replica_id=self.broker, topics=[ListOffsetsTopic(name=replica.topic, partitions=[partition])]
        )

        def complete(now: int, response: Message | None) -> None:
            if self._followed.get(key) is one.followed:
                self._listed(now, key, one, timestamp, response)

        self.requests.append(OutboundRequest(ToBroker(self.leader), message, self._config.request_timeout, complete))

    def _listed(self, now: int, key: _Key, one: _Asked, timestamp: int, response: Message | None) -> None:
        offset = _listed_offset(response)
        replica = one.followed.replica
        high_watermark = replica.high_watermark
        if offset is None:
            self._failed(now, key)
        elif timestamp == EARLIEST_TIMESTAMP:
            if replica.restart_from_leader_start(now, offset):
                self._rest(key, now)
            else:
                self._failed(now, key)
        elif replica.truncate_to_leader_end(now, offset):
            self._rest(key, now)
        else:
            self._list_offset(key, one, EARLIEST_TIMESTAMP)
        self._note_move(replica, high_watermark)


def _without_log_start(position: FetchPosition) -> tuple[int, int, int]:
    """What the records of an answer depend on."""
    return position.offset, position.last_fetched_epoch, position.leader_epoch


def _beyond(records: Buffer, end_offset: int) -> Buffer:
    """The batches that begin at `end_offset` or later."""
    size = 0
    for header, batch in iterate_batches(records, torn_tail=True):
        if header.base_offset >= end_offset:
            break
        size += len(batch)
    return memoryview(records)[size:]


def _listed_offset(response: Message | None) -> int | None:
    """The requested offset, None if the response is missing or an error."""
    if not isinstance(response, ListOffsetsResponse):
        return None
    for topic in response.topics:
        for partition in topic.partitions:
            if partition.error_code == NO_ERROR and partition.offset >= 0:
                return partition.offset
    return None
