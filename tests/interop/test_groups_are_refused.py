"""What clients hear of groups and transactions, which this cluster does not serve: an error, at once, and no silence.

A consumer that assigns its topic-partitions itself works with a group id all the same, and closes at once.
`test_kafkas_tools.py` has the Java client's part.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager

import aiokafka
import confluent_kafka
import kafka
import pytest

from tests.interop.clients import ConfluentKafka
from tests.interop.records import sample

pytestmark = pytest.mark.xdist_group("interop")

AT_ONCE_S = 8.0
"""The clients' own patience is 30 s and more, or endless."""


@contextmanager
def at_once() -> Iterator[None]:
    began = time.monotonic()
    yield
    assert time.monotonic() - began < AT_ONCE_S


@pytest.fixture
def filled(bootstrap: str, topic: str) -> str:
    ConfluentKafka(bootstrap).produce(topic, 0, sample("refused", 5))
    return topic


# -- librdkafka ----------------------------------------------------------------------------------------------------


def librdkafka(bootstrap: str, group: str) -> confluent_kafka.Consumer:
    return confluent_kafka.Consumer(
        {"bootstrap.servers": bootstrap, "group.id": group, "auto.offset.reset": "earliest", "enable.auto.commit": True}
    )


def test_librdkafka_hears_of_a_group_at_its_first_poll(bootstrap: str, filled: str) -> None:
    consumer = librdkafka(bootstrap, "g-librdkafka")
    with at_once():
        consumer.subscribe([filled])
        message = consumer.poll(AT_ONCE_S)
        assert message is not None, "silence"
        error = message.error()
        assert error is not None and "JoinGroup failed" in error.str(), error
        consumer.close()


def test_librdkafka_assigned_by_hand_reads_and_closes_at_once(bootstrap: str, filled: str) -> None:
    """A commit is refused; closing does not wait for a coordinator."""
    consumer = librdkafka(bootstrap, "g-assigned")
    consumer.assign([confluent_kafka.TopicPartition(filled, 0)])
    with at_once():
        messages = consumer.consume(5, timeout=AT_ONCE_S)
    assert [message.error() for message in messages] == [None] * 5, "nothing but the records"
    with at_once(), pytest.raises(confluent_kafka.KafkaException):
        consumer.commit(asynchronous=False)
    with at_once():
        consumer.close()


def test_librdkafka_cannot_begin_transactions(bootstrap: str) -> None:
    producer = confluent_kafka.Producer({"bootstrap.servers": bootstrap, "transactional.id": "x"})
    with at_once(), pytest.raises(confluent_kafka.KafkaException, match="Transactions are not served"):
        producer.init_transactions(AT_ONCE_S)


# -- kafka-python --------------------------------------------------------------------------------------------------


def test_kafka_python_hears_of_a_group_at_its_first_poll(bootstrap: str, filled: str) -> None:
    consumer = kafka.KafkaConsumer(filled, bootstrap_servers=bootstrap, group_id="g-kafka-python")
    with at_once():
        with pytest.raises(kafka.errors.KafkaError):
            consumer.poll(timeout_ms=int(AT_ONCE_S * 1000))
        consumer.close(autocommit=False)


def test_kafka_python_assigned_by_hand_reads_and_closes_at_once(bootstrap: str, filled: str) -> None:
    consumer = kafka.KafkaConsumer(bootstrap_servers=bootstrap, group_id="g-assigned", auto_offset_reset="earliest")
    place = kafka.TopicPartition(filled, 0)
    consumer.assign([place])
    with at_once():
        found: list[object] = []
        while len(found) < 5:
            found += consumer.poll(timeout_ms=1000).get(place, [])
    with at_once():
        consumer.close()


def test_kafka_python_cannot_begin_transactions(bootstrap: str) -> None:
    producer = kafka.KafkaProducer(bootstrap_servers=bootstrap, transactional_id="x")
    try:
        with at_once(), pytest.raises(kafka.errors.KafkaError):
            producer.init_transactions()
    finally:
        producer.close(timeout=0)


# -- aiokafka ------------------------------------------------------------------------------------------------------


def test_aiokafka_hears_of_a_group_when_it_starts_or_reads(bootstrap: str, filled: str) -> None:
    async def read() -> None:
        consumer = aiokafka.AIOKafkaConsumer(filled, bootstrap_servers=bootstrap, group_id="g-aiokafka")
        try:
            await consumer.start()
            await consumer.getone()
        finally:
            await consumer.stop()

    with at_once(), pytest.raises(aiokafka.errors.KafkaError):
        asyncio.run(asyncio.wait_for(read(), AT_ONCE_S))


def test_aiokafka_cannot_begin_transactions(bootstrap: str) -> None:
    async def begin() -> None:
        producer = aiokafka.AIOKafkaProducer(bootstrap_servers=bootstrap, transactional_id="x")
        try:
            await producer.start()
        finally:
            await producer.stop()

    with at_once(), pytest.raises(aiokafka.errors.KafkaError):
        asyncio.run(asyncio.wait_for(begin(), AT_ONCE_S))
