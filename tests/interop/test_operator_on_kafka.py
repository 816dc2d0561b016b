"""The operator's tools on Apache Kafka itself: its cluster described and reassigned, its files read.

Six JVMs and their start take a minute, so this is a long check.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from squall.benchmarks.parts.kafka import KafkaCluster
from squall.harness.cli.main import status_of

pytestmark = [pytest.mark.full, pytest.mark.timeout(600), pytest.mark.xdist_group("kafka")]


@pytest.fixture(scope="module")
def kafka() -> Iterator[KafkaCluster]:
    with KafkaCluster() as running:
        admin = AdminClient({"bootstrap.servers": running.bootstrap})
        topic = NewTopic("orders", 4, 2, config={"min.insync.replicas": "2"})
        admin.create_topics([topic])["orders"].result(30)
        lines = b"".join(b"k%d:order %d\n" % (number, number) for number in range(200))
        for codec in ("none", "gzip"):
            command = ["kcat", "-b", running.bootstrap, "-P", "-t", "orders", "-K", ":", "-z", codec]
            subprocess.run(command, input=lines, check=True, timeout=60)
        yield running


def told(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    capsys.readouterr()
    status = status_of(["cluster", *arguments])
    captured = capsys.readouterr()
    assert status == 0, captured.err + captured.out[-2000:]
    return captured.out


def asked(capsys: pytest.CaptureFixture[str], kafka: KafkaCluster, *arguments: str) -> Any:
    return json.loads(told(capsys, *arguments, "--json", "--bootstrap", kafka.bootstrap))


def test_its_cluster_and_quorum_are_described(kafka: KafkaCluster, capsys: pytest.CaptureFixture[str]) -> None:
    facts = asked(capsys, kafka, "describe")
    assert [one["state"] for one in facts["brokers"]] == ["running"] * 3
    assert facts["offline"] == [] and facts["controller"] in (101, 102, 103)
    quorum = asked(capsys, kafka, "quorum")
    assert quorum["leader"] == facts["controller"]
    assert {one["id"] for one in quorum["voters"]} == {101, 102, 103}
    assert {one["id"] for one in quorum["observers"]} == {1, 2, 3}


def test_its_topics_are_described(kafka: KafkaCluster, capsys: pytest.CaptureFixture[str]) -> None:
    (topic,) = asked(capsys, kafka, "topics", "orders")
    assert topic["configs"] == {"min.insync.replicas": "2"}
    assert [one["partition"] for one in topic["partitions"]] == [0, 1, 2, 3]
    assert sum(one["end_offset"] for one in topic["partitions"]) == 400
    assert all(one["elr"] == [] for one in topic["partitions"])


def test_its_topic_partitions_are_moved(kafka: KafkaCluster, capsys: pytest.CaptureFixture[str]) -> None:
    at = ("--bootstrap", kafka.bootstrap)
    out = told(capsys, "reassign", "--topics", "orders", "--brokers", "1,3", "--yes", "--wait", *at)
    assert "are where they shall be" in out
    (topic,) = asked(capsys, kafka, "topics", "orders")
    assert all(set(one["replicas"]) == set(one["isr"]) == {1, 3} for one in topic["partitions"])
    assert asked(capsys, kafka, "reassign", "--list") == []


def test_its_files_are_read_and_found_whole(kafka: KafkaCluster, capsys: pytest.CaptureFixture[str]) -> None:
    directory: Path = kafka._directory
    logs = told(capsys, "log", "dump", str(directory / "data-1"), "--records")
    assert "value 'order 7'" in logs and " gzip" in logs and logs.endswith("no problem\n")
    metadata = told(capsys, "metadata", "dump", str(directory / "data-101"))
    for name in ("LeaderChange", "RegisterBrokerRecord", "TopicRecord name=orders", "PartitionRecord"):
        assert name in metadata
    assert "malformed" not in metadata and "not known here" not in metadata
    snapshots = told(capsys, "snapshot", "dump", str(directory / "data-101"))
    assert "FeatureLevelRecord name=metadata.version" in snapshots
