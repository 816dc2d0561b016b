"""The follower's side of replication: one Fetch under way per leader broker, carrying every topic-partition led there.

DP-03, DP-04. The fetcher is sessionless (session id 0, epoch -1): every request names every topic-partition. It asks
again as soon as an answer has been dealt with; when there is nothing new the leader holds the request for
`fetch_wait_max`, so an idle pair of brokers exchanges two small messages per half second.

Per topic-partition, an answer may be

    records, high watermark          append, go on
    a diverging epoch                truncate by it, ask again at once (rule 13); several rounds may be needed
    OFFSET_OUT_OF_RANGE              ask ListOffsets for the leader's end, then its start: truncate or restart (rule 15)
    FENCED_LEADER_EPOCH              rest until metadata gives the topic-partition a newer epoch, i.e. `add` is called
    any other error                  rest for `fetch_backoff`; UNKNOWN_LEADER_EPOCH and NOT_LEADER_OR_FOLLOWER are
                                     ordinary around a leader change, when one side knows of it and the other not yet

An answer counts only for what was asked: if a replica has been removed, added anew or has moved meanwhile, its part of
the answer is dropped (mutant `stale-fetch-appended` looks at the offset alone). The broker calls `add` on every new
leader epoch, even of the same leader (rule 9).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from squall.nodes.mutants import HEALTHY, Mutants
from squall.nodes.protocol.errors import ErrorCode
from squall.nodes.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
    ReplicaState,
)
from squall.nodes.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from squall.nodes.protocol.schema import Message
from squall.nodes.protocol.session import OutboundRequest, ToBroker
from squall.nodes.replication.ports import FetchPosition, ReplicationConfig
from squall.nodes.replication.replica import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP, TopicPartitionReplica
from squall.nodes.storage.errors import LogError

NEVER = 2**63 - 1
_Key = tuple[bytes, int]


class _Followed:
    """One topic-partition: its replica, and from when on it may be asked for."""

    __slots__ = ("ready_at", "replica")

    def __init__(self, replica: TopicPartitionReplica, ready_at: int) -> None:
        self.replica = replica
        self.ready_at = ready_at


@dataclass(frozen=True, slots=True)
class _Asked:
    """What was asked of one topic-partition."""

    followed: _Followed
    position: FetchPosition


class ReplicaFetcher:
    """Follows one leader broker. `requests` is drained by the node; `truncations` and `failures` are counters."""

    def __init__(
        self,
        broker: int,
        leader: int,
        config: ReplicationConfig,
        *,
        broker_epoch: Callable[[], int],
        mutants: Mutants = HEALTHY,
    ) -> None:
        """`broker_epoch` gives this broker's current epoch, -1 before it is registered (KIP-903)."""
        self.broker = broker
        self.leader = leader
        self.requests: list[OutboundRequest] = []
        self.truncations = 0
        self.failures = 0
        self._config = config
        self._broker_epoch = broker_epoch
        self._followed: dict[_Key, _Followed] = {}
        self._takes_stale_answers = mutants.has("stale-fetch-appended")
        self._under_way = False
        self._rest_until = 0

    def __len__(self) -> int:
        """How many topic-partitions are followed."""
        return len(self._followed)

    def add(self, now: int, replica: TopicPartitionReplica) -> None:
        """Follow a topic-partition from its log's end, afresh if it was followed before."""
        self._followed[replica.topic_id, replica.partition] = _Followed(replica, now)

    def remove(self, topic_id: bytes, partition: int) -> None:
        self._followed.pop((topic_id, partition), None)

    def tick(self, now: int) -> None:
        """Ask, if no answer is outstanding and something may be asked for."""
        if self._under_way or now < self._rest_until:
            return
        asked = {
            key: _Asked(followed, followed.replica.fetch_position())
            for key, followed in self._followed.items()
            if followed.ready_at <= now
        }
        if asked:
            self._ask(asked)

    def deadline(self) -> int:
        if self._under_way or not self._followed:
            return NEVER
        return max(self._rest_until, min(followed.ready_at for followed in self._followed.values()))

    # -- asking -------------------------------------------------------------------------------------------------

    def _ask(self, asked: dict[_Key, _Asked]) -> None:
        self._under_way = True

        def complete(now: int, response: Message | None) -> None:
            self._answered(now, asked, response)

        request = OutboundRequest(ToBroker(self.leader), self._request(asked), self._config.request_timeout, complete)
        self.requests.append(request)

    def _request(self, asked: dict[_Key, _Asked]) -> FetchRequest:
        topics: dict[bytes, FetchTopic] = {}
        for (topic_id, partition), one in asked.items():
            topic = topics.get(topic_id)
            if topic is None:
                topic = topics[topic_id] = FetchTopic(topic_id=topic_id, topic=one.followed.replica.topic)
            topic.partitions.append(
                FetchPartition(
                    partition=partition,
                    current_leader_epoch=one.position.leader_epoch,
                    fetch_offset=one.position.offset,
                    last_fetched_epoch=one.position.last_fetched_epoch,
                    log_start_offset=one.position.log_start_offset,
                    partition_max_bytes=self._config.fetch_max_bytes,
                )
            )
        return FetchRequest(
            replica_state=ReplicaState(replica_id=self.broker, replica_epoch=self._broker_epoch()),
            replica_id=self.broker,
            max_wait_ms=self._config.fetch_wait_max // 1000,
            min_bytes=self._config.fetch_min_bytes,
            max_bytes=self._config.fetch_response_max_bytes,
            session_id=0,
            session_epoch=-1,
            topics=list(topics.values()),
        )

    # -- answers ------------------------------------------------------------------------------------------------

    def _answered(self, now: int, asked: dict[_Key, _Asked], response: Message | None) -> None:
        self._under_way = False
        if not isinstance(response, FetchResponse) or response.error_code:
            self.failures += 1
            self._rest_until = now + self._config.fetch_backoff
            return
        for topic in response.responses:
            for data in topic.partitions:
                key = (topic.topic_id, data.partition_index)
                one = asked.get(key)
                if one is not None and self._is_current(key, one):
                    self._take(now, key, one, data)
        self.tick(now)

    def _is_current(self, key: _Key, one: _Asked) -> bool:
        """Whether the topic-partition is still followed, and still where it was when it was asked for."""
        if self._takes_stale_answers:
            replica = one.followed.replica
            return not replica.is_leader and replica.end_offset == one.position.offset
        return self._followed.get(key) is one.followed and one.followed.replica.fetch_position() == one.position

    def _take(self, now: int, key: _Key, one: _Asked, data: PartitionData) -> None:
        replica = one.followed.replica
        if data.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            self._list_offset(key, one, LATEST_TIMESTAMP)
        elif data.error_code == ErrorCode.FENCED_LEADER_EPOCH:
            one.followed.ready_at = NEVER
        elif data.error_code != ErrorCode.NONE:
            self._rest(now, one)
        elif data.diverging_epoch.epoch >= 0:
            self.truncations += 1
            replica.truncate_diverging(now, data.diverging_epoch.epoch, data.diverging_epoch.end_offset)
        else:
            self._append(now, key, one, data)

    def _append(self, now: int, key: _Key, one: _Asked, data: PartitionData) -> None:
        records = data.records if data.records is not None else b""
        try:
            one.followed.replica.append_fetched(now, records, data.high_watermark, data.log_start_offset)
        except LogError:
            self._rest(now, one)
            return
        if len(records):
            # To the end of the queue: an answer is bounded in size, and the others must not starve.
            self._followed[key] = self._followed.pop(key)

    def _rest(self, now: int, one: _Asked) -> None:
        self.failures += 1
        one.followed.ready_at = now + self._config.fetch_backoff

    # -- out of range -------------------------------------------------------------------------------------------

    def _list_offset(self, key: _Key, one: _Asked, timestamp: int) -> None:
        """Ask where the leader's log ends or begins; the topic-partition is not fetched until it is known."""
        replica = one.followed.replica
        one.followed.ready_at = NEVER
        partition = ListOffsetsPartition(
            partition_index=replica.partition, current_leader_epoch=one.position.leader_epoch, timestamp=timestamp
        )
        message = ListOffsetsRequest(
            replica_id=self.broker, topics=[ListOffsetsTopic(name=replica.topic, partitions=[partition])]
        )

        def complete(now: int, response: Message | None) -> None:
            if self._is_current(key, one):
                self._listed(now, key, one, timestamp, response)

        self.requests.append(OutboundRequest(ToBroker(self.leader), message, self._config.request_timeout, complete))

    def _listed(self, now: int, key: _Key, one: _Asked, timestamp: int, response: Message | None) -> None:
        offset = _listed_offset(response)
        replica = one.followed.replica
        if offset is None:
            self._rest(now, one)
        elif timestamp == EARLIEST_TIMESTAMP:
            replica.restart_from_leader_start(now, offset)
            one.followed.ready_at = now
        elif replica.truncate_to_leader_end(now, offset):
            one.followed.ready_at = now
        else:
            self._list_offset(key, one, EARLIEST_TIMESTAMP)


def _listed_offset(response: Message | None) -> int | None:
    """The one offset that was asked for, None if the answer is an error or none."""
    if not isinstance(response, ListOffsetsResponse):
        return None
    for topic in response.topics:
        for partition in topic.partitions:
            if partition.error_code == ErrorCode.NONE and partition.offset >= 0:
                return partition.offset
    return None
