"""A client that asks brokers at random moments of a load, under all its faults, and expects nothing.

Answers during faults may be errors, late, or none, so a client cannot judge them. The observer can: it sees what the
node has at the moment at which it answers (`observer/rules/clients/looked_up_offsets.py`). So this client brings nodes
to answer what the load never asks: the offset of any time, the end of any leader epoch, records from anywhere, also as
one who knows an earlier leader epoch or a later one, and whether what is deleted at the leader is so everywhere: by
asking again to delete it. It asks as clients of many versions do. The older ones know no leader epochs and no sessions,
and what they cannot say must be taken as not said. Without faults the same is asked, with expectations, by
`closing_check.py`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from random import Random

from squall.harness.simulation.world.process import SimProcess
from squall.harness.simulation.world.world import SimWorld
from squall.nodes.protocol.messages import ApiKey
from squall.nodes.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from squall.nodes.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from squall.nodes.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from squall.nodes.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from squall.nodes.protocol.schema import Message
from squall.nodes.replication.replica import TopicPartitionReplica
from squall.workloads.clients.native.connection import KafkaConnection

SHARE = 0.5
"""The probability that a run has this client."""
STREAM, VERSIONS_STREAM = "questions", "versions of questions"
PAUSE = (0.02, 0.25)
"""Seconds of virtual time between two questions."""
BURSTS = 0.1
"""The probability that several questions follow one another without a pause."""
ANSWER_SECONDS = 1.0
CLIENT_ID = "squall-questions"
TO_THE_LEADER = 0.8
"""The probability that a question goes to a broker which takes itself for the leader, if there is one."""
CONSUMER = -1
NO_EPOCH = -1
"""The leader epoch of a client that knows none."""
TIMESTAMPS = (-1, -2, -3, -4)
"""Latest, earliest, largest timestamp, earliest local."""
DELETED_MS, WAIT_MS = 500, 60
VERSIONS: Mapping[ApiKey, tuple[int, int]] = {
    ApiKey.LIST_OFFSETS: (1, 8),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: (2, 4),
    ApiKey.FETCH: (4, 12),  # from version 13 on a topic has no name
    ApiKey.DELETE_RECORDS: (0, 2),
}
"""By API, the first and the last version in which a question may be asked."""
NEWEST = 0.6
"""The probability that a question is asked in the last of these versions."""

Question = tuple[Message, int, type[Message]]


class RandomQuestions:
    """See the module. `topics` has the number of partitions by topic."""

    def __init__(self, world: SimWorld, topics: Mapping[str, int]) -> None:
        self._world = world
        self._rng: Random = world.streams.stream(STREAM)
        self._versions: Random = world.streams.stream(VERSIONS_STREAM)
        self._places = [(topic, number) for topic, count in topics.items() for number in range(count)]
        self._addresses = {one.name: (one.address, one.port) for one in world.places if one.is_broker}
        self._connections: dict[str, KafkaConnection] = {}
        self.asked = self.answered = 0

    async def run(self) -> None:
        """Ask until cancelled."""
        try:
            while True:
                await asyncio.sleep(self._rng.uniform(*PAUSE))
                if self._rng.random() < BURSTS:
                    await self._ask_at_once()
                else:
                    await self._ask(*self._rng.choice(self._places))
        finally:
            for connection in self._connections.values():
                connection.close()

    async def _ask_at_once(self) -> None:
        """Ask one broker several questions over one connection, without waiting for answers in between."""
        topic, number = self._rng.choice(self._places)
        to = self._broker(topic, number)
        fetches = [self._rng.random() < 0.7 for _ in range(self._rng.randint(4, 10))]
        await asyncio.gather(*(self._ask(topic, number, to, waits=waits) for waits in fetches))

    def _broker(self, topic: str, number: int) -> SimProcess:
        processes = [self._world.processes[name] for name in self._addresses]
        replicas = [_replica_of(one, topic, number) for one in processes]
        leading = [one for one, replica in zip(processes, replicas, strict=True) if replica and replica.is_leader]
        return self._rng.choice(leading if leading and self._rng.random() < TO_THE_LEADER else processes)

    async def _ask(self, topic: str, number: int, to: SimProcess | None = None, *, waits: bool = False) -> None:
        """Ask one thing; with `waits` a fetch of what comes next, whose answer the broker holds back for a while."""
        to = to or self._broker(topic, number)
        message, version, answer = self._next(topic, number, to) if waits else self._question(topic, number, to)
        self.asked += 1
        try:
            await (await self._connection(to.name)).request(message, version, answer, ANSWER_SECONDS)
        except OSError:
            self._connections.pop(to.name, None)
        else:
            self.answered += 1

    async def _connection(self, name: str) -> KafkaConnection:
        found = self._connections.get(name)
        if found is None or found.gone is not None:
            host, port = self._addresses[name]
            connector = self._world.connector()
            found = self._connections[name] = await KafkaConnection.connect(connector, host, port, CLIENT_ID)
        return found

    def _version(self, api: ApiKey) -> int:
        first, last = VERSIONS[api]
        return last if self._versions.random() < NEWEST else self._versions.randint(first, last)

    def _next(self, topic: str, number: int, to: SimProcess) -> Question:
        end = _extent(_replica_of(to, topic, number))[2]
        part = FetchPartition(number, NO_EPOCH, fetch_offset=end, partition_max_bytes=4_000)
        topics = [FetchTopic(topic=topic, partitions=[part])]
        request = FetchRequest(max_wait_ms=WAIT_MS, min_bytes=1, topics=topics)
        return request, self._version(ApiKey.FETCH), FetchResponse

    def _question(self, topic: str, number: int, to: SimProcess) -> Question:
        rng = self._rng
        epoch, start, end = _extent(_replica_of(to, topic, number))
        known = rng.choice((NO_EPOCH, NO_EPOCH, epoch - 1, epoch, epoch + 1))
        kind = rng.random()
        if kind < 0.6:
            past = int((to.clock.true_s() - rng.uniform(-1, 20)) * 1000)
            timestamp = past if rng.random() < 0.6 else rng.choice(TIMESTAMPS)
            listed = ListOffsetsTopic(topic, [ListOffsetsPartition(number, known, timestamp)])
            return ListOffsetsRequest(CONSUMER, 0, [listed]), self._version(ApiKey.LIST_OFFSETS), ListOffsetsResponse
        if kind < 0.8:
            ended = OffsetForLeaderTopic(topic, [OffsetForLeaderPartition(number, known, rng.randint(0, epoch))])
            epochs = OffsetForLeaderEpochRequest(CONSUMER, [ended])
            return epochs, self._version(ApiKey.OFFSET_FOR_LEADER_EPOCH), OffsetForLeaderEpochResponse
        if kind < 0.85:
            deleted = DeleteRecordsTopic(topic, [DeleteRecordsPartition(number, start)])
            deletion = DeleteRecordsRequest([deleted], DELETED_MS)
            return deletion, self._version(ApiKey.DELETE_RECORDS), DeleteRecordsResponse
        part = FetchPartition(
            number,
            known,
            fetch_offset=rng.choice((rng.randint(start, end), start - 1, start, end, end + 1, end + 1_000)),
            partition_max_bytes=rng.choice((1, 4_000)),
        )
        request = FetchRequest(
            max_wait_ms=rng.choice((0, 100)),
            min_bytes=rng.choice((0, 1)),
            topics=[FetchTopic(topic=topic, partitions=[part])],
        )
        return request, self._version(ApiKey.FETCH), FetchResponse


def _replica_of(process: SimProcess, topic: str, number: int) -> TopicPartitionReplica | None:
    node = process.node
    found = None if node is None or node.broker is None else node.broker.replicas.by_name(topic, number)
    return None if found is None else found.replica


def _extent(replica: TopicPartitionReplica | None) -> tuple[int, int, int]:
    """Return the leader epoch of a replica, and where its log begins and ends; zeros without a replica."""
    if replica is None:
        return 0, 0, 0
    return max(replica.leader_epoch, 0), replica.log.start_offset, replica.end_offset
