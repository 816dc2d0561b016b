"""One broker alone: metadata is written by hand, requests are handed in, peers are played by the test."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import TypeVar

from squall.harness.simulation.world.disk import SimDisk
from squall.nodes.broker.broker import Broker
from squall.nodes.broker.hosting.config import BrokerConfig, TopicDefaults
from squall.nodes.broker.observer import MetadataObserver
from squall.nodes.buggify import OFF, Buggify
from squall.nodes.metadata.image import Endpoint, MetadataImage
from squall.nodes.metadata.records import (
    BrokerEndpoint,
    ConfigRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    TopicRecord,
    UnfenceBrokerRecord,
    encode_record,
)
from squall.nodes.mutants import HEALTHY, Mutants
from squall.nodes.ports import NullTrace
from squall.nodes.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from squall.nodes.protocol.messages.broker_registration import BrokerRegistrationRequest, BrokerRegistrationResponse
from squall.nodes.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
    ReplicaState,
)
from squall.nodes.protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from squall.nodes.protocol.records import Record, build_batch
from squall.nodes.protocol.requests.session import OutboundRequest, ServerRequest
from squall.nodes.protocol.schema import Message
from squall.nodes.raft.metadata_log import CommittedBatch
from squall.nodes.replication.ports import ReplicationConfig
from squall.nodes.storage.log import LogConfig

SECOND = 1_000_000
OWN, OTHER, THIRD = 1, 2, 3
LISTENER = "PLAINTEXT"
Response = TypeVar("Response", bound=Message)


class Clock:
    def now_ms(self) -> int:
        return 1_700_000_000_000


class MetadataLog:
    """Committed batches, as the quorum replica would give them."""

    def __init__(self) -> None:
        self.batches: list[CommittedBatch] = []

    @property
    def high_watermark(self) -> int:
        return self.batches[-1].next_offset if self.batches else 0

    def snapshot_before(self, next_offset: int) -> None:
        """The log goes back to its beginning."""

    def committed(self, from_offset: int) -> Iterator[CommittedBatch]:
        return (batch for batch in self.batches if batch.next_offset > from_offset)

    def commit(self, *records: Message) -> None:
        values = tuple(encode_record(record) for record in records)
        self.batches.append(CommittedBatch(self.high_watermark, 1, 0, values, False))


def topic_id(name: str) -> bytes:
    return name.encode().ljust(16, b".")


class World:
    """A broker (id 1) and everything around it. Brokers 2 and 3 are registered and unfenced."""

    def __init__(self, mutants: Mutants = HEALTHY, disk: SimDisk | None = None, *, buggify: Buggify = OFF) -> None:
        self.now = 1000 * SECOND
        self.mutants = mutants
        self.buggify = buggify
        self.names_all = True
        """What the source of metadata says of itself in the next incarnation."""
        self.log = MetadataLog()
        self.disk = disk or SimDisk(Random(1))
        self.outgoing: list[OutboundRequest] = []
        self.config = BrokerConfig(
            node_id=OWN,
            cluster_id="cluster",
            endpoints=(Endpoint(LISTENER, "10.0.0.1", 9092),),
            topics=TopicDefaults(log=LogConfig(max_message_bytes=100_000)),
            replication=ReplicationConfig(lag_time_max=10 * SECOND),
            described=(("node.id", "1"),),
        )
        self.broker = self._make()

    def _make(self) -> Broker:
        return Broker(
            self.config, self._source,
            disk=self.disk, clock=Clock(), rng=Random(1), trace=NullTrace(), now=self.now,
            mutants=self.mutants, buggify=self.buggify,
        )  # fmt: skip

    def _source(self, image: MetadataImage) -> MetadataObserver:
        source = MetadataObserver(OWN, self.log, image, NullTrace())
        source.names_all = self.names_all
        return source

    def restart(self) -> None:
        """Close the broker cleanly and start another incarnation on its files, up to its registration."""
        self.broker.close(self.now)
        self.outgoing.clear()
        self.broker = self._make()
        self.register()

    # -- time and peers -------------------------------------------------------------------------------------------

    def run(self, after: int = 0) -> None:
        """Let time pass and take a turn. What the broker asks of others is kept in `outgoing`."""
        self.now += after
        self.broker.tick(self.now)
        self.broker.apply_metadata(self.now)
        self.broker.tick(self.now)
        self.broker.settle(self.now)
        self.outgoing += self.broker.take_requests()

    def all_asked(self, kind: type[Response]) -> list[tuple[OutboundRequest, Response]]:
        """Take the outbound requests of a kind that nobody has looked at."""
        found = [(one, one.message) for one in self.outgoing if isinstance(one.message, kind)]
        self.outgoing = [one for one in self.outgoing if not isinstance(one.message, kind)]
        return found

    def asked(self, kind: type[Response], after: int = 0) -> tuple[OutboundRequest, Response]:
        """The one outbound request of a kind, once `after` has passed."""
        self.run(after)
        [found] = self.all_asked(kind)
        return found

    def asked_nothing(self, kind: type[Message], after: int = 0) -> bool:
        self.run(after)
        return not self.all_asked(kind)

    def register(self) -> None:
        """Registered in metadata and by answer, not yet unfenced."""
        request, _ = self.asked(BrokerRegistrationRequest)
        epoch = self.log.high_watermark
        self.commit_brokers()
        request.complete(self.now, BrokerRegistrationResponse(broker_epoch=epoch))
        self.run()

    def commit_brokers(self) -> None:
        for broker in (OWN, OTHER, THIRD):
            epoch = self.log.high_watermark
            self.log.commit(
                RegisterBrokerRecord(
                    broker_id=broker,
                    broker_epoch=epoch,
                    end_points=[BrokerEndpoint(LISTENER, f"10.0.0.{broker}", 9092)],
                )
            )
            if broker != OWN:
                self.log.commit(UnfenceBrokerRecord(broker, epoch))

    def start(self) -> None:
        """Registered, unfenced, serving."""
        self.register()
        request, heartbeat = self.asked(BrokerHeartbeatRequest)
        assert not heartbeat.want_fence
        request.complete(self.now, BrokerHeartbeatResponse(is_fenced=False))
        self.log.commit(UnfenceBrokerRecord(OWN, heartbeat.broker_epoch))
        self.run()
        assert self.broker.is_serving

    # -- metadata -------------------------------------------------------------------------------------------------

    def create(
        self,
        name: str = "t",
        partitions: int = 1,
        replicas: tuple[int, ...] = (OWN, OTHER, THIRD),
        leader: int = OWN,
        min_isr: int = 1,
    ) -> None:
        records: list[Message] = [TopicRecord(name, topic_id(name))]
        if min_isr > 1:
            records.append(ConfigRecord(2, name, "min.insync.replicas", str(min_isr)))
        records += [
            PartitionRecord(
                partition_id=number,
                topic_id=topic_id(name),
                replicas=list(replicas),
                isr=list(replicas),
                leader=leader,
                leader_epoch=0,
                partition_epoch=0,
            )
            for number in range(partitions)
        ]
        self.commit(*records)

    def change(self, name: str = "t", partition: int = 0, **fields: object) -> None:
        record = PartitionChangeRecord(partition_id=partition, topic_id=topic_id(name))
        for field, value in fields.items():
            setattr(record, field, value)
        self.commit(record)

    def commit(self, *records: Message) -> None:
        self.log.commit(*records)
        self.run()
        while self.broker.replicas.is_busy:
            self.run()

    # -- requests of clients and followers ------------------------------------------------------------------------

    def ask(self, message: Message, version: int | None = None) -> ServerRequest:
        """Hand a request in, and settle."""
        version = message.VERSIONS[1] if version is None else version
        request = ServerRequest(message.API_KEY, version, message, "client", LISTENER, 1, self.now)
        self.broker.handle(self.now, request)
        self.broker.settle(self.now)
        return request

    def produce(
        self,
        *places: tuple[str, int],
        acks: int = -1,
        timeout_ms: int = 30_000,
        value: bytes = b"v",
        producer_id: int = -1,
    ) -> ServerRequest:
        """With a `producer_id`, as that producer's first batch: once more is a repetition."""
        idempotent = {"producer_id": producer_id, "producer_epoch": 0, "base_sequence": 0} if producer_id >= 0 else {}
        topics: dict[str, TopicProduceData] = {}
        for topic, partition in places or (("t", 0),):
            batch = memoryview(build_batch([Record(value=value)], timestamp=1000, **idempotent))
            topics.setdefault(topic, TopicProduceData(topic)).partition_data.append(
                PartitionProduceData(partition, batch)
            )
        return self.ask(ProduceRequest(acks=acks, timeout_ms=timeout_ms, topic_data=list(topics.values())), 9)

    def consume(self, offset: int, *, max_wait_ms: int = 500, min_bytes: int = 1, epoch: int = -1) -> ServerRequest:
        return self._fetch(FetchRequest(max_wait_ms=max_wait_ms, min_bytes=min_bytes), offset, epoch, -1)

    def follow(
        self, broker: int, offset: int, *, epoch: int = 0, last_epoch: int = 0, partitions: int = 1, log_start: int = -1
    ) -> ServerRequest:
        """A follower's fetch."""
        registration = self.broker.image.brokers[broker]
        message = FetchRequest(replica_state=ReplicaState(broker, registration.epoch), max_wait_ms=500, min_bytes=1)
        return self._fetch(message, offset, epoch, last_epoch if offset else -1, partitions, log_start)

    def _fetch(
        self,
        message: FetchRequest,
        offset: int,
        epoch: int,
        last_epoch: int,
        partitions: int = 1,
        log_start: int = -1,
    ) -> ServerRequest:
        message.topics = [
            FetchTopic(
                topic_id=topic_id("t"),
                partitions=[
                    FetchPartition(
                        partition=number,
                        fetch_offset=offset,
                        current_leader_epoch=epoch,
                        last_fetched_epoch=last_epoch,
                        log_start_offset=log_start,
                        partition_max_bytes=1 << 20,
                    )
                    for number in range(partitions)
                ],
            )
        ]
        return self.ask(message, 16)


def produced(request: ServerRequest) -> list[PartitionProduceResponse]:
    """The answer to a produce request, by topic-partition in the order asked; it must be there."""
    assert request.answer is not None, "not answered yet"
    response = request.answer.response
    assert isinstance(response, ProduceResponse)
    return [part for topic in response.responses for part in topic.partition_responses]


def fetched(request: ServerRequest) -> PartitionData:
    """The first topic-partition of the answer to a fetch; it must be there."""
    assert request.answer is not None, "not answered yet"
    response = request.answer.response
    assert isinstance(response, FetchResponse)
    return response.responses[0].partitions[0]
