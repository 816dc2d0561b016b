"""The four clients behind one face: kcat, confluent-kafka, kafka-python, aiokafka.

    library.partitions(topic)                          what the cluster's metadata says, as this client sees it
    library.produce(topic, 0, records, codec)          acks=all, idempotent, waits for every acknowledgement
    library.consume(topic, 0, count)                   manual assignment from the beginning, no group

What only some of them offer (headers, tombstones) is stated as a fact of the class; admin calls differ too much to be
hidden and have tests of their own.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import time
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import aiokafka
import confluent_kafka
import kafka
from aiokafka.admin import AIOKafkaAdminClient
from confluent_kafka import KafkaError
from confluent_kafka.admin import AdminClient, NewTopic

from tests.interop.records import Delivered, Record
from tests.waiting import wait_until

CODECS = ("none", "gzip", "lz4", "zstd")
DEADLINE_S = 20.0
DELIMITER = "\t"


@dataclass(frozen=True)
class PartitionFacts:
    """One topic-partition in the cluster's metadata."""

    leader: int
    replicas: frozenset[int]
    in_sync: frozenset[int]


class ClientLibrary(ABC):
    """See the module."""

    name: ClassVar[str]
    writes_headers: ClassVar[bool] = True

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap

    @abstractmethod
    def brokers(self) -> dict[int, int]:
        """The port of every broker, by id."""

    @abstractmethod
    def partitions(self, topic: str) -> dict[int, PartitionFacts]:
        """The topic's topic-partitions; empty if there is no such topic."""

    @abstractmethod
    def produce(self, topic: str, partition: int, records: list[Record], codec: str = "none") -> list[int]:
        """Write, wait for every acknowledgement; the offsets acknowledged, empty if the client does not tell."""

    @abstractmethod
    def consume(self, topic: str, partition: int, count: int) -> list[Delivered]:
        """The first `count` records, or as many as came before the deadline."""

    @abstractmethod
    def end_offset(self, topic: str, partition: int) -> int:
        """The high watermark, by ListOffsets."""


class Kcat(ClientLibrary):
    """kcat 1.7 on librdkafka 2.0, the command line's client."""

    name = "kcat"
    writes_headers = False

    def _run(self, *arguments: str, given: bytes = b"") -> bytes:
        command = ["kcat", "-b", self.bootstrap, *arguments]
        done = subprocess.run(command, input=given, capture_output=True, timeout=DEADLINE_S)
        assert done.returncode == 0, f"{' '.join(command)}: {done.stderr.decode()}"
        return done.stdout

    def _metadata(self, *arguments: str) -> dict[str, Any]:
        answer: dict[str, Any] = json.loads(self._run("-L", "-J", *arguments))
        return answer

    def brokers(self) -> dict[int, int]:
        return {one["id"]: int(one["name"].rpartition(":")[2]) for one in self._metadata()["brokers"]}

    def partitions(self, topic: str) -> dict[int, PartitionFacts]:
        (found,) = self._metadata("-t", topic)["topics"]
        return {
            one["partition"]: PartitionFacts(
                one["leader"],
                frozenset(replica["id"] for replica in one["replicas"]),
                frozenset(replica["id"] for replica in one["isrs"]),
            )
            for one in found["partitions"]
        }

    def produce(self, topic: str, partition: int, records: list[Record], codec: str = "none") -> list[int]:
        lines = []
        for record in records:
            assert record.value is not None and not record.headers
            key = b"" if record.key is None else record.key + DELIMITER.encode()
            lines.append(key + record.value + b"\n")
        options = ["-X", "acks=all", "-X", "enable.idempotence=true", "-z", codec]
        self._run("-P", "-t", topic, "-p", str(partition), "-K", DELIMITER, *options, given=b"".join(lines))
        return []

    def consume(self, topic: str, partition: int, count: int) -> list[Delivered]:
        place = ["-t", topic, "-p", str(partition), "-o", "beginning", "-c", str(count)]
        lines = self._run("-C", "-q", "-J", "-X", "check.crcs=true", *place).splitlines()
        return [self._delivered(json.loads(line)) for line in lines]

    @staticmethod
    def _delivered(message: dict[str, Any]) -> Delivered:
        key, value = (None if message[part] is None else message[part].encode() for part in ("key", "payload"))
        flat = message.get("headers", [])
        headers = tuple((name, text.encode()) for name, text in zip(flat[::2], flat[1::2], strict=True))
        return Delivered(message["offset"], Record(key, value, headers))

    def end_offset(self, topic: str, partition: int) -> int:
        """kcat prints `topic [partition] offset N`."""
        return int(self._run("-Q", "-t", f"{topic}:{partition}:-1").split()[-1])


