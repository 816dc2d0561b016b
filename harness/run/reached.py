"""A testbed for a cluster that runs already: it is found by its addresses, and only the run's topics are made there.

    testbed = ReachedTestbed(network, topics, bootstrap, security)
    await testbed.deploy(system, settings)       # finds the brokers, and refuses what would not be this run's
    …                                            # a `World` without hosts
    await testbed.close()                        # deletes the topics that the run has made

What is on the cluster stays untouched: a topic of the run's name that is there already refuses the run.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Final

from squall.harness.errors import UsageError
from squall.harness.hosts.network import Network
from squall.harness.hosts.system import ClusterSettings, System
from squall.harness.load.secure import NotAuthenticated, SecureConnector
from squall.harness.run.testbed import Testbed
from squall.harness.scenario.admin import ClusterAdmin
from squall.harness.scenario.cluster import KafkaClusterView, NodeNames
from squall.harness.scenario.inventory import Inventory
from squall.nodes.protocol.messages.metadata import MetadataRequest, MetadataResponse
from squall.results.checkers.common.text import listed
from squall.workloads.clients.native.admin import CLIENT_ID, METADATA_VERSION, NativeAdmin
from squall.workloads.clients.native.connection import KafkaConnection
from squall.workloads.clients.native.operator import NativeOperator

Address = tuple[str, int]
ANSWER_SECONDS: Final = 5.0
DELETE_SECONDS: Final = 20.0


class ReachedTestbed(Testbed):
    """A cluster by its addresses; implements `World` without hosts."""

    def __init__(
        self, network: Network, topics: Mapping[str, int], bootstrap: Sequence[Address], security: Mapping[str, str]
    ) -> None:
        super().__init__(Inventory("a cluster that runs already", ()), network, topics)
        self._bootstrap = list(bootstrap)
        self._security = security
        self._brokers: list[Address] = []
        self._made: tuple[str, ...] = ()

    def connector(self) -> SecureConnector:
        return SecureConnector(self.network, self._security)

    def bootstrap(self) -> list[Address]:
        return self._brokers or self._bootstrap

    def controller_addresses(self) -> list[Address]:
        """Brokers forward what is for controllers."""
        return []

    async def deploy(self, system: System, settings: ClusterSettings, *, faults: bool = True) -> None:
        """Find the brokers. Raises UsageError if one cannot be reached, or if a topic of the run is there already."""
        answer = await self._metadata()
        brokers = {broker.node_id: (broker.host, broker.port) for broker in answer.brokers}
        self._brokers = sorted(brokers.values())
        await self._refuse_unreachable(brokers)
        there = {topic.name for topic in answer.topics if topic.name is not None}
        if taken := sorted(there & set(self.topics)):
            raise UsageError(
                f"{self._where()}: {listed(taken)} {'is a topic' if len(taken) == 1 else 'are topics'} there already;"
                " a run judges only topics that it has made",
                remedy="delete them there, or give the suite's topics other names",
            )
        self._made = tuple(self.topics)
        self._admin = NativeAdmin(self.connector(), self._brokers)
        names = NodeNames({node: f"{host}:{port}" for node, (host, port) in brokers.items()})
        self._cluster = KafkaClusterView(self._admin, names, tuple(names.by_id.values()), (), self.topics)

    def operator(self) -> ClusterAdmin:
        return ClusterAdmin(NativeOperator(self.connector(), self.bootstrap()), {}, {})

    async def start(self) -> None:
        """It runs already."""

    async def close(self) -> None:
        """Delete the run's topics, and close every connection."""
        if isinstance(self._admin, NativeAdmin):
            for topic in self._made:
                try:
                    await asyncio.wait_for(self._admin.delete_topic(topic), DELETE_SECONDS)
                except (OSError, TimeoutError):
                    continue  # it may never have been made; what stays there refuses the next run by name
        await super().close()

    def _where(self) -> str:
        return ", ".join(f"{host}:{port}" for host, port in self._bootstrap)

    async def _metadata(self) -> MetadataResponse:
        """Return what the first bootstrap address that answers says. Raises UsageError if none does."""
        problems = []
        for host, port in self._bootstrap:
            try:
                return await self._ask(host, port)
            except NotAuthenticated as refused:
                raise UsageError(
                    f"{host}:{port}: {refused}",
                    remedy="check the user, the password and the mechanism in the properties",
                ) from None
            except OSError as trouble:
                problems.append(f"{host}:{port}: {trouble or 'no answer in time'}")
        raise UsageError(
            "no bootstrap address answers as a Kafka broker:\n    " + "\n    ".join(problems),
            remedy="check addresses and ports, and security.protocol in the client properties",
        )

    async def _ask(self, host: str, port: int) -> MetadataResponse:
        connection = await KafkaConnection.connect(self.connector(), host, port, CLIENT_ID)
        try:
            request = MetadataRequest(topics=None, allow_auto_topic_creation=False)
            return await connection.request(request, METADATA_VERSION, MetadataResponse, ANSWER_SECONDS)
        finally:
            connection.close()

    async def _refuse_unreachable(self, brokers: Mapping[int, Address]) -> None:
        """Raise UsageError for brokers whose advertised address does not answer from here."""

        async def problem(node: int, host: str, port: int) -> str | None:
            try:
                await self._ask(host, port)
            except OSError as trouble:
                reason = str(trouble) or "no answer in time"
                return f"broker {node} calls itself {host}:{port}, which does not answer from here: {reason}"
            return None

        found = await asyncio.gather(*(problem(node, *address) for node, address in sorted(brokers.items())))
        if wrong := [one for one in found if one is not None]:
            raise UsageError(
                f"{self._where()}: " + "; ".join(wrong),
                remedy="have `advertised.listeners` name addresses that this machine can reach",
            )
