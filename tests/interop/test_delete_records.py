"""DeleteRecords as clients ask for it: three replicas begin later, and a consumer is sent to where they begin."""

from __future__ import annotations

import asyncio

import confluent_kafka
import kafka
import pytest
from confluent_kafka import TopicPartition

from squall.workloads.clients.common.client import ClientPlan
from squall.workloads.clients.kits import Library, factory_of
from squall.workloads.core.operation import FINAL_POLL, Completion, Operation
from tests.interop.clients import DEADLINE_S, ConfluentKafka, KafkaPython

pytestmark = pytest.mark.xdist_group("interop")
QUIET = {"log_level": 0, "group.id": "none", "enable.auto.commit": False}


def produce(bootstrap: str, topic: str, count: int) -> None:
    producer = confluent_kafka.Producer({"bootstrap.servers": bootstrap, "log_level": 0, "acks": "all"})
    for number in range(count):
        producer.produce(topic, b"%d" % number, partition=0)
    assert producer.flush(DEADLINE_S) == 0


def earliest_and_first(bootstrap: str, topic: str) -> tuple[int, int]:
    """What ListOffsets says, and what a consumer gets that asks for offset 0 and is reset to the earliest."""
    settings = {"bootstrap.servers": bootstrap, "auto.offset.reset": "earliest"} | QUIET
    consumer = confluent_kafka.Consumer(settings)
    try:
        low, _ = consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=DEADLINE_S, cached=False)
        consumer.assign([TopicPartition(topic, 0, 0)])
        message = consumer.poll(DEADLINE_S)
        assert message is not None and message.error() is None
        return low, message.offset()
    finally:
        consumer.close()


def test_confluent_kafka_deletes_records(bootstrap: str, topic: str) -> None:
    produce(bootstrap, topic, 20)
    admin = ConfluentKafka(bootstrap).admin()
    [future] = admin.delete_records([TopicPartition(topic, 0, 12)]).values()
    assert future.result(DEADLINE_S).low_watermark == 12
    assert earliest_and_first(bootstrap, topic) == (12, 12)


def test_confluent_kafka_cannot_delete_what_is_not_there(bootstrap: str, topic: str) -> None:
    produce(bootstrap, topic, 3)
    admin = ConfluentKafka(bootstrap).admin()
    [future] = admin.delete_records([TopicPartition(topic, 0, 4)]).values()
    with pytest.raises(confluent_kafka.KafkaException) as caught:
        future.result(DEADLINE_S)
    assert caught.value.args[0].code() == confluent_kafka.KafkaError.OFFSET_OUT_OF_RANGE


def test_kafka_python_deletes_records(bootstrap: str, topic: str) -> None:
    produce(bootstrap, topic, 20)
    admin = KafkaPython(bootstrap).admin()
    answer = admin.delete_records({kafka.TopicPartition(topic, 0): 7})
    assert answer[kafka.TopicPartition(topic, 0)]["low_watermark"] == 7
    assert earliest_and_first(bootstrap, topic) == (7, 7)


@pytest.mark.parametrize("library", ["confluent", "kafka-python", "aiokafka"])
def test_the_final_read_reports_where_the_log_starts(bootstrap: str, topic: str, library: Library) -> None:
    """DP-07. A checker that does not know it calls the records below lost: it did so for retention on hosts."""
    produce(bootstrap, topic, 20)
    admin = ConfluentKafka(bootstrap).admin()
    [future] = admin.delete_records([TopicPartition(topic, 0, 12)]).values()
    assert future.result(DEADLINE_S).low_watermark == 12
    polls = asyncio.run(polled_until(bootstrap, library, topic, 19))
    assert [offset for poll in polls for offset in poll.offsets] == list(range(12, 20))
    assert next(poll.log_start for poll in polls if poll.offsets) == 12


async def polled_until(bootstrap: str, library: Library, topic: str, end: int) -> list[Completion]:
    """Final polls of topic-partition 0 until they came to offset `end`."""
    brokers = [address.rpartition(":") for address in bootstrap.split(",")]
    factory = factory_of(library, tuple((host, int(port)) for host, _, port in brokers))
    client = factory.client(ClientPlan(1, "consumer", (0,), ((topic, 0),)))
    await client.open()
    polls: list[Completion] = []
    async with asyncio.timeout(DEADLINE_S):
        while not any(end in poll.offsets for poll in polls):
            polls.append(await client.invoke(Operation(FINAL_POLL, 0, 0, 1, 0, topic, 0)))
    await client.close()
    return polls