class ConfluentKafka(ClientLibrary):
    """confluent-kafka on a recent librdkafka. Its consumer insists on a group id; assigned, it never joins one."""

    name = "confluent-kafka"

    def admin(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self.bootstrap})

    def create_topic(self, name: str, partitions: int) -> None:
        admin = self.admin()
        created = admin.create_topics([NewTopic(name, partitions, 3)], operation_timeout=DEADLINE_S)
        created[name].result(DEADLINE_S)
        self.wait_for_leaders(name, partitions)

    def wait_for_leaders(self, topic: str, partitions: int) -> None:
        """A topic exists when its creation is answered; a broker asked for it knows it a moment later."""

        def led() -> int:
            return sum(one.leader > 0 for one in self.partitions(topic).values())

        wait_until(lambda: led() >= partitions, f"{topic} has leaders for {partitions} topic-partitions", DEADLINE_S)

    def brokers(self) -> dict[int, int]:
        return {one.id: one.port for one in self.admin().list_topics(timeout=DEADLINE_S).brokers.values()}

    def partitions(self, topic: str) -> dict[int, PartitionFacts]:
        found = self.admin().list_topics(topic, timeout=DEADLINE_S).topics[topic]
        return {
            number: PartitionFacts(one.leader, frozenset(one.replicas), frozenset(one.isrs))
            for number, one in found.partitions.items()
        }

    def produce(self, topic: str, partition: int, records: list[Record], codec: str = "none") -> list[int]:
        producer = confluent_kafka.Producer(
            {
                "bootstrap.servers": self.bootstrap,
                "acks": "all",
                "enable.idempotence": True,
                "compression.type": codec,
                "linger.ms": 5,
            }
        )
        offsets: list[int] = []

        def delivered(error: KafkaError | None, message: confluent_kafka.Message) -> None:
            assert error is None, error
            offset = message.offset()
            assert offset is not None, "an acknowledged record has an offset"
            offsets.append(offset)

        for record in records:
            producer.produce(
                topic, record.value, record.key, partition, on_delivery=delivered, headers=list(record.headers)
            )
        assert producer.flush(DEADLINE_S) == 0, "some records were not acknowledged"
        return offsets

    def _consumer(self) -> confluent_kafka.Consumer:
        return confluent_kafka.Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": "assigned-by-hand",
                "enable.auto.commit": False,
                "check.crcs": True,
            }
        )

    def consume(self, topic: str, partition: int, count: int) -> list[Delivered]:
        consumer = self._consumer()
        try:
            consumer.assign([confluent_kafka.TopicPartition(topic, partition, confluent_kafka.OFFSET_BEGINNING)])
            messages: list[confluent_kafka.Message] = []
            deadline = time.monotonic() + DEADLINE_S
            while len(messages) < count and time.monotonic() < deadline:
                messages += consumer.consume(count - len(messages), timeout=0.5)
        finally:
            consumer.close()
        return [self._delivered(message) for message in messages]

    @staticmethod
    def _delivered(message: confluent_kafka.Message) -> Delivered:
        assert message.error() is None, message.error()
        offset = message.offset()
        assert offset is not None
        headers: Any = message.headers()
        return Delivered(offset, Record(message.key(), message.value(), tuple(headers or ())))

    def end_offset(self, topic: str, partition: int) -> int:
        consumer = self._consumer()
        try:
            place = confluent_kafka.TopicPartition(topic, partition)
            _, end = consumer.get_watermark_offsets(place, timeout=DEADLINE_S)
        finally:
            consumer.close()
        return int(end)


