"""The conformance check on real clusters: ours, and Apache Kafka, which says whether the check itself is right."""

from __future__ import annotations

import asyncio
import random
import time

import pytest

from squall.harness.conformance.check import PARTS, check_conformance
from squall.harness.conformance.client import Address, ConformanceClient
from squall.harness.hosts.network import MachineNetwork
from squall.harness.load.tcp import TcpConnector
from tests.clusters import Cluster
from tests.interop.apache_kafka import ApacheKafka

pytestmark = [pytest.mark.xdist_group("interop"), pytest.mark.timeout(120)]


def addresses(bootstrap: str) -> list[Address]:
    return [(host, int(port)) for host, _, port in (one.partition(":") for one in bootstrap.split(","))]


def checked(bootstrap: str, controllers: list[Address], seed: int, *, ours: bool) -> tuple[str, ...]:
    async def check() -> tuple[str, ...]:
        client = ConformanceClient(
            TcpConnector(MachineNetwork()),
            addresses(bootstrap),
            random.Random(seed),
            lambda: int(time.time() * 1000),
            controllers,
            knows_all=ours,
        )
        try:
            return await check_conformance(client)
        finally:
            await client.close()

    return asyncio.run(check())


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_our_cluster_responds_as_the_protocol_promises(cluster: Cluster, seed: int) -> None:
    controllers = [("127.0.0.1", port) for port in cluster.controller_ports.values()]
    parts = checked(cluster.bootstrap, controllers, seed, ours=True)
    assert sorted(parts) == sorted(part.__name__ for part in PARTS)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_apache_kafka_responds_as_the_check_expects(apache: ApacheKafka, seed: int) -> None:
    parts = checked(apache.bootstrap, addresses(apache.controllers), seed, ours=False)
    assert sorted(parts) == sorted(part.__name__ for part in PARTS)
