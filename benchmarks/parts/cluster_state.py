"""What one chosen broker of a cluster says: a topic-partition's leader and ISR, the metadata quorum.

Clients choose a broker by themselves, and one that is paused makes them wait for seconds. To stamp a failover, the
broker that is queried must be one that runs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from squall.harness.errors import UsageError
from squall.harness.hosts.network import MachineNetwork
from squall.harness.load.tcp import TcpConnector
from squall.harness.operator.admin_connection import AdminConnection, parse_bootstrap
from squall.harness.operator.describe import describe_cluster, describe_quorum
from squall.harness.operator.facts import PartitionFacts, QuorumFacts

Found = TypeVar("Found")
ANSWER_S: Final = 2.0


class BrokerView:
    """The cluster as the broker at `address`, HOST:PORT, describes it."""

    def __init__(self, address: str) -> None:
        (self._address,) = parse_bootstrap(address)

    def partition(self, topic: str, partition: int) -> PartitionFacts | None:
        """Return the facts of a topic-partition; None if the broker does not know it or does not respond."""
        facts = self._query(describe_cluster)
        found = () if facts is None else facts.partitions
        return next((one for one in found if (one.topic, one.partition) == (topic, partition)), None)

    def quorum(self) -> QuorumFacts | None:
        """Return the metadata quorum; None while it has no leader that responds."""
        return self._query(describe_quorum)

    def _query(self, work: Callable[[AdminConnection], Awaitable[Found]]) -> Found | None:
        async def queried() -> Found:
            connection = AdminConnection(TcpConnector(MachineNetwork()), [self._address], seconds=ANSWER_S)
            try:
                return await work(connection)
            finally:
                connection.close()

        try:
            return asyncio.run(queried())
        except UsageError:
            return None
