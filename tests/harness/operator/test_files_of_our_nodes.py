"""The dumps read what our own nodes write while they run: snapshots and the metadata log beside them (SN-01)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from squall.harness.cli.main import status_of
from tests.clusters import Cluster

pytestmark = pytest.mark.xdist_group("clusters")
TOPIC, PARTITIONS = "orders", 40


@pytest.fixture(scope="module")
def directories() -> Iterator[dict[str, Path]]:
    """The metadata logs of a controller and a broker, each with a snapshot that has the topic."""
    settings = {"metadata.log.max.record.bytes.between.snapshots": "3000"}
    with Cluster(brokers=1, controllers=1, properties=settings) as cluster:
        cluster.wait_until_ready()
        admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
        admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)])[TOPIC].result(20)
        found = {
            kind: cluster.nodes[node].directory / "data" / "__cluster_metadata-0"
            for kind, node in (("controller", 101), ("broker", 1))
        }
        for kind, directory in found.items():
            cluster.wait_for(f"a snapshot of the {kind}", lambda there=directory: list(there.glob("*.checkpoint")))
        yield found


@pytest.mark.parametrize("kind", ["controller", "broker"])
def test_a_snapshot_of_a_running_node_is_whole_and_has_the_topic(
    directories: dict[str, Path], kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    newest = max(directories[kind].glob("*.checkpoint"))
    assert status_of(["cluster", "snapshot", "dump", str(newest)]) == 0
    shown = capsys.readouterr().out
    assert shown.count(" TopicRecord name=orders ") == 1
    assert shown.count(" PartitionRecord ") == PARTITIONS
    assert "no problem" in shown


def test_the_metadata_log_of_a_running_node_can_be_read_while_it_is_written(
    directories: dict[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    assert status_of(["cluster", "metadata", "dump", str(directories["controller"]), "--type", "TopicRecord"]) == 0
    assert "TopicRecord name=orders" in capsys.readouterr().out