class KafkaPython(ClientLibrary):
    """kafka-python 3, written in Python throughout."""

    name = "kafka-python"

    def admin(self) -> kafka.KafkaAdminClient:
        return kafka.KafkaAdminClient(bootstrap_servers=self.bootstrap)

    def brokers(self) -> dict[int, int]:
        admin = self.admin()
        try:
            return {one["broker_id"]: one["port"] for one in admin.describe_cluster()["brokers"]}
        finally:
            admin.close()

    def partitions(self, topic: str) -> dict[int, PartitionFacts]:
        admin = self.admin()
        try:
            (found,) = admin.describe_topics([topic])
        finally:
            admin.close()
        return {
            one["partition_index"]: PartitionFacts(
                one["leader_id"], frozenset(one["replica_nodes"]), frozenset(one["isr_nodes"])
            )
            for one in found["partitions"]
        }

    def produce(self, topic: str, partition: int, records: list[Record], codec: str = "none") -> list[int]:
        producer = kafka.KafkaProducer(
            bootstrap_servers=self.bootstrap,
            acks="all",
            enable_idempotence=True,
            compression_type=None if codec == "none" else codec,
            linger_ms=5,
        )
        try:
            futures = [
                producer.send(topic, record.value, record.key, list(record.headers), partition) for record in records
            ]
            return [future.get(timeout=DEADLINE_S).offset for future in futures]
        finally:
            producer.close(timeout=DEADLINE_S)

    def consume(self, topic: str, partition: int, count: int) -> list[Delivered]:
        consumer = kafka.KafkaConsumer(bootstrap_servers=self.bootstrap, group_id=None, enable_auto_commit=False)
        place = kafka.TopicPartition(topic, partition)
        try:
            consumer.assign([place])
            consumer.seek_to_beginning(place)
            messages: list[Any] = []
            deadline = time.monotonic() + DEADLINE_S
            while len(messages) < count and time.monotonic() < deadline:
                for batch in consumer.poll(timeout_ms=500, max_records=count - len(messages)).values():
                    messages += batch
        finally:
            consumer.close()
        return [
            Delivered(message.offset, Record(message.key, message.value, tuple(message.headers or ())))
            for message in messages
        ]

    def end_offset(self, topic: str, partition: int) -> int:
        consumer = kafka.KafkaConsumer(bootstrap_servers=self.bootstrap, group_id=None)
        place = kafka.TopicPartition(topic, partition)
        try:
            return int(consumer.end_offsets([place])[place])
        finally:
            consumer.close()


class Aiokafka(ClientLibrary):
    """aiokafka 0.14, asyncio's client; it speaks the oldest versions of the four."""

    name = "aiokafka"

    def brokers(self) -> dict[int, int]:
        async def ask() -> dict[str, Any]:
            admin = AIOKafkaAdminClient(bootstrap_servers=self.bootstrap)
            await admin.start()
            try:
                described: dict[str, Any] = await admin.describe_cluster()
                return described
            finally:
                await admin.close()

        return {one["node_id"]: one["port"] for one in asyncio.run(ask())["brokers"]}

    def partitions(self, topic: str) -> dict[int, PartitionFacts]:
        async def ask() -> list[dict[str, Any]]:
            admin = AIOKafkaAdminClient(bootstrap_servers=self.bootstrap)
            await admin.start()
            try:
                (found,) = await admin.describe_topics([topic])
                listed: list[dict[str, Any]] = found["partitions"]
                return listed
            finally:
                await admin.close()

        return {
            one["partition"]: PartitionFacts(one["leader"], frozenset(one["replicas"]), frozenset(one["isr"]))
            for one in asyncio.run(ask())
        }

    def produce(self, topic: str, partition: int, records: list[Record], codec: str = "none") -> list[int]:
        async def write() -> list[int]:
            producer = aiokafka.AIOKafkaProducer(
                bootstrap_servers=self.bootstrap,
                acks="all",
                enable_idempotence=True,
                compression_type=None if codec == "none" else codec,
                linger_ms=5,
            )
            await producer.start()
            try:
                futures = [
                    await producer.send(topic, one.value, one.key, partition, headers=list(one.headers))
                    for one in records
                ]
                acknowledged = await asyncio.wait_for(asyncio.gather(*futures), DEADLINE_S)
            finally:
                await producer.stop()
            return [one.offset for one in acknowledged]

        return asyncio.run(write())

    def consume(self, topic: str, partition: int, count: int) -> list[Delivered]:
        async def read() -> list[Any]:
            consumer = aiokafka.AIOKafkaConsumer(
                bootstrap_servers=self.bootstrap, group_id=None, enable_auto_commit=False
            )
            await consumer.start()
            try:
                place = aiokafka.TopicPartition(topic, partition)
                consumer.assign([place])
                await consumer.seek_to_beginning(place)
                messages: list[Any] = []
                deadline = time.monotonic() + DEADLINE_S
                while len(messages) < count and time.monotonic() < deadline:
                    found = await consumer.getmany(timeout_ms=500, max_records=count - len(messages))
                    for batch in found.values():
                        messages += batch
                return messages
            finally:
                await consumer.stop()

        return [
            Delivered(message.offset, Record(message.key, message.value, tuple(message.headers)))
            for message in asyncio.run(read())
        ]

    def end_offset(self, topic: str, partition: int) -> int:
        async def ask() -> int:
            consumer = aiokafka.AIOKafkaConsumer(bootstrap_servers=self.bootstrap, group_id=None)
            await consumer.start()
            try:
                place = aiokafka.TopicPartition(topic, partition)
                return int((await consumer.end_offsets([place]))[place])
            finally:
                await consumer.stop()

        return asyncio.run(ask())


CLIENTS: tuple[type[ClientLibrary], ...] = (Kcat, ConfluentKafka, KafkaPython, Aiokafka)
