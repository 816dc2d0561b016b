"""Voters come and go on real node processes: one standalone controller grows to three, and shrinks again (KIP-853).

The cluster goes on serving producers all the while (QC-24, PP-02, DA-06).
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from typing import TypeVar

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from squall.harness.hosts.network import MachineNetwork
from squall.harness.load.tcp import TcpConnector
from squall.nodes.protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    PartitionDataRequest,
    TopicDataRequest,
)
from squall.workloads.clients.native.admin import Address
from squall.workloads.clients.native.connection import KafkaConnection
from squall.workloads.clients.native.operator import NativeOperator, Quorum
from tests.clusters import Cluster

Found = TypeVar("Found")
CONNECTOR = TcpConnector(MachineNetwork())


class Quorums:
    """An operator of the quorum, one question at a time."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.addresses: dict[int, Address] = {
            node: ("127.0.0.1", port) for node, port in cluster.controller_ports.items()
        }

    def ask(self, question: Callable[[NativeOperator], Awaitable[Found]]) -> Found:
        async def asked() -> Found:
            operator = NativeOperator(CONNECTOR, [], tuple(self.addresses.values()))
            try:
                return await question(operator)
            finally:
                await operator.close()

        return asyncio.run(asked())

    def now(self) -> Quorum | None:
        try:
            return self.ask(lambda operator: operator.quorum())
        except OSError:
            return None

    def leader(self) -> int | None:
        quorum = self.now()
        return None if quorum is None else quorum.leader

    def ports(self) -> dict[int, int]:
        """Where the log says that the voters are, as the leader describes it."""
        quorum = self.now()
        return {} if quorum is None else asyncio.run(self._ports(self.addresses[quorum.leader]))

    async def _ports(self, leader: Address) -> dict[int, int]:
        connection = await KafkaConnection.connect(CONNECTOR, *leader, "test")
        topics = [TopicDataRequest("__cluster_metadata", [PartitionDataRequest(0)])]
        try:
            told = await connection.request(DescribeQuorumRequest(topics), 2, DescribeQuorumResponse, 3.0)
        finally:
            connection.close()
        return {node.node_id: node.listeners[0].port for node in told.nodes}

    def done(self, question: Callable[[NativeOperator], Awaitable[None]]) -> bool:
        try:
            self.ask(question)
        except OSError:
            return False
        return True

    def add(self, node: int) -> None:
        """Ask until it is among the voters: a leader that has just begun may put it off."""
        address = self.addresses[node]

        def added() -> bool:
            quorum = self.now()
            is_voter = quorum is not None and node in quorum.voters
            return is_voter or self.done(lambda operator: operator.add_voter(node, "CONTROLLER", address))

        self.cluster.wait_for(f"{node} is a voter", added)

    def remove(self, node: int) -> None:
        def removed() -> bool:
            quorum = self.now()
            is_gone = quorum is not None and node not in quorum.voters
            return is_gone or self.done(lambda operator: operator.remove_voter(node))

        self.cluster.wait_for(f"{node} is no voter", removed)

    def wait_for_voters(self, *voters: int) -> Quorum:
        def found() -> Quorum | None:
            quorum = self.now()
            return quorum if quorum is not None and tuple(sorted(quorum.voters)) == voters else None

        return self.cluster.wait_for(f"voters {voters}", found)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(brokers=1, controllers=3, initial_controllers=1, start=False) as cluster:
        yield cluster


def produce(cluster: Cluster, *values: bytes) -> None:
    """Every value is acknowledged, or the test fails."""
    undelivered: list[object] = []

    def delivered(error: object, message: confluent_kafka.Message) -> None:
        if error is not None:
            undelivered.append(error)

    producer = confluent_kafka.Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all"})
    for value in values:
        producer.produce("events", value, on_delivery=delivered)
    assert producer.flush(20) == 0
    assert undelivered == []


def create_topic(cluster: Cluster, name: str) -> None:
    """A decision of the active controller, committed by the voters of the moment."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    admin.create_topics([NewTopic(name, 1, 1)], operation_timeout=20)[name].result(20)


def test_a_standalone_controller_grows_to_three_and_shrinks_under_load(cluster: Cluster) -> None:
    quorums = Quorums(cluster)
    cluster.nodes[101].start()
    cluster.nodes[1].start()
    cluster.wait_until_ready()
    assert quorums.wait_for_voters(101).leader == 101
    create_topic(cluster, "events")
    produce(cluster, b"one voter")

    for node in (102, 103):
        cluster.nodes[node].start()
        quorums.add(node)
        produce(cluster, b"and %d" % node)
    grown = quorums.wait_for_voters(101, 102, 103)
    assert len(frozenset(grown.voters.values())) == 3, "each is known by a directory of its own"

    quorums.remove(103 if grown.leader != 103 else 102)
    produce(cluster, b"a follower was removed")
    left = quorums.now()
    assert left is not None
    removed_leader = left.leader
    quorums.remove(removed_leader)
    (last,) = (voter for voter in left.voters if voter != removed_leader)
    cluster.wait_for("the removed leader lingers and leaves (DA-06)", lambda: quorums.leader() == last)
    quorums.wait_for_voters(last)
    create_topic(cluster, "after-the-removals")
    produce(cluster, b"the leader was removed")

    cluster.wait_for(
        "the removed ones fetch as observers", lambda: _observers(quorums, last) >= {101, 102, 103} - {last}
    )
    cluster.nodes[removed_leader].kill()
    produce(cluster, b"nobody misses it")
    create_topic(cluster, "decided-by-one")


def _observers(quorums: Quorums, leader: int) -> set[int]:
    quorum = quorums.now()
    return set(quorum.observers) if quorum is not None and quorum.leader == leader else set()


def test_a_voter_started_at_another_port_tells_the_others_by_itself() -> None:
    """UpdateRaftVoter; the file that is changed is its own only."""
    with Cluster(brokers=0, controllers=3, initial_controllers=3) as cluster:
        quorums = Quorums(cluster)
        quorum = quorums.wait_for_voters(101, 102, 103)
        moved = next(node for node in quorum.voters if node != quorum.leader)
        node = cluster.nodes[moved]
        node.stop()
        old, new = cluster.controller_ports[moved], cluster.metrics_ports[moved]
        text = node.config_path.read_text()
        listening = text.replace(f"listeners=CONTROLLER://127.0.0.1:{old}", f"listeners=CONTROLLER://127.0.0.1:{new}")
        node.config_path.write_text("\n".join(line for line in listening.splitlines() if "metrics" not in line) + "\n")
        node.start()
        quorums.addresses[moved] = ("127.0.0.1", new)

        cluster.wait_for("the log has the new port", lambda: quorums.ports().get(moved) == new)


def test_formatting_is_a_command_of_its_own() -> None:
    with Cluster(brokers=0, controllers=1, initial_controllers=0, start=False) as cluster:
        node = cluster.nodes[101]
        command = [sys.executable, "-m", "squall.nodes.server.format", "--config", str(node.config_path)]
        said = subprocess.run([*command, "--standalone"], capture_output=True, text=True, check=True).stdout
        assert "node.id=101 directory.id=" in said
        again = subprocess.run([*command, "--standalone"], capture_output=True, text=True, check=False)
        assert again.returncode == 254
        assert "is formatted already" in again.stderr
        node.start()
        assert Quorums(cluster).wait_for_voters(101).leader == 101
