"""A consumer that names its rack reads from the replica in it (KIP-392, rule 18): librdkafka, and all load clients."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator
from typing import Any

import confluent_kafka
import pytest

from squall.nodes.config import RACK_AWARE_SELECTOR
from squall.workloads.clients.common.client import ClientFactory, ClientPlan
from squall.workloads.clients.common.shared_consumer import SharedConsumer
from squall.workloads.clients.libraries.aiokafka import AiokafkaFactory
from squall.workloads.clients.libraries.confluent import ConfluentFactory
from squall.workloads.clients.libraries.kafka_python import KafkaPythonFactory
from squall.workloads.core.operation import POLL, Operation
from tests.clusters import Cluster
from tests.interop.clients import ConfluentKafka
from tests.interop.records import Record

DEADLINE_S = 20.0
TOPIC = "racked"


@pytest.fixture(scope="module")
def racked() -> Iterator[Cluster]:
    """Three brokers; broker n stands in rack n."""
    with Cluster(brokers=3, controllers=1, start=False) as cluster:
        for broker in cluster.brokers:
            with broker.config_path.open("a") as config:
                config.write(f"broker.rack=rack-{broker.node_id}\nreplica.selector.class={RACK_AWARE_SELECTOR}\n")
        cluster.start()
        cluster.wait_until_ready()
        yield cluster


class RackedConsumer:
    """A consumer with `client.rack`; where it fetches from is in librdkafka's statistics."""

    def __init__(self, bootstrap: str, rack: str) -> None:
        self._fetches_from = -1
        self._consumer = confluent_kafka.Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "none",
                "client.rack": rack,
                "enable.auto.commit": False,
                "statistics.interval.ms": 100,
                "stats_cb": self._note,
                "auto.offset.reset": "error",
            }
        )
        self._consumer.assign([confluent_kafka.TopicPartition(TOPIC, 0, 0)])
        self.values: list[bytes | None] = []

    def _note(self, text: str) -> None:
        statistics: dict[str, Any] = json.loads(text)
        partition = statistics["topics"].get(TOPIC, {}).get("partitions", {}).get("0")
        if partition is not None:
            self._fetches_from = partition["broker"]

    def read_until(self, count: int, broker: int) -> None:
        deadline = time.monotonic() + DEADLINE_S
        while len(self.values) < count or self._fetches_from != broker:
            assert time.monotonic() < deadline, f"{len(self.values)} records, fetches from {self._fetches_from}"
            for message in self._consumer.consume(100, 0.1):
                assert message.error() is None, message.error()
                self.values.append(message.value())

    def close(self) -> None:
        self._consumer.close()


def test_librdkafka_reads_from_the_replica_in_its_rack_and_sees_everything(racked: Cluster) -> None:
    client = ConfluentKafka(racked.bootstrap)
    client.create_topic(TOPIC, 1)
    first = [Record(None, b"%d" % number) for number in range(100)]
    second = [Record(None, b"%d" % number) for number in range(100, 150)]
    client.produce(TOPIC, 0, first)
    leader = client.partitions(TOPIC)[0].leader
    follower = next(broker for broker in (1, 2, 3) if broker != leader)
    consumer = RackedConsumer(racked.bootstrap, f"rack-{follower}")
    try:
        consumer.read_until(100, follower)
        client.produce(TOPIC, 0, second)
        consumer.read_until(150, follower)
    finally:
        consumer.close()
    assert consumer.values == [record.value for record in first + second]


class Watched:
    """A load client's consumer in a rack; which replica it was sent to is inside its library."""

    def __init__(self, library: str, bootstrap: str, topic: str, rack: str) -> None:
        self._topic = topic
        self._told_by_librdkafka = -1
        addresses = tuple((host, int(port)) for host, _, port in (one.partition(":") for one in bootstrap.split(",")))
        factory: ClientFactory
        if library == "confluent":
            settings: Any = {"statistics.interval.ms": 100, "stats_cb": self._note}
            factory = ConfluentFactory(addresses, settings)
        else:
            factory = KafkaPythonFactory(addresses) if library == "kafka-python" else AiokafkaFactory(addresses)
        made = factory.client(ClientPlan(3, "consumer", (0,), ((topic, 0),), rack=rack))
        assert isinstance(made, SharedConsumer)
        self.client = made
        self._library = library

    def _note(self, text: str) -> None:
        partition = json.loads(text)["topics"].get(self._topic, {}).get("partitions", {}).get("0")
        if partition is not None:
            self._told_by_librdkafka = partition["broker"]

    def reads_from(self) -> int:
        if self._library == "confluent":
            return self._told_by_librdkafka
        consumer: Any = getattr(self.client.instance, "_consumer", None)
        if consumer is None:
            return -1
        if self._library == "kafka-python":
            (state,) = consumer._subscription.assignment.values() or (None,)
            return -1 if state is None or state._preferred_read_replica is None else int(state._preferred_read_replica)
        return next((int(node) for node, _ in consumer._fetcher._preferred_read_replica.values()), -1)

    async def read(self, count: int, broker: int) -> list[int]:
        await self.client.open()
        offsets: list[int] = []
        deadline = time.monotonic() + DEADLINE_S
        while len(offsets) < count or self.reads_from() != broker:
            assert time.monotonic() < deadline, f"{len(offsets)} records, reads from {self.reads_from()}"
            offsets += (await self.client.invoke(Operation(POLL, 0, 0, 3, 0, self._topic, 0))).offsets
        await self.client.close()
        return offsets


@pytest.mark.parametrize("library", ["confluent", "kafka-python", "aiokafka"])
def test_a_load_client_reads_from_the_replica_in_its_rack(racked: Cluster, library: str) -> None:
    client, topic = ConfluentKafka(racked.bootstrap), f"racked-{library}"
    client.create_topic(topic, 1)
    client.produce(topic, 0, [Record(None, b"%d" % number) for number in range(50)])
    leader = client.partitions(topic)[0].leader
    follower = next(broker for broker in (1, 2, 3) if broker != leader)
    watched = Watched(library, racked.bootstrap, topic, f"rack-{follower}")
    assert asyncio.run(watched.read(50, follower)) == list(range(50))
