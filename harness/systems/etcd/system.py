"""etcd as the system under test (docs/testing-other-families.md).

A broker of the inventory is a member. A register is a key; for the workload `log` a topic is a key, whose values are
records with the revision as offset, and which is read by a watch. The load is a program with etcd's Go client
(`etcd-client/main.go`).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Final

from squall.harness.hosts.system import BROKER_PORT, ClusterSettings
from squall.harness.load.tcp import TcpConnector
from squall.harness.plugins.system_limits import SystemLimits
from squall.harness.systems.etcd.admin import EtcdAdmin
from squall.harness.systems.etcd.members import Peer, arguments, wrong_with_setting, wrong_with_topic
from squall.harness.systems.go_servers import GoServers, Launch, Member, newest_first, texts
from squall.harness.systems.without_kafka import LACKED_FAULTS, LACKS, wrong_with_load
from squall.workloads.clients.common.client import Admin
from squall.workloads.core.ports import Connector

MODULE: Final = "etcd-"
PEER_PORT: Final = 2380
START_SECONDS: Final = 5.0
WIPED: Final = "a member without its data does not start again; it has to be removed from the cluster and added anew"


class Etcd(GoServers):
    """A cluster of members of etcd."""

    name = "etcd"
    module = MODULE
    package = "."
    client_module = Path(__file__).parent / "etcd-client"
    limits = SystemLimits(
        versions=newest_first(MODULE),
        lacks=LACKS,
        faults={**LACKED_FAULTS, "wipe-disk": WIPED},
        start_seconds=START_SECONDS,
        wrong_with_setting=wrong_with_setting,
        programs=("register", "log"),
        wrong_with_topic=wrong_with_topic,
        wrong_with_load=partial(
            wrong_with_load,
            acknowledges="etcd acknowledges what a majority of members has",
            without=("admin", "delete_records", "list_offsets", "consumer_racks"),
        ),
    )

    def launch(
        self, member: Member, members: Sequence[Member], directory: str, data: str, run: ClusterSettings
    ) -> Launch:
        peers = {one.name: self._peer(one) for one in members}
        said = arguments(peers[member.name], list(peers.values()), data, texts(run), run.run_id)
        return Launch(said, {})

    def admin(self, connector: Connector, brokers: Sequence[tuple[str, int]]) -> Admin:
        assert isinstance(connector, TcpConnector), "the gateway is asked over connections of its own"
        return EtcdAdmin(connector.network, self.members, BROKER_PORT)

    def _peer(self, member: Member) -> Peer:
        return Peer(member.name, f"{member.address}:{BROKER_PORT}", f"{member.address}:{PEER_PORT}")
