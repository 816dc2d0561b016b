"""Admin calls of every client that has any: topics created, enlarged, described, measured, deleted.

The calls go to any broker, which forwards what only the active controller may decide. kcat offers ListOffsets alone
(see test_produce_and_consume). What a client then sees may come from a broker that learns it a moment later, so tests
wait for it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

import aiokafka
import confluent_kafka
import kafka
import pytest
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.admin.config_resource import ConfigResource as AiokafkaResource
from aiokafka.admin.config_resource import ConfigResourceType as AiokafkaResourceType
from confluent_kafka.admin import ConfigResource, NewTopic, OffsetSpec, ResourceType
from confluent_kafka.admin import NewPartitions as ConfluentPartitions
from kafka.admin import ConfigResource as KafkaPythonResource
from kafka.admin import ConfigResourceType as KafkaPythonResourceType

from tests.clusters import Cluster
from tests.interop.clients import DEADLINE_S, Aiokafka, ConfluentKafka, KafkaPython
from tests.interop.records import sample
from tests.waiting import wait_until

pytestmark = pytest.mark.xdist_group("interop")

SETTINGS = {"min.insync.replicas": "2", "segment.bytes": "1048576"}


def await_that(what: str, holds: Callable[[], bool]) -> None:
    wait_until(holds, what, DEADLINE_S, every=0.02)


async def await_soon(what: str, holds: Callable[[], Awaitable[bool]]) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not await holds():
        assert time.monotonic() < deadline, f"not within {DEADLINE_S} s: {what}"
        await asyncio.sleep(0.02)


# -- confluent-kafka -----------------------------------------------------------------------------------------------


def test_confluent_kafka_creates_enlarges_describes_and_deletes(bootstrap: str, new_name: Callable[[], str]) -> None:
    name, library = new_name(), ConfluentKafka(bootstrap)
    admin = library.admin()
    admin.create_topics([NewTopic(name, 2, 3, config=SETTINGS)])[name].result(DEADLINE_S)
    library.wait_for_leaders(name, 2)

    admin.create_partitions([ConfluentPartitions(name, 5)])[name].result(DEADLINE_S)
    library.wait_for_leaders(name, 5)

    resource = ConfigResource(ResourceType.TOPIC, name)
    described = admin.describe_configs([resource])[resource].result(DEADLINE_S)
    assert {key: described[key].value for key in SETTINGS} == SETTINGS
    assert not described["min.insync.replicas"].is_default

    admin.delete_topics([name])[name].result(DEADLINE_S)
    await_that("the topic is gone", lambda: name not in admin.list_topics(timeout=DEADLINE_S).topics)


def test_confluent_kafka_lists_offsets(bootstrap: str, topic: str) -> None:
    library = ConfluentKafka(bootstrap)
    library.produce(topic, 0, sample("offsets", 7))
    admin, place = library.admin(), confluent_kafka.TopicPartition(topic, 0)
    answers = {
        kind: admin.list_offsets({place: spec})[place].result(DEADLINE_S).offset
        for kind, spec in {"earliest": OffsetSpec.earliest(), "latest": OffsetSpec.latest()}.items()
    }
    assert answers == {"earliest": 0, "latest": 7}


def test_confluent_kafka_describes_a_broker_and_the_cluster(bootstrap: str, cluster: Cluster) -> None:
    admin = ConfluentKafka(bootstrap).admin()
    resource = ConfigResource(ResourceType.BROKER, "2")
    described = admin.describe_configs([resource])[resource].result(DEADLINE_S)
    assert described["node.id"].value == "2"
    whole = admin.describe_cluster().result(DEADLINE_S)
    assert {node.id: node.port for node in whole.nodes} == cluster.ports and whole.cluster_id


def test_confluent_kafka_is_told_why_a_topic_cannot_be_created(bootstrap: str, topic: str) -> None:
    admin = ConfluentKafka(bootstrap).admin()
    wrong = {
        NewTopic(topic, 1, 3): confluent_kafka.KafkaError.TOPIC_ALREADY_EXISTS,
        NewTopic("too-many-replicas", 1, 9): confluent_kafka.KafkaError.INVALID_REPLICATION_FACTOR,
        NewTopic("not a name", 1, 3): confluent_kafka.KafkaError.TOPIC_EXCEPTION,
        NewTopic("odd-setting", 1, 3, config={"no.such.setting": "1"}): confluent_kafka.KafkaError.INVALID_CONFIG,
    }
    for asked, code in wrong.items():
        with pytest.raises(confluent_kafka.KafkaException) as refusal:
            admin.create_topics([asked])[asked.topic].result(DEADLINE_S)
        assert refusal.value.args[0].code() == code, asked.topic


# -- kafka-python --------------------------------------------------------------------------------------------------


def test_kafka_python_creates_enlarges_describes_and_deletes(bootstrap: str, new_name: Callable[[], str]) -> None:
    name, library = new_name(), KafkaPython(bootstrap)
    admin = library.admin()
    try:
        options = {"num_partitions": 2, "replication_factor": 3, "configs": SETTINGS}
        admin.create_topics({name: options}, wait_for_metadata=True)
        admin.create_partitions({name: 5})
        await_that("five topic-partitions", lambda: len(library.partitions(name)) == 5)

        described = admin.describe_configs([KafkaPythonResource(KafkaPythonResourceType.TOPIC, name)])
        settings = described["topic"][name]
        assert {key: settings[key]["value"] for key in SETTINGS} == SETTINGS

        admin.delete_topics([name])
        await_that("the topic is gone", lambda: name not in admin.list_topics())
    finally:
        admin.close()


def test_kafka_python_lists_offsets_and_describes_the_quorum(bootstrap: str, topic: str, cluster: Cluster) -> None:
    library = KafkaPython(bootstrap)
    library.produce(topic, 0, sample("offsets", 7))
    admin, place = library.admin(), kafka.TopicPartition(topic, 0)
    try:
        offsets = [admin.list_partition_offsets({place: which})[place].offset for which in (-2, -1)]
        quorum = admin.describe_metadata_quorum()
    finally:
        admin.close()
    assert offsets == [0, 7]
    (metadata_log,) = quorum["topics"][0]["partitions"]
    assert {voter["replica_id"] for voter in metadata_log["current_voters"]} == set(cluster.controller_ports)
    assert metadata_log["leader_id"] in cluster.controller_ports


# -- aiokafka ------------------------------------------------------------------------------------------------------


def test_aiokafka_creates_enlarges_describes_and_deletes(bootstrap: str, new_name: Callable[[], str]) -> None:
    name = new_name()

    async def administrate() -> dict[str, str]:
        admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
        await admin.start()

        async def is_listed() -> bool:
            return name in await admin.list_topics()

        async def has_five() -> bool:
            (found,) = await admin.describe_topics([name])
            return len(found["partitions"]) == 5

        async def is_gone() -> bool:
            return not await is_listed()

        try:
            await admin.create_topics([aiokafka.admin.NewTopic(name, 2, 3, topic_configs=SETTINGS)])
            await await_soon("the topic is listed", is_listed)
            await admin.create_partitions({name: aiokafka.admin.NewPartitions(5)})
            await await_soon("five topic-partitions", has_five)
            (answer,) = await admin.describe_configs([AiokafkaResource(AiokafkaResourceType.TOPIC, name)])
            (described,) = answer.resources
            await admin.delete_topics([name])
            await await_soon("the topic is gone", is_gone)
            return {setting[0]: setting[1] for setting in described[4]}
        finally:
            await admin.close()

    settings = asyncio.run(administrate())
    assert {key: settings[key] for key in SETTINGS} == SETTINGS


def test_aiokafka_lists_offsets(bootstrap: str, topic: str) -> None:
    library = Aiokafka(bootstrap)
    library.produce(topic, 0, sample("offsets", 7))

    async def ask() -> tuple[int, int]:
        consumer = aiokafka.AIOKafkaConsumer(bootstrap_servers=bootstrap, group_id=None)
        await consumer.start()
        try:
            place = aiokafka.TopicPartition(topic, 0)
            return (await consumer.beginning_offsets([place]))[place], (await consumer.end_offsets([place]))[place]
        finally:
            await consumer.stop()

    assert asyncio.run(ask()) == (0, 7)
