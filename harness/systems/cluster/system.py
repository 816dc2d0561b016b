"""The system `cluster`: any Kafka that runs already.

    cluster: {system: {name: cluster, bootstrap: "kafka1:9092,kafka2:9092", properties: client.properties}}

Squall makes the run's topics there, loads them, reads and judges them, and deletes them again. It has no access to the
hosts, so there are no faults; `run/reached.py` says what a run does instead of deploying.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from squall.harness.errors import UsageError
from squall.harness.hosts.deploy import Bundle, HostKind, HostPaths
from squall.harness.hosts.system import ClusterSettings, NodePlan
from squall.harness.plugins.system_limits import DYNAMIC_VOTERS, MUTANTS, REPLICAS, SystemLimits
from squall.harness.scenario.inventory import Inventory
from squall.harness.systems.cluster.client_properties import read_client_properties

NOTHING_DEPLOYED = "the cluster runs already, and nothing is deployed or configured there"
NO_HOSTS = "Squall has no access to the hosts of a cluster that runs already"


def _configured_elsewhere(key: str, value: str, version: str) -> str | None:
    return NOTHING_DEPLOYED


class ReachedCluster:
    """A cluster by its addresses, and how clients connect to it."""

    name = "cluster"
    limits = SystemLimits(
        reached=True,
        lacks={MUTANTS: NOTHING_DEPLOYED, DYNAMIC_VOTERS: NOTHING_DEPLOYED, REPLICAS: NO_HOSTS},
        no_faults=NO_HOSTS,
        wrong_with_setting=_configured_elsewhere,
    )

    def __init__(self, bootstrap: str = "", properties: str = "") -> None:
        if not bootstrap:
            raise UsageError(
                "system cluster: bootstrap: missing",
                remedy="name a broker: --system cluster:HOST:PORT, or in a suite {name: cluster, bootstrap: HOST:PORT}",
            )
        self.bootstrap = addresses_in(bootstrap)
        self.security = read_client_properties(Path(properties)) if properties else {}

    def bundle(self, kind: HostKind) -> Bundle:
        raise UsageError(f"system cluster: {NOTHING_DEPLOYED}")

    def configure(
        self, inventory: Inventory, places: Mapping[str, HostPaths], settings: ClusterSettings
    ) -> dict[str, NodePlan]:
        return {}


def addresses_in(text: str) -> list[tuple[str, int]]:
    """Return the addresses in `host:port,host:port`. Raises UsageError."""
    found = []
    for part in text.split(","):
        host, colon, port = part.strip().rpartition(":")
        if not colon or not host or not port.isdecimal() or not 0 < int(port) < 1 << 16:
            raise UsageError(
                f"system cluster: bootstrap: {part.strip()!r} is not host:port with a port from 1 to 65535"
            )
        found.append((host.strip("[]"), int(port)))
    return found
