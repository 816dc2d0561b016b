"""The page for operators does what it says: its commands run against a cluster and the files of one of its nodes."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from squall.harness.operator.metadata_content import SnapshotFooterRecord, SnapshotHeaderRecord
from squall.nodes.metadata.records import TopicRecord, encode_record
from squall.nodes.protocol.compiler import encode_bytes
from squall.nodes.protocol.record import Record
from squall.nodes.protocol.records import build_batch, control_key
from tests.clusters import Cluster
from tests.docs.test_readme import ROOT, assert_does_what_it_says
from tests.docs.transcripts import Block, blocks_of

pytestmark = pytest.mark.xdist_group("operating-a-cluster")

PAGE = ROOT / "docs" / "operating-a-cluster.md"
BLOCKS = tuple(blocks_of(PAGE, "console"))
ASSIGNMENT = [[1, 2], [2, 3], [3, 1]]
DEADLINE_S = 20.0


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """Three controllers and three brokers; topic `orders` with some records."""
    with Cluster(brokers=3, controllers=3) as running:
        running.wait_until_ready()
        admin = AdminClient({"bootstrap.servers": running.bootstrap})
        topic = NewTopic("orders", 3, replica_assignment=ASSIGNMENT, config={"min.insync.replicas": "2"})
        admin.create_topics([topic])["orders"].result(DEADLINE_S)
        for partition in range(3):
            command = ["kcat", "-b", running.bootstrap, "-P", "-t", "orders", "-p", str(partition), "-K", ":"]
            command += ["-X", "linger.ms=2000"]  # the page shows both in one batch
            subprocess.run(command, input=b"ann:2 apples\nben:1 pear\n", check=True, timeout=DEADLINE_S)
        yield running


@pytest.fixture(scope="module")
def place(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the commands are typed: beside the data directory of broker 1, with a snapshot and a damaged segment."""
    here = tmp_path_factory.mktemp("operating")
    (here / "data").symlink_to(cluster.nodes[1].directory / "data")
    (here / "snapshots").mkdir()
    (here / "snapshots" / f"{31:020d}-{2:010d}.checkpoint").write_bytes(snapshot())
    damaged = here / "damaged" / "orders-0"
    damaged.mkdir(parents=True)
    batch = build_batch([Record(key=b"ann", value=b"2 apples")], leader_epoch=0)
    batch[-1] ^= 1
    (damaged / f"{0:020d}.log").write_bytes(batch)
    return here


def snapshot() -> bytes:
    header = Record(key=control_key(3), value=encode_bytes(SnapshotHeaderRecord(), 0))
    footer = Record(key=control_key(4), value=encode_bytes(SnapshotFooterRecord(), 0))
    topic = Record(value=encode_record(TopicRecord(name="orders", topic_id=bytes(range(16)))))
    parts = ((header, True), (topic, False), (footer, True))
    return b"".join(
        bytes(build_batch([record], base_offset=offset, leader_epoch=2, control=control))
        for offset, (record, control) in enumerate(parts)
    )


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block.name)
def test_a_command_of_the_page_does_what_it_says(
    block: Block, place: Path, cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BOOTSTRAP", cluster.bootstrap.split(",")[0])
    assert_does_what_it_says(block, place)


def test_the_page_shows_every_command() -> None:
    typed = "\n".join(block.text for block in BLOCKS)
    for command in ("describe", "topics", "quorum", "reassign", "log dump", "metadata dump", "snapshot dump"):
        assert f"squall cluster {command}" in typed
