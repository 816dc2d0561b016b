"""NATS JetStream as the system under test (docs/testing-other-families.md).

A broker of the inventory is a server; all servers are one cluster, and each knows every route. A topic is a stream with
the subject of its name, one topic-partition on as many servers as it has replicas; the active controller is the meta
leader. The load is a program with nats.go (`nats-client/main.go`).

By default a server fsyncs every two minutes, so that what it has acknowledged survives its death but not a loss of
power; `cluster: {config: {sync_interval: always}}` changes that.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Final

from squall.harness.hosts.system import BROKER_PORT, ClusterSettings
from squall.harness.load.tcp import TcpConnector
from squall.harness.plugins.system_limits import SystemLimits
from squall.harness.systems.go_servers import GoServers, Launch, Member, newest_first, texts
from squall.harness.systems.nats.admin import NatsAdmin
from squall.harness.systems.nats.configuration import Server, configuration, wrong_with_setting
from squall.harness.systems.nats.streams import wrong_with_stream
from squall.harness.systems.without_kafka import LACKED_FAULTS, LACKS, wrong_with_load
from squall.workloads.clients.common.client import Admin
from squall.workloads.core.ports import Connector

MODULE: Final = "nats-server-"
PACKAGE: Final = "github.com/nats-io/nats-server/v2"
MONITOR_PORT: Final = 8222
ROUTE_PORT: Final = 6222
ELECTION_SECONDS: Final = 10.0
"""JetStream waits up to 9 s for a leader before it elects another."""


class NatsJetStream(GoServers):
    """A cluster of NATS servers with JetStream."""

    name = "nats"
    module = MODULE
    package = PACKAGE
    client_module = Path(__file__).parent / "nats-client"
    limits = SystemLimits(
        versions=newest_first(MODULE),
        lacks=LACKS,
        faults=LACKED_FAULTS,
        start_seconds=ELECTION_SECONDS,
        wrong_with_setting=wrong_with_setting,
        programs=("log",),
        wrong_with_topic=wrong_with_stream,
        wrong_with_load=partial(
            wrong_with_load,
            acknowledges="JetStream acknowledges what a majority of replicas has",
            without=("admin", "delete_records", "consumer_racks"),
        ),
    )

    def launch(
        self, member: Member, members: Sequence[Member], directory: str, data: str, run: ClusterSettings
    ) -> Launch:
        path = f"{directory}/nats.conf"
        server = Server(
            name=member.name,
            clients=f"{member.address}:{BROKER_PORT}",
            monitor=f"{member.address}:{MONITOR_PORT}",
            routes=f"{member.address}:{ROUTE_PORT}",
            store=data,
        )
        routes = [f"{one.address}:{ROUTE_PORT}" for one in members]
        return Launch(("-c", path), {path: configuration(server, routes, texts(run), run.run_id)})

    def admin(self, connector: Connector, brokers: Sequence[tuple[str, int]]) -> Admin:
        assert isinstance(connector, TcpConnector), "nats-py opens connections of its own"
        return NatsAdmin(connector.network, self.members, BROKER_PORT, MONITOR_PORT)
